/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/violations - what the road out refused, one row per kind and sandbox.
 *
 * A sandbox decides how many there are: it keeps its newest STORE_VIOLATIONS kinds, and of each
 * the last few times. Rows go with their sandbox.
 */
#include "base/text.h"
#include "store/store_impl.h"

#include <inttypes.h>
#include <string.h>

#define TIME_WIDTH 14 /* "1763482345123," */
#define WHAT_MAX   2048
#define RECORD_MAX 8192

static int upsert(
	struct store *s, const char *sandbox, const struct store_violation *v, struct err *err)
{
	static const char sql[] =
		"INSERT INTO violations (sandbox, what, record, first_ms, last_ms, count, times)"
		" SELECT id, ?2, ?3, ?4, ?4, ?5, ?6 FROM sandboxes WHERE id = ?1"
		" ON CONFLICT (sandbox, what) DO UPDATE SET record = excluded.record,"
		" last_ms = excluded.last_ms, count = count + excluded.count,"
		" times = substr(excluded.times || times, 1, ?7)";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	AUTO_FREE char *time = text_format("%013" PRId64 ",", v->last_ms);
	int r;

	bind_text(&t, sandbox);
	bind_text(&t, v->what);
	bind_text(&t, v->record);
	bind_int(&t, v->last_ms);
	bind_int(&t, v->count > 0 ? v->count : 1);
	bind_text(&t, time);
	bind_int(&t, (int64_t)STORE_VIOLATION_TIMES * TIME_WIDTH);
	r = statement_run(&t, err);
	return r < 0 ? r : 0;
}

static int prune(struct store *s, const char *sandbox, struct err *err)
{
	static const char sql[] =
		"DELETE FROM violations WHERE sandbox = ?1 AND number IN (SELECT number FROM"
		" violations WHERE sandbox = ?1 ORDER BY last_ms DESC, number DESC LIMIT -1 OFFSET "
		"?2)";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, sandbox);
	bind_int(&t, STORE_VIOLATIONS);
	r = statement_run(&t, err);
	return r < 0 ? r : 0;
}

int store_violation_note(
	struct store *s, const char *sandbox, const struct store_violation *v, struct err *err)
{
	bool is_mine = false;
	int r;

	if (strlen(v->what) > WHAT_MAX || strlen(v->record) > RECORD_MAX)
		return err_set(err, E2BIG, "a violation is too long");
	r = store_tx_begin(s, &is_mine, err);
	if (r < 0)
		return r;
	r = upsert(s, sandbox, v, err);
	if (r == 0)
		r = prune(s, sandbox, err);
	return store_tx_end(s, is_mine, r, err);
}

static void read_times(const char *text, int64_t times[STORE_VIOLATION_TIMES])
{
	for (size_t i = 0; i < STORE_VIOLATION_TIMES; i++) {
		uint64_t n = 0;

		if (text_scan_u64(&text, &n) < 0)
			return;
		times[i] = (int64_t)n;
		if (*text == ',')
			text++;
	}
}

int store_violation_each(struct store *s, const char *sandbox,
	int (*each)(const struct store_violation *v, void *arg), void *arg, struct err *err)
{
	static const char sql[] = "SELECT number, what, record, first_ms, last_ms, count, times"
				  " FROM violations WHERE sandbox = ? ORDER BY last_ms, number";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, sandbox);
	while ((r = statement_step(&t, err)) > 0) {
		struct store_violation v = {.number = column_int(&t)};

		v.what = column_peek(&t);
		v.record = column_peek(&t);
		v.first_ms = column_int(&t);
		v.last_ms = column_int(&t);
		v.count = column_int(&t);
		read_times(column_peek(&t), v.times);
		r = each(&v, arg);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}
