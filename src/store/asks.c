/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/asks - what people were asked by sandboxes at their egress, and what they said.
 *
 * The connection that waits is held by the egress role; a row without one is over, and says so.
 * Rows go with their sandbox.
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/store_impl.h"

#include <string.h>

#define RECORD_MAX 8192
#define COLUMNS                                                                                    \
	"id, sandbox, tenant, engine, record, note, made_ms, expires_ms, answered_ms, state,"      \
	" scope, actor"

void store_ask_done(struct store_ask *a)
{
	free(TAKE_PTR(a->tenant));
	free(TAKE_PTR(a->record));
	free(TAKE_PTR(a->note));
}

static void read_row(struct statement *t, struct store_ask *ret)
{
	*ret = (struct store_ask){0};
	column_copy(t, ret->id, sizeof(ret->id));
	column_copy(t, ret->sandbox, sizeof(ret->sandbox));
	ret->tenant = column_text(t);
	column_copy(t, ret->engine, sizeof(ret->engine));
	ret->record = column_text(t);
	ret->note = column_text(t);
	ret->made_ms = column_int(t);
	ret->expires_ms = column_int(t);
	ret->answered_ms = column_int(t);
	column_copy(t, ret->state, sizeof(ret->state));
	column_copy(t, ret->scope, sizeof(ret->scope));
	column_copy(t, ret->actor, sizeof(ret->actor));
}

int store_ask_insert(struct store *s, const struct store_ask *a, struct err *err)
{
	static const char sql[] =
		"INSERT INTO asks (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 'open', '', '')";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	if (strlen(a->record) > RECORD_MAX)
		return err_set(err, E2BIG, "an ask is too long");
	bind_text(&t, a->id);
	bind_text(&t, a->sandbox);
	bind_text(&t, a->tenant);
	bind_text(&t, a->engine);
	bind_text(&t, a->record);
	bind_text(&t, a->note);
	bind_int(&t, a->made_ms ? a->made_ms : store_now_ms());
	bind_int(&t, a->expires_ms);
	r = statement_run(&t, err);
	return r < 0 ? r : 0;
}

static int read_one(struct statement *t, const char *id, struct store_ask *ret, struct err *err)
{
	char quoted[80];
	int r = statement_step(t, err);

	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, ENOENT, "no ask '%s'", text_quote(id, quoted, sizeof(quoted)));
	read_row(t, ret);
	return 0;
}

int store_ask_get(
	struct store *s, const char *tenant, const char *id, struct store_ask *ret, struct err *err)
{
	static const char sql[] =
		"SELECT " COLUMNS " FROM asks WHERE id = ?1 AND (?2 = '' OR tenant = ?2)";
	AUTO_STATEMENT struct statement t = statement(s, sql);

	bind_text(&t, id);
	bind_text(&t, tenant);
	return read_one(&t, id, ret, err);
}

int store_ask_by_engine(struct store *s, const char *sandbox, const char *engine,
	int64_t expires_ms, struct store_ask *ret, struct err *err)
{
	static const char sql[] = "SELECT " COLUMNS " FROM asks WHERE sandbox = ? AND engine = ?"
				  " AND expires_ms = ? AND state = 'open'";
	AUTO_STATEMENT struct statement t = statement(s, sql);

	bind_text(&t, sandbox);
	bind_text(&t, engine);
	bind_int(&t, expires_ms);
	return read_one(&t, engine, ret, err);
}

int store_ask_answer(struct store *s, const char *id, const char *state, const char *scope,
	const char *actor, struct err *err)
{
	static const char sql[] = "UPDATE asks SET state = ?, scope = ?, actor = ?, answered_ms = ?"
				  " WHERE id = ? AND state = 'open'";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, state);
	bind_text(&t, scope);
	bind_text(&t, actor);
	bind_int(&t, store_now_ms());
	bind_text(&t, id);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	return r == 0 ? err_set(err, EALREADY, "ask '%s' is over", id) : 0;
}

int store_ask_expire(struct store *s, const char *sandbox, const char *id, struct err *err)
{
	static const char sql[] =
		"UPDATE asks SET state = 'expired', answered_ms = ?3 WHERE state = 'open'"
		" AND (?1 = '' OR sandbox = ?1) AND (?2 = '' OR id = ?2)";
	AUTO_STATEMENT struct statement t = statement(s, sql);

	bind_text(&t, sandbox);
	bind_text(&t, id);
	bind_int(&t, store_now_ms());
	return statement_run(&t, err);
}

int store_ask_each(struct store *s, const char *tenant, const char *state, size_t n,
	int (*each)(const struct store_ask *a, void *arg), void *arg, struct err *err)
{
	static const char sql[] = "SELECT " COLUMNS " FROM asks WHERE (?1 = '' OR tenant = ?1) AND"
				  " (?2 = '' OR state = ?2) ORDER BY number DESC LIMIT ?3";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	bind_text(&t, state);
	bind_int(&t, n > INT32_MAX ? INT32_MAX : (int64_t)n);
	while ((r = statement_step(&t, err)) > 0) {
		struct store_ask a;

		read_row(&t, &a);
		r = each(&a, arg);
		store_ask_done(&a);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}
