/* SPDX-License-Identifier: Apache-2.0 */

/* Clients and servers that mean harm: each is refused by name, and nothing of it goes on. */
#include "intercept_world.h"

#define HERE                                                                                       \
	"{\"id\":\"t/net\",\"action\":\"allow\",\"hosts\":[\"127.0.0.0/"                           \
	"8\"],\"ports\":[\"@P\",\"@T\"]}"
#define SITE                                                                                       \
	HERE ",{\"id\":\"t/"                                                                       \
	     "site\",\"action\":\"allow\",\"hosts\":[\"site.test\"],\"ports\":[\"@P\",\"@T\"]}"
#define KEYED                                                                                      \
	HERE ",{\"id\":\"t/key\",\"action\":\"allow\",\"hosts\":[\"site.test\"],"                  \
	     "\"ports\":[\"@P\",\"@T\"],\"credentials\":[{\"secret\":\"KEY\",\"header\":"          \
	     "\"Authorization\","                                                                  \
	     "\"format\":\"Bearer {}\"}]}"
#define GET   "GET / HTTP/1.1\r\nHost: site.test\r\n"
#define POST  "POST / HTTP/1.1\r\nHost: site.test\r\n"
#define OK_HI "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

/* ---- clients ---- */

static void smuggled_and_malformed_requests_are_400(void)
{
	static const struct {
		const char *what, *text, *status;
	} list[] = {
		{"length and coding",
			POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"400"},
		{"two lengths", POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", "400"},
		{"fold", GET "X: a\r\n b\r\n\r\n", "400"},
		{"bare LF", "GET / HTTP/1.1\nHost: site.test\n\n", "400"},
		{"space before colon", GET "X : a\r\n\r\n", "400"},
		{"two hosts", GET "Host: site.test\r\n\r\n", "400"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "400"},
		{"odd coding", POST "Transfer-Encoding: xchunked\r\n\r\n", "501"},
		{"h2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
		{"connect", "CONNECT site.test:443 HTTP/1.1\r\nHost: site.test\r\n\r\n", "400"},
		{"dots", "GET /a/%2e%2e/b HTTP/1.1\r\nHost: site.test\r\n\r\n", "400"},
		{"junk", "\x16\x03\x01 what is this\r\n\r\n", "400"},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		struct side c;

		world_make(SITE, NULL);
		client_open(&c, "site.test", 0);
		say(&c, list[i].text);
		if (!CHECK(hears(&c, list[i].status)) || !CHECK(ends(&c)) ||
			!CHECK(w.denied_n == 1) || !CHECK_INT(w.denied.kind, DENIAL_MALFORMED) ||
			!CHECK_INT(w.served_n, 0))
			tap_print("# %s\n", list[i].what);
		side_done(&c);
		world_done();
	}
}

static void other_hosts_are_421(void)
{
	static const char *const list[] = {
		"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"GET http://evil.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n",
		"GET http://site.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: site.test:1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: site.test@evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: \r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		struct side c;

		world_make(SITE, NULL);
		client_open(&c, "site.test", 0);
		say(&c, list[i]);
		if (!CHECK(hears(&c, i == 4 ? " 4" : "421")) || !CHECK_INT(w.denied_n, 1) ||
			!CHECK_INT(w.served_n, 0))
			tap_print("# %s\n", list[i]);
		side_done(&c);
		world_done();
	}
}

/* Fronting: the second request of a connection that was fine. */
static void a_later_request_to_another_host_is_421(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\nGET /secret HTTP/1.1\r\nHost: evil.test\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, OK_HI);
	CHECK(hears(&c, "hi") && hears(&c, "421 "));
	quiet();
	CHECK_STR(said(s), "");
	CHECK_INT(w.denied.kind, DENIAL_MISMATCH);
	side_done(&c);
	world_done();
}

static void heads_without_end_are_431(void)
{
	static char block[70000];
	struct side c;

	world_make(SITE, NULL);
	memset(block, 'a', sizeof(block) - 1);
	client_open(&c, "site.test", TLS);
	say(&c, GET "X: ");
	say(&c, block);
	CHECK(hears(&c, "431 ") && ends(&c));
	side_done(&c);
	client_open(&c, "site.test", 0);
	say(&c, GET);
	for (int i = 0; i < 101; i++)
		say(&c, "A: b\r\n");
	say(&c, "\r\n");
	CHECK(hears(&c, "431 "));
	CHECK_INT(w.served_n, 0);
	side_done(&c);
	world_done();
}

static void a_bad_chunk_in_the_middle_stops_the_request(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	s = served(1);
	CHECK(hears(s, "3\r\nabc\r\n"));
	say(&c, "zz\r\n");
	CHECK(hears(&c, "400 ") && ends(&c) && ends(s));
	CHECK_STR(said(s), ""); /* no last chunk: the server knows that it is not whole */
	side_done(&c);
	world_done();
}

static void a_client_that_leaves_in_the_middle_ends_the_servers_side(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, POST "Content-Length: 100\r\n\r\nabc");
	s = served(1);
	CHECK(hears(s, "\r\n\r\nabc"));
	conn_abort(c.conn);
	c.conn = NULL;
	CHECK(ends(s));
	CHECK_INT(w.box->flows_n, 0);
	side_done(&c);
	world_done();
}

/* ---- placeholders ---- */

#define VALUE "sk-s3cret-abcdefgh"
static char placeholder[PLACEHOLDER_LEN + 1];

static void keyed_world(void)
{
	struct err err = {0};

	world_make(KEYED, NULL);
	placeholder_make("", "KEY", placeholder);
	CHECK_INT(vault_set(egress_vault(w.engine), "", "KEY", VALUE, strlen(VALUE), &err), 0);
}

static void a_key_is_put_in_where_it_belongs(void)
{
	struct side c, *s;
	char text[300];

	keyed_world();
	client_open(&c, "site.test", TLS);
	(void)snprintf(text, sizeof(text),
		POST "Authorization: Bearer %s\r\nContent-Length: 2\r\n\r\nab", placeholder);
	say(&c, text);
	s = served(1);
	CHECK(hears(s, "Authorization: Bearer " VALUE "\r\n") && hears(s, "\r\n\r\nab"));
	say(s, OK_HI);
	CHECK(hears(&c, "hi"));
	side_done(&c);
	world_done();
}

static void a_placeholder_elsewhere_is_403_and_goes_nowhere(void)
{
	static const char *const forms[] = {
		"GET /%s HTTP/1.1\r\nHost: site.test\r\n\r\n",
		"GET /?a=%s HTTP/1.1\r\nHost: site.test\r\n\r\n",
		GET "X-Other: %s\r\n\r\n",
		GET "Cookie: a=%s\r\n\r\n",
	};
	struct side c;
	char text[300];

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		keyed_world();
		client_open(&c, "site.test", TLS);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(text, sizeof(text), forms[i], placeholder);
#pragma GCC diagnostic pop
		say(&c, text);
		CHECK(hears(&c, "403 ") && hears(&c, "\"kind\":\"placeholder\""));
		CHECK_INT(w.denied.kind, DENIAL_PLACEHOLDER);
		CHECK_INT(w.served_n, 0);
		side_done(&c);
		world_done();
	}
}

/* However it is cut: by length, by chunks, over pieces, in a trailer. */
static void a_placeholder_in_a_body_stops_it(void)
{
	struct side c, *s;
	char text[300];

	keyed_world();
	client_open(&c, "site.test", TLS);
	(void)snprintf(
		text, sizeof(text), POST "Content-Length: 1000\r\n\r\nbefore %.20s", placeholder);
	say(&c, text);
	CHECK(hears(&c, "403 ") && ends(&c));
	CHECK(w.served_n == 0 || !strstr(said(served(1)), placeholder));
	side_done(&c);
	world_done();

	keyed_world();
	client_open(&c, "site.test", TLS);
	say(&c, POST "Transfer-Encoding: chunked\r\n\r\n4\r\nbawn\r\n");
	s = served(1);
	CHECK(hears(s, "4\r\nbawn\r\n"));
	(void)snprintf(text, sizeof(text), "2c\r\n%s\r\n0\r\n\r\n", placeholder + 4);
	say(&c, text);
	CHECK(hears(&c, "403 ") && ends(&c) && ends(s));
	CHECK(!strstr(said(s), "-ph-"));
	side_done(&c);
	world_done();

	keyed_world();
	client_open(&c, "site.test", TLS);
	(void)snprintf(text, sizeof(text),
		POST "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nSum: %s\r\n\r\n",
		placeholder);
	say(&c, text);
	CHECK(hears(&c, "403 ") && ends(&c));
	CHECK_INT(w.denied.kind, DENIAL_PLACEHOLDER);
	side_done(&c);
	world_done();
}

static void a_masked_placeholder_in_a_message_is_cut(void)
{
	struct side c, *s;
	char frame[8 + PLACEHOLDER_LEN];
	static const char mask[4] = {0x11, 0x22, 0x33, 0x44};

	keyed_world();
	client_open(&c, "site.test", TLS);
	say(&c, GET "Connection: Upgrade\r\nUpgrade: websocket\r\n"
		    "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "GET / HTTP/1.1\r\n") && hears(s, "Upgrade: websocket\r\n\r\n"));
	CHECK(!strstr(said(s), "permessage"));
	say(s, "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
	CHECK(hears(&c, "101 S"));
	frame[0] = (char)0x81;
	frame[1] = (char)(0x80 | PLACEHOLDER_LEN);
	memcpy(frame + 2, mask, 4);
	for (size_t i = 0; i < PLACEHOLDER_LEN; i++)
		frame[6 + i] = (char)(placeholder[i] ^ mask[i & 3]);
	conn_write(c.conn, frame, 6 + PLACEHOLDER_LEN);
	CHECK(ends(&c) && ends(s));
	CHECK_INT(w.denied.kind, DENIAL_PLACEHOLDER);
	CHECK_INT(buf_len(&s->got), 0);
	side_done(&c);
	world_done();
}

/* A page that shows the request it got: in the head, in the body, cut in two. */
static void an_answer_that_repeats_the_key_is_cut(void)
{
	static const char *const pieces[][2] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Was: Bearer " VALUE "\r\n\r\nhi", ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\nyou said Bearer " VALUE "!", ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\nyou said sk-s3cre", "t-abcdefgh!"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsk-s3\r\n",
			"d\r\ncret-abcdefgh\r\n0\r\n\r\n"},
	};
	struct side c, *s;

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		keyed_world();
		client_open(&c, "site.test", TLS);
		say(&c, GET "Accept-Encoding: gzip\r\n\r\n");
		s = served(1);
		CHECK(hears(s, "Authorization: Bearer " VALUE "\r\n"));
		CHECK(!strstr(said(s), "Accept-Encoding"));
		say(s, pieces[i][0]);
		quiet();
		CHECK(!strstr(said(&c), "sk-s"));
		if (*pieces[i][1])
			say(s, pieces[i][1]);
		CHECK(ends(&c));
		CHECK(!strstr(said(&c), "sk-s"));
		CHECK_INT(w.denied.kind, DENIAL_PLACEHOLDER);
		side_done(&c);
		world_done();
	}
	/* What only looks like its beginning comes through, to the last byte. */
	keyed_world();
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na sk-s3cr");
	CHECK(hears(&c, "\r\n\r\na sk-s3cr"));
	CHECK_INT(w.denied_n, 0);
	side_done(&c);
	world_done();
}

/* ---- budgets ---- */

static void a_budget_of_bytes_ends_the_transfer(void)
{
	struct side c, *s;
	static char block[5000];

	memset(block, 'x', sizeof(block) - 1);
	world_make(HERE ",{\"id\":\"t/"
			"b\",\"action\":\"allow\",\"hosts\":[\"site.test\"],\"ports\":[\"@T\"],"
			"\"budget\":{\"bytes_down\":2000,\"bytes_up\":3000,\"requests\":3}}",
		NULL);
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 4999\r\n\r\n");
	CHECK(hears(&c, "\r\n\r\n"));
	say(s, block);
	CHECK(ends(&c) && ends(s));
	CHECK_INT(w.denied.kind, DENIAL_BUDGET);
	CHECK(buf_len(&c.got) <= 2000);
	side_done(&c);
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	CHECK(hears(&c, "429 ") && hears(&c, "budget"));
	CHECK_INT(w.served_n, 1);
	side_done(&c);
	world_done();
}

/* ---- servers ---- */

static void answers_that_could_be_read_in_two_ways_are_502(void)
{
	static const char *const list[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
		"HTTP/1.1 200 OK\nX: a\n\n",
		"HTTP/2 200\r\n\r\n",
		"SSH-2.0-OpenSSH\r\n\r\n",
		"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 999 OK\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		struct side c, *s;

		world_make(SITE, NULL);
		client_open(&c, "site.test", TLS);
		say(&c, GET "\r\n");
		s = served(1);
		CHECK(hears(s, "\r\n\r\n"));
		say(s, list[i]);
		if (!CHECK(hears(&c, "HTTP/1.1 502 Bad Gateway (bawn: upstream)")) ||
			!CHECK(ends(s)))
			tap_print("# %s\n", list[i]);
		CHECK_INT(w.denied_n, 0);
		side_done(&c);
		world_done();
	}
}

/* A second answer nobody asked for must not become the next one's. */
static void an_answer_too_many_is_never_delivered(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, OK_HI "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
	CHECK(hears(&c, "hi") && ends(s));
	say(&c, GET "\r\n");
	s = served(2);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, OK_HI);
	CHECK(hears(&c, "hi"));
	/* The same while nobody asks. */
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
	CHECK(ends(s));
	quiet();
	CHECK_STR(said(&c), "");
	side_done(&c);
	world_done();
}

static void heads_and_interims_without_end_are_502(void)
{
	static char block[70000];
	struct side c, *s;

	memset(block, 'a', sizeof(block) - 1);
	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, "HTTP/1.1 200 OK\r\nX: ");
	say(s, block);
	CHECK(hears(&c, "502 ") && hears(&c, "}}"));
	say(&c, GET "\r\n");
	s = served(2);
	CHECK(hears(s, "\r\n\r\n"));
	for (int i = 0; i < 20 && s->conn; i++)
		say(s, "HTTP/1.1 102 Wait\r\n\r\n");
	CHECK(hears(&c, "502 "));
	side_done(&c);
	world_done();
}

static void a_reset_in_the_body_is_a_reset_for_the_client(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
	CHECK(hears(&c, "abc"));
	conn_abort(s->conn);
	s->conn = NULL;
	CHECK(ends(&c) && c.why.code != 0);
	side_done(&c);
	/* Chunks that end too early: never a last chunk from us. */
	client_open(&c, "site.test", 0);
	say(&c, GET "\r\n");
	s = served(2);
	CHECK(hears(s, "\r\n\r\n"));
	say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	CHECK(hears(&c, "3\r\nabc\r\n"));
	hang_up(s);
	CHECK(ends(&c) && c.why.code != 0);
	CHECK_STR(said(&c), "");
	side_done(&c);
	world_done();
}

static void a_server_that_hangs_up_without_a_word_is_502(void)
{
	struct side c, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", 0);
	say(&c, POST "Content-Length: 1\r\n\r\nx");
	s = served(1);
	CHECK(hears(s, "\r\n\r\nx"));
	hang_up(s);
	CHECK(hears(&c, "502 ") && hears(&c, "without an answer"));
	side_done(&c);
	world_done();
}

static void an_answer_before_the_upload_ends_is_heard(void)
{
	struct side c, *s;
	static char block[1u << 20];

	memset(block, 'x', sizeof(block) - 1);
	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, POST "Content-Length: 10485760\r\n\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	conn_pause(s->conn);
	say(&c, block);
	quiet();
	say(s, "HTTP/1.1 413 Big\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
	hang_up(s);
	CHECK(hears(&c, "413 Big") && hears(&c, "big"));
	side_done(&c);
	world_done();
}

static void certificates_are_verified_for_real(void)
{
	struct side c;

	world_make(SITE, "DNS:other.test");
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	CHECK(hears(&c, "502 Bad Gateway") && hears(&c, "certificate"));
	CHECK(w.served_n == 1 && buf_len(&w.served[0].got) == 0); /* not a byte of the request */
	side_done(&c);
	world_done();

	/* One the authority of which nobody knows. */
	world_make(SITE, NULL);
	make_certificate("DNS:site.test", w.cert, w.key);
	w.server_tls = tls_free(w.server_tls);
	CHECK_INT(tls_server(w.cert, w.key, &w.server_tls, &(struct err){0}), 0);
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	CHECK(hears(&c, "502 Bad Gateway") && hears(&c, "certificate"));
	side_done(&c);
	world_done();
}

static void a_server_that_speaks_no_tls_is_502(void)
{
	struct side c, *s;
	uint16_t port;

	world_make(SITE, NULL);
	port = w.tls_port;
	w.tls_port = w.plain_port; /* the client goes there with TLS */
	client_open(&c, "site.test", TLS);
	w.tls_port = port;
	say(&c, GET "\r\n");
	s = served(1);
	for (int i = 0; i < 300 && buf_len(&s->got) == 0; i++)
		turn();
	say(s, "HTTP/1.1 400 Bad\r\n\r\n");
	CHECK(hears(&c, "502 ") && hears(&c, "tls"));
	side_done(&c);
	world_done();
}

static void a_refused_connection_is_502(void)
{
	struct side c;
	uint16_t port, old;
	int fd;

	world_make("{\"id\":\"t/a\",\"action\":\"allow\",\"hosts\":[\"127.0.0.0/"
		   "8\",\"site.test\"],\"ports\":[\"1-65535\"]}",
		NULL);
	fd = local_socket(SOCK_STREAM, &port);
	(void)close(fd);
	old = w.plain_port;
	w.plain_port = port;
	client_open(&c, "site.test", 0);
	w.plain_port = old;
	say(&c, GET "\r\n");
	CHECK(hears(&c, "502 ") && hears(&c, "refused"));
	side_done(&c);
	world_done();
}

static void names_that_lead_to_private_addresses_are_refused(void)
{
	struct side c;

	world_make("{\"id\":\"t/"
		   "s\",\"action\":\"allow\",\"hosts\":[\"site.test\"],\"ports\":[\"@P\"]}",
		NULL);
	client_open(&c, "site.test", 0);
	say(&c, GET "\r\n");
	CHECK(hears(&c, "403 ") && hears(&c, "loopback"));
	CHECK_INT(w.denied.kind, DENIAL_ADDRESS);
	CHECK_INT(w.served_n, 0);
	side_done(&c);
	world_done();
}

static void the_boxs_end_ends_everything(void)
{
	struct side c, d, *s;

	world_make(SITE, NULL);
	client_open(&c, "site.test", TLS);
	say(&c, GET "\r\n");
	s = served(1);
	CHECK(hears(s, "\r\n\r\n"));
	client_open(&d, "site.test", TLS); /* in the middle of a handshake */
	egress_box_remove(w.engine, "box");
	CHECK(ends(&c) && ends(&d) && ends(s));
	side_done(&c);
	side_done(&d);
	world_done();
}

int main(void)
{
	RUN(smuggled_and_malformed_requests_are_400);
	RUN(other_hosts_are_421);
	RUN(a_later_request_to_another_host_is_421);
	RUN(heads_without_end_are_431);
	RUN(a_bad_chunk_in_the_middle_stops_the_request);
	RUN(a_client_that_leaves_in_the_middle_ends_the_servers_side);
	RUN(a_key_is_put_in_where_it_belongs);
	RUN(a_placeholder_elsewhere_is_403_and_goes_nowhere);
	RUN(a_placeholder_in_a_body_stops_it);
	RUN(a_masked_placeholder_in_a_message_is_cut);
	RUN(an_answer_that_repeats_the_key_is_cut);
	RUN(a_budget_of_bytes_ends_the_transfer);
	RUN(answers_that_could_be_read_in_two_ways_are_502);
	RUN(an_answer_too_many_is_never_delivered);
	RUN(heads_and_interims_without_end_are_502);
	RUN(a_reset_in_the_body_is_a_reset_for_the_client);
	RUN(a_server_that_hangs_up_without_a_word_is_502);
	RUN(an_answer_before_the_upload_ends_is_heard);
	RUN(certificates_are_verified_for_real);
	RUN(a_server_that_speaks_no_tls_is_502);
	RUN(a_refused_connection_is_502);
	RUN(names_that_lead_to_private_addresses_are_refused);
	RUN(the_boxs_end_ends_everything);
	return tap_done();
}
