/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Id ranges, tried: idmapped mounts for root, newuidmap for users. Each try holds a
 * user namespace open by a child that waits for nothing and is killed.
 */
#include "sys/probe_impl.h"

#include "base/own.h"
#include "sys/mount.h"
#include "sys/userns.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that keeps a fresh user namespace alive. */
static pid_t hold_userns(struct err *err)
{
	pid_t pid = probe_clone(CLONE_NEWUSER);

	if (pid < 0)
		return err_sys(err, "clone");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)pause();
	}
	return pid;
}

static void let_go(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static int idmap(const char *path, pid_t holder, struct err *err)
{
	const struct userns_extent all = {0, USERNS_RANGE_FIRST, USERNS_RANGE_SIZE};
	const struct userns_map map = {.uid = {all}, .gid = {all}, .uid_n = 1, .gid_n = 1};
	AUTO_FD int userns = -EBADF;
	AUTO_FD int fd = -EBADF;
	char name[48];
	int r = userns_write(holder, &map, err);

	if (r < 0)
		return r;
	(void)snprintf(name, sizeof(name), "/proc/%d/ns/user", holder);
	userns = open(name, O_RDONLY | O_CLOEXEC);
	if (userns < 0)
		return err_sys(err, "open '%s'", name);
	fd = mount_clone(AT_FDCWD, path, 0, err);
	return fd < 0 ? fd : mount_change(fd, 0, userns, err);
}

static int try_idmap(const void *arg, struct err *err)
{
	pid_t holder = hold_userns(err);
	int r;

	if (holder < 0)
		return holder;
	r = idmap(arg, holder, err);
	let_go(holder);
	return r;
}

static int try_newuidmap(const void *arg, struct err *err)
{
	const struct probe *p = arg;
	const struct userns_map map = {
		.uid = {{0, p->uid, 1}, {1, p->subuid, PROBE_RANGE - 1}},
		.gid = {{0, p->gid, 1}, {1, p->subgid, PROBE_RANGE - 1}},
		.uid_n = 2,
		.gid_n = 2,
		.by_helper = true,
	};
	AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t holder = hold_userns(err);
	int r;

	if (holder < 0)
		return holder;
	/* The helpers explain themselves on stderr; here only the verdict counts. */
	if (null >= 0)
		(void)(dup2(null, STDOUT_FILENO) + dup2(null, STDERR_FILENO));
	r = userns_write(holder, &map, err);
	let_go(holder);
	return r;
}

void probe_ids(struct probe *p)
{
	if (p->is_root) {
		probe_try(&p->tries[PROBE_IDMAP_ROOT], 0, try_idmap, "/");
		probe_try(&p->tries[PROBE_IDMAP_USR], 0, try_idmap, "/usr");
	} else if (p->newuidmap[0] && p->subuid && p->subgid) {
		probe_try(&p->tries[PROBE_NEWUIDMAP], 0, try_newuidmap, p);
	}
}
