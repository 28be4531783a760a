/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/role.h"

#include "sys/caps.h"
#include "sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_FD    3
#define ABOVE_FDS   (FIRST_FD + ROLE_FDS_MAX) /* copies wait up here until their number is free */
#define BACKOFF_MIN 50
#define BACKOFF_MAX 5000
#define LONG_ENOUGH 1000 /* ms up: the next failure is a new one */

/* The child fails by name on stderr: there is nobody else to tell. No allocation. */
static void die(const char *what)
{
	struct err err = {0};

	(void)err_sys(&err, "role: %s", what);
	(void)dprintf(STDERR_FILENO, "bawn: serve: %s\n", err.msg);
	_exit(127);
}

static void place_fds(const struct role_launch *l)
{
	int up[ROLE_FDS_MAX];
	int keep[ROLE_FDS_MAX];
	struct err err = {0};

	for (size_t i = 0; i < l->fds_n; i++) {
		up[i] = fcntl(l->fds[i], F_DUPFD_CLOEXEC, ABOVE_FDS);
		if (up[i] < 0)
			die("dup");
	}
	for (size_t i = 0; i < l->fds_n; i++) {
		keep[i] = FIRST_FD + (int)i;
		if (dup2(up[i], keep[i]) < 0)
			die("dup2");
	}
	if (process_cloexec_from(FIRST_FD, keep, l->fds_n, &err) < 0)
		die("close descriptors");
}

static void give_up_rights(const struct state_ids *ids)
{
	struct err err = {0};

	/* Rootless there is nothing to drop, and the kernel says EPERM. */
	if (caps_bound(0, &err) < 0 && err.code != EPERM)
		die("drop capabilities");
	if (ids->uid != geteuid() &&
		(setgroups(0, NULL) < 0 || setresgid(ids->gid, ids->gid, ids->gid) < 0 ||
			setresuid(ids->uid, ids->uid, ids->uid) < 0))
		die("change the user");
	if (caps_set(0, &err) < 0)
		die("drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die("no_new_privs");
}

static void reset_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL); /* fails for the two that cannot be changed */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void child(const struct role_launch *l, pid_t parent)
{
	int program = fcntl(l->program, F_DUPFD_CLOEXEC, 2 * ABOVE_FDS);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* A session of its own: ^C is the supervisor's alone, and no terminal is there. */
	(void)setsid();
	if (program < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
		dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		die("open");
	place_fds(l);
	if (l->ids)
		give_up_rights(l->ids);
	/* Behind the change of user, which would clear it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		die("die with the supervisor");
	if (getppid() != parent)
		_exit(127);
	reset_signals();
	/* By descriptor: the file's own directory may be closed to the role's user. */
	(void)syscall(SYS_execveat, program, "", l->argv, l->env, AT_EMPTY_PATH);
	die(l->argv[0]);
}

pid_t role_start(const struct role_launch *l, struct err *err)
{
	pid_t parent = getpid();
	pid_t pid;

	if (l->fds_n > ROLE_FDS_MAX)
		return err_set(err, E2BIG, "too many descriptors for a role");
	pid = fork();
	if (pid < 0)
		return err_sys(err, "fork");
	if (pid == 0)
		child(l, parent);
	return pid;
}

uint64_t role_backoff_next(struct role_backoff *b, uint64_t lived_ms, bool was_ready)
{
	uint64_t delay = b->delay_ms;

	if (delay < BACKOFF_MIN || was_ready || lived_ms >= LONG_ENOUGH)
		delay = BACKOFF_MIN;
	b->delay_ms = delay * 2 < BACKOFF_MAX ? delay * 2 : BACKOFF_MAX;
	return delay;
}
