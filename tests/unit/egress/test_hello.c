/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/hello.h"

#include "egress_hello.h"
#include "tap.h"

static struct hello h;

static enum hello_result parse(void)
{
	return hello_parse(hello_bytes, hello_len, &h);
}

static void the_server_name_is_found(void)
{
	hello_make("PyPI.org", 0, 0);
	CHECK_INT(parse(), HELLO_OK);
	CHECK_STR(h.name, "pypi.org");
	CHECK(h.has_name && !h.is_bad_name && !h.has_ech);
	hello_make("", HELLO_WITHOUT_NAME, 0);
	CHECK_INT(parse(), HELLO_OK);
	CHECK(!h.has_name && h.name[0] == '\0');
}

static void a_hello_may_be_cut_anywhere(void)
{
	for (size_t per = 1; per < 200; per += 7) {
		hello_make("api.test", 0, per);
		CHECK_INT(parse(), HELLO_OK);
		CHECK_STR(h.name, "api.test");
		/* Every beginning of it wants more. */
		for (size_t n = 0; n < hello_len; n++)
			if (!CHECK_INT(hello_parse(hello_bytes, n, &h), HELLO_MORE))
				return;
	}
}

static void what_hides_a_name_is_seen(void)
{
	hello_make("api.test", HELLO_WITH_ECH, 0);
	CHECK_INT(parse(), HELLO_OK);
	CHECK(h.has_ech);
	CHECK_STR(h.name, "api.test");
}

static void two_names_are_one_too_many(void)
{
	hello_make("api.test", HELLO_TWO_NAMES, 0);
	CHECK_INT(parse(), HELLO_OK);
	CHECK(h.is_bad_name);
	hello_make("api.test", HELLO_TWICE, 0);
	CHECK_INT(parse(), HELLO_BAD);
}

static void a_name_that_no_rule_can_speak_of_is_bad(void)
{
	static const char *const bad[] = {
		"10.1.2.3", "a b", "api.test..", "\x01", "api_test/", "::1", "0x7f.1"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		hello_make(bad[i], 0, 0);
		CHECK_INT(parse(), HELLO_OK);
		if (!CHECK(h.has_name && h.is_bad_name))
			tap_print("# %s\n", bad[i]);
	}
	hello_make("", 0, 0); /* present and empty */
	CHECK_INT(parse(), HELLO_OK);
	CHECK(h.is_bad_name);
}

static void lengths_that_do_not_add_up_are_bad(void)
{
	hello_make("api.test", HELLO_CUT_EXTENSION, 0);
	CHECK_INT(parse(), HELLO_BAD);
	hello_make("api.test", 0, 0);
	hello_bytes[8]++; /* the message says one byte more than its extensions are */
	hello_bytes[4]++;
	hello_bytes[hello_len++] = 0;
	CHECK_INT(parse(), HELLO_BAD);
	hello_make("api.test", 0, 0);
	hello_bytes[6] = 1; /* 64 KiB and more */
	CHECK_INT(parse(), HELLO_BAD);
	hello_make("api.test", 0, 0);
	hello_bytes[4] = 0xff; /* the record goes on behind the message */
	memset(hello_bytes + hello_len, 0, 300);
	hello_len += 300;
	CHECK_INT(parse(), HELLO_BAD);
}

static void empty_records_and_other_messages_are_bad(void)
{
	static const unsigned char empty[] = {22, 3, 1, 0, 0};
	static const unsigned char finished[] = {22, 3, 1, 0, 4, 20, 0, 0, 0};
	static const unsigned char alert_next[] = {22, 3, 1, 0, 1, 1, 21, 3, 1, 0, 2, 1, 0};

	CHECK_INT(hello_parse(empty, sizeof(empty), &h), HELLO_BAD);
	CHECK_INT(hello_parse(finished, sizeof(finished), &h), HELLO_BAD);
	CHECK_INT(hello_parse(alert_next, sizeof(alert_next), &h), HELLO_BAD);
}

static void something_else_is_nothing(void)
{
	CHECK_INT(hello_parse("GET / HTTP/1.1\r\n", 16, &h), HELLO_NONE);
	CHECK_INT(hello_parse("\x16\x02", 2, &h), HELLO_NONE);
	CHECK_INT(hello_parse("", 0, &h), HELLO_MORE);
	CHECK_INT(hello_parse("\x16", 1, &h), HELLO_MORE);
}

static void early_data_behind_it_is_left_alone(void)
{
	hello_make("api.test", 0, 0);
	memcpy(hello_bytes + hello_len, "\x17\3\3\0\4data", 9);
	hello_len += 9;
	CHECK_INT(parse(), HELLO_OK);
}

int main(void)
{
	RUN(the_server_name_is_found);
	RUN(a_hello_may_be_cut_anywhere);
	RUN(what_hides_a_name_is_seen);
	RUN(two_names_are_one_too_many);
	RUN(a_name_that_no_rule_can_speak_of_is_bad);
	RUN(lengths_that_do_not_add_up_are_bad);
	RUN(empty_records_and_other_messages_are_bad);
	RUN(something_else_is_nothing);
	RUN(early_data_behind_it_is_left_alone);
	return tap_done();
}
