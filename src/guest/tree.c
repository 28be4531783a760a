/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whole trees, in workers: list, remove, copy. By descriptor from directory to directory, so that
 * a process of the box that swaps a directory for a link sends nobody elsewhere.
 */
#include "guest/files.h"
#include "guest/worker.h"

#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#define DEPTH_MAX 4096 /* directories below each other; one descriptor each */
#define COPY_SIZE (1u << 20)

bool files_is_mount(int dir_fd, const char *name)
{
	struct statx x;

	return statx(dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &x) == 0 &&
	       (x.stx_attributes & x.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT);
}

static int fail_at(struct err *err, const char *what, const char *name)
{
	char quoted[256];
	int code = errno;

	(void)text_quote(name, quoted, sizeof(quoted));
	errno = code;
	return err_sys(err, "%s '%s'", what, quoted);
}

static DIR *open_dir(int dir_fd, const char *name, struct err *err)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		(void)fail_at(err, "open directory", name);
		closep(&fd);
	}
	return dir;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int files_remove_tree(int dir_fd, const char *name, int depth, struct err *err)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	int r = 0;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return fail_at(err, "remove", name);
	if (files_is_mount(dir_fd, name))
		return err_set(err, EBUSY, "something is mounted below the path");
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return fail_at(err, "remove", name);
	if (depth >= DEPTH_MAX)
		return err_set(err, ELOOP, "directories are nested too deeply");
	dir = open_dir(dir_fd, name, err);
	if (!dir)
		return -err->code;
	/* All that can go goes; the last obstacle is told. */
	while ((e = readdir(dir))) {
		if (is_dots(e->d_name))
			continue;
		if (files_remove_tree(dirfd(dir), e->d_name, depth + 1, err) < 0)
			r = -err->code;
	}
	if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		r = fail_at(err, "remove", name);
	return r;
}

/* --- copy --- */

static int copy_bytes(int from, int to, const char *name, struct err *err)
{
	AUTO_FREE char *buffer = NULL;
	ssize_t n;

	do
		n = copy_file_range(from, NULL, to, NULL, 1u << 30, 0);
	while (n > 0);
	if (n == 0)
		return 0;
	if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
		return fail_at(err, "copy", name);
	buffer = mem_must(malloc(COPY_SIZE));
	while ((n = read(from, buffer, COPY_SIZE)) > 0)
		for (ssize_t done = 0, w; done < n; done += w) {
			w = write(to, buffer + done, (size_t)(n - done));
			if (w < 0)
				return fail_at(err, "copy", name);
		}
	return n < 0 ? fail_at(err, "copy", name) : 0;
}

static void copy_xattrs(int from, int to)
{
	char names[4096], value[4096];
	ssize_t n = flistxattr(from, names, sizeof(names));

	for (const char *p = names; n > 0 && p < names + n; p += strlen(p) + 1) {
		ssize_t len =
			text_starts(p, "user.") ? fgetxattr(from, p, value, sizeof(value)) : -1;

		if (len >= 0)
			(void)fsetxattr(to, p, value, (size_t)len, 0); /* where it can be kept */
	}
}

static int copy_file(int from_dir, const char *from, int to_dir, const char *to, struct err *err)
{
	AUTO_FD int in = openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_FD int out = -EBADF;

	if (in < 0)
		return fail_at(err, "open", from);
	out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return fail_at(err, "create", to);
	copy_xattrs(in, out);
	return copy_bytes(in, out, from, err);
}

static int copy_link(int from_dir, const char *from, int to_dir, const char *to, struct err *err)
{
	char target[4096];
	ssize_t n = readlinkat(from_dir, from, target, sizeof(target) - 1);

	if (n < 0)
		return fail_at(err, "read link", from);
	target[n] = '\0';
	return symlinkat(target, to_dir, to) < 0 ? fail_at(err, "link", to) : 0;
}

static int copy_dir(
	int from_dir, const char *from, int to_dir, const char *to, int depth, struct err *err)
{
	AUTO_DIR DIR *in = NULL, *out = NULL;
	struct dirent *e;
	int r = 0;

	if (depth >= DEPTH_MAX)
		return err_set(err, ELOOP, "directories are nested too deeply");
	if (mkdirat(to_dir, to, 0700) < 0)
		return fail_at(err, "make directory", to);
	in = open_dir(from_dir, from, err);
	out = in ? open_dir(to_dir, to, err) : NULL;
	if (!out)
		return -err->code;
	copy_xattrs(dirfd(in), dirfd(out));
	while (r >= 0 && (e = readdir(in)))
		if (!is_dots(e->d_name))
			r = files_copy_tree(
				dirfd(in), e->d_name, dirfd(out), e->d_name, depth + 1, err);
	return r;
}

int files_copy_tree(
	int from_dir, const char *from, int to_dir, const char *to, int depth, struct err *err)
{
	struct timespec times[2];
	struct stat st;
	int r;

	if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_at(err, "look at", from);
	if (S_ISDIR(st.st_mode))
		r = copy_dir(from_dir, from, to_dir, to, depth, err);
	else if (S_ISREG(st.st_mode))
		r = copy_file(from_dir, from, to_dir, to, err);
	else if (S_ISLNK(st.st_mode))
		r = copy_link(from_dir, from, to_dir, to, err);
	else if (S_ISFIFO(st.st_mode))
		r = mknodat(to_dir, to, S_IFIFO | 0600, 0) < 0 ? fail_at(err, "make", to) : 0;
	else
		return 0; /* sockets and devices do not move */
	if (r < 0)
		return r;
	/* Ids first: a change of owner drops the setuid bits. Unmapped ids stay ours. */
	(void)fchownat(to_dir, to, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW);
	if (!S_ISLNK(st.st_mode) && fchmodat(to_dir, to, st.st_mode & 07777, 0) < 0)
		return fail_at(err, "set the mode of", to);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	(void)utimensat(to_dir, to, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

/* --- list --- */

struct listing {
	struct where *where;
	uint32_t depth;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Fresh sorted names of the directory at path. */
static int names_of(const char *path, int flags, struct strv *ret, struct err *err)
{
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int r = fail_at(err, "list", path);

		closep(&fd);
		return r;
	}
	while ((e = readdir(dir)))
		if (!is_dots(e->d_name) && !files_is_hidden(e->d_name) &&
			strv_add(ret, e->d_name, err) < 0)
			return -err->code;
	if (ret->n > 0)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_name);
	return 0;
}

static int list_dir(struct worker_out *out, struct accounts *a, const char *path, int flags,
	uint32_t depth, struct err *err)
{
	struct strv names = {0};
	int r = names_of(path, flags, &names, err);

	for (size_t i = 0; i < names.n && r >= 0; i++) {
		AUTO_FREE char *child =
			text_format("%s/%s", strcmp(path, "/") == 0 ? "" : path, names.v[i]);
		struct guest_entry entry = {0};
		struct frame_writer w = {0};
		struct err gone = {0};

		/* What vanishes between the two looks was not there. */
		if (entry_make(a, child, &entry, &gone) < 0)
			continue;
		guest_entry_put(&w, &entry);
		if (!worker_message(out, MSG_ENTRY, &w))
			r = err_set(err, EPIPE, "nobody listens");
		if (r >= 0 && depth > 1 && entry.type == GUEST_DIR && !entry.is_link)
			/* A directory that cannot be opened has no entries to show. */
			if (list_dir(out, a, child, O_NOFOLLOW, depth - 1, &gone) == -EPIPE)
				r = err_set(err, EPIPE, "nobody listens");
		buf_done(&w.buf);
		guest_entry_done(&entry);
	}
	strv_done(&names);
	return r;
}

static int list_by_worker(struct worker_out *out, void *arg, struct err *err)
{
	struct listing *l = arg;

	return list_dir(out, &l->where->accounts, l->where->path, 0, l->depth, err);
}

void list_request(struct request *q, struct frame_reader *body)
{
	struct where w;
	struct listing l = {.where = &w};
	char quoted[256];
	struct err err = {0};
	struct stat st;
	int r = where_get(q->g, body, &w, &err);

	l.depth = frame_get_u32(body);
	if (r >= 0 && !frame_ok(body))
		r = err_set(&err, EPROTO, "the request is malformed");
	if (r >= 0 && stat(w.path, &st) < 0) {
		(void)text_quote(w.path, quoted, sizeof(quoted));
		r = errno == ENOENT || errno == ENOTDIR
			    ? err_set(&err, ENOENT, "path not found: %s", quoted)
			    : err_sys(&err, "'%s'", quoted);
	} else if (r >= 0 && !S_ISDIR(st.st_mode)) {
		r = err_set(&err, ENOTDIR, "path is not a directory: %s",
			text_quote(w.path, quoted, sizeof(quoted)));
	}
	if (l.depth == 0)
		l.depth = 1;
	if (r >= 0)
		r = worker_start(q, list_by_worker, &l, false, &err);
	if (r < 0)
		request_fail(q, &err);
	where_done(&w);
}
