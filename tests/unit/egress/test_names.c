/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/names.h"

#include "tap.h"

static void a_name_keeps_its_number(void)
{
	AUTO(names_free) struct name_map *m = names_create(100);
	uint32_t a = names_number(m, "a.test"), b = names_number(m, "b.test");

	CHECK_INT(a, 2);
	CHECK_INT(b, 3);
	CHECK_INT(names_number(m, "a.test"), a);
	CHECK_STR(names_name(m, b), "b.test");
	CHECK(!names_name(m, 77));
	CHECK(!names_name(m, NAMES_INTERNAL));
}

static void a_number_is_an_address_of_either_kind(void)
{
	struct address a;
	uint32_t n = 0;
	char text[ADDRESS_TEXT_MAX];

	for (uint32_t i = 2; i < 131071; i += 4099) {
		names_address(i, 4, &a);
		CHECK(names_is_synthetic(&a, &n) && n == i);
		names_address(i, 6, &a);
		CHECK(names_is_synthetic(&a, &n) && n == i);
	}
	names_address(65536 + 258, 4, &a);
	address_format(&a, text);
	CHECK_STR(text, "198.19.1.2");
	names_address(258, 6, &a);
	address_format(&a, text);
	CHECK_STR(text, "fdba:3a11:ed00::102");
	CHECK(address_parse("198.20.0.1", 10, &a) && !names_is_synthetic(&a, &n));
	CHECK(address_parse("fdba:3a11:ed00:1::1", 19, &a) && !names_is_synthetic(&a, &n));
}

static void a_full_map_forgets_the_oldest_that_nobody_uses(void)
{
	AUTO(names_free) struct name_map *m = names_create(1000);
	char name[32];
	struct name_entry *held;
	uint32_t first = names_number(m, "first.test"), used = names_number(m, "used.test");
	uint32_t gone = names_number(m, "gone.test");

	held = names_hold(m, "first.test");
	CHECK(held != NULL);
	CHECK(!names_hold(m, "never.test"));
	for (int i = 0; i < 997; i++) {
		(void)snprintf(name, sizeof(name), "n%d.test", i);
		(void)names_number(m, name);
	}
	CHECK_STR(names_name(m, used), "used.test"); /* used just now */
	(void)names_number(m, "one-more.test");
	CHECK(!names_name(m, gone));
	CHECK_STR(names_name(m, used), "used.test");
	CHECK_STR(names_name(m, first), "first.test"); /* older, but held */
	CHECK(names_number(m, "gone.test") != gone);   /* and not soon met again */
	names_drop(held);
}

static void numbers_go_round_and_never_meet(void)
{
	AUTO(names_free) struct name_map *m = names_create(16);
	char name[32];
	uint32_t kept, n;
	struct name_entry *held;

	kept = names_number(m, "kept.test");
	held = names_hold(m, "kept.test");
	for (int i = 0; i < 140000; i++) {
		(void)snprintf(name, sizeof(name), "n%d.test", i);
		n = names_number(m, name);
		if (n == kept || n < 2 || n >= 131071) {
			CHECK_INT(n, -1);
			break;
		}
	}
	CHECK_STR(names_name(m, kept), "kept.test");
	names_drop(held);
}

int main(void)
{
	RUN(a_name_keeps_its_number);
	RUN(a_number_is_an_address_of_either_kind);
	RUN(a_full_map_forgets_the_oldest_that_nobody_uses);
	RUN(numbers_go_round_and_never_meet);
	return tap_done();
}
