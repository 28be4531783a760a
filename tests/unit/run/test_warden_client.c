/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/warden_client against a warden played by the test: every question is answered once, a lost
 * connection is told and found again, nonsense ends it.
 */
#include "run/warden.h"

#include "base/own.h"
#include "sys/sock.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char dir[] = "/tmp/test_warden_client.XXXXXX";
static char path[200];
static struct loop *loop;
static struct warden_client *client;
static struct err err;
static int listener = -EBADF, peer = -EBADF;
static int connects, losses, answers, boxes, last_code;
static char ended[128];

static void on_connected(void *arg)
{
	(void)arg;
	connects++;
}

static void on_lost(void *arg)
{
	(void)arg;
	losses++;
}

static void on_ended(const char *id, const char *reason, void *arg)
{
	(void)arg;
	(void)snprintf(ended, sizeof(ended), "%s %s", id, reason);
}

static void on_answer(const struct warden_message *m, void *arg)
{
	(void)arg;
	if (m->op == WARDEN_BOX) {
		boxes++;
		return;
	}
	answers++;
	last_code = m->code;
}

static void turn(const int *counter, int want)
{
	for (int i = 0; i < 200 && *counter < want; i++)
		(void)loop_once(loop, 50, &err);
	CHECK_INT(*counter, want);
}

static void listen_again(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	(void)unlink(path);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%.100s", path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
	CHECK(listen(listener, 4) == 0);
}

static void hang_up(void)
{
	(void)close(peer);
	peer = -1;
}

static void be_connected(void)
{
	turn(&connects, connects + 1);
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(peer >= 0);
}

static void ask(uint32_t op, const char *id)
{
	struct warden_message m;

	memset(&m, 0x7f, sizeof(m)); /* what is no field must not be sent */
	m.op = op;
	memset(m.id, 0, sizeof(m.id));
	memcpy(m.id, id, strlen(id));
	if (op == WARDEN_START) {
		memset(&m.spec, 0, sizeof(m.spec));
		memcpy(m.spec.tier, "process", 8);
		memcpy(m.spec.template, "base", 5);
	}
	CHECK_INT(warden_ask(client, &m, on_answer, NULL, &err), 0);
}

/* The question as the warden would take it. */
static struct warden_message heard(void)
{
	struct warden_message raw, m = {0};
	ssize_t n = recv(peer, &raw, sizeof(raw), 0);

	CHECK(n > 0 && warden_check(&raw, (size_t)n, &m, &err) == 0);
	return m;
}

static void say(const struct warden_message *m)
{
	CHECK(send(peer, m, sizeof(*m), MSG_NOSIGNAL) == (ssize_t)sizeof(*m));
}

static void answers_find_their_questions_in_any_order(void)
{
	struct warden_message first, second;

	be_connected();
	ask(WARDEN_STOP, "a");
	ask(WARDEN_START, "b");
	first = heard();
	second = heard();
	CHECK(first.number != second.number && second.op == WARDEN_START);
	CHECK_STR(second.id, "b");
	second.code = -ENOSPC;
	memset(&second.err, 0, sizeof(second.err));
	say(&second);
	turn(&answers, 1);
	CHECK_INT(last_code, -ENOSPC);
	say(&first);
	turn(&answers, 2);
	CHECK_INT(last_code, 0);
}

static int roads, road_code, road_fds[2] = {-EBADF, -EBADF};

static void on_road(int tcp, int dns, const struct err *why, void *arg)
{
	(void)arg;
	roads++;
	road_code = why->code;
	road_fds[0] = tcp;
	road_fds[1] = dns;
}

static void a_road_is_two_descriptors_or_a_reason(void)
{
	struct warden_message m;
	int pair[2];
	char byte = 0;

	CHECK_INT(warden_ask_road(client, "r", on_road, NULL, &err), 0);
	m = heard();
	CHECK(m.op == WARDEN_ROAD && strcmp(m.id, "r") == 0);
	CHECK_INT(sock_pair(pair, &err), 0);
	CHECK_INT(sock_send(peer, &m, sizeof(m), pair, 2, &err), 0);
	turn(&roads, 1);
	CHECK_INT(road_code, 0);
	CHECK(write(road_fds[0], "x", 1) == 1 && read(road_fds[1], &byte, 1) == 1 && byte == 'x');
	closep(&road_fds[0]);
	closep(&road_fds[1]);
	CHECK_INT(warden_ask_road(client, "s", on_road, NULL, &err), 0);
	m = heard();
	m.code = -ENOENT;
	m.err = (struct err){.code = ENOENT, .msg = "no such thing"};
	say(&m);
	turn(&roads, 2);
	CHECK(road_code == ENOENT && road_fds[0] == -EBADF);
	/* One descriptor is no road, and no warden of ours sends that. */
	CHECK_INT(warden_ask_road(client, "t", on_road, NULL, &err), 0);
	m = heard();
	CHECK_INT(sock_send(peer, &m, sizeof(m), pair, 1, &err), 0);
	turn(&roads, 3);
	CHECK(road_code == EPROTO && road_fds[0] == -EBADF && road_fds[1] == -EBADF);
	closep(&pair[0]);
	closep(&pair[1]);
	turn(&losses, 1);
	losses = 0;
	hang_up();
	be_connected();
}

static void a_list_is_many_boxes_and_one_end(void)
{
	struct warden_message q, box = {.op = WARDEN_BOX};

	answers = 0;
	ask(WARDEN_LIST, "");
	q = heard();
	box.number = q.number;
	for (int i = 0; i < 100; i++) {
		(void)snprintf(box.id, sizeof(box.id), "i%d", i);
		say(&box);
		(void)loop_once(loop, 0, &err); /* a socket holds only some packets */
	}
	say(&q);
	turn(&answers, 1);
	CHECK_INT(boxes, 100);
}

static void an_end_is_told_unasked(void)
{
	struct warden_message m = {.op = WARDEN_ENDED, .id = "i7", .reason = "oom"};

	say(&m);
	for (int i = 0; i < 50 && !ended[0]; i++)
		(void)loop_once(loop, 50, &err);
	CHECK_STR(ended, "i7 oom");
}

static void a_lost_warden_answers_what_was_asked_and_is_found_again(void)
{
	answers = losses = 0;
	ask(WARDEN_STOP, "a");
	ask(WARDEN_STOP, "b");
	CHECK_INT(answers, 0); /* never from inside */
	(void)heard();
	(void)close(peer);
	turn(&losses, 1);
	turn(&answers, 2);
	CHECK_INT(last_code, -ECONNRESET);
	CHECK_INT(losses, 1);
	be_connected();
	ask(WARDEN_USAGE, "c");
	CHECK_INT(heard().op, WARDEN_USAGE);
}

static void nonsense_ends_the_connection(void)
{
	static char junk[sizeof(struct warden_message) + 8];
	struct warden_message m = {.op = WARDEN_STOP, .number = 999999};

	losses = 0;
	say(&m); /* nobody asked */
	turn(&losses, 1);
	hang_up();
	be_connected();
	CHECK(send(peer, junk, sizeof(junk), 0) > 0);
	turn(&losses, 2);
	hang_up();
	be_connected();
	m = (struct warden_message){.op = WARDEN_ENDED};
	memset(m.id, 'x', sizeof(m.id)); /* no end */
	say(&m);
	turn(&losses, 3);
	hang_up();
}

static void without_a_warden_nothing_is_asked(void)
{
	struct warden_message m = {.op = WARDEN_LIST};

	be_connected();
	losses = answers = 0;
	(void)close(listener);
	(void)close(peer);
	turn(&losses, 1);
	CHECK_INT(warden_ask(client, &m, on_answer, NULL, &err), -ENOTCONN);
	(void)loop_once(loop, 100, &err);
	CHECK_INT(answers, 0);
	listen_again();
	be_connected();
}

static void a_freed_client_still_answers(void)
{
	answers = 0;
	ask(WARDEN_STOP, "z");
	client = warden_client_free(client);
	CHECK(client == NULL);
	turn(&answers, 1);
	CHECK_INT(last_code, -ECONNRESET);
}

static void paths_longer_than_an_address_connect(void)
{
	char deep[400] = "", sock[420];
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), got;

	(void)snprintf(deep, sizeof(deep), "%s/%0*d", dir, 150, 0);
	CHECK(mkdir(deep, 0700) == 0);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%.90s/s", dir);
	(void)snprintf(sock, sizeof(sock), "%s/s", deep);
	CHECK(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0);
	CHECK(rename(at.sun_path, sock) == 0);
	got = warden_connect(sock, SOCK_STREAM, &err);
	CHECK(got >= 0);
	(void)close(got);
	(void)close(fd);
	CHECK_INT(warden_connect(sock, SOCK_STREAM, &err), -ECONNREFUSED);
	CHECK(unlink(sock) == 0 && rmdir(deep) == 0);
	CHECK_INT(warden_connect(sock, SOCK_STREAM, &err), -ENOENT);
}

int main(void)
{
	static const struct warden_client_events events = {on_connected, on_lost, on_ended};

	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/w.sock", dir);
	listen_again();
	CHECK_INT(loop_create(&loop, &err), 0);
	CHECK_INT(warden_client_create(loop, path, &events, NULL, &client, &err), 0);
	RUN(answers_find_their_questions_in_any_order);
	RUN(a_road_is_two_descriptors_or_a_reason);
	RUN(a_list_is_many_boxes_and_one_end);
	RUN(an_end_is_told_unasked);
	RUN(a_lost_warden_answers_what_was_asked_and_is_found_again);
	RUN(nonsense_ends_the_connection);
	RUN(without_a_warden_nothing_is_asked);
	RUN(a_freed_client_still_answers);
	RUN(paths_longer_than_an_address_connect);
	loop = loop_free(loop);
	(void)unlink(path);
	(void)rmdir(dir);
	return tap_done();
}
