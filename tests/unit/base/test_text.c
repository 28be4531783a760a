/* SPDX-License-Identifier: Apache-2.0 */

#include "base/text.h"

#include "tap.h"

#include <errno.h>

static void list_grows_and_stays_terminated(void)
{
	struct strv s = {0};
	struct err err = {0};
	char word[16];

	CHECK(!strv_has(&s, "a"));
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(word, sizeof(word), "w%d", i);
		CHECK_INT(strv_add(&s, word, &err), 0);
		CHECK(s.v[s.n] == NULL);
	}
	CHECK_INT(s.n, 1000);
	CHECK_STR(s.v[0], "w0");
	CHECK_STR(s.v[999], "w999");
	CHECK(strv_has(&s, "w512"));
	CHECK(!strv_has(&s, "w1000"));
	strv_done(&s);
	CHECK(s.v == NULL && s.n == 0);
	strv_done(&s);
}

static void list_has_a_cap(void)
{
	struct strv s = {0};
	struct err err = {0};

	for (int i = 0; i < STRV_MAX; i++)
		if (strv_add(&s, "x", &err) < 0)
			break;
	CHECK_INT(s.n, STRV_MAX);
	CHECK_INT(strv_add(&s, "x", &err), -E2BIG);
	CHECK_INT(s.n, STRV_MAX);
	strv_done(&s);
}

static void format_and_prefix(void)
{
	AUTO_FREE char *p = text_format("%s-%d", "box", 7);

	CHECK_STR(p, "box-7");
	CHECK(text_starts(p, "box"));
	CHECK(text_starts(p, ""));
	CHECK(!text_starts(p, "box-77"));
}

static void below_means_the_directory_or_inside(void)
{
	CHECK(text_path_below("/a/b", "/a"));
	CHECK(text_path_below("/a", "/a"));
	CHECK(!text_path_below("/ab", "/a"));
	CHECK(!text_path_below("/", "/a"));
	CHECK(text_path_below("/a", "/"));
	CHECK(text_path_below("/", "/"));
}

static void clean_is(const char *path, const char *cwd, const char *want)
{
	AUTO_FREE char *got = NULL;
	struct err err = {0};

	CHECK_INT(text_path_clean(path, cwd, &got, &err), 0);
	CHECK_STR(got, want);
}

static void paths_are_normalised_as_text(void)
{
	clean_is("/a//b/./c/", "/", "/a/b/c");
	clean_is("b/../c", "/a", "/a/c");
	clean_is(".", "/a/b", "/a/b");
	clean_is("..", "/a/b", "/a");
	clean_is("../../../..", "/a/b", "/");
	clean_is("/..", "/a", "/");
	clean_is("/", "/a", "/");
	clean_is("x", "/", "/x");
	clean_is("...", "/", "/...");
	clean_is("/a/..b/.c", "/", "/a/..b/.c");
}

static void bad_paths_are_refused_and_ret_untouched(void)
{
	char big[5000], *got = big;
	struct err err = {0};

	CHECK_INT(text_path_clean("", "/", &got, &err), -EINVAL);
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	CHECK_INT(text_path_clean(big, "/", &got, &err), -ENAMETOOLONG);
	big[4095] = '\0';
	CHECK_INT(text_path_clean(big, "/", &got, &err), -ENAMETOOLONG);
	CHECK(got == big);
	big[4094] = '\0';
	CHECK_INT(text_path_clean(big, "/", &got, &err), 0);
	CHECK_INT(strlen(got), 4095);
	free(got);
}

static void size_is(const char *s, uint64_t want)
{
	struct err err = {0};
	uint64_t n = 0;

	CHECK_INT(text_parse_size(s, "--memory", &n, &err), 0);
	CHECK_INT(n, want);
}

static void sizes_have_binary_units(void)
{
	size_is("4096", 4096);
	size_is("0", 0);
	size_is("1b", 1);
	size_is("64K", 64 << 10);
	size_is("512M", 512 << 20);
	size_is("2GiB", 2ull << 30);
	size_is("2gb", 2ull << 30);
	size_is("1.5G", 3ull << 29);
	size_is("0.5k", 512);
	size_is("1T", 1ull << 40);
	size_is("1.123456789123456789M", 1178028); /* digits past the sixth do not count */
}

static void non_sizes_are_refused(void)
{
	const char *bad[] = {"", "M", "-1", "+1", " 1", "1 ", "1.", ".5", "1X", "1e9", "0x10",
		"1MM", "99999999999999999999", "18446744073709551615K", "1..5", "1,5G", "NaN"};
	struct err err = {0};
	uint64_t n = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!CHECK_INT(text_parse_size(bad[i], "--memory", &n, &err), -EINVAL))
			tap_print("# accepted '%s'\n", bad[i]);
	CHECK_INT(n, 77);
	CHECK_STR(err.msg, "--memory 'NaN' is not a size; "
			   "write a number of bytes or 64K, 512M, 1.5G, 1T");
}

static void durations_are_milliseconds(void)
{
	struct err err = {0};
	uint64_t ms = 0;

	CHECK_INT(text_parse_duration("90", "--timeout", &ms, &err), 0);
	CHECK_INT(ms, 90000);
	CHECK_INT(text_parse_duration("1.5", "--timeout", &ms, &err), 0);
	CHECK_INT(ms, 1500);
	CHECK_INT(text_parse_duration("300ms", "--timeout", &ms, &err), 0);
	CHECK_INT(ms, 300);
	CHECK_INT(text_parse_duration("10s", "--timeout", &ms, &err), 0);
	CHECK_INT(ms, 10000);
	CHECK_INT(text_parse_duration("5m", "--timeout", &ms, &err), 0);
	CHECK_INT(ms, 300000);
	CHECK_INT(text_parse_duration("2h", "--timeout", &ms, &err), 0);
	CHECK_INT(ms, 7200000);
	CHECK_INT(text_parse_duration("1d", "--timeout", &ms, &err), 0);
	CHECK_INT(ms, 86400000);
	CHECK_INT(text_parse_duration("soon", "--timeout", &ms, &err), -EINVAL);
	CHECK_INT(text_parse_duration("300000000000000d", "--timeout", &ms, &err), -EINVAL);
	CHECK_INT(ms, 86400000);
}

static void numbers_keep_their_range(void)
{
	struct err err = {0};
	uint64_t n = 5;

	CHECK_INT(text_parse_u64("1", "--pids", 1, 10, &n, &err), 0);
	CHECK_INT(n, 1);
	CHECK_INT(text_parse_u64("10", "--pids", 1, 10, &n, &err), 0);
	CHECK_INT(text_parse_u64("0", "--pids", 1, 10, &n, &err), -EINVAL);
	CHECK_INT(text_parse_u64("11", "--pids", 1, 10, &n, &err), -EINVAL);
	CHECK_INT(text_parse_u64("5x", "--pids", 1, 10, &n, &err), -EINVAL);
	CHECK_STR(err.msg, "--pids '5x' is not a whole number from 1 to 10");
	CHECK_INT(text_parse_u64("18446744073709551615", "n", 0, UINT64_MAX, &n, &err), 0);
	CHECK(n == UINT64_MAX);
	CHECK_INT(text_parse_u64("18446744073709551616", "n", 0, UINT64_MAX, &n, &err), -EINVAL);
	CHECK(n == UINT64_MAX);
}

static void columns_of_numbers_are_scanned(void)
{
	const char *s = "         0 100000\t65536\nrest", *big = " 99999999999999999999";
	uint64_t a = 7, b = 7, c = 7, d = 7;

	CHECK_INT(text_scan_u64(&s, &a), 0);
	CHECK_INT(text_scan_u64(&s, &b), 0);
	CHECK_INT(text_scan_u64(&s, &c), 0);
	CHECK(a == 0 && b == 100000 && c == 65536);
	CHECK_INT(text_scan_u64(&s, &d), -EINVAL);
	CHECK_STR(s, "\nrest");
	CHECK_INT(text_scan_u64(&big, &d), -ERANGE);
	CHECK_STR(big, " 99999999999999999999");
	CHECK_INT(d, 7);
}

static void capability_sets_are_scanned(void)
{
	const char *s = "\t000001ffFEffffff\n", *none = "xyz", *big = "10000000000000000";
	uint64_t n = 7;

	CHECK_INT(text_scan_hex(&s, &n), 0);
	CHECK(n == 0x1fffeffffffull);
	CHECK_STR(s, "\n");
	n = 7;
	CHECK_INT(text_scan_hex(&none, &n), -EINVAL);
	CHECK_INT(text_scan_hex(&big, &n), -ERANGE);
	CHECK_INT(n, 7);
}

static void quoting_disarms_what_a_terminal_obeys(void)
{
	char out[64];

	CHECK_STR(text_quote("plain name", out, sizeof(out)), "plain name");
	CHECK_STR(text_quote("a\x1b[2Jb", out, sizeof(out)), "a\\x1b[2Jb");
	CHECK_STR(text_quote("it's \"x\"\\", out, sizeof(out)), "it\\x27s \\x22x\\x22\\x5c");
	CHECK_STR(text_quote("l1\nl2\x7f", out, sizeof(out)), "l1\\x0al2\\x7f");
	CHECK_STR(text_quote("caf\xc3\xa9", out, sizeof(out)), "caf\xc3\xa9");
	/* bad UTF-8: lone byte, overlong '/', C1 control, surrogate, cut sequence */
	CHECK_STR(text_quote("\xff", out, sizeof(out)), "\\xff");
	CHECK_STR(text_quote("\xc0\xaf", out, sizeof(out)), "\\xc0\\xaf");
	CHECK_STR(text_quote("\xc2\x9b", out, sizeof(out)), "\\xc2\\x9b");
	CHECK_STR(text_quote("a\xd8\x9c", out, sizeof(out)), "a\\xd8\\x9c");
	CHECK_STR(text_quote("a\xe2\x81\xa0", out, sizeof(out)), "a\\xe2\\x81\\xa0");
	CHECK_STR(text_quote("a\xc2\xad", out, sizeof(out)), "a\\xc2\\xad");
	CHECK_STR(text_quote("a\xf3\xa0\x81\x81", out, sizeof(out)), "a\\xf3\\xa0\\x81\\x81");
	CHECK_STR(text_quote("\xe2\x80\x93\xe6\xbc\xa2", out, sizeof(out)),
		"\xe2\x80\x93\xe6\xbc\xa2");
	CHECK_STR(text_quote("\xed\xa0\x80", out, sizeof(out)), "\\xed\\xa0\\x80");
	CHECK_STR(text_quote("\xe2\x82", out, sizeof(out)), "\\xe2\\x82");
	/* right-to-left override */
	CHECK_STR(text_quote("\xe2\x80\xae", out, sizeof(out)), "\\xe2\\x80\\xae");
}

static void quoting_cuts_with_dots_inside_the_buffer(void)
{
	char out[8];

	CHECK_STR(text_quote("1234567", out, sizeof(out)), "1234567");
	CHECK_STR(text_quote("12345678", out, sizeof(out)), "1234...");
	CHECK_STR(text_quote("123\n5678", out, sizeof(out)), "123...");
	CHECK_STR(text_quote("\n\n", out, sizeof(out)), "\\x0a...");
	CHECK_STR(text_quote("abc", out, 3), "");
	CHECK_STR(text_quote("abcd", out, 4), "...");
}

static void closest_forgives_three_slips(void)
{
	const char *names[] = {"seccomp", "landlock", "memory", "pids", "ipc"};

	CHECK_STR(text_closest("secomp", names, 5), "seccomp");
	CHECK_STR(text_closest("landlcok", names, 5), "landlock");
	CHECK_STR(text_closest("memroy", names, 5), "memory");
	CHECK_STR(text_closest("pid", names, 5), "pids");
	CHECK(text_closest("network", names, 5) == NULL);
	CHECK(text_closest("", names, 5) == NULL);
	CHECK(text_closest("zzz", names, 5) == NULL);
}

int main(void)
{
	RUN(list_grows_and_stays_terminated);
	RUN(list_has_a_cap);
	RUN(format_and_prefix);
	RUN(below_means_the_directory_or_inside);
	RUN(paths_are_normalised_as_text);
	RUN(bad_paths_are_refused_and_ret_untouched);
	RUN(sizes_have_binary_units);
	RUN(non_sizes_are_refused);
	RUN(durations_are_milliseconds);
	RUN(numbers_keep_their_range);
	RUN(columns_of_numbers_are_scanned);
	RUN(capability_sets_are_scanned);
	RUN(quoting_disarms_what_a_terminal_obeys);
	RUN(quoting_cuts_with_dots_inside_the_buffer);
	RUN(closest_forgives_three_slips);
	return tap_done();
}
