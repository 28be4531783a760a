/* SPDX-License-Identifier: Apache-2.0 */

/* egress: where a name leads, and what is dialled; with a name server that lies. As any user. */
#include "egress_world.h"

static const struct world_name names[] = {
	{.name = "good.test", .addrs = {WORLD_SERVER}},
	{.name = "lan.test", .addrs = {WORLD_LAN}},
	{.name = "mixed.test", .addrs = {WORLD_LAN, WORLD_SERVER}},
	{.name = "second.test", .addrs = {WORLD_OTHER, WORLD_SERVER}},
	{.name = "loop.test", .addrs = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}},
	{.name = "meta.test", .addrs = {"169.254.169.254"}, .cname = "instance.internal"},
	{.name = "nat64.test", .addrs = {"64:ff9b::a01:203"}},
	{.name = "rebind.test", .addrs = {WORLD_SERVER}, .then = WORLD_LAN},
	{.name = "none.test", .how = DNS_SAYS_NO},
	{.name = "empty.test", .how = DNS_EMPTY},
	{.name = "garbage.test", .how = DNS_GARBAGE, .addrs = {WORLD_SERVER}},
	{.name = "silent.test", .how = DNS_SILENT},
	{.name = "spoofed.test", .how = DNS_OTHER_ID, .addrs = {WORLD_SERVER}},
	{.name = "proxy.test", .addrs = {WORLD_OTHER}},
	{0},
};

static bool begin(void)
{
	world.names = names;
	return world_begin();
}

static void a_name_leads_to_its_address(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp good.test 7000");
	server = serve(WORLD_SERVER, 7000);
	box = box_connect("good.test", 7000);
	CHECK((far = accepted(server)) >= 0);
	CHECK_INT(world.questions, 2); /* A and AAAA */
	closep(&far);
	closep(&box);
	/* Known for as long as it says. */
	box = box_connect("good.test", 7000);
	CHECK((far = accepted(server)) >= 0);
	CHECK_INT(world.questions, 2);
	world_end();
}

static void a_name_must_not_lead_inside(void)
{
	static const char *const bad[] = {"lan.test", "loop.test", "meta.test", "nat64.test"};
	AUTO_FD int server = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp * 7000");
	server = serve(WORLD_LAN, 7000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		AUTO_FD int box = box_connect(bad[i], 7000);

		if (!CHECK_INT(end_of(box), ECONNRESET) ||
			!CHECK_INT(world.denied.kind, DENIAL_ADDRESS))
			tap_print("# %s: %s\n", bad[i], world.denied.reason);
		CHECK_STR(world.denied.name, bad[i]);
	}
	CHECK(came(server) < 0);
	world_end();
}

static void an_inside_address_that_a_rule_names_is_fine(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp lan.test 7000", "allow tcp 10.1.0.0/16 7000");
	server = serve(WORLD_LAN, 7000);
	box = box_connect("lan.test", 7000);
	CHECK((far = accepted(server)) >= 0);
	world_end();
}

static void the_address_that_may_be_dialled_is_taken(void)
{
	AUTO_FD int server = -EBADF, lan = -EBADF, box = -EBADF, far = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp mixed.test 7000");
	server = serve(WORLD_SERVER, 7000);
	lan = serve(WORLD_LAN, 7000);
	box = box_connect("mixed.test", 7000);
	CHECK((far = accepted(server)) >= 0);
	CHECK(came(lan) < 0);
	world_end();
}

static void an_address_that_refuses_is_followed_by_the_next(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp second.test 7000");
	server = serve(WORLD_SERVER, 7000); /* nobody listens at the other one */
	box = box_connect("second.test", 7000);
	CHECK((far = accepted(server)) >= 0);
	world_end();
}

static void a_denied_network_is_not_reached_by_name_either(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp good.test 7000", "deny tcp 93.184.216.0/24 7000");
	server = serve(WORLD_SERVER, 7000);
	box = box_connect("good.test", 7000);
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK_INT(world.denied.kind, DENIAL_RULE);
	CHECK_STR(world.denied.rule, "t/2");
	CHECK(came(server) < 0);
	world_end();
}

static void our_own_addresses_are_not_dialled(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF;
	struct address_net own;

	CHECK(address_net_parse(WORLD_SERVER, strlen(WORLD_SERVER), &own));
	world.config.own = &own;
	world.config.own_n = 1;
	if (!begin())
		return;
	POLICY("allow tcp good.test 7000");
	server = serve(WORLD_SERVER, 7000);
	box = box_connect("good.test", 7000);
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK_INT(world.denied.kind, DENIAL_ADDRESS);
	CHECK(came(server) < 0);
	world_end();
}

static void a_name_that_changes_its_mind_is_judged_again(void)
{
	AUTO_FD int server = -EBADF, lan = -EBADF, box = -EBADF, far = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp rebind.test 7000");
	server = serve(WORLD_SERVER, 7000);
	lan = serve(WORLD_LAN, 7000);
	box = box_connect("rebind.test", 7000);
	CHECK((far = accepted(server)) >= 0);
	closep(&box);
	/* The name server says something else from now on; what is known lasts for a second. */
	for (int i = 0; i < 20 && world.denied_n == 0; i++) {
		closep(&box);
		closep(&far);
		box = box_connect("rebind.test", 7000);
		(void)usleep(100000);
		turn();
		turn();
		far = came(server);
	}
	CHECK_INT(world.denied.kind, DENIAL_ADDRESS);
	CHECK(came(lan) < 0);
	world_end();
}

static void a_name_that_cannot_be_found_is_no_violation(void)
{
	static const char *const bad[] = {"none.test", "empty.test"};

	if (!begin())
		return;
	POLICY("allow tcp * 7000");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		AUTO_FD int box = box_connect(bad[i], 7000);

		if (!CHECK_INT(end_of(box), ECONNRESET))
			tap_print("# %s\n", bad[i]);
	}
	CHECK_INT(world.denied_n, 0);
	CHECK_INT(world.engine->flows_n, 0);
	world_end();
}

static void a_name_server_without_an_answer_to_us_ends_in_time(void)
{
	AUTO_FD int box = -EBADF, spoofed = -EBADF, garbage = -EBADF;

	if (!begin())
		return;
	POLICY("allow tcp * 7000");
	box = box_connect("silent.test", 7000);
	spoofed = box_connect("spoofed.test", 7000);
	garbage = box_connect("garbage.test", 7000);
	for (int i = 0; i < 5 && world.engine->flows_n > 0; i++)
		(void)WAIT_FOR(world.engine->flows_n == 0);
	CHECK_INT(world.engine->flows_n, 0);
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK_INT(end_of(spoofed), ECONNRESET);
	CHECK_INT(end_of(garbage), ECONNRESET);
	world_end();
}

/* ---- an upstream proxy ---- */

static void an_upstream_proxy_is_told_the_name(void)
{
	static const char asked[] = "CONNECT far.test:7000 HTTP/1.1\r\nHost: far.test:7000\r\n"
				    "Proxy-Authorization: Basic dTpwQHNz\r\n\r\n";
	AUTO_FD int proxy = -EBADF, box = -EBADF, far = -EBADF, direct = -EBADF, good = -EBADF;

	world.config.upstream_proxy = "http://u:p%40ss@proxy.test:3128";
	world.config.no_proxy = "*.corp.test,good.test,10.0.0.0/8";
	if (!begin())
		return;
	POLICY("allow tcp far.test 7000", "allow tcp good.test 7000");
	proxy = serve(WORLD_OTHER, 3128);
	box = box_connect("far.test", 7000);
	say(box, "q", 1);
	if (CHECK((far = accepted(proxy)) >= 0)) {
		says(far, asked);
		CHECK_STR(world.asked_name, "proxy.test");
		say(far, "HTTP/1.1 200 fine\r\nVia: x\r\n\r\nfirst", 34);
		says(far, "q");
		says(box, "first");
	}
	direct = serve(WORLD_SERVER, 7000);
	good = box_connect("good.test", 7000);
	closep(&far);
	CHECK((far = accepted(direct)) >= 0);
	world_end();
}

static void an_upstream_proxy_that_says_no_is_no_violation(void)
{
	AUTO_FD int proxy = -EBADF, box = -EBADF, far = -EBADF;

	world.config.upstream_proxy = "http://" WORLD_OTHER ":3128";
	if (!begin())
		return;
	POLICY("allow tcp far.test 7000");
	proxy = serve(WORLD_OTHER, 3128);
	box = box_connect("far.test", 7000);
	if (CHECK((far = accepted(proxy)) >= 0)) {
		say(far, "HTTP/1.1 407 who are you\r\nContent-Length: 0\r\n\r\n", 47);
		CHECK_INT(end_of(box), ECONNRESET);
	}
	CHECK_INT(world.denied_n, 0);
	world_end();
}

static void a_socks_proxy_is_told_the_name(void)
{
	AUTO_FD int proxy = -EBADF, box = -EBADF, far = -EBADF;
	char got[64];

	world.config.upstream_proxy = "socks5://user:secret@" WORLD_OTHER ":1080";
	if (!begin())
		return;
	POLICY("allow tcp far.test 7000");
	proxy = serve(WORLD_OTHER, 1080);
	box = box_connect("far.test", 7000);
	if (CHECK((far = accepted(proxy)) >= 0)) {
		CHECK(read_all(far, got, 3) == 3 && memcmp(got, "\5\1\2", 3) == 0);
		say(far, "\5\2", 2);
		CHECK(read_all(far, got, 13) == 13 && memcmp(got, "\1\4user\6secret", 13) == 0);
		say(far, "\1\0", 2);
		CHECK(read_all(far, got, 15) == 15 && memcmp(got,
							      "\5\1\0\3\x08"
							      "far.test\x1b\x58",
							      15) == 0);
		say(far, "\5\0\0\1\0\0\0\0\0\0first", 15);
		says(box, "first");
		say(box, "q", 1);
		says(far, "q");
	}
	world_end();
}

static void a_proxy_that_is_none_is_refused_at_the_start(void)
{
	static const char *const bad[] = {"proxy.test:3128", "https://proxy.test:1",
		"http://proxy.test", "http://a b:1", "http://x:0", "socks5://u:p@"};
	struct loop *loop = NULL;

	CHECK(loop_create(&loop, &world_err) >= 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct egress_config c = {.upstream_proxy = bad[i], .resolvers = WORLD_DNS};
		struct egress *e = NULL;

		CHECK_INT(egress_create(loop, &c, &world_events, NULL, &e, &world_err), -EINVAL);
		CHECK(!strstr(world_err.msg, "u:p"));
	}
	{
		struct egress_config c = {.resolvers = "not-an-address"};
		struct egress *e = NULL;

		CHECK_INT(egress_create(loop, &c, &world_events, NULL, &e, &world_err), -EINVAL);
	}
	loop = loop_free(loop);
}

int main(void)
{
	if (!world_enter()) {
		tap_print("# %s\n", world_err.msg);
		return 1;
	}
	RUN(a_name_leads_to_its_address);
	RUN(a_name_must_not_lead_inside);
	RUN(an_inside_address_that_a_rule_names_is_fine);
	RUN(the_address_that_may_be_dialled_is_taken);
	RUN(an_address_that_refuses_is_followed_by_the_next);
	RUN(a_denied_network_is_not_reached_by_name_either);
	RUN(our_own_addresses_are_not_dialled);
	RUN(a_name_that_changes_its_mind_is_judged_again);
	RUN(a_name_that_cannot_be_found_is_no_violation);
	RUN(a_name_server_without_an_answer_to_us_ends_in_time);
	RUN(an_upstream_proxy_is_told_the_name);
	RUN(an_upstream_proxy_that_says_no_is_no_violation);
	RUN(a_socks_proxy_is_told_the_name);
	RUN(a_proxy_that_is_none_is_refused_at_the_start);
	return tap_done();
}
