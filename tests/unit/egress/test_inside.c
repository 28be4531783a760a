/* SPDX-License-Identifier: Apache-2.0 */

/* http://bawn.internal/: what a box is told about itself, and what asking for more leads to. */
#include "egress_world.h"

static const struct world_name names[] = {{.name = "more.test", .addrs = {WORLD_SERVER}}, {0}};

static const char *ask(const char *method, const char *path, const char *body, int status)
{
	static char text[8192];
	struct egress_flow f = {.box = box_find(world.engine, BOX)};
	struct inside_answer a;

	inside_answer(&f, method, path, body, strlen(body), "application/json", &a);
	if (!CHECK_INT(a.status, status))
		tap_print("# %s %s %s\n", method, path, body);
	(void)snprintf(text, sizeof(text), "%.*s", (int)buf_len(&a.body), buf_data(&a.body));
	buf_done(&a.body);
	return text;
}

static bool begin(void)
{
	world.names = names;
	return world_begin();
}

static void a_box_is_told_its_rules_limits_and_budgets(void)
{
	struct egress_box_info info = {.limits_json = "{\"cpus\":2}", .expires_ms = 77};

	if (!begin())
		return;
	POLICY("allow - api.test - method=GET up=1000");
	CHECK_INT(egress_box_info(world.engine, BOX, &info, &world_err), 0);
	CHECK(strstr(ask("GET", "/limits", "", 200), "\"cpus\": 2"));
	CHECK(strstr(ask("GET", "/limits", "", 200), "\"expires_at_ms\": 77"));
	CHECK(strstr(ask("GET", "/allowed?x", "", 200), "\"api.test\""));
	CHECK(strstr(ask("GET", "/budget", "", 200), "\"left\": 1000"));
	(void)box_lookup("evil.test", DNS_A);
	CHECK(strstr(ask("GET", "/violations", "", 200), "evil.test"));
	CHECK(strstr(ask("GET", "/", "", 200), "\"sandbox\": \"box1\""));
	(void)ask("GET", "/nothing", "", 404);
	(void)ask("PUT", "/", "", 405);
	(void)ask("GET", "/request", "", 405);
	world_end();
}

static void a_malformed_request_for_more_asks_nobody(void)
{
	static const char *const bad[] = {"", "[]", "{", "{\"host\":1}", "{\"host\":\"a b\"}",
		"{\"host\":\"10.0.0.1\"}", "{\"host\":\"a.test\",\"port\":0}",
		"{\"host\":\"a.test\",\"port\":65536}", "{\"host\":\"a.test\",\"methods\":\"GET\"}",
		"{\"host\":\"a.test\",\"methods\":[\"get\"]}",
		"{\"host\":\"a.test\",\"methods\":[\"GET\",\"PUT\",\"POST\",\"PATCH\"]}"};

	if (!begin())
		return;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		(void)ask("POST", "/request", bad[i], 400);
	CHECK_INT(world.asked_n, 0);
	world_end();
}

static void a_granted_request_is_allowed_from_then_on(void)
{
	AUTO_FD int server = -EBADF, box = -EBADF, far = -EBADF;

	if (!begin())
		return;
	POLICY("allow - api.test -", "deny tcp never.test 1-65535");
	box = box_connect("more.test", 7000);
	say(box, "x", 1);
	CHECK_INT(end_of(box), ECONNRESET);
	(void)ask("POST", "/request", "{\"host\":\"More.test\",\"port\":7000,\"reason\":\"why\"}",
		202);
	CHECK_INT(world.asked_n, 1);
	CHECK_STR(world.ask.what.name, "more.test");
	CHECK_STR(world.ask.note, "why");
	CHECK_INT(egress_answer(world.engine, world.ask.id, EGRESS_ASK_BOX, &world_err), 0);
	server = serve(WORLD_SERVER, 7000);
	closep(&box);
	box = box_connect("more.test", 7000);
	CHECK((far = accepted(server)) >= 0);
	world_end();
}

static void a_grant_is_weaker_than_a_rule_that_denies(void)
{
	AUTO_FD int box = -EBADF;

	if (!begin())
		return;
	POLICY("deny tcp more.test 1-65535");
	(void)ask("POST", "/request", "{\"host\":\"more.test\",\"port\":7000}", 202);
	CHECK_INT(egress_answer(world.engine, world.ask.id, EGRESS_ASK_BOX, &world_err), 0);
	box = box_connect("more.test", 7000);
	say(box, "x", 1);
	CHECK_INT(end_of(box), ECONNRESET);
	CHECK_INT(world.denied.kind, DENIAL_RULE);
	CHECK_INT(world.questions, 0);
	world_end();
}

int main(void)
{
	if (!world_enter()) {
		tap_print("# %s\n", world_err.msg);
		return 1;
	}
	RUN(a_box_is_told_its_rules_limits_and_budgets);
	RUN(a_malformed_request_for_more_asks_nobody);
	RUN(a_granted_request_is_allowed_from_then_on);
	RUN(a_grant_is_weaker_than_a_rule_that_denies);
	return tap_done();
}
