/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * base/text - strings: lists, sizes and durations as people write them, quoting for messages.
 *
 * Pure; knows no sandbox. A strv is a growable NULL-terminated array of owned
 * strings with a hard cap, for options that may be given many times.
 */
#include "base/err.h"
#include "base/own.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STRV_MAX 65536 /* entries; an option list longer than this is a mistake */

struct strv {
	char **v; /* NULL-terminated once anything was added; owned, each entry owned */
	size_t n;
};

/* Append a copy. -E2BIG past STRV_MAX. */
int strv_add(struct strv *s, const char *text, struct err *err);
bool strv_has(const struct strv *s, const char *text);
void strv_done(struct strv *s);

/* printf into fresh memory; aborts on OOM. The caller frees. For bounded texts only. */
char *text_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool text_starts(const char *s, const char *prefix);

/* True if `path` equals `dir` or lies below it; both absolute and normalised. */
bool text_path_below(const char *path, const char *dir);

/*
 * Normalise an absolute or relative path textually ("." and "//" vanish, ".."
 * takes the parent) against absolute `cwd`. No file system access. The caller frees *ret.
 * -EINVAL if empty, -ENAMETOOLONG past 4095 bytes.
 */
int text_path_clean(const char *path, const char *cwd, char **ret, struct err *err);

/* "512M", "2GiB", "1.5G", "4096", binary units. `what` names the field in the error. */
int text_parse_size(const char *s, const char *what, uint64_t *ret, struct err *err);

/* "90", "1.5", "300ms", "10s", "5m", "2h", "1d" to milliseconds; a bare number is seconds. */
int text_parse_duration(const char *s, const char *what, uint64_t *ret_ms, struct err *err);

/* Decimal, whole string, within [min, max]. */
int text_parse_u64(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret,
	struct err *err);

/*
 * The next number of a kernel file's columns: skip blanks, read decimal digits, leave *s behind
 * them. -EINVAL if there are none, -ERANGE if they do not fit; then *s and *ret are untouched.
 */
int text_scan_u64(const char **s, uint64_t *ret);
/* The same in base 16, without "0x", as the kernel prints capability sets. */
int text_scan_hex(const char **s, uint64_t *ret);

/*
 * Write `s` into out (NUL-terminated, cut with "..." when it does not fit) with
 * control bytes, quotes, backslashes and non-UTF-8-safe bytes as \xNN, so that a
 * hostile name cannot drive a terminal or forge a log line. Returns out.
 */
const char *text_quote(const char *s, char *out, size_t out_size);

/* True if `s` is UTF-8 (no surrogates, no overlong forms) without control characters. */
bool text_is_line(const char *s);

/* The entry of names[] closest to `word` (edit distance <= 3), or NULL. */
const char *text_closest(const char *word, const char *const *names, size_t n);
