/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the owner is told. A box decides how often something happens to it: identical things that
 * wait are one thing with a count, a box has so many places, all together so many; past that the
 * oldest go and are counted. Nothing is sent faster than the owner reads.
 */
#include "base/mem.h"
#include "base/text.h"
#include "daemon/egress_impl.h"
#include "io/conn.h"

#include <stdio.h>
#include <string.h>

#define WAIT_MAX   512 /* entries that wait, of all boxes */
#define BOX_MAX    64  /* of one box */
#define SOON_MS    50  /* past AT_ONCE refusals in so long, the others wait for its end */
#define AT_ONCE    32
#define ALLOWED_MS 1000 /* what was allowed is no news */
#define ASKS_OPEN  4096 /* known to be open, of all boxes */

struct told {               /* one thing, or many of a kind */
	enum control_op op; /* DENIED or ALLOWED */
	char box[EGRESS_ID_MAX];
	struct denial d; /* d.count: how many */
	uint64_t up, down;
	uint64_t due_ms;
	TAILQ_ENTRY(told) link;
};

struct open_ask {
	struct egress_ask ask;
	TAILQ_ENTRY(open_ask) link;
};

struct role_events {
	struct egress_role *role;
	TAILQ_HEAD(told_list, told) waits; /* oldest first */
	size_t waits_n;
	uint64_t lost;
	TAILQ_HEAD(open_ask_list, open_ask) asks;
	size_t asks_n;
	struct loop_timer timer;
	uint64_t window_ms; /* when the current 50 ms began */
	unsigned window_n;  /* refusals told at once in them */
};

static bool is_same(
	const struct told *t, enum control_op op, const char *box, const struct denial *d)
{
	return t->op == op && t->d.kind == d->kind && t->d.port == d->port &&
	       strcmp(t->box, box) == 0 && strcmp(t->d.name, d->name) == 0 &&
	       strcmp(t->d.protocol, d->protocol) == 0 && strcmp(t->d.method, d->method) == 0 &&
	       strcmp(t->d.path, d->path) == 0 && strcmp(t->d.rule, d->rule) == 0;
}

static void drop(struct role_events *v, struct told *t)
{
	TAILQ_REMOVE(&v->waits, t, link);
	v->waits_n--;
	free(t);
}

/* Room for one more of this box: its own oldest goes first, then the oldest of all. */
static void make_room(struct role_events *v, const char *box)
{
	struct told *t, *oldest = NULL;
	size_t n = 0;

	for (t = TAILQ_FIRST(&v->waits); t; t = TAILQ_NEXT(t, link)) {
		if (strcmp(t->box, box) != 0)
			continue;
		if (!oldest)
			oldest = t;
		n++;
	}
	if (n < BOX_MAX)
		oldest = v->waits_n < WAIT_MAX ? NULL : TAILQ_FIRST(&v->waits);
	if (oldest) {
		v->lost += oldest->d.count ? oldest->d.count : 1;
		drop(v, oldest);
	}
}

static bool may_send(const struct role_events *v)
{
	return v->role->owner && control_link_queued(v->role->owner) < CONN_HIGH;
}

static void arm(struct role_events *v)
{
	uint64_t now = loop_now_ms(v->role->loop), due = UINT64_MAX;
	struct told *t;

	for (t = TAILQ_FIRST(&v->waits); t; t = TAILQ_NEXT(t, link)) {
		if (t->due_ms < due)
			due = t->due_ms;
	}
	/* Nobody reads: `drained` or the next owner comes back here. */
	if (due == UINT64_MAX || !may_send(v))
		return;
	loop_timer_set(v->role->loop, &v->timer, due > now ? due - now : 0);
}

/* Refusals go out at once, so that a command's result carries them, but not in any number. */
static uint64_t due_of(struct role_events *v, enum control_op op)
{
	uint64_t now = loop_now_ms(v->role->loop);

	if (op == CONTROL_ALLOWED)
		return now + ALLOWED_MS;
	if (now - v->window_ms >= SOON_MS) {
		v->window_ms = now;
		v->window_n = 0;
	}
	return ++v->window_n <= AT_ONCE ? now : v->window_ms + SOON_MS;
}

static void add(struct role_events *v, enum control_op op, const char *box, const struct denial *d,
	uint64_t up, uint64_t down)
{
	struct told *t;

	for (t = TAILQ_FIRST(&v->waits); t; t = TAILQ_NEXT(t, link)) {
		if (!is_same(t, op, box, d))
			continue;
		t->d.count++;
		t->d.at_ms = d->at_ms;
		t->up += up;
		t->down += down;
		return;
	}
	make_room(v, box);
	t = MEM_NEW(struct told);
	t->op = op;
	(void)snprintf(t->box, sizeof(t->box), "%s", box);
	t->d = *d;
	t->d.count = 1; /* of those not told yet */
	t->up = up;
	t->down = down;
	t->due_ms = due_of(v, op);
	TAILQ_INSERT_TAIL(&v->waits, t, link);
	v->waits_n++;
	arm(v);
}

static void tell(struct role_events *v, const struct told *t)
{
	struct err err = {0};
	json_t *body = t->op == CONTROL_DENIED
			       ? control_denial_json(t->box, &t->d)
			       : control_allowed_json(t->box, &t->d, t->up, t->down);

	if (control_link_event(v->role->owner, t->op, body, &err) < 0)
		v->lost += t->d.count;
}

static void tell_lost(struct role_events *v)
{
	struct err err = {0};

	if (v->lost > 0 && control_link_event(v->role->owner, CONTROL_LOST,
				   json_pack("{s:I}", "events", (json_int_t)v->lost), &err) >= 0)
		v->lost = 0;
}

static void flush(struct role_events *v, uint64_t until_ms)
{
	struct told *t = TAILQ_FIRST(&v->waits), *next;

	for (; t && may_send(v); t = next) {
		next = TAILQ_NEXT(t, link);
		if (t->due_ms > until_ms)
			continue;
		tell(v, t);
		drop(v, t);
	}
	if (may_send(v))
		tell_lost(v);
	arm(v);
}

static void timer_due(struct loop_timer *t)
{
	struct role_events *v =
		(struct role_events *)((char *)t - offsetof(struct role_events, timer));

	flush(v, loop_now_ms(v->role->loop));
}

void role_events_flush(struct role_events *v)
{
	flush(v, UINT64_MAX);
}

static void tell_ask(struct role_events *v, const struct egress_ask *ask)
{
	struct err err = {0};

	if (v->role->owner)
		(void)control_link_event(
			v->role->owner, CONTROL_ASKED, control_ask_json(ask), &err);
}

void role_events_connected(struct role_events *v)
{
	struct open_ask *o;

	for (o = TAILQ_FIRST(&v->asks); o; o = TAILQ_NEXT(o, link)) {
		tell_ask(v, &o->ask);
	}
	flush(v, loop_now_ms(v->role->loop));
}

/* ---- from the engine ---- */

static void on_denied(const char *box, const struct denial *d, void *arg)
{
	struct egress_role *e = arg;

	add(e->events, CONTROL_DENIED, box, d, 0, 0);
}

static void on_allowed(
	const char *box, const struct denial *d, uint64_t up, uint64_t down, void *arg)
{
	struct egress_role *e = arg;
	const struct role_box *b = role_box_find(e, box);
	struct denial kind = *d;

	/* By destination and rule, unless somebody wants to know every path. */
	if (!b || !b->want_allowed) {
		kind.method[0] = '\0';
		kind.path[0] = '\0';
	}
	add(e->events, CONTROL_ALLOWED, box, &kind, up, down);
}

static void on_asked(const struct egress_ask *ask, void *arg)
{
	struct egress_role *e = arg;
	struct open_ask *o;

	if (e->events->asks_n >= ASKS_OPEN) {
		e->events->lost++; /* it will be denied when its time is up */
		return;
	}
	o = MEM_NEW(struct open_ask);
	o->ask = *ask;
	TAILQ_INSERT_TAIL(&e->events->asks, o, link);
	e->events->asks_n++;
	tell_ask(e->events, ask);
}

static void on_ask_over(const char *id, void *arg)
{
	struct egress_role *e = arg;
	struct err err = {0};

	if (role_events_answered(e->events, id) && e->owner)
		(void)control_link_event(
			e->owner, CONTROL_ASK_OVER, json_pack("{s:s}", "ask", id), &err);
}

bool role_events_answered(struct role_events *v, const char *id)
{
	struct open_ask *o;

	for (o = TAILQ_FIRST(&v->asks); o; o = TAILQ_NEXT(o, link)) {
		if (strcmp(o->ask.id, id) == 0)
			break;
	}
	if (!o)
		return false;
	TAILQ_REMOVE(&v->asks, o, link);
	v->asks_n--;
	free(o);
	return true;
}

const struct egress_events role_egress_events = {
	.denied = on_denied,
	.asked = on_asked,
	.ask_over = on_ask_over,
	.allowed = on_allowed,
};

struct role_events *role_events_create(struct egress_role *e)
{
	struct role_events *v = MEM_NEW(struct role_events);

	v->role = e;
	v->timer.fire = timer_due;
	TAILQ_INIT(&v->waits);
	TAILQ_INIT(&v->asks);
	return v;
}

void role_events_free(struct role_events *v)
{
	struct open_ask *o;

	if (!v)
		return;
	while (!TAILQ_EMPTY(&v->waits))
		drop(v, TAILQ_FIRST(&v->waits));
	while ((o = TAILQ_FIRST(&v->asks))) {
		TAILQ_REMOVE(&v->asks, o, link);
		free(o);
	}
	loop_timer_cancel(v->role->loop, &v->timer);
	free(v);
}
