/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/policy_decide - may it? Three-valued, so that a decision on fewer facts is never wrong.
 *
 * 1. Each rule fits, does not fit, or may fit once more is known (then `needs` says what).
 * 2. A list of rules so gives a set of verdicts that are still possible.
 * 3. The verdict is sure when rules and floor together leave one.
 * Learning a fact only ever turns "may fit" into one of the other two, which only shrinks the set
 * of step 2: that is why a sure verdict stays.
 */
#include "core/policy.h"
#include "core/policy_path.h"

#include <string.h>

enum fit { FIT_NO, FIT_YES, FIT_MAYBE };

#define TRANSPORTS (POLICY_HTTPS | POLICY_HTTP | POLICY_TCP)

static bool name_fits(const struct policy_host *h, const char *name)
{
	size_t n, suffix;

	switch (h->kind) {
	case POLICY_HOST_ANY: return true;
	case POLICY_HOST_EXACT: return strcmp(h->name, name) == 0;
	case POLICY_HOST_SUFFIX:
		n = strlen(name);
		suffix = strlen(h->name);
		return n > suffix + 1 && name[n - suffix - 1] == '.' &&
		       strcmp(name + n - suffix, h->name) == 0;
	case POLICY_HOST_NET: break;
	}
	return false;
}

static bool address_fits(
	const struct policy_rule *r, const struct policy_host *h, const struct address *a)
{
	if (h->kind != POLICY_HOST_NET)
		return r->action == POLICY_DENY && h->kind == POLICY_HOST_ANY;
	return r->action == POLICY_DENY ? address_in(a, &h->net) : address_net_names(&h->net, a);
}

static enum fit hosts_fit(
	const struct policy_rule *r, const struct policy_question *q, unsigned *needs)
{
	bool may_lead = false;

	for (size_t i = 0; i < r->hosts_n; i++) {
		const struct policy_host *h = &r->hosts[i];

		if (q->name && name_fits(h, q->name))
			return FIT_YES;
		/* Where a name leads makes it denied, never allowed: or all had to be looked up. */
		if (q->name && (h->kind != POLICY_HOST_NET || r->action != POLICY_DENY))
			continue;
		if (q->addr && address_fits(r, h, q->addr))
			return FIT_YES;
		may_lead |= !q->addr;
	}
	if (!may_lead)
		return FIT_NO;
	*needs |= POLICY_NEEDS_ADDRESS;
	return FIT_MAYBE;
}

/* With everything known: does what is spoken suit the rule on this port? */
static bool speech_fits(const struct policy_rule *r, unsigned protocol, uint16_t port)
{
	unsigned spoken = protocol | POLICY_TCP;
	bool has_default = r->ports_n == 0 && r->action != POLICY_DENY;

	if (has_default && port != ((protocol & POLICY_HTTPS) ? 443 : 80))
		return false;
	if (has_default && (protocol & POLICY_TCP))
		return false;
	/* "https, ws" is inside TLS: else a box could have a credential sent in clear. */
	if (r->action != POLICY_DENY && (protocol & POLICY_WS) && (protocol & POLICY_HTTP) &&
		(r->protocols & POLICY_HTTPS))
		spoken &= ~(unsigned)POLICY_WS;
	return (r->protocols & spoken) != 0;
}

static bool port_fits(const struct policy_rule *r, uint16_t port)
{
	for (size_t i = 0; i < r->ports_n; i++) {
		if (port >= r->ports[i].first && port <= r->ports[i].last)
			return true;
	}
	return r->ports_n == 0;
}

static bool is_any_port(const struct policy_rule *r)
{
	for (size_t i = 0; i < r->ports_n; i++) {
		if (r->ports[i].first <= 1 && r->ports[i].last == UINT16_MAX)
			return true;
	}
	return r->ports_n == 0 && r->action == POLICY_DENY;
}

/* Bit 0: can be false, bit 1: can be true, over the carriers and upgrades still possible. */
static unsigned speech_can(const struct policy_rule *r, unsigned carrier, bool may_upgrade,
	bool is_upgrade, uint16_t port)
{
	unsigned can = 0;

	for (int ws = 0; ws <= 1; ws++) {
		if ((ws && (carrier == POLICY_TCP || !(may_upgrade || is_upgrade))) ||
			(!ws && is_upgrade))
			continue;
		can |= speech_fits(r, carrier | (ws ? POLICY_WS : 0), port) ? 2 : 1;
	}
	return can;
}

/* Port and protocol together: the ports that go without saying depend on the protocol. */
static enum fit speech_fit(
	const struct policy_rule *r, const struct policy_question *q, unsigned *needs)
{
	static const unsigned carriers[] = {POLICY_HTTPS, POLICY_HTTP, POLICY_TCP};
	unsigned known = q->protocol & TRANSPORTS;
	/* A bare POLICY_WS: whichever carries it. */
	unsigned open = known ? known : q->protocol ? POLICY_HTTPS | POLICY_HTTP : TRANSPORTS;
	unsigned can = 0, each = 0;

	if (q->port && !port_fits(r, q->port))
		return FIT_NO;
	for (size_t i = 0; i < 3; i++) {
		/* With the port unknown, the one that suits the carrier best. */
		uint16_t port = q->port ? q->port : carriers[i] == POLICY_HTTPS ? 443 : 80;
		unsigned one;

		if (!(open & carriers[i]))
			continue;
		one = speech_can(r, carriers[i], !q->method, (q->protocol & POLICY_WS) != 0, port);
		can |= one;
		each |= one == 3;
	}
	if (!(can & 2))
		return FIT_NO;
	if (!q->port && !is_any_port(r))
		*needs |= POLICY_NEEDS_PORT;
	if (can == 3 && each)
		*needs |= POLICY_NEEDS_REQUEST;
	if (can == 3 && !known)
		*needs |= POLICY_NEEDS_PROTOCOL;
	return (!q->port && !is_any_port(r)) || can == 3 ? FIT_MAYBE : FIT_YES;
}

static enum fit program_fits(
	const struct policy_rule *r, const struct policy_question *q, unsigned *needs)
{
	if (r->programs.n == 0)
		return FIT_YES;
	if (!q->program) {
		*needs |= POLICY_NEEDS_PROGRAM;
		return FIT_MAYBE;
	}
	if (q->program[0] == '\0')
		return r->action == POLICY_ALLOW ? FIT_NO : FIT_YES;
	for (size_t i = 0; i < r->programs.n; i++) {
		if (policy_path_matches(r->programs.v[i], q->program))
			return FIT_YES;
	}
	return FIT_NO;
}

static enum fit request_fits(
	const struct policy_rule *r, const struct policy_question *q, unsigned *needs)
{
	if (r->methods.n == 0 && r->paths.n == 0)
		return FIT_YES;
	if (q->protocol == POLICY_TCP) /* no requests in there that we could see */
		return FIT_NO;
	if (q->method && r->methods.n > 0 && !strv_has(&r->methods, q->method))
		return FIT_NO;
	if (q->path && r->paths.n > 0 &&
		!(r->action == POLICY_ALLOW ? policy_paths_surely(&r->paths, q->path)
					    : policy_paths_perhaps(&r->paths, q->path)))
		return FIT_NO;
	if ((q->method || r->methods.n == 0) && (q->path || r->paths.n == 0) && q->protocol)
		return FIT_YES;
	*needs |= POLICY_NEEDS_REQUEST | (q->protocol ? 0 : POLICY_NEEDS_PROTOCOL);
	return FIT_MAYBE;
}

typedef enum fit (*fit_fn)(
	const struct policy_rule *r, const struct policy_question *q, unsigned *needs);

static enum fit rule_fits(
	const struct policy_rule *r, const struct policy_question *q, unsigned *needs)
{
	static const fit_fn parts[] = {hosts_fit, speech_fit, program_fits, request_fits};
	enum fit all = FIT_YES;
	unsigned open = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		enum fit one = parts[i](r, q, &open);

		if (one == FIT_NO)
			return FIT_NO;
		if (one == FIT_MAYBE)
			all = FIT_MAYBE;
	}
	*needs |= open;
	return all;
}

/* An allow that wins over ask; beside the values of enum policy_action. */
#define APPROVED (POLICY_ASK + 1)
#define SORTS    (APPROVED + 1)

struct tally { /* of one list; by sort of rule */
	enum fit fit[SORTS];
	unsigned needs[SORTS];
	const struct policy_rule
		*rule[SORTS]; /* the one that fits: the first, or the first with bindings */
	bool must_intercept;
};

static void count(
	struct tally *t, const struct policy_rule *rules, size_t n, const struct policy_question *q)
{
	*t = (struct tally){0};
	for (size_t i = 0; i < n; i++) {
		const struct policy_rule *r = &rules[i];
		unsigned sort = r->is_approved ? APPROVED : (unsigned)r->action;
		enum fit fit = rule_fits(r, q, &t->needs[sort]);

		if (fit == FIT_NO)
			continue;
		t->must_intercept |= r->action != POLICY_DENY && r->must_intercept;
		if (fit == FIT_MAYBE) {
			if (t->fit[sort] == FIT_NO)
				t->fit[sort] = FIT_MAYBE;
			continue;
		}
		t->fit[sort] = FIT_YES;
		if (!t->rule[sort] || (r->bindings_n > 0 && t->rule[sort]->bindings_n == 0))
			t->rule[sort] = r;
	}
}

/* The verdicts that are still possible, as bits of 1u << action. */
static unsigned possible(const struct tally *t)
{
	unsigned set = 0;

	if (t->fit[POLICY_DENY] != FIT_NO ||
		(t->fit[POLICY_ALLOW] != FIT_YES && t->fit[POLICY_ASK] != FIT_YES &&
			t->fit[APPROVED] != FIT_YES))
		set |= 1u << POLICY_DENY;
	if (t->fit[POLICY_DENY] == FIT_YES)
		return set;
	if (t->fit[POLICY_ASK] != FIT_NO && t->fit[APPROVED] != FIT_YES)
		set |= 1u << POLICY_ASK;
	if (t->fit[APPROVED] != FIT_NO ||
		(t->fit[POLICY_ASK] != FIT_YES && t->fit[POLICY_ALLOW] != FIT_NO))
		set |= 1u << POLICY_ALLOW;
	return set;
}

static unsigned still_open(const struct tally *t)
{
	unsigned needs = 0;

	for (int i = 0; i < SORTS; i++)
		needs |= t->fit[i] == FIT_MAYBE ? t->needs[i] : 0;
	return needs;
}

static enum policy_action stricter(enum policy_action a, enum policy_action b)
{
	if (a == POLICY_DENY || b == POLICY_DENY)
		return POLICY_DENY;
	return a == POLICY_ASK ? a : b;
}

static unsigned both(unsigned a, unsigned b)
{
	unsigned set = 0;

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned j = 0; j < 3; j++) {
			if ((a >> i & 1) && (b >> j & 1))
				set |= 1u << stricter((enum policy_action)i, (enum policy_action)j);
		}
	}
	return set;
}

/* Does an allow rule of the list say that names may lead to this address? */
static bool names_address(
	const struct policy_rule *rules, size_t n, const struct policy_question *q)
{
	for (size_t i = 0; i < n; i++) {
		const struct policy_rule *r = &rules[i];
		unsigned ignored = 0;

		if (r->action != POLICY_ALLOW || speech_fit(r, q, &ignored) == FIT_NO)
			continue;
		for (size_t j = 0; j < r->hosts_n; j++) {
			if (r->hosts[j].kind == POLICY_HOST_NET &&
				address_net_names(&r->hosts[j].net, q->addr))
				return true;
		}
	}
	return false;
}

static bool may_private(const struct policy *p, const struct policy_question *q)
{
	if (!q->addr)
		return false;
	if (!q->name) /* a rule for bare addresses fits only what it names */
		return true;
	return names_address(p->rules, p->rules_n, q) &&
	       (p->floor_n == 0 || names_address(p->floor, p->floor_n, q));
}

static bool is_one(unsigned set)
{
	return (set & (set - 1)) == 0;
}

void policy_decide(
	const struct policy *p, const struct policy_question *q, struct policy_answer *ret)
{
	struct tally rules, floor;
	unsigned by_rules, by_floor, set;

	count(&rules, p->rules, p->rules_n, q);
	count(&floor, p->floor, p->floor_n, q);
	by_rules = possible(&rules);
	by_floor = p->floor_n > 0 ? possible(&floor) : 1u << POLICY_ALLOW;
	set = both(by_rules, by_floor);
	*ret = (struct policy_answer){.action = POLICY_DENY};
	if (!is_one(set)) {
		ret->needs = (is_one(by_rules) ? 0 : still_open(&rules)) |
			     (is_one(by_floor) ? 0 : still_open(&floor));
		if (ret->needs != POLICY_NEEDS_ADDRESS)
			ret->needs &= ~(unsigned)POLICY_NEEDS_ADDRESS;
		ret->must_intercept = rules.must_intercept;
		return;
	}
	ret->action = (enum policy_action)__builtin_ctz(set);
	if (ret->action == POLICY_DENY) {
		ret->by_floor = by_floor == 1u << POLICY_DENY;
		ret->rule = ret->by_floor ? floor.rule[POLICY_DENY] : rules.rule[POLICY_DENY];
		return;
	}
	/* The floor may have made an ask of it; budgets and credentials are the rule's. */
	ret->rule = rules.rule[APPROVED]     ? rules.rule[APPROVED]
		    : rules.rule[POLICY_ASK] ? rules.rule[POLICY_ASK]
					     : rules.rule[POLICY_ALLOW];
	ret->must_intercept = (q->protocol & (POLICY_HTTPS | POLICY_HTTP)) &&
			      (rules.must_intercept || p->budget.requests > 0);
	ret->may_private = may_private(p, q);
	/* Allowed whatever is spoken, but credentials may have to go in. */
	if (q->protocol == 0 && rules.must_intercept)
		ret->needs = POLICY_NEEDS_PROTOCOL;
}

const struct policy_rule *policy_near(const struct policy *p, const struct policy_question *q)
{
	for (size_t i = 0; i < p->rules_n; i++) {
		const struct policy_rule *r = &p->rules[i];
		unsigned ignored = 0;

		if (r->action != POLICY_DENY && hosts_fit(r, q, &ignored) == FIT_YES &&
			speech_fit(r, q, &ignored) != FIT_NO &&
			(program_fits(r, q, &ignored) == FIT_NO ||
				request_fits(r, q, &ignored) == FIT_NO))
			return r;
	}
	return NULL;
}

bool policy_may_dial(const struct policy *p, const struct policy_question *q,
	const struct address *a, struct policy_answer *ret)
{
	struct policy_question there = *q;

	there.addr = a;
	policy_decide(p, &there, ret);
	if (ret->needs || ret->action == POLICY_DENY)
		return false;
	return ret->may_private || address_kind(a) == ADDRESS_PUBLIC;
}
