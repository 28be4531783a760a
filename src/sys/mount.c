/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/mount.h"

#include "base/own.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static uint64_t attr_bits(unsigned attrs)
{
	uint64_t bits = 0;

	if (attrs & MOUNT_RDONLY)
		bits |= MOUNT_ATTR_RDONLY;
	if (attrs & MOUNT_NOSUID)
		bits |= MOUNT_ATTR_NOSUID;
	if (attrs & MOUNT_NODEV)
		bits |= MOUNT_ATTR_NODEV;
	if (attrs & MOUNT_NOEXEC)
		bits |= MOUNT_ATTR_NOEXEC;
	return bits;
}

int mount_clone(int dir_fd, const char *path, unsigned attrs, struct err *err)
{
	unsigned flags =
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW;
	int fd;

	if (*path == 0)
		flags |= AT_EMPTY_PATH;
	if (attrs & MOUNT_RECURSIVE)
		flags |= AT_RECURSIVE;
	fd = (int)syscall(SYS_open_tree, dir_fd, path, flags);
	if (fd < 0)
		return err_sys(err, "clone the mount tree at '%s'", path);
	return fd;
}

static int set_attr(
	int fd, const char *path, unsigned flags, struct mount_attr *args, struct err *err)
{
	if (syscall(SYS_mount_setattr, fd, path, flags, args, sizeof(*args)) < 0)
		return err_sys(err, args->userns_fd ? "map the ids of a mount" : "change a mount");
	return 0;
}

int mount_change(int fd, unsigned attrs, int userns_fd, struct err *err)
{
	struct mount_attr args = {.attr_set = attr_bits(attrs)};
	unsigned flags = AT_EMPTY_PATH | (attrs & MOUNT_RECURSIVE ? AT_RECURSIVE : 0);

	if (userns_fd >= 0) {
		args.attr_set |= MOUNT_ATTR_IDMAP;
		args.userns_fd = (uint64_t)userns_fd;
	}
	if (attrs & MOUNT_PRIVATE)
		args.propagation = MS_PRIVATE;
	if (!args.attr_set && !args.propagation)
		return 0;
	return set_attr(fd, "", flags, &args, err);
}

int mount_make_private(struct err *err)
{
	/* The old call: it is one system call on every kernel, and mount_setattr may be refused. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(err, "make mounts private");
	return 0;
}

static int fs_open(const char *type, struct err *err)
{
	int fd = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);

	if (fd < 0)
		return err_sys(err, "open file system type '%s'", type);
	return fd;
}

static int fs_set(int fs, const char *key, const char *value, struct err *err)
{
	int r;

	if (value)
		r = (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0);
	else
		r = (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, key, NULL, 0);
	if (r < 0)
		return err_sys(err, "mount option '%s=%s'", key, value ? value : "");
	return 0;
}

static int fs_mount(int fs, const char *type, unsigned attrs, struct err *err)
{
	int fd;

	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_sys(err, "create a '%s' file system", type);
	fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attr_bits(attrs));
	if (fd < 0)
		return err_sys(err, "mount '%s'", type);
	return fd;
}

int mount_tmpfs(uint64_t size, uint64_t inodes, mode_t mode, unsigned attrs, struct err *err)
{
	AUTO_FD int fs = fs_open("tmpfs", err);
	char value[32];
	int r = fs;

	if (r >= 0) {
		(void)snprintf(value, sizeof(value), "%o", mode);
		r = fs_set(fs, "mode", value, err);
	}
	if (r >= 0 && size > 0) {
		(void)snprintf(value, sizeof(value), "%llu", (unsigned long long)size);
		r = fs_set(fs, "size", value, err);
	}
	if (r >= 0 && inodes > 0) {
		(void)snprintf(value, sizeof(value), "%llu", (unsigned long long)inodes);
		r = fs_set(fs, "nr_inodes", value, err);
	}
	return r < 0 ? r : fs_mount(fs, "tmpfs", attrs, err);
}

/*
 * Layers by /proc/self/fd: works since overlayfs has the new mount API, needs no path of the host.
 */
static int overlay_lower(int fs, const int *lower_fds, size_t n, struct err *err)
{
	char value[1024];
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		used += (size_t)snprintf(value + used, sizeof(value) - used, "%s/proc/self/fd/%d",
			i ? ":" : "", lower_fds[i]);
	return fs_set(fs, "lowerdir", value, err);
}

int mount_overlay(const int *lower_fds, size_t lower_n, int upper_fd, bool in_userns,
	unsigned attrs, struct err *err)
{
	AUTO_FD int fs = fs_open("overlay", err);
	char value[64];
	int r = fs < 0 ? fs : overlay_lower(fs, lower_fds, lower_n, err);

	if (r >= 0 && upper_fd >= 0) {
		(void)snprintf(value, sizeof(value), "/proc/self/fd/%d/u", upper_fd);
		r = fs_set(fs, "upperdir", value, err);
	}
	if (r >= 0 && upper_fd >= 0) {
		(void)snprintf(value, sizeof(value), "/proc/self/fd/%d/w", upper_fd);
		r = fs_set(fs, "workdir", value, err);
	}
	if (r >= 0 && in_userns)
		r = fs_set(fs, "userxattr", NULL, err);
	return r < 0 ? r : fs_mount(fs, "overlay", attrs, err);
}

int mount_kernel_fs(const char *type, const char *const *options, unsigned attrs, struct err *err)
{
	AUTO_FD int fs = fs_open(type, err);
	int r = fs;

	for (; r >= 0 && options && options[0]; options += 2)
		r = fs_set(fs, options[0], options[1], err);
	return r < 0 ? r : fs_mount(fs, type, attrs, err);
}

/*
 * COMPAT(5.6): no openat2. Walk part by part without following symlinks; a tree
 * that needs a symlink followed is refused rather than followed out of the root.
 */
static int resolve_by_parts(int root_fd, const char *path, struct err *err)
{
	AUTO_FD int at = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *p = path;

	if (at < 0)
		return err_sys(err, "open the new root");
	while (*p) {
		char part[256];
		size_t n = strcspn(p, "/");
		int next;

		if (n == 0) {
			p++;
			continue;
		}
		if (n >= sizeof(part))
			return err_set(err, ENAMETOOLONG, "resolve '%s'", path);
		memcpy(part, p, n);
		part[n] = 0;
		if (strcmp(part, "..") == 0)
			return err_set(err, EINVAL, "resolve '%s': '..' in it", path);
		next = openat(at, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return err_sys(err, "resolve '%s'", path);
		closep(&at);
		at = next;
		p += n;
	}
	return TAKE_FD(at);
}

int mount_open_real(const char *path, struct err *err)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (fd < 0 && errno == ENOSYS) {
		AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (root < 0)
			return err_sys(err, "open '/'");
		return resolve_by_parts(root, path, err);
	}
	if (fd < 0)
		return err_sys(err, "open '%s'", path);
	return fd;
}

int mount_resolve(int root_fd, const char *path, struct err *err)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

	if (fd < 0 && errno == ENOSYS)
		return resolve_by_parts(root_fd, path, err);
	if (fd < 0)
		return err_sys(err, "resolve '%s' in the new root", path);
	return fd;
}

int mount_make_target(int root_fd, const char *path, bool want_file, struct err *err)
{
	char part[4096];
	size_t n = strlen(path);

	if (n >= sizeof(part))
		return err_set(err, ENAMETOOLONG, "make '%s' in the new root", path);
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		AUTO_FD int parent = -EBADF;
		char *slash;

		if (part[i] != '/' && part[i] != 0)
			continue;
		part[i] = 0;
		slash = strrchr(part, '/');
		*slash = 0;
		parent = mount_resolve(root_fd, *part ? part : "/", err);
		*slash = '/';
		if (parent < 0)
			return parent;
		if (i == n && want_file) {
			AUTO_FD int fd = openat(parent, slash + 1,
				O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0644);

			if (fd < 0 && faccessat(parent, slash + 1, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
				return err_sys(err, "make '%s' in the new root", path);
		} else if (mkdirat(parent, slash + 1, 0755) < 0 && errno != EEXIST &&
			   faccessat(parent, slash + 1, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
			return err_sys(err, "make '%s' in the new root", path);
		}
		if (i < n)
			part[i] = '/';
	}
	return 0;
}

int mount_attach(int fd, int target_fd, struct err *err)
{
	if (syscall(SYS_move_mount, fd, "", target_fd, "",
		    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(err, "attach a mount");
	return 0;
}

void mount_detach(int fd)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	(void)umount2(path, MNT_DETACH);
}

int mount_pivot(int root_fd, struct err *err)
{
	if (fchdir(root_fd) < 0)
		return err_sys(err, "enter the new root");
	/* pivot_root(2) NOTES: "." for both stacks the old root on the new one; then let it go. */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(err, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(err, "detach the old root");
	if (chdir("/") < 0)
		return err_sys(err, "chdir '/'");
	return 0;
}
