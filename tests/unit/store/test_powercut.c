/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The power is cut at every write the store makes, and the store is opened again.
 *
 * A VFS over SQLite's own records every write, truncation, sync and deletion of a first run, with a
 * mark wherever a transaction was acknowledged. Then, for every prefix of that record, the files
 * are made as a disk could hold them: what was synced is there; what was not is dropped, or, in
 * further rounds, there in part, torn at sectors and out of order. Each time: the store opens,
 * integrity_check is ok, every acknowledged transaction is whole, the one under way is whole or
 * absent, and the store takes a new one.
 */
#include "store_fixture.h"

#include <fcntl.h>
#include <sqlite3.h>

#define OPS_MAX      8192
#define FILES_MAX    3 /* bawn.db, its -wal and its -journal; -shm is memory and is lost */
#define SECTOR       512
#define TRANSACTIONS 24
#define TORN_ROUNDS  1

enum op_type { OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_DELETE, OP_ACKNOWLEDGED };

struct op {
	enum op_type type;
	int file;
	sqlite3_int64 offset; /* OP_TRUNCATE: the size; OP_ACKNOWLEDGED: the number */
	int n;
	char *bytes;
};

static struct op ops[OPS_MAX];
static int ops_n;
static bool is_recording;

/* ---- the recording VFS: every method of SQLite's own, with a note ---- */

struct file {
	sqlite3_file base;
	int which; /* -1: not recorded */
	sqlite3_file *real;
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs recording_vfs;
static sqlite3_io_methods methods;

static int which_file(const char *name)
{
	static const char *const ends[FILES_MAX] = {"bawn.db", "bawn.db-wal", "bawn.db-journal"};
	const char *base = name ? strrchr(name, '/') : NULL;

	for (int i = 0; base && i < FILES_MAX; i++)
		if (strcmp(base + 1, ends[i]) == 0)
			return i;
	return -1;
}

static void record(enum op_type type, int file, sqlite3_int64 offset, const void *p, int n)
{
	struct op *op = &ops[ops_n];

	if (!is_recording || file < 0)
		return;
	if (ops_n >= OPS_MAX)
		abort();
	*op = (struct op){.type = type, .file = file, .offset = offset, .n = n};
	if (n > 0) {
		op->bytes = malloc((size_t)n);
		if (!op->bytes)
			abort();
		(void)memcpy(op->bytes, p, (size_t)n);
	}
	ops_n++;
}

static sqlite3_file *real(sqlite3_file *f)
{
	return ((struct file *)f)->real;
}

static int x_close(sqlite3_file *f)
{
	int code = real(f)->pMethods->xClose(real(f));

	free(real(f));
	return code;
}

static int x_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	return real(f)->pMethods->xRead(real(f), p, n, at);
}

static int x_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	record(OP_WRITE, ((struct file *)f)->which, at, p, n);
	return real(f)->pMethods->xWrite(real(f), p, n, at);
}

static int x_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	record(OP_TRUNCATE, ((struct file *)f)->which, size, NULL, 0);
	return real(f)->pMethods->xTruncate(real(f), size);
}

/* Noted and not done: this disk is the record, and a thousand reopenings need no fsync. */
static int x_sync(sqlite3_file *f, int flags)
{
	(void)flags;
	record(OP_SYNC, ((struct file *)f)->which, 0, NULL, 0);
	return SQLITE_OK;
}

static int x_size(sqlite3_file *f, sqlite3_int64 *ret)
{
	return real(f)->pMethods->xFileSize(real(f), ret);
}

static int x_lock(sqlite3_file *f, int level)
{
	return real(f)->pMethods->xLock(real(f), level);
}

static int x_unlock(sqlite3_file *f, int level)
{
	return real(f)->pMethods->xUnlock(real(f), level);
}

static int x_reserved(sqlite3_file *f, int *ret)
{
	return real(f)->pMethods->xCheckReservedLock(real(f), ret);
}

static int x_control(sqlite3_file *f, int op, void *arg)
{
	return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int x_sector(sqlite3_file *f)
{
	(void)f;
	return SECTOR;
}

/* No promise beyond a plain disk's: neither atomic nor safe-append nor power-safe overwrites. */
static int x_traits(sqlite3_file *f)
{
	(void)f;
	return 0;
}

static int x_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
	return real(f)->pMethods->xShmMap(real(f), page, size, extend, ret);
}

static int x_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
	return real(f)->pMethods->xShmLock(real(f), at, n, flags);
}

static void x_shm_barrier(sqlite3_file *f)
{
	real(f)->pMethods->xShmBarrier(real(f));
}

static int x_shm_unmap(sqlite3_file *f, int remove)
{
	return real(f)->pMethods->xShmUnmap(real(f), remove);
}

static int x_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
	struct file *mine = (struct file *)f;
	int code;

	(void)v;
	mine->base.pMethods = NULL;
	mine->which = which_file(name);
	mine->real = calloc(1, (size_t)real_vfs->szOsFile);
	if (!mine->real)
		return SQLITE_NOMEM;
	code = real_vfs->xOpen(real_vfs, name, mine->real, flags, ret_flags);
	if (code != SQLITE_OK) {
		free(mine->real);
		return code;
	}
	mine->base.pMethods = &methods;
	return SQLITE_OK;
}

static int x_delete(sqlite3_vfs *v, const char *name, int want_sync)
{
	(void)v;
	record(OP_DELETE, which_file(name), 0, NULL, 0);
	if (want_sync) /* the directory is: the file stays deleted */
		record(OP_SYNC, which_file(name), 0, NULL, 0);
	return real_vfs->xDelete(real_vfs, name, 0);
}

static void install_vfs(void)
{
	real_vfs = sqlite3_vfs_find(NULL);
	recording_vfs = *real_vfs;
	recording_vfs.zName = "recording";
	recording_vfs.szOsFile = sizeof(struct file);
	recording_vfs.pNext = NULL;
	recording_vfs.xOpen = x_open;
	recording_vfs.xDelete = x_delete;
	methods = (sqlite3_io_methods){
		.iVersion = 2,
		.xClose = x_close,
		.xRead = x_read,
		.xWrite = x_write,
		.xTruncate = x_truncate,
		.xSync = x_sync,
		.xFileSize = x_size,
		.xLock = x_lock,
		.xUnlock = x_unlock,
		.xCheckReservedLock = x_reserved,
		.xFileControl = x_control,
		.xSectorSize = x_sector,
		.xDeviceCharacteristics = x_traits,
		.xShmMap = x_shm_map,
		.xShmLock = x_shm_lock,
		.xShmBarrier = x_shm_barrier,
		.xShmUnmap = x_shm_unmap,
	};
	CHECK_INT(sqlite3_vfs_register(&recording_vfs, 1), SQLITE_OK);
}

/* ---- the disk after a cut ---- */

static uint32_t dice = 12345; /* a fixed seed: a failure comes again */

static uint32_t roll(uint32_t sides)
{
	dice = dice * 1664525u + 1013904223u;
	return (dice >> 8) % sides;
}

static void put(int fd, const char *p, int n, sqlite3_int64 at)
{
	if (pwrite(fd, p, (size_t)n, at) != n)
		abort();
}

/* An unsynced write: not at all, whole, or some of its sectors. */
static void put_torn(int fd, const struct op *op)
{
	uint32_t luck = roll(3);

	if (luck == 1)
		put(fd, op->bytes, op->n, op->offset);
	for (int at = 0; luck == 2 && at < op->n; at += SECTOR)
		if (roll(2))
			put(fd, op->bytes + at, op->n - at < SECTOR ? op->n - at : SECTOR,
				op->offset + at);
}

static void apply(const struct op *op, int fd)
{
	if (op->type == OP_WRITE)
		put(fd, op->bytes, op->n, op->offset);
	if (op->type == OP_TRUNCATE && ftruncate(fd, op->offset) < 0)
		abort();
	/* Deleting is shown by an empty file: SQLite treats an empty journal or log as none. */
	if (op->type == OP_DELETE && ftruncate(fd, 0) < 0)
		abort();
}

static void make_disk(const char *dir, int cut, bool is_torn)
{
	static const char *const names[FILES_MAX] = {"bawn.db", "bawn.db-wal", "bawn.db-journal"};
	AUTO_FREE char *shm = text_format("%s/bawn.db-shm", dir);

	(void)unlink(shm);
	for (int file = 0; file < FILES_MAX; file++) {
		AUTO_FREE char *path = text_format("%s/%s", dir, names[file]);
		AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		int synced = 0;

		if (fd < 0)
			abort();
		for (int i = 0; i < cut; i++)
			if (ops[i].file == file && ops[i].type == OP_SYNC)
				synced = i;
		for (int i = 0; i < synced; i++)
			if (ops[i].file == file)
				apply(&ops[i], fd);
		/* Behind the last sync, backwards half of the time: a disk has its own order. */
		for (int i = synced; is_torn && i < cut; i++) {
			const struct op *op = &ops[i];

			if (op->file == file && op->type == OP_WRITE)
				put_torn(fd, op);
			else if (op->file == file && roll(2))
				apply(op, fd);
		}
	}
}

/* ---- the life that is cut ---- */

static char big[9000]; /* a spec of three pages: transactions are torn between pages too */

static void transaction(struct store *s, int number, struct err *err)
{
	struct store_sandbox r = fixture_row("", "acme");
	struct store_event e = {.tenant = "acme", .action = "sandbox.create", .detail = "{}"};

	(void)snprintf(r.id, sizeof(r.id), "i%d", number);
	r.spec = big;
	e.sandbox = r.id;
	/* Both ways to the disk: every other one is committed first and synced then. */
	CHECK_INT(number % 2 ? store_begin(s, err) : store_begin_unsynced(s, err), 0);
	CHECK_INT(store_sandbox_insert(s, &r, err), 0);
	CHECK_INT(store_event_append(s, &e, err), 0);
	if (number > 1) {
		char before[16];

		(void)snprintf(before, sizeof(before), "i%d", number - 1);
		CHECK_INT(store_sandbox_set_state(
				  s, before, SANDBOX_RUNNING, SANDBOX_NO_REASON, "", err),
			0);
	}
	CHECK_INT(store_commit(s, err), 0);
	if (number % 2 == 0)
		CHECK_INT(store_sync(s, err), 0);
	free(r.tenant);
}

static void live(const char *dir)
{
	struct store *s = NULL;
	struct err err = {0};

	is_recording = true;
	CHECK_INT(store_open(dir, &s, &err), 0);
	for (int i = 1; i <= TRANSACTIONS; i++) {
		transaction(s, i, &err);
		record(OP_ACKNOWLEDGED, 0, i, NULL, 0);
		if (i == TRANSACTIONS - 4) { /* once closed in between, as by a restart */
			s = store_close(s);
			CHECK_INT(store_open(dir, &s, &err), 0);
		}
	}
	s = store_close(s);
	is_recording = false;
}

/* ---- what must be there ---- */

struct found {
	int rows, running, events;
	int last;
	bool has_gap;
};

static int count_row(const struct store_sandbox *r, void *arg)
{
	struct found *f = arg;

	f->rows++;
	f->running += r->state == SANDBOX_RUNNING;
	f->has_gap |= strlen(r->spec) != strlen(big);
	return 0;
}

static int count_event(const struct store_event *e, void *arg)
{
	struct found *f = arg;

	f->has_gap |= e->number != ++f->events;
	return 0;
}

static int integrity_is_ok(void *arg, int n, char **values, char **names)
{
	(void)names;
	*(bool *)arg = n == 1 && strcmp(values[0], "ok") == 0;
	return 0;
}

static bool integrity(const char *dir)
{
	AUTO_FREE char *path = text_format("%s/bawn.db", dir);
	sqlite3 *db = NULL;
	bool is_ok = false;

	if (sqlite3_open(path, &db) == SQLITE_OK)
		(void)sqlite3_exec(db, "PRAGMA integrity_check", integrity_is_ok, &is_ok, NULL);
	(void)sqlite3_close(db);
	return is_ok;
}

static bool judge(const char *dir, int acknowledged)
{
	struct store *s = NULL;
	struct err err = {0};
	struct found f = {0};
	struct store_event e = {.tenant = "acme", .action = "after"};
	bool is_good;

	if (store_open(dir, &s, &err) < 0) {
		tap_print("# %s\n", err.msg);
		return false;
	}
	is_good = store_sandbox_each(s, ~0u, count_row, &f, &err) == 0 &&
		  store_event_each(s, NULL, NULL, 0, 1000, count_event, &f, &err) == 0 &&
		  !f.has_gap && f.rows == f.events && f.running == (f.rows > 0 ? f.rows - 1 : 0) &&
		  (f.rows == acknowledged || f.rows == acknowledged + 1) &&
		  store_event_append(s, &e, &err) == 0;
	s = store_close(s);
	if (!is_good)
		tap_print("# acknowledged %d: rows %d, running %d, events %d: %s\n", acknowledged,
			f.rows, f.running, f.events, err.msg);
	return is_good && integrity(dir);
}

static void every_cut_leaves_what_was_acknowledged(void)
{
	/* In memory where there is a place for it: thousands of disks are made. */
	const char *top = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	AUTO_FREE char *first = text_format("%s/test_powercut.XXXXXX", top);
	AUTO_FREE char *second = text_format("%s/test_powercut.XXXXXX", top);
	int acknowledged = 0, cuts = 0, bad = 0, syncs = 0, checkpoints = 0;

	if (!CHECK(mkdtemp(first) != NULL && mkdtemp(second) != NULL))
		return;
	(void)memset(big, 'x', sizeof(big) - 1);
	live(first);
	for (int cut = 0; cut <= ops_n && bad < 5; cut++) {
		if (cut > 0 && ops[cut - 1].type == OP_ACKNOWLEDGED)
			acknowledged = (int)ops[cut - 1].offset;
		syncs += cut > 0 && ops[cut - 1].type == OP_SYNC;
		checkpoints += cut > 0 && ops[cut - 1].type == OP_SYNC && ops[cut - 1].file == 0;
		for (int round = 0; round <= TORN_ROUNDS; round++) {
			make_disk(second, cut, round > 0);
			cuts++;
			if (!judge(second, acknowledged)) {
				bad++;
				tap_print("# cut behind operation %d, round %d\n", cut, round);
			}
		}
	}
	CHECK_INT(bad, 0);
	CHECK_INT(acknowledged, TRANSACTIONS);
	/* The record is a real one: a sync per commit at least, and checkpoints in its middle. */
	CHECK(syncs > TRANSACTIONS);
	CHECK(checkpoints >= 2);
	tap_print("# %d operations, %d syncs, %d disks\n", ops_n, syncs, cuts);
	for (int i = 0; i < ops_n; i++)
		free(ops[i].bytes);
	for (int i = 0; i < 2; i++) {
		static const char *const names[] = {
			"bawn.db", "bawn.db-wal", "bawn.db-journal", "bawn.db-shm"};

		for (int k = 0; k < 4; k++) {
			AUTO_FREE char *path = text_format("%s/%s", i ? second : first, names[k]);

			(void)unlink(path);
		}
		CHECK_INT(rmdir(i ? second : first), 0);
	}
}

int main(void)
{
	install_vfs();
	RUN(every_cut_leaves_what_was_acknowledged);
	return tap_done();
}
