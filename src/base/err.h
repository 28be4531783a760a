/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * base/err - the one error type.
 *
 * A function that can fail returns >= 0 on success and a negative errno on
 * failure, and takes `struct err *err` as its last argument. On success *err is
 * untouched; on failure it holds the code and a message read outermost-first:
 * "sandbox k3f9: cgroup: mkdir 'bawn-k3f9': Permission denied".
 *
 * It holds no pointer and fits in PIPE_BUF, so a child between clone3() and
 * execve(), where malloc() is off limits, hands one to its parent whole, in a
 * single write(). The formatter behind it does not allocate either.
 */
struct err {
	int code;      /* positive errno; 0 means "no error yet" */
	char msg[500]; /* NUL-terminated, cut with "..." if too long */
};

/* Record a failure of our own making. Returns -code. */
int err_set(struct err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), nonnull(1, 3)));

/* Record the failure of a libc call, from errno. Returns -errno. */
int err_sys(struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), nonnull(1, 2)));

/* Prepend context to an error already recorded. Returns -err->code. */
int err_wrap(struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), nonnull(1, 2)));

/* Append what the user can do about it: "; <hint>". Returns -err->code. */
int err_hint(struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), nonnull(1, 2)));
