/* SPDX-License-Identifier: Apache-2.0 */

/* sys/sock: whole packets, descriptors with them, and every odd end. As any user. */
#include "sys/sock.h"

#include "base/own.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct err err;

static size_t open_fds(void)
{
	AUTO_DIR DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static void a_packet_arrives_whole_and_alone(void)
{
	int pair[2] = {-EBADF, -EBADF};
	char buf[16] = "";
	size_t none = 0;

	CHECK_INT(sock_pair(pair, &err), 0);
	CHECK(fcntl(pair[0], F_GETFD) == FD_CLOEXEC && fcntl(pair[1], F_GETFD) == FD_CLOEXEC);
	CHECK_INT(sock_send(pair[0], "one", 3, NULL, 0, &err), 0);
	CHECK_INT(sock_send(pair[0], "second", 6, NULL, 0, &err), 0);
	CHECK_INT(sock_receive(pair[1], buf, sizeof(buf), NULL, &none, &err), 3);
	CHECK(memcmp(buf, "one", 3) == 0);
	CHECK_INT(sock_receive(pair[1], buf, sizeof(buf), NULL, &none, &err), 6);
	CHECK_INT(none, 0);
	closep(&pair[0]);
	CHECK_INT(sock_receive(pair[1], buf, sizeof(buf), NULL, &none, &err), 0);
	closep(&pair[1]);
}

static void descriptors_come_in_order_and_close_on_exec(void)
{
	int pair[2], fds[2], got[4];
	struct stat a, b;
	size_t n = 4;
	char byte;

	CHECK_INT(sock_pair(pair, &err), 0);
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(sock_send(pair[0], "x", 1, fds, 2, &err), 0);
	CHECK_INT(sock_receive(pair[1], &byte, 1, got, &n, &err), 1);
	if (!CHECK_INT(n, 2))
		return;
	for (int i = 0; i < 2; i++) {
		CHECK(fstat(fds[i], &a) == 0 && fstat(got[i], &b) == 0 && a.st_ino == b.st_ino);
		CHECK_INT(fcntl(got[i], F_GETFD), FD_CLOEXEC);
		CHECK_INT(fcntl(got[i], F_GETFL) & O_ACCMODE, i ? O_WRONLY : O_RDONLY);
		closep(&got[i]);
		closep(&fds[i]);
		closep(&pair[i]);
	}
}

static void a_cut_packet_is_an_error(void)
{
	int pair[2];
	char buf[2];
	size_t none = 0;

	CHECK_INT(sock_pair(pair, &err), 0);
	CHECK_INT(sock_send(pair[0], "long", 4, NULL, 0, &err), 0);
	CHECK_INT(sock_receive(pair[1], buf, sizeof(buf), NULL, &none, &err), -EBADMSG);
	CHECK_STR(err.msg, "receive from the other half: packet cut");
	closep(&pair[0]);
	closep(&pair[1]);
}

static void descriptors_nobody_asked_for_are_closed(void)
{
	int pair[2], fds[3], got[1];
	size_t before, n = 1;
	char byte;

	CHECK_INT(sock_pair(pair, &err), 0);
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	fds[2] = pair[0];
	before = open_fds();
	CHECK_INT(sock_send(pair[0], "x", 1, fds, 3, &err), 0);
	CHECK_INT(sock_receive(pair[1], &byte, 1, got, &n, &err), 1);
	CHECK_INT(n, 1);
	closep(&got[0]);
	CHECK_INT(open_fds(), before);
	for (int i = 0; i < 2; i++) {
		closep(&fds[i]);
		closep(&pair[i]);
	}
}

static void as_many_descriptors_as_a_plan_may_have_slots(void)
{
	int pair[2], fds[SOCK_FDS_MAX], got[SOCK_FDS_MAX];
	struct rlimit l = {0};
	size_t n = SOCK_FDS_MAX;
	char byte;

	CHECK_INT(getrlimit(RLIMIT_NOFILE, &l), 0);
	l.rlim_cur = l.rlim_max;
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &l), 0);
	CHECK_INT(sock_pair(pair, &err), 0);
	for (int i = 0; i < SOCK_FDS_MAX; i++)
		fds[i] = pair[0];
	CHECK_INT(sock_send(pair[0], "x", 1, fds, SOCK_FDS_MAX, &err), 0);
	CHECK_INT(sock_receive(pair[1], &byte, 1, got, &n, &err), 1);
	CHECK_INT(n, SOCK_FDS_MAX);
	for (size_t i = 0; i < n; i++)
		closep(&got[i]);
	closep(&pair[0]);
	closep(&pair[1]);
}

/* Without MSG_NOSIGNAL this would end the program. */
static void sending_to_nobody_is_an_error_and_no_signal(void)
{
	int pair[2];

	CHECK_INT(sock_pair(pair, &err), 0);
	closep(&pair[1]);
	CHECK_INT(sock_send(pair[0], "x", 1, NULL, 0, &err), -EPIPE);
	CHECK_STR(err.msg, "send to the other half: Broken pipe");
	closep(&pair[0]);
}

/* It ended with a packet of ours unread, which the kernel tells as a reset; its own is not lost. */
static void the_last_word_of_a_peer_is_heard(void)
{
	size_t none = 0;
	char byte = 0;
	int pair[2];

	CHECK_INT(sock_pair(pair, &err), 0);
	CHECK_INT(sock_send(pair[0], "a", 1, NULL, 0, &err), 0);
	CHECK_INT(sock_send(pair[1], "b", 1, NULL, 0, &err), 0);
	closep(&pair[1]);
	CHECK_INT(sock_receive(pair[0], &byte, 1, NULL, &none, &err), 1);
	CHECK_INT(byte, 'b');
	CHECK_INT(sock_receive(pair[0], &byte, 1, NULL, &none, &err), 0);
	closep(&pair[0]);
}

int main(void)
{
	RUN(the_last_word_of_a_peer_is_heard);
	RUN(a_packet_arrives_whole_and_alone);
	RUN(descriptors_come_in_order_and_close_on_exec);
	RUN(a_cut_packet_is_an_error);
	RUN(descriptors_nobody_asked_for_are_closed);
	RUN(as_many_descriptors_as_a_plan_may_have_slots);
	RUN(sending_to_nobody_is_an_error_and_no_signal);
	return tap_done();
}
