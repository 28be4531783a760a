/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/execs - commands started under /v1: the intent, then the pid, then how it ended.
 *
 * Rows go with their sandbox. A sandbox keeps its newest EXECS_KEPT ended ones; a key older than
 * that is forgotten, by the guest long before.
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/store_impl.h"

#include <string.h>

#define EXECS_KEPT  4096
#define REQUEST_MAX (256u << 10)

void store_exec_done(struct store_exec *e)
{
	free(TAKE_PTR(e->request));
}

static int prune(struct store *s, const char *sandbox, int64_t below, struct err *err)
{
	static const char sql[] =
		"DELETE FROM execs WHERE sandbox = ?1 AND has_ended AND number <= ?2 AND number <="
		" (SELECT number FROM execs WHERE sandbox = ?1 ORDER BY number DESC LIMIT 1 OFFSET "
		"?3)";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, sandbox);
	bind_int(&t, below);
	bind_int(&t, EXECS_KEPT);
	r = statement_run(&t, err);
	return r < 0 ? r : 0;
}

static int insert(struct store *s, const struct store_exec *e, struct err *err)
{
	static const char sql[] =
		"INSERT INTO execs (sandbox, id, tenant, request, pid, made_ms, has_ended,"
		" exit_code, signal, is_timed_out)"
		" SELECT id, ?2, tenant, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM sandboxes WHERE id = ?1";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, e->sandbox);
	bind_text(&t, e->id);
	bind_text(&t, e->request);
	bind_int(&t, e->pid);
	bind_int(&t, e->made_ms ? e->made_ms : store_now_ms());
	bind_int(&t, e->has_ended);
	bind_int(&t, e->exit_code);
	bind_int(&t, e->signal);
	bind_int(&t, e->is_timed_out);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	return r == 0 ? err_set(err, ENOENT, "no sandbox '%s'", e->sandbox) : 0;
}

int store_exec_insert(struct store *s, const struct store_exec *e, struct err *err)
{
	bool is_mine = false;
	int r;

	if (e->request && strlen(e->request) > REQUEST_MAX)
		return err_set(err, E2BIG, "exec request: at most %u bytes", REQUEST_MAX);
	r = store_tx_begin(s, &is_mine, err);
	if (r < 0)
		return r;
	r = insert(s, e, err);
	if (r == 0) {
		int64_t number = sqlite3_last_insert_rowid(s->db);

		/* Now and then is enough: a cap, not a promise. */
		if (number % 256 == 0)
			r = prune(s, e->sandbox, number, err);
	}
	return store_tx_end(s, is_mine, r, err);
}

#define COLUMNS                                                                                    \
	"e.id, e.sandbox, e.request, e.pid, e.made_ms, e.has_ended, e.exit_code, e.signal,"        \
	" e.is_timed_out, e.ended_ms"

static void read_row(struct statement *t, struct store_exec *ret)
{
	*ret = (struct store_exec){0};
	column_copy(t, ret->id, sizeof(ret->id));
	column_copy(t, ret->sandbox, sizeof(ret->sandbox));
	ret->request = column_text(t);
	ret->pid = column_int(t);
	ret->made_ms = column_int(t);
	ret->has_ended = column_int(t) != 0;
	ret->exit_code = column_int(t);
	ret->signal = column_int(t);
	ret->is_timed_out = column_int(t) != 0;
	ret->ended_ms = column_int(t);
}

int store_exec_get(struct store *s, const char *sandbox, const char *id, struct store_exec *ret,
	struct err *err)
{
	static const char sql[] =
		"SELECT " COLUMNS " FROM execs e WHERE e.sandbox = ? AND e.id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	char quoted[80];
	int r;

	bind_text(&t, sandbox);
	bind_text(&t, id);
	r = statement_step(&t, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, ENOENT, "no exec '%s'", text_quote(id, quoted, sizeof(quoted)));
	read_row(&t, ret);
	return 0;
}

int store_exec_remove(struct store *s, const char *sandbox, const char *id, struct err *err)
{
	static const char sql[] = "DELETE FROM execs WHERE sandbox = ? AND id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, sandbox);
	bind_text(&t, id);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	return r == 0 ? err_set(err, ENOENT, "no exec '%s'", id) : 0;
}

int store_exec_each_open(struct store *s, int (*each)(const struct store_exec *e, void *arg),
	void *arg, struct err *err)
{
	static const char sql[] =
		"SELECT " COLUMNS " FROM execs e JOIN sandboxes b ON b.id = e.sandbox"
		" WHERE NOT e.has_ended AND b.state = 'running' ORDER BY e.number";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	while ((r = statement_step(&t, err)) > 0) {
		struct store_exec e;

		read_row(&t, &e);
		r = each(&e, arg);
		store_exec_done(&e);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}

int store_exec_update(struct store *s, const struct store_exec *e, struct err *err)
{
	static const char sql[] =
		"UPDATE execs SET pid = ?, has_ended = ?, exit_code = ?, signal = ?,"
		" is_timed_out = ?, ended_ms = ? WHERE sandbox = ? AND id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_int(&t, e->pid);
	bind_int(&t, e->has_ended);
	bind_int(&t, e->exit_code);
	bind_int(&t, e->signal);
	bind_int(&t, e->is_timed_out);
	bind_int(&t, !e->has_ended ? 0 : e->ended_ms ? e->ended_ms : store_now_ms());
	bind_text(&t, e->sandbox);
	bind_text(&t, e->id);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	return r == 0 ? err_set(err, ENOENT, "no exec '%s'", e->id) : 0;
}
