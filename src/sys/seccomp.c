/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/seccomp.h"

#include "seccomp_filters.h"
#include "sys/kernel_abi.h"
#include "sys/seccomp_eval.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROGRAMS_N (sizeof(seccomp_programs) / sizeof(seccomp_programs[0]))
#define NAMES_N    (sizeof(seccomp_names) / sizeof(seccomp_names[0]))

static int sys_seccomp(unsigned op, unsigned flags, void *arg)
{
	return (int)syscall(SYS_seccomp, op, flags, arg);
}

int seccomp_install(unsigned flags, int *ret_listener, struct err *err)
{
	const unsigned watch = SECCOMP_WATCH_CONNECT | SECCOMP_WATCH_WRITES;
	unsigned how = 0;
	struct sock_fprog program;
	int r;

	if (flags >= PROGRAMS_N || ((flags & watch) && !(flags & SECCOMP_NOTIFY)))
		return err_set(err, EINVAL, "seccomp: no filter for flags 0x%x", flags);

	program = seccomp_programs[flags];
	if (flags & SECCOMP_NOTIFY)
		/*
		 * Without the second flag a signal restarts a call that the listener already
		 * saw, and it is told twice; Go's preemption sends such signals all the time.
		 */
		how = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	r = sys_seccomp(SECCOMP_SET_MODE_FILTER, how, &program);
	if (r < 0 && errno == EINVAL && how != 0) {
		/* COMPAT(5.19): WAIT_KILLABLE_RECV is unknown. */
		how = SECCOMP_FILTER_FLAG_NEW_LISTENER;
		r = sys_seccomp(SECCOMP_SET_MODE_FILTER, how, &program);
	}
	if (r < 0 && how != 0 && (errno == EINVAL || errno == EBUSY)) {
		/*
		 * COMPAT(5.0): no listeners; or a filter around us has the one there can be.
		 * The same calls are refused, only nobody is told.
		 */
		how = 0;
		program = seccomp_programs[flags & SECCOMP_NO_SUID];
		r = sys_seccomp(SECCOMP_SET_MODE_FILTER, how, &program);
	}
	if (r < 0)
		return err_sys(err, "seccomp: install the filter");
	*ret_listener = how != 0 ? r : -EBADF;
	return 0;
}

/* What the filter says of the call where nothing is watched tells whether it was only watched. */
static bool would_be_allowed(const struct seccomp_data *data)
{
	const struct sock_fprog *plain = &seccomp_programs[0];

	return seccomp_eval(plain->filter, plain->len, data) == SECCOMP_RET_ALLOW;
}

int seccomp_receive(int listener, struct seccomp_event *ret, struct err *err)
{
	/* A later kernel may write more than our header knows; it says how much. */
	_Alignas(struct seccomp_notif) char room[512];
	struct seccomp_notif *notif = (struct seccomp_notif *)(void *)room;
	struct seccomp_notif_sizes sizes = {0};
	struct pollfd p = {.fd = listener, .events = POLLIN};

	/* The receiving ioctl waits for an event, O_NONBLOCK or not: ask first. */
	if (poll(&p, 1, 0) < 0)
		return err_sys(err, "seccomp: poll the listener");
	if (!(p.revents & POLLIN)) {
		if (p.revents & POLLHUP)
			return err_set(err, EPIPE, "seccomp: no process is left under the filter");
		if (p.revents & (POLLERR | POLLNVAL))
			return err_set(err, EBADF, "seccomp: not a listener");
		return err_set(err, EAGAIN, "seccomp: no event");
	}
	if (sys_seccomp(SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return err_sys(err, "seccomp: ask for the size of an event");
	if (sizes.seccomp_notif > sizeof(room))
		return err_set(err, E2BIG, "seccomp: an event has %u bytes", sizes.seccomp_notif);

	/* The kernel refuses a buffer that is not all zero. */
	memset(room, 0, sizeof(room));
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notif) < 0)
		return err_sys(err, "seccomp: receive an event");

	ret->id = notif->id;
	ret->pid = (pid_t)notif->pid;
	ret->nr = notif->data.nr;
	for (size_t i = 0; i < sizeof(ret->args) / sizeof(ret->args[0]); i++)
		ret->args[i] = notif->data.args[i];
	ret->is_watch = would_be_allowed(&notif->data);
	return 0;
}

bool seccomp_still_waiting(int listener, uint64_t id)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

int seccomp_answer(int listener, const struct seccomp_event *ev, struct err *err)
{
	struct seccomp_notif_resp resp = {.id = ev->id};

	/*
	 * Continuing is no decision about security: the caller can change what its
	 * arguments point to. It is for calls that the filter allows anyway.
	 */
	if (ev->is_watch)
		resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	else
		resp.error = -EPERM;
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp) < 0)
		return err_sys(err, "seccomp: answer an event");
	return 0;
}

const char *seccomp_syscall_name(int nr)
{
	if (nr < 0 || (size_t)nr >= NAMES_N || seccomp_names[nr][0] == '\0')
		return NULL;
	return seccomp_names[nr];
}
