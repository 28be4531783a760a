/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_mounts - group fs: mounts, roots, device nodes, control groups, handles.
 *
 * Run as root of the box, who comes closest. The control runs have a mount
 * namespace of their own, so what they mount is gone with them.
 */
#include "cli/attack.h"
#include "sys/kernel_abi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static int mount_tmpfs(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return attack_reached(r, mount("none", c->scratch, "tmpfs", 0, "size=64k"), "mount");
}

static int mount_proc(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return attack_reached(r, mount("none", c->scratch, "proc", 0, NULL), "mount");
}

static int remount_rw(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	(void)c;
	return attack_reached(
		r, mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID, NULL), "mount");
}

/* The nested user namespace of CVE-2022-0492 and CVE-2023-0386, where mounting is free. */
static int nested_mount(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return attack_refused(r, "unshare(CLONE_NEWUSER | CLONE_NEWNS)");
	(void)mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return attack_reached(
		r, mount("none", c->scratch, a->path, 0, NULL), "mount in a user namespace");
}

/* CVE-2022-0492: a release_agent is run by the kernel, as root, outside. */
static int release_agent(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return attack_refused(r, "unshare(CLONE_NEWCGROUP)");
	return attack_reached(r, mount("none", c->scratch, "cgroup", 0, "rdma"), "mount");
}

static const char *const control_files[] = {"cgroup.procs", "tasks", "release_agent", "memory.max",
	"memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us"};

/* Only opens: nothing is written. */
static bool opens_control_file(const char *dir, char *where, size_t where_size)
{
	for (size_t i = 0; i < sizeof(control_files) / sizeof(control_files[0]); i++) {
		AUTO_FD int fd = -EBADF;

		(void)snprintf(where, where_size, "%s/%s", dir, control_files[i]);
		fd = open(where, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			return true;
	}
	return false;
}

static int cgroup_write(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_DIR DIR *d = opendir("/sys/fs/cgroup");
	char dir[512], where[600];
	struct dirent *e;

	(void)a;
	(void)c;
	if (!d)
		return attack_refused(r, "open /sys/fs/cgroup");
	if (opens_control_file("/sys/fs/cgroup", where, sizeof(where)))
		return attack_broke(r, "opened %s for writing", where);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(dir, sizeof(dir), "/sys/fs/cgroup/%s", e->d_name);
		if (opens_control_file(dir, where, sizeof(where)))
			return attack_broke(r, "opened %.150s for writing", where);
	}
	errno = ENOENT;
	return attack_refused(r, "control files below /sys/fs/cgroup");
}

static int device_node(const struct attack_ctx *c, mode_t kind, dev_t dev, struct attack_report *r)
{
	char path[2 * ATTACK_PATH_SIZE];

	(void)snprintf(path, sizeof(path), "%s/node-%d", c->scratch, getpid());
	if (mknod(path, kind | 0600, dev) < 0)
		return attack_reached(r, -1, "mknod");
	(void)unlink(path);
	return attack_broke(r, "made a device node");
}

static int mknod_disk(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return device_node(c, S_IFBLK, makedev(8, 0), r);
}

static int mknod_mem(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return device_node(c, S_IFCHR, makedev(1, 1), r);
}

/* The classic: a second chroot below leaves the working directory outside of it. */
static int chroot_breakout(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char dir[2 * ATTACK_PATH_SIZE];

	(void)a;
	(void)snprintf(dir, sizeof(dir), "%s/jail-%d", c->scratch, getpid());
	(void)mkdir(dir, 0700);
	if (chroot(dir) < 0) {
		(void)rmdir(dir);
		return attack_refused(r, "chroot()");
	}
	if (fchdir(root) < 0)
		return attack_absent(r, "fchdir");
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return attack_refused(r, "chdir(..)");
	return attack_read_secret(c, AT_FDCWD, c->canary + 1, r);
}

/* "Shocker" (2014): a file handle names an inode whatever the mounts say. */
static int open_by_handle(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int mount_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct {
		struct file_handle h;
		unsigned char bytes[8];
	} handle = {.h = {.handle_bytes = 8, .handle_type = 1}};

	(void)a;
	(void)c;
	handle.bytes[0] = 2; /* the root inode of ext4 */
	return attack_reached(r,
		syscall(SYS_open_by_handle_at, mount_fd, &handle, O_RDONLY | O_CLOEXEC),
		"open_by_handle_at");
}

static int open_tree_clone(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	(void)c;
	return attack_reached(
		r, syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE), "open_tree");
}

static const char tmpfs_name[] = "tmpfs", root_path[] = "/", proc_path[] = "/proc";

#define MOUNT_ATTACK                                                                               \
	.wall = WALL_SECCOMP, .flags = ATTACK_CONTROL | ATTACK_AS_ROOT, .control_ns = CLONE_NEWNS
#define CALL(name) .try = attack_try_call, .call = #name, .nr = SYS_##name

static const struct attack table[] = {
	{.name = "fs/mount-tmpfs",
		MOUNT_ATTACK,
		.success = "the box changes its own mounts, and so uncovers what they hide",
		.try = mount_tmpfs,
		.call = "mount"},
	{.name = "fs/mount-fresh-proc",
		MOUNT_ATTACK,
		.success = "a second /proc without the masks",
		.try = mount_proc,
		.call = "mount"},
	{.name = "fs/remount-usr-writable",
		MOUNT_ATTACK,
		.success = "the host's /usr becomes writable",
		.try = remount_rw,
		.call = "mount"},
	{.name = "fs/unmount-masks",
		MOUNT_ATTACK,
		.success = "what was covered in /proc is uncovered",
		CALL(umount2),
		.arg = {(uintptr_t)proc_path, 0xffff0000}},
	{.name = "fs/pivot-root",
		MOUNT_ATTACK,
		.success = "the box chooses another root",
		CALL(pivot_root),
		.arg = {ATTACK_BAD_ADDRESS, ATTACK_BAD_ADDRESS}},
	{.name = "fs/chroot-breakout",
		.wall = WALL_ROOT,
		.success = ".. walks out of a second chroot to the host's tree",
		.try = chroot_breakout,
		.flags = ATTACK_CONTROL | ATTACK_AS_ROOT,
		.control_ns = CLONE_NEWNS},
	{.name = "fs/fsopen-CVE-2022-0185",
		MOUNT_ATTACK,
		.success = "the file system context code of CVE-2022-0185 is reached",
		CALL(fsopen),
		.arg = {(uintptr_t)tmpfs_name, 0}},
	{.name = "fs/fsconfig",
		MOUNT_ATTACK,
		.success = "the file system configuration code is reached",
		CALL(fsconfig),
		.arg = {(uintptr_t)-1, 1, ATTACK_BAD_ADDRESS, 0, 0}},
	{.name = "fs/open-tree-clone",
		MOUNT_ATTACK,
		.success = "a detached copy of the mounts, free to be changed",
		.try = open_tree_clone,
		.call = "open_tree"},
	{.name = "fs/move-mount",
		MOUNT_ATTACK,
		.success = "mounts can be moved",
		CALL(move_mount),
		.arg = {(uintptr_t)-1, ATTACK_BAD_ADDRESS, (uintptr_t)-1, ATTACK_BAD_ADDRESS, 0}},
	{.name = "fs/mount-setattr",
		MOUNT_ATTACK,
		.success = "read-only mounts can be made writable",
		CALL(mount_setattr),
		.arg = {(uintptr_t)AT_FDCWD, (uintptr_t)root_path, 0, ATTACK_BAD_ADDRESS, 32}},
	{.name = "fs/overlay-in-user-namespace-CVE-2023-0386",
		MOUNT_ATTACK,
		.success = "overlayfs is reached through a nested user namespace",
		.try = nested_mount,
		.path = "overlay",
		.call = "unshare"},
	{.name = "fs/cgroup-release-agent-CVE-2022-0492",
		MOUNT_ATTACK,
		.success = "a cgroup v1 tree is mounted, whose release_agent runs as root outside",
		.try = release_agent,
		.call = "unshare"},
	{.name = "fs/cgroup-control-files",
		.wall = WALL_SYS,
		.success = "the box can lift its own limits",
		.try = cgroup_write,
		.flags = ATTACK_AS_ROOT,
		.expect = {ENOENT}},
	{.name = "fs/open-by-handle-shocker",
		MOUNT_ATTACK,
		.success = "a file of the host is opened by its inode number",
		.try = open_by_handle,
		.call = "open_by_handle_at"},
	{.name = "fs/device-node-of-a-disk",
		MOUNT_ATTACK,
		.success = "the host's disk is read below its file system",
		.try = mknod_disk,
		.call = "mknodat"},
	{.name = "fs/device-node-of-memory",
		MOUNT_ATTACK,
		.success = "the machine's memory is read",
		.try = mknod_mem,
		.call = "mknodat"},
};

const struct attack_table attack_table_mounts = {table, sizeof(table) / sizeof(table[0])};
