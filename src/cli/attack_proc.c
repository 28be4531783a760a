/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_proc - group fs: the kernel's own trees, /proc, /sys and /dev.
 *
 * Files that change the machine are only opened, never written.
 */
#include "cli/attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* World-readable on the host, tells about other users' keys, and empty for nobody. */
static int proc_leak(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const char *const files[] = {"/proc/keys", "/proc/key-users", "/proc/timer_list",
		"/proc/sched_debug", "/proc/latency_stats", "/proc/interrupts"};

	(void)a;
	(void)c;
	errno = ENOENT;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		AUTO_FD int fd = open(files[i], O_RDONLY | O_CLOEXEC);
		char byte;

		if (fd >= 0 && read(fd, &byte, 1) == 1)
			return attack_broke(r, "read %s", files[i]);
	}
	return attack_refused(r, "/proc/keys, timer_list, sched_debug, interrupts");
}

static int proc_core(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
	char byte;

	(void)a;
	(void)c;
	if (fd < 0)
		return attack_refused(r, "open /proc/kcore");
	if (read(fd, &byte, 1) == 1)
		return attack_broke(r, "read /proc/kcore");
	errno = ENODATA;
	return attack_refused(r, "/proc/kcore is empty");
}

/* Every place where the kernel lets somebody change it for all. */
static int sysctl_write(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const char *const files[] = {"/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
		"/proc/sys/kernel/hostname", "/proc/sys/kernel/randomize_va_space",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/fs/protected_symlinks",
		"/proc/irq/default_smp_affinity", "/proc/sys/net/ipv4/ip_forward"};
	int saved = ENOENT;

	(void)a;
	(void)c;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		AUTO_FD int fd = open(files[i], O_WRONLY | O_CLOEXEC);

		if (fd >= 0)
			return attack_broke(r, "opened %s for writing", files[i]);
		if (errno != ENOENT)
			saved = errno;
	}
	errno = saved;
	return attack_refused(r, "kernel.modprobe and other sysctls, for writing");
}

static bool is_minimal_device(dev_t dev)
{
	/* null, zero, full, random, urandom; tty, console (a pty), ptmx; pseudo terminals */
	static const unsigned mem[] = {3, 5, 7, 8, 9};
	unsigned major_nr = (unsigned)(dev >> 8) & 0xfff, minor_nr = (unsigned)dev & 0xff;

	if (major_nr == 5 || (major_nr >= 136 && major_nr <= 143))
		return true;
	for (size_t i = 0; i < sizeof(mem) / sizeof(mem[0]); i++)
		if (major_nr == 1 && minor_nr == mem[i])
			return true;
	return false;
}

static int dev_unlisted(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_DIR DIR *d = opendir("/dev");
	struct dirent *e;

	(void)a;
	(void)c;
	if (!d)
		return attack_refused(r, "open /dev");
	while ((e = readdir(d)) != NULL) {
		struct stat st;

		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !is_minimal_device(st.st_rdev)))
			return attack_broke(r, "/dev/%s is there", e->d_name);
	}
	errno = ENOENT;
	return attack_refused(r, "devices besides null, zero, full, random, tty and ptys");
}

static int sys_tree(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const char *const paths[] = {"/sys/kernel/notes", "/sys/class/net", "/sys/block",
		"/sys/module", "/sys/firmware", "/sys/kernel/debug", "/sys/bus/pci"};

	(void)a;
	(void)c;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (access(paths[i], F_OK) == 0)
			return attack_broke(r, "%s is there", paths[i]);
	return attack_refused(r, "/sys/kernel, class, block, module, firmware");
}

#define OPEN_ATTACK(wall_, path_, flags_)                                                          \
	.wall = (wall_), .try = attack_try_open, .path = (path_), .open_flags = (flags_)

static const struct attack table[] = {
	{.name = "fs/proc-kernel-leaks",
		.wall = WALL_PROC,
		.success = "/proc tells about the host's keys, timers, symbols",
		.try = proc_leak,
		.flags = ATTACK_CONTROL},
	{.name = "fs/proc-kcore",
		.wall = WALL_PROC,
		.success = "the kernel's memory is read",
		.try = proc_core,
		.flags = ATTACK_AS_ROOT,
		.expect = {EACCES, ENOENT, EPERM, ENODATA}},
	{.name = "fs/proc-sysrq-trigger",
		OPEN_ATTACK(WALL_PROC, "/proc/sysrq-trigger", O_WRONLY),
		.success = "one letter reboots the host",
		.flags = ATTACK_AS_ROOT,
		.expect = {EROFS, EACCES, ENOENT}},
	{.name = "fs/proc-core-pattern",
		OPEN_ATTACK(WALL_PROC, "/proc/sys/kernel/core_pattern", O_WRONLY),
		.success = "the kernel runs the box's program as root at the next crash",
		.flags = ATTACK_AS_ROOT,
		.expect = {EROFS, EACCES, ENOENT}},
	{.name = "fs/proc-binfmt-misc",
		OPEN_ATTACK(WALL_PROC, "/proc/sys/fs/binfmt_misc/register", O_WRONLY),
		.success = "the box's program is run for others' files",
		.flags = ATTACK_AS_ROOT,
		.expect = {EROFS, EACCES, ENOENT}},
	{.name = "fs/proc-sysctls",
		.wall = WALL_PROC,
		.success = "a kernel setting can be changed for everybody",
		.try = sysctl_write,
		.flags = ATTACK_AS_ROOT,
		.expect = {EROFS, EACCES, ENOENT}},
	{.name = "fs/sys-tree",
		.wall = WALL_SYS,
		.success = "/sys shows the machine's devices, modules, firmware",
		.try = sys_tree,
		.flags = ATTACK_CONTROL},
	{.name = "fs/sys-uevent-helper",
		OPEN_ATTACK(WALL_SYS, "/sys/kernel/uevent_helper", O_WRONLY),
		.success = "the kernel runs the box's program as root at the next device event",
		.flags = ATTACK_AS_ROOT,
		.expect = {ENOENT, EROFS, EACCES}},
	{.name = "fs/dev-unlisted-device",
		.wall = WALL_DEV,
		.success = "a device beyond the harmless ones is there to be opened",
		.try = dev_unlisted,
		.flags = ATTACK_CONTROL},
	{.name = "fs/dev-kernel-log",
		OPEN_ATTACK(WALL_DEV, "/dev/kmsg", O_RDWR),
		.success = "the host's kernel log is read and written",
		.flags = ATTACK_AS_ROOT,
		.expect = {ENOENT, EACCES, EPERM}},
	{.name = "fs/dev-fuse",
		OPEN_ATTACK(WALL_DEV, "/dev/fuse", O_RDWR),
		.success = "the box serves file systems to the kernel",
		.expect = {ENOENT, EACCES}},
};

const struct attack_table attack_table_proc = {table, sizeof(table) / sizeof(table[0])};
