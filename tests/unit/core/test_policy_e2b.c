/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/policy_e2b: the network fields of the SDKs, as they read there.
 */
#include "core/policy_e2b.h"

#include "core/policy_build.h"
#include "tap.h"

static const char fallback_json[] =
	"{\"name\":\"default\",\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*\"]},{\"action\":"
	"\"allow\",\"hosts\":[\"0.0.0.0/0\"],\"protocols\":[\"tcp\"],\"ports\":[\"1-65535\"]}]}";

/* Words separated by blanks. */
static void fill(struct strv *to, const char *words)
{
	AUTO_FREE char *copy = text_format("%s", words);
	struct err err = {0};

	for (char *rest = copy, *word; (word = strsep(&rest, " ")) != NULL;) {
		if (word[0])
			CHECK_INT(strv_add(to, word, &err), 0);
	}
}

static struct policy *make(
	bool no_internet, const char *allow, const char *deny, const char *floor_json, int expected)
{
	AUTO(policy_unref) struct policy *fallback = NULL;
	AUTO(policy_unref) struct policy *floor = NULL;
	struct policy_e2b e = {.no_internet = no_internet};
	struct policy *p = NULL;
	struct err err = {0};

	CHECK_INT(policy_from_json(fallback_json, strlen(fallback_json), &fallback, &err), 0);
	if (floor_json)
		CHECK_INT(policy_from_json(floor_json, strlen(floor_json), &floor, &err), 0);
	fill(&e.allow_out, allow);
	fill(&e.deny_out, deny);
	if (!CHECK_INT(policy_from_e2b(&e, fallback, floor, &p, &err), expected))
		tap_print("# %s\n", err.msg);
	strv_done(&e.allow_out);
	strv_done(&e.deny_out);
	return p;
}

static bool allows(const struct policy *p, const char *host, uint16_t port, unsigned protocol)
{
	struct address addr;
	bool is_bare = address_parse(host, strlen(host), &addr);
	struct policy_question q = {.name = is_bare ? NULL : host,
		.addr = is_bare ? &addr : NULL,
		.port = port,
		.protocol = protocol};
	struct policy_answer a;

	policy_decide(p, &q, &a);
	return a.needs ? a.needs == POLICY_NEEDS_ADDRESS : a.action == POLICY_ALLOW;
}

static void nothing_said_is_the_server_s_default(void)
{
	AUTO(policy_unref) struct policy *p = make(false, "", "", NULL, 0);

	CHECK_STR(p->name, "default");
	CHECK(allows(p, "a.test", 443, POLICY_HTTPS));
	CHECK(allows(p, "8.8.8.8", 53, POLICY_TCP));
}

static void no_access_is_none(void)
{
	AUTO(policy_unref) struct policy *p = make(true, "", "", NULL, 0);

	CHECK_STR(p->name, "locked");
	CHECK(!allows(p, "a.test", 443, POLICY_HTTPS));
	CHECK(!allows(p, "8.8.8.8", 443, POLICY_HTTPS));
}

static void deny_everything_and_allow_some(void)
{
	AUTO(policy_unref)
	struct policy *p = make(false, "a.test *.b.test 1.2.3.0/24", "0.0.0.0/0", NULL, 0);

	CHECK(allows(p, "a.test", 443, POLICY_HTTPS) && allows(p, "a.test", 80, POLICY_HTTP));
	CHECK(!allows(p, "a.test", 22, POLICY_TCP) && !allows(p, "b.test", 443, POLICY_HTTPS));
	CHECK(allows(p, "x.b.test", 443, POLICY_HTTPS));
	CHECK(allows(p, "1.2.3.4", 5432, POLICY_TCP) && allows(p, "1.2.3.4", 443, POLICY_HTTPS));
	CHECK(!allows(p, "1.2.4.4", 443, POLICY_HTTPS));
}

static void some_denied_and_allow_wins_over_deny(void)
{
	AUTO(policy_unref)
	struct policy *p =
		make(false, "93.184.216.34 9.9.9.0/24", "93.184.0.0/16 9.9.9.9", NULL, 0);

	CHECK(allows(p, "a.test", 443, POLICY_HTTPS));
	CHECK(!allows(p, "93.184.1.1", 443, POLICY_HTTPS));
	CHECK(!allows(p, "93.184.216.35", 443, POLICY_HTTPS));
	CHECK(!allows(p, "93.184.216.33", 443, POLICY_HTTPS));
	CHECK(allows(p, "93.184.216.34", 443, POLICY_HTTPS));
	CHECK(allows(p, "9.9.9.9", 443, POLICY_HTTPS));
	CHECK(allows(p, "93.185.0.0", 443, POLICY_HTTPS));
}

static void everything_is_never_private(void)
{
	AUTO(policy_unref) struct policy *p = make(true, "0.0.0.0/0", "", NULL, 0);

	CHECK(allows(p, "a.test", 22, POLICY_TCP) && allows(p, "8.8.8.8", 53, POLICY_TCP));
	CHECK(!allows(p, "10.0.0.1", 80, POLICY_HTTP));
	CHECK(!allows(p, "169.254.169.254", 80, POLICY_HTTP));
}

static void the_floor_bounds_it(void)
{
	AUTO(policy_unref)
	struct policy *p = make(false, "a.test b.other", "0.0.0.0/0",
		"{\"rules\":[{\"action\":\"allow\",\"hosts\":[\"*.test\"]}]}", 0);

	CHECK(allows(p, "a.test", 443, POLICY_HTTPS));
	CHECK(!allows(p, "b.other", 443, POLICY_HTTPS));
}

static void bad_entries_are_named(void)
{
	CHECK(make(false, "http://a", "", NULL, -EINVAL) == NULL);
	CHECK(make(false, "", "a.test", NULL, -EINVAL) == NULL);
	CHECK(make(false, "", "10.0.0.1/8", NULL, -EINVAL) == NULL);
}

int main(void)
{
	RUN(nothing_said_is_the_server_s_default);
	RUN(no_access_is_none);
	RUN(deny_everything_and_allow_some);
	RUN(some_denied_and_allow_wins_over_deny);
	RUN(everything_is_never_private);
	RUN(the_floor_bounds_it);
	RUN(bad_entries_are_named);
	return tap_done();
}
