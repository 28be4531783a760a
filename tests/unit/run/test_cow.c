/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Hand-made overlay upper directories: T/lower is the target, T/upper what a box
 * wrote, T/state our own. A whiteout (a 0/0 character device) needs no privilege.
 */
#include "base/text.h"
#include "run/process/cow.h"
#include "sys/tree.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

static char top[64];

static const char *at(const char *rel)
{
	static char ring[8][PATH_MAX];
	static unsigned next;
	char *out = ring[next++ % 8];

	(void)snprintf(out, PATH_MAX, "%s/%s", top, rel);
	return out;
}

static void make_dir(const char *rel)
{
	struct err err = {0};

	CHECK(tree_make_dirs(at(rel), 0755, &err) == 0);
}

static void put_mode(const char *rel, const char *text, mode_t mode)
{
	AUTO_FREE char *dir = text_format("%s", rel);
	AUTO_FD int fd = -EBADF;

	*strrchr(dir, '/') = '\0';
	make_dir(dir);
	fd = open(at(rel), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(fchmod(fd, mode) == 0);
}

static void put(const char *rel, const char *text)
{
	put_mode(rel, text, 0644);
}

static void put_link(const char *rel, const char *target)
{
	CHECK(symlink(target, at(rel)) == 0);
}

static void put_whiteout(const char *rel)
{
	CHECK(mknod(at(rel), S_IFCHR | 0600, makedev(0, 0)) == 0);
}

static void set_opaque(const char *rel)
{
	/* As overlayfs does it: for root in a namespace of attributes that boxes cannot write. */
	CHECK(setxattr(at(rel), "trusted.overlay.opaque", "y", 1, 0) == 0 ||
		setxattr(at(rel), "user.overlay.opaque", "y", 1, 0) == 0);
}

/* The text of a file, "" if it is not one. */
static const char *text_at(const char *rel)
{
	static char ring[4][4096];
	static unsigned next;
	char *out = ring[next++ % 4];
	AUTO_FD int fd = open(at(rel), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, sizeof(ring[0]) - 1);

	out[n > 0 ? n : 0] = '\0';
	return out;
}

static bool is_there(const char *rel)
{
	struct stat st;

	return lstat(at(rel), &st) == 0;
}

static mode_t mode_at(const char *rel)
{
	struct stat st;

	return lstat(at(rel), &st) == 0 ? st.st_mode : 0;
}

/* Memory is quicker than a disk that is synced, where its file system has user attributes. */
static bool try_top(const char *parent)
{
	(void)snprintf(top, sizeof(top), "%s/test_cow.XXXXXX", parent);
	if (!mkdtemp(top))
		return false;
	if (setxattr(top, "user.bawn", "y", 1, 0) == 0)
		return true;
	(void)rmdir(top);
	return false;
}

static void set_up(void)
{
	CHECK(try_top("/dev/shm") || try_top("/tmp"));
	make_dir("lower");
	make_dir("upper");
	CHECK(setenv("BAWN_STATE_DIR", at("state"), 1) == 0);
}

static void tear_down(void)
{
	AUTO_FD int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};

	if (!CHECK(tree_remove(fd, top + 1, &err) == 0))
		tap_print("# %s\n", err.msg);
}

static uint64_t keep(const char *id)
{
	AUTO_FD int upper = open(at("upper"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};
	uint64_t n = 12345;

	if (!CHECK(cow_keep(upper, at("lower"), id, 0, &n, &err) == 0))
		tap_print("# %s\n", err.msg);
	return n;
}

static struct cow_run *load(const char *id)
{
	struct cow_run *run = NULL;
	struct err err = {0};

	if (!CHECK(cow_load(id, &run, &err) == 0))
		tap_print("# %s\n", err.msg);
	return run;
}

static const struct cow_entry *find(const struct cow_run *run, const char *path)
{
	for (size_t i = 0; run && i < run->n; i++)
		if (strcmp(run->entries[i].path, path) == 0)
			return &run->entries[i];
	return NULL;
}

static bool has(const struct cow_run *run, enum cow_kind kind, const char *path)
{
	const struct cow_entry *e = find(run, path);

	return e && e->kind == kind;
}

static const char *why_skipped(const struct cow_run *run, const char *path)
{
	for (size_t i = 0; run && i < run->skipped_n; i++)
		if (strcmp(run->skipped[i].path, path) == 0)
			return run->skipped[i].why;
	return "";
}

static int apply_with(const char *id, unsigned flags, const char *only, struct cow_apply *ret)
{
	AUTO(cow_free) struct cow_run *run = load(id);
	struct strv paths = {0};
	struct err err = {0};
	bool is_all = false;
	int r;

	*ret = (struct cow_apply){.flags = flags, .only = &paths};
	if (only)
		CHECK(strv_add(&paths, only, &err) == 0);
	r = run ? cow_apply(run, ret, &is_all, &err) : -1;
	if (r < 0 && r != -EEXIST && r != -EPERM)
		tap_print("# %s\n", err.msg);
	if (r == 0 && is_all)
		CHECK(cow_discard(run, &err) == 0);
	strv_done(&paths);
	return r;
}

static int apply(const char *id)
{
	struct cow_apply a;

	return apply_with(id, 0, NULL, &a);
}

/* One of everything. */
static void put_example(void)
{
	put("lower/same", "same\n");
	put("lower/text", "one\ntwo\n");
	put("lower/script", "#!\n");
	put("lower/gone", "bye\n");
	put("lower/tree/a", "a\n");
	put("lower/tree/b/c", "c\n");
	put("lower/opaque/old", "old\n");
	put("lower/opaque/kept", "1\n");
	put("lower/turns/into/file", "x\n");
	put("lower/becomes", "a directory\n");
	put_link("lower/link", "text");
	put("upper/same", "same\n");
	put("upper/text", "one\n2\n");
	put_mode("upper/script", "#!\n", 0755);
	put_whiteout("upper/gone");
	put_whiteout("upper/tree");
	put("upper/opaque/kept", "2\n");
	put("upper/opaque/new", "new\n");
	set_opaque("upper/opaque");
	put("upper/turns", "a file now\n");
	put("upper/becomes/inner/deep", "deep\n");
	put_link("upper/link", "script");
	put_link("upper/fresh", "/etc/passwd");
	put("upper/dir/sub/new", "new\n");
	CHECK(chmod(at("upper/dir/sub"), 0555) == 0);
}

static void check_example_applied(void)
{
	char target[64] = "";

	CHECK_STR(text_at("lower/same"), "same\n");
	CHECK_STR(text_at("lower/text"), "one\n2\n");
	CHECK_INT(mode_at("lower/script") & 07777, 0755);
	CHECK(!is_there("lower/gone"));
	CHECK(!is_there("lower/tree"));
	CHECK(!is_there("lower/opaque/old"));
	CHECK_STR(text_at("lower/opaque/kept"), "2\n");
	CHECK_STR(text_at("lower/opaque/new"), "new\n");
	CHECK_STR(text_at("lower/turns"), "a file now\n");
	CHECK_STR(text_at("lower/becomes/inner/deep"), "deep\n");
	CHECK(readlink(at("lower/link"), target, sizeof(target) - 1) == 6);
	CHECK_STR(target, "script");
	CHECK(S_ISLNK(mode_at("lower/fresh")));
	CHECK_STR(text_at("lower/dir/sub/new"), "new\n");
	CHECK_INT(mode_at("lower/dir/sub") & 07777, 0555);
}

/* No temporary file of an apply anywhere in the target. */
static unsigned count_temps(const char *rel)
{
	AUTO_DIR DIR *dir = opendir(at(rel));
	struct dirent *d;
	unsigned n = 0;

	while (dir && (d = readdir(dir))) {
		AUTO_FREE char *below = text_format("%s/%s", rel, d->d_name);

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		n += text_starts(d->d_name, ".bawn-");
		if (d->d_type == DT_DIR)
			n += count_temps(below);
	}
	return n;
}

static void every_kind_of_change_is_kept(void)
{
	AUTO(cow_free) struct cow_run *run = NULL;

	set_up();
	put_example();
	CHECK(keep("r1") > 0);
	run = load("r1");
	CHECK(!find(run, "same"));
	CHECK(has(run, COW_MODIFIED, "text"));
	CHECK(has(run, COW_MODIFIED, "script"));
	CHECK(has(run, COW_DELETED, "gone"));
	CHECK(has(run, COW_DELETED, "tree"));
	CHECK(has(run, COW_DELETED, "tree/a"));
	CHECK(has(run, COW_DELETED, "tree/b/c"));
	CHECK(!find(run, "opaque"));
	CHECK(has(run, COW_DELETED, "opaque/old"));
	CHECK(has(run, COW_MODIFIED, "opaque/kept"));
	CHECK(has(run, COW_ADDED, "opaque/new"));
	CHECK(has(run, COW_REPLACED, "turns"));
	CHECK(has(run, COW_DELETED, "turns/into/file"));
	CHECK(has(run, COW_REPLACED, "becomes"));
	CHECK(has(run, COW_ADDED, "becomes/inner/deep"));
	CHECK(has(run, COW_MODIFIED, "link"));
	CHECK(has(run, COW_ADDED, "fresh"));
	CHECK(has(run, COW_ADDED, "dir/sub/new"));
	tear_down();
}

/* In the namespace that overlayfs does not use here, its marks are the box's own attributes. */
static void forged_marks_of_overlayfs_mean_nothing(void)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	bool is_root;

	set_up();
	put("lower/d/f", "keep me");
	put("upper/d/new", "x");
	put("upper/e/new", "x");
	is_root = setxattr(at("upper"), "trusted.overlay.origin", "", 0, 0) == 0;
	if (is_root) {
		CHECK(setxattr(at("upper/d"), "user.overlay.opaque", "y", 1, 0) == 0);
		CHECK(setxattr(at("upper/e"), "user.overlay.redirect", "x", 1, 0) == 0);
	}
	CHECK_INT(keep("r1"), 3);
	run = load("r1");
	CHECK(has(run, COW_ADDED, "d/new") && has(run, COW_ADDED, "e/new"));
	CHECK(find(run, "d/f") == NULL);
	tear_down();
}

/* Only overlayfs itself can say so, by an option we do not use: the rest is kept. */
static void a_redirected_directory_is_left_out(void)
{
	AUTO(cow_free) struct cow_run *run = NULL;

	set_up();
	put("upper/moved/f", "x");
	put("upper/other", "x");
	CHECK(setxattr(at("upper/moved"), "trusted.overlay.redirect", "d", 1, 0) == 0 ||
		setxattr(at("upper/moved"), "user.overlay.redirect", "d", 1, 0) == 0);
	CHECK_INT(keep("r1"), 1);
	run = load("r1");
	CHECK(has(run, COW_ADDED, "other"));
	CHECK(why_skipped(run, "moved") != NULL);
	tear_down();
}

/* Links of 4 KiB cost a box nothing; the record of them is bounded, and says that it is cut. */
static void a_flood_of_long_links_is_cut_and_told(void)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	char target[4000];
	unsigned n = (unsigned)(COW_BYTES_MAX / sizeof(target)) + 100;

	set_up();
	memset(target, 'x', sizeof(target) - 1);
	target[sizeof(target) - 1] = '\0';
	make_dir("upper");
	CHECK(symlink(target, at("upper/l")) == 0);
	for (unsigned i = 0; i < n; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "upper/l%u", i);
		/* Hard links to one link: cheap to make, and each is an entry. */
		if (link(at("upper/l"), at(name)) < 0 && symlink(target, at(name)) < 0)
			break;
	}
	CHECK(keep("r1") < n);
	run = load("r1");
	CHECK(run && run->n > n / 2);
	CHECK(why_skipped(run, ".") && strstr(why_skipped(run, "."), "rest is lost"));
	tear_down();
}

static void put_bare(const char *top_rel, const char *config)
{
	AUTO_FREE char *head = text_format("%s/HEAD", top_rel);
	AUTO_FREE char *objects = text_format("%s/objects/x", top_rel);
	AUTO_FREE char *refs = text_format("%s/refs/x", top_rel);
	AUTO_FREE char *conf = text_format("%s/config", top_rel);

	put(head, "ref: refs/heads/main\n");
	put(objects, "");
	put(refs, "");
	put(conf, config);
}

static void bare_repositories_are_judged_like_others(void)
{
	static const char evil[] = "[core]\n\tpager = touch /tmp/owned\n";
	struct cow_apply a;

	set_up();
	make_dir("lower");
	put_bare("upper/sub", evil);
	put("upper/sub/hooks/post-update", "evil");
	put_bare("upper/plain", "[core]\n\tbare = true\n");
	put("upper/plain/hooks/post-update.sample", "a sample");
	put("upper/a/HEAD", "ref: refs/heads/main\n");
	put("upper/a/commondir", "../x\n");
	put("upper/app/config", evil); /* no repository: somebody's own file */
	keep("r1");
	CHECK_INT(apply_with("r1", 0, NULL, &a), -EPERM);
	CHECK_INT(a.refused, 3);
	/* Not in two steps either. */
	CHECK_INT(apply_with("r1", 0, "sub/config", &a), -EPERM);
	CHECK_INT(apply_with("r1", COW_SKIP_PROTECTED, NULL, &a), 0);
	CHECK(!is_there("lower/sub/config") && !is_there("lower/sub/hooks/post-update"));
	CHECK(!is_there("lower/a/commondir"));
	CHECK(is_there("lower/plain/config") && is_there("lower/app/config"));
	tear_down();
}

static void a_repository_is_not_completed_around_an_older_config(void)
{
	struct cow_apply a;

	set_up();
	put("lower/app/config", "[core]\n\tpager = touch /tmp/owned\n");
	put("upper/app/HEAD", "ref: refs/heads/main\n");
	make_dir("upper/app/objects");
	make_dir("upper/app/refs");
	keep("r1");
	CHECK_INT(apply_with("r1", 0, NULL, &a), -EPERM);
	CHECK_INT(a.refused, 3);
	tear_down();
}

static void a_record_that_others_may_write_is_not_believed(void)
{
	struct cow_run *run = NULL;
	struct err err = {0};

	set_up();
	make_dir("lower");
	put("upper/f", "x");
	keep("r1");
	CHECK(chmod(at("state/runs/r1"), 0777) == 0);
	CHECK_INT(cow_load("r1", &run, &err), -EPERM);
	CHECK(chmod(at("state/runs/r1"), 0700) == 0);
	CHECK(rename(at("state/runs"), at("elsewhere")) == 0);
	put_link("state/runs", at("elsewhere"));
	CHECK(cow_load("r1", &run, &err) < 0);
	tear_down();
}

static void no_change_keeps_no_run(void)
{
	set_up();
	put("lower/a", "a");
	put("upper/a", "a");
	put_whiteout("upper/never-was");
	CHECK_INT(keep("r1"), 0);
	CHECK(!is_there("state/runs/r1"));
	CHECK(!is_there("state/runs/.tmp-r1"));
	tear_down();
}

static void a_hostile_upper_directory_is_kept_as_far_as_it_goes(void)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	AUTO_FD int deep = -EBADF;
	char long_name[NAME_MAX + 1];
	AUTO_FREE char *long_path = NULL;

	set_up();
	CHECK(mkfifo(at("upper/fifo"), 0644) == 0);
	CHECK(mknod(at("upper/socket"), S_IFSOCK | 0644, 0) == 0);
	put_mode("upper/setuid", "x", 04755);
	put("upper/new\nline\x1b[31m", "x");
	put("upper/not-utf8-\xff\xfe%41", "x");
	memset(long_name, 'n', NAME_MAX);
	long_name[NAME_MAX] = '\0';
	long_path = text_format("upper/%s", long_name);
	put(long_path, "x");
	put_link("upper/out", "../../../../etc/shadow");
	deep = open(at("upper"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 400; i++) {
		int next;

		CHECK(mkdirat(deep, "deep", 0755) == 0);
		next = openat(deep, "deep", O_PATH | O_DIRECTORY | O_CLOEXEC);
		closep(&deep);
		deep = next;
	}
	CHECK(keep("r1") > 0);
	run = load("r1");
	CHECK_STR(why_skipped(run, "fifo"), "a fifo");
	CHECK_STR(why_skipped(run, "socket"), "a socket");
	CHECK(find(run, "setuid") && find(run, "setuid")->is_stripped);
	CHECK(find(run, "setuid") && (find(run, "setuid")->mode & 07777) == 0755);
	CHECK(has(run, COW_ADDED, "new\nline\x1b[31m"));
	CHECK(has(run, COW_ADDED, "not-utf8-\xff\xfe%41"));
	CHECK(has(run, COW_ADDED, long_name));
	CHECK(has(run, COW_ADDED, "out"));
	CHECK(run->skipped_n == 3); /* the third is the depth */
	CHECK_INT(apply("r1"), 0);
	CHECK_INT(mode_at("lower/setuid") & 07777, 0755);
	CHECK(is_there("lower/not-utf8-\xff\xfe%41"));
	tear_down();
}

static void a_device_is_not_kept(void)
{
	AUTO(cow_free) struct cow_run *run = NULL;

	set_up();
	put("upper/a", "a");
	/* Only root can make one; for anybody else there is nothing to show. */
	if (geteuid() == 0 && mknod(at("upper/null"), S_IFCHR | 0666, makedev(1, 3)) == 0) {
		CHECK_INT(keep("r1"), 1);
		run = load("r1");
		CHECK_STR(why_skipped(run, "null"), "a device");
	}
	tear_down();
}

static void hard_links_share_one_content(void)
{
	AUTO(cow_free) struct cow_run *run = NULL;

	set_up();
	put("upper/a", "content");
	for (int i = 0; i < 100; i++) {
		AUTO_FREE char *name = text_format("upper/l%d", i);

		CHECK(link(at("upper/a"), at(name)) == 0);
	}
	CHECK_INT(keep("r1"), 101);
	run = load("r1");
	for (size_t i = 0; i < run->n; i++)
		CHECK_INT(run->entries[i].file, 1);
	CHECK(is_there("state/runs/r1/files/1"));
	CHECK(!is_there("state/runs/r1/files/2"));
	CHECK_INT(apply("r1"), 0);
	CHECK_STR(text_at("lower/l99"), "content");
	tear_down();
}

static void holes_stay_holes(void)
{
	AUTO_FD int fd = -EBADF;
	struct stat st;

	set_up();
	fd = open(at("upper/sparse"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(ftruncate(fd, (off_t)1 << 36) == 0);
	CHECK(pwrite(fd, "end", 3, ((off_t)1 << 36) - 3) == 3);
	CHECK_INT(keep("r1"), 1);
	CHECK(lstat(at("state/runs/r1/files/1"), &st) == 0);
	CHECK(st.st_size == (off_t)1 << 36 && st.st_blocks < 1000);
	CHECK_INT(apply("r1"), 0);
	CHECK(lstat(at("lower/sparse"), &st) == 0);
	CHECK(st.st_size == (off_t)1 << 36 && st.st_blocks < 1000);
	tear_down();
}

static void apply_makes_the_target_what_the_box_saw(void)
{
	set_up();
	put_example();
	CHECK(keep("r1") > 0);
	CHECK_INT(apply("r1"), 0);
	check_example_applied();
	CHECK_INT(count_temps("lower"), 0);
	CHECK(!is_there("state/runs/r1"));
	tear_down();
}

static void one_conflict_and_nothing_is_applied(void)
{
	struct cow_apply a;

	set_up();
	put_example();
	CHECK(keep("r1") > 0);
	put("lower/text", "somebody else's\n");
	CHECK_INT(apply_with("r1", 0, NULL, &a), -EEXIST);
	CHECK_INT(a.conflicts, 1);
	CHECK(is_there("lower/gone"));
	CHECK(!is_there("lower/fresh"));
	CHECK(is_there("state/runs/r1"));
	CHECK_INT(apply_with("r1", COW_DRY_RUN | COW_FORCE, NULL, &a), 0);
	CHECK(is_there("lower/gone"));
	CHECK_INT(apply_with("r1", COW_FORCE, NULL, &a), 0);
	check_example_applied();
	tear_down();
}

static void conflicts_of_every_kind_are_seen(void)
{
	struct cow_apply a;

	set_up();
	put_example();
	CHECK(keep("r1") > 0);
	put("lower/tree/stranger", "new since\n"); /* in a directory to be deleted */
	CHECK(unlink(at("lower/script")) == 0);    /* was to be changed */
	put("lower/fresh", "made since\n");        /* was to be added */
	put("lower/turns/too", "made since\n");    /* in a directory to be replaced */
	put("lower/gone", "changed since\n");      /* was to be deleted */
	CHECK_INT(apply_with("r1", 0, NULL, &a), -EEXIST);
	CHECK_INT(a.conflicts, 5);
	/* Work in directories is never overwritten, not even by force. */
	CHECK_INT(apply_with("r1", COW_FORCE, NULL, &a), -EEXIST);
	CHECK_INT(a.conflicts, 2);
	CHECK(is_there("lower/tree/stranger"));
	tear_down();
}

static void a_part_can_be_applied_and_the_rest_later(void)
{
	struct cow_apply a;

	set_up();
	put_example();
	CHECK(keep("r1") > 0);
	CHECK_INT(apply_with("r1", 0, "dir/sub/new", &a), 0);
	CHECK_STR(text_at("lower/dir/sub/new"), "new\n");
	CHECK_INT(mode_at("lower/dir/sub") & 07777, 0555);
	CHECK(is_there("lower/gone"));
	CHECK(is_there("state/runs/r1"));
	CHECK_INT(apply_with("r1", 0, "nothing", &a), -ENOENT);
	CHECK_INT(apply("r1"), 0);
	check_example_applied();
	CHECK(!is_there("state/runs/r1"));
	tear_down();
}

static void protected_names_are_refused_unless_allowed(void)
{
	struct cow_apply a;

	set_up();
	put("lower/.git/HEAD", "ref: refs/heads/main\n");
	put("lower/.git/config", "[core]\n\tbare = false\n");
	put("upper/.git/hooks/pre-commit", "evil\n");
	put("upper/.git/hooks/pre-push.sample", "harmless\n");
	put("upper/.git/config", "[core]\n\tbare = false\n[remote \"o\"]\n\turl = https://a/b\n");
	put("upper/.vscode/tasks.json", "evil\n");
	put("upper/dep/.git/config", "[core]\n\tfsmonitor = evil\n");
	put("upper/work", "work\n");
	CHECK(keep("r1") > 0);
	CHECK_INT(apply_with("r1", 0, NULL, &a), -EPERM);
	CHECK_INT(a.refused, 3);
	CHECK(!is_there("lower/work"));
	CHECK_INT(apply_with("r1", COW_SKIP_PROTECTED, NULL, &a), 0);
	CHECK(is_there("lower/work"));
	CHECK(is_there("lower/.git/hooks/pre-push.sample"));
	CHECK(strstr(text_at("lower/.git/config"), "remote") != NULL);
	CHECK(!is_there("lower/.git/hooks/pre-commit"));
	CHECK(!is_there("lower/.vscode/tasks.json"));
	CHECK(!is_there("lower/dep/.git/config"));
	CHECK(is_there("state/runs/r1"));
	CHECK_INT(apply_with("r1", COW_ALLOW_PROTECTED, NULL, &a), 0);
	CHECK(is_there("lower/.git/hooks/pre-commit"));
	CHECK(!is_there("state/runs/r1"));
	tear_down();
}

static void a_link_in_the_target_is_never_followed(void)
{
	struct cow_apply a;

	set_up();
	make_dir("lower/dir");
	make_dir("outside");
	put("upper/dir/file", "text\n");
	CHECK(keep("r1") > 0);
	CHECK(rmdir(at("lower/dir")) == 0);
	put_link("lower/dir", "../outside");
	CHECK_INT(apply_with("r1", COW_FORCE, NULL, &a), -EEXIST);
	CHECK(!is_there("outside/file"));
	tear_down();
}

static void owners_outside_the_box_range_fall_to_the_caller(void)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	AUTO_FD int upper = -EBADF;
	struct err err = {0};
	uint64_t n;

	set_up();
	put("upper/mine", "x");
	upper = open(at("upper"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(cow_keep(upper, at("lower"), "r1", 0x70000000, &n, &err) == 0);
	run = load("r1");
	CHECK(find(run, "mine") && find(run, "mine")->uid == COW_NO_ID);
	tear_down();
}

static void bad_ids_and_unknown_runs_are_named(void)
{
	AUTO_FD int upper = -EBADF;
	struct cow_run *run = NULL;
	struct err err = {0};
	uint64_t n;

	set_up();
	put("upper/a", "a");
	upper = open(at("upper"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(cow_keep(upper, at("lower"), "../x", 0, &n, &err), -EINVAL);
	CHECK_INT(cow_keep(upper, at("lower"), "", 0, &n, &err), -EINVAL);
	CHECK_INT(cow_load("r", &run, &err), -ENOENT);
	CHECK(strstr(err.msg, "no runs are kept") != NULL);
	(void)keep("r1");
	(void)keep("r2");
	CHECK_INT(cow_load("x", &run, &err), -ENOENT);
	CHECK(strstr(err.msg, "kept runs: r1, r2") != NULL);
	CHECK_INT(cow_load("r", &run, &err), -ENOENT);
	CHECK(strstr(err.msg, "more than one") != NULL);
	CHECK_INT(cow_keep(upper, at("lower"), "r1", 0, &n, &err), -EEXIST);
	CHECK(!is_there("state/runs/.tmp-r1"));
	tear_down();
}

static void a_damaged_manifest_is_told_by_its_line(void)
{
	static const char *const bad[] = {
		"{\"kind\":\"added\",\"path\":\"../x\",\"mode\":33188,\"size\":1,\"file\":1}\n",
		"{\"kind\":\"added\",\"path\":\"/x\",\"mode\":33188,\"size\":1,\"file\":1}\n",
		"{\"kind\":\"added\",\"path\":\"a//b\",\"mode\":33188,\"size\":1,\"file\":1}\n",
		"{\"kind\":\"added\",\"path\":\"a\",\"mode\":41471}\n",
		"{\"kind\":\"added\",\"path\":\"a\",\"mode\":35309,\"size\":1,\"file\":1}\n",
		"{\"kind\":\"odd\",\"path\":\"a\",\"mode\":16877}\n",
		"{\"kind\":\"added\",\"path\":\"a%0\",\"mode\":16877}\n",
		"not json\n",
	};
	struct cow_run *run = NULL;
	struct err err = {0};

	set_up();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		AUTO_FREE char *text =
			text_format("{\"version\":1,\"run\":\"r1\",\"target\":\"/t\","
				    "\"created\":1,\"entries\":1,\"skipped\":0}\n%s",
				bad[i]);

		put("state/runs/r1/manifest.jsonl", text);
		if (!CHECK(cow_load("r1", &run, &err) == -EBADMSG && strstr(err.msg, "line 2")))
			tap_print("# %zu: %s\n", i, err.msg);
	}
	put("state/runs/r1/manifest.jsonl", "{\"version\":1,\"run\":\"r1\",\"target\":\"/t\","
					    "\"created\":1,\"entries\":2,\"skipped\":0}\n");
	CHECK_INT(cow_load("r1", &run, &err), -EBADMSG);
	CHECK(strstr(err.msg, "cut off") != NULL);
	tear_down();
}

static void half_made_runs_are_swept(void)
{
	struct strv all = {0};
	struct err err = {0};

	set_up();
	put("state/runs/.tmp-dead/files/1", "x");
	put("upper/a", "a");
	(void)keep("r1");
	CHECK(cow_list(&all, &err) == 0);
	CHECK(all.n == 1 && strcmp(all.v[0], "r1") == 0);
	CHECK(!is_there("state/runs/.tmp-dead"));
	strv_done(&all);
	tear_down();
}

/* Run fn in a child and kill it at its nth system call; true if it ended by itself before. */
static bool run_until_call(void (*fn)(void), unsigned nth)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		(void)raise(SIGSTOP);
		fn();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	for (unsigned stops = 0;; stops++) {
		/* Two stops for each call: before it and after it. */
		if (stops / 2 >= nth) {
			CHECK(kill(pid, SIGKILL) == 0);
			CHECK(waitpid(pid, &status, 0) == pid);
			return false;
		}
		CHECK(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
		CHECK(waitpid(pid, &status, 0) == pid);
		if (WIFEXITED(status))
			return true;
	}
}

static void apply_and_forget(void)
{
	struct cow_run *run = NULL;
	struct cow_apply a = {0};
	struct err err = {0};
	bool is_all = false;

	if (cow_load("r1", &run, &err) < 0 || cow_apply(run, &a, &is_all, &err) < 0 || !is_all ||
		cow_discard(run, &err) < 0)
		_exit(1);
}

static void an_apply_killed_at_any_call_can_be_repeated(void)
{
	bool is_over = false;

	/* A step of seven is coprime to the length of a file's calls: all places in time. */
	for (unsigned nth = 1; !is_over && nth < 3000; nth += 7) {
		set_up();
		put_example();
		CHECK(keep("r1") > 0);
		is_over = run_until_call(apply_and_forget, nth);
		/* Killed while forgetting: the run is gone and everything is applied. */
		if (is_there("state/runs/r1"))
			CHECK_INT(apply("r1"), 0);
		check_example_applied();
		CHECK_INT(count_temps("lower"), 0);
		tear_down();
		if (tap_case_failed) {
			tap_print("# killed at call %u\n", nth);
			break;
		}
	}
	CHECK(is_over);
}

static void a_killed_apply_leaves_no_temporary_file_after_discard(void)
{
	bool is_over = false;

	for (unsigned nth = 1; !is_over && nth < 3000; nth += 11) {
		struct err err = {0};

		set_up();
		put_example();
		CHECK(keep("r1") > 0);
		is_over = run_until_call(apply_and_forget, nth);
		if (is_there("state/runs/r1")) {
			AUTO(cow_free) struct cow_run *run = load("r1");

			CHECK(cow_discard(run, &err) == 0);
		}
		CHECK_INT(count_temps("lower"), 0);
		tear_down();
	}
	CHECK(is_over);
}

static void keep_now(void)
{
	AUTO_FD int upper = open(at("upper"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};
	uint64_t n;

	(void)cow_keep(upper, at("lower"), "r1", 0, &n, &err);
}

static void a_killed_keep_leaves_a_whole_run_or_none(void)
{
	bool is_over = false;

	for (unsigned nth = 1; !is_over && nth < 3000; nth += 17) {
		struct strv all = {0};
		struct err err = {0};

		set_up();
		put_example();
		is_over = run_until_call(keep_now, nth);
		CHECK(cow_list(&all, &err) == 0);
		if (all.n) {
			CHECK_INT(apply("r1"), 0);
			check_example_applied();
		}
		CHECK(!is_there("state/runs/.tmp-r1"));
		strv_done(&all);
		tear_down();
	}
	CHECK(is_over);
}

int main(void)
{
	(void)umask(022);
	RUN(every_kind_of_change_is_kept);
	RUN(forged_marks_of_overlayfs_mean_nothing);
	RUN(a_redirected_directory_is_left_out);
	RUN(a_flood_of_long_links_is_cut_and_told);
	RUN(bare_repositories_are_judged_like_others);
	RUN(a_repository_is_not_completed_around_an_older_config);
	RUN(a_record_that_others_may_write_is_not_believed);
	RUN(no_change_keeps_no_run);
	RUN(a_hostile_upper_directory_is_kept_as_far_as_it_goes);
	RUN(a_device_is_not_kept);
	RUN(hard_links_share_one_content);
	RUN(holes_stay_holes);
	RUN(apply_makes_the_target_what_the_box_saw);
	RUN(one_conflict_and_nothing_is_applied);
	RUN(conflicts_of_every_kind_are_seen);
	RUN(a_part_can_be_applied_and_the_rest_later);
	RUN(protected_names_are_refused_unless_allowed);
	RUN(a_link_in_the_target_is_never_followed);
	RUN(owners_outside_the_box_range_fall_to_the_caller);
	RUN(bad_ids_and_unknown_runs_are_named);
	RUN(a_damaged_manifest_is_told_by_its_line);
	RUN(half_made_runs_are_swept);
	RUN(an_apply_killed_at_any_call_can_be_repeated);
	RUN(a_killed_apply_leaves_no_temporary_file_after_discard);
	RUN(a_killed_keep_leaves_a_whole_run_or_none);
	return tap_done();
}
