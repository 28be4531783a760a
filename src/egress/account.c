/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What went through, by destination, and what the budgets say about it. A budget belongs to a rule
 * id (or to the whole policy, id ""), so that a new generation of the policy does not refill it.
 */
#include "base/mem.h"
#include "egress/egress_impl.h"

#include <stdio.h>

/* ---- destinations ---- */

static bool is_dest(const struct egress_usage *u, const char *name, uint16_t port)
{
	return u->port == port && strcmp(u->name, name) == 0;
}

size_t account_dest(struct egress_box *b, const char *name, uint16_t port)
{
	for (size_t i = 0; i < b->dests_n; i++)
		if (is_dest(&b->dests[i], name, port))
			return i;
	if (b->dests_n >= EGRESS_DESTS_MAX && *name)
		return account_dest(b, "", 0);
	if ((b->dests_n & (b->dests_n - 1)) == 0) { /* full at each power of two */
		size_t size = b->dests_n > 0 ? b->dests_n * 2 : 1;

		b->dests = mem_must(realloc(b->dests, size * sizeof(*b->dests)));
	}
	b->dests[b->dests_n] = (struct egress_usage){.port = port};
	(void)snprintf(b->dests[b->dests_n].name, sizeof(b->dests->name), "%s", name);
	return b->dests_n++;
}

struct egress_usage *account_usage(struct egress_flow *f)
{
	struct egress_box *b = f->box;
	char text[ADDRESS_TEXT_MAX];
	const char *name = f->name;

	if (!*name) {
		address_format(&f->addr, text);
		name = text;
	}
	if (f->dest >= b->dests_n || !is_dest(&b->dests[f->dest], name, f->port))
		f->dest = account_dest(b, name, f->port);
	return &b->dests[f->dest];
}

/* ---- budgets ---- */

static struct budget_state *state_of(struct egress_box *b, const char *rule)
{
	for (size_t i = 0; i < b->budgets_n; i++)
		if (strcmp(b->budgets[i].rule, rule) == 0)
			return &b->budgets[i];
	b->budgets = mem_must(realloc(b->budgets, (b->budgets_n + 1) * sizeof(*b->budgets)));
	b->budgets[b->budgets_n] = (struct budget_state){.since_ms = loop_now_ms(b->engine->loop)};
	(void)snprintf(b->budgets[b->budgets_n].rule, sizeof(b->budgets->rule), "%s", rule);
	return &b->budgets[b->budgets_n++];
}

static bool is_limited(const struct policy_budget *g)
{
	return g->bytes_up || g->bytes_down || g->requests;
}

struct budget_state *account_budget(
	struct egress_box *b, const struct policy_budget *g, const char *rule)
{
	struct budget_state *s;
	uint64_t now = loop_now_ms(b->engine->loop);

	if (!is_limited(g))
		return NULL;
	s = state_of(b, rule);
	if (g->per_ms > 0 && now - s->since_ms >= g->per_ms) {
		s->bytes_up = s->bytes_down = s->requests = 0;
		s->since_ms = now;
	}
	return s;
}

static bool charge_bytes(struct egress_box *b, const struct policy_budget *g, const char *rule,
	uint64_t up, uint64_t down)
{
	struct budget_state *s = account_budget(b, g, rule);

	if (!s)
		return true;
	s->bytes_up += up;
	s->bytes_down += down;
	return (g->bytes_up == 0 || s->bytes_up <= g->bytes_up) &&
	       (g->bytes_down == 0 || s->bytes_down <= g->bytes_down);
}

bool account_bytes(struct egress_flow *f, uint64_t up, uint64_t down)
{
	struct egress_usage *u = account_usage(f);
	struct egress_box *b = f->box;
	bool is_fine;

	f->up += up;
	f->down += down;
	u->bytes_up += up;
	u->bytes_down += down;
	b->engine->totals.bytes_up += up;
	b->engine->totals.bytes_down += down;
	is_fine = charge_bytes(b, &b->policy->budget, "", up, down);
	if (f->rule && !charge_bytes(b, &f->rule->budget, f->rule->id, up, down))
		is_fine = false;
	return is_fine;
}

static uint64_t left_of(
	struct egress_box *b, const struct policy_budget *g, const char *rule, bool is_up)
{
	const struct budget_state *s = account_budget(b, g, rule);
	uint64_t limit = is_up ? g->bytes_up : g->bytes_down;
	uint64_t used;

	if (!s || limit == 0)
		return UINT64_MAX;
	used = is_up ? s->bytes_up : s->bytes_down;
	return used < limit ? limit - used : 0;
}

uint64_t account_left(struct egress_flow *f, bool is_up)
{
	uint64_t all = left_of(f->box, &f->box->policy->budget, "", is_up);
	uint64_t rule = f->rule ? left_of(f->box, &f->rule->budget, f->rule->id, is_up) : all;

	return all < rule ? all : rule;
}

static bool has_request(struct egress_box *b, const struct policy_budget *g, const char *rule)
{
	const struct budget_state *s = account_budget(b, g, rule);

	return !s || g->requests == 0 || s->requests < g->requests;
}

static void take_request(struct egress_box *b, const struct policy_budget *g, const char *rule)
{
	struct budget_state *s = account_budget(b, g, rule);

	if (s)
		s->requests++;
}

bool account_request(struct egress_flow *f)
{
	struct egress_box *b = f->box;

	if (!has_request(b, &b->policy->budget, "") ||
		(f->rule && !has_request(b, &f->rule->budget, f->rule->id)))
		return false;
	take_request(b, &b->policy->budget, "");
	if (f->rule)
		take_request(b, &f->rule->budget, f->rule->id);
	account_usage(f)->requests++;
	b->engine->totals.requests++;
	/* Bytes that are gone already stop the next request before it starts. */
	return account_left(f, true) > 0 && account_left(f, false) > 0;
}

void account_latency(struct egress_flow *f, uint64_t us)
{
	struct egress_usage *u = account_usage(f);

	u->latency_us += us;
	u->latency_n++;
}

size_t egress_box_usage(
	const struct egress *e, const char *id, struct egress_usage *ret, size_t max)
{
	const struct egress_box *b = box_find(e, id);

	if (!b)
		return 0;
	if (b->dests_n > 0)
		memcpy(ret, b->dests, (b->dests_n < max ? b->dests_n : max) * sizeof(*ret));
	return b->dests_n;
}

void egress_totals(const struct egress *e, struct egress_totals *ret)
{
	*ret = e->totals;
	ret->boxes = e->boxes_n;
	ret->flows = e->flows_n;
}
