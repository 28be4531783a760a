/* SPDX-License-Identifier: Apache-2.0 */

/* egress: connections of a box, from the road to the internet, over real sockets. As any user. */
#include "egress_hello.h"
#include "egress_world.h"

static const struct world_name names[] = {
	{.name = "api.test", .addrs = {WORLD_SERVER}},
	{.name = "db.test", .addrs = {WORLD_SERVER}},
	{0},
};

static bool begin(void)
{
	world.names = names;
	return world_begin();
}

static void an_allowed_address_is_reached_and_bytes_go_both_ways(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;
	struct egress_usage u[4];

	if (!begin())
		return;
	POLICY("allow tcp 10.1.2.3 7000");
	server = serve(WORLD_LAN, 7000);
	box = box_connect(WORLD_LAN, 7000);
	if (CHECK(box >= 0) && say(box, "hello", 5) && CHECK((far = accepted(server)) >= 0)) {
		says(far, "hello");
		say(far, "welcome", 7);
		says(box, "welcome");
		/* Half-close one way; the other way goes on. */
		CHECK(shutdown(box, SHUT_WR) == 0);
		CHECK_INT(end_of(far), 0);
		say(far, "more", 4);
		says(box, "more");
		closep(&far);
		CHECK_INT(end_of(box), 0);
		CHECK(WAIT_FOR(world.allowed_n == 1));
		CHECK_INT(world.allowed_up, 5);
		CHECK_INT(world.allowed_down, 11);
		CHECK_STR(world.allowed.rule, "t/1");
	}
	CHECK_INT(egress_box_usage(world.engine, BOX, u, 4), 1);
	CHECK_STR(u[0].name, WORLD_LAN);
	CHECK_INT(u[0].bytes_down, 11);
	CHECK_INT(u[0].connections, 1);
	CHECK_INT(world.denied_n, 0);
	world_end();
}

static void an_address_that_no_rule_names_is_reset(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp 10.1.2.3 7000", "allow - api.test -");
	server = serve(WORLD_LAN, 7001);
	box = box_connect(WORLD_LAN, 7001);
	say(box, "\x01\x02", 2);
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK(came(server) < 0);
	CHECK_INT(world.denied.kind, DENIAL_NO_RULE);
	CHECK_STR(world.denied.name, WORLD_LAN);
	CHECK_INT(world.denied.port, 7001);
	world_end();
}

/* The server speaks first: nobody waits for the client's first bytes. */
static void a_server_that_speaks_first_is_heard_by_a_tcp_rule(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp db.test 5432");
	server = serve(WORLD_SERVER, 5432);
	box = box_connect("db.test", 5432);
	if (CHECK((far = accepted(server)) >= 0)) {
		say(far, "220 ready\r\n", 11);
		says(box, "220 ready\r\n");
		CHECK_STR(world.asked_name, "db.test");
	}
	world_end();
}

static void a_denied_name_is_told_an_address_and_never_looked_up(void)
{
	AUTO_FD int box = -EBADF;
	char got[8];

	if (!begin())
		return;
	POLICY("allow - api.test -");
	CHECK_STR(box_lookup("evil.test", DNS_A), "198.18.0.2");
	CHECK_STR(box_lookup("evil.test", DNS_AAAA), "fdba:3a11:ed00::2");
	CHECK_INT(world.denied.kind, DENIAL_NO_RULE);
	CHECK_STR(world.denied.protocol, "dns");
	CHECK_STR(world.denied.name, "evil.test");
	box = box_connect("evil.test", 443);
	hello_make("evil.test", 0, 0);
	say(box, hello_bytes, hello_len);
	/* No authority to sign a page with: an alert says it. */
	CHECK_INT(read_all(box, got, 7), 7);
	CHECK(memcmp(got, "\x15\x03\x03\x00\x02\x02\x31", 7) == 0);
	CHECK_STR(world.denied.protocol, "https");
	CHECK_INT(world.questions, 0);
	world_end();
}

static void tls_to_an_allowed_name_goes_through_untouched(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;
	char got[1024];

	if (!begin())
		return;
	POLICY("allow https api.test -");
	server = serve(WORLD_SERVER, 443);
	box = box_connect("api.test", 443);
	hello_make("api.test", 0, 0);
	say(box, hello_bytes, hello_len);
	if (CHECK((far = accepted(server)) >= 0)) {
		CHECK_INT(read_all(far, got, hello_len), hello_len);
		CHECK(memcmp(got, hello_bytes, hello_len) == 0);
	}
	world_end();
}

/* Each of these is another way to say a name that was not connected to. */
static void a_hello_must_agree_with_the_name(void)
{
	static const struct {
		const char *name;
		unsigned flags;
		enum denial_kind kind;
	} cases[] = {
		{"evil.test", 0, DENIAL_MISMATCH},
		{"API.test.evil", 0, DENIAL_MISMATCH},
		{"10.1.2.3", 0, DENIAL_MISMATCH},
		{"", HELLO_WITHOUT_NAME, DENIAL_PROTOCOL},
		{"api.test", HELLO_WITH_ECH, DENIAL_PROTOCOL},
		{"api.test", HELLO_TWO_NAMES, DENIAL_MISMATCH},
		{"api.test", HELLO_CUT_EXTENSION, DENIAL_MALFORMED},
	};

	if (!begin())
		return;
	POLICY("allow https api.test -");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		AUTO_FD int box = box_connect("api.test", 443);
		uint64_t before = world_count(cases[i].kind);

		hello_make(cases[i].name, cases[i].flags, 0);
		say(box, hello_bytes, hello_len);
		if (!CHECK(WAIT_FOR(world_count(cases[i].kind) > before)))
			tap_print("# case %zu: kind %d\n", i, (int)world.denied.kind);
		CHECK_INT(end_of(box), cases[i].kind == DENIAL_MALFORMED ? ECONNRESET : 0);
	}
	CHECK_INT(world.questions, 0);
	world_end();
}

static void a_hello_in_pieces_is_read_as_a_whole(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;
	char got[4096];

	if (!begin())
		return;
	POLICY("allow https api.test -");
	server = serve(WORLD_SERVER, 443);
	box = box_connect("api.test", 443);
	hello_make("api.test", 0, 20); /* bytes per record */
	for (size_t i = 0; i < hello_len; i += 37) {
		say(box, hello_bytes + i, hello_len - i < 37 ? hello_len - i : 37);
		turn();
	}
	if (CHECK((far = accepted(server)) >= 0))
		CHECK_INT(read_all(far, got, hello_len), hello_len);
	world_end();
}

static void what_is_neither_tls_nor_http_needs_a_tcp_rule(void)
{
	AUTO_FD int box = -EBADF;

	if (!begin())
		return;
	POLICY("allow https api.test -");
	box = box_connect("api.test", 443);
	say(box, "SSH-2.0-x\r\n", 11);
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK_INT(world.denied.kind, DENIAL_PROTOCOL);
	CHECK_INT(world.questions, 0);
	world_end();
}

static void a_budget_ends_where_it_ends(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF, again = -EBADF;
	char bytes[4096] = "", got[4096];

	if (!begin())
		return;
	POLICY("allow tcp 10.1.2.3 7000 up=1000");
	server = serve(WORLD_LAN, 7000);
	box = box_connect(WORLD_LAN, 7000);
	say(box, bytes, 4096);
	if (CHECK((far = accepted(server)) >= 0)) {
		ssize_t n = read_all(far, got, sizeof(got));

		CHECK(n == 1000 || n == -ECONNRESET);
		CHECK_INT(world.denied.kind, DENIAL_BUDGET);
		CHECK_STR(world.denied.rule, "t/1");
		CHECK_INT(world.allowed_up, 1000);
	}
	/* A new generation of the policy refills nothing. */
	POLICY("allow tcp 10.1.2.3 7000 up=1000");
	again = box_connect(WORLD_LAN, 7000);
	CHECK_INT(end_of(again), ECONNRESET);
	world_end();
}

static void a_new_policy_cuts_what_it_no_longer_allows(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF, box2 = -EBADF, far2 = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp db.test 5432", "allow tcp 10.1.2.3 5432");
	server = serve(WORLD_SERVER, 5432);
	box = box_connect("db.test", 5432);
	CHECK((far = accepted(server)) >= 0);
	closep(&server);
	server = serve(WORLD_LAN, 5432);
	box2 = box_connect(WORLD_LAN, 5432);
	CHECK((far2 = accepted(server)) >= 0);
	POLICY("allow tcp 10.1.2.3 5432");
	/* Before the call returned. */
	CHECK_INT(world.engine->flows_n, 1);
	CHECK_INT(world.denied_n, 1);
	CHECK_STR(world.denied.name, "db.test");
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK_INT(end_of(far), ECONNRESET);
	say(box2, "still", 5);
	says(far2, "still");
	world_end();
}

static int asking(struct egress_ask *ret)
{
	int box = box_connect("db.test", 5432);

	CHECK(WAIT_FOR(world.asked_n > 0));
	world.asked_n = 0;
	*ret = world.ask;
	CHECK_STR(ret->what.name, "db.test");
	CHECK_INT(ret->what.port, 5432);
	return box;
}

static void an_ask_waits_for_its_answer(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF, box2 = -EBADF, far2 = -EBADF;
	struct egress_ask ask;

	if (!begin())
		return;
	POLICY("ask tcp db.test 5432");
	server = serve(WORLD_SERVER, 5432);
	box = asking(&ask);
	CHECK_INT(world.questions, 0);
	CHECK_INT(egress_answer(world.engine, ask.id, EGRESS_ASK_DENY, &world_err), 0);
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK_INT(world.denied.kind, DENIAL_ASK);
	CHECK_INT(egress_answer(world.engine, ask.id, EGRESS_ASK_DENY, &world_err), -ENOENT);
	closep(&box);
	box = asking(&ask);
	CHECK_INT(egress_answer(world.engine, ask.id, EGRESS_ASK_ONCE, &world_err), 0);
	CHECK((far = accepted(server)) >= 0);
	box2 = asking(&ask);
	CHECK_INT(egress_answer(world.engine, ask.id, EGRESS_ASK_BOX, &world_err), 0);
	CHECK((far2 = accepted(server)) >= 0);
	/* From now on nobody is asked. */
	closep(&far2);
	closep(&box2);
	box2 = box_connect("db.test", 5432);
	CHECK((far2 = accepted(server)) >= 0);
	CHECK_INT(world.asked_n, 0);
	world_end();
}

static void an_ask_is_over_when_its_client_hangs_up(void)
{
	AUTO_FD int box = -EBADF;
	struct egress_ask ask;

	if (!begin())
		return;
	POLICY("ask tcp db.test 5432");
	box = asking(&ask);
	closep(&box);
	CHECK(WAIT_FOR(world.over_n == 1));
	CHECK_INT(egress_answer(world.engine, ask.id, EGRESS_ASK_ONCE, &world_err), -ENOENT);
	CHECK_INT(world.engine->flows_n, 0);
	world_end();
}

/* ---- clients that know of a proxy ---- */

static void connect_names_its_target(void)
{
	static const char ask[] = "CONNECT db.test:5432 HTTP/1.1\r\nHost: db.test:5432\r\n\r\n";
	static const char no[] = "CONNECT evil.test:22 HTTP/1.1\r\nHost: evil.test:22\r\n\r\n";
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp db.test 5432");
	server = serve(WORLD_SERVER, 5432);
	box = box_open("127.0.0.1", ROAD_PORT, SOCK_STREAM);
	say(box, ask, sizeof(ask) - 1);
	says(box, "HTTP/1.1 200 Connection established\r\n\r\n");
	say(box, "q", 1);
	if (CHECK((far = accepted(server)) >= 0))
		says(far, "q");
	closep(&box);
	box = box_open("::1", ROAD_PORT, SOCK_STREAM);
	say(box, no, sizeof(no) - 1);
	says(box, "HTTP/1.1 403 ");
	CHECK_INT(end_of(box), 0);
	CHECK_STR(world.denied.name, "evil.test");
	CHECK_INT(world.denied.port, 22);
	world_end();
}

static void socks5_names_its_target(void)
{
	static const char greeting[] = {5, 2, 0, 2};
	static const char request[] = "\5\1\0\3\7db.test\x15\x38";
	static const char denied[] = "\5\1\0\1\x0a\1\2\3\0\x16"; /* 10.1.2.3:22 */
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;
	char got[16];

	if (!begin())
		return;
	POLICY("allow tcp db.test 5432");
	server = serve(WORLD_SERVER, 5432);
	box = box_open("127.0.0.1", ROAD_PORT, SOCK_STREAM);
	say(box, greeting, 4);
	CHECK(read_all(box, got, 2) == 2 && memcmp(got, "\5\0", 2) == 0);
	say(box, request, sizeof(request) - 1);
	CHECK(read_all(box, got, 10) == 10 && memcmp(got, "\5\0\0\1", 4) == 0);
	say(box, "q", 1);
	if (CHECK((far = accepted(server)) >= 0))
		says(far, "q");
	closep(&box);
	box = box_open("127.0.0.1", ROAD_PORT, SOCK_STREAM);
	say(box, greeting, 4);
	CHECK(read_all(box, got, 2) == 2);
	say(box, denied, sizeof(denied) - 1);
	CHECK(read_all(box, got, 10) == 10 && memcmp(got, "\5\2", 2) == 0);
	CHECK_STR(world.denied.name, WORLD_LAN);
	world_end();
}

static void garbage_to_the_proxy_ends_that_connection_only(void)
{
	static const char *const garbage[] = {"\x16\x03\x01\x00\x05", "\5\0", "\4\1\0\x50\1\2\3\4",
		"GET / HTTP/1.1\r\n\r\n", "CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT 0x7f.1:80 HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT a.test:99999 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "\n\n\n", "CONNECT \n\n"};

	if (!begin())
		return;
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		AUTO_FD int box = box_open("127.0.0.1", ROAD_PORT, SOCK_STREAM);
		size_t n = garbage[i][0] == 5 ? 2 : garbage[i][0] == 4 ? 8 : strlen(garbage[i]);
		int end;

		say(box, garbage[i], i == 0 ? 5 : n);
		end = end_of(box);
		CHECK(end == 0 || end == ECONNRESET);
	}
	CHECK_INT(world.engine->flows_n, 0);
	world_end();
}

static void bulk_arrives_whole_and_in_order(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;
	static unsigned char out[1 << 16], in[1 << 16];
	uint64_t sent = 0, got = 0, total = 24u << 20;
	bool is_same = true;

	if (!begin())
		return;
	POLICY("allow tcp 10.1.2.3 7000");
	server = serve(WORLD_LAN, 7000);
	box = box_connect(WORLD_LAN, 7000);
	CHECK((far = accepted(server)) >= 0);
	for (int idle = 0; got < total && idle < 1000;) {
		ssize_t n;

		for (size_t i = 0; i < sizeof(out); i++)
			out[i] = (unsigned char)((sent + i) * 7 >> 3);
		n = sent < total ? write(far, out,
					   total - sent < sizeof(out) ? total - sent : sizeof(out))
				 : -1;
		sent += n > 0 ? (uint64_t)n : 0;
		(void)loop_once(world.loop, 0, &world_err);
		while ((n = read(box, in, sizeof(in))) > 0) {
			for (ssize_t i = 0; i < n; i++)
				is_same &= in[i] == (unsigned char)((got + (uint64_t)i) * 7 >> 3);
			got += (uint64_t)n;
			idle = 0;
		}
		idle++;
	}
	CHECK_INT(got, total);
	CHECK(is_same);
	/* Nothing is held while nothing moves. */
	CHECK(WAIT_FOR(world.engine->totals.bytes_down == total));
	world_end();
}

static void a_box_that_goes_takes_everything_with_it(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF, waiting = -EBADF, asked = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp 10.1.2.3 7000", "ask tcp db.test 5432", "allow - api.test -");
	server = serve(WORLD_LAN, 7000);
	box = box_connect(WORLD_LAN, 7000);
	CHECK((far = accepted(server)) >= 0);
	waiting = box_connect("api.test", 443); /* says nothing */
	asked = box_connect("db.test", 5432);
	CHECK(WAIT_FOR(world.asked_n == 1 && world.engine->flows_n == 3));
	egress_box_remove(world.engine, BOX);
	CHECK_INT(world.engine->flows_n, 0);
	CHECK_INT(world.over_n, 1);
	CHECK_INT(end_of(far), ECONNRESET);
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK_INT(end_of(waiting), ECONNRESET);
	world_end();
}

int main(void)
{
	if (!world_enter()) {
		tap_print("# %s\n", world_err.msg);
		return 1;
	}
	RUN(an_allowed_address_is_reached_and_bytes_go_both_ways);
	RUN(an_address_that_no_rule_names_is_reset);
	RUN(a_server_that_speaks_first_is_heard_by_a_tcp_rule);
	RUN(a_denied_name_is_told_an_address_and_never_looked_up);
	RUN(tls_to_an_allowed_name_goes_through_untouched);
	RUN(a_hello_must_agree_with_the_name);
	RUN(a_hello_in_pieces_is_read_as_a_whole);
	RUN(what_is_neither_tls_nor_http_needs_a_tcp_rule);
	RUN(a_budget_ends_where_it_ends);
	RUN(a_new_policy_cuts_what_it_no_longer_allows);
	RUN(an_ask_waits_for_its_answer);
	RUN(an_ask_is_over_when_its_client_hangs_up);
	RUN(connect_names_its_target);
	RUN(socks5_names_its_target);
	RUN(garbage_to_the_proxy_ends_that_connection_only);
	RUN(bulk_arrives_whole_and_in_order);
	RUN(a_box_that_goes_takes_everything_with_it);
	return tap_done();
}
