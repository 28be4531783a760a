/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Matching a path against a table of routes. Pure: no request is answered here.
 *
 * A pattern's segment is literal text or {name}, which matches any one non-empty segment.
 * Literals are compared with the bytes as sent: nobody needs "/s%61ndboxes".
 */
#include "api/api.h"

#include <stdio.h>
#include <string.h>

/* Cut the segment behind the next '/' off *s; false at the end. */
static bool segment(struct h1_text *s, struct h1_text *ret)
{
	const char *end;

	if (s->n == 0 || *s->p != '/')
		return false;
	end = memchr(s->p + 1, '/', s->n - 1);
	ret->p = s->p + 1;
	ret->n = end ? (size_t)(end - ret->p) : s->n - 1;
	s->n -= ret->n + 1;
	s->p += ret->n + 1;
	return true;
}

/* 0, 404 or 400. */
static int match(const char *pattern, struct h1_text path, struct route_match *ret)
{
	struct h1_text want = {pattern, strlen(pattern)}, w, got;

	ret->params_n = 0;
	while (segment(&want, &w)) {
		if (!segment(&path, &got))
			return 404;
		if (w.n == 0 || *w.p != '{') {
			if (w.n != got.n || memcmp(w.p, got.p, w.n) != 0)
				return 404;
			continue;
		}
		if (got.n == 0 || ret->params_n == ROUTE_PARAMS_MAX)
			return 404;
		switch (h1_unescape(got.p, got.n, false, ret->params[ret->params_n++],
			sizeof(ret->params[0]))) {
		case -EINVAL: return 400;
		case -ENAMETOOLONG: return 404;
		default: break;
		}
	}
	return path.n == 0 ? 0 : 404;
}

static void add_method(char *allow, size_t size, const char *method)
{
	size_t n = strlen(allow);

	(void)snprintf(allow + n, size - n, "%s%s", n ? ", " : "", method);
}

int route_find(const struct route *table, struct h1_text method, struct h1_text path,
	struct route_match *ret, char *allow, size_t allow_size)
{
	int verdict = 404;

	/* HEAD is GET; the HTTP layer leaves the body out. */
	if (h1_is(method, "HEAD"))
		method = (struct h1_text){"GET", 3};
	for (const struct route *t = table; t->method; t++) {
		int m = match(t->pattern, path, ret);

		if (m == 404)
			continue;
		if (h1_is(method, t->method)) {
			ret->route = t;
			return m;
		}
		verdict = 405;
		add_method(allow, allow_size, t->method);
	}
	return verdict;
}
