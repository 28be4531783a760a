/* SPDX-License-Identifier: Apache-2.0 */

/* Requests through the intercept, as they should be. Hostile ends: test_intercept_hostile. */
#include "intercept_world.h"

#define HERE                                                                                       \
	"{\"id\":\"t/net\",\"action\":\"allow\",\"hosts\":[\"127.0.0.0/"                           \
	"8\"],\"ports\":[\"@P\",\"@T\"]}"
#define SITE                                                                                       \
	HERE ",{\"id\":\"t/"                                                                       \
	     "site\",\"action\":\"allow\",\"hosts\":[\"site.test\"],\"ports\":[\"@P\",\"@T\"]}"
#define READ                                                                                       \
	HERE ",{\"id\":\"t/read\",\"action\":\"allow\",\"hosts\":[\"site.test\"],"                 \
	     "\"ports\":[\"@P\",\"@T\"],\"methods\":[\"GET\",\"HEAD\"],\"paths\":[\"/pub/**\"]}"
#define OK_HI "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static void a_request_goes_through_and_the_next_reuses_the_connection(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, "GET /a?b HTTP/1.1\r\nHost: site.test\r\nX-One: 1\r\nConnection: X-One\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "GET /a?b HTTP/1.1\r\nHost: site.test\r\n\r\n"));
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: x\r\nServer: s\r\n\r\nhello");
	CHECK(hears(&c, "HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: 5\r\n\r\nhello"));
	CHECK(w.allowed_n == 1 && w.up > 0 && w.down > 5);
	say(&c, "GET /b HTTP/1.1\r\nHost: SITE.test\r\n\r\n");
	CHECK(hears(s, "GET /b HTTP/1.1\r\nHost: SITE.test\r\n\r\n"));
	say(s, OK_HI);
	CHECK(hears(&c, "\r\n\r\nhi"));
	CHECK_INT(w.served_n, 1);
	CHECK_INT(w.denied_n, 0);
	/* Another connection of the same box finds it too. */
	side_done(&c);
	client_open(&c, "site.test", TLS);
	say(&c, "HEAD /c HTTP/1.1\r\nHost: site.test\r\n\r\n");
	CHECK(hears(s, "HEAD /c HTTP/1.1\r\n"));
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
	CHECK(hears(&c, "Content-Length: 2\r\n\r\n"));
	CHECK_INT(w.served_n, 1);
	side_done(&c);
	world_done();
}

static void pipelined_requests_are_served_in_order(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", 0);
	say(&c, "GET /1 HTTP/1.1\r\nHost: site.test\r\n\r\nPOST /2 HTTP/1.1\r\nHost: site.test\r\n"
		"Content-Length: 3\r\n\r\nabcGET /3 HTTP/1.1\r\nHost: site.test\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "GET /1 HTTP/1.1\r\nHost: site.test\r\n\r\n"));
	quiet();
	CHECK_STR(said(s), ""); /* one at a time */
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
	CHECK(hears(&c, "\r\n\r\n1"));
	CHECK(hears(s, "POST /2 HTTP/1.1\r\nHost: site.test\r\nContent-Length: 3\r\n\r\nabc"));
	say(s, "HTTP/1.1 201 Made\r\nContent-Length: 1\r\n\r\n2");
	CHECK(hears(&c, "201 Made\r\nContent-Length: 1\r\n\r\n2"));
	CHECK(hears(s, "GET /3 "));
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n3");
	CHECK(hears(&c, "\r\n\r\n3"));
	side_done(&c);
	world_done();
}

static void bodies_stream_both_ways_in_chunks_with_trailers(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, "POST / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\nTE: "
		"trailers\r\n\r\n"
		"5;x=y\r\nfirst\r\n");
	s = served(1);
	CHECK(hears(s, "Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: "
		       "TE\r\n\r\n5\r\nfirst\r\n"));
	/* The answer begins before the request ends. */
	say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n3\r\none\r\n");
	CHECK(hears(&c, "Trailer: Sum\r\nTransfer-Encoding: chunked\r\nConnection: "
			"close\r\n\r\n3\r\none\r\n"));
	say(&c, "6\r\nsecond\r\n");
	CHECK(hears(s, "6\r\nsecond\r\n"));
	say(&c, "0\r\nDigest: d\r\nContent-Length: 9\r\n\r\n");
	CHECK(hears(s, "0\r\nDigest: d\r\n\r\n"));
	say(s, "0\r\nSum: 3\r\nHost: x\r\n\r\n");
	CHECK(hears(&c, "0\r\nSum: 3\r\n\r\n"));
	CHECK(ends(&c));
	side_done(&c);
	world_done();
}

static void an_answer_that_ends_with_the_connection_is_chunked(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", 0);
	say(&c, "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, "HTTP/1.0 200 OK\r\n\r\nabc");
	CHECK(hears(&c, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
	hang_up(s);
	CHECK(hears(&c, "0\r\n\r\n"));
	/* And the client's connection lives on. */
	say(&c, "GET /2 HTTP/1.1\r\nHost: site.test\r\n\r\n");
	s = served(2);
	CHECK(hears(s, "GET /2 "));
	say(s, OK_HI);
	CHECK(hears(&c, "hi"));
	side_done(&c);
	/* One that knows no chunks gets it raw, to the end. */
	client_open(&c, "site.test", 0);
	say(&c, "GET /3 HTTP/1.0\r\n\r\n");
	s = served(2);
	CHECK(hears(s, "GET /3 HTTP/1.1\r\nHost: site.test"));
	say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
	CHECK(hears(&c, "Connection: close\r\n\r\nabc") && ends(&c));
	side_done(&c);
	world_done();
}

static void continue_is_the_servers_to_say(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, "PUT / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4\r\nExpect: "
		"100-continue\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
	quiet();
	CHECK_STR(said(&c), "");
	say(s, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 Go\r\n\r\n");
	CHECK(hears(&c, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 Go\r\n\r\n"));
	say(&c, "body");
	CHECK(hears(s, "body"));
	say(s, "HTTP/1.1 204 No\r\n\r\n");
	CHECK(hears(&c, "204 No\r\n\r\n"));
	/* A no without the body: told at once, and the connection ends. */
	say(&c, "PUT / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4\r\nExpect: "
		"100-continue\r\n\r\n");
	CHECK(hears(s, "Expect: 100-continue\r\n\r\n"));
	say(s, "HTTP/1.1 413 Big\r\nContent-Length: 0\r\n\r\n");
	CHECK(hears(&c, "413 Big\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") && ends(&c));
	side_done(&c);
	world_done();
}

static void method_and_path_are_decided_inside_tls(void)
{
	struct side c, *s;

	world_make(READ, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, "POST /pub/x HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0\r\n\r\n");
	CHECK(hears(&c,
		"HTTP/1.1 403 Forbidden (bawn: no_rule)\r\nContent-Type: application/json\r\n"));
	CHECK(hears(&c, "Bawn-Denied: no_rule") && hears(&c, "egress_denied") && hears(&c, "}}"));
	CHECK(w.denied_n == 1 && w.denied.kind == DENIAL_NO_RULE);
	CHECK_STR(w.denied.method, "POST");
	CHECK_STR(w.denied.path, "/pub/x");
	CHECK_STR(w.denied.protocol, "https");
	/* The same connection may go on with something else. */
	say(&c, "GET /priv HTTP/1.1\r\nHost: site.test\r\nAccept: text/html\r\n\r\n");
	CHECK(hears(&c, "403 ") && hears(&c, "text/plain") && hears(&c, "GET https://site.test") &&
		hears(&c, "\n"));
	CHECK_INT(w.served_n, 0);
	(void)buf_eat(&c.got, buf_len(&c.got));
	say(&c, "GET /pub/ok HTTP/1.1\r\nHost: site.test\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "GET /pub/ok "));
	say(s, OK_HI);
	CHECK(hears(&c, "\r\n\r\nhi"));
	side_done(&c);
	world_done();
}

static void an_explicit_proxys_client_names_each_host(void)
{
	struct side c, *s;
	char text[300];

	world_make(SITE ",{\"id\":\"t/"
			"two\",\"action\":\"allow\",\"hosts\":[\"two.test\"],\"ports\":[\"@P\"]}",
		NULL);
	client_open(&c, "site.test", PROXY);
	(void)snprintf(text, sizeof(text),
		"GET http://site.test:%u/a HTTP/1.1\r\nHost: site.test:%u\r\n"
		"Proxy-Connection: x\r\nProxy-Authorization: Basic eA==\r\n\r\n",
		w.plain_port, w.plain_port);
	say(&c, text);
	s = served(1);
	CHECK(hears(s, "GET /a HTTP/1.1\r\nHost: site.test:") && hears(s, "\r\n\r\n"));
	say(s, OK_HI);
	CHECK(hears(&c, "\r\n\r\nhi"));
	(void)snprintf(text, sizeof(text),
		"GET http://two.test:%u/b HTTP/1.1\r\nHost: two.test:%u\r\n\r\n", w.plain_port,
		w.plain_port);
	say(&c, text);
	s = served(2);
	CHECK(hears(s, "GET /b HTTP/1.1\r\nHost: two.test:"));
	say(s, OK_HI);
	CHECK(hears(&c, "\r\n\r\nhi"));
	(void)snprintf(text, sizeof(text),
		"GET http://three.test:%u/c HTTP/1.1\r\nHost: three.test:%u\r\n\r\n", w.plain_port,
		w.plain_port);
	say(&c, text);
	CHECK(hears(&c, "403 ") && hears(&c, "three.test"));
	CHECK_INT(w.served_n, 2);
	side_done(&c);
	world_done();
}

static void websockets_are_relayed_raw(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, "GET /ws HTTP/1.1\r\nHost: site.test\r\nConnection: keep-alive, "
		"Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Key: k\r\nSec-WebSocket-Extensions: "
		"permessage-deflate\r\n\r\n\x81\x01");
	s = served(1);
	CHECK(hears(s, "Sec-WebSocket-Extensions: permessage-deflate\r\n"));
	CHECK(hears(s, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"));
	quiet();
	CHECK_STR(said(s), ""); /* frames wait for the 101 */
	say(s, "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	       "Sec-WebSocket-Accept: a\r\n\r\n\x82\x02hi");
	CHECK(hears(&c,
		"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: a\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\n\r\n\x82\x02hi"));
	CHECK(hears(s, "\x81\x01"));
	say(&c, "GET / HTTP/1.1\r\nHost: other\r\n\r\n"); /* bytes, nothing else */
	CHECK(hears(s, "GET / HTTP/1.1\r\nHost: other\r\n\r\n"));
	hang_up(s);
	CHECK(ends(&c) && c.why.code == 0);
	CHECK_INT(w.denied_n, 0);
	side_done(&c);
	world_done();
}

static void a_box_that_may_not_ws_gets_no_upgrade(void)
{
	struct side c;

	world_make(SITE ",{\"id\":\"t/no-ws\",\"action\":\"deny\",\"hosts\":[\"site.test\"],"
			"\"protocols\":[\"ws\"]}",
		NULL);
	client_open(&c, "site.test", 0);
	say(&c, "GET /ws HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: "
		"websocket\r\n\r\n");
	CHECK(hears(&c, "403 "));
	CHECK_STR(w.denied.protocol, "ws");
	CHECK_STR(w.denied.rule, "t/no-ws");
	CHECK_INT(w.served_n, 0);
	say(&c, "GET /ws HTTP/1.1\r\nHost: site.test\r\n\r\n");
	CHECK(hears(served(1), "GET /ws "));
	side_done(&c);
	/* A WebSocket over plain HTTP needs a rule that allows plain HTTP, or ws. */
	world_done();
	world_make(HERE ",{\"id\":\"t/s\",\"action\":\"allow\",\"hosts\":[\"site.test\"],"
			"\"ports\":[\"@P\"],\"protocols\":[\"https\"]}",
		NULL);
	client_open(&c, "site.test", 0);
	say(&c, "GET /ws HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: "
		"websocket\r\n\r\n");
	CHECK(hears(&c, "403 "));
	side_done(&c);
	world_done();
}

static void a_stale_connection_is_tried_once_more(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, "GET /1 HTTP/1.1\r\nHost: site.test\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, OK_HI);
	CHECK(hears(&c, "hi"));
	say(&c, "GET /2 HTTP/1.1\r\nHost: site.test\r\n\r\n");
	CHECK(hears(s, "GET /2 "));
	conn_abort(s->conn);
	s->conn = NULL;
	s = served(2);
	CHECK(hears(s, "GET /2 HTTP/1.1\r\nHost: site.test\r\n\r\n"));
	say(s, OK_HI);
	CHECK(hears(&c, "hi"));
	/* But not what may have been done already. */
	say(&c, "POST /3 HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1\r\n\r\nx");
	CHECK(hears(s, "\r\n\r\nx"));
	conn_abort(s->conn);
	s->conn = NULL;
	CHECK(hears(&c, "502 Bad Gateway") && hears(&c, "\"kind\":\"upstream\""));
	CHECK_INT(w.served_n, 2);
	CHECK_INT(w.denied_n, 0); /* not the box's fault */
	side_done(&c);
	world_done();
}

static void big_bodies_move_under_backpressure(void)
{
	struct side c, *s;
	static char block[1u << 20];
	size_t total = 24u << 20, sent = 0;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, "GET /big HTTP/1.1\r\nHost: site.test\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 25165824\r\n\r\n");
	CHECK(hears(&c, "\r\n\r\n"));
	conn_pause(c.conn);
	for (; sent < total && conn_queued(s->conn) == 0; sent += sizeof(block)) {
		conn_write(s->conn, block, sizeof(block));
		for (int i = 0; i < 20; i++)
			turn();
	}
	CHECK(conn_queued(s->conn) > 0); /* it waits at the server, not in our memory */
	conn_resume(c.conn);
	for (; sent < total; sent += sizeof(block)) {
		conn_write(s->conn, block, sizeof(block));
		for (int i = 0; i < 400 && conn_queued(s->conn) > 0; i++)
			turn();
	}
	for (int i = 0; i < 2000 && buf_len(&c.got) < total; i++)
		turn();
	CHECK_INT(buf_len(&c.got), total);
	(void)buf_eat(&c.got, buf_len(&c.got));
	/* And the other way. */
	say(&c, "PUT /big HTTP/1.1\r\nHost: site.test\r\nContent-Length: 8388608\r\n\r\n");
	CHECK(hears(s, "\r\n\r\n"));
	for (size_t i = 0; i < 8; i++) {
		conn_write(c.conn, block, sizeof(block));
		for (int k = 0; k < 400 && conn_queued(c.conn) > 0; k++)
			turn();
	}
	for (int i = 0; i < 2000 && buf_len(&s->got) < 8u << 20; i++)
		turn();
	CHECK_INT(buf_len(&s->got), 8u << 20);
	say(s, OK_HI);
	CHECK(hears(&c, "hi"));
	side_done(&c);
	world_done();
}

static void a_bare_address_is_verified_as_one(void)
{
	struct side c, *s;

	world_make(HERE, NULL);
	client_open(&c, "127.0.0.1", TLS | BARE);
	say(&c, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "Host: 127.0.0.1\r\n"));
	say(s, OK_HI);
	CHECK(hears(&c, "hi"));
	say(&c, "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n");
	CHECK(hears(&c, "421 "));
	CHECK_INT(w.denied.kind, DENIAL_MISMATCH);
	side_done(&c);
	world_done();
}

static void a_person_is_asked_and_the_request_waits(void)
{
	struct side c, *s;
	struct err err = {0};

	world_make(HERE ",{\"id\":\"t/"
			"ask\",\"action\":\"ask\",\"hosts\":[\"site.test\"],\"ports\":[\"@T\"]}",
		NULL);
	client_open(&c, "site.test", TLS);
	say(&c, "POST /x HTTP/1.1\r\nHost: site.test\r\nContent-Length: 2\r\n\r\nab");
	for (int i = 0; i < 300 && w.asked_n == 0; i++)
		turn();
	CHECK_INT(w.asked_n, 1);
	CHECK_STR(w.asked.what.method, "POST");
	quiet();
	CHECK_INT(w.served_n, 0);
	CHECK_INT(egress_answer(w.engine, w.asked.id, EGRESS_ASK_ONCE, &err), 0);
	s = served(1);
	CHECK(hears(s, "POST /x ") && hears(s, "\r\n\r\nab"));
	say(s, OK_HI);
	CHECK(hears(&c, "hi"));
	say(&c, "GET /y HTTP/1.1\r\nHost: site.test\r\n\r\n"); /* once was once */
	for (int i = 0; i < 300 && w.asked_n == 1; i++)
		turn();
	CHECK_INT(egress_answer(w.engine, w.asked.id, EGRESS_ASK_DENY, &err), 0);
	CHECK(hears(&c, "403 ") && hears(&c, "\"kind\":\"ask\"") && ends(&c));
	side_done(&c);
	/* Who leaves has not asked. */
	client_open(&c, "site.test", TLS);
	say(&c, "GET /z HTTP/1.1\r\nHost: site.test\r\n\r\n");
	for (int i = 0; i < 300 && w.asked_n == 2; i++)
		turn();
	hang_up(&c);
	for (int i = 0; i < 100; i++)
		turn();
	CHECK_INT(egress_answer(w.engine, w.asked.id, EGRESS_ASK_ONCE, &err), -ENOENT);
	side_done(&c);
	world_done();
}

static void a_new_policy_cuts_what_it_no_longer_allows(void)
{
	struct side c, idle, *s;
	struct policy *p;
	struct err err = {0};

	world_make(SITE, NULL);
	client_open(&idle, "site.test", TLS);
	say(&idle, "GET /i HTTP/1.1\r\nHost: site.test\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, OK_HI);
	CHECK(hears(&idle, "hi"));
	client_open(&c, "site.test", TLS);
	say(&c, "GET /pub/a HTTP/1.1\r\nHost: site.test\r\n\r\n");
	CHECK(hears(s, "/pub/a"));
	p = policy_here(READ);
	CHECK_INT(egress_box_policy(w.engine, "box", p, &err), 0);
	(void)policy_unref(p);
	say(s, OK_HI); /* still allowed */
	CHECK(hears(&c, "hi"));
	say(&c, "GET /pub/b HTTP/1.1\r\nHost: site.test\r\n\r\n");
	s = served(2); /* not on a connection of before */
	CHECK(hears(s, "/pub/b"));
	p = policy_here(HERE);
	CHECK_INT(egress_box_policy(w.engine, "box", p, &err), 0);
	(void)policy_unref(p);
	CHECK(ends(&c) && ends(&idle) && ends(s));
	side_done(&c);
	side_done(&idle);
	world_done();
}

static void refusals_come_inside_a_minted_session(void)
{
	struct flow_target t;
	struct denial d = {
		.kind = DENIAL_RULE, .name = "no.test", .port = 443, .protocol = "https"};
	struct side c;
	int far, fd;

	world_make(SITE, NULL);
	t = target_of("no.test", TLS);
	fd = pair(&far);
	intercept_refuse(w.box, far, &t, &d);
	open_client(&c, fd, "no.test", true);
	say(&c, "POST /any HTTP/1.1\r\nHost: no.test\r\nContent-Length: 100\r\n\r\nsome");
	CHECK(hears(&c, "HTTP/1.1 403 Forbidden (bawn: rule)") && hears(&c, "Connection: close") &&
		ends(&c));
	CHECK_INT(w.served_n, 0);
	side_done(&c);
	world_done();
}

static void the_inside_answers_for_itself(void)
{
	struct side c;

	world_make(SITE, NULL);
	client_open(&c, "bawn.internal", 0);
	say(&c, "GET / HTTP/1.1\r\nHost: bawn.internal\r\nAccept: application/json\r\n\r\n");
	CHECK(hears(&c, "HTTP/1.1 200 OK\r\n") && hears(&c, "\r\n\r\n{"));
	quiet();
	(void)buf_eat(&c.got, buf_len(&c.got));
	say(&c, "GET /nothing-of-that HTTP/1.1\r\nHost: bawn.internal\r\n\r\n");
	CHECK(hears(&c, "HTTP/1.1 404 "));
	side_done(&c);
	world_done();
}

static void a_client_that_only_half_closes_gets_its_answer(void)
{
	struct flow_target t;
	struct side *s;
	int far, fd;
	char text[300];
	ssize_t n = 0;

	world_make(SITE, NULL);
	t = target_of("site.test", 0);
	fd = pair(&far);
	intercept_start(w.box, far, &t);
	CHECK(write(fd, "GET /h HTTP/1.1\r\nHost: site.test\r\n\r\n", 36) == 36);
	CHECK(shutdown(fd, SHUT_WR) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	s = served(1);
	CHECK(hears(s, "GET /h "));
	say(s, OK_HI);
	for (int i = 0; i < 300 && n <= 0; i++) {
		turn();
		n = recv(fd, text, sizeof(text), 0);
	}
	CHECK(n > 2 && memcmp(text + n - 2, "hi", 2) == 0);
	(void)close(fd);
	world_done();
}

int main(void)
{
	RUN(a_request_goes_through_and_the_next_reuses_the_connection);
	RUN(pipelined_requests_are_served_in_order);
	RUN(bodies_stream_both_ways_in_chunks_with_trailers);
	RUN(an_answer_that_ends_with_the_connection_is_chunked);
	RUN(continue_is_the_servers_to_say);
	RUN(method_and_path_are_decided_inside_tls);
	RUN(an_explicit_proxys_client_names_each_host);
	RUN(websockets_are_relayed_raw);
	RUN(a_box_that_may_not_ws_gets_no_upgrade);
	RUN(a_stale_connection_is_tried_once_more);
	RUN(big_bodies_move_under_backpressure);
	RUN(a_bare_address_is_verified_as_one);
	RUN(a_person_is_asked_and_the_request_waits);
	RUN(a_new_policy_cuts_what_it_no_longer_allows);
	RUN(refusals_come_inside_a_minted_session);
	RUN(the_inside_answers_for_itself);
	RUN(a_client_that_only_half_closes_gets_its_answer);
	return tap_done();
}
