/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * tests/unit/sys/in_userns - run a function as root of fresh user and mount namespaces, so that
 * any user can test calls that need privilege. What it mounts goes with it.
 *
 * The function returns 0, or the line it gave up at; a child does not CHECK.
 */
#include "base/own.h"
#include "sys/mount.h"
#include "sys/process.h"
#include "sys/userns.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEED(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			return __LINE__;                                                           \
	} while (0)

static inline struct userns_map single_id(uint32_t inside)
{
	return (struct userns_map){
		.uid = {{inside, geteuid(), 1}},
		.gid = {{inside, getegid(), 1}},
		.uid_n = 1,
		.gid_n = 1,
	};
}

/* 0 if fn returned 0; else tells the line, or the signal as a negative number. */
static inline int in_userns(int (*fn)(void))
{
	struct userns_map map = single_id(0);
	AUTO_FD int pidfd = -EBADF, wait_fd = -EBADF, go_fd = -EBADF;
	struct err err = {0};
	int status = 0, fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	wait_fd = fds[0];
	go_fd = fds[1];
	pid = process_clone(CLONE_NEWUSER | CLONE_NEWNS, -EBADF, &pidfd, &err);
	if (pid == 0) {
		int line = __LINE__;
		char byte;

		closep(&go_fd);
		if (read(wait_fd, &byte, 1) == 1 && mount_make_private(&err) >= 0)
			line = fn();
		if (line)
			tap_print("# line %d: %s, errno %d\n", line, err.msg, errno);
		_exit(line != 0);
	}
	if (pid < 0) {
		tap_print("# %s\n", err.msg);
		return (int)pid;
	}
	if (userns_write(pid, &map, &err) < 0)
		tap_print("# %s\n", err.msg);
	else if (write(go_fd, "", 1) != 1)
		tap_print("# the child is gone\n");
	closep(&go_fd);
	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline int in_child(int (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int line = fn();

		if (line)
			tap_print("# line %d: errno %d\n", line, errno);
		_exit(line != 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
