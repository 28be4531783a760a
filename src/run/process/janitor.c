/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/janitor - the child that cleans up if bawn is killed.
 *
 * Started before there is anything to clean up, it is told who pid 1 of the box is, and
 * killed when all is done. End of file before that means that bawn was killed: then it
 * waits until bawn and the box are gone, removes the cgroup leaves (found by the
 * pid in their names) and holds back protected names the box made.
 */
#include "base/own.h"
#include "run/process/box_impl.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void wait_gone(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	while (pidfd >= 0 && poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

/* COMPAT(5.3): no pidfd_open; a child whose parent is dead has another one. */
static void wait_orphaned(pid_t parent)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	while (getppid() == parent)
		(void)nanosleep(&pause, NULL);
}

static _Noreturn void janitor_main(struct box *b, int sock, int bawn, pid_t parent)
{
	AUTO_FD int box = -EBADF;
	struct err ignored;

	(void)prctl(PR_SET_NAME, "bawn-janitor", 0, 0, 0);
	(void)setsid(); /* a terminal's Ctrl-C is not for us */
	for (int i = 0; i < 3; i++)
		(void)close(i); /* a reader of our caller's output waits for its end */
	if (b->plan.want_cgroup)
		(void)cgroup_sweep(); /* leaves of earlier runs whose janitor was killed too */
	for (;;) {
		char what = 0;
		int fd = -EBADF;
		size_t n = 1;

		if (sock_receive(sock, &what, 1, &fd, &n, &ignored) <= 0)
			break;
		if (n == 1)
			box = fd;
	}
	/*
	 * Descriptors are closed before a process is dead, and a living owner's leaves are
	 * spared. Pid 1 is reported dead only after everything in its namespace is.
	 */
	if (bawn >= 0)
		wait_gone(bawn);
	else
		wait_orphaned(parent);
	wait_gone(box);
	if (b->plan.want_cgroup)
		(void)cgroup_sweep();
	if (box >= 0)
		(void)box_hold_back(b, &ignored);
	_exit(0);
}

int janitor_start(struct box *b, struct err *err)
{
	AUTO_FD int pidfd = -EBADF, peer = -EBADF, bawn = -EBADF;
	pid_t parent = getpid();
	int pair[2], r;

	bawn = (int)syscall(SYS_pidfd_open, parent, 0);
	if (bawn < 0 && errno != ENOSYS)
		return err_sys(err, "pidfd_open");
	r = sock_pair(pair, err);
	if (r < 0)
		return r;
	b->janitor_fd = pair[0];
	peer = pair[1];
	b->janitor = process_clone(0, -EBADF, &pidfd, err);
	if (b->janitor == 0) {
		closep(&b->janitor_fd);
		janitor_main(b, peer, bawn, parent);
	}
	return b->janitor < 0 ? (int)b->janitor : 0;
}

int janitor_tell_box(struct box *b, struct err *err)
{
	char what = 'b';

	return b->janitor <= 0 ? 0 : sock_send(b->janitor_fd, &what, 1, &b->pidfd, 1, err);
}

void janitor_stop(struct box *b)
{
	if (b->janitor <= 0)
		return;
	/* All is done, and it holds nothing: no need to wake it up for a farewell. */
	(void)kill(b->janitor, SIGKILL);
	while (waitpid(b->janitor, NULL, 0) < 0 && errno == EINTR)
		;
	closep(&b->janitor_fd);
	b->janitor = 0;
}
