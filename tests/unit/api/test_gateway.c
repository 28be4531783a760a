/* SPDX-License-Identifier: Apache-2.0 */

/* The gateway between a client on loopback and a guest that the test plays itself. */
#include "../io/http_world.h"
#include "api/gateway/rewrite.h"
#include "api/sandbox.h"

#include <stdlib.h>

static struct api api;
static struct sandbox box = {.row.id = "ibox"};
static struct mux *inside; /* the guest's end */
static struct mux_channel port;
static int refuse_with, touched, streams, port_ended, port_closed;
static bool is_late; /* the link comes by hand */
static unsigned asked_port;
static sandbox_link_fn late_ready;
static void *late_arg;
static char text[8 << 20];                  /* what the client got */
static struct buf got = {.cap = 64u << 20}; /* what the server inside got */

/* ---- what the gateway asks of its neighbours ---- */

void sandbox_guest(struct sandbox *sb, sandbox_link_fn ready, void *arg)
{
	late_ready = ready;
	late_arg = arg;
	if (!is_late)
		ready(sb, 0, arg);
}

void sandbox_guest_cancel(struct sandbox *sb, void *arg)
{
	CHECK(sb == &box && arg == late_arg);
	late_ready = NULL;
}

void sandbox_touch(struct sandbox *sb)
{
	(void)sb;
	touched++;
}

void sandbox_stream_add(struct sandbox *sb, struct stream *s)
{
	s->sb = sb;
	s->next = sb->streams;
	sb->streams = s;
	streams++;
}

void sandbox_stream_remove(struct stream *s)
{
	struct stream **p = &box.streams;

	if (!s->sb)
		return;
	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	s->sb = NULL;
	streams--;
}

bool signature_token_is(const char *token, struct h1_text said);
bool signature_token_is(const char *token, struct h1_text said)
{
	return h1_is(said, token);
}

void api_reply_json(struct http_request *r, int status, json_t *take_body)
{
	char *body = json_dumps(take_body, JSON_COMPACT);

	http_reply(r, status, "application/json", body, strlen(body));
	free(body);
	json_decref(take_body);
}

/* ---- the guest ---- */

static void port_data(struct mux_channel *c, uint8_t stream, const char *p, size_t n)
{
	(void)stream;
	CHECK_INT(buf_add(&got, p, n), 0);
	(void)buf_add(&got, "", 0);
	(void)c; /* consumed by hand */
}

static void port_end(struct mux_channel *c, int code, const char *why)
{
	(void)why;
	(void)code;
	port_ended++;
	mux_end(c, 0, NULL);
}

static void port_over(struct mux_channel *c, int code)
{
	(void)c;
	(void)code;
	port_closed++;
}

static const struct mux_events port_events = {.data = port_data,
	.ended = port_end,
	.closed = port_over};

static void opened(struct mux *m, uint32_t id, uint16_t kind, struct frame_reader *body, void *arg)
{
	(void)arg;
	CHECK_INT(kind, GUEST_PORT);
	asked_port = frame_get_u16(body);
	CHECK(frame_ok(body));
	if (refuse_with) {
		mux_refuse(m, id, refuse_with, "no");
		return;
	}
	mux_accept(m, id, &port, &port_events, NULL);
	mux_message(&port, MSG_OK, NULL);
}

static void outside_gone(struct mux *m, const struct err *why, void *arg)
{
	(void)m, (void)why, (void)arg;
	box.guest = NULL;
}

static void inside_gone(struct mux *m, const struct err *why, void *arg)
{
	(void)m, (void)why, (void)arg;
	inside = NULL;
}

static const struct mux_owner outside_owner = {.closed = outside_gone};
static const struct mux_owner inside_owner = {.opened = opened, .closed = inside_gone};

static void handle(struct http_request *r, void *arg)
{
	(void)arg;
	gateway_handle(&api, r, h1_is(r->host, "dead") ? NULL : &box, "ibox", 8080);
}

static struct world make(void)
{
	struct world w = world_make(handle, NULL);
	struct err err;
	int sv[2];

	api.loop = w.loop;
	refuse_with = touched = port_ended = port_closed = 0;
	is_late = false;
	memset(&port, 0, sizeof(port));
	box.row.traffic_token[0] = '\0';
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	CHECK(mux_create(w.loop, sv[0], true, &outside_owner, NULL, &box.guest, &err) == 0);
	CHECK(mux_create(w.loop, sv[1], false, &inside_owner, NULL, &inside, &err) == 0);
	return w;
}

static void done(struct world *w)
{
	world_turn(w);
	CHECK_INT(streams, 0);
	if (box.guest)
		mux_close(box.guest);
	world_turn(w);
	if (inside)
		mux_close(inside);
	buf_done(&got);
	world_done(w);
}

/* Everything the server inside got so far, as text. */
static const char *got_text(struct world *w)
{
	static char copy[70000];
	size_t n;

	world_turn(w);
	n = buf_len(&got) < sizeof(copy) - 1 ? buf_len(&got) : sizeof(copy) - 1;
	memcpy(copy, buf_data(&got), n);
	copy[n] = '\0';
	return copy;
}

static void answer(struct world *w, const char *bytes)
{
	CHECK_INT(mux_data(&port, GUEST_BYTES, bytes, strlen(bytes)), strlen(bytes));
	world_turn(w);
}

static const char *client_got(struct world *w, int fd)
{
	(void)world_receive(w, fd, text, sizeof(text));
	return text;
}

/* ---- cases ---- */

static void heads_are_rewritten_both_ways(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd,
		"POST /p?q HTTP/1.1\r\nHost: 8080-ibox.a.b:7070\r\nConnection: keep-alive, "
		"X-Hop\r\n"
		"X-Hop: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\nProxy-Authorization: x\r\n"
		"E2B-Traffic-Access-Token: secret\r\nX-Access-Token: secret\r\n"
		"X-API-Key: e2b_secret\r\nAUTHORIZATION: bearer e2b_secret\r\n"
		"Authorization: Bearer mine\r\nX-Forwarded-For: "
		"9.9.9.9\r\n"
		"Upgrade: h2c\r\nContent-Length: 4\r\n\r\nbody");
	CHECK_STR(got_text(&w),
		"POST /p?q HTTP/1.1\r\nHost: 8080-ibox.a.b:7070\r\nAuthorization: Bearer mine\r\n"
		"X-Forwarded-For: 9.9.9.9, 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"
		"X-Forwarded-Host: 8080-ibox.a.b:7070\r\nContent-Length: 4\r\nConnection: "
		"close\r\n\r\nbody");
	CHECK(asked_port == 8080 && touched > 0 && streams == 1);
	answer(&w, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
	answer(&w, "HTTP/1.1 201 Made\r\nContent-Type: text/x\r\nConnection: X-Inner, close\r\n"
		   "X-Inner: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 5\r\n\r\nhel");
	answer(&w, "loextra");
	(void)client_got(&w, fd);
	CHECK(strncmp(text, "HTTP/1.1 201 Created\r\n", 22) == 0);
	CHECK(strstr(text, "Content-Length: 5\r\n") && strstr(text, "Content-Type: text/x\r\n"));
	CHECK(strstr(text, "Set-Cookie: a\r\nSet-Cookie: b\r\n") && !strstr(text, "X-Inner"));
	CHECK_STR(strstr(text, "\r\n\r\n"), "\r\n\r\nhello");
	CHECK(streams == 0 && port_ended == 1 && port_closed == 1);
	/* The connection is not bound to the sandbox: the next request is routed by itself. */
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: dead\r\n\r\n");
	CHECK(strstr(client_got(&w, fd),
		"{\"sandboxId\":\"ibox\",\"message\":\"The sandbox was not "
		"found\",\"code\":502}"));
	(void)close(fd);
	done(&w);
}

static void strangers_do_not_say_where_they_come_from(void)
{
	struct h1_field fields[] = {{{"Host", 4}, {"a", 1}},
		{{"X-Forwarded-For", 15}, {"127.0.0.1", 9}},
		{{"X-Forwarded-Proto", 17}, {"http", 4}}};
	static struct http_request r = {.peer = "203.0.113.9", .is_tls = true};
	AUTO_BUF struct buf out = {0};

	r.head.method = (struct h1_text){"GET", 3};
	r.head.target = (struct h1_text){"/", 1};
	memcpy(r.head.fields, fields, sizeof(fields));
	r.head.fields_n = 3;
	CHECK_INT(rewrite_request(&r, 1, &out), 0);
	CHECK_INT(buf_add(&out, "", 1), 0);
	CHECK(strstr(buf_data(&out), "X-Forwarded-For: 203.0.113.9\r\n"));
	CHECK(strstr(buf_data(&out), "X-Forwarded-Proto: https\r\n"));
}

static void refusals_are_typed(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	refuse_with = ECONNREFUSED;
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK(strstr(client_got(&w, fd), "HTTP/1.1 502 Bad Gateway\r\n"));
	CHECK(strstr(text,
		"{\"sandboxId\":\"ibox\",\"message\":\"The sandbox is running but port is "
		"not open\",\"port\":8080,\"code\":502}"));
	refuse_with = 0;
	(void)snprintf(box.row.traffic_token, sizeof(box.row.traffic_token), "secret");
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK(strstr(client_got(&w, fd), "HTTP/1.1 403 Forbidden\r\n"));
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\nE2B-Traffic-Access-Token: wrong\r\n\r\n");
	CHECK(strstr(client_got(&w, fd), "HTTP/1.1 403 Forbidden\r\n"));
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\nE2B-Traffic-Access-Token: secret\r\n\r\n");
	CHECK(!strstr(got_text(&w), "secret"));
	answer(&w, "HTTP/1.1 204 No Content\r\n\r\n");
	CHECK(strstr(client_got(&w, fd), "HTTP/1.1 204 "));
	(void)close(fd);
	done(&w);
}

static void malformed_answers_are_502(void)
{
	static const char *const bad[] = {"HTTP/1.1 200 OK\n\n", "hello\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", ""};
	struct world w = make();
	int fd = world_connect(&w);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
		answer(&w, bad[i]);
		if (bad[i][0] == '\0')
			mux_end(&port, 0, NULL);
		if (!CHECK(strstr(client_got(&w, fd), "HTTP/1.1 502 ")))
			tap_print("# %s -> %s\n", bad[i], text);
	}
	(void)close(fd);
	/* After the head was passed on it can only be broken off. */
	fd = world_connect(&w);
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	answer(&w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
	(void)client_got(&w, fd);
	CHECK(strstr(text, "1\r\na\r\n"));
	answer(&w, "zz");
	CHECK_INT(world_receive(&w, fd, text, sizeof(text)), -ECONNRESET - 1000);
	(void)close(fd);
	done(&w);
}

static void events_stream_through_as_they_come(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd, "GET /sse HTTP/1.1\r\nHost: a\r\n\r\n");
	answer(&w, "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
	CHECK(strstr(client_got(&w, fd), "9\r\ndata: 1\n\n\r\n"));
	answer(&w, "data: 2\n\n");
	CHECK_STR(client_got(&w, fd), "9\r\ndata: 2\n\n\r\n");
	mux_end(&port, 0, NULL);
	CHECK_STR(client_got(&w, fd), "0\r\n\r\n");
	(void)close(fd);
	done(&w);
}

static void upgrades_become_raw(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd,
		"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Key: k\r\n\r\nearly");
	CHECK(strstr(got_text(&w), "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"));
	CHECK(!strstr(got_text(&w), "early")); /* not before both agreed */
	answer(&w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
		   "Upgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\nhello");
	(void)client_got(&w, fd);
	CHECK(strncmp(text, "HTTP/1.1 101 ", 13) == 0 &&
		strstr(text, "Sec-WebSocket-Accept: y\r\n"));
	CHECK_STR(strstr(text, "\r\n\r\n"), "\r\n\r\nhello");
	CHECK(strstr(got_text(&w), "\r\n\r\nearly"));
	world_send(&w, fd, "\x01\x02raw");
	CHECK(strstr(got_text(&w), "early\x01\x02raw"));
	CHECK_INT(streams, 1);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	world_turn(&w);
	CHECK_INT(port_ended, 1); /* FIN goes through; our guest then ends too */
	CHECK_INT(world_receive(&w, fd, text, sizeof(text)), -1);
	(void)close(fd);
	done(&w);
}

static void uploads_wait_for_credit(void)
{
	const size_t size = 16 << 20;
	struct world w = make();
	int fd = world_connect(&w);
	static char block[65536];
	size_t sent = 0, consumed = 0;

	world_send(&w, fd, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n");
	for (int quiet = 0; quiet < 3;) {
		ssize_t r = send(fd, block, sizeof(block), MSG_NOSIGNAL);

		quiet = r > 0 ? 0 : quiet + 1;
		sent += r > 0 ? (size_t)r : 0;
		world_turn(&w);
	}
	CHECK(sent < size);
	CHECK(buf_len(&got) <= MUX_CREDIT);
	for (int i = 0; i < 10000 && (sent < size || consumed < size); i++) {
		size_t want = size - sent < sizeof(block) ? size - sent : sizeof(block);
		ssize_t r = want > 0 ? send(fd, block, want, MSG_NOSIGNAL) : 0;

		sent += r > 0 ? (size_t)r : 0;
		consumed += buf_len(&got);
		mux_consumed(&port, buf_len(&got));
		buf_done(&got);
		world_turn(&w);
	}
	CHECK(sent == size && consumed > size);
	answer(&w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	CHECK(strstr(client_got(&w, fd), "\r\n\r\nok"));
	(void)close(fd);
	done(&w);
}

static void downloads_wait_for_the_reader(void)
{
	struct world w = make();
	int fd = world_connect(&w);
	static char block[65536];
	size_t put = 0, come = 0;

	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	answer(&w, "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n");
	for (int quiet = 0; quiet < 5 && put < 64 << 20;) {
		size_t n = mux_data(&port, GUEST_BYTES, block, sizeof(block));

		quiet = n > 0 ? 0 : quiet + 1;
		put += n;
		world_turn(&w);
	}
	CHECK(put < 64 << 20); /* stopped by credit */
	for (int i = 0; i < 100000 && come < 64 << 20; i++) {
		ssize_t r = recv(fd, text, sizeof(text), 0);
		struct err err;

		come += r > 0 ? (size_t)r : 0;
		if (put < 64 << 20)
			put += mux_data(&port, GUEST_BYTES, block, sizeof(block));
		(void)loop_once(w.loop, 0, &err);
	}
	CHECK(come > 64 << 20);
	(void)close(fd);
	done(&w);
}

static void killed_sandbox_cuts_its_streams(void)
{
	struct world w = make();
	int fd = world_connect(&w);
	struct stream *s;

	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	answer(&w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
	(void)client_got(&w, fd);
	s = box.streams;
	if (!CHECK(s != NULL))
		return;
	sandbox_stream_remove(s);
	s->cut(s);
	world_turn(&w);
	CHECK_INT(world_receive(&w, fd, text, sizeof(text)), -ECONNRESET - 1000);
	(void)close(fd);
	/* Also while it waits for the link, and when the link is lost. */
	is_late = true;
	fd = world_connect(&w);
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	s = box.streams;
	sandbox_stream_remove(s);
	s->cut(s);
	CHECK(!late_ready);
	(void)close(fd);
	fd = world_connect(&w);
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	late_ready(&box, -ECONNRESET, late_arg);
	CHECK(strstr(client_got(&w, fd), "HTTP/1.1 502 "));
	is_late = false;
	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	mux_close(inside);
	CHECK(strstr(client_got(&w, fd), "HTTP/1.1 502 "));
	(void)close(fd);
	done(&w);
}

static void client_that_leaves_frees_the_channel(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	answer(&w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
	(void)close(fd);
	world_turn(&w);
	CHECK(streams == 0 && port_ended == 1);
	CHECK_INT(mux_channels(box.guest), 0);
	done(&w);
}

int main(void)
{
	RUN(heads_are_rewritten_both_ways);
	RUN(strangers_do_not_say_where_they_come_from);
	RUN(refusals_are_typed);
	RUN(malformed_answers_are_502);
	RUN(events_stream_through_as_they_come);
	RUN(upgrades_become_raw);
	RUN(uploads_wait_for_credit);
	RUN(downloads_wait_for_the_reader);
	RUN(killed_sandbox_cuts_its_streams);
	RUN(client_that_leaves_frees_the_channel);
	return tap_done();
}
