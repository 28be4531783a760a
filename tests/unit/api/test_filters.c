/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/filters.h"
#include "api/e2b/network.h"
#include "tap.h"

static struct filters f;
static struct err err;

static int parse(const char *query)
{
	filters_done(&f);
	err = (struct err){0};
	return filters_parse((struct h1_text){query, strlen(query)}, &f, &err);
}

static bool matches(const char *metadata)
{
	return filters_match(&f, SANDBOX_RUNNING, 1000, "base", metadata);
}

static void an_empty_query_matches_all_that_live(void)
{
	CHECK_INT(parse(""), 0);
	CHECK_INT(f.limit, 100);
	CHECK(!f.is_ascending && !f.has_token);
	CHECK(matches("{}"));
	CHECK(filters_match(&f, SANDBOX_PAUSED, 0, "other", "{}"));
	CHECK(!filters_match(&f, SANDBOX_ENDING, 0, "base", "{}"));
}

/* As the JavaScript SDK was seen to send {a: "b c", "k=": "&"}. */
static void metadata_is_decoded_three_times(void)
{
	CHECK_INT(parse("metadata=a%3Db%252520c%26k%25253D%3D%252526"), 0);
	CHECK_STR(json_string_value(json_object_get(f.metadata, "a")), "b c");
	CHECK_STR(json_string_value(json_object_get(f.metadata, "k=")), "&");
	CHECK(matches("{\"a\":\"b c\",\"k=\":\"&\",\"more\":\"x\"}"));
	CHECK(!matches("{\"a\":\"b c\"}"));
	CHECK(!matches("{\"a\":\"b c\",\"k=\":\"\"}"));
	CHECK(!matches("{}"));
	CHECK(!matches("not json"));
}

static void plain_metadata_works_too(void)
{
	CHECK_INT(parse("metadata=user%3Dabc%26app%3Dprod"), 0);
	CHECK(matches("{\"user\":\"abc\",\"app\":\"prod\"}"));
	CHECK_INT(parse("metadata=flag"), 0);
	CHECK(matches("{\"flag\":\"\"}"));
}

static void bad_parameters_are_named(void)
{
	static const struct {
		const char *query, *word;
	} bad[] = {
		{"metadata=%zz", "metadata"},
		{"metadata=a%3D%25zz", "metadata"},
		{"metadata=a%3D%2525FF", "metadata"},
		{"state=dead", "state"},
		{"state=running,", NULL},
		{"order=up", "order"},
		{"limit=0", "limit"},
		{"limit=101", "limit"},
		{"limit=x", "limit"},
		{"limit=-1", "limit"},
		{"startedAfter=yesterday", "startedAfter"},
		{"startedAfter=2026-01-01", "startedAfter"},
		{"nextToken=x", "nextToken"},
		{"nextToken=12-notanid", "nextToken"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!bad[i].word) {
			CHECK_INT(parse(bad[i].query), 0);
			continue;
		}
		CHECK_INT(parse(bad[i].query), -EINVAL);
		if (!CHECK(strstr(err.msg, bad[i].word) != NULL))
			tap_print("# %s: %s\n", bad[i].query, err.msg);
	}
}

static void states_are_a_list(void)
{
	CHECK_INT(parse("state=running%2Cpaused"), 0);
	CHECK_INT(f.states, 1u << SANDBOX_RUNNING | 1u << SANDBOX_PAUSED);
	CHECK_INT(parse("state=paused"), 0);
	CHECK(!matches("{}"));
	CHECK(filters_match(&f, SANDBOX_PAUSED, 0, "base", "{}"));
}

static void times_have_zones_and_fractions(void)
{
	int64_t ms = 0;

	CHECK(filters_time("1970-01-01T00:00:01Z", &ms) && ms == 1000);
	CHECK(filters_time("1970-01-01T00:00:01.25Z", &ms) && ms == 1250);
	CHECK(filters_time("1970-01-01T00:00:01.123456789Z", &ms) && ms == 1123);
	CHECK(filters_time("1970-01-01T02:00:01+02:00", &ms) && ms == 1000);
	CHECK(filters_time("1969-12-31T22:30:01-01:30", &ms) && ms == 1000);
	CHECK(!filters_time("1970-01-01T00:00:01", &ms));
	CHECK(!filters_time("1970-01-01T00:00:01.Z", &ms));
	CHECK(!filters_time("1970-01-01T00:00:01Zx", &ms));
	CHECK(!filters_time("", &ms));
	CHECK_INT(parse("startedAfter=1970-01-01T00:00:01.5Z"), 0);
	CHECK(!filters_match(&f, SANDBOX_RUNNING, 1499, "base", "{}"));
	CHECK(filters_match(&f, SANDBOX_RUNNING, 1500, "base", "{}"));
}

static void a_token_starts_behind_its_entry_in_both_orders(void)
{
	const char *id = "iaaaaaaaaaaaaaaaaaaaa", *later = "ibbbbbbbbbbbbbbbbbbbb";
	char token[64], query[128];

	filters_token(5000, id, token);
	(void)snprintf(query, sizeof(query), "nextToken=%s", token);
	CHECK_INT(parse(query), 0);
	CHECK(filters_is_behind(&f, 4999, later));
	CHECK(!filters_is_behind(&f, 5000, id));
	CHECK(!filters_is_behind(&f, 5000, later));
	CHECK(!filters_is_behind(&f, 5001, id));
	(void)snprintf(query, sizeof(query), "order=asc&nextToken=%s", token);
	CHECK_INT(parse(query), 0);
	CHECK(filters_is_behind(&f, 5000, later));
	CHECK(!filters_is_behind(&f, 5000, id));
	CHECK(!filters_is_behind(&f, 4999, later));
}

static void templates_are_compared_whole(void)
{
	CHECK_INT(parse("template=base"), 0);
	CHECK(matches("{}"));
	CHECK_INT(parse("template=bas"), 0);
	CHECK(!matches("{}"));
}

static int network(const char *text)
{
	json_t *v = json_loads(text, 0, NULL);
	int r;

	err = (struct err){0};
	r = network_check(v, &err);
	json_decref(v);
	return r;
}

static void addresses_are_addresses(void)
{
	CHECK(network_is_address("1.2.3.4") && network_is_address("10.0.0.0/8"));
	CHECK(network_is_address("::1") && network_is_address("2001:db8::/32"));
	CHECK(!network_is_address("10.0.0.0/33") && !network_is_address("10.0.0/8"));
	CHECK(!network_is_address("::/129") && !network_is_address("example.com"));
	CHECK(!network_is_address("1.2.3.4/") && !network_is_address(""));
}

static void network_rules_are_checked_by_field(void)
{
	CHECK_INT(network("{}"), 0);
	CHECK_INT(network("{\"allowOut\":[\"*.example.com\",\"1.1.1.1\"],\"denyOut\":"
			  "[\"0.0.0.0/0\"],\"allowPublicTraffic\":false}"),
		0);
	CHECK_INT(
		network("{\"egressProxy\":null,\"rules\":{\"a.b\":[]},\"httpsPorts\":[8443]}"), 0);
	CHECK_INT(network("{\"denyOut\":[\"example.com\"]}"), -EINVAL);
	CHECK(strstr(err.msg, "denyOut") != NULL);
	CHECK_INT(network("{\"allowOut\":\"x\"}"), -EINVAL);
	CHECK_INT(network("{\"allowOut\":[1]}"), -EINVAL);
	CHECK_INT(network("{\"allowOut\":[\"a b\"]}"), -EINVAL);
	CHECK_INT(network("{\"allowPublicTraffic\":1}"), -EINVAL);
	CHECK_INT(network("{\"egressProxy\":{}}"), -EINVAL);
	CHECK_INT(network("{\"httpsPorts\":[0]}"), -EINVAL);
	CHECK_INT(network("{\"rules\":[]}"), -EINVAL);
}

int main(void)
{
	RUN(an_empty_query_matches_all_that_live);
	RUN(metadata_is_decoded_three_times);
	RUN(plain_metadata_works_too);
	RUN(bad_parameters_are_named);
	RUN(states_are_a_list);
	RUN(times_have_zones_and_fractions);
	RUN(a_token_starts_behind_its_entry_in_both_orders);
	RUN(templates_are_compared_whole);
	RUN(addresses_are_addresses);
	RUN(network_rules_are_checked_by_field);
	filters_done(&f);
	return tap_done();
}
