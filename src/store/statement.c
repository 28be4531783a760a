/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/statement - prepared statements as values, and SQLite's codes as errno.
 */
#include "base/mem.h"
#include "store/store_impl.h"

#include <assert.h>
#include <stdio.h>

static int errno_of(struct store *s, int code)
{
	int sys = sqlite3_system_errno(s->db);

	switch (code & 0xff) {
	case SQLITE_FULL: return ENOSPC;
	case SQLITE_IOERR: /* on a full disk the WAL's shared memory file says it this way */
		return sys == ENOSPC || sys == EDQUOT ? ENOSPC : EIO;
	case SQLITE_BUSY:
	case SQLITE_LOCKED: return EBUSY;
	case SQLITE_CONSTRAINT:
		return code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY ||
				       code == SQLITE_CONSTRAINT_ROWID
			       ? EEXIST
			       : EINVAL;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB: return EBADMSG;
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_AUTH: return EACCES;
	case SQLITE_READONLY: return EROFS;
	case SQLITE_NOMEM: return ENOMEM;
	case SQLITE_TOOBIG: return E2BIG;
	default: return EIO;
	}
}

int store_fail(struct store *s, int code, struct err *err, const char *what)
{
	return err_set(err, errno_of(s, code), "store: %s: %s", what, sqlite3_errmsg(s->db));
}

int store_exec_sql(struct store *s, const char *sql, struct err *err)
{
	int code = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : store_fail(s, code, err, "sql");
}

static sqlite3_stmt *prepare(struct store *s, const char *sql, unsigned flags, int *ret_code)
{
	sqlite3_stmt *st = NULL;

	*ret_code = sqlite3_prepare_v3(s->db, sql, -1, flags, &st, NULL);
	return st;
}

struct statement statement(struct store *s, const char *sql)
{
	struct statement t = {.s = s};
	size_t i;

	for (i = 0; i < s->kept_n; i++)
		if (s->kept[i].sql == sql)
			break;
	if (i < s->kept_n && !sqlite3_stmt_busy(s->kept[i].st)) {
		t.st = s->kept[i].st;
		t.is_kept = true;
	} else if (i < s->kept_n) {
		t.st = prepare(s, sql, 0, &t.code);
	} else {
		assert(s->kept_n < STORE_STATEMENTS_MAX);
		t.st = prepare(s, sql, SQLITE_PREPARE_PERSISTENT, &t.code);
		if (t.st) {
			s->kept[s->kept_n].sql = sql;
			s->kept[s->kept_n++].st = t.st;
			t.is_kept = true;
		}
	}
	return t;
}

void statement_donep(struct statement *t)
{
	if (!t->st)
		return;
	if (t->is_kept) {
		(void)sqlite3_reset(t->st); /* repeats the error of the step */
		(void)sqlite3_clear_bindings(t->st);
	} else {
		(void)sqlite3_finalize(t->st);
	}
	t->st = NULL;
}

static void bound(struct statement *t, int code)
{
	if (t->code == SQLITE_OK)
		t->code = code;
}

void bind_text(struct statement *t, const char *v)
{
	if (t->st)
		bound(t, sqlite3_bind_text(t->st, ++t->binds, v ? v : "", -1, SQLITE_STATIC));
}

void bind_int(struct statement *t, int64_t v)
{
	if (t->st)
		bound(t, sqlite3_bind_int64(t->st, ++t->binds, v));
}

void bind_blob(struct statement *t, const void *p, size_t n)
{
	if (t->st)
		bound(t, sqlite3_bind_blob64(t->st, ++t->binds, p, n, SQLITE_STATIC));
}

void bind_null(struct statement *t)
{
	if (t->st)
		bound(t, sqlite3_bind_null(t->st, ++t->binds));
}

int statement_step(struct statement *t, struct err *err)
{
	if (t->code == SQLITE_OK) {
		int code = sqlite3_step(t->st);

		t->column = 0;
		if (code == SQLITE_ROW)
			return 1;
		if (code == SQLITE_DONE)
			return 0;
		t->code = code;
	}
	return store_fail(t->s, t->code, err, t->st ? "step" : "prepare");
}

int statement_run(struct statement *t, struct err *err)
{
	int r = statement_step(t, err);

	if (r < 0)
		return r;
	assert(r == 0);
	return sqlite3_changes(t->s->db);
}

int64_t column_int(struct statement *t)
{
	return sqlite3_column_int64(t->st, t->column++);
}

const char *column_peek(struct statement *t)
{
	const unsigned char *p = sqlite3_column_text(t->st, t->column++);

	return p ? (const char *)p : "";
}

char *column_text(struct statement *t)
{
	return mem_strdup(column_peek(t));
}

void column_copy(struct statement *t, char *out, size_t out_size)
{
	(void)snprintf(out, out_size, "%s", column_peek(t));
}

const void *column_blob(struct statement *t, size_t *ret_n)
{
	const void *p = sqlite3_column_blob(t->st, t->column);

	*ret_n = (size_t)sqlite3_column_bytes(t->st, t->column++);
	return p;
}
