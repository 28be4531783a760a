/* SPDX-License-Identifier: Apache-2.0 */

/*
 * File systems in a user namespace, tried with the calls a sandbox is made with.
 * Nothing is attached to a directory of the machine: mounts stay detached, or go on
 * "/" of a mount namespace that ends with the child.
 */
#include "sys/probe_impl.h"

#include "base/own.h"
#include "sys/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_CAP (1u << 20)

static int try_tmpfs(const void *arg, struct err *err)
{
	AUTO_FD int fd = mount_tmpfs(SIZE_CAP, 0, 0755, 0, err);

	(void)arg;
	if (fd < 0)
		return fd;
	if (mkdirat(fd, "d", 0700) < 0)
		return err_sys(err, "write to tmpfs");
	return 0;
}

static int try_proc(const void *arg, struct err *err)
{
	AUTO_FD int fd = mount_kernel_fs("proc", NULL, 0, err);

	(void)arg;
	return fd < 0 ? fd : 0;
}

static int try_devpts(const void *arg, struct err *err)
{
	static const char *const options[] = {"mode", "0600", "ptmxmode", "0666", NULL};
	AUTO_FD int fd = mount_kernel_fs("devpts", options, 0, err);
	AUTO_FD int tty = -EBADF;
	int unlock = 0;

	(void)arg;
	if (fd < 0)
		return fd;
	tty = openat(fd, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (tty < 0)
		return err_sys(err, "open a terminal");
	if (ioctl(tty, TIOCSPTLCK, &unlock) < 0)
		return err_sys(err, "unlock a terminal");
	return 0;
}

static int try_bind(const void *arg, struct err *err)
{
	AUTO_FD int fd = mount_clone(AT_FDCWD, "/", MOUNT_RECURSIVE, err);

	(void)arg;
	return fd < 0 ? fd : mount_change(fd, MOUNT_RECURSIVE | MOUNT_RDONLY, -EBADF, err);
}

/* A tmpfs on top of "/"; the caller closes it. */
static int cover_root(struct err *err)
{
	AUTO_FD int fd = mount_tmpfs(SIZE_CAP, 0, 0755, 0, err);
	AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = fd;

	if (r >= 0)
		r = mount_make_private(err);
	if (r >= 0)
		r = mount_attach(fd, root, err);
	return r < 0 ? r : TAKE_FD(fd);
}

static int try_pivot_root(const void *arg, struct err *err)
{
	AUTO_FD int fd = cover_root(err);

	(void)arg;
	return fd < 0 ? fd : mount_pivot(fd, err);
}

/* Two layers in the tmpfs fd, joined; removing a file needs a whiteout in the upper one. */
static int join_layers(int fd, struct err *err)
{
	AUTO_FD int lower = -EBADF;
	AUTO_FD int file = -EBADF;
	AUTO_FD int joined = -EBADF;

	if (mkdirat(fd, "lower", 0755) < 0 || mkdirat(fd, "u", 0755) < 0 ||
		mkdirat(fd, "w", 0755) < 0)
		return err_sys(err, "make layers");
	lower = openat(fd, "lower", O_PATH | O_DIRECTORY | O_CLOEXEC);
	file = openat(fd, "lower/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	if (lower < 0 || file < 0)
		return err_sys(err, "fill the lower layer");
	joined = mount_overlay(&lower, 1, fd, true, 0, err);
	if (joined < 0)
		return joined;
	if (unlinkat(joined, "file", 0) < 0)
		return err_sys(err, "remove a file through overlay");
	return 0;
}

static int try_overlay(const void *arg, struct err *err)
{
	AUTO_FD int fd = cover_root(err);

	(void)arg;
	return fd < 0 ? fd : join_layers(fd, err);
}

/* COMPAT(6.15): older kernels take only layers that are attached in the caller's namespace. */
static int try_overlay_detached(const void *arg, struct err *err)
{
	AUTO_FD int fd = mount_tmpfs(SIZE_CAP, 0, 0755, 0, err);

	(void)arg;
	return fd < 0 ? fd : join_layers(fd, err);
}

void probe_mounts(struct probe *p)
{
	static const struct {
		enum probe_item item;
		unsigned long flags;
		probe_fn fn;
	} tries[] = {
		{PROBE_TMPFS, 0, try_tmpfs},
		{PROBE_PROC, CLONE_NEWPID, try_proc},
		{PROBE_DEVPTS, 0, try_devpts},
		{PROBE_BIND, 0, try_bind},
		{PROBE_PIVOT_ROOT, 0, try_pivot_root},
		{PROBE_OVERLAY, 0, try_overlay},
		{PROBE_OVERLAY_DETACHED, 0, try_overlay_detached},
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		probe_try(&p->tries[tries[i].item], CLONE_NEWUSER | CLONE_NEWNS | tries[i].flags,
			tries[i].fn, NULL);
}
