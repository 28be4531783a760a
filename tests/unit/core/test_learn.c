/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/learn: the profile allows what was wanted, little else, and is itself a profile.
 */
#include "core/learn.h"

#include "core/explain.h"
#include "core/profile_load.h"
#include "tap.h"

static void wish(struct learn *l, const char *name, uint16_t port, const char *protocol,
	const char *method, const char *path)
{
	struct denial d = {.port = port};

	(void)snprintf(d.name, sizeof(d.name), "%s", name);
	(void)snprintf(d.protocol, sizeof(d.protocol), "%s", protocol);
	(void)snprintf(d.method, sizeof(d.method), "%s", method);
	(void)snprintf(d.path, sizeof(d.path), "%s", path);
	learn_note(l, &d);
}

/* The profile of it, read back. */
static int read_back(const struct learn *l, struct profile *ret, char **ret_yaml)
{
	static const struct profile_source source = {.file = "learnt.yaml", .cwd = "/"};
	struct err err = {0};
	struct spec s;
	int r;

	*ret_yaml = learn_yaml(l, "learnt");
	spec_init(&s);
	r = profile_read(*ret_yaml, strlen(*ret_yaml), &source, &s, ret, &err);
	if (!CHECK_INT(r, 0))
		tap_print("# %s\n%s\n", err.msg, *ret_yaml);
	spec_done(&s);
	return r;
}

static const char *verdict(const struct policy *p, const char *method, const char *target)
{
	struct explain_target t;
	struct explain_answer a;
	struct err err = {0};

	CHECK_INT(explain_parse(method, target, &t, &err), 0);
	explain_decide(p, &t, "", &a);
	return a.verdict;
}

static void what_was_wanted_is_allowed_and_little_else(void)
{
	AUTO_FREE char *yaml = NULL;
	struct learn l = {0};
	struct profile p = {0};

	wish(&l, "pypi.org", 443, "https", "GET", "/simple/requests/");
	wish(&l, "pypi.org", 443, "https", "GET", "/simple/requests/");
	wish(&l, "pypi.org", 443, "https", "HEAD", "/simple/idna/");
	wish(&l, "pypi.org", 443, "https", "POST", "/it's");
	wish(&l, "db.test", 5432, "tcp", "", "");
	wish(&l, "plain.test", 80, "http", "GET", "/a*b");
	wish(&l, "api.test", 8443, "https", "GET", "/");
	wish(&l, "seen.test", 443, "https", "", "");
	wish(&l, "10.0.0.1", 443, "https", "GET", "/"); /* not a name */
	wish(&l, "dns.test", 0, "dns", "", "");
	CHECK_INT(l.wishes_n, 7);
	if (read_back(&l, &p, &yaml) == 0) {
		const struct policy *q = p.policy;

		CHECK_STR(verdict(q, "GET", "https://pypi.org/simple/requests/"), "allow");
		CHECK_STR(verdict(q, "GET", "https://pypi.org/simple/other/"), "deny");
		CHECK_STR(verdict(q, "POST", "https://pypi.org/it's"), "allow");
		CHECK_STR(verdict(q, "POST", "https://pypi.org/simple/requests/"), "deny");
		CHECK_STR(verdict(q, NULL, "tcp://db.test:5432"), "allow");
		CHECK_STR(verdict(q, NULL, "tcp://db.test:5433"), "deny");
		CHECK_STR(verdict(q, NULL, "http://plain.test/a*b"), "allow");
		CHECK_STR(verdict(q, NULL, "https://plain.test/a*b"), "deny");
		CHECK_STR(verdict(q, NULL, "https://api.test:8443/"), "allow");
		CHECK_STR(verdict(q, NULL, "https://api.test/"), "deny");
		CHECK_STR(verdict(q, "PUT", "https://seen.test/x"), "allow");
		CHECK_STR(verdict(q, NULL, "https://else.test/"), "deny");
	}
	profile_done(&p);
	learn_done(&l);
}

static void many_paths_are_summed_up(void)
{
	AUTO_FREE char *yaml = NULL;
	struct learn l = {0};
	struct profile p = {0};
	char path[64];

	for (int i = 0; i < 20; i++) {
		(void)snprintf(path, sizeof(path), "/packages/%d/file", i);
		wish(&l, "few.test", 443, "https", "GET", path);
		(void)snprintf(path, sizeof(path), "/%d/file", i);
		wish(&l, "many.test", 443, "https", "GET", path);
	}
	wish(&l, "odd.test", 443, "https", "GET", "/a/../b");
	if (read_back(&l, &p, &yaml) == 0 && CHECK_INT(p.policy->rules_n, 3)) {
		CHECK_INT(p.policy->rules[0].paths.n, 1);
		CHECK_STR(p.policy->rules[0].paths.v[0], "/packages/**");
		CHECK_INT(p.policy->rules[1].paths.n, 0);
		CHECK_STR(verdict(p.policy, NULL, "https://few.test/other"), "deny");
		CHECK_STR(verdict(p.policy, NULL, "https://odd.test/a/../b"), "allow");
	}
	profile_done(&p);
	learn_done(&l);
}

static void nothing_wanted_is_a_profile_that_allows_nothing(void)
{
	AUTO_FREE char *yaml = NULL;
	struct learn l = {0};
	struct profile p = {0};

	CHECK_INT(read_back(&l, &p, &yaml), 0);
	CHECK(p.has_network && p.policy->rules_n == 0);
	profile_done(&p);
}

static void recording_looks_inside_and_lets_no_private_address_through(void)
{
	AUTO(policy_unref) struct policy *p = NULL;
	struct policy_question q = {.name = "a.test", .port = 443, .protocol = POLICY_HTTPS};
	struct address private = {.family = 4, .b = {10, 0, 0, 1}};
	struct policy_answer a;
	struct err err = {0};

	CHECK_INT(learn_policy(true, &p, &err), 0);
	policy_decide(p, &q, &a);
	CHECK(a.action == POLICY_ALLOW && a.must_intercept);
	CHECK(!policy_may_dial(p, &q, &private, &a));
	q = (struct policy_question){.name = "a.test", .port = 25};
	policy_decide(p, &q, &a);
	CHECK(a.action == POLICY_ALLOW && a.needs == 0); /* the server may speak first */
	p = policy_unref(p);
	CHECK_INT(learn_policy(false, &p, &err), 0);
	q = (struct policy_question){.name = "a.test", .port = 443, .protocol = POLICY_HTTPS};
	policy_decide(p, &q, &a);
	CHECK(a.action == POLICY_ALLOW && !a.must_intercept);
}

int main(void)
{
	RUN(what_was_wanted_is_allowed_and_little_else);
	RUN(many_paths_are_summed_up);
	RUN(nothing_wanted_is_a_profile_that_allows_nothing);
	RUN(recording_looks_inside_and_lets_no_private_address_through);
	return tap_done();
}
