/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/tree.h"

#include "base/own.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define REMOVE_DEPTH 64 /* open directories while removing; deeper ones are lifted up */

static int sys_openat2(int dir_fd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)flags,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd;

	/* EAGAIN: a rename raced with the walk; the kernel could not prove we stayed below. */
	for (int i = 0; i < 16; i++) {
		fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd < 0 ? -errno : fd;
}

static int open_by_hand(int dir_fd, const char *path, int flags, mode_t mode)
{
	AUTO_FD int held = -EBADF;
	int at = dir_fd;

	for (;;) {
		const char *slash = strchr(path, '/');
		size_t n = slash ? (size_t)(slash - path) : strlen(path);
		char name[NAME_MAX + 1];
		int fd;

		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, n);
		name[n] = '\0';
		if (strcmp(name, "..") == 0)
			return -EXDEV;
		if (!slash) {
			fd = openat(at, n ? name : ".", flags, mode);
			return fd < 0 ? -errno : fd;
		}
		path = slash + 1;
		if (n == 0)
			continue;
		fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		closep(&held);
		held = at = fd;
	}
}

int tree_open(int dir_fd, const char *path, int flags, mode_t mode)
{
	int fd;

	flags |= O_CLOEXEC | O_NOFOLLOW;
	if (path[0] == '/')
		return -EXDEV;
	fd = sys_openat2(dir_fd, path, flags, (flags & O_CREAT) ? mode : 0);
	/* EPERM: an older container runtime's filter answers so to calls it does not know. */
	if (fd == -ENOSYS || fd == -EPERM)
		fd = open_by_hand(dir_fd, path, flags, mode);
	return fd;
}

int tree_open_parent(int dir_fd, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX];
	int fd;

	if (!slash) {
		fd = tree_open(dir_fd, ".", O_PATH | O_DIRECTORY, 0);
		if (fd >= 0)
			*ret_name = path;
		return fd;
	}
	if ((size_t)(slash - path) >= sizeof(parent))
		return -ENAMETOOLONG;
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	fd = tree_open(dir_fd, parent, O_PATH | O_DIRECTORY, 0);
	if (fd >= 0)
		*ret_name = slash + 1;
	return fd;
}

int tree_make_dirs(const char *path, mode_t mode, struct err *err)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	if (n >= sizeof(part))
		return err_set(err, ENAMETOOLONG, "mkdir '%.80s': path too long", path);
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		part[i] = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return err_sys(err, "mkdir '%s'", part);
		part[i] = i < n ? '/' : '\0';
	}
	return 0;
}

/* Make and open one component of a private directory. */
static int enter_private(int parent_fd, const char *name, struct err *err)
{
	AUTO_FD int fd = -EBADF;
	struct stat st;

	if (mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST)
		return err_sys(err, "mkdir '%.200s'", name);
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "open '%.200s'", name);
	/* Somebody else could look in, or put a directory of theirs in its place. */
	if (st.st_uid != geteuid())
		return err_set(err, EPERM, "'%.200s' belongs to somebody else", name);
	return TAKE_FD(fd);
}

int tree_make_private(const char *path, unsigned own, struct err *err)
{
	AUTO_FD int fd = -EBADF;
	char above[PATH_MAX];
	size_t n = strlen(path);
	int r;

	if (n >= sizeof(above))
		return err_set(err, ENAMETOOLONG, "mkdir '%.80s': path too long", path);
	memcpy(above, path, n + 1);
	for (unsigned i = 0; i < own; i++) {
		char *slash = strrchr(above, '/');

		if (!slash || slash == above)
			return err_set(err, EINVAL, "mkdir '%.200s': too short", path);
		*slash = '\0';
	}
	r = tree_make_dirs(above, 0700, err);
	if (r < 0)
		return r;
	fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "open '%.200s'", above);
	for (const char *p = path + strlen(above) + 1; *p;) {
		char name[NAME_MAX + 1];
		size_t len = strcspn(p, "/");

		if (len > NAME_MAX)
			return err_set(err, ENAMETOOLONG, "mkdir '%.80s': name too long", path);
		memcpy(name, p, len);
		name[len] = '\0';
		p += len + (p[len] == '/');
		r = enter_private(fd, name, err);
		if (r < 0)
			return err_wrap(err, "'%.200s'", path);
		closep(&fd);
		fd = r;
	}
	return TAKE_FD(fd);
}

static DIR *open_dir(int parent_fd, const char *name)
{
	AUTO_FD int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir;

	if (fd < 0)
		return NULL;
	dir = fdopendir(fd);
	if (dir)
		(void)TAKE_FD(fd);
	return dir;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

struct removal {
	int root_fd;       /* directory being removed; deep ones are lifted into it */
	unsigned lifted;   /* names used so far */
	bool want_another; /* something was lifted: the root needs one more pass */
};

static int remove_children(struct removal *rm, DIR *dir, unsigned depth, struct err *err);

static int remove_dir(
	struct removal *rm, int parent_fd, const char *name, unsigned depth, struct err *err)
{
	AUTO_DIR DIR *dir = NULL;
	int r;

	if (depth >= REMOVE_DEPTH) {
		char up[32];

		/* A box can nest directories far deeper than we may hold descriptors. */
		(void)snprintf(up, sizeof(up), ".bawn-rm-%u", rm->lifted++);
		rm->want_another = true;
		if (renameat(parent_fd, name, rm->root_fd, up) < 0)
			return err_sys(err, "remove: lift a deep directory");
		return 0;
	}
	dir = open_dir(parent_fd, name);
	if (!dir && errno == EACCES && fchmodat(parent_fd, name, 0700, 0) == 0)
		dir = open_dir(parent_fd, name);
	if (!dir)
		return err_sys(err, "remove: open a directory");
	/* A directory we own but may not write hides its children from unlink. */
	(void)fchmod(dirfd(dir), 0700);
	if (rm->root_fd < 0)
		rm->root_fd = dirfd(dir);
	do {
		if (depth == 0)
			rm->want_another = false;
		rewinddir(dir);
		r = remove_children(rm, dir, depth, err);
	} while (r == 0 && depth == 0 && rm->want_another);
	if (r < 0)
		return r;
	if (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(err, "remove: rmdir");
	return 0;
}

static int remove_children(struct removal *rm, DIR *dir, unsigned depth, struct err *err)
{
	for (;;) {
		struct dirent *d;
		int r;

		errno = 0;
		d = readdir(dir);
		if (!d)
			return errno ? err_sys(err, "remove: read a directory") : 0;
		if (is_dots(d->d_name))
			continue;
		if (d->d_type != DT_DIR) {
			if (unlinkat(dirfd(dir), d->d_name, 0) == 0 || errno == ENOENT)
				continue;
			if (errno != EISDIR && errno != EPERM)
				return err_sys(err, "remove: unlink");
		}
		r = remove_dir(rm, dirfd(dir), d->d_name, depth + 1, err);
		if (r < 0)
			return r;
	}
}

int tree_remove(int parent_fd, const char *name, struct err *err)
{
	struct removal rm = {.root_fd = -EBADF};

	if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	/* Linux says EISDIR; POSIX allows EPERM. */
	if (errno != EISDIR && errno != EPERM)
		return err_sys(err, "remove '%.80s'", name);
	return remove_dir(&rm, parent_fd, name, 0, err);
}

/* Copy [from, to) at the same offsets. */
static int copy_range(int from_fd, int to_fd, off_t from, off_t to, struct err *err)
{
	static char buf[128 * 1024];

	while (from < to) {
		size_t want = (size_t)(to - from) < sizeof(buf) ? (size_t)(to - from) : sizeof(buf);
		ssize_t n = pread(from_fd, buf, want, from);
		ssize_t done = 0;

		if (n < 0)
			return err_sys(err, "copy: read");
		if (n == 0)
			return 0;
		while (done < n) {
			ssize_t w = pwrite(to_fd, buf + done, (size_t)(n - done), from + done);

			if (w < 0)
				return err_sys(err, "copy: write");
			done += w;
		}
		from += n;
	}
	return 0;
}

int tree_copy_data(int from_fd, int to_fd, uint64_t max_bytes, struct err *err)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from_fd, &st) < 0)
		return err_sys(err, "copy: stat");
	/*
	 * First the size: it fails with EFBIG where a sparse giant does not fit this file system.
	 */
	if (ftruncate(to_fd, st.st_size) < 0)
		return err_sys(err, "copy: set the size to %lld bytes", (long long)st.st_size);
	while (at < st.st_size) {
		off_t data = lseek(from_fd, at, SEEK_DATA);
		off_t hole;
		int r;

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0)
			return err_sys(err, "copy: seek");
		hole = lseek(from_fd, data, SEEK_HOLE);
		if (hole < 0)
			return err_sys(err, "copy: seek");
		if ((uint64_t)(hole - data) > max_bytes)
			return err_set(err, EFBIG, "copy: more data than allowed");
		max_bytes -= (uint64_t)(hole - data);
		r = copy_range(from_fd, to_fd, data, hole, err);
		if (r < 0)
			return r;
		at = hole;
	}
	return 0;
}

static int copy_file(int from_fd, const char *from, int to_fd, const char *to,
	struct tree_limits *left, struct err *err)
{
	/* O_NONBLOCK: if it became a fifo since stat, do not wait for its writer. */
	AUTO_FD int in = openat(from_fd, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_FD int out = -EBADF;
	struct stat st;
	uint64_t data;
	int r;

	if (in < 0)
		return err_sys(err, "copy: open '%.80s'", from);
	if (fstat(in, &st) < 0)
		return err_sys(err, "copy: stat '%.80s'", from);
	if (!S_ISREG(st.st_mode))
		return 0;
	out = openat(to_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(err, "copy: create '%.80s'", to);
	data = (uint64_t)st.st_blocks * 512;
	r = tree_copy_data(in, out, left->bytes, err);
	if (r < 0)
		return r;
	left->bytes -= data < left->bytes ? data : left->bytes;
	if (fchmod(out, st.st_mode & 0777) < 0)
		return err_sys(err, "copy: chmod '%.80s'", to);
	return 0;
}

static int copy_link(int from_fd, const char *from, int to_fd, const char *to, struct err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from_fd, from, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(err, "copy: readlink '%.80s'", from);
	target[n] = '\0';
	if (symlinkat(target, to_fd, to) < 0)
		return err_sys(err, "copy: symlink '%.80s'", to);
	return 0;
}

static int copy_entry(int from_fd, const char *from, int to_fd, const char *to,
	struct tree_limits *left, unsigned depth, struct err *err);

static int copy_dir(int from_fd, const char *from, int to_fd, const char *to,
	struct tree_limits *left, unsigned depth, struct err *err)
{
	AUTO_DIR DIR *dir = open_dir(from_fd, from);
	AUTO_FD int out = -EBADF;
	struct stat st;

	if (!dir || fstat(dirfd(dir), &st) < 0)
		return err_sys(err, "copy: open directory '%.80s'", from);
	if (mkdirat(to_fd, to, 0700) < 0)
		return err_sys(err, "copy: mkdir '%.80s'", to);
	out = openat(to_fd, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0)
		return err_sys(err, "copy: open '%.80s'", to);
	for (;;) {
		struct dirent *d;
		int r;

		errno = 0;
		d = readdir(dir);
		if (!d && errno)
			return err_sys(err, "copy: read directory '%.80s'", from);
		if (!d)
			break;
		if (is_dots(d->d_name))
			continue;
		r = copy_entry(dirfd(dir), d->d_name, out, d->d_name, left, depth + 1, err);
		if (r < 0)
			return r;
	}
	if (fchmod(out, (st.st_mode & 0777) | 0700) < 0)
		return err_sys(err, "copy: chmod '%.80s'", to);
	return 0;
}

static int copy_entry(int from_fd, const char *from, int to_fd, const char *to,
	struct tree_limits *left, unsigned depth, struct err *err)
{
	struct stat st;

	if (depth > TREE_DEPTH_MAX)
		return err_set(err, ELOOP, "copy: more than %d levels", TREE_DEPTH_MAX);
	if (left->entries == 0)
		return err_set(err, EFBIG, "copy: more entries than allowed");
	left->entries--;
	if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "copy: stat '%.80s'", from);
	if (S_ISDIR(st.st_mode))
		return copy_dir(from_fd, from, to_fd, to, left, depth, err);
	if (S_ISREG(st.st_mode))
		return copy_file(from_fd, from, to_fd, to, left, err);
	if (S_ISLNK(st.st_mode))
		return copy_link(from_fd, from, to_fd, to, err);
	return 0;
}

int tree_copy(int from_fd, const char *from, int to_fd, const char *to, struct tree_limits *left,
	struct err *err)
{
	return copy_entry(from_fd, from, to_fd, to, left, 0, err);
}
