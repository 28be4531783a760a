/* SPDX-License-Identifier: Apache-2.0 */

#include "io/mux.h"

#include "tap.h"

#include <stdlib.h>
#include <sys/socket.h>

/* Two ends over a socket pair, one loop; the server's end echoes or swallows. */
struct end {
	struct mux *mux;
	bool is_closed;
	int closed_code;
};

struct ear {
	struct mux_channel ch;
	size_t data;     /* bytes came */
	size_t messages; /* came */
	uint16_t kind;   /* of the last */
	int ended;       /* times */
	int ended_code;  /* of the last */
	char why[64];    /* of the last */
	int closed;      /* times */
	int closed_code;
	int writable;
	bool is_slow; /* consumes nothing */
	bool is_echo;
	bool want_drop; /* drop the channel when data comes */
};

static struct loop *loop;
static struct end client, server;
static struct ear theirs[8]; /* channels the server accepted */
static size_t theirs_n;
static bool want_refuse;

static void message(struct mux_channel *c, uint16_t kind, struct frame_reader *body)
{
	struct ear *e = c->arg;

	(void)body;
	e->messages++;
	e->kind = kind;
}

static void data(struct mux_channel *c, uint8_t stream, const char *p, size_t n)
{
	struct ear *e = c->arg;

	e->data += n;
	if (e->want_drop) {
		mux_drop(c);
		return;
	}
	if (e->is_echo)
		(void)mux_data(c, stream, p, n);
	if (!e->is_slow)
		mux_consumed(c, n);
}

static void writable(struct mux_channel *c)
{
	((struct ear *)c->arg)->writable++;
}

static void ended(struct mux_channel *c, int code, const char *why)
{
	struct ear *e = c->arg;

	e->ended++;
	e->ended_code = code;
	(void)snprintf(e->why, sizeof(e->why), "%s", why);
}

static void closed(struct mux_channel *c, int code)
{
	struct ear *e = c->arg;

	e->closed++;
	e->closed_code = code;
}

static const struct mux_events calls = {message, data, writable, ended, closed};

static void opened(struct mux *m, uint32_t id, uint16_t kind, struct frame_reader *body, void *arg)
{
	struct ear *e;

	(void)arg, (void)body;
	if (want_refuse || theirs_n == 8)
		return;
	if (kind == 77) {
		mux_reply(m, id, 78, NULL);
		return;
	}
	e = &theirs[theirs_n++];
	e->kind = kind;
	mux_accept(m, id, &e->ch, &calls, e);
}

static void mux_gone(struct mux *m, const struct err *why, void *arg)
{
	struct end *e = arg;

	(void)m;
	e->is_closed = true;
	e->closed_code = why->code;
}

static const struct mux_owner owner = {opened, mux_gone};

static void turn(void)
{
	struct err err;

	for (int i = 0; i < 200; i++)
		(void)loop_once(loop, 0, &err);
}

static void set_up(void)
{
	struct err err = {0};
	int fds[2];

	client = server = (struct end){0};
	memset(theirs, 0, sizeof(theirs));
	theirs_n = 0;
	want_refuse = false;
	CHECK(loop_create(&loop, &err) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK(mux_create(loop, fds[0], true, &owner, &client, &client.mux, &err) == 0);
	CHECK(mux_create(loop, fds[1], false, &owner, &server, &server.mux, &err) == 0);
}

static void tear_down(void)
{
	if (!client.is_closed)
		mux_close(client.mux);
	turn();
	CHECK(client.is_closed && server.is_closed);
	loop = loop_free(loop);
}

static void a_request_is_answered(void)
{
	struct ear e = {0};
	struct err err = {0};

	set_up();
	CHECK(mux_open(client.mux, &e.ch, 5, NULL, &calls, &e, &err) == 0);
	turn();
	CHECK_INT(theirs_n, 1);
	CHECK_INT(theirs[0].kind, 5);
	mux_message(&theirs[0].ch, 6, NULL);
	mux_end(&theirs[0].ch, ENOENT, "not there");
	mux_end(&e.ch, 0, NULL);
	CHECK_INT(e.closed, 0); /* never from inside mux_end() */
	turn();
	CHECK_INT(e.messages, 1);
	CHECK_INT(e.kind, 6);
	CHECK_INT(e.ended_code, ENOENT);
	CHECK_STR(e.why, "not there");
	CHECK_INT(e.closed, 1);
	CHECK_INT(e.closed_code, 0);
	CHECK_INT(theirs[0].closed, 1);
	CHECK(e.ch.mux == NULL);
	CHECK_INT(mux_channels(client.mux), 0);
	CHECK_INT(mux_channels(server.mux), 0);
	tear_down();
}

static void a_reply_needs_no_channel(void)
{
	struct ear e = {0};
	struct err err = {0};

	set_up();
	CHECK(mux_open(client.mux, &e.ch, 77, NULL, &calls, &e, &err) == 0);
	mux_end(&e.ch, 0, NULL);
	turn();
	CHECK_INT(e.kind, 78);
	CHECK_INT(e.closed, 1);
	CHECK_INT(e.closed_code, 0);
	CHECK(!client.is_closed && !server.is_closed);
	tear_down();
}

static void an_unwanted_channel_is_refused(void)
{
	struct ear e = {0};
	struct err err = {0};

	set_up();
	want_refuse = true;
	CHECK(mux_open(client.mux, &e.ch, 1, NULL, &calls, &e, &err) == 0);
	turn();
	CHECK_INT(e.ended_code, EPROTO);
	CHECK(!client.is_closed);
	tear_down();
}

static void data_stops_at_the_credit(void)
{
	static char bytes[3 * MUX_CREDIT];
	struct ear e = {0};
	struct err err = {0};
	size_t sent = 0;

	set_up();
	CHECK(mux_open(client.mux, &e.ch, 1, NULL, &calls, &e, &err) == 0);
	turn();
	theirs[0].is_slow = true;
	for (int i = 0; i < 100; i++) {
		sent += mux_data(&e.ch, 2, bytes, sizeof(bytes));
		turn();
	}
	CHECK_INT(sent, MUX_CREDIT);
	CHECK_INT(theirs[0].data, MUX_CREDIT);
	CHECK_INT(e.ch.may_send, 0);
	CHECK_INT(mux_data(&e.ch, 2, bytes, 1), 0);
	e.writable = 0;
	mux_consumed(&theirs[0].ch, MUX_CREDIT / 2);
	turn();
	CHECK(e.writable > 0);
	CHECK_INT(e.ch.may_send, MUX_CREDIT / 2);
	tear_down();
}

static void a_full_connection_says_when_there_is_room(void)
{
	static char bytes[MUX_CREDIT];
	struct ear e = {0};
	struct err err = {0};
	size_t sent;

	set_up();
	CHECK(mux_open(client.mux, &e.ch, 1, NULL, &calls, &e, &err) == 0);
	sent = mux_data(&e.ch, 1, bytes, sizeof(bytes));
	CHECK(sent < sizeof(bytes)); /* nobody read in between */
	CHECK(!mux_has_room(client.mux));
	CHECK(mux_queued(client.mux) <= CONN_HIGH + (128u << 10));
	turn();
	CHECK(mux_has_room(client.mux));
	CHECK(e.writable > 0);
	tear_down();
}

static void one_that_lost_interest_after_its_end_is_heard(void)
{
	struct ear e = {0};
	struct err err = {0};

	set_up();
	CHECK(mux_open(client.mux, &e.ch, 1, NULL, &calls, &e, &err) == 0);
	mux_end(&e.ch, 0, NULL);
	turn();
	CHECK_INT(theirs[0].ended, 1);
	CHECK_INT(theirs[0].ended_code, 0);
	mux_drop(&e.ch);
	turn();
	CHECK_INT(theirs[0].ended, 2);
	CHECK_INT(theirs[0].ended_code, ECANCELED);
	CHECK_INT(e.closed, 0);              /* no callback follows a drop */
	mux_message(&theirs[0].ch, 1, NULL); /* for nobody: ignored there */
	mux_end(&theirs[0].ch, 0, NULL);
	turn();
	CHECK_INT(theirs[0].closed, 1);
	CHECK(!client.is_closed && !server.is_closed);
	tear_down();
}

static void a_channel_may_be_dropped_inside_its_callback(void)
{
	struct ear *e = calloc(1, sizeof(*e));
	struct err err = {0};

	set_up();
	CHECK(mux_open(client.mux, &e->ch, 1, NULL, &calls, e, &err) == 0);
	turn();
	e->want_drop = true;
	CHECK_INT(mux_data(&theirs[0].ch, 0, "abc", 3), 3);
	CHECK_INT(mux_data(&theirs[0].ch, 0, "def", 3), 3);
	turn();
	CHECK_INT(e->data, 3);
	free(e);
	turn();
	CHECK_INT(theirs[0].ended_code, ECANCELED);
	tear_down();
}

static void a_dropped_channel_that_was_over_is_forgotten(void)
{
	struct ear e = {0};
	struct err err = {0};

	set_up();
	CHECK(mux_open(client.mux, &e.ch, 1, NULL, &calls, &e, &err) == 0);
	turn();
	mux_end(&theirs[0].ch, 0, NULL);
	turn();
	mux_end(&e.ch, 0, NULL); /* both: over, `closed` is on its way */
	mux_drop(&e.ch);
	turn();
	CHECK_INT(e.closed, 0);
	mux_drop(&e.ch); /* again: fine */
	tear_down();
}

static void closing_tells_every_channel(void)
{
	struct ear e[3] = {0};
	struct err err = {0};

	set_up();
	for (int i = 0; i < 3; i++)
		CHECK(mux_open(client.mux, &e[i].ch, 1, NULL, &calls, &e[i], &err) == 0);
	turn();
	mux_close(client.mux);
	CHECK(client.is_closed);
	for (int i = 0; i < 3; i++)
		CHECK_INT(e[i].closed_code, ECONNRESET);
	turn();
	CHECK(server.is_closed);
	for (int i = 0; i < 3; i++)
		CHECK_INT(theirs[i].closed, 1);
	tear_down();
}

static void requests_that_do_not_fit_are_refused(void)
{
	static char bytes[FRAME_PAYLOAD_MAX];
	struct frame_writer w = {0};
	struct ear e = {0};
	struct err err = {0};

	set_up();
	frame_put_bytes(&w, bytes, sizeof(bytes));
	CHECK_INT(mux_open(client.mux, &e.ch, 1, &w, &calls, &e, &err), -E2BIG);
	buf_done(&w.buf);
	CHECK_INT(mux_channels(client.mux), 0);
	tear_down();
}

static void too_many_channels_are_refused(void)
{
	struct ear *e = calloc(MUX_CHANNELS_MAX + 1, sizeof(*e));
	struct err err = {0};

	set_up();
	for (int i = 0; i < MUX_CHANNELS_MAX; i++)
		CHECK(mux_open(client.mux, &e[i].ch, 1, NULL, &calls, &e[i], &err) == 0);
	CHECK_INT(mux_open(client.mux, &e[MUX_CHANNELS_MAX].ch, 1, NULL, &calls, NULL, &err),
		-EMFILE);
	tear_down();
	CHECK_INT(e[9].closed, 1);
	free(e);
}

/* A raw peer that breaks rules. */
static void bytes_end_the_connection(const char *p, size_t n)
{
	struct end end = {0};
	struct err err = {0};
	int fds[2];

	theirs_n = 0;
	want_refuse = false;
	CHECK(loop_create(&loop, &err) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK(mux_create(loop, fds[1], false, &owner, &end, &end.mux, &err) == 0);
	CHECK(write(fds[0], p, n) == (ssize_t)n);
	turn();
	CHECK(end.is_closed);
	CHECK_INT(end.closed_code, EPROTO);
	(void)close(fds[0]);
	loop = loop_free(loop);
}

static size_t put(char *at, uint8_t type, uint32_t channel, const char *payload, size_t n)
{
	frame_header(at, (uint32_t)n, type, 0, channel);
	memcpy(at + FRAME_HEADER, payload, n);
	return FRAME_HEADER + n;
}

static void broken_rules_end_the_connection(void)
{
	char b[256];
	size_t n;

	n = put(b, FRAME_DATA, 1, "x", 1);
	bytes_end_the_connection(b, n);
	n = put(b, FRAME_OPEN, 2, "\1\0", 2);
	bytes_end_the_connection(b, n);
	n = put(b, FRAME_OPEN, 1, "\1", 1);
	bytes_end_the_connection(b, n);
	n = put(b, FRAME_OPEN, 3, "\1\0", 2);
	n += put(b + n, FRAME_OPEN, 3, "\1\0", 2);
	bytes_end_the_connection(b, n);
	n = put(b, FRAME_OPEN, 1, "\1\0", 2);
	n += put(b + n, FRAME_CREDIT, 1, "\1\0\0\0", 4);
	bytes_end_the_connection(b, n);
	n = put(b, FRAME_OPEN, 1, "\1\0", 2);
	n += put(b + n, FRAME_END, 1, "\0\0\0\0\0\0\0\0", 8);
	n += put(b + n, FRAME_DATA, 1, "x", 1);
	bytes_end_the_connection(b, n);
	n = put(b, FRAME_OPEN, 1, "\1\0", 2);
	n += put(b + n, FRAME_END, 1, "\0\0\1\0\0\0\0\0", 8);
	bytes_end_the_connection(b, n);
	memset(b, 0xff, sizeof(b));
	bytes_end_the_connection(b, sizeof(b));
}

int main(void)
{
	RUN(a_request_is_answered);
	RUN(a_reply_needs_no_channel);
	RUN(an_unwanted_channel_is_refused);
	RUN(data_stops_at_the_credit);
	RUN(a_full_connection_says_when_there_is_room);
	RUN(one_that_lost_interest_after_its_end_is_heard);
	RUN(a_channel_may_be_dropped_inside_its_callback);
	RUN(a_dropped_channel_that_was_over_is_forgotten);
	RUN(closing_tells_every_channel);
	RUN(requests_that_do_not_fit_are_refused);
	RUN(too_many_channels_are_refused);
	RUN(broken_rules_end_the_connection);
	return tap_done();
}
