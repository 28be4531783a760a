/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/explain: targets as people write them, and one answer for all who ask.
 */
#include "core/explain.h"

#include "tap.h"

#include <jansson.h>

static void targets_are_read(void)
{
	static const struct {
		const char *method, *target, *name;
		uint16_t port;
		unsigned protocol;
		const char *ret_method, *path;
	} table[] = {
		{NULL, "https://PyPI.org/simple/?x=1#y", "pypi.org", 443, POLICY_HTTPS, "GET",
			"/simple/"},
		{"post", "http://a.test:8080", "a.test", 8080, POLICY_HTTP, "POST", "/"},
		{NULL, "wss://a.test/s", "a.test", 443, POLICY_HTTPS | POLICY_WS, "GET", "/s"},
		{NULL, "ws://a.test", "a.test", 80, POLICY_HTTP | POLICY_WS, "GET", "/"},
		{NULL, "tcp://db.test:5432", "db.test", 5432, POLICY_TCP, "", ""},
		{NULL, "a.test", "a.test", 443, POLICY_HTTPS, "GET", "/"},
		{NULL, "a.test:80", "a.test", 80, POLICY_HTTP, "GET", "/"},
		{NULL, "a.test:22", "a.test", 22, POLICY_TCP, "", ""},
		{NULL, "a.test:8443/x", "a.test", 8443, POLICY_HTTPS, "GET", "/x"},
		{NULL, "10.0.0.1:80", "", 80, POLICY_HTTP, "GET", "/"},
		{NULL, "[::1]:80", "", 80, POLICY_HTTP, "GET", "/"},
		{NULL, "::1", "", 443, POLICY_HTTPS, "GET", "/"},
		{NULL, "https://[2606:4700::1]/x", "", 443, POLICY_HTTPS, "GET", "/x"},
	};
	static const char *const bad[] = {"", "ftp://a.test", "https://", "a.test:0",
		"a.test:", "a.test:x", "a.test:1-2", "tcp://a.test", "tcp://a.test:1/x", "a b",
		"127.1", "https://a_b-/", "[::1", "user@a.test", "a.test/\x1b"};
	struct err err = {0};
	struct explain_target t;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!CHECK_INT(explain_parse(table[i].method, table[i].target, &t, &err), 0)) {
			tap_print("# %s\n", err.msg);
			continue;
		}
		CHECK_STR(t.name, table[i].name);
		CHECK_INT(t.port, table[i].port);
		CHECK_INT(t.protocol, table[i].protocol);
		CHECK_STR(t.method, table[i].ret_method);
		CHECK_STR(t.path, table[i].path);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!CHECK_INT(explain_parse(NULL, bad[i], &t, &err), -EINVAL))
			tap_print("# '%s' was taken\n", bad[i]);
	}
	CHECK_INT(explain_parse("G ET", "a.test", &t, &err), -EINVAL);
	CHECK_INT(explain_parse("GET", "tcp://a.test:1", &t, &err), -EINVAL);
}

static void the_answer_names_rule_and_reason(void)
{
	static const char json[] = "{\"name\":\"p\",\"rules\":[{\"action\":\"allow\",\"hosts\":["
				   "\"a.test\"],\"credentials\":["
				   "{\"secret\":\"s\",\"header\":\"A\"}]},{\"action\":\"ask\","
				   "\"hosts\":[\"b.test\"]},{"
				   "\"action\":\"deny\",\"hosts\":[\"c.test\"],\"reason\":\"no\"},{"
				   "\"action\":\"allow\","
				   "\"hosts\":[\"d.test\"],\"programs\":[\"/usr/bin/git\"]}]}";
	static const struct {
		const char *target, *verdict, *text;
	} table[] = {
		{"https://a.test/", "allow",
			"GET https://a.test:443/ allowed by rule p/1; looked into, credentials go "
			"in"},
		{"https://b.test/", "ask", "GET https://b.test:443/ is asked about by rule p/2"},
		{"https://c.test/", "deny", "GET https://c.test/ refused by rule p/3: no; do"},
		{"https://d.test/", "depends", "depends on the program"},
		{"https://e.test/", "deny", "refused: no rule allows it"},
	};
	AUTO(policy_unref) struct policy *p = NULL;
	struct explain_target t;
	struct explain_answer a;
	struct err err = {0};

	CHECK_INT(policy_from_json(json, strlen(json), &p, &err), 0);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		AUTO_FREE char *text = NULL;
		json_t *o;

		CHECK_INT(explain_parse(NULL, table[i].target, &t, &err), 0);
		explain_decide(p, &t, NULL, &a);
		CHECK_STR(a.verdict, table[i].verdict);
		if (!CHECK(strstr(a.text, table[i].text) != NULL))
			tap_print("# %s\n", a.text);
		text = explain_json(p, &t, NULL);
		o = json_loads(text, 0, NULL);
		CHECK_STR(json_string_value(json_object_get(o, "verdict")), table[i].verdict);
		CHECK_STR(json_string_value(json_object_get(o, "message")), a.text);
		json_decref(o);
	}
	CHECK_INT(explain_parse(NULL, "d.test", &t, &err), 0);
	explain_decide(p, &t, "/usr/bin/git", &a);
	CHECK_STR(a.verdict, "allow");
}

int main(void)
{
	RUN(targets_are_read);
	RUN(the_answer_names_rule_and_reason);
	return tap_done();
}
