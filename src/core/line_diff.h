/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/line_diff - the unified difference of two texts.
 *
 * Myers' O(ND) algorithm with a cap on the work: past it the differing middle is
 * shown as deleted and added whole, which is longer but as correct. Pure: bytes in,
 * lines out through a callback. Both texts may be hostile.
 */
#include "base/err.h"

#include <stddef.h>

#define LINE_DIFF_MAX (8u << 20) /* bytes of one text */

struct line_diff_text {
	const char *bytes;
	size_t n;
};

/*
 * One line of output: `mark` is '@' for a hunk's head (bytes hold it whole), ' ',
 * '-', '+', or '\\' for "No newline at end of file". No newline at the end of bytes.
 */
typedef void (*line_diff_fn)(char mark, const char *bytes, size_t n, void *arg);

struct line_diff_count {
	size_t added, deleted; /* lines */
};

/*
 * Compare; fn may be NULL to count only. 0, or -E2BIG for a text past the cap or
 * with too many lines.
 */
int line_diff(const struct line_diff_text *from, const struct line_diff_text *to, line_diff_fn fn,
	void *arg, struct line_diff_count *ret, struct err *err);
