/* SPDX-License-Identifier: Apache-2.0 */

#include "io/buf.h"
#include "tap.h"

#include <errno.h>

static void empty_holds_no_memory(void)
{
	struct buf b = {0};

	CHECK_INT(buf_len(&b), 0);
	CHECK_STR(buf_data(&b), "");
	CHECK_INT(buf_add(&b, "abc", 3), 0);
	buf_eat(&b, 1);
	CHECK(buf_len(&b) == 2 && memcmp(buf_data(&b), "bc", 2) == 0);
	buf_eat(&b, 2);
	CHECK(b.p == NULL && b.size == 0);
}

static void past_the_cap_nothing_is_added(void)
{
	AUTO_BUF struct buf b = {.cap = 10};

	CHECK_INT(buf_add(&b, "0123456789", 10), 0);
	CHECK_INT(buf_add(&b, "x", 1), -E2BIG);
	CHECK(!buf_reserve(&b, 1));
	CHECK_INT(buf_len(&b), 10);
	buf_eat(&b, 5);
	CHECK_INT(buf_add(&b, "abcde", 5), 0);
	CHECK(memcmp(buf_data(&b), "56789abcde", 10) == 0);
	CHECK_INT(buf_add(&b, "x", SIZE_MAX), -E2BIG);
}

static void a_queue_keeps_its_order(void)
{
	AUTO_BUF struct buf b = {.cap = 4096};
	unsigned char put = 0, got = 0;

	/* Steps that do not divide each other: it moves and grows at odd places. */
	for (int round = 0; round < 10000; round++) {
		char some[37];
		size_t n = (size_t)(round * 7 % 37), len;

		for (size_t i = 0; i < n; i++)
			some[i] = (char)put++;
		if (!CHECK_INT(buf_add(&b, some, n), 0))
			return;
		len = buf_len(&b);
		n = (size_t)(round * 11 % 41);
		n = n < len ? n : len;
		for (size_t i = 0; i < n; i++)
			if ((unsigned char)buf_data(&b)[i] != got++)
				CHECK(false);
		buf_eat(&b, n);
	}
	CHECK(b.size <= 4096);
}

static void formatted_text_counts_no_terminator(void)
{
	AUTO_BUF struct buf b = {.cap = 6};
	char *room;

	CHECK_INT(buf_addf(&b, "%d", 12345), 0);
	CHECK_INT(buf_len(&b), 5);
	CHECK_INT(buf_addf(&b, "%d", 12345), -E2BIG);
	room = buf_reserve(&b, 1);
	if (!CHECK(room != NULL))
		return;
	*room = 'x';
	buf_commit(&b, 1);
	CHECK(memcmp(buf_data(&b), "12345x", 6) == 0);
}

int main(void)
{
	RUN(empty_holds_no_memory);
	RUN(past_the_cap_nothing_is_added);
	RUN(a_queue_keeps_its_order);
	RUN(formatted_text_counts_no_terminator);
	return tap_done();
}
