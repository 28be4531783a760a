/* SPDX-License-Identifier: Apache-2.0 */

/* The harness of the tries: a child, a pipe for its verdict, a time limit. */
#include "sys/probe.h"

#include "base/own.h"
#include "sys/probe_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t probe_clone(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

int probe_write(const char *path, const char *value, struct err *err)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, "open '%s'", path);
	if (write(fd, value, strlen(value)) < 0)
		return err_sys(err, "write '%s'", path);
	return 0;
}

ssize_t probe_read(const char *path, char *ret, size_t size)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t n = 0;

	ret[0] = '\0';
	if (fd < 0)
		return -errno;
	while (n < size - 1) {
		ssize_t r = read(fd, ret + n, size - 1 - n);

		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	ret[n] = '\0';
	return (ssize_t)n;
}

void probe_read_line(const char *path, char *ret, size_t size)
{
	if (probe_read(path, ret, size) < 0)
		ret[0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

int probe_map_self(uid_t uid, gid_t gid, struct err *err)
{
	char map[32];
	int r;

	/* Since 3.19 a process without CAP_SETGID outside may map its gid only after this. */
	r = probe_write("/proc/self/setgroups", "deny", err);
	if (r < 0)
		return r;
	(void)snprintf(map, sizeof(map), "0 %u 1", (unsigned)gid);
	r = probe_write("/proc/self/gid_map", map, err);
	if (r < 0)
		return r;
	(void)snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
	return probe_write("/proc/self/uid_map", map, err);
}

/* The child's half: the verdict is one struct err, code 0 if it works. */
static void child(
	int pipe_fd, unsigned long ns_flags, uid_t uid, gid_t gid, probe_fn fn, const void *arg)
{
	struct err verdict = {0};
	sigset_t none;
	int r = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The caller may ignore or block it; the parent's own limit stands behind this one. */
	(void)signal(SIGALRM, SIG_DFL);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(PROBE_TIMEOUT_MS / 1000 + 1);
	if (ns_flags & CLONE_NEWUSER)
		r = probe_map_self(uid, gid, &verdict);
	if (r == 0)
		(void)fn(arg, &verdict);
	(void)!write(pipe_fd, &verdict, sizeof(verdict)); /* nobody reads: nobody to tell */
	_exit(0);
}

static void record(struct probe_try *ret, int code, const char *step)
{
	/* "mount 'x': Permission denied" without the reason: the code tells it. */
	const char *cut = strrchr(step, ':');
	size_t n = cut ? (size_t)(cut - step) : strlen(step);

	ret->code = code;
	if (n >= sizeof(ret->step))
		n = sizeof(ret->step) - 1;
	memcpy(ret->step, step, n);
	ret->step[n] = '\0';
}

void probe_try(struct probe_try *ret, unsigned long ns_flags, probe_fn fn, const void *arg)
{
	struct err verdict = {0};
	struct pollfd wait_for;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	AUTO_FD int rd = -EBADF;
	AUTO_FD int wr = -EBADF;
	int fds[2];
	pid_t pid;
	int n;

	if (pipe2(fds, O_CLOEXEC) < 0) {
		record(ret, errno, "pipe");
		return;
	}
	rd = fds[0];
	wr = fds[1];
	pid = probe_clone(ns_flags);
	if (pid < 0) {
		record(ret, errno, "clone");
		return;
	}
	if (pid == 0)
		child(wr, ns_flags, uid, gid, fn, arg);
	closep(&wr);
	wait_for = (struct pollfd){.fd = rd, .events = POLLIN};
	do {
		n = poll(&wait_for, 1, PROBE_TIMEOUT_MS);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		record(ret, ETIMEDOUT, "wait for an answer");
	else if (read(rd, &verdict, sizeof(verdict)) != (ssize_t)sizeof(verdict))
		/* Died without a word: a filter killed it at the call that was tried. */
		record(ret, EIO, "stay alive");
	else
		record(ret, verdict.code, verdict.msg);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void probe_run(struct probe *p, const char *state_dir)
{
	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < PROBE_COUNT; i++)
		p->tries[i].code = PROBE_UNTRIED;
	probe_host(p, state_dir);
	probe_namespaces(p);
	probe_mounts(p);
	probe_ids(p);
	probe_calls(p);
}
