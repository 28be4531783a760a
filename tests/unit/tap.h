/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * tests/tap - the unit tests' whole framework.
 *
 *	static void empty_list_has_no_member(void) { CHECK(!strv_has(&s, "a")); }
 *	int main(void) { RUN(empty_list_has_no_member); return tap_done(); }
 *
 * One RUN is one case, named by its function. A failed CHECK prints the place and
 * the expression, marks the case as failed and goes on; it returns the condition,
 * so `if (!CHECK(fd >= 0)) return;` stops early. A forked child does not CHECK: it
 * hands its verdict to the parent by _exit() or a pipe. Unbuffered, so that a
 * crash loses no line and a fork repeats none.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count;        /* cases run */
static int tap_bad;          /* cases failed */
static bool tap_case_failed; /* the current case */
static char tap_skip[200];   /* reason the current case cannot run here; empty if it ran */

#define CHECK(cond) tap_check((cond), #cond, __FILE__, __LINE__)
/* Equal strings; prints both when they are not. */
#define CHECK_STR(got, want) tap_check_str(got, want, #got, __FILE__, __LINE__)
/* Equal integers; prints both when they are not. */
#define CHECK_INT(got, want)                                                                       \
	tap_check_int((long long)(got), (long long)(want), #got, __FILE__, __LINE__)
#define RUN(fn) tap_run(#fn, fn)

__attribute__((format(printf, 1, 2))) static inline void tap_print(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vdprintf(1, fmt, ap);
	va_end(ap);
}

static inline bool tap_check(bool ok, const char *text, const char *file, int line)
{
	if (!ok) {
		tap_case_failed = true;
		tap_print("# %s:%d: CHECK(%s) failed\n", file, line, text);
	}
	return ok;
}

static inline bool tap_check_str(
	const char *got, const char *want, const char *text, const char *file, int line)
{
	bool ok = got && want ? strcmp(got, want) == 0 : got == want;

	if (!ok) {
		tap_case_failed = true;
		tap_print("# %s:%d: %s is \"%s\", expected \"%s\"\n", file, line, text,
			got ? got : "(null)", want ? want : "(null)");
	}
	return ok;
}

static inline bool tap_check_int(
	long long got, long long want, const char *text, const char *file, int line)
{
	if (got != want) {
		tap_case_failed = true;
		tap_print("# %s:%d: %s is %lld, expected %lld\n", file, line, text, got, want);
	}
	return got == want;
}

/* This machine cannot run the case; say why and return from it. A failure in CI. */
__attribute__((format(printf, 1, 2))) static inline void tap_cannot(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(tap_skip, sizeof(tap_skip), fmt, ap);
	va_end(ap);
}

static inline void tap_run(const char *name, void (*fn)(void))
{
	char sentence[200];
	size_t i;

	for (i = 0; name[i] && i + 1 < sizeof(sentence); i++)
		sentence[i] = name[i] == '_' ? ' ' : name[i];
	sentence[i] = '\0';
	tap_case_failed = false;
	tap_skip[0] = '\0';
	fn();
	tap_count++;
	if (tap_case_failed)
		tap_bad++;
	tap_print("%s %d - %s%s%s\n", tap_case_failed ? "not ok" : "ok", tap_count, sentence,
		tap_skip[0] ? " # SKIP " : "", tap_skip);
}

/* Print the plan; returns the exit status. */
static inline int tap_done(void)
{
	tap_print("1..%d\n", tap_count);
	return tap_bad > 0;
}
