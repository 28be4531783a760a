/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/violation: counted, cut, and bounded whatever a hostile command does.
 */
#include "core/violation.h"

#include "tap.h"

static void identical_entries_are_counted(void)
{
	struct violation_list l = {0};

	violation_add(&l, WALL_ROOT, "write", "write to '/etc/x'", "use --rw /etc");
	violation_add(&l, WALL_ROOT, "write", "write to '/etc/x'", "use --rw /etc");
	violation_add(&l, WALL_NET, "write", "write to '/etc/x'", "use --rw /etc");
	CHECK_INT(l.n, 2);
	CHECK_INT(l.v[0].count, 2);
	CHECK_INT(l.v[1].count, 1);
	CHECK_INT(l.total, 3);
}

static void past_the_cap_only_the_total_grows(void)
{
	static struct violation_list l;

	for (int i = 0; i < 1000; i++) {
		char tried[32];

		(void)snprintf(tried, sizeof(tried), "attempt %d", i);
		violation_add(&l, WALL_SECCOMP, "syscall", tried, "");
	}
	CHECK_INT(l.n, VIOLATION_MAX);
	CHECK_INT(l.total, 1000);
	violation_add(&l, WALL_SECCOMP, "syscall", "attempt 3", "");
	CHECK_INT(l.v[3].count, 2); /* known ones are still counted */
}

static void a_long_text_is_cut_and_marked(void)
{
	struct violation_list l = {0};
	char text[1000];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	violation_add(&l, WALL_ROOT, text, text, text);
	CHECK_INT(strlen(l.v[0].kind), sizeof(l.v[0].kind) - 1);
	CHECK_INT(strlen(l.v[0].tried), sizeof(l.v[0].tried) - 1);
	CHECK_STR(l.v[0].tried + sizeof(l.v[0].tried) - 4, "...");
	CHECK_INT(strlen(l.v[0].instead), sizeof(l.v[0].instead) - 1);
	/* Equal as stored is equal. */
	text[900] = 'b';
	violation_add(&l, WALL_ROOT, text, text, text);
	CHECK_INT(l.n, 1);
}

static void a_text_that_just_fits_is_kept_whole(void)
{
	struct violation_list l = {0};
	char text[sizeof(l.v[0].tried)];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	violation_add(&l, WALL_ROOT, "write", text, "");
	CHECK_STR(l.v[0].tried, text);
}

static void a_cut_never_splits_a_character(void)
{
	for (size_t shift = 0; shift < 4; shift++) {
		struct violation_list l = {0};
		char text[600];
		size_t n = shift, end;

		memset(text, 'x', shift);
		for (; n + 4 < sizeof(text); n += 4)
			memcpy(text + n, "\xf0\x9f\x94\x92", 4);
		text[n] = '\0';
		violation_add(&l, WALL_ROOT, "write", text, "");
		end = strlen(l.v[0].tried) - 3;
		CHECK_STR(l.v[0].tried + end, "...");
		CHECK_INT((end - shift) % 4, 0);
	}
}

int main(void)
{
	RUN(identical_entries_are_counted);
	RUN(past_the_cap_only_the_total_grows);
	RUN(a_long_text_is_cut_and_marked);
	RUN(a_text_that_just_fits_is_kept_whole);
	RUN(a_cut_never_splits_a_character);
	return tap_done();
}
