/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/echo.h"

#include <string.h>

void echo_add(struct echo *e, const void *p, size_t n)
{
	struct buf *b = &e->values[e->n];

	if (n < ECHO_MIN || e->n == ECHO_MAX)
		return;
	*b = (struct buf){.is_secret = true};
	if (buf_add(b, p, n) == 0)
		e->n++;
}

bool echo_has(const struct echo *e, const char *p, size_t n)
{
	for (size_t i = 0; i < e->n; i++)
		if (memmem(p, n, buf_data(&e->values[i]), buf_len(&e->values[i])))
			return true;
	return false;
}

/* How many bytes at the end of p[0..n) could be the beginning of v. */
static size_t begun(const struct buf *v, const char *p, size_t n)
{
	const char *value = buf_data(v), *end = p + n;
	const char *at = n >= buf_len(v) ? end - buf_len(v) + 1 : p;

	while (at < end) {
		at = memchr(at, value[0], (size_t)(end - at));
		if (!at)
			return 0;
		if (memcmp(at, value, (size_t)(end - at)) == 0)
			return (size_t)(end - at);
		at++;
	}
	return 0;
}

int echo_feed(struct echo *e, const char *p, size_t n, struct buf *ret)
{
	size_t keep = 0;
	int r = buf_add(ret, buf_data(&e->held), buf_len(&e->held));

	if (r == 0)
		r = buf_add(ret, p, n);
	if (r < 0)
		return r;
	e->held.is_secret = true;
	buf_done(&e->held);
	if (echo_has(e, buf_data(ret), buf_len(ret)))
		return -EPERM;
	for (size_t i = 0; i < e->n; i++) {
		size_t k = begun(&e->values[i], buf_data(ret), buf_len(ret));

		keep = k > keep ? k : keep;
	}
	r = buf_add(&e->held, buf_data(ret) + buf_len(ret) - keep, keep);
	if (r == 0)
		ret->end -= keep;
	return r;
}

int echo_rest(struct echo *e, struct buf *ret)
{
	int r = buf_add(ret, buf_data(&e->held), buf_len(&e->held));

	buf_done(&e->held);
	return r;
}

void echo_done(struct echo *e)
{
	for (size_t i = 0; i < e->n; i++)
		buf_done(&e->values[i]);
	buf_done(&e->held);
	*e = (struct echo){0};
}
