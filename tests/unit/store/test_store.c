/* SPDX-License-Identifier: Apache-2.0 */

#include "store_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>

static int no_key(const struct store_key *k, void *arg)
{
	(void)k;
	++*(int *)arg;
	return 0;
}

static void sql(const char *dir, const char *text)
{
	AUTO_FREE char *path = text_format("%s/bawn.db", dir);
	sqlite3 *db = NULL;

	CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

static void a_new_store_is_private_and_empty(void)
{
	struct fixture f;
	struct stat st;
	int n = 0;

	fixture_init(&f);
	for (int i = 0; i < 3; i++) {
		static const char *const files[] = {"bawn.db", "bawn.db-wal", "bawn.db-shm"};
		AUTO_FREE char *path = text_format("%s/%s", f.dir, files[i]);

		CHECK_INT(stat(path, &st), 0);
		CHECK_INT(st.st_mode & 0777, 0600);
	}
	CHECK_INT(store_key_list(f.s, NULL, no_key, &n, &f.err), 0);
	CHECK_INT(n, 0);
	CHECK_INT(store_event_last(f.s), 0);
	fixture_done(&f);
}

static void a_symlink_in_its_place_is_refused(void)
{
	char dir[] = "/tmp/test_store.XXXXXX";
	struct store *s = NULL;
	struct err err = {0};
	AUTO_FREE char *path = NULL;

	CHECK(mkdtemp(dir) != NULL);
	path = text_format("%s/bawn.db", dir);
	CHECK_INT(symlink("/tmp/elsewhere", path), 0);
	CHECK_INT(store_open(dir, &s, &err), -ELOOP);
	CHECK(s == NULL);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(rmdir(dir), 0);
	CHECK_INT(store_open(dir, &s, &err), -ENOENT);
}

static void a_store_of_a_newer_bawn_is_left_alone(void)
{
	struct fixture f;
	struct store *s = NULL;

	fixture_init(&f);
	f.s = store_close(f.s);
	sql(f.dir, "PRAGMA user_version = 999");
	CHECK_INT(store_open(f.dir, &s, &f.err), -EPROTO);
	CHECK(strstr(f.err.msg, "newer") != NULL);
	CHECK(s == NULL);
	fixture_done(&f);
}

static void what_is_no_database_is_refused(void)
{
	struct fixture f;
	struct store *s = NULL;
	AUTO_FREE char *path = NULL;
	AUTO_FD int fd = -EBADF;
	char junk[8192];

	fixture_init(&f);
	f.s = store_close(f.s);
	path = text_format("%s/bawn.db", f.dir);
	(void)memset(junk, 'j', sizeof(junk));
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	CHECK_INT(write(fd, junk, sizeof(junk)), sizeof(junk));
	CHECK_INT(store_open(f.dir, &s, &f.err), -EBADMSG);
	CHECK(s == NULL);
	fixture_done(&f);
}

/* A migration that failed half-way is tried again from where the file stands. */
static void opening_twice_migrates_once(void)
{
	struct fixture f;
	struct store *other = NULL;

	fixture_init(&f);
	CHECK_INT(store_open(f.dir, &other, &f.err), 0);
	other = store_close(other);
	fixture_reopen(&f);
	fixture_done(&f);
}

static void a_rollback_leaves_nothing(void)
{
	struct fixture f;
	struct store_event e = {.tenant = "t", .action = "a"};

	fixture_init(&f);
	CHECK_INT(store_begin(f.s, &f.err), 0);
	CHECK_INT(store_begin(f.s, &f.err), -EALREADY);
	CHECK_INT(store_event_append(f.s, &e, &f.err), 0);
	store_rollback(f.s);
	CHECK_INT(store_event_last(f.s), 0);
	CHECK_INT(store_begin(f.s, &f.err), 0);
	CHECK_INT(store_event_append(f.s, &e, &f.err), 0);
	CHECK_INT(store_commit(f.s, &f.err), 0);
	CHECK_INT(store_event_last(f.s), 1);
	fixture_done(&f);
}

static void the_version_moves_with_others_writes_and_with_own_keys(void)
{
	struct fixture f;
	struct store *other = NULL;
	struct store_event e = {.tenant = "t", .action = "a"};
	struct store_key k;
	char text[STORE_KEY_TEXT];
	uint64_t v;

	fixture_init(&f);
	CHECK_INT(store_open(f.dir, &other, &f.err), 0);
	v = store_version(f.s);
	CHECK(store_version(f.s) == v);
	CHECK_INT(store_event_append(f.s, &e, &f.err), 0);
	CHECK(store_version(f.s) == v);
	CHECK_INT(store_key_create(other, "t", "", text, &k, &f.err), 0);
	store_key_done(&k);
	CHECK(store_version(f.s) != v);
	v = store_version(f.s);
	CHECK_INT(store_key_create(f.s, "t", "", text, &k, &f.err), 0);
	store_key_done(&k);
	CHECK(store_version(f.s) != v);
	other = store_close(other);
	fixture_done(&f);
}

static bool put_text(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A disk of our own, of 1 MiB; the namespaces are this test program's from here on. */
static bool small_disk(const char *dir)
{
	AUTO_FREE char *map = text_format("0 %u 1", getuid());
	AUTO_FREE char *groups = text_format("0 %u 1", getgid());

	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put_text("/proc/self/uid_map", map) &&
	       put_text("/proc/self/setgroups", "deny") && put_text("/proc/self/gid_map", groups) &&
	       mount("bawn", dir, "tmpfs", 0, "size=1m") == 0;
}

static void a_full_disk_is_a_typed_error_and_loses_nothing(void)
{
	struct fixture f = {.dir = "/tmp/test_store.XXXXXX"};
	struct store_event e = {.tenant = "t", .action = "a"};
	AUTO_FREE char *detail = calloc(1, 60000);
	AUTO_FREE char *ballast = NULL;
	int64_t done = 0;
	int r = 0;

	CHECK(mkdtemp(f.dir) != NULL);
	if (!small_disk(f.dir)) {
		tap_cannot("no mount in a user namespace: %s", strerror(errno));
		(void)rmdir(f.dir);
		return;
	}
	ballast = text_format("%s/ballast", f.dir);
	{
		AUTO_FD int fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		CHECK(fd >= 0 && posix_fallocate(fd, 0, 200000) == 0);
	}
	fixture_reopen(&f);
	(void)memset(detail, 'x', 59999);
	e.detail = detail;
	for (int i = 0; i < 100 && r == 0; i++) {
		r = store_event_append(f.s, &e, &f.err);
		done += r == 0;
	}
	CHECK_INT(r, -ENOSPC);
	CHECK(done > 0);
	CHECK_INT(store_event_last(f.s), done);
	CHECK_INT(unlink(ballast), 0);
	CHECK_INT(store_event_append(f.s, &e, &f.err), 0);
	fixture_reopen(&f);
	CHECK_INT(store_event_last(f.s), done + 1);
	f.s = store_close(f.s);
	CHECK_INT(umount2(f.dir, MNT_DETACH), 0);
	CHECK_INT(rmdir(f.dir), 0);
}

int main(void)
{
	RUN(a_new_store_is_private_and_empty);
	RUN(a_symlink_in_its_place_is_refused);
	RUN(a_store_of_a_newer_bawn_is_left_alone);
	RUN(what_is_no_database_is_refused);
	RUN(opening_twice_migrates_once);
	RUN(a_rollback_leaves_nothing);
	RUN(the_version_moves_with_others_writes_and_with_own_keys);
	RUN(a_full_disk_is_a_typed_error_and_loses_nothing);
	return tap_done();
}
