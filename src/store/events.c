/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/events - what happened, in order: audit, webhooks, metering and `bawn events` read this.
 *
 * Numbers only grow and are never given twice, also after the oldest rows were pruned.
 */
#include "base/text.h"
#include "store/store_impl.h"

#include <string.h>

#define EVENTS_KEPT 1000000
#define PRUNE_EVERY 1024

static int insert(struct store *s, struct store_event *e, struct err *err)
{
	static const char sql[] =
		"INSERT INTO events (at_ms, tenant, actor, action, sandbox, outcome, detail)"
		" VALUES (?, ?, ?, ?, ?, ?, ?)";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int64_t at_ms = e->at_ms ? e->at_ms : store_now_ms();
	int r;

	bind_int(&t, at_ms);
	bind_text(&t, e->tenant);
	bind_text(&t, e->actor);
	bind_text(&t, e->action);
	bind_text(&t, e->sandbox);
	bind_text(&t, e->outcome);
	bind_text(&t, e->detail);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	e->at_ms = at_ms;
	e->number = sqlite3_last_insert_rowid(s->db);
	return 0;
}

static int prune(struct store *s, int64_t last, struct err *err)
{
	static const char sql[] = "DELETE FROM events WHERE number <= ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_int(&t, last - EVENTS_KEPT);
	r = statement_run(&t, err);
	return r < 0 ? r : 0;
}

int store_event_append(struct store *s, struct store_event *e, struct err *err)
{
	bool is_mine = false;
	int r;

	if (e->detail && strlen(e->detail) > STORE_DETAIL_MAX)
		return err_set(err, E2BIG, "event detail: at most %u bytes", STORE_DETAIL_MAX);
	r = store_tx_begin(s, &is_mine, err);
	if (r < 0)
		return r;
	r = insert(s, e, err);
	if (r == 0 && e->number % PRUNE_EVERY == 0)
		r = prune(s, e->number, err);
	return store_tx_end(s, is_mine, r, err);
}

static const char *choose(const char *tenant, const char *sandbox)
{
	/* Four times, so that each has its index: a filter of `? = '' OR …` has none. */
#define SELECT                                                                                     \
	"SELECT number, at_ms, tenant, actor, action, sandbox, outcome, detail FROM events"        \
	" WHERE number > ?1"
#define ORDER " ORDER BY number LIMIT ?2"
	static const char all[] = SELECT ORDER;
	static const char by_tenant[] = SELECT " AND tenant = ?3" ORDER;
	static const char by_sandbox[] = SELECT " AND sandbox = ?3" ORDER;
	static const char by_both[] = SELECT " AND tenant = ?3 AND sandbox = ?4" ORDER;

	if (tenant && sandbox)
		return by_both;
	if (tenant)
		return by_tenant;
	return sandbox ? by_sandbox : all;
}

int store_event_each(struct store *s, const char *tenant, const char *sandbox, int64_t after,
	size_t n, int (*each)(const struct store_event *e, void *arg), void *arg, struct err *err)
{
	int r = store_settle(s, err);
	AUTO_STATEMENT struct statement t = statement(s, choose(tenant, sandbox));

	if (r < 0)
		return r;
	bind_int(&t, after);
	bind_int(&t, n > INT32_MAX ? INT32_MAX : (int64_t)n);
	if (tenant)
		bind_text(&t, tenant);
	if (sandbox)
		bind_text(&t, sandbox);
	while ((r = statement_step(&t, err)) > 0) {
		struct store_event e = {.number = column_int(&t)};

		e.at_ms = column_int(&t);
		e.tenant = column_peek(&t);
		e.actor = column_peek(&t);
		e.action = column_peek(&t);
		e.sandbox = column_peek(&t);
		e.outcome = column_peek(&t);
		e.detail = column_peek(&t);
		r = each(&e, arg);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}

int64_t store_event_last(struct store *s)
{
	static const char sql[] = "SELECT seq FROM sqlite_sequence WHERE name = 'events'";
	struct err err = {0};
	int r = store_settle(s, &err);
	AUTO_STATEMENT struct statement t = statement(s, sql);

	(void)r; /* what cannot be written has no number */
	return statement_step(&t, &err) > 0 ? column_int(&t) : 0;
}
