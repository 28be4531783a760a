/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/policy: names, paths, building, JSON. Deciding is in test_policy_decide.c.
 */
#include "core/policy.h"

#include "base/mem.h"
#include "core/policy_build.h"
#include "core/policy_path.h"
#include "tap.h"

static void names_are_cleaned_or_refused(void)
{
	static const struct {
		const char *in, *out; /* out NULL: refused */
	} table[] = {
		{"pypi.org", "pypi.org"},
		{"PyPI.ORG", "pypi.org"},
		{"pypi.org.", "pypi.org"},
		{"localhost", "localhost"},
		{"_dmarc.example.com", "_dmarc.example.com"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"1.example", "1.example"},
		{"0x.example", "0x.example"},
		{"", NULL},
		{".", NULL},
		{"pypi.org..", NULL},
		{".pypi.org", NULL},
		{"pypi..org", NULL},
		{"-a.example", NULL},
		{"a-.example", NULL},
		{"a.example-", NULL},
		{"b\xc3\xbc.example", NULL},
		{"a b.example", NULL},
		{"a/b", NULL},
		{"a:80", NULL},
		{"*.example", NULL},
		{"127.0.0.1", NULL},
		{"2130706433", NULL},
		{"0x7f000001", NULL},
		{"0x7f.1", NULL},
		{"0177.0.0.1", NULL},
		{"127.1", NULL},
		{"example.0x10", NULL},
		{"[::1]", NULL},
	};
	char out[POLICY_NAME_MAX + 1], long_name[300];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int r = policy_clean_name(table[i].in, strlen(table[i].in), out);

		if (!CHECK_INT(r, table[i].out ? 0 : -EINVAL))
			tap_print("# '%s'\n", table[i].in);
		else if (table[i].out)
			CHECK_STR(out, table[i].out);
	}
	memset(long_name, 'a', sizeof(long_name));
	CHECK_INT(policy_clean_name(long_name, 63, out), 0);
	CHECK_INT(policy_clean_name(long_name, 64, out), -EINVAL);
	for (size_t i = 50; i < sizeof(long_name); i += 50)
		long_name[i] = '.';
	CHECK_INT(policy_clean_name(long_name, 253, out), 0);
	CHECK_INT(policy_clean_name(long_name, 254, out), -EINVAL);
	CHECK_INT(policy_clean_name("a\0b", 3, out), -EINVAL);
}

static void globs_match_within_and_across_segments(void)
{
	static const struct {
		const char *glob, *path;
		bool fits;
	} table[] = {
		{"/simple/", "/simple/", true},
		{"/simple/", "/simple", false},
		{"/simple/*", "/simple/requests", true},
		{"/simple/*", "/simple/", true},
		{"/simple/*", "/simple/a/b", false},
		{"/simple/**", "/simple/a/b", true},
		{"/simple/**", "/simple/", true},
		{"/simple/**", "/simpleton", false},
		{"/**", "/", true},
		{"**", "*", true},
		{"/*/info/refs", "/a/info/refs", true},
		{"/*/info/refs", "/a/b/info/refs", false},
		{"/**/info/refs", "/a/b/info/refs", true},
		{"/a*b*c", "/axbxbxc", true},
		{"/a*b*c", "/axbxb/c", false},
		{"/a**c", "/ax/yc", true},
		{"/a?c", "/abc", true},
		{"/a?c", "/a/c", false},
		{"/*.git/**", "/x.git/objects/1", true},
		{"/***/x", "/a/b/x", true},
		{"/a%2Fb", "/a/b", false},
		{"", "", true},
		{"", "/", false},
	};
	AUTO_FREE char *hard = mem_must(calloc(1, 8001));

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!CHECK(policy_path_matches(table[i].glob, table[i].path) == table[i].fits))
			tap_print("# %s %s\n", table[i].glob, table[i].path);
	}
	/* Backtracking matchers take for ever here. */
	memset(hard, 'a', 8000);
	hard[0] = '/';
	CHECK(!policy_path_matches("/**a*a*a*a*a*a*a*a**a*a*a*a*a*a*b", hard));
}

static bool surely(const char *glob, const char *path)
{
	char *v[] = {mem_strdup(glob), NULL};
	struct strv globs = {v, 1};
	bool fits = policy_paths_surely(&globs, path);

	free(v[0]);
	return fits;
}

static bool perhaps(const char *glob, const char *path)
{
	char *v[] = {mem_strdup(glob), NULL};
	struct strv globs = {v, 1};
	bool fits = policy_paths_perhaps(&globs, path);

	free(v[0]);
	return fits;
}

static void paths_of_two_readings_are_not_clear(void)
{
	static const char *const unclear[] = {"/a/../b", "/a/..", "/..", "/./a", "/a/%2e%2e/b",
		"/a/%2E./b", "/a/..%2fb", "/a%2f..%2fb", "/a/%252e%252e/b", "/a/%25252e%25252e/b",
		"/a/..;x=1/b", "/a\\..\\b", "/a%5cb", "/a%00b", "/a%", "/a%2", "/a%zz", "a/b", "",
		"http://x/", "/a\x01", "/a/%c0%ae%c0%ae/", "/%c1%9c", "/a%0d%0ab"};
	static const char *const clear[] = {"/", "*", "/a/b", "/a//b", "/a%2Fb", "/a%20b", "/...",
		"/a..b/", "/.well-known/x", "/a;b=1/c", "/%E2%9C%93", "/a%25b", "/100%25",
		"/~x/a+b"};

	for (size_t i = 0; i < sizeof(unclear) / sizeof(unclear[0]); i++) {
		if (!CHECK(!policy_path_is_clear(unclear[i])))
			tap_print("# %s\n", unclear[i]);
		CHECK(!surely("/**", unclear[i]));
		CHECK(perhaps("/nothing/like/it", unclear[i]));
	}
	for (size_t i = 0; i < sizeof(clear) / sizeof(clear[0]); i++) {
		if (!CHECK(policy_path_is_clear(clear[i])))
			tap_print("# %s\n", clear[i]);
	}
}

static void a_rule_that_allows_is_read_narrowly_and_one_that_denies_widely(void)
{
	AUTO_FREE char *long_path = mem_must(calloc(1, POLICY_PATH_MAX + 2));

	CHECK(surely("/owner/repo/**", "/owner/repo/x"));
	CHECK(surely("/owner/repo/**", "/owner/%72epo/x"));
	CHECK(!surely("/owner/*", "/owner//x/y"));
	CHECK(surely("/owner/**", "/owner//x"));
	CHECK(!surely("/a/*/c", "/a//c")); /* merged it is /a/c */
	CHECK(surely("/p/owner%2Frepo/**", "/p/owner%2frepo/x"));
	CHECK(!surely("/p/owner/repo/**", "/p/owner%2frepo/x"));

	CHECK(perhaps("/admin/**", "//admin/x"));
	CHECK(perhaps("/admin/**", "/%61dmin/x"));
	CHECK(perhaps("/admin/**", "/admin%2fx"));
	CHECK(perhaps("/admin", "/admin;jsessionid=1"));
	CHECK(!perhaps("/admin/**", "/public/admin"));

	memset(long_path, 'a', POLICY_PATH_MAX + 1);
	long_path[0] = '/';
	CHECK(!surely("/**", long_path));
	CHECK(perhaps("/b", long_path));
}

static int add(struct policy *p, enum policy_list list, const char *host, const char *action,
	struct err *err)
{
	struct policy_draft d = {0};

	CHECK_INT(policy_rule_host(&d.rule, host, err), 0);
	CHECK_INT(policy_rule_action(&d.rule, action, err), 0);
	return policy_add_rule(p, list, "t/1", &d, err);
}

static void fields_of_a_rule_are_checked(void)
{
	static const struct {
		int (*take)(struct policy_rule *r, const char *s, struct err *err);
		const char *good[6], *bad[12];
	} table[] = {
		{policy_rule_action, {"allow", "deny", "ask"}, {"", "Allow", "permit"}},
		{policy_rule_protocol, {"https", "http", "ws", "tcp"}, {"", "udp", "HTTPS"}},
		{policy_rule_host, {"pypi.org", "*.PyPI.org", "*", "10.0.0.0/8", "::1"},
			{"", "*.", "**.a", "a.*", "https://a", "a:80", "10.0.0.1/8", "127.1", "*.1",
				"[::1]", "a/b"}},
		{policy_rule_port, {"443", "1-65535", "8000-8001", "65535"},
			{"", "0", "65536", "80-", "-80", "9-8", "080", "http", "1-2-3", "+1"}},
		{policy_rule_method, {"GET", "get", "M-SEARCH"}, {"", "G ET", "GET/1", "*"}},
		{policy_rule_path, {"/", "/**", "**", "*", "/a%2Fb/?"},
			{"", "a", "/a//b", "/a/../b", "/.", "/a#b", "/a\\b", "/\n", "/\xff"}},
		{policy_rule_program, {"/usr/bin/git", "/usr/bin/*"}, {"", "git", "/../x", "*"}},
		{policy_rule_reason, {"read-only, please"}, {"", "two\nlines", "\x1b[2J"}},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct policy_rule r = {0};
		struct err err = {0};

		for (size_t j = 0; j < 6 && table[i].good[j]; j++) {
			if (!CHECK_INT(table[i].take(&r, table[i].good[j], &err), 0))
				tap_print("# %s: %s\n", table[i].good[j], err.msg);
		}
		for (size_t j = 0; j < 12 && table[i].bad[j]; j++) {
			if (!CHECK_INT(table[i].take(&r, table[i].bad[j], &err), -EINVAL))
				tap_print("# [%zu] '%s' was taken\n", i, table[i].bad[j]);
		}
		policy_rule_done(&r);
	}
}

static void a_rule_is_checked_as_a_whole(void)
{
	static const struct {
		const char *json, *why;
	} bad[] = {
		{"{\"rules\":[{\"action\":\"allow\"}]}", "needs 'hosts'"},
		{"{\"rules\":[{\"hosts\":[\"a.b\"]}]}", "'action' is missing"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"protocols\":[\"tcp\"]}]}",
			"tcp needs 'ports'"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"protocols\":[\"tcp\"],"
		 "\"ports\":[\"1\"],\"methods\":[\"GET\"]}]}",
			"cannot be seen in protocol tcp"},
		{"{\"rules\":[{\"action\":\"deny\",\"hosts\":[\"a.b\"],\"budget\":{\"requests\":1}}"
		 "]}",
			"a budget belongs"},
		{"{\"floor\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"credentials\":[{"
		 "\"secret\":\"s\",\"header\":\"A\"}]}]}",
			"a floor holds no credentials"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*\"],\"credentials\":[{"
		 "\"secret\":\"s\",\"header\":\"A\"}]}]}",
			"'*' would give them to anybody"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"credentials\":[{"
		 "\"header\":\"A\"}]}]}",
			"needs 'secret'"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"credentials\":[{"
		 "\"secret\":\"s\"}]}]}",
			"needs its place"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"credentials\":[{"
		 "\"secret\":\"s\",\"header\":\"A\",\"query\":\"k\"}]}]}",
			"one place"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"credentials\":[7]}]}",
			"no such credential"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"credentials\":[{"
		 "\"secret\":\"s\",\"header\":\"A: b\"}]}]}",
			"header 'A: b' is not accepted"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"paths\":[\"x\"]}]}",
			"policy: rules[0]: path 'x'"},
		{"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],\"host\":[\"x\"]}]}",
			"unknown field 'host'"},
		{"{\"rulez\":[]}", "unknown field 'rulez'"},
		{"{\"rules\":{}}", "'rules' must be a list"},
		{"{\"rules\":[3]}", "rules[0] must be an object"},
		{"{\"ask_timeout_ms\":1}", "ask_timeout_ms"},
		{"{\"budget\":{\"requests\":-1}}", "whole number"},
		{"{\"budget\":{\"requests\":1.5}}", "whole number"},
		{"{\"budget\":{\"per\":1}}", "unknown field 'per'"},
		{"{\"name\":\"\"}", "'name'"},
		{"{\"name\":1}", "'name'"},
		{"[]", "must be an object"},
		{"{", "not JSON"},
		{"{\"name\":\"a\",\"name\":\"b\"}", "not JSON: duplicate"},
	};
	struct policy *p = (struct policy *)0x1;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = {0};

		CHECK_INT(policy_from_json(bad[i].json, strlen(bad[i].json), &p, &err), -EINVAL);
		if (!CHECK(strstr(err.msg, bad[i].why) != NULL))
			tap_print("# %s: %s\n", bad[i].json, err.msg);
	}
	CHECK(p == (struct policy *)0x1);
}

static void caps_hold(void)
{
	AUTO(policy_unref) struct policy *p = policy_create("t");
	struct policy_rule r = {0};
	struct err err = {0};

	for (int i = 0; i < POLICY_HOSTS_MAX; i++)
		CHECK_INT(policy_rule_host(&r, "a.b", &err), 0);
	CHECK_INT(policy_rule_host(&r, "a.b", &err), -E2BIG);
	policy_rule_done(&r);
	for (int i = 0; i < POLICY_RULES_MAX; i++)
		CHECK_INT(add(p, i % 2 ? POLICY_FLOOR : POLICY_RULES, "a.b", "allow", &err), 0);
	CHECK_INT(add(p, POLICY_RULES, "a.b", "allow", &err), -E2BIG);
}

static const char whole[] =
	"{\"ask_timeout_ms\":5000,\"budget\":{\"bytes_up\":7},\"credentials\":[{\"env\":\"K\","
	"\"format\":\"Bearer {}\",\"header\":\"Authorization\",\"secret\":\"key\"}],\"floor\":[{"
	"\"action\":\"allow\",\"hosts\":[\"*\"],\"id\":\"floor/1\",\"protocols\":[\"https\"]}],"
	"\"name\":\"all\",\"rules\":[{\"action\":\"allow\",\"budget\":{\"bytes_down\":9,\"per_ms\":"
	"60000,\"requests\":3},\"credentials\":[0],\"hosts\":[\"a.test\",\"*.b.test\",\"10.0.0.0/"
	"8\"],\"id\":\"all/x\",\"methods\":[\"GET\",\"POST\"],\"paths\":[\"/v1/**\"],\"ports\":["
	"\"443\",\"8000-8999\"],\"programs\":[\"/usr/bin/*\"],\"protocols\":[\"https\",\"ws\"],"
	"\"reason\":\"because\"},{\"action\":\"deny\",\"hosts\":[\"*\"],\"id\":\"all/2\","
	"\"protocols\":[\"https\",\"http\",\"ws\",\"tcp\"]}]}";

static void json_comes_back_byte_for_byte(void)
{
	AUTO(policy_unref) struct policy *p = NULL;
	AUTO(policy_unref) struct policy *again = NULL;
	AUTO_FREE char *json = NULL;
	struct err err = {0};

	if (!CHECK_INT(policy_from_json(whole, strlen(whole), &p, &err), 0)) {
		tap_print("# %s\n", err.msg);
		return;
	}
	json = policy_to_json(p);
	CHECK_STR(json, whole);
	CHECK_INT(strlen(p->digest), 64);
	CHECK_INT(policy_from_json(json, strlen(json), &again, &err), 0);
	CHECK_STR(p->digest, again->digest);
	CHECK(p->rules[0].must_intercept && !p->rules[1].must_intercept);
	CHECK_INT(p->bindings[0].hosts.n, 3);
	CHECK_STR(p->bindings[0].hosts.v[1], "*.b.test");
}

static void appending_keeps_rules_bindings_and_the_smaller_budget(void)
{
	AUTO(policy_unref) struct policy *p = policy_create("sum");
	AUTO(policy_unref) struct policy *from = NULL;
	struct err err = {0};

	CHECK_INT(policy_from_json(whole, strlen(whole), &from, &err), 0);
	p->budget = (struct policy_budget){.bytes_up = 100, .requests = 5};
	CHECK_INT(policy_append(p, from, &err), 0);
	CHECK_INT(policy_append(p, from, &err), -EEXIST); /* a second floor */
	CHECK_INT(policy_set_floor(p, from, &err), -EEXIST);
	from->floor_n = 0;
	CHECK_INT(policy_append(p, from, &err), 0);
	from->floor_n = 1;
	CHECK_INT(p->rules_n, 4);
	CHECK_INT(p->floor_n, 1);
	CHECK_INT(p->bindings_n, 2);
	CHECK_INT(p->rules[2].bindings[0], 1);
	CHECK_INT(p->budget.bytes_up, 7);
	CHECK_INT(p->budget.requests, 5);
}

static void a_floor_without_rules_allows_nothing(void)
{
	AUTO(policy_unref) struct policy *p = policy_create("p");
	AUTO(policy_unref) struct policy *floor = policy_create("floor");
	AUTO(policy_unref) struct policy *keys = NULL;
	struct policy_question q = {.name = "a.b", .port = 443, .protocol = POLICY_HTTPS};
	struct policy_answer a;
	struct err err = {0};

	CHECK_INT(add(p, POLICY_RULES, "*", "allow", &err), 0);
	CHECK_INT(policy_set_floor(p, floor, &err), 0);
	policy_decide(p, &q, &a);
	CHECK(a.action == POLICY_DENY && a.by_floor && a.needs == 0);
	CHECK_INT(policy_from_json(whole, strlen(whole), &keys, &err), 0);
	keys->floor_n = 0;
	CHECK_INT(policy_set_floor(floor, keys, &err), -EINVAL); /* its rules hold credentials */
	keys->floor_n = 1;
}

static void credentials_go_over_tls_unless_told_otherwise(void)
{
	static const char json[] = "{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.b\"],"
				   "\"credentials\":[{\"secret\":\"s\",\"header\":\"A\"}]}]}";
	AUTO(policy_unref) struct policy *p = NULL;
	struct err err = {0};

	CHECK_INT(policy_from_json(json, strlen(json), &p, &err), 0);
	CHECK_INT(p->rules[0].protocols, POLICY_HTTPS | POLICY_WS);
	CHECK_STR(p->rules[0].id, "policy/1");
}

int main(void)
{
	RUN(names_are_cleaned_or_refused);
	RUN(globs_match_within_and_across_segments);
	RUN(paths_of_two_readings_are_not_clear);
	RUN(a_rule_that_allows_is_read_narrowly_and_one_that_denies_widely);
	RUN(fields_of_a_rule_are_checked);
	RUN(a_rule_is_checked_as_a_whole);
	RUN(caps_hold);
	RUN(json_comes_back_byte_for_byte);
	RUN(appending_keeps_rules_bindings_and_the_smaller_budget);
	RUN(a_floor_without_rules_allows_nothing);
	RUN(credentials_go_over_tls_unless_told_otherwise);
	return tap_done();
}
