/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Refusals of a box: filled in the same way everywhere, counted, and told to the owner. The same
 * one again within a second is only counted, so that a loop in a box is no flood outside.
 */
#include "base/mem.h"
#include "egress/egress_impl.h"

#include <stdio.h>
#include <time.h>

#define TELL_MS 1000

static uint64_t unix_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail with a valid clock */
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static const char *protocol_name(unsigned protocol)
{
	if (protocol & POLICY_WS)
		return "ws"; /* together with what carries it */
	switch (protocol) {
	case POLICY_HTTPS: return "https";
	case POLICY_HTTP: return "http";
	case POLICY_TCP: return "tcp";
	default: return "";
	}
}

/* Without the query: it may hold anything. */
static void put_path(char *out, size_t size, const char *path)
{
	size_t n = strcspn(path, "?#");

	(void)snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), path);
}

void denial_fill(struct denial *d, enum denial_kind kind, const struct egress_flow *f,
	const char *method, const char *path, const char *why)
{
	const struct policy_rule *r = f->rule;

	*d = (struct denial){.kind = kind, .port = f->port, .at_ms = unix_ms(), .count = 1};
	if (f->name[0])
		(void)snprintf(d->name, sizeof(d->name), "%s", f->name);
	else if (f->addr.family)
		address_format(&f->addr, d->name);
	(void)snprintf(d->protocol, sizeof(d->protocol), "%s", protocol_name(f->protocol));
	if (method)
		(void)snprintf(d->method, sizeof(d->method), "%s", method);
	if (path)
		put_path(d->path, sizeof(d->path), path);
	if (r && r->id)
		(void)snprintf(d->rule, sizeof(d->rule), "%s", r->id);
	if (!why && r && r->reason)
		why = r->reason;
	if (why)
		(void)snprintf(d->reason, sizeof(d->reason), "%s", why);
	if (kind == DENIAL_NO_RULE && f->box && f->box->policy) {
		struct policy_question q = {.name = f->name[0] ? f->name : NULL,
			.addr = f->addr.family ? &f->addr : NULL,
			.port = f->port,
			.protocol = f->protocol,
			.method = method,
			.path = path};

		denial_near(d, f->box->policy, &q);
	}
	denial_explain(d);
}

static bool is_same(const struct denial *a, const struct denial *b)
{
	return a->kind == b->kind && a->port == b->port && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->protocol, b->protocol) == 0 && strcmp(a->method, b->method) == 0 &&
	       strcmp(a->path, b->path) == 0 && strcmp(a->rule, b->rule) == 0;
}

static struct violation_record *record(struct egress_box *b, const struct denial *d)
{
	struct violation_record *oldest = NULL;

	for (size_t i = 0; i < b->violations_n; i++) {
		struct violation_record *v = &b->violations[i];

		if (is_same(&v->d, d)) {
			v->d.count++;
			v->d.at_ms = d->at_ms;
			return v;
		}
		if (!oldest || v->d.at_ms < oldest->d.at_ms)
			oldest = v;
	}
	if (!oldest || b->violations_n < EGRESS_VIOLATIONS) {
		if ((b->violations_n & (b->violations_n - 1)) == 0) {
			size_t size = b->violations_n > 0 ? b->violations_n * 2 : 1;

			b->violations =
				mem_must(realloc(b->violations, size * sizeof(*b->violations)));
		}
		oldest = &b->violations[b->violations_n++];
	}
	*oldest = (struct violation_record){.d = *d};
	oldest->d.count = 1;
	return oldest;
}

static void count_denied(struct egress_box *b, const struct denial *d)
{
	/* Names that are refused are free for a box to make up: they leave room for the others. */
	bool has_room = b->dests_n < EGRESS_DESTS_MAX / 2;
	/* First this: it may move the array. */
	size_t i = account_dest(b, has_room ? d->name : "", has_room ? d->port : 0);

	b->engine->totals.denied++;
	b->dests[i].denied++;
}

void violation_note(struct egress_box *b, const struct denial *d)
{
	uint64_t now = loop_now_ms(b->engine->loop);
	struct violation_record *v;

	if (d->kind == DENIAL_UPSTREAM || b->is_gone)
		return;
	count_denied(b, d);
	v = record(b, d);
	if (v->d.count > 1 && now - v->told_ms < TELL_MS)
		return;
	v->told_ms = now;
	if (b->engine->events.denied)
		b->engine->events.denied(b->id, &v->d, b->engine->arg);
}

void account_allowed(
	struct egress_flow *f, const char *method, const char *path, uint64_t up, uint64_t down)
{
	struct egress *e = f->box->engine;
	struct denial d;

	if (!e->events.allowed || f->box->is_gone)
		return;
	denial_fill(&d, DENIAL_NO_RULE, f, method, path, "");
	d.reason[0] = d.instead[0] = '\0';
	e->events.allowed(f->box->id, &d, up, down, e->arg);
}
