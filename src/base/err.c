/* SPDX-License-Identifier: Apache-2.0 */

#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Mark a cut message, so that nobody takes the first half of a path for the whole. */
static void mark_cut(struct err *err, int wanted)
{
	if (wanted >= (int)sizeof(err->msg))
		memcpy(err->msg + sizeof(err->msg) - 4, "...", 4);
}

static int append(struct err *err, const char *sep, const char *tail)
{
	size_t used = strlen(err->msg);
	int n = snprintf(err->msg + used, sizeof(err->msg) - used, "%s%s", sep, tail);

	mark_cut(err, (int)used + n);
	return -err->code;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;
	int n;

	err->code = code;
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	mark_cut(err, n);
	return -code;
}

int err_sys(struct err *err, const char *fmt, ...)
{
	int code = errno ? errno : EIO;
	const char *reason = strerrordesc_np(code);
	va_list ap;
	int n;

	err->code = code;
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	mark_cut(err, n);
	return append(err, ": ", reason ? reason : "unknown error");
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char inner[sizeof(err->msg)];
	va_list ap;
	int n;

	memcpy(inner, err->msg, sizeof(inner));
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	mark_cut(err, n);
	return append(err, ": ", inner);
}

int err_hint(struct err *err, const char *fmt, ...)
{
	char hint[sizeof(err->msg)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(hint, sizeof(hint), fmt, ap);
	va_end(ap);
	return append(err, "; ", hint);
}
