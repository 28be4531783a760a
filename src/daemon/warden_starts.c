/* SPDX-License-Identifier: Apache-2.0 */

/*
 * daemon/warden_starts - sandboxes on their way up, for somebody who asked or as spares.
 *
 *   WAITING --- a spare is up ------------------------------+
 *      |                                                    v
 *      +------- one comes up: a spare, or its own ------> CLAIMING ----> answered
 *      ^                                                    |
 *      +------- the spare was dead: one of its own ---------+
 *
 * S1  At most WARDEN_MAKINGS_MAX come up at once. Who waits longest is served first.
 * S2  A spare is used once or not at all, and only for a question of its kind.
 * S3  An asker that goes takes along what was not begun. What was begun comes up, and is
 *     listed: a list waits for the starts of others that were under way when it was asked for.
 * S4  A directory of a sandbox's name has its record, or is that of a sandbox being made for
 *     that name, which dies with the warden.
 */
#include "base/mem.h"
#include "base/own.h"
#include "daemon/log.h"
#include "daemon/warden_impl.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define REFILL_MS 3 /* of quiet, before a spare is made */

enum start_state { START_WAITING, START_CLAIMING, START_ANSWERED };

struct stop {
	warden_stopped_fn stopped;
	void *arg;
	uint64_t number;
	struct stop *next;
};

struct warden_start {
	struct warden_starts *starts;
	struct warden_message q;
	warden_started_fn started;
	void *arg;
	bool is_forgotten; /* nobody to answer to */
	bool wants_own;    /* a spare has failed it */
	bool is_named;     /* CLAIMING: the directory has its name */
	uint64_t seq;
	enum start_state state;
	struct warden_spare *spare; /* promised, or being claimed; NULL = none yet */
	struct provider_record rec; /* CLAIMING, once written */
	struct stop *stops;         /* CLAIMING: who wants it gone */
	struct warden_start *next;
};

struct settler {
	void (*settled)(void *arg, uint64_t number);
	void *arg;
	uint64_t number, seq;
	struct settler *next;
};

struct warden_starts {
	struct warden_boxes_config c;
	struct warden_boxes *boxes;
	int dir;
	struct warden_start *first; /* oldest first */
	size_t n;
	uint64_t seq;
	struct warden_spare *makings;
	size_t makings_n;
	struct warden_spec kind; /* of the spares; no host name */
	struct warden_spare *spares[WARDEN_SPARES_MAX];
	size_t spares_n;
	unsigned spares_made;
	unsigned salt; /* in the names of spares: a later warden may get our pid */
	struct loop_timer refill;
	struct settler *settlers;
	bool is_serving; /* serve_waiting() is at work further up the stack */
};

static void serve_waiting(struct warden_starts *s);

static void want_refill(struct warden_starts *s)
{
	if (s->c.spares > 0)
		loop_timer_set(s->c.loop, &s->refill, REFILL_MS);
}

/* ---- the list ---- */

static struct warden_start *find(const struct warden_starts *s, const char *id)
{
	for (struct warden_start *t = s->first; t; t = t->next)
		if (strcmp(t->q.id, id) == 0)
			return t;
	return NULL;
}

static bool is_settled(const struct warden_starts *s, const struct settler *l)
{
	for (const struct warden_start *t = s->first; t && t->seq <= l->seq; t = t->next)
		if (t->is_forgotten || t->arg != l->arg)
			return false;
	return true;
}

static void serve_settlers(struct warden_starts *s)
{
	struct settler **p = &s->settlers;

	while (*p) {
		struct settler *l = *p;

		if (!is_settled(s, l)) {
			p = &l->next;
			continue;
		}
		*p = l->next;
		l->settled(l->arg, l->number);
		free(l);
		p = &s->settlers; /* what was called may have changed the list */
	}
}

static void unlink_start(struct warden_start *t)
{
	struct warden_starts *s = t->starts;

	for (struct warden_start **p = &s->first; *p; p = &(*p)->next)
		if (*p == t) {
			*p = t->next;
			s->n--;
			return;
		}
}

/* Answer it, if anybody waits, and be done with it. */
static void conclude(struct warden_start *t, struct warden_message *m)
{
	struct warden_starts *s = t->starts;
	bool is_awaited = !t->is_forgotten;

	m->op = WARDEN_START;
	m->number = t->q.number;
	memcpy(m->id, t->q.id, sizeof(m->id));
	/* In the list until then: the asker may go over it, and be forgotten in all its roles. */
	t->is_forgotten = true;
	t->state = START_ANSWERED;
	if (is_awaited)
		t->started(m, t->arg);
	unlink_start(t);
	while (t->stops) {
		struct stop *w = t->stops;

		t->stops = w->next;
		warden_boxes_stop(s->boxes, t->q.id, w->stopped, w->arg, w->number);
		free(w);
	}
	free(t);
	serve_settlers(s);
}

static void fail(struct warden_start *t, const struct err *err)
{
	struct warden_message m = {.code = -err->code};

	m.err = *err;
	conclude(t, &m);
}

/* ---- claiming ---- */

/* The record first, then the name: a directory that has a sandbox's name has its record. */
static int on_released(const struct provider_record *rec, void *arg)
{
	struct warden_start *t = arg;
	const struct warden_spare *s = t->spare;
	const struct warden_starts *all = t->starts;
	struct err err;
	int r = warden_record_write(s->dir, rec, s->walls, &err);

	if (r < 0)
		return r;
	t->rec = *rec;
	/* Only now the api role may connect to its guest. */
	if (all->c.api_uid != geteuid() &&
		fchownat(s->dir, "guest.sock", all->c.api_uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (strcmp(s->id, rec->id) != 0 &&
		renameat2(all->dir, s->id, all->dir, rec->id, RENAME_NOREPLACE) < 0)
		return -errno;
	t->is_named = true;
	return 0;
}

/* What was to be handed out goes, under the name it came up with: the other may be used again. */
static void bury(struct warden_start *t, int take_pidfd)
{
	struct warden_starts *s = t->starts;
	struct warden_spare *spare = TAKE_PTR(t->spare);
	struct provider_record rec = t->rec;

	if (t->is_named && strcmp(spare->id, t->q.id) != 0)
		(void)renameat2(s->dir, t->q.id, s->dir, spare->id, RENAME_NOREPLACE);
	t->is_named = false;
	memcpy(rec.id, spare->id, sizeof(rec.id));
	warden_boxes_bury(s->boxes, spare->provider, &rec, take_pidfd);
	warden_spare_free(spare);
}

static void on_claimed(int take_pidfd, struct road take_road, const struct err *why, void *arg)
{
	struct warden_start *t = arg;
	struct warden_starts *s = t->starts;
	struct warden_message m = {0};
	struct err err = *why;
	bool was_own = strcmp(t->spare->id, t->q.id) == 0;
	int r = -err.code;

	if (r == 0)
		r = warden_record_commit(t->spare->dir, &err);
	if (r >= 0) {
		r = warden_boxes_add(
			s->boxes, t->spare->provider, &t->rec, take_pidfd, take_road, &err);
		take_pidfd = -EBADF;
	} else {
		closep(&take_road.tcp_fd);
		closep(&take_road.dns_fd);
	}
	if (r >= 0) {
		warden_tell_walls(t->spare->walls, &m);
		warden_spare_free(TAKE_PTR(t->spare));
		conclude(t, &m);
		want_refill(s);
	} else {
		bury(t, take_pidfd);
		/* A spare may have died while it waited. */
		t->state = START_WAITING;
		t->wants_own = true;
		if (was_own || t->stops || t->is_forgotten)
			fail(t, &err);
	}
	serve_waiting(s);
}

static void claim(struct warden_start *t, struct warden_spare *spare)
{
	spare->start = NULL;
	t->spare = spare;
	t->state = START_CLAIMING;
	t->rec = (struct provider_record){0};
	spare->provider->claim(t->starts->c.loop, TAKE_PTR(spare->held), t->q.id,
		t->q.spec.hostname, on_released, on_claimed, t);
}

/* ---- making ---- */

static void forget_making(struct warden_starts *s, const struct warden_spare *spare)
{
	for (struct warden_spare **p = &s->makings; *p; p = &(*p)->next)
		if (*p == spare) {
			*p = spare->next;
			s->makings_n--;
			return;
		}
}

static void on_up(struct warden_spare *spare, const struct err *err)
{
	struct warden_starts *s = spare->arg;
	struct warden_start *t = TAKE_PTR(spare->start);
	bool is_own = t && strcmp(spare->id, t->q.id) == 0;

	forget_making(s, spare);
	if (t)
		t->spare = NULL;
	if (spare->held && t) {
		claim(t, spare);
	} else if (spare->held) {
		s->spares[s->spares_n++] = spare;
		want_refill(s);
	} else {
		warden_spare_remove(s->dir, spare);
		if (is_own) {
			fail(t, err);
		} else if (t) {
			t->wants_own = true;
		} else {
			/* The next start says why, to somebody who asked. */
			role_log(ROLE_LOG_WARN, "no spare", "error", err->msg);
		}
	}
	serve_waiting(s);
}

static int begin(struct warden_starts *s, const struct warden_spec *spec, const char *id,
	struct warden_start *t, struct err *err)
{
	struct warden_spare *spare = NULL;
	int r = warden_spare_begin(s->c.loop, s->dir, spec, s->c.ca_dir, id, &spare, err);

	if (r < 0)
		return r;
	spare->up = on_up;
	spare->arg = s;
	spare->start = t;
	spare->next = s->makings;
	s->makings = spare;
	s->makings_n++;
	if (t)
		t->spare = spare;
	return 0;
}

/* The oldest: none waits for ever. */
static struct warden_spare *take_spare(struct warden_starts *s)
{
	struct warden_spare *spare = s->spares_n > 0 ? s->spares[0] : NULL;

	if (spare)
		memmove(s->spares, s->spares + 1, --s->spares_n * sizeof(s->spares[0]));
	return spare;
}

static struct warden_spec kind_of(const struct warden_message *q)
{
	struct warden_spec kind = q->spec;

	memset(kind.hostname, 0, sizeof(kind.hostname));
	return kind;
}

static struct warden_spare *unpromised(const struct warden_starts *s)
{
	struct warden_spare *oldest = NULL;

	for (struct warden_spare *p = s->makings; p; p = p->next)
		if (!p->start)
			oldest = p;
	return oldest;
}

/* 1: there is something for it, now or soon; 0: it has to wait. */
static int serve(struct warden_starts *s, struct warden_start *t)
{
	struct warden_spec kind = kind_of(&t->q);
	bool fits = !t->wants_own && memcmp(&kind, &s->kind, sizeof(kind)) == 0;
	struct warden_spare *spare;
	struct err err = {0};

	if (fits && (spare = take_spare(s))) {
		claim(t, spare);
		return 1;
	}
	if (fits && (spare = unpromised(s))) {
		spare->start = t;
		t->spare = spare;
		return 1;
	}
	if (s->makings_n >= WARDEN_MAKINGS_MAX)
		return 0;
	if (begin(s, &t->q.spec, t->q.id, t, &err) < 0)
		fail(t, &err);
	return 1;
}

static struct warden_start *next_waiting(const struct warden_starts *s)
{
	for (struct warden_start *t = s->first; t; t = t->next)
		if (t->state == START_WAITING && !t->spare)
			return t;
	return NULL;
}

static void serve_waiting(struct warden_starts *s)
{
	struct warden_start *t;

	/* Whatever is called from here may come back here. */
	if (s->is_serving)
		return;
	s->is_serving = true;
	while ((t = next_waiting(s)) && serve(s, t) > 0)
		;
	s->is_serving = false;
}

/* When nobody has asked for anything for a moment: spares yield to those who wait. */
static void refill(struct loop_timer *timer)
{
	struct warden_starts *s = (void *)((char *)timer - offsetof(struct warden_starts, refill));
	size_t coming = 0;
	char id[PROVIDER_ID_MAX];
	struct err err = {0};

	for (const struct warden_spare *p = s->makings; p; p = p->next)
		coming += !p->start;
	if (s->spares_n + coming >= s->c.spares || s->makings_n >= WARDEN_MAKINGS_MAX ||
		!s->kind.tier[0])
		return;
	(void)snprintf(id, sizeof(id), "spare%dx%06xx%u", (int)getpid(), s->salt & 0xffffff,
		s->spares_made++);
	if (begin(s, &s->kind, id, NULL, &err) < 0)
		role_log(ROLE_LOG_WARN, "no spare", "error", err.msg);
}

static void abandon(struct warden_starts *s, struct warden_spare *take)
{
	struct provider_record rec;
	int pidfd = take->provider->abandon(TAKE_PTR(take->making), &rec);

	forget_making(s, take);
	warden_boxes_bury(s->boxes, take->provider, &rec, pidfd);
	warden_spare_free(take);
}

/* From now on spares are of this kind: what was asked for last will be asked for next. */
static void set_kind(struct warden_starts *s, const struct warden_message *q)
{
	struct warden_spec kind = kind_of(q);
	struct provider_record rec;
	struct warden_spare *spare;

	if (memcmp(&kind, &s->kind, sizeof(kind)) == 0)
		return;
	while ((spare = take_spare(s))) {
		int pidfd = spare->provider->discard(TAKE_PTR(spare->held), &rec);

		warden_boxes_bury(s->boxes, spare->provider, &rec, pidfd);
		warden_spare_free(spare);
	}
	for (struct warden_spare *p = s->makings, *next; p; p = next) {
		next = p->next;
		if (!p->start)
			abandon(s, p);
	}
	s->kind = kind;
}

/* ---- questions ---- */

void warden_starts_ask(struct warden_starts *s, const struct warden_message *q,
	warden_started_fn started, void *arg)
{
	struct warden_start *t = MEM_NEW(struct warden_start), **last = &s->first;

	t->starts = s;
	t->q = *q;
	t->started = started;
	t->arg = arg;
	t->seq = ++s->seq;
	while (*last)
		last = &(*last)->next;
	*last = t;
	s->n++;
	set_kind(s, q);
	serve_waiting(s);
}

bool warden_starts_has(const struct warden_starts *s, const char *id)
{
	return find(s, id) != NULL;
}

size_t warden_starts_count(const struct warden_starts *s)
{
	return s->n;
}

void warden_starts_stop(struct warden_starts *s, const char *id, warden_stopped_fn stopped,
	void *arg, uint64_t number)
{
	struct warden_start *t = find(s, id);
	struct stop *w = MEM_NEW(struct stop);
	struct err err = {0};

	/* Once it is answered, it is stopped like any other: see conclude(). */
	*w = (struct stop){stopped, arg, number, t->stops};
	t->stops = w;
	if (t->state == START_CLAIMING)
		return;
	if (t->spare)
		abandon(s, TAKE_PTR(t->spare));
	(void)err_set(&err, ECANCELED, "it was stopped before it was up");
	fail(t, &err);
	serve_waiting(s);
}

void warden_starts_settle(struct warden_starts *s, void (*settled)(void *arg, uint64_t number),
	void *arg, uint64_t number)
{
	struct settler *l = MEM_NEW(struct settler), **last = &s->settlers;

	*l = (struct settler){settled, arg, number, s->seq, NULL};
	while (*last)
		last = &(*last)->next;
	*last = l;
	serve_settlers(s);
}

static void forget_stops(struct warden_start *t, const void *arg)
{
	for (struct stop **p = &t->stops; *p;) {
		struct stop *w = *p;

		if (w->arg != arg) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		free(w);
	}
}

void warden_starts_forget(struct warden_starts *s, const void *arg)
{
	struct warden_start *next;

	for (struct settler **p = &s->settlers; *p;) {
		struct settler *l = *p;

		if (l->arg != arg) {
			p = &l->next;
			continue;
		}
		*p = l->next;
		free(l);
	}
	for (struct warden_start *t = s->first; t; t = next) {
		next = t->next;
		forget_stops(t, arg);
		if (t->is_forgotten || t->arg != arg)
			continue;
		t->is_forgotten = true;
		t->arg = NULL;
		if (t->state == START_WAITING && !t->spare) {
			unlink_start(t);
			free(t);
		}
	}
	serve_settlers(s);
}

/* ---- from start to end ---- */

struct warden_starts *warden_starts_create(
	const struct warden_boxes_config *c, int boxes_dir, struct warden_boxes *b)
{
	struct warden_starts *s = MEM_NEW(struct warden_starts);

	s->c = *c;
	s->boxes = b;
	s->dir = boxes_dir;
	s->refill.fire = refill;
	if (getrandom(&s->salt, sizeof(s->salt), 0) != (ssize_t)sizeof(s->salt))
		s->salt = (unsigned)time(NULL);
	return s;
}

void warden_starts_close(struct warden_starts *s)
{
	struct provider_record recs[WARDEN_SPARES_MAX + WARDEN_MAKINGS_MAX];
	struct warden_spare *spares[WARDEN_SPARES_MAX + WARDEN_MAKINGS_MAX], *spare;
	size_t n = 0;
	struct err ignored;

	/* First all are killed, then each is waited for. */
	while ((spare = take_spare(s))) {
		int pidfd = spare->provider->discard(TAKE_PTR(spare->held), &recs[n]);

		closep(&pidfd);
		spares[n++] = spare;
	}
	while ((spare = s->makings)) {
		int pidfd = spare->provider->abandon(TAKE_PTR(spare->making), &recs[n]);

		closep(&pidfd);
		s->makings = spare->next;
		spares[n++] = spare;
	}
	for (size_t i = 0; i < n; i++) {
		(void)spares[i]->provider->stop(&recs[i], &ignored);
		warden_spare_remove(s->dir, spares[i]);
	}
}
