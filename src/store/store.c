/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store - opening the database, transactions, and what tables share.
 *
 * WAL; a commit that returned is on the disk, unless it said it can wait for store_sync(); and
 * `bawn key` reads and writes beside the server. The api role owns the files; nobody else opens
 * them.
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/store_impl.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define BUSY_MS          2000 /* another process commits: a few ms; a stuck one is an error */
#define CHECKPOINT_PAGES 256  /* 1 MiB: a checkpoint's fsync blocks the loop, keep it short */

/* SQLite would make it 0644 and show keys' hashes and tokens to every user. */
static int make_file(const char *dir, const char *path, struct err *err)
{
	AUTO_FD int dir_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	AUTO_FD int fd = -EBADF;

	if (dir_fd < 0)
		return err_sys(err, "store: open '%s'", dir);
	fd = openat(dir_fd, "bawn.db", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(err, "store: open '%s'", path);
	if (fsync(dir_fd) < 0)
		return err_sys(err, "store: fsync '%s'", dir);
	return 0;
}

static int configure(struct store *s, struct err *err)
{
	/*
	 * EXTRA, first: with a log it is FULL, but the switch to the log uses a rollback
	 * journal, and only EXTRA syncs the directory once that is deleted. A journal that comes
	 * back with the power would undo the switch, and every commit in the log with it.
	 */
	static const char pragmas[] =
		"PRAGMA synchronous=EXTRA; PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON;"
		"PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY;"
		"PRAGMA journal_size_limit=4194304;";

	(void)sqlite3_busy_timeout(s->db, BUSY_MS);
	(void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_limit(s->db, SQLITE_LIMIT_ATTACHED, 0);
	(void)sqlite3_wal_autocheckpoint(s->db, CHECKPOINT_PAGES);
	return store_exec_sql(s, pragmas, err);
}

int store_open(const char *dir, struct store **ret, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/bawn.db", dir);
	AUTO(store_close) struct store *s = MEM_NEW(struct store);
	int code, r;

	r = make_file(dir, path, err);
	if (r < 0)
		return r;
	code = sqlite3_open_v2(path, &s->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
	if (code != SQLITE_OK) {
		if (!s->db)
			return err_set(err, ENOMEM, "store: open '%s'", path);
		return store_fail(s, code, err, path);
	}
	r = configure(s, err);
	if (r == 0)
		r = store_migrate(s, err);
	if (r < 0)
		return err_wrap(err, "'%s'", path);
	*ret = TAKE_PTR(s);
	return 0;
}

struct store *store_close(struct store *s)
{
	struct err ignored = {0};

	if (!s)
		return NULL;
	if (s->db)
		(void)store_settle(s, &ignored);
	store_late_free(s);
	for (size_t i = 0; i < s->kept_n; i++)
		(void)sqlite3_finalize(s->kept[i].st);
	(void)sqlite3_close(s->db);
	free(s);
	return NULL;
}

/* Carried out when it is prepared, so it cannot be kept; asked for only when it changes. */
static int set_lazy(struct store *s, bool is_lazy, struct err *err)
{
	int r;

	if (s->is_lazy == is_lazy)
		return 0;
	r = store_exec_sql(
		s, is_lazy ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=EXTRA", err);
	if (r >= 0)
		s->is_lazy = is_lazy;
	return r;
}

/* At once: a statement outside of a transaction is one by itself. */
static void be_strict(struct store *s)
{
	struct err ignored = {0};

	(void)set_lazy(s, false, &ignored); /* store_begin() tries again */
}

static int begin(struct store *s, bool is_lazy, struct err *err)
{
	static const char sql[] = "BEGIN IMMEDIATE";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	if (s->is_open)
		return err_set(err, EALREADY, "store: a transaction is open");
	r = set_lazy(s, is_lazy, err);
	if (r >= 0)
		r = statement_step(&t, err);
	if (r < 0)
		return r;
	s->is_open = true;
	r = store_late_write(s, err);
	if (r < 0)
		store_rollback(s);
	return r;
}

int store_begin(struct store *s, struct err *err)
{
	return begin(s, false, err);
}

int store_begin_unsynced(struct store *s, struct err *err)
{
	return begin(s, true, err);
}

int store_sync(struct store *s, struct err *err)
{
	sqlite3_file *log = NULL;
	int code;

	/* The log, in this mode; what is not in it any more was synced with the database. */
	code = sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
	if (code == SQLITE_OK && log && log->pMethods)
		code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
	return code == SQLITE_OK ? 0 : store_fail(s, code, err, "sync");
}

int store_commit(struct store *s, struct err *err)
{
	static const char sql[] = "COMMIT";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r = statement_step(&t, err);

	statement_donep(&t);
	if (r < 0) {
		store_rollback(s);
		return r;
	}
	s->is_open = false;
	store_late_done(s, true);
	be_strict(s);
	return 0;
}

void store_rollback(struct store *s)
{
	/* A full disk may have rolled back by itself already; then this fails, which is fine. */
	if (!sqlite3_get_autocommit(s->db))
		(void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->is_open = false;
	store_late_done(s, false);
	be_strict(s);
}

int store_tx_begin(struct store *s, bool *ret_is_mine, struct err *err)
{
	*ret_is_mine = !s->is_open;
	return s->is_open ? 0 : store_begin(s, err);
}

int store_tx_end(struct store *s, bool is_mine, int r, struct err *err)
{
	if (!is_mine)
		return r;
	if (r < 0) {
		store_rollback(s);
		return r;
	}
	return store_commit(s, err) < 0 ? -err->code : r;
}

uint64_t store_version(struct store *s)
{
	static const char sql[] = "PRAGMA data_version";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	struct err err = {0};
	uint64_t others = 0;

	if (statement_step(&t, &err) > 0)
		others = (uint64_t)column_int(&t);
	else
		s->keys_changed++; /* unknown is changed: a cache must not outlive a revoked key */
	return others << 32 | (s->keys_changed & UINT32_MAX);
}

uint64_t store_keys_changed(const struct store *s)
{
	return s->keys_changed;
}

int64_t store_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
