/* SPDX-License-Identifier: Apache-2.0 */

/* Whom a request is for, and in which path. */
#include "egress/heads.h"

#include "base/mem.h"

#include <string.h>
#include <strings.h>

/* ---- authorities ---- */

/* Decimal, 1 to 65535, no sign, no leading zero games beyond five digits. */
static bool parse_port(const char *p, size_t n, uint16_t *ret)
{
	unsigned v = 0;

	if (n == 0 || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (unsigned)(p[i] - '0');
	}
	if (v == 0 || v > 65535)
		return false;
	*ret = (uint16_t)v;
	return true;
}

/* An IPv6 address in brackets; *rest is what follows. */
static bool parse_bracketed(struct h1_text t, struct heads_goal *g, struct h1_text *rest)
{
	const char *end = memchr(t.p, ']', t.n);
	size_t n;

	if (!end)
		return false;
	n = (size_t)(end - t.p);
	*rest = (struct h1_text){end + 1, t.n - n - 1};
	return address_parse(t.p + 1, n - 1, &g->addr) && memchr(t.p, ':', n);
}

bool heads_authority(struct h1_text t, struct heads_goal *ret)
{
	struct heads_goal g = {0};
	struct h1_text rest = {t.p + t.n, 0};

	if (t.n == 0)
		return false;
	if (t.p[0] == '[') {
		if (!parse_bracketed(t, &g, &rest))
			return false;
	} else {
		const char *colon = memchr(t.p, ':', t.n);
		size_t n = colon ? (size_t)(colon - t.p) : t.n;

		if (colon)
			rest = (struct h1_text){colon, t.n - n};
		if (!address_parse(t.p, n, &g.addr) && policy_clean_name(t.p, n, g.name) < 0)
			return false;
	}
	if (rest.n > 0 && (rest.p[0] != ':' || !parse_port(rest.p + 1, rest.n - 1, &g.port)))
		return false;
	*ret = g;
	return true;
}

bool heads_is_for(struct h1_text authority, const struct heads_goal *own)
{
	struct heads_goal g;

	if (!heads_authority(authority, &g) || (g.port != 0 && g.port != own->port))
		return false;
	if (own->name[0])
		return strcmp(g.name, own->name) == 0;
	return !g.name[0] && address_equal(&g.addr, &own->addr);
}

/* ---- targets ---- */

static bool starts_nocase(struct h1_text t, const char *s)
{
	size_t n = strlen(s);

	return t.n >= n && strncasecmp(t.p, s, n) == 0;
}

static bool absolute(struct h1_text t, struct heads_target *ret)
{
	size_t scheme = 7, n;
	const char *slash;

	if (starts_nocase(t, "https://")) {
		ret->is_https = true;
		scheme = 8;
	} else if (!starts_nocase(t, "http://")) {
		return false;
	}
	t = (struct h1_text){t.p + scheme, t.n - scheme};
	slash = memchr(t.p, '/', t.n);
	n = slash ? (size_t)(slash - t.p) : t.n;
	ret->authority = (struct h1_text){t.p, n};
	ret->origin = slash ? (struct h1_text){slash, t.n - n} : (struct h1_text){"/", 1};
	return n > 0;
}

bool heads_target(const struct h1_head *h, struct heads_target *ret)
{
	struct heads_target t = {.authority = {"", 0}, .origin = h->target};
	const char *query;

	/* A fragment never travels; what one of two programs takes for one, the other does not. */
	if (memchr(h->target.p, '#', h->target.n))
		return false;
	if (h->target.n > 0 && h->target.p[0] != '/' && !absolute(h->target, &t) &&
		!(h1_is(h->target, "*") && h1_is(h->method, "OPTIONS")))
		return false;
	query = memchr(t.origin.p, '?', t.origin.n);
	t.path = t.origin;
	if (query)
		t.path.n = (size_t)(query - t.origin.p);
	*ret = t;
	return true;
}

/* ---- paths ---- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The byte an escape at p[0..n) stands for, or -1. */
static int escaped(const char *p, size_t n)
{
	if (n < 3 || p[0] != '%' || hex(p[1]) < 0 || hex(p[2]) < 0)
		return -1;
	return hex(p[1]) << 4 | hex(p[2]);
}

static bool is_unreserved(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

/* All escapes undone once, in place; a bad one stands for itself. Returns the new length. */
static size_t unescape_all(char *p, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		int c = escaped(p + i, n - i);

		p[len++] = c < 0 ? p[i] : (char)c;
		i += c < 0 ? 0 : 2;
	}
	return len;
}

/* "." or "..", also with parameters, which some servers drop before they look at the dots. */
static bool has_dot_segment(const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t end = i, dots = 0;

		while (end < n && p[end] != '/' && p[end] != '\\')
			end++;
		while (i + dots < end && p[i + dots] == '.')
			dots++;
		if ((dots == 1 || dots == 2) && (i + dots == end || p[i + dots] == ';'))
			return true;
		i = end + 1;
	}
	return false;
}

/* Servers undo escapes before or after they resolve dots, and some undo them twice. */
static bool is_ambiguous(const char *path, size_t n)
{
	AUTO_FREE char *copy = mem_must(malloc(n + 1)); /* h1 bounds it */
	bool is_bad = has_dot_segment(path, n);

	memcpy(copy, path, n);
	for (int round = 0; round < 2 && !is_bad; round++) {
		n = unescape_all(copy, n);
		is_bad = has_dot_segment(copy, n) || memchr(copy, '\0', n);
	}
	return is_bad;
}

int heads_plain_path(struct h1_text path, char **ret)
{
	AUTO_FREE char *out = NULL;
	size_t len = 0;

	if (path.n > H1_HEAD_MAX || is_ambiguous(path.p, path.n))
		return -EINVAL;
	out = mem_must(malloc(path.n + 1));
	for (size_t i = 0; i < path.n; i++) {
		int c = escaped(path.p + i, path.n - i);

		if (c >= 0 && is_unreserved(c)) {
			out[len++] = (char)c;
			i += 2;
		} else if (path.p[i] != '/' || len == 0 || out[len - 1] != '/') {
			out[len++] = path.p[i];
		}
	}
	out[len] = '\0';
	*ret = len == path.n && memcmp(out, path.p, len) == 0 ? NULL : TAKE_PTR(out);
	return 0;
}

/* ---- what a client wants ---- */

static bool contains_nocase(struct h1_text t, const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i + n <= t.n; i++)
		if (strncasecmp(t.p + i, s, n) == 0)
			return true;
	return false;
}

bool heads_wants_json(const struct h1_head *h)
{
	const struct h1_field *accept = h1_find(h, "accept");

	if (!accept || contains_nocase(accept->value, "json"))
		return true;
	return contains_nocase(accept->value, "*/*") && !contains_nocase(accept->value, "text/");
}

bool heads_is_websocket(const struct h1_head *h)
{
	const struct h1_field *f = h1_find(h, "upgrade");

	return h->wants_upgrade && f && h1_is_nocase(f->value, "websocket") &&
	       h1_is(h->method, "GET") && h->framing == H1_NO_BODY;
}
