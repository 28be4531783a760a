/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/sock.h"

#include "base/own.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

union control {
	char bytes[CMSG_SPACE(SOCK_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int sock_pair(int ret[2], struct err *err)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret) < 0)
		return err_sys(err, "socketpair");
	return 0;
}

int sock_send(int fd, const void *data, size_t n, const int *fds, size_t fds_n, struct err *err)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = n};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control;

	assert(fds_n <= SOCK_FDS_MAX);
	if (fds_n > 0) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(fds_n * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fds_n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, fds_n * sizeof(int));
	}
	if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
		return err_sys(err, "send to the other half");
	return 0;
}

static void take_fds(struct msghdr *msg, int *fds, size_t max, size_t *got)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (*got < max)
				fds[(*got)++] = fd;
			else
				(void)close(fd);
		}
	}
}

ssize_t sock_receive(int fd, void *data, size_t n, int *fds, size_t *fds_n, struct err *err)
{
	struct iovec iov = {.iov_base = data, .iov_len = n};
	union control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	size_t max = *fds_n, got = 0;
	ssize_t r;

	do
		r = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	/*
	 * A peer that ended with something of ours unread says so once; what it sent is still
	 * there.
	 */
	while (r < 0 && (errno == EINTR || errno == ECONNRESET));
	if (r < 0)
		return err_sys(err, "receive from the other half");
	take_fds(&msg, fds, max, &got);
	*fds_n = got;
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return err_set(err, EBADMSG, "receive from the other half: packet cut");
	return r;
}
