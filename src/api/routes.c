/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Matching a path against a table of routes, and the name of a sandbox in a Host. Pure: no request
 * is answered here.
 *
 * A pattern's segment is literal text or {name}, which matches any one non-empty segment.
 * Literals are compared with the bytes as sent: nobody needs "/s%61ndboxes".
 */
#include "api/api.h"

#include <ctype.h>
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

bool api_parse_port(struct h1_text t, unsigned *ret)
{
	unsigned v = 0;

	if (t.n == 0 || t.n > 5)
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return false;
		v = v * 10 + (unsigned)(t.p[i] - '0');
	}
	*ret = v;
	return v >= 1 && v <= 65535;
}

bool api_parse_id(struct h1_text t, char ret[SANDBOX_ID_MAX])
{
	if (t.n == 0 || t.n >= SANDBOX_ID_MAX)
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (!isalnum((unsigned char)t.p[i]))
			return false;
		ret[i] = (char)tolower((unsigned char)t.p[i]);
	}
	ret[t.n] = '\0';
	return true;
}

bool api_host_split(struct h1_text host, unsigned *ret_port, char ret_id[SANDBOX_ID_MAX])
{
	const char *dash = memchr(host.p, '-', host.n), *dot;
	struct h1_text id;

	if (!dash || !api_parse_port((struct h1_text){host.p, (size_t)(dash - host.p)}, ret_port))
		return false;
	id = (struct h1_text){dash + 1, host.n - (size_t)(dash + 1 - host.p)};
	dot = memchr(id.p, '.', id.n);
	if (!dot)
		return false;
	id.n = (size_t)(dot - id.p);
	return api_parse_id(id, ret_id);
}
