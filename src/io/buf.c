/* SPDX-License-Identifier: Apache-2.0 */

#include "io/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BUF_MIN 256

static void release(struct buf *b)
{
	if (b->is_secret && b->p)
		explicit_bzero(b->p, b->size);
	free(b->p);
}

static size_t cap_of(const struct buf *b)
{
	return b->cap > 0 ? b->cap : BUF_CAP_DEFAULT;
}

/* Room for n more bytes behind `end`. */
static int grow(struct buf *b, size_t n)
{
	size_t len = buf_len(b), size = b->size;
	char *p;

	if (n > cap_of(b) || len > cap_of(b) - n)
		return -E2BIG;
	if (n <= b->size - b->end)
		return 0;
	/* Moving is worth it only if most of the buffer was eaten: else each add would move. */
	if (b->at >= len && len + n <= b->size) {
		memmove(b->p, b->p + b->at, len);
		b->at = 0;
		b->end = len;
		return 0;
	}
	if (size < BUF_MIN)
		size = BUF_MIN;
	while (size < len + n)
		size *= 2;
	p = malloc(size);
	if (!p)
		return -ENOMEM;
	if (len > 0)
		memcpy(p, b->p + b->at, len);
	release(b);
	b->p = p;
	b->at = 0;
	b->end = len;
	b->size = size;
	return 0;
}

int buf_add(struct buf *b, const void *data, size_t n)
{
	int r;

	if (n == 0)
		return 0;
	r = grow(b, n);
	if (r < 0)
		return r;
	memcpy(b->p + b->end, data, n);
	b->end += n;
	return 0;
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
	size_t room = b->p ? b->size - b->end : 0;
	va_list ap;
	int n, r;

	/* Most fit where there is room already: then once is enough. */
	va_start(ap, fmt);
	n = vsnprintf(room > 0 ? b->p + b->end : NULL, room, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	if ((size_t)n < room && buf_len(b) + (size_t)n < cap_of(b)) {
		b->end += (size_t)n;
		return 0;
	}
	r = grow(b, (size_t)n + 1); /* vsnprintf() wants room for a NUL we do not count */
	if (r < 0)
		return r;
	va_start(ap, fmt);
	(void)vsnprintf(b->p + b->end, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->end += (size_t)n;
	return 0;
}

char *buf_reserve(struct buf *b, size_t n)
{
	if (grow(b, n > 0 ? n : 1) < 0)
		return NULL;
	return b->p + b->end;
}

void buf_commit(struct buf *b, size_t n)
{
	b->end += n;
}

void buf_eat(struct buf *b, size_t n)
{
	b->at += n;
	if (b->at >= b->end)
		buf_done(b);
}

void buf_done(struct buf *b)
{
	release(b);
	b->p = NULL;
	b->at = b->end = b->size = 0;
}
