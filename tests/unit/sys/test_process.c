/* SPDX-License-Identifier: Apache-2.0 */

/* sys/process against the kernel. As any user. */
#include "sys/process.h"

#include "in_userns.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

static struct err err;

static void a_child_is_held_by_its_pidfd(void)
{
	AUTO_FD int pidfd = -EBADF;
	struct pollfd p;
	int status = 0;
	pid_t pid = process_clone(0, -EBADF, &pidfd, &err);

	if (pid == 0) {
		for (;;)
			(void)pause();
	}
	if (!CHECK(pid > 0 && pidfd >= 0))
		return;
	CHECK_INT(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
	CHECK_INT(process_signal(pidfd, SIGTERM, &err), 0);
	p = (struct pollfd){.fd = pidfd, .events = POLLIN};
	CHECK_INT(poll(&p, 1, 10000), 1);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	CHECK_INT(WTERMSIG(status), SIGTERM);
	/* The number may be somebody else's by now; the descriptor never is. */
	CHECK_INT(process_signal(pidfd, SIGTERM, &err), -ESRCH);
	CHECK_STR(err.msg, "signal 15: No such process");
}

static int pid_one_in_child(void)
{
	AUTO_FD int pidfd = -EBADF;
	int status = 0;
	pid_t pid = process_clone(CLONE_NEWPID, -EBADF, &pidfd, &err);

	if (pid == 0)
		_exit(getpid() == 1 ? 0 : 1);
	NEED(pid > 0 && waitpid(pid, &status, 0) == pid);
	NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}

static void a_child_in_a_new_pid_namespace_is_pid_one(void)
{
	CHECK_INT(in_userns(pid_one_in_child), 0);
}

static uint64_t outer_user_namespace;

static int namespaces_in_child(void)
{
	uint64_t mine = process_namespace(0, "user");

	NEED(mine != 0 && mine != outer_user_namespace);
	NEED(process_namespace(getpid(), "user") == mine);
	return 0;
}

static void a_namespace_has_a_number_that_tells_it_from_others(void)
{
	outer_user_namespace = process_namespace(0, "user");
	CHECK(outer_user_namespace != 0);
	CHECK_INT(in_userns(namespaces_in_child), 0);
	CHECK_INT(process_namespace(0, "nosuch"), 0);
}

static void a_directory_that_is_no_cgroup_is_refused(void)
{
	AUTO_FD int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), pidfd = -EBADF;
	pid_t pid = process_clone(0, dir, &pidfd, &err);

	if (pid == 0)
		_exit(0);
	CHECK(pid < 0 && err.code == -pid);
	CHECK_INT(pidfd, -EBADF); /* written on success only */
}

static int cloexec_in_child(void)
{
	int fds[4], keep[1];

	for (int i = 0; i < 4; i++) {
		fds[i] = open("/", O_PATH); /* without CLOEXEC, as a caller's may be */
		NEED(fds[i] >= 0);
	}
	keep[0] = fds[2];
	NEED(process_cloexec_from(3, keep, 1, &err) == 0);
	for (int i = 0; i < 4; i++)
		NEED(fcntl(fds[i], F_GETFD) == (i == 2 ? 0 : FD_CLOEXEC));
	NEED(fcntl(1, F_GETFD) == 0);
	NEED(process_cloexec_from(fds[3] + 1, NULL, 0, &err) == 0);
	NEED(fcntl(fds[2], F_GETFD) == 0);
	return 0;
}

static void only_the_listed_descriptors_survive_an_exec(void)
{
	CHECK_INT(in_child(cloexec_in_child), 0);
}

static int keep_closed_in_child(void)
{
	int closed = 900;

	NEED(process_cloexec_from(3, &closed, 1, &err) == -EBADF);
	NEED(strcmp(err.msg, "keep descriptor 900: Bad file descriptor") == 0);
	return 0;
}

static void keeping_a_closed_descriptor_names_it(void)
{
	CHECK_INT(in_child(keep_closed_in_child), 0);
}

static int name_in_child(void)
{
	uint64_t before = process_start_time(getpid());

	NEED(before > 0);
	NEED(prctl(PR_SET_NAME, "a) S 1 (b", 0, 0, 0) == 0);
	NEED(process_start_time(getpid()) == before);
	return 0;
}

static void a_process_s_name_cannot_lie_about_its_start(void)
{
	CHECK_INT(in_child(name_in_child), 0);
}

static void a_process_that_is_gone_has_no_start(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
	CHECK_INT(process_start_time(pid), 0);
}

static int close_in_child(void)
{
	int keep[] = {40, -EBADF, 7, 5};

	for (int fd = 3; fd < 50; fd++)
		NEED(dup2(2, fd) == fd);
	NEED(process_close_except(keep, 4, &err) == 0);
	for (int fd = 3; fd < 50; fd++)
		NEED((fcntl(fd, F_GETFD) >= 0) == (fd == 5 || fd == 7 || fd == 40));
	NEED(fcntl(0, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0);
	return 0;
}

static void all_but_the_listed_descriptors_are_closed(void)
{
	CHECK_INT(in_child(close_in_child), 0);
}

int main(void)
{
	RUN(a_child_is_held_by_its_pidfd);
	RUN(a_child_in_a_new_pid_namespace_is_pid_one);
	RUN(a_namespace_has_a_number_that_tells_it_from_others);
	RUN(a_directory_that_is_no_cgroup_is_refused);
	RUN(only_the_listed_descriptors_survive_an_exec);
	RUN(keeping_a_closed_descriptor_names_it);
	RUN(all_but_the_listed_descriptors_are_closed);
	RUN(a_process_s_name_cannot_lie_about_its_start);
	RUN(a_process_that_is_gone_has_no_start);
	return tap_done();
}
