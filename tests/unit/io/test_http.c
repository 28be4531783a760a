/* SPDX-License-Identifier: Apache-2.0 */

#include "io/http.h"

#include "http_world.h"
#include "io/http_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#define END " HTTP/1.1\r\nHost: a\r\n"

static struct http_request *held; /* by /later, /stream, /up */
static int gone_count, drained_count, log_count, ends_whole, ends_broken;
static size_t up_bytes;
static bool up_pauses;
static char text[4 << 20];

static void gone(struct http_request *r)
{
	CHECK(r == held);
	http_reply(r, 200, NULL, "too late", 8); /* does nothing */
	held = NULL;
	gone_count++;
}

static void echo(struct http_request *r, const char *body, size_t n, void *arg)
{
	CHECK(arg == &held);
	http_reply(r, 200, "text/plain", body, n);
}

static void up_data(struct http_request *r, const char *p, size_t n, void *arg)
{
	(void)p;
	(void)arg;
	up_bytes += n;
	if (up_pauses)
		http_pause_body(r);
}

static void up_end(struct http_request *r, bool is_whole, void *arg)
{
	(void)arg;
	*(is_whole ? &ends_whole : &ends_broken) += 1;
	if (is_whole)
		http_reply(r, 200, NULL, "got it", 6);
}

static const struct http_sink up_sink = {up_data, up_end};

static size_t raw_read(struct conn *c, const char *p, size_t n, void *arg)
{
	(void)arg;
	conn_write(c, "<", 1);
	conn_write(c, p, n);
	conn_write(c, ">", 1);
	return n;
}

static void raw_closed(struct conn *c, const struct err *err, void *arg)
{
	(void)c;
	(void)err;
	*(int *)arg += 1;
}

static const struct conn_events raw_events = {.read = raw_read, .closed = raw_closed};

static void drained(struct http_request *r)
{
	CHECK(http_queued(r) < CONN_LOW);
	drained_count++;
}

static void hold(struct http_request *r)
{
	held = r;
	r->gone = gone;
}

static void handle(struct http_request *r, void *arg)
{
	(void)arg;
	CHECK_INT(strlen(r->id), 16);
	CHECK_STR(r->peer, "127.0.0.1");
	if (h1_is(r->path, "/echo")) {
		http_collect(r, 1000, echo, &held);
	} else if (h1_is(r->path, "/later")) {
		hold(r);
	} else if (h1_is(r->path, "/stream")) {
		hold(r);
		http_set_drained(r, drained);
		http_begin(r, 200, "text/plain", -1);
	} else if (h1_is(r->path, "/up")) {
		hold(r);
		http_stream_body(r, &up_sink, NULL);
	} else if (h1_is(r->path, "/short")) {
		http_begin(r, 200, NULL, 5);
		http_write(r, "abc", 3);
		http_end(r);
	} else if (h1_is(r->path, "/none")) {
		http_reply(r, 204, NULL, "dropped", 7);
	} else if (h1_is(r->path, "/raw")) {
		static int closed;

		http_field(r, "Connection", "Upgrade");
		http_field(r, "Upgrade", "raw");
		http_begin(r, 101, NULL, -1);
		CHECK(http_upgrade(r, &raw_events, &closed) != NULL);
	} else {
		http_field(r, "X-Path", "seen");
		http_reply(r, 200, "text/plain", r->path.p, r->path.n);
	}
}

static void count_log(const struct http_request *r, void *arg)
{
	(void)r;
	(void)arg;
	log_count++;
}

static struct world make(void)
{
	struct world w = world_make(handle, NULL);

	held = NULL;
	gone_count = drained_count = log_count = ends_whole = ends_broken = 0;
	up_bytes = 0;
	up_pauses = false;
	http_set_log(w.server, count_log);
	return w;
}

/* Send, and expect an answer that starts and ends so. */
static void expect(struct world *w, int fd, const char *send, const char *start, const char *end)
{
	ssize_t n;

	world_send(w, fd, send);
	n = world_receive(w, fd, text, sizeof(text));
	if (!CHECK(n >= (ssize_t)strlen(end) && strncmp(text, start, strlen(start)) == 0 &&
		    strcmp(text + n - strlen(end), end) == 0))
		tap_print("# to %s came %zd: %s\n", send, n, text);
}

static void closes(struct world *w, int fd)
{
	CHECK_INT(world_receive(w, fd, text, sizeof(text)), -1);
	(void)close(fd);
}

static void one_connection_serves_many_requests(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	expect(&w, fd, "GET /a?b" END "\r\n", "HTTP/1.1 200 OK\r\nDate: ", "\r\n\r\n/a");
	CHECK(strstr(text, "\r\nContent-Length: 2\r\n") && strstr(text, "\r\nX-Path: seen\r\n"));
	CHECK(!strstr(text, "Connection:"));
	expect(&w, fd, "HEAD /ab" END "\r\n", "HTTP/1.1 200 OK", "\r\n\r\n");
	CHECK(strstr(text, "Content-Length: 3\r\n"));
	expect(&w, fd, "GET /none" END "\r\n", "HTTP/1.1 204 No Content", "\r\n\r\n");
	CHECK(!strstr(text, "Content-Length"));
	expect(&w, fd, "POST /echo" END "Content-Length: 5\r\n\r\nhello", "HTTP/1.1 200",
		"\nhello");
	expect(&w, fd, "POST /echo" END "Content-Length: 0\r\n\r\n", "HTTP/1.1 200", "\r\n\r\n");
	expect(&w, fd,
		"POST /echo" END
		"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
		"HTTP/1.1 200", "\nhello");
	expect(&w, fd, "GET /bye" END "Connection: close\r\n\r\n", "HTTP/1.1 200", "/bye");
	CHECK(strstr(text, "Connection: close\r\n"));
	CHECK_INT(log_count, 7);
	closes(&w, fd);
	world_done(&w);
}

static void http_1_0_is_closed_unless_it_asks(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	expect(&w, fd, "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200", "/a");
	CHECK(strstr(text, "Connection: keep-alive\r\n"));
	expect(&w, fd, "GET /a HTTP/1.0\r\n\r\n", "HTTP/1.1 200", "/a");
	closes(&w, fd);
	/* It knows no chunks. */
	fd = world_connect(&w);
	world_send(&w, fd, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	if (!CHECK(held != NULL))
		return;
	http_write(held, "until close", 11);
	http_end(held);
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK(strstr(text, "Connection: close\r\n") && strstr(text, "\r\n\r\nuntil close"));
	CHECK(!strstr(text, "Transfer-Encoding"));
	closes(&w, fd);
	world_done(&w);
}

static void pipelined_requests_are_answered_in_order(void)
{
	struct world w = make();
	int fd = world_connect(&w);
	char *a, *b, *c;

	world_send(&w, fd,
		"GET /one" END "\r\nGET /later" END "\r\nPOST /echo" END
		"Content-Length: 3\r\n\r\ntwoGET /three" END "\r\n");
	CHECK(held != NULL && log_count == 1);
	http_reply(held, 200, NULL, "-later-", 7);
	(void)world_receive(&w, fd, text, sizeof(text));
	a = strstr(text, "/one");
	b = strstr(text, "-later-");
	c = strstr(text, "two");
	CHECK(a && b && c && a < b && b < c && c < strstr(text, "/three"));
	(void)close(fd);
	world_done(&w);
}

static void many_pipelined_requests_are_all_answered(void)
{
	struct world w = make();
	int fd = world_connect(&w), found = 0;
	size_t n = 0;

	for (int i = 0; i < 1000; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "GET /n%03d" END "\r\n", i);
	world_send(&w, fd, text);
	(void)world_receive(&w, fd, text, sizeof(text));
	for (char *p = text; (p = strstr(p, "\r\n\r\n/n")); p += 8) {
		CHECK_INT((p[6] - '0') * 100 + (p[7] - '0') * 10 + p[8] - '0', found);
		found++;
	}
	CHECK_INT(found, 1000);
	(void)close(fd);
	world_done(&w);
}

static void request_may_come_byte_by_byte(void)
{
	static const char request[] =
		"POST /echo" END "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
	struct world w = make();
	int fd = world_connect(&w);
	struct err err;

	for (size_t i = 0; i < sizeof(request) - 1; i++) {
		CHECK_INT(send(fd, request + i, 1, MSG_NOSIGNAL), 1);
		(void)loop_once(w.loop, 10, &err);
	}
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK(strstr(text, "\r\n\r\nhello"));
	(void)close(fd);
	world_done(&w);
}

static void answers_stream_in_chunks(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd, "GET /stream" END "\r\n");
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK(strstr(text, "\r\nTransfer-Encoding: chunked\r\n")); /* the head comes at once */
	http_write(held, "hello", 5);
	http_write(held, "", 0); /* must not look like the end */
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK_STR(text, "5\r\nhello\r\n");
	http_end(held);
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK_STR(text, "0\r\n\r\n");
	expect(&w, fd, "GET /x" END "\r\n", "HTTP/1.1 200", "/x");
	CHECK_INT(gone_count, 0);
	(void)close(fd);
	world_done(&w);
}

static void malformed_requests_are_told_and_closed(void)
{
	static const char *const bad[] = {"GET / HTTP/1.1\r\n\r\n", "G\n", "\r\n",
		"GET http://other/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"};
	struct world w = make();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int fd = world_connect(&w);

		expect(&w, fd, bad[i], "HTTP/1.1 400 Bad Request\r\n", "\"}");
		CHECK(strstr(text, "Connection: close\r\n") && strstr(text, "{\"code\":400,"));
		closes(&w, fd);
	}
	world_done(&w);
}

static void endless_heads_are_refused(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	memset(text, 'a', 70000);
	memcpy(text, "GET /", 5);
	text[70000] = '\0';
	expect(&w, fd, text, "HTTP/1.1 431 ", "\"}");
	closes(&w, fd);
	world_done(&w);
}

static void large_bodies_are_413(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	expect(&w, fd, "POST /echo" END "Content-Length: 1001\r\n\r\n", "HTTP/1.1 413 ", "\"}");
	closes(&w, fd);
	fd = world_connect(&w);
	world_send(&w, fd, "POST /echo" END "Transfer-Encoding: chunked\r\n\r\n3e8\r\n");
	memset(text, 'a', 1000);
	memcpy(text + 1000, "\r\n1\r\n", 6);
	expect(&w, fd, text, "", "");
	expect(&w, fd, "a", "HTTP/1.1 413 ", "\"}");
	closes(&w, fd);
	world_done(&w);
}

static void continue_is_said_only_to_be_read(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	expect(&w, fd, "POST /echo" END "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n", "\r\n\r\n");
	expect(&w, fd, "ab", "HTTP/1.1 200", "ab");
	/* Answered without reading: the body may or may not follow, so nothing else can. */
	expect(&w, fd, "POST /x" END "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200", "/x");
	CHECK(strstr(text, "Connection: close\r\n"));
	closes(&w, fd);
	world_done(&w);
}

static void early_answers_drop_the_rest_of_the_upload(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	expect(&w, fd, "POST /early" END "Content-Length: 6\r\n\r\nabc", "HTTP/1.1 200", "/early");
	expect(&w, fd, "defGET /next" END "\r\n", "HTTP/1.1 200", "/next");
	expect(&w, fd, "POST /early" END "Content-Length: 5000000\r\n\r\nabc", "HTTP/1.1 200",
		"/early");
	CHECK(strstr(text, "Connection: close\r\n"));
	closes(&w, fd);
	/* Without a length it cannot be known before: dropped up to a bound. */
	fd = world_connect(&w);
	expect(&w, fd, "POST /early" END "Transfer-Encoding: chunked\r\n\r\n200000\r\n",
		"HTTP/1.1 200", "/early");
	memset(text, 'a', 300000);
	text[300000] = '\0';
	for (int i = 0; i < 4; i++) {
		(void)send(fd, text, 300000, MSG_NOSIGNAL);
		world_turn(&w);
	}
	CHECK(world_receive(&w, fd, text, sizeof(text)) < 0);
	(void)close(fd);
	world_done(&w);
}

static size_t send_until_full(struct world *w, int fd, size_t most)
{
	static char block[65536];
	size_t n = 0;

	for (int quiet = 0; quiet < 3 && n < most;) {
		size_t want = most - n < sizeof(block) ? most - n : sizeof(block);
		ssize_t r = send(fd, block, want, MSG_NOSIGNAL);

		quiet = r > 0 ? 0 : quiet + 1;
		n += r > 0 ? (size_t)r : 0;
		world_turn(w);
	}
	return n;
}

static void paused_upload_holds_the_sender(void)
{
	const size_t size = 64 << 20;
	struct world w = make();
	int fd = world_connect(&w);
	size_t sent;

	up_pauses = true;
	world_send(&w, fd, "POST /up" END "Content-Length: 67108864\r\n\r\n");
	sent = send_until_full(&w, fd, size);
	CHECK(sent < size);           /* it waits in the kernel, */
	CHECK(up_bytes <= 256 << 10); /* and not in our memory */
	up_pauses = false;
	if (!CHECK(held != NULL))
		return;
	http_resume_body(held);
	while (sent < size && held)
		sent += send_until_full(&w, fd, size - sent);
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK(strstr(text, "got it") && ends_whole == 1 && up_bytes == size);
	(void)close(fd);
	world_done(&w);
}

static void slow_reader_stops_the_producer(void)
{
	struct world w = make();
	int fd = world_connect(&w);
	size_t put = 0, got = 0;
	static char block[65536];

	world_send(&w, fd, "GET /stream" END "\r\n");
	while (held && http_queued(held) <= CONN_HIGH && put < 100 << 20) {
		http_write(held, block, sizeof(block));
		put += sizeof(block);
		world_turn(&w);
	}
	CHECK(put < 100 << 20 && drained_count == 0);
	for (int i = 0; i < 10000 && drained_count == 0; i++) {
		ssize_t r = recv(fd, block, sizeof(block), 0);

		got += r > 0 ? (size_t)r : 0;
		world_turn(&w);
	}
	CHECK_INT(drained_count, 1);
	CHECK(got <= put + 8192);
	/* One that ignores the queue ends the connection, not the memory. */
	for (int i = 0; i < 1000 && gone_count == 0; i++) {
		if (held)
			http_write(held, block, sizeof(block));
		if (i % 100 == 0)
			world_turn(&w);
	}
	world_turn(&w);
	CHECK_INT(gone_count, 1);
	(void)close(fd);
	world_done(&w);
}

static void client_that_leaves_a_stream_is_noticed(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd, "GET /stream" END "\r\n");
	(void)close(fd);
	world_turn(&w);
	CHECK_INT(gone_count, 1);
	CHECK_INT(log_count, 1);
	world_done(&w);
}

static void half_close_still_gets_its_answer(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd, "GET /later" END "\r\n");
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	world_turn(&w);
	if (!CHECK(held != NULL && gone_count == 0))
		return;
	http_reply(held, 200, NULL, "answer", 6);
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK(strstr(text, "answer"));
	closes(&w, fd);
	/* The same with requests behind the first. */
	fd = world_connect(&w);
	CHECK(send(fd, "GET /a" END "\r\nGET /later" END "\r\nGET /b" END "\r\n",
		      3 * strlen(END) + 3 * 2 + strlen("GET /aGET /laterGET /b"), 0) > 0);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	world_turn(&w);
	http_reply(held, 200, NULL, "middle", 6);
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK(strstr(text, "\n/a") && strstr(text, "middle") && strstr(text, "\n/b"));
	closes(&w, fd);
	world_done(&w);
}

static void broken_upload_is_told(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd, "POST /up" END "Content-Length: 10\r\n\r\nabc");
	CHECK_INT(up_bytes, 3);
	(void)close(fd);
	world_turn(&w);
	CHECK(ends_broken == 1 && ends_whole == 0 && gone_count == 1);
	fd = world_connect(&w);
	world_send(&w, fd, "POST /up" END "Transfer-Encoding: chunked\r\n\r\n3\r\nabcX");
	CHECK(ends_broken == 2 && gone_count == 2);
	(void)world_receive(&w, fd, text, sizeof(text));
	CHECK(strstr(text, "HTTP/1.1 400 "));
	closes(&w, fd);
	world_done(&w);
}

static void abort_is_a_reset(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd, "GET /stream" END "\r\n");
	(void)world_receive(&w, fd, text, sizeof(text));
	http_abort(held);
	world_turn(&w);
	CHECK_INT(world_receive(&w, fd, text, sizeof(text)), -ECONNRESET - 1000);
	CHECK(gone_count == 0 && log_count == 1);
	(void)close(fd);
	/* Shorter than announced is no whole answer either. */
	fd = world_connect(&w);
	CHECK(send(fd, "GET /short" END "\r\n", strlen("GET /short" END "\r\n"), 0) > 0);
	world_turn(&w);
	while (world_receive(&w, fd, text, sizeof(text)) > 0)
		;
	CHECK(recv(fd, text, 1, 0) <= 0);
	(void)close(fd);
	world_done(&w);
}

static void upgraded_connection_is_the_callers(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	expect(&w, fd, "GET /raw" END "\r\nGET /", "HTTP/1.1 101 Switching Protocols\r\n",
		"\r\n\r\n<GET />");
	CHECK(!strstr(text, "Content-Length") && !strstr(text, "Transfer-Encoding"));
	CHECK(strstr(text, "Upgrade: raw\r\n") && log_count == 1);
	expect(&w, fd, "more", "<more>", "<more>");
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	closes(&w, fd);
	world_done(&w);
}

static void full_server_lets_others_wait(void)
{
	struct world w = make();
	int first, second;

	w.server->conns_max = 1;
	first = world_connect(&w);
	second = world_connect(&w);
	world_send(&w, second, "GET /second" END "\r\n");
	expect(&w, first, "GET /first" END "\r\n", "HTTP/1.1 200", "/first");
	CHECK_INT(world_receive(&w, second, text, sizeof(text)), 0);
	(void)close(first);
	(void)world_receive(&w, second, text, sizeof(text));
	CHECK(strstr(text, "/second"));
	(void)close(second);
	world_done(&w);
}

static void wait_ms(struct world *w, uint64_t ms)
{
	uint64_t end = loop_now_ms(w->loop) + ms;
	struct err err;

	while (loop_now_ms(w->loop) < end)
		(void)loop_once(w->loop, 5, &err);
}

static void body_that_cannot_come_is_not_waited_for(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	/* Its end was heard before anybody wanted the body. */
	world_send(&w, fd, "POST /later" END "Content-Length: 5\r\n\r\n");
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	world_turn(&w);
	if (!CHECK(held != NULL && gone_count == 0))
		return;
	http_patient_body(held);
	http_stream_body(held, &up_sink, NULL);
	wait_ms(&w, 20);
	CHECK(ends_broken == 1 && gone_count == 1);
	(void)close(fd);
	world_done(&w);
}

static void what_nobody_reads_counts_until_it_is_gone(void)
{
	struct world w = make();
	int first, second;

	w.server->conns_max = 1;
	first = world_connect(&w);
	world_send(&w, first, "GET /stream" END "Connection: close\r\n\r\n");
	CHECK(held != NULL);
	for (int i = 0; i < 64; i++)
		http_write(held, text, 65536);
	http_end(held);
	world_turn(&w);
	CHECK_INT(w.server->conns_n, 0);
	CHECK_INT(conn_finishing(), 1);
	second = world_connect(&w);
	world_send(&w, second, "GET /second" END "\r\n");
	wait_ms(&w, 50);
	CHECK_INT(world_receive(&w, second, text, sizeof(text)), 0);
	(void)close(first);
	wait_ms(&w, 50);
	CHECK_INT(conn_finishing(), 0);
	CHECK(world_receive(&w, second, text, sizeof(text)) > 0 && strstr(text, "/second"));
	(void)close(second);
	world_done(&w);
}

static void lack_of_descriptors_passes(void)
{
	struct world w = make();
	int fd = world_connect(&w), spare[1024], n = 0;
	struct rlimit was, low;
	ssize_t r;

	CHECK(getrlimit(RLIMIT_NOFILE, &was) == 0);
	low = was;
	low.rlim_cur = (rlim_t)fd + 20;
	CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
	while (n < 1024 && (spare[n] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	world_send(&w, fd, "GET /x" END "\r\n"); /* in the backlog; nobody can accept it */
	r = world_receive(&w, fd, text, sizeof(text));
	CHECK_INT(r, 0);
	while (n > 0)
		(void)close(spare[--n]);
	wait_ms(&w, 250);
	CHECK(world_receive(&w, fd, text, sizeof(text)) > 0 && strstr(text, "/x"));
	CHECK(setrlimit(RLIMIT_NOFILE, &was) == 0);
	(void)close(fd);
	world_done(&w);
}

static void slow_clients_are_let_go(void)
{
	struct world w = make();
	int silent, head, body, upload, kept, stream;

	w.server->times =
		(struct http_times){.head = 50, .body = 50, .keep_alive = 50, .drain = 50};
	silent = world_connect(&w);
	head = world_connect(&w);
	body = world_connect(&w);
	kept = world_connect(&w);
	upload = world_connect(&w);
	world_send(&w, head, "GET / HT");
	world_send(&w, body, "POST /echo" END "Content-Length: 5\r\n\r\nab");
	world_send(&w, upload, "POST /up" END "Content-Length: 5\r\n\r\nab");
	expect(&w, kept, "GET /x" END "\r\n", "HTTP/1.1 200", "/x");
	wait_ms(&w, 150);
	closes(&w, silent);
	expect(&w, head, "", "HTTP/1.1 408 ", "\"}");
	closes(&w, head);
	expect(&w, body, "", "HTTP/1.1 408 ", "\"}");
	closes(&w, body);
	closes(&w, kept);
	CHECK(ends_broken == 1 && gone_count == 1);
	CHECK_INT(world_receive(&w, upload, text, sizeof(text)), -ECONNRESET - 1000);
	(void)close(upload);
	/* Those who wait for us are not. */
	stream = world_connect(&w);
	world_send(&w, stream, "GET /stream" END "\r\n");
	wait_ms(&w, 150);
	CHECK(held != NULL);
	http_end(held);
	(void)world_receive(&w, stream, text, sizeof(text));
	CHECK(strstr(text, "\r\n0\r\n\r\n"));
	(void)close(stream);
	world_done(&w);
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

static void drain_waits_for_answers(void)
{
	struct world w = make();
	int idle = world_connect(&w), busy = world_connect(&w);
	bool is_done = false;

	expect(&w, idle, "GET /x" END "\r\n", "HTTP/1.1 200", "/x");
	world_send(&w, busy, "GET /later" END "\r\n");
	http_drain(w.server, set_true, &is_done);
	world_turn(&w);
	CHECK(!is_done && held);
	closes(&w, idle);
	http_reply(held, 200, NULL, "last", 4);
	(void)world_receive(&w, busy, text, sizeof(text));
	CHECK(strstr(text, "Connection: close\r\n") && strstr(text, "last") && is_done);
	closes(&w, busy);
	world_done(&w);
}

/* A request that is on its way when a server is told to go is answered, not hung up on. */
static void drain_hears_the_first_request_of_a_connection(void)
{
	struct world w = make();
	int fresh = world_connect(&w);
	bool is_done = false;

	world_turn(&w);
	http_drain(w.server, set_true, &is_done);
	world_turn(&w);
	CHECK(!is_done);
	expect(&w, fresh, "GET /x" END "\r\n", "HTTP/1.1 200", "/x");
	closes(&w, fresh);
	CHECK(is_done);
	world_done(&w);
}

static void ending_the_server_tells_those_who_wait(void)
{
	struct world w = make();
	int fd = world_connect(&w);

	world_send(&w, fd, "GET /later" END "\r\n");
	CHECK(held != NULL);
	world_done(&w);
	CHECK_INT(gone_count, 1);
	(void)close(fd);
}

int main(void)
{
	RUN(one_connection_serves_many_requests);
	RUN(http_1_0_is_closed_unless_it_asks);
	RUN(pipelined_requests_are_answered_in_order);
	RUN(many_pipelined_requests_are_all_answered);
	RUN(request_may_come_byte_by_byte);
	RUN(answers_stream_in_chunks);
	RUN(malformed_requests_are_told_and_closed);
	RUN(endless_heads_are_refused);
	RUN(large_bodies_are_413);
	RUN(continue_is_said_only_to_be_read);
	RUN(early_answers_drop_the_rest_of_the_upload);
	RUN(paused_upload_holds_the_sender);
	RUN(slow_reader_stops_the_producer);
	RUN(client_that_leaves_a_stream_is_noticed);
	RUN(half_close_still_gets_its_answer);
	RUN(broken_upload_is_told);
	RUN(abort_is_a_reset);
	RUN(upgraded_connection_is_the_callers);
	RUN(full_server_lets_others_wait);
	RUN(body_that_cannot_come_is_not_waited_for);
	RUN(what_nobody_reads_counts_until_it_is_gone);
	RUN(lack_of_descriptors_passes);
	RUN(slow_clients_are_let_go);
	RUN(drain_waits_for_answers);
	RUN(drain_hears_the_first_request_of_a_connection);
	RUN(ending_the_server_tells_those_who_wait);
	return tap_done();
}
