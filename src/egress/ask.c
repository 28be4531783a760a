/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks: what waits for a person. Each ends once: answered, timed out (a no), or given up by its
 * asker. A yes for the rest of the box's life is kept here and forgotten with the box.
 */
#include "base/mem.h"
#include "egress/egress_impl.h"

#include <stdio.h>
#include <time.h>

#define STANDING_MAX 256

static struct ask *of_timer(struct loop_timer *t)
{
	return (struct ask *)((char *)t - offsetof(struct ask, timer));
}

static bool is_covered(const struct standing_yes *y, const struct denial *d)
{
	return !y->is_grant && y->port == d->port && strcmp(y->name, d->name) == 0 &&
	       strcmp(y->protocol, d->protocol) == 0 && strcmp(y->method, d->method) == 0 &&
	       strcmp(y->path, d->path) == 0;
}

static bool has_standing(const struct egress_box *b, const struct denial *d)
{
	for (size_t i = 0; i < b->standing_n; i++)
		if (is_covered(&b->standing[i], d))
			return true;
	return false;
}

static void remember(struct egress_box *b, const struct denial *d, bool is_grant)
{
	struct standing_yes *y;

	if (has_standing(b, d))
		return;
	if (b->standing_n >= STANDING_MAX) /* the oldest goes: it is only asked again */
		memmove(b->standing, b->standing + 1, --b->standing_n * sizeof(*b->standing));
	else
		b->standing =
			mem_must(realloc(b->standing, (b->standing_n + 1) * sizeof(*b->standing)));
	y = &b->standing[b->standing_n++];
	*y = (struct standing_yes){.port = d->port, .is_grant = is_grant};
	(void)snprintf(y->name, sizeof(y->name), "%s", d->name);
	(void)snprintf(y->protocol, sizeof(y->protocol), "%s", d->protocol);
	(void)snprintf(y->method, sizeof(y->method), "%s", d->method);
	(void)snprintf(y->path, sizeof(y->path), "%s", d->path);
}

static void take_off(struct ask *a)
{
	struct egress_box *b = a->box;

	loop_timer_cancel(b->engine->loop, &a->timer);
	TAILQ_REMOVE(&b->asks, a, link);
	b->asks_n--;
	a->box = NULL;
}

static void tell_over(struct egress *e, const char *id)
{
	if (e->events.ask_over)
		e->events.ask_over(id, e->arg);
}

/* Time is up; or it was answered by a standing yes, which is told from here too. */
static void fired(struct loop_timer *t)
{
	struct ask *a = of_timer(t);
	struct egress *e = a->box->engine;
	bool is_allowed = has_standing(a->box, &a->pub.what);

	take_off(a);
	if (a->pub.id[0])
		tell_over(e, a->pub.id);
	a->answered(a, is_allowed);
}

static uint64_t unix_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail with a valid clock */
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void ask_open(struct ask *a, struct egress_box *b, const struct denial *what)
{
	struct egress *e = b->engine;
	uint64_t wait_ms = b->policy->ask_timeout_ms;

	a->box = b;
	a->pub.what = *what;
	a->timer.fire = fired;
	(void)snprintf(a->pub.box, sizeof(a->pub.box), "%s", b->id);
	TAILQ_INSERT_TAIL(&b->asks, a, link);
	b->asks_n++;
	if (has_standing(b, what)) {
		a->pub.id[0] = '\0';
		loop_timer_set(e->loop, &a->timer, 0);
		return;
	}
	(void)snprintf(a->pub.id, sizeof(a->pub.id), "ask-%08llx%04llx",
		(unsigned long long)(e->ask_prefix & 0xffffffffu), (unsigned long long)++e->serial);
	a->pub.expires_ms = unix_ms() + wait_ms;
	e->totals.asks++;
	loop_timer_set(e->loop, &a->timer, wait_ms);
	if (e->events.asked)
		e->events.asked(&a->pub, e->arg);
}

int ask_start(struct ask *a, struct egress_flow *f, const struct denial *what, struct err *err)
{
	if (f->box->asks_n >= EGRESS_ASKS_MAX)
		return err_set(err, EMFILE, "%d asks are open", EGRESS_ASKS_MAX);
	ask_open(a, f->box, what);
	return 0;
}

void ask_cancel(struct ask *a)
{
	struct egress *e;

	if (!a->box)
		return;
	e = a->box->engine;
	take_off(a);
	if (a->pub.id[0])
		tell_over(e, a->pub.id);
}

/* ---- what an agent asks for in words: no connection waits for the answer ---- */

static void note_answered(struct ask *a, bool is_allowed)
{
	(void)is_allowed; /* a yes for the box is remembered; there is nobody to tell */
	free(a);
}

int ask_note(struct egress_box *b, const struct denial *what, const char *note, char id[24],
	struct err *err)
{
	struct ask *a;

	if (b->asks_n >= EGRESS_ASKS_MAX)
		return err_set(err, EMFILE, "%d asks are open", EGRESS_ASKS_MAX);
	a = MEM_NEW(struct ask);
	a->answered = note_answered;
	(void)snprintf(a->pub.note, sizeof(a->pub.note), "%s", note);
	ask_open(a, b, what);
	(void)snprintf(id, 24, "%s", a->pub.id);
	return 0;
}

void ask_forget_box(struct egress_box *b)
{
	struct ask *a;

	while ((a = TAILQ_FIRST(&b->asks)) != NULL) {
		struct egress *e = b->engine;

		take_off(a);
		if (a->pub.id[0])
			tell_over(e, a->pub.id);
		a->answered(a, false);
	}
}

/* True if `method` is one of "GET,HEAD". */
static bool is_listed(const char *list, const char *method)
{
	size_t n = strlen(method);

	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, method, n) == 0 && (p[n] == '\0' || p[n] == ','))
			return true;
	}
	return false;
}

void ask_grant(const struct egress_flow *f, const char *method, struct policy_answer *a)
{
	const struct egress_box *b = f->box;

	if (a->needs != 0 || a->action != POLICY_DENY || a->rule || a->by_floor || !f->name[0])
		return;
	for (size_t i = 0; i < b->standing_n; i++) {
		const struct standing_yes *y = &b->standing[i];

		if (!y->is_grant || y->port != f->port || strcmp(y->name, f->name) != 0)
			continue;
		if (!y->method[0] || (method && is_listed(y->method, method)))
			a->action = POLICY_ALLOW;
		else if (!method)
			a->needs = POLICY_NEEDS_REQUEST;
	}
}

bool ask_is_granted(const struct egress_box *b, const char *name)
{
	for (size_t i = 0; i < b->standing_n; i++)
		if (b->standing[i].is_grant && strcmp(b->standing[i].name, name) == 0)
			return true;
	return false;
}

/* ---- answers ---- */

static struct ask *find(const struct egress *e, const char *id)
{
	struct egress_box *b;
	struct ask *a;

	for (b = TAILQ_FIRST(&e->boxes); b; b = TAILQ_NEXT(b, link)) {
		for (a = TAILQ_FIRST(&b->asks); a; a = TAILQ_NEXT(a, link)) {
			if (a->pub.id[0] && strcmp(a->pub.id, id) == 0)
				return a;
		}
	}
	return NULL;
}

int egress_answer(
	struct egress *e, const char *ask_id, enum egress_ask_verdict verdict, struct err *err)
{
	struct ask *a = find(e, ask_id);
	bool is_grant;

	if (!a)
		return err_set(err, ENOENT, "ask '%s' is over", ask_id);
	/* Nothing waits for a request in words: a yes to it is one for what comes. */
	is_grant = a->answered == note_answered;
	if (verdict == EGRESS_ASK_BOX || (is_grant && verdict == EGRESS_ASK_ONCE))
		remember(a->box, &a->pub.what, is_grant);
	take_off(a);
	a->answered(a, verdict != EGRESS_ASK_DENY);
	return 0;
}
