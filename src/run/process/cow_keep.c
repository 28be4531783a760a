/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The upper directory was written by the box and is hostile: any kind of file,
 * any name, any depth, hard links by the million, files of exabytes that are one
 * hole. It is walked by descriptor beside the lower directory, links unfollowed.
 */
#include "base/mem.h"
#include "run/process/cow_impl.h"
#include "sys/tree.h"
#include "sys/userns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>

#define DEPTH_MAX 200   /* levels; two descriptors are held for each */
#define IDS       65536 /* ids of one box */

struct inode_slot {
	uint64_t ino;
	uint64_t file; /* 0 = empty slot */
};

struct keep {
	struct cow_run *run;
	int files_fd;
	uint64_t files; /* numbers given out */
	uid_t id_offset;
	bool is_trusted;     /* overlayfs marked its things with trusted.*, not user.* */
	char path[PATH_MAX]; /* of the entry at hand, relative to the target */
	/* Hard links share one content: found by inode, open addressing, a power of two. */
	struct inode_slot *inodes;
	size_t inodes_n, inodes_size;
};

static size_t inode_place(const struct keep *k, uint64_t ino)
{
	size_t i = (size_t)(ino * 0x9e3779b97f4a7c15u) & (k->inodes_size - 1);

	while (k->inodes[i].file != 0 && k->inodes[i].ino != ino)
		i = (i + 1) & (k->inodes_size - 1);
	return i;
}

static uint64_t inode_find(const struct keep *k, uint64_t ino)
{
	return k->inodes_size ? k->inodes[inode_place(k, ino)].file : 0;
}

static void inode_remember(struct keep *k, uint64_t ino, uint64_t file)
{
	if (k->inodes_n * 2 >= k->inodes_size) {
		struct inode_slot *old = k->inodes;
		size_t old_size = k->inodes_size;

		k->inodes_size = old_size ? old_size * 2 : 64;
		k->inodes = mem_must(calloc(k->inodes_size, sizeof(*k->inodes)));
		for (size_t i = 0; i < old_size; i++) {
			if (old[i].file)
				k->inodes[inode_place(k, old[i].ino)] = old[i];
		}
		free(old);
	}
	k->inodes[inode_place(k, ino)] = (struct inode_slot){.ino = ino, .file = file};
	k->inodes_n++;
}

bool cow_same_content(int a_fd, int b_fd)
{
	static char a[64 * 1024];
	static char b[64 * 1024];
	off_t at = 0;

	for (;;) {
		ssize_t n = pread(a_fd, a, sizeof(a), at);
		ssize_t m = pread(b_fd, b, sizeof(b), at);

		if (n < 0 || n != m || memcmp(a, b, (size_t)n) != 0)
			return false;
		if (n == 0)
			return true;
		at += n;
	}
}

static bool same_link(int a_fd, const char *a, int b_fd, const char *b)
{
	char x[PATH_MAX];
	char y[PATH_MAX];
	ssize_t n = readlinkat(a_fd, a, x, sizeof(x));
	ssize_t m = readlinkat(b_fd, b, y, sizeof(y));

	return n >= 0 && n == m && memcmp(x, y, (size_t)n) == 0;
}

static void set_base(struct cow_entry *e, const struct stat *base)
{
	e->base_size = S_ISREG(base->st_mode) ? (uint64_t)base->st_size : 0;
	e->base_mtime_ns = cow_mtime_ns(base);
	e->base_ino = base->st_ino;
	e->base_mode = base->st_mode;
}

static uid_t host_id(const struct keep *k, uid_t id)
{
	if (k->id_offset == 0)
		return id;
	return id >= k->id_offset && id - k->id_offset < IDS ? id - k->id_offset : COW_NO_ID;
}

static int skip(struct keep *k, const char *why, struct err *err)
{
	return cow_add_skip(k->run, k->path, why, err);
}

/* Put `name` behind the path of its directory; false if the whole does not fit. */
static bool enter(struct keep *k, size_t dir_n, const char *name, size_t *ret_n)
{
	size_t n = strlen(name);
	size_t at = dir_n ? dir_n + 1 : 0;

	if (at + n >= sizeof(k->path))
		return false;
	if (dir_n)
		k->path[dir_n] = '/';
	memcpy(k->path + at, name, n + 1);
	*ret_n = at + n;
	return true;
}

static int add(struct keep *k, enum cow_kind kind, const struct stat *st, const struct stat *base,
	struct cow_entry **ret, struct err *err)
{
	int r = cow_add_entry(k->run, k->path, ret, err);
	struct cow_entry *e = *ret;

	if (r < 0)
		return r;
	e->kind = kind;
	if (base)
		set_base(e, base);
	if (!st)
		return 0;
	e->mode = st->st_mode;
	/* Set-id bits from a box must not reach the host; on a directory setgid only inherits. */
	if (!S_ISDIR(st->st_mode) && (st->st_mode & 06000)) {
		e->mode &= (mode_t)~06000;
		e->is_stripped = true;
	}
	e->uid = host_id(k, st->st_uid);
	e->gid = host_id(k, st->st_gid);
	if (e->uid == COW_NO_ID || e->gid == COW_NO_ID)
		e->uid = e->gid = COW_NO_ID;
	return 0;
}

static DIR *open_dir(int parent_fd, const char *name)
{
	AUTO_FD int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		(void)TAKE_FD(fd);
	return dir;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* One entry for the lower entry k->path and for everything below it. */
static int add_deleted(struct keep *k, int lower_fd, const char *name, size_t path_n,
	unsigned depth, bool want_self, struct err *err)
{
	AUTO_DIR DIR *dir = NULL;
	struct cow_entry *e;
	struct dirent *d;
	struct stat st;
	int r = 0;

	if (fstatat(lower_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (want_self)
		r = add(k, COW_DELETED, NULL, &st, &e, err);
	if (r < 0 || !S_ISDIR(st.st_mode))
		return r;
	dir = depth < DEPTH_MAX ? open_dir(lower_fd, name) : NULL;
	if (!dir)
		return skip(k, "deleted directory is too deep or not readable", err);
	while (r == 0 && (d = readdir(dir))) {
		size_t n;

		if (is_dots(d->d_name) || !enter(k, path_n, d->d_name, &n))
			continue;
		r = add_deleted(k, dirfd(dir), d->d_name, n, depth + 1, true, err);
	}
	k->path[path_n] = '\0';
	return r;
}

/* Copy a content; *ret_file = 0 if it cannot be kept (and was noted). */
static int keep_content(
	struct keep *k, int fd, const struct stat *st, uint64_t *ret_file, struct err *err)
{
	AUTO_FD int out = -EBADF;
	char name[24];
	int r;

	*ret_file = st->st_nlink > 1 ? inode_find(k, st->st_ino) : 0;
	if (*ret_file)
		return 0;
	(void)snprintf(name, sizeof(name), "%ju", (uintmax_t)++k->files);
	out = openat(k->files_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(err, "create '%s/%s'", COW_FILES, name);
	r = tree_copy_data(fd, out, UINT64_MAX, err);
	if (r == -EFBIG) {
		(void)unlinkat(k->files_fd, name, 0);
		return skip(k, "larger than the file system of the state allows", err);
	}
	if (r < 0)
		return r;
	if (st->st_nlink > 1)
		inode_remember(k, st->st_ino, k->files);
	*ret_file = k->files;
	return 0;
}

static int keep_file(struct keep *k, int upper_fd, int lower_fd, const char *name,
	const struct stat *base, struct err *err)
{
	AUTO_FD int fd = openat(upper_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_FD int old = -EBADF;
	struct cow_entry *e;
	uint64_t file = 0;
	struct stat st;
	int r;

	if (fd < 0)
		return skip(k, "not readable", err);
	if (fstat(fd, &st) < 0)
		return err_sys(err, "stat a changed file");
	if (!S_ISREG(st.st_mode))
		return skip(k, "changed while it was read", err);
	if (base && S_ISREG(base->st_mode) && base->st_size == st.st_size &&
		(base->st_mode & 07777) == (st.st_mode & 07777)) {
		old = openat(lower_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		/* Opened for writing, or touched, and not changed. */
		if (old >= 0 && cow_same_content(fd, old))
			return 0;
	}
	r = keep_content(k, fd, &st, &file, err);
	if (r < 0 || file == 0)
		return r;
	r = add(k,
		!base                    ? COW_ADDED
		: S_ISREG(base->st_mode) ? COW_MODIFIED
					 : COW_REPLACED,
		&st, base, &e, err);
	if (r < 0)
		return r;
	e->file = file;
	e->size = (uint64_t)st.st_size;
	return 0;
}

static int keep_link(struct keep *k, int upper_fd, int lower_fd, const char *name,
	const struct stat *st, const struct stat *base, struct err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(upper_fd, name, target, sizeof(target) - 1);
	struct cow_entry *e;
	int r;

	if (n < 0)
		return skip(k, "not readable", err);
	target[n] = '\0';
	if (base && S_ISLNK(base->st_mode) && same_link(upper_fd, name, lower_fd, name))
		return 0;
	r = add(k,
		!base                    ? COW_ADDED
		: S_ISLNK(base->st_mode) ? COW_MODIFIED
					 : COW_REPLACED,
		st, base, &e, err);
	if (r < 0)
		return r;
	r = cow_charge(k->run, (size_t)n + 1, err);
	if (r < 0) {
		k->run->n--;
		free(e->path);
		return r;
	}
	e->link = mem_strdup(target);
	return 0;
}

static bool has_xattr(int fd, const char *name, const char *want)
{
	char value[4];
	ssize_t n = fgetxattr(fd, name, value, sizeof(value));

	return n >= 0 &&
	       (!want || ((size_t)n == strlen(want) && memcmp(value, want, (size_t)n) == 0));
}

/*
 * Opaque: what the lower directory holds is hidden. Set by overlayfs, in the namespace
 * of attributes it was mounted with; in the other one they are the box's own and mean nothing.
 */
static bool is_opaque(const struct keep *k, int fd)
{
	return has_xattr(fd, k->is_trusted ? "trusted.overlay.opaque" : "user.overlay.opaque", "y");
}

/* Renamed by overlayfs' redirect_dir: its lower part lies under another name. */
static bool is_redirected(const struct keep *k, int fd)
{
	const char *name = k->is_trusted ? "trusted.overlay.redirect" : "user.overlay.redirect";

	return fgetxattr(fd, name, NULL, 0) >= 0;
}

static int keep_dir(
	struct keep *k, DIR *upper, int lower_fd, size_t path_n, unsigned depth, struct err *err);

static int keep_subdir(struct keep *k, int upper_fd, int lower_fd, const char *name,
	const struct stat *st, const struct stat *base, size_t path_n, unsigned depth,
	struct err *err)
{
	bool is_merged = base && S_ISDIR(base->st_mode);
	AUTO_DIR DIR *upper = NULL;
	AUTO_FD int lower = -EBADF;
	struct cow_entry *e;
	int r = 0;

	if (depth >= DEPTH_MAX)
		return skip(k, "nested too deep", err);
	upper = open_dir(upper_fd, name);
	if (!upper)
		return skip(k, "not readable", err);
	if (is_redirected(k, dirfd(upper)))
		return skip(k, "renamed by overlayfs' redirect_dir", err);
	if (!is_merged)
		r = add(k, base ? COW_REPLACED : COW_ADDED, st, base, &e, err);
	else if ((st->st_mode & 07777) != (base->st_mode & 07777))
		r = add(k, COW_MODIFIED, st, base, &e, err);
	if (r < 0)
		return r;
	if (is_merged) {
		lower = openat(lower_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (lower < 0)
			return skip(k, "the directory below it is not readable", err);
	}
	return keep_dir(k, upper, lower, path_n, depth + 1, err);
}

static int keep_entry(struct keep *k, int upper_fd, int lower_fd, const char *name, size_t path_n,
	unsigned depth, struct err *err)
{
	struct stat st;
	struct stat base_st;
	const struct stat *base = NULL;
	int r = 0;

	if (fstatat(upper_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "stat a changed entry");
	if (lower_fd >= 0 && fstatat(lower_fd, name, &base_st, AT_SYMLINK_NOFOLLOW) == 0)
		base = &base_st;
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0))
		return base ? add_deleted(k, lower_fd, name, path_n, depth, true, err) : 0;
	if (S_ISDIR(st.st_mode))
		return keep_subdir(k, upper_fd, lower_fd, name, &st, base, path_n, depth, err);
	if (S_ISREG(st.st_mode))
		r = keep_file(k, upper_fd, lower_fd, name, base, err);
	else if (S_ISLNK(st.st_mode))
		r = keep_link(k, upper_fd, lower_fd, name, &st, base, err);
	else
		return skip(k,
			S_ISFIFO(st.st_mode)   ? "a fifo"
			: S_ISSOCK(st.st_mode) ? "a socket"
					       : "a device",
			err);
	/* A directory became something else: what was in it is gone. */
	if (r == 0 && base && S_ISDIR(base->st_mode))
		r = add_deleted(k, lower_fd, name, path_n, depth, false, err);
	return r;
}

/* What an opaque directory no longer has. */
static int keep_vanished(
	struct keep *k, int upper_fd, int lower_fd, size_t path_n, unsigned depth, struct err *err)
{
	AUTO_DIR DIR *dir = open_dir(lower_fd, ".");
	struct dirent *d;
	int r = 0;

	while (r == 0 && dir && (d = readdir(dir))) {
		struct stat st;
		size_t n;

		if (is_dots(d->d_name) ||
			fstatat(upper_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
			!enter(k, path_n, d->d_name, &n))
			continue;
		r = add_deleted(k, lower_fd, d->d_name, n, depth, true, err);
	}
	return r;
}

static int keep_dir(
	struct keep *k, DIR *upper, int lower_fd, size_t path_n, unsigned depth, struct err *err)
{
	int r = 0;

	while (r == 0) {
		struct dirent *d;
		size_t n;

		errno = 0;
		d = readdir(upper);
		if (!d && errno)
			return err_sys(err, "list a changed directory");
		if (!d)
			break;
		if (is_dots(d->d_name))
			continue;
		if (!enter(k, path_n, d->d_name, &n)) {
			k->path[path_n] = '\0';
			r = skip(k, "holds a path longer than the system allows", err);
			continue;
		}
		r = keep_entry(k, dirfd(upper), lower_fd, d->d_name, n, depth, err);
		k->path[path_n] = '\0';
	}
	if (r == 0 && lower_fd >= 0 && is_opaque(k, dirfd(upper)))
		r = keep_vanished(k, dirfd(upper), lower_fd, path_n, depth, err);
	k->path[path_n] = '\0';
	return r;
}

static bool is_run_id(const char *id)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t n = strlen(id);

	return n > 0 && n < sizeof(((struct cow_run *)NULL)->id) && id[0] != '-' &&
	       strspn(id, ok) == n;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct cow_entry *)a)->path, ((const struct cow_entry *)b)->path);
}

/* Everything into the directory dir_fd; its name says that it is half-made. */
static int keep_into(struct keep *k, int upper_fd, int lower_fd, int dir_fd, struct err *err)
{
	AUTO_FD int files = -EBADF;
	AUTO_DIR DIR *upper = open_dir(upper_fd, ".");
	int r;

	if (!upper)
		return err_sys(err, "open the upper directory");
	if (mkdirat(dir_fd, COW_FILES, 0700) < 0)
		return err_sys(err, "mkdir '%s'", COW_FILES);
	files = openat(dir_fd, COW_FILES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (files < 0)
		return err_sys(err, "open '%s'", COW_FILES);
	k->files_fd = files;
	r = keep_dir(k, upper, lower_fd, 0, 0, err);
	/* Better the most of a run's work than nothing: the record says that it is not whole. */
	if (r == -E2BIG && k->run->n > 0) {
		k->run->bytes = 0;
		if (k->run->skipped_n == COW_ENTRIES_MAX)
			cow_drop_skip(k->run);
		r = cow_add_skip(
			k->run, ".", "more changes than bawn keeps: the rest is lost", err);
	}
	/* One order for people and programs; a directory sorts before what is in it. */
	if (r == 0 && k->run->n > 1)
		qsort(k->run->entries, k->run->n, sizeof(*k->run->entries), by_path);
	if (r == 0 && k->run->n > 0)
		r = cow_write_manifest(k->run, dir_fd, err);
	return r;
}

static int keep_as(struct keep *k, int upper_fd, int lower_fd, struct err *err)
{
	AUTO_FREE char *runs_path = NULL;
	AUTO_FREE char *temp = text_format(".tmp-%s", k->run->id);
	AUTO_FD int runs = cow_open_runs(true, &runs_path, err);
	AUTO_FD int dir = -EBADF;
	struct err ignored = {0};
	int r;

	if (runs < 0)
		return runs;
	if (mkdirat(runs, temp, 0700) < 0)
		return err_sys(err, "mkdir '%s/%s'", runs_path, temp);
	dir = openat(runs, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0) {
		r = err_sys(err, "open '%s/%s'", runs_path, temp);
		goto undo_mkdir;
	}
	r = keep_into(k, upper_fd, lower_fd, dir, err);
	if (r < 0 || k->run->n == 0)
		goto undo_mkdir;
	if (renameat2(runs, temp, runs, k->run->id, RENAME_NOREPLACE) < 0) {
		r = err_sys(err, "keep run '%s'", k->run->id);
		goto undo_mkdir;
	}
	(void)fsync(runs); /* the name; a lost one is a lost run, and nobody was told of it yet */
	return 0;

undo_mkdir:
	(void)tree_remove(runs, temp, &ignored);
	return r;
}

int cow_keep(int upper_fd, const char *lower_path, const char *run_id, uid_t id_offset,
	uint64_t *ret_n, struct err *err)
{
	AUTO(cow_free) struct cow_run *run = MEM_NEW(struct cow_run);
	AUTO_FD int lower = open(lower_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FREE struct keep *k = MEM_NEW(struct keep);
	int r;

	if (lower < 0)
		return err_sys(err, "copy-on-write: open '%s'", lower_path);
	if (!is_run_id(run_id))
		return err_set(
			err, EINVAL, "copy-on-write: run id: letters, digits, '-' and '_' only");
	(void)snprintf(run->id, sizeof(run->id), "%s", run_id);
	run->target = mem_strdup(lower_path);
	run->created = time(NULL);
	k->run = run;
	k->id_offset = id_offset;
	r = userns_is_host_root(err);
	if (r < 0)
		return err_wrap(err, "copy-on-write");
	k->is_trusted = r > 0;
	r = keep_as(k, upper_fd, lower, err);
	free(k->inodes);
	if (r < 0)
		return err_wrap(err, "copy-on-write: keep the changes");
	*ret_n = run->n;
	return 0;
}
