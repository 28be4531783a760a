/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/profile_network, core/profile_load: the network section, parents, files, the floor.
 */
#include "core/policy_build.h"
#include "core/profile_load.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>

static const struct profile_source source = {.file = "p.yaml",
	.cwd = "/work/dir",
	.home = "/home/u"};

static int read_yaml(const char *yaml, struct profile *ret, struct err *err)
{
	struct spec s;
	int r;

	spec_init(&s);
	r = profile_read(yaml, strlen(yaml), &source, &s, ret, err);
	spec_done(&s);
	return r;
}

static void refused(const char *yaml, const char *why)
{
	struct profile p = {0};
	struct err err = {0};

	CHECK(read_yaml(yaml, &p, &err) < 0);
	if (!CHECK(strstr(err.msg, why) != NULL))
		tap_print("# message is: %s\n", err.msg);
	profile_done(&p);
}

static void every_field_arrives_in_the_policy(void)
{
	static const char yaml[] = "network:\n"
				   "  rules:\n"
				   "    - name: api\n"
				   "      hosts: [api.test, '*.b.test', 10.0.0.0/8]\n"
				   "      ports: [443, 8000-8999]\n"
				   "      protocols: [https, ws]\n"
				   "      methods: [get, POST]\n"
				   "      paths: ['/v1/**']\n"
				   "      programs: ['/usr/bin/*']\n"
				   "      budget: {bytes_up: 1M, bytes_down: 2M, requests: 3, per: "
				   "1h}\n"
				   "      reason: because\n"
				   "      credentials:\n"
				   "        - secret: key\n"
				   "          header: Authorization\n"
				   "          format: 'Bearer {}'\n"
				   "          env: API_KEY\n"
				   "        - {secret: other, basic: git, file: ~/.netrc}\n"
				   "    - hosts: ['*']\n"
				   "      action: deny\n"
				   "  budget: {bytes_down: 10G}\n"
				   "  ask_timeout: 5m\n"
				   "name: mine\n"
				   "version: 4\n"
				   "description: what it is for\n"
				   "parents: [packages, ./other.yaml]\n";
	static const char json[] =
		"{\"ask_timeout_ms\":300000,\"budget\":{\"bytes_down\":10737418240},"
		"\"credentials\":[{"
		"\"env\":\"API_KEY\",\"format\":\"Bearer "
		"{}\",\"header\":\"Authorization\",\"secret\":"
		"\"key\"},{\"basic\":\"git\",\"file\":\"~/.netrc\",\"secret\":\"other\"}],\"name\":"
		"\"mine\",\"rules\":[{\"action\":\"allow\",\"budget\":{\"bytes_down\":2097152,"
		"\"bytes_up\":1048576,\"per_ms\":3600000,\"requests\":3},\"credentials\":[0,1],"
		"\"hosts\":[\"api.test\",\"*.b.test\",\"10.0.0.0/8\"],\"id\":\"mine/"
		"api\",\"methods\":["
		"\"GET\",\"POST\"],\"paths\":[\"/v1/**\"],\"ports\":[\"443\",\"8000-8999\"],"
		"\"programs\":[\"/usr/bin/"
		"*\"],\"protocols\":[\"https\",\"ws\"],\"reason\":\"because\"}"
		",{\"action\":\"deny\",\"hosts\":[\"*\"],\"id\":\"mine/"
		"2\",\"protocols\":[\"https\","
		"\"http\",\"ws\",\"tcp\"]}]}";
	AUTO_FREE char *got = NULL;
	struct profile p = {0};
	struct err err = {0};

	if (!CHECK_INT(read_yaml(yaml, &p, &err), 0)) {
		tap_print("# %s\n", err.msg);
		return;
	}
	CHECK_STR(p.name, "mine");
	CHECK_INT(p.version, 4);
	CHECK_STR(p.description, "what it is for");
	CHECK_INT(p.parents.n, 2);
	CHECK(p.has_network);
	got = policy_to_json(p.policy);
	CHECK_STR(got, json);
	profile_done(&p);
}

static void mistakes_name_line_field_and_what_is_accepted(void)
{
	refused("network:\n  rules:\n    - host: [a.b]\n",
		"p.yaml:3: unknown field 'network.rules[0].host' (did you mean 'hosts'?)");
	refused("network:\n  rule: []\n", "unknown field 'network.rule' (did you mean 'rules'?)");
	refused("network: {rules: [{hosts: [a.b]}, {hosts: [a.b], acton: deny}]}\n",
		"unknown field 'network.rules[1].acton' (did you mean 'action'?)");
	refused("network:\n  rules:\n    - hosts: [a.b]\n      paths: [x]\n",
		"p.yaml:4: network.rules[0].paths: path 'x' is not accepted");
	refused("network:\n  rules:\n    - hosts: [a.b]\n    - paths: [/x]\n",
		"p.yaml:4: network.rules[1]: a rule needs 'hosts'");
	refused("network:\n  rules:\n    - hosts: [a.b]\n      credentials:\n        - secret: s\n",
		"p.yaml:5: network.rules[0].credentials[0]: a credential needs its place");
	refused("network: {rules: [{hosts: [a.b], credentials: [{secret: s, header: A, query: "
		"k}]}]}",
		"one place, not header and query");
	refused("network: {rules: [{name: x, hosts: [a.b]}, {name: x, hosts: [c.d]}]}",
		"two rules are called 'x'");
	refused("network: {rules: [{name: x y, hosts: [a.b]}]}", "name 'x y' is not accepted");
	refused("network: {rules: {hosts: [a.b]}}", "takes a list of '- name: value' maps");
	refused("network: {rules: [a.b]}", "takes a list of '- name: value' maps");
	refused("network: {rules: [{hosts: a.b}]}", "takes a list of values");
	refused("network: {rules: [{hosts: [a.b], budget: {requests: 0}}]}", "requests");
	refused("network: {rules: [{hosts: [a.b], budget: {bytes_up: -1}}]}", "bytes_up");
	refused("network: {rules: [{hosts: [a.b], budget: {per: 1h}}]}", "a budget needs");
	refused("network: {ask_timeout: 10ms}", "accepted: 1s to 1d");
	refused("network: []\n", "field 'network' takes named fields");
	refused("parents: ['']\n", "parents: '' is not a profile");
	refused("description: \"a\\nb\"\n", "one line");
	refused("network: {rules: [{hosts: ['*'], credentials: [{secret: s, header: A}]}]}",
		"'*' would give them to anybody");
}

/* ---- parents, from a table instead of files */

struct text {
	const char *name, *yaml;
};

static int fetch(void *arg, const char *what, const char *from, char **ret_yaml, size_t *ret_size,
	char **ret_file, struct err *err)
{
	(void)from;
	for (const struct text *t = arg; t->name; t++) {
		if (strcmp(t->name, what) == 0) {
			*ret_yaml = text_format("%s", t->yaml);
			*ret_size = strlen(t->yaml);
			*ret_file = text_format("%s", t->name);
			return 0;
		}
	}
	return err_set(err, ENOENT, "there is no profile '%s'", what);
}

static void parents_come_first_and_once(void)
{
	struct text texts[] = {
		{"top", "name: top\nparents: [left, right]\nroot: base\nnetwork: {ask_timeout: 9s, "
			"rules: [{name: t, hosts: [t.test]}]}\n"},
		{"left", "name: left\nparents: [base]\nhostname: l\nnetwork: {budget: {bytes_up: "
			 "5}, "
			 "rules: [{hosts: [l.test], credentials: [{secret: s, header: A}]}]}\n"},
		{"right",
			"name: right\nparents: [base]\nhostname: r\nroot: host\nnetwork: {budget: "
			"{bytes_up: 3}, rules: [{hosts: [r.test], action: deny}]}\n"},
		{"base", "name: base\nenv: {A: b}\nnetwork: {rules: [{hosts: [b.test]}]}\n"},
		{0},
	};
	struct profile p = {0};
	struct err err = {0};
	struct spec s;

	spec_init(&s);
	if (!CHECK_INT(profile_compose("top", fetch, texts, &source, &s, &p, &err), 0))
		tap_print("# %s\n", err.msg);
	if (CHECK_INT(p.policy->rules_n, 4)) {
		CHECK_STR(p.policy->rules[0].id, "base/1");
		CHECK_STR(p.policy->rules[1].id, "left/1");
		CHECK_STR(p.policy->rules[2].id, "right/1");
		CHECK_STR(p.policy->rules[3].id, "top/t");
	}
	CHECK_STR(p.policy->name, "top");
	CHECK_INT(strlen(p.policy->digest), 64);
	CHECK_INT(p.policy->budget.bytes_up, 3);
	CHECK_INT(p.policy->ask_timeout_ms, 9000);
	CHECK_INT(p.policy->bindings_n, 1);
	CHECK_INT(p.files.n, 4);
	CHECK_STR(s.hostname, "r");
	CHECK_INT(s.root, SPEC_ROOT_BASE);
	CHECK_INT(s.env.n, 1);
	CHECK_STR(s.profile, "top");
	profile_done(&p);
	spec_done(&s);
}

static void bad_ancestry_is_refused(void)
{
	struct text texts[] = {
		{"self", "parents: [self]\n"},
		{"a", "parents: [b]\n"},
		{"b", "parents: [a]\n"},
		{"orphan", "parents: [nobody]\n"},
		{"broken", "parents: [bad]\n"},
		{"bad", "nope: 1\n"},
		{"1", "parents: ['2']\n"},
		{"2", "parents: ['3']\n"},
		{"3", "parents: ['4']\n"},
		{"4", "parents: ['5']\n"},
		{"5", "parents: ['6']\n"},
		{"6", "parents: ['7']\n"},
		{"7", "parents: ['8']\n"},
		{"8", "parents: ['9']\n"},
		{"9", "name: deep\n"},
		{0},
	};
	static const struct {
		const char *what;
		int code;
		const char *why;
	} table[] = {
		{"self", -ELOOP, "its own parent: self -> self"},
		{"a", -ELOOP, "its own parent: a -> b -> a"},
		{"orphan", -ENOENT, "orphan: parents: there is no profile 'nobody'"},
		{"broken", -EINVAL, "bad:1: unknown field 'nope'"},
		{"1", -ELOOP, "more than 8 deep"},
		{"nobody", -ENOENT, "there is no profile"},
	};
	struct profile p = {0};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct err err = {0};

		CHECK_INT(profile_compose(table[i].what, fetch, texts, &source, NULL, &p, &err),
			table[i].code);
		if (!CHECK(strstr(err.msg, table[i].why) != NULL))
			tap_print("# message is: %s\n", err.msg);
	}
	CHECK_INT(profile_compose("2", fetch, texts, &source, NULL, &p, &(struct err){0}), 0);
	profile_done(&p);
}

/* ---- files */

static void put(const char *dir, const char *name, const char *yaml)
{
	AUTO_FREE char *path = text_format("%s/%s", dir, name);
	AUTO_FILE FILE *f = fopen(path, "we");

	if (CHECK(f != NULL))
		CHECK(fputs(yaml, f) >= 0);
}

static void files_are_found_by_name_and_by_path(void)
{
	char dir[] = "/tmp/test_profile.XXXXXX";
	AUTO_FREE char *user = NULL, *site = NULL;
	struct profile p = {0};
	struct err err = {0};

	if (!CHECK(mkdtemp(dir) != NULL))
		return;
	user = text_format("%s/user", dir);
	site = text_format("%s/site", dir);
	CHECK(mkdir(user, 0700) == 0 && mkdir(site, 0700) == 0);
	put(site, "both.yaml", "name: site\n");
	put(user, "both.yaml", "name: user\n");
	put(site, "team.yaml", "parents: [both, ./beside.yaml, 'old@2']\n");
	put(site, "beside.yaml", "name: beside\n");
	put(user, "old@2.yaml", "name: old\nversion: 2\n");
	put(dir, "here", "name: plain\n");

	struct profile_places places = {.user = user, .site = site};
	struct profile_source from = {.cwd = dir};

	CHECK_INT(profile_load("both", &places, &from, NULL, &p, &err), 0);
	CHECK_STR(p.name, "user");
	profile_done(&p);
	CHECK_INT(profile_load("site/both.yaml", &places, &from, NULL, &p, &err), 0);
	CHECK_STR(p.name, "site");
	profile_done(&p);
	if (!CHECK_INT(profile_load("team", &places, &from, NULL, &p, &err), 0))
		tap_print("# %s\n", err.msg);
	CHECK_STR(p.name, "team");
	CHECK_INT(p.files.n, 4);
	profile_done(&p);
	CHECK_INT(profile_load("here", &places, &from, NULL, &p, &err), 0);
	CHECK_STR(p.name, "plain");
	profile_done(&p);
	CHECK_INT(profile_load("teem", &places, &from, NULL, &p, &err), -ENOENT);
	CHECK(strstr(err.msg, "there is no profile 'teem' (did you mean 'team'?); looked in") !=
		NULL);
	CHECK_INT(profile_load("../x", &places, &from, NULL, &p, &err), -ENOENT);
	CHECK_INT(profile_load("/dev/null", &places, &from, NULL, &p, &err), -EINVAL);
	CHECK_INT(profile_load("site", &places, &from, NULL, &p, &err), -ENOENT);

	static const char *const names[] = {"site/both.yaml", "user/both.yaml", "site/team.yaml",
		"site/beside.yaml", "user/old@2.yaml", "here", "user", "site", "."};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		AUTO_FREE char *path = text_format("%s/%s", dir, names[i]);

		CHECK(remove(i + 1 < sizeof(names) / sizeof(names[0]) ? path : dir) == 0);
	}
}

static void a_floor_is_part_of_the_policy_and_cannot_be_loosened(void)
{
	struct text texts[] = {
		{"p", "name: p\nnetwork: {budget: {bytes_up: 50}, rules: [{hosts: ['*']}]}\n"},
		{"floor",
			"name: floor\nnetwork: {budget: {bytes_up: 10}, rules: [{hosts: [ok.test]}]"
			"}\n"},
		{0},
	};
	AUTO(policy_unref) struct policy *sum = NULL;
	struct profile p = {0}, floor = {0};
	struct policy_answer a;
	struct policy_question q = {.name = "other.test", .port = 443, .protocol = POLICY_HTTPS};
	struct err err = {0};

	CHECK_INT(profile_compose("p", fetch, texts, &source, NULL, &p, &err), 0);
	CHECK_INT(profile_compose("floor", fetch, texts, &source, NULL, &floor, &err), 0);
	CHECK_INT(policy_with_floor(p.policy, floor.policy, NULL, &sum, &err), 0);
	policy_decide(p.policy, &q, &a);
	CHECK_INT(a.action, POLICY_ALLOW);
	policy_decide(sum, &q, &a);
	CHECK(a.action == POLICY_DENY && a.by_floor);
	q.name = "ok.test";
	policy_decide(sum, &q, &a);
	CHECK_INT(a.action, POLICY_ALLOW);
	CHECK_INT(sum->budget.bytes_up, 10);
	CHECK(strcmp(sum->digest, p.policy->digest) != 0);
	profile_done(&p);
	profile_done(&floor);
}

int main(void)
{
	RUN(every_field_arrives_in_the_policy);
	RUN(mistakes_name_line_field_and_what_is_accepted);
	RUN(parents_come_first_and_once);
	RUN(bad_ancestry_is_refused);
	RUN(files_are_found_by_name_and_by_path);
	RUN(a_floor_is_part_of_the_policy_and_cannot_be_loosened);
	return tap_done();
}
