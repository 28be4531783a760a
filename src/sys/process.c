/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/process.h"

#include "base/own.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Raw clone() with a NULL stack behaves like fork(). */
static pid_t clone_old(uint64_t namespaces, int *ret_pidfd)
{
#if defined(__x86_64__) || defined(__aarch64__)
	return (pid_t)syscall(
		SYS_clone, (unsigned long)(namespaces | CLONE_PIDFD | SIGCHLD), 0, ret_pidfd, 0, 0);
#else
#error "clone argument order of this architecture is not known here"
#endif
}

pid_t process_clone(uint64_t namespaces, int cgroup_fd, int *ret_pidfd, struct err *err)
{
	int pidfd = -EBADF;
	struct clone_args args = {
		.flags = namespaces | CLONE_PIDFD,
		.pidfd = (uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0 && errno == ENOSYS) {
		if (cgroup_fd >= 0)
			return err_set(err, EOPNOTSUPP, "clone into a cgroup: no clone3");
		pid = clone_old(namespaces, &pidfd);
	}
	if (pid < 0)
		return err_sys(err, "clone");
	if (pid > 0)
		*ret_pidfd = pidfd;
	return pid;
}

int process_signal(int pidfd, int sig, struct err *err)
{
	if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0)
		return err_sys(err, "signal %d", sig);
	return 0;
}

/* What getdents64(2) writes; libc's reader allocates, and here nothing may. */
struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

/* COMPAT(5.11): close_range has no CLOEXEC flag before, and is absent before 5.9. */
static int each_one_by_one(int first, void (*each)(int fd, void *arg), void *arg, struct err *err)
{
	AUTO_FD int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct entry) char buf[4096];
	long n;

	if (dir < 0)
		return err_sys(err, "open '/proc/self/fd'");
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		const struct entry *e;

		for (long at = 0; at < n; at += e->reclen) {
			struct err ignored;
			uint64_t fd;

			e = (const struct entry *)(const void *)(buf + at);
			if (text_parse_u64(e->name, "fd", 0, INT32_MAX, &fd, &ignored) < 0)
				continue;
			if ((int)fd >= first && (int)fd != dir)
				each((int)fd, arg);
		}
	}
	return n < 0 ? err_sys(err, "list '/proc/self/fd'") : 0;
}

static void set_cloexec(int fd, void *arg)
{
	(void)arg;
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

int process_cloexec_from(int first, const int *keep, size_t keep_n, struct err *err)
{
	if (syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_CLOEXEC) < 0) {
		int r = each_one_by_one(first, set_cloexec, NULL, err);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < keep_n; i++)
		if (fcntl(keep[i], F_SETFD, 0) < 0)
			return err_sys(err, "keep descriptor %d", keep[i]);
	return 0;
}

struct kept {
	const int *fds;
	size_t n;
};

static void close_unless_kept(int fd, void *arg)
{
	const struct kept *k = arg;

	for (size_t i = 0; i < k->n; i++)
		if (k->fds[i] == fd)
			return;
	(void)close(fd);
}

int process_close_except(const int *keep, size_t keep_n, struct err *err)
{
	struct kept kept = {keep, keep_n};
	unsigned from = 3;

	for (;;) {
		unsigned next = ~0U;

		for (size_t i = 0; i < keep_n; i++)
			if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		if (next > from &&
			syscall(SYS_close_range, from, next == ~0U ? next : next - 1, 0) < 0)
			return each_one_by_one(3, close_unless_kept, &kept, err);
		if (next == ~0U)
			return 0;
		from = next + 1;
	}
}

uint64_t process_start_time(pid_t pid)
{
	char path[64], buf[1024];
	uint64_t ticks;
	const char *p;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	{
		AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return 0;
		n = read(fd, buf, sizeof(buf) - 1);
	}
	if (n <= 0)
		return 0;
	buf[n] = 0;
	/* The name may hold spaces and brackets: count fields from the last bracket. */
	p = strrchr(buf, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p && text_scan_u64(&p, &ticks) == 0 ? ticks : 0;
}

uint64_t process_namespace(pid_t pid, const char *name)
{
	struct stat st;
	char path[64];

	if (pid > 0)
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
	else
		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return stat(path, &st) == 0 ? st.st_ino : 0;
}
