/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * store's own header: the handle, statements, transactions, errors of SQLite as ours.
 *
 * A statement is kept prepared for the life of the handle, found by the address of its
 * SQL text (a static array in the file of its table). One that is in use, because a callback of
 * its own loop asks again, is prepared a second time for that one use.
 */
#include "store/store.h"

#include <sqlite3.h>

#define STORE_STATEMENTS_MAX 128
#define STORE_DETAIL_MAX     (64u << 10) /* bytes of an event's detail */
#define STORE_LATE_MAX       256         /* events that wait; then they are written at once */

struct store_late;

struct store {
	sqlite3 *db;
	struct {
		const char *sql;
		sqlite3_stmt *st;
	} kept[STORE_STATEMENTS_MAX];
	size_t kept_n;
	bool is_open;            /* between store_begin() and store_commit() */
	bool is_lazy;            /* commits are not synced just now */
	struct store_late *late; /* events_late.c: oldest first */
	size_t late_n;
	size_t late_written;   /* of these, in the open transaction */
	uint64_t keys_changed; /* by this handle; PRAGMA data_version sees only others' */
};

/* One use of a statement: bind in order, step, columns in order; done by attribute. */
struct statement {
	struct store *s;
	sqlite3_stmt *st;
	bool is_kept;
	int binds, column; /* used so far */
	int code;          /* first SQLite failure, SQLITE_OK */
};

struct statement statement(struct store *s, const char *sql);
void statement_donep(struct statement *t);
#define AUTO_STATEMENT __attribute__((cleanup(statement_donep)))

/* The text is borrowed until the next step. NULL is "". */
void bind_text(struct statement *t, const char *v);
void bind_int(struct statement *t, int64_t v);
void bind_blob(struct statement *t, const void *p, size_t n);
void bind_null(struct statement *t);

/* 1: a row, 0: no more, < 0: failed (err is set). */
int statement_step(struct statement *t, struct err *err);
/* For statements without rows: step once; returns how many rows were changed. */
int statement_run(struct statement *t, struct err *err);

int64_t column_int(struct statement *t);
char *column_text(struct statement *t); /* fresh; aborts on OOM: rows are bounded at insert */
/* Borrowed until the next step. */
const char *column_peek(struct statement *t);
/* Copies into out, cut if it does not fit (it does: sizes are checked at insert). */
void column_copy(struct statement *t, char *out, size_t out_size);
const void *column_blob(struct statement *t, size_t *ret_n);

/* The failure of the last SQLite call on this handle as ours. */
int store_fail(struct store *s, int code, struct err *err, const char *what);
int store_exec_sql(struct store *s, const char *sql, struct err *err);

/*
 * A transaction of one function: begins one unless the caller has one open, and then leaves
 * commit and rollback to that caller. `r` is the outcome so far; returns the outcome.
 */
int store_tx_begin(struct store *s, bool *ret_is_mine, struct err *err);
int store_tx_end(struct store *s, bool is_mine, int r, struct err *err);

/* events_late.c: into the transaction just opened; then its outcome; then the end. */
int store_late_write(struct store *s, struct err *err);
void store_late_done(struct store *s, bool is_kept);
void store_late_free(struct store *s);

/* Bring the schema up to date (store/schema.c). */
int store_migrate(struct store *s, struct err *err);
/* How many migrations there are; tests open at each. */
int store_schema_version(void);

int64_t store_now_ms(void); /* unix */
/* Make the tenant if it is new; -EINVAL if it is not a name. */
int store_tenant_need(struct store *s, const char *tenant, struct err *err);
