/* SPDX-License-Identifier: Apache-2.0 */

#include "base/own.h"
#include "core/line_diff.h"
#include "tap.h"

#include <errno.h>
#include <stdint.h>

struct sink {
	char text[4096];
	size_t n;
};

static void put(char mark, const char *bytes, size_t n, void *arg)
{
	struct sink *s = arg;
	int len = mark == '@' ? snprintf(s->text + s->n, sizeof(s->text) - s->n, "%.*s\n", (int)n,
					bytes)
			      : snprintf(s->text + s->n, sizeof(s->text) - s->n, "%c%.*s\n", mark,
					(int)n, bytes);

	s->n += (size_t)len;
}

static struct line_diff_text text_of(const char *s)
{
	return (struct line_diff_text){.bytes = s, .n = strlen(s)};
}

static const char *diff(const char *a, const char *b)
{
	static struct sink s;
	struct line_diff_text from = text_of(a);
	struct line_diff_text to = text_of(b);
	struct line_diff_count count;
	struct err err = {0};

	s = (struct sink){0};
	CHECK(line_diff(&from, &to, put, &s, &count, &err) == 0);
	return s.text;
}

static void equal_texts_have_no_hunk(void)
{
	CHECK_STR(diff("", ""), "");
	CHECK_STR(diff("a\nb\n", "a\nb\n"), "");
	CHECK_STR(diff("a", "a"), "");
}

static void a_change_has_three_lines_around_it(void)
{
	CHECK_STR(diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n"),
		"@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
}

static void far_changes_are_two_hunks_and_near_ones_are_one(void)
{
	CHECK_STR(diff("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n"),
		"@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
	CHECK_STR(diff("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n"),
		"@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
}

static void empty_sides_name_line_zero(void)
{
	CHECK_STR(diff("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
	CHECK_STR(diff("a\n", ""), "@@ -1 +0,0 @@\n-a\n");
}

static void a_missing_last_newline_is_told(void)
{
	CHECK_STR(diff("a\n", "a"), "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
	CHECK_STR(diff("x\na", "y\na"),
		"@@ -1,2 +1,2 @@\n-x\n+y\n a\n\\ No newline at end of file\n");
}

/* Rebuild `to` from the output; what Myers marks must be right for any pair. */
struct rebuild {
	char out[2048];
	size_t n;
	size_t changes;
};

static void collect(char mark, const char *bytes, size_t n, void *arg)
{
	struct rebuild *r = arg;

	r->changes += mark == '+' || mark == '-';
	if (mark != ' ' && mark != '+')
		return;
	memcpy(r->out + r->n, bytes, n);
	r->n += n;
	r->out[r->n++] = '\n';
}

/* A hunk leaves out what is equal before and after its context; in the middle nothing. */
static bool is_rebuilt(const struct rebuild *r, const char *b, size_t nb)
{
	for (size_t at = 0; at + r->n <= nb; at += 2) {
		if (memcmp(r->out, b + at, r->n) == 0)
			return true;
	}
	return r->n == 0;
}

static void random_texts_are_rebuilt_from_their_difference(void)
{
	uint32_t seed = 12345;

	for (int round = 0; round < 2000; round++) {
		char a[256] = "";
		char b[256] = "";
		size_t na = 0;
		size_t nb = 0;
		struct rebuild r = {0};
		struct line_diff_text from = {.bytes = a};
		struct line_diff_text to = {.bytes = b};
		struct line_diff_count count;
		struct err err = {0};

		/* At most seven lines of two letters: one hunk holds everything. */
		for (int side = 0; side < 2; side++) {
			size_t lines;

			seed = seed * 1664525u + 1013904223u;
			lines = (seed >> 16) % 8;
			for (size_t i = 0; i < lines; i++) {
				char *t = side ? b : a;
				size_t *n = side ? &nb : &na;

				seed = seed * 1664525u + 1013904223u;
				t[(*n)++] = (char)('a' + ((seed >> 16) & 1));
				t[(*n)++] = '\n';
			}
		}
		from.n = na;
		to.n = nb;
		CHECK(line_diff(&from, &to, collect, &r, &count, &err) == 0);
		if (r.changes == 0)
			CHECK(na == nb && memcmp(a, b, na) == 0);
		else
			CHECK(is_rebuilt(&r, b, nb));
		CHECK_INT((long long)count.added - (long long)count.deleted,
			(long long)nb / 2 - (long long)na / 2);
	}
}

static void too_many_differences_still_give_a_right_answer(void)
{
	enum { LINES = 3000 };
	static char a[LINES * 8];
	static char b[LINES * 8];
	struct line_diff_text from = {.bytes = a};
	struct line_diff_text to = {.bytes = b};
	struct line_diff_count count = {0};
	struct err err = {0};

	for (int i = 0; i < LINES; i++) {
		from.n += (size_t)snprintf(a + from.n, sizeof(a) - from.n, "a%d\n", i);
		to.n += (size_t)snprintf(b + to.n, sizeof(b) - to.n, "b%d\n", i);
	}
	CHECK(line_diff(&from, &to, NULL, NULL, &count, &err) == 0);
	CHECK_INT(count.added, LINES);
	CHECK_INT(count.deleted, LINES);
}

static void a_text_past_the_cap_is_refused(void)
{
	struct line_diff_text from = {.bytes = "", .n = 0};
	struct line_diff_text to = {.bytes = "", .n = LINE_DIFF_MAX + 1};
	struct line_diff_count count;
	struct err err = {0};

	CHECK_INT(line_diff(&from, &to, NULL, NULL, &count, &err), -E2BIG);
}

int main(void)
{
	RUN(equal_texts_have_no_hunk);
	RUN(a_change_has_three_lines_around_it);
	RUN(far_changes_are_two_hunks_and_near_ones_are_one);
	RUN(empty_sides_name_line_zero);
	RUN(a_missing_last_newline_is_told);
	RUN(random_texts_are_rebuilt_from_their_difference);
	RUN(too_many_differences_still_give_a_right_answer);
	RUN(a_text_past_the_cap_is_refused);
	return tap_done();
}
