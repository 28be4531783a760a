/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The head of a request on its way out: bindings put values in their places, and a placeholder
 * anywhere else stops it.
 *
 * Of a bound place (a header, a query parameter) there are four cases. It holds the placeholder:
 * the value takes its place. It is absent: it is added. It holds something else: the box has a
 * credential of its own, and that goes on unchanged. It holds another placeholder: refused.
 */
#include "egress/vault_impl.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* With its parts around the value. */
static void split_format(struct inject_bound *k)
{
	const char *format = k->b->format ? k->b->format : "{}";
	const char *hole = strstr(format, "{}");

	k->before = format;
	k->before_n = hole ? (size_t)(hole - format) : strlen(format);
	k->after = hole ? hole + 2 : "";
}

void inject_bind(struct inject *in, const struct vault *v, const char *owner,
	const struct policy *policy, const struct policy_rule *rule)
{
	for (size_t i = 0; i < rule->bindings_n && in->bound_n < POLICY_BINDINGS_MAX; i++) {
		struct inject_bound *k = &in->bound[in->bound_n++];

		*k = (struct inject_bound){.b = &policy->bindings[rule->bindings[i]]};
		k->secret = vault_find(v, owner, k->b->secret);
		placeholder_make(owner, k->b->secret, k->placeholder);
		split_format(k);
	}
}

int inject_misplaced(struct inject *in, const char *where)
{
	(void)snprintf(in->what, VAULT_WHAT_MAX, "%s", where);
	return err_set(in->err, EPERM,
		"a credential's placeholder stands in the %s, where no rule puts it", where);
}

int inject_missing(struct inject *in, const struct inject_bound *k)
{
	(void)snprintf(in->what, VAULT_WHAT_MAX, "secret %s", k->b->secret);
	return err_set(in->err, ENOKEY, "secret '%s' was revoked, or never set", k->b->secret);
}

static bool scan(const char *p, size_t n)
{
	struct vault_scan s = {0};

	return vault_scan_feed(&s, p, n);
}

/* "Basic dXNlcjpwYXNz" in clear; fresh, or NULL if it is no such thing. */
static char *decode_basic(const char *p, size_t n, size_t *ret_n)
{
	AUTO_FREE char *out = NULL;
	ssize_t k;

	if (n < 6 || strncasecmp(p, "basic ", 6) != 0)
		return NULL;
	for (p += 6, n -= 6; n > 0 && *p == ' '; p++)
		n--;
	out = malloc(n + 1);
	k = out ? inject_base64(p, n, out) : -1;
	if (k < 0)
		return NULL;
	*ret_n = (size_t)k;
	return TAKE_PTR(out);
}

bool inject_has_placeholder(const char *p, size_t n)
{
	AUTO_FREE char *clear = NULL;
	size_t clear_n = 0;

	if (scan(p, n))
		return true;
	clear = decode_basic(p, n, &clear_n);
	return clear && scan(clear, clear_n);
}

/* ---- the request line ---- */

/* Origin form, whatever was sent; the caller has compared the authority with the name. */
static void split_target(struct inject *in)
{
	struct h1_text t = in->head->target;
	const char *mark;
	size_t scheme = 0;

	if (t.n > 7 && strncasecmp(t.p, "http://", 7) == 0)
		scheme = 7;
	else if (t.n > 8 && strncasecmp(t.p, "https://", 8) == 0)
		scheme = 8;
	if (scheme > 0) {
		size_t n = scheme;

		while (n < t.n && t.p[n] != '/' && t.p[n] != '?')
			n++;
		t.p += n;
		t.n -= n;
	}
	mark = t.n > 0 ? memchr(t.p, '?', t.n) : NULL;
	in->path = (struct h1_text){t.p, mark ? (size_t)(mark - t.p) : t.n};
	if (in->path.n == 0)
		in->path = (struct h1_text){"/", 1};
	in->query = (struct h1_text){NULL, 0};
	if (mark)
		in->query = (struct h1_text){mark + 1, t.n - (size_t)(mark + 1 - t.p)};
}

/* As sent, and with its escapes undone, as often as a server could. */
static bool has_escaped_placeholder(struct h1_text t)
{
	AUTO_FREE char *clear = t.n > 0 ? malloc(t.n) : NULL;
	size_t n;

	if (t.n == 0)
		return false;
	if (!clear || scan(t.p, t.n))
		return true;
	n = inject_unescape(t.p, t.n, false, clear);
	if (scan(clear, n))
		return true;
	n = inject_unescape(clear, n, false, clear);
	return scan(clear, n);
}

static int add_value(struct buf *out, const struct inject_bound *k, bool is_query)
{
	int r = is_query ? inject_escape(out, k->before, k->before_n, "")
			 : buf_add(out, k->before, k->before_n);

	if (r == 0)
		r = is_query ? inject_escape(out, k->secret->value.p, k->secret->value.n, "")
			     : buf_add(out, k->secret->value.p, k->secret->value.n);
	if (r == 0)
		r = is_query ? inject_escape(out, k->after, strlen(k->after), "")
			     : buf_add(out, k->after, strlen(k->after));
	return r;
}

/* Is this parameter's name, unescaped, the one that is bound? */
static bool names_field(const struct inject_bound *k, struct h1_text name)
{
	char clear[256];
	size_t n;

	if (name.n >= sizeof(clear))
		return false;
	n = inject_unescape(name.p, name.n, true, clear);
	return n == strlen(k->b->field) && memcmp(clear, k->b->field, n) == 0;
}

/* One "name=value" as it came, or with the value of its binding. */
static int add_parameter(struct inject *in, struct h1_text p)
{
	const char *equals = p.n > 0 ? memchr(p.p, '=', p.n) : NULL;
	struct h1_text name = {p.p, equals ? (size_t)(equals - p.p) : p.n};
	bool has_placeholder = has_escaped_placeholder(p);
	int r;

	for (size_t i = 0; i < in->bound_n; i++) {
		struct inject_bound *k = &in->bound[i];

		if (k->b->place != POLICY_QUERY || !names_field(k, name))
			continue;
		if (has_placeholder && !inject_find(p.p + name.n, p.n - name.n, k->placeholder))
			continue;
		if (!has_placeholder) {
			k->is_done = true; /* the box's own */
			continue;
		}
		if (has_escaped_placeholder(name) || k->is_done)
			break;
		if (!k->secret)
			return inject_missing(in, k);
		k->is_done = true;
		r = buf_add(in->out, name.p, name.n);
		if (r == 0)
			r = buf_add(in->out, "=", 1);
		return r < 0 ? r : add_value(in->out, k, true);
	}
	return has_placeholder ? inject_misplaced(in, "query") : buf_add(in->out, p.p, p.n);
}

static int add_query(struct inject *in)
{
	struct h1_text rest = in->query;
	char mark = '?';
	int r = 0;

	if (rest.p && rest.n == 0)
		r = buf_add(in->out, "?", 1);
	while (r == 0 && rest.p && rest.n > 0) {
		const char *end = memchr(rest.p, '&', rest.n);
		struct h1_text one = {rest.p, end ? (size_t)(end - rest.p) : rest.n};

		r = buf_add(in->out, &mark, 1);
		if (r == 0)
			r = add_parameter(in, one);
		mark = '&';
		rest.p += one.n + (end ? 1 : 0);
		rest.n -= one.n + (end ? 1 : 0);
		if (end && rest.n == 0 && r == 0)
			r = buf_add(in->out, "&", 1);
	}
	for (size_t i = 0; r == 0 && i < in->bound_n; i++) {
		struct inject_bound *k = &in->bound[i];

		if (k->b->place != POLICY_QUERY || k->is_done || !k->secret)
			continue;
		k->is_done = true;
		r = buf_add(in->out, &mark, 1);
		if (r == 0)
			r = inject_escape(in->out, k->b->field, strlen(k->b->field), "");
		if (r == 0)
			r = buf_add(in->out, "=", 1);
		if (r == 0)
			r = add_value(in->out, k, true);
		mark = '&';
	}
	return r;
}

static int add_request_line(struct inject *in)
{
	int r;

	if (scan(in->head->method.p, in->head->method.n))
		return inject_misplaced(in, "method");
	if (has_escaped_placeholder(in->path))
		return inject_misplaced(in, "path");
	r = buf_add(in->out, in->head->method.p, in->head->method.n);
	if (r == 0)
		r = buf_add(in->out, " ", 1);
	if (r == 0)
		r = buf_add(in->out, in->path.p, in->path.n);
	if (r == 0)
		r = add_query(in);
	return r < 0 ? r : buf_addf(in->out, " HTTP/1.1\r\nHost: %s\r\n", in->host);
}

/* ---- fields ---- */

/* Of this connection, not of the request: the caller makes its own. */
static bool is_hop(const struct h1_head *h, struct h1_text name)
{
	static const char *const names[] = {"Host", "Connection", "Content-Length", "Expect",
		"Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade"};
	char text[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (h1_is_nocase(name, names[i]))
			return true;
	if (name.n >= 6 && strncasecmp(name.p, "proxy-", 6) == 0)
		return true;
	if (name.n >= sizeof(text))
		return false;
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	for (size_t i = 0; i < h->fields_n; i++)
		if (h1_is_nocase(h->fields[i].name, "Connection") &&
			h1_has_token(h->fields[i].value, text))
			return true;
	return false;
}

static bool is_bound_to(const struct inject_bound *k, struct h1_text name)
{
	if (k->b->place == POLICY_HEADER)
		return h1_is_nocase(name, k->b->field);
	return k->b->place == POLICY_BASIC && h1_is_nocase(name, "Authorization");
}

/* "user:value" in base64. The copy in clear is on the stack, and wiped. */
static int add_basic(
	struct inject *in, const struct inject_bound *k, const char *user, size_t user_n)
{
	char clear[VAULT_VALUE_MAX + 1024];
	size_t n = user_n + 1 + k->secret->value.n;
	char *to;
	int r;

	if (n > sizeof(clear))
		return err_set(in->err, E2BIG, "the user of basic credentials is too long");
	memcpy(clear, user, user_n);
	clear[user_n] = ':';
	memcpy(clear + user_n + 1, k->secret->value.p, k->secret->value.n);
	r = buf_add(in->out, "Basic ", 6);
	to = r == 0 ? buf_reserve(in->out, (n + 2) / 3 * 4 + 1) : NULL;
	if (to)
		buf_commit(in->out, (size_t)EVP_EncodeBlock(
					    (unsigned char *)to, (unsigned char *)clear, (int)n));
	OPENSSL_cleanse(clear, sizeof(clear));
	return to ? 0 : err_set(in->err, E2BIG, "the request's head is too long");
}

/* What the box wrote around the placeholder stays, unless the binding has a form of its own. */
static int add_in_place(
	struct inject *in, const struct inject_bound *k, struct h1_text value, const char *at)
{
	size_t before = (size_t)(at - value.p);
	const char *after = at + PLACEHOLDER_LEN;
	size_t after_n = value.n - before - PLACEHOLDER_LEN;
	int r;

	if (scan(value.p, before) || scan(after, after_n))
		return inject_misplaced(in, "same header twice");
	if (k->b->format)
		return add_value(in->out, k, false);
	r = buf_add(in->out, value.p, before);
	if (r == 0)
		r = buf_add(in->out, k->secret->value.p, k->secret->value.n);
	return r < 0 ? r : buf_add(in->out, after, after_n);
}

/* The user the binding names, else the one the box said (which may be the placeholder itself). */
static int add_credentials(
	struct inject *in, const struct inject_bound *k, const char *clear, size_t clear_n)
{
	const char *colon = clear_n > 0 ? memchr(clear, ':', clear_n) : NULL;
	size_t user_n = colon ? (size_t)(colon - clear) : 0;

	if (k->b->place == POLICY_HEADER && k->b->format)
		return add_value(in->out, k, false);
	if (k->b->place == POLICY_BASIC && *k->b->field)
		return add_basic(in, k, k->b->field, strlen(k->b->field));
	return add_basic(in, k, clear, scan(clear, user_n) ? 0 : user_n);
}

/* The value of a bound field: 1 = written, 0 = it holds no placeholder, < 0 = refused. */
static int add_bound(struct inject *in, struct inject_bound *k, struct h1_text value)
{
	const char *at = inject_find(value.p, value.n, k->placeholder);
	AUTO_FREE char *clear = NULL;
	size_t clear_n = 0;
	int r;

	if (!at) {
		clear = decode_basic(value.p, value.n, &clear_n);
		if (!clear || !inject_find(clear, clear_n, k->placeholder))
			return 0;
	}
	if (k->is_done)
		return inject_misplaced(in, "same header twice");
	if (!k->secret)
		return inject_missing(in, k);
	k->is_done = true;
	if (!at)
		r = add_credentials(in, k, clear, clear_n);
	else if (k->b->place == POLICY_BASIC)
		r = add_basic(in, k, k->b->field, strlen(k->b->field));
	else
		r = add_in_place(in, k, value, at);
	return r < 0 ? r : 1;
}

static int add_field(struct inject *in, const struct h1_field *f)
{
	char where[VAULT_WHAT_MAX];
	int r, written = 0;

	(void)snprintf(where, sizeof(where), "header %.*s", (int)(f->name.n > 50 ? 50 : f->name.n),
		f->name.p);
	if (scan(f->name.p, f->name.n))
		return inject_misplaced(in, "name of a header");
	r = buf_add(in->out, f->name.p, f->name.n);
	if (r == 0)
		r = buf_add(in->out, ": ", 2);
	for (size_t i = 0; r == 0 && !written && i < in->bound_n; i++) {
		if (!is_bound_to(&in->bound[i], f->name))
			continue;
		written = add_bound(in, &in->bound[i], f->value);
		r = written < 0 ? written : 0;
	}
	if (r == 0 && !written) {
		if (inject_has_placeholder(f->value.p, f->value.n))
			return inject_misplaced(in, where);
		r = buf_add(in->out, f->value.p, f->value.n);
	}
	/* Whatever stands there now: no binding adds a second one. */
	for (size_t i = 0; i < in->bound_n; i++)
		if (is_bound_to(&in->bound[i], f->name))
			in->bound[i].is_done = true;
	return r < 0 ? r : buf_add(in->out, "\r\n", 2);
}

static int add_absent(struct inject *in, struct inject_bound *k)
{
	bool is_basic = k->b->place == POLICY_BASIC;
	int r;

	if (k->is_done || !k->secret || (!is_basic && k->b->place != POLICY_HEADER))
		return 0;
	r = buf_addf(in->out, "%s: ", is_basic ? "Authorization" : k->b->field);
	if (r == 0)
		r = is_basic ? add_basic(in, k, k->b->field, strlen(k->b->field))
			     : add_value(in->out, k, false);
	/* Two bindings of one field: the first that has a value. */
	for (size_t i = 0; i < in->bound_n; i++)
		if (in->bound[i].b->place == k->b->place &&
			(is_basic || strcasecmp(in->bound[i].b->field, k->b->field) == 0))
			in->bound[i].is_done = true;
	return r < 0 ? r : buf_add(in->out, "\r\n", 2);
}

static int add_fields(struct inject *in)
{
	struct inject_bound *sign = inject_sigv4_bound(in);
	int r = 0;

	for (size_t i = 0; r == 0 && i < in->head->fields_n; i++) {
		const struct h1_field *f = &in->head->fields[i];

		if (sign && inject_sigv4_drops(f->name))
			continue;
		if (!is_hop(in->head, f->name))
			r = add_field(in, f);
		else if (inject_has_placeholder(f->value.p, f->value.n))
			r = inject_misplaced(in, "fields of the connection");
	}
	for (size_t i = 0; r == 0 && i < in->bound_n; i++)
		r = add_absent(in, &in->bound[i]);
	return r == 0 && sign ? inject_sigv4(in, sign) : r;
}

/* More than the head can become: growing would leave a copy of a value behind. */
static size_t size_bound(const struct inject *in)
{
	size_t n = in->head->target.n + in->head->method.n + strlen(in->host) + 256;

	for (size_t i = 0; i < in->head->fields_n; i++)
		n += 2 * in->head->fields[i].name.n + in->head->fields[i].value.n + 8;
	for (size_t i = 0; i < in->bound_n; i++) {
		const struct inject_bound *k = &in->bound[i];

		n += 3 * (strlen(k->b->field) + k->before_n + strlen(k->after)) + 1024;
		n += k->secret ? 3 * k->secret->value.n : 0;
	}
	return n;
}

static int inject_head(struct inject *in, const struct vault *v, const char *owner,
	const struct policy *policy, const struct policy_rule *rule)
{
	int r;

	in->what[0] = '\0';
	inject_bind(in, v, owner, policy, rule);
	split_target(in);
	if (!buf_reserve(in->out, size_bound(in)))
		return err_set(in->err, E2BIG, "the request's head is too long");
	r = add_request_line(in);
	if (r == 0)
		r = add_fields(in);
	if (r < 0) {
		buf_wipe(in->out);
		if (in->err->code == 0)
			(void)err_set(in->err, -r, "the request's head is too long");
	}
	return r;
}

int vault_inject_head(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const struct h1_head *head, const char *host,
	struct buf *out, char what[VAULT_WHAT_MAX], struct err *err)
{
	struct inject in = {.head = head, .host = host, .out = out, .what = what, .err = err};

	if (head->framing == H1_NO_BODY)
		in.body = "";
	return inject_head(&in, v, owner, policy, rule);
}

int vault_sign(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const struct h1_head *head, const char *host,
	const char *body, size_t n, struct buf *out, char what[VAULT_WHAT_MAX], struct err *err)
{
	struct inject in = {.head = head,
		.host = host,
		.body = body ? body : "",
		.body_n = n,
		.out = out,
		.what = what,
		.err = err};

	return inject_head(&in, v, owner, policy, rule);
}
