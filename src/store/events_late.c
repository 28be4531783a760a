/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/events_late - events that wait for the next transaction, so that a small thing which
 * happens often (a command was started) does not cost an fsync each time.
 *
 *   store_event_later() holds a copy -> store_begin() of whoever comes next writes it first
 *                                    -> commit: dropped; rollback: held still
 *
 * So it keeps its place in the order, and a reader of events, who settles first, sees it. Only
 * a crash between the two loses it: at most what the caller's timer allows.
 */
#include "base/mem.h"
#include "store/store_impl.h"

#include <string.h>

struct store_late {
	struct store_event e; /* strings owned */
	struct store_late *next;
};

static char *copy(const char *s)
{
	return mem_strdup(s ? s : "");
}

static void drop_first(struct store *s)
{
	struct store_late *l = s->late;
	/* Ours since store_event_later() made them; the struct is for readers and has const. */
	const char *owned[] = {
		l->e.tenant, l->e.actor, l->e.action, l->e.sandbox, l->e.outcome, l->e.detail};

	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
		char *p;

		memcpy(&p, &owned[i], sizeof(p));
		free(p);
	}
	s->late = l->next;
	s->late_n--;
	free(l);
}

int store_event_later(struct store *s, const struct store_event *e, struct err *err)
{
	struct store_late **end = &s->late, *l;

	if (e->detail && strlen(e->detail) > STORE_DETAIL_MAX)
		return err_set(err, E2BIG, "event detail: at most %u bytes", STORE_DETAIL_MAX);
	/* On a disk that stays full this one is lost: memory is not a bigger disk. */
	if (s->late_n >= STORE_LATE_MAX && !s->is_open && store_settle(s, err) < 0)
		return -err->code;
	l = MEM_NEW(struct store_late);
	l->e = (struct store_event){
		.at_ms = e->at_ms ? e->at_ms : store_now_ms(),
		.tenant = copy(e->tenant),
		.actor = copy(e->actor),
		.action = copy(e->action),
		.sandbox = copy(e->sandbox),
		.outcome = copy(e->outcome),
		.detail = copy(e->detail),
	};
	while (*end)
		end = &(*end)->next;
	*end = l;
	if (++s->late_n < STORE_LATE_MAX || s->is_open)
		return 0;
	return store_settle(s, err);
}

int store_settle(struct store *s, struct err *err)
{
	int r;

	if (!s->late || s->is_open)
		return 0;
	r = store_begin(s, err);
	return r < 0 ? r : store_commit(s, err);
}

int store_late_write(struct store *s, struct err *err)
{
	int r = 0;

	for (struct store_late *l = s->late; l && r >= 0; l = l->next) {
		r = store_event_append(s, &l->e, err);
		if (r >= 0)
			s->late_written++;
	}
	return r;
}

void store_late_done(struct store *s, bool is_kept)
{
	for (; s->late_written > 0; s->late_written--)
		if (is_kept)
			drop_first(s);
}

void store_late_free(struct store *s)
{
	while (s->late)
		drop_first(s);
}
