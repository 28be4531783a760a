/* SPDX-License-Identifier: Apache-2.0 */

/* What is written: the rest of a request's head, an answer's head, answers of our own. */
#include "base/mem.h"
#include "egress/heads.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_one_of(struct h1_text name, const char *const *list)
{
	for (; *list; list++)
		if (h1_is_nocase(name, *list))
			return true;
	return false;
}

static bool is_named_by_connection(const struct h1_head *h, struct h1_text name)
{
	char text[64];

	if (name.n >= sizeof(text))
		return false; /* no token of a Connection field that anybody sends */
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	for (size_t i = 0; i < h->fields_n; i++)
		if (h1_is_nocase(h->fields[i].name, "connection") &&
			h1_has_token(h->fields[i].value, text))
			return true;
	return false;
}

static int add_line(struct buf *out, const char *name, struct h1_text value)
{
	int r = buf_add(out, name, strlen(name));

	if (r == 0)
		r = buf_add(out, value.p, value.n);
	return r == 0 ? buf_add(out, "\r\n", 2) : r;
}

static int add_text(struct buf *out, const char *s)
{
	return buf_add(out, s, strlen(s));
}

/* ---- requests ---- */

int heads_end_request(const struct heads_framing *f, struct buf *out)
{
	int r = 0;

	if (f->framing == H1_CHUNKED)
		r = add_text(out, "Transfer-Encoding: chunked\r\n");
	else if (f->framing == H1_LENGTH || f->has_length)
		r = buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)f->length);
	if (r == 0 && f->expects_continue)
		r = add_text(out, "Expect: 100-continue\r\n");
	if (r == 0 && f->is_websocket)
		return add_text(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	if (r == 0 && f->wants_trailers)
		r = add_text(out, "TE: trailers\r\nConnection: TE\r\n");
	return r == 0 ? add_text(out, "\r\n") : r;
}

/* ---- answers ---- */

/* RFC 9110 7.6.1, what frames a message, and the offer of roads that do not exist here. */
static const char *const hop_by_hop[] = {"connection", "keep-alive", "proxy-authenticate",
	"proxy-authentication-info", "proxy-connection", "te", "trailer", "transfer-encoding",
	"upgrade", "content-length", "alt-svc", NULL};

static int add_status_line(const struct h1_head *h, const char *raw, size_t n, struct buf *out)
{
	const char *cr = memchr(raw, '\r', n);
	size_t line = cr ? (size_t)(cr - raw) : 0;
	int r = buf_addf(out, "HTTP/1.1 %d ", h->status);

	/* h1 has seen that it holds no control byte. */
	if (r == 0 && line > 13)
		r = buf_add(out, raw + 13, line - 13);
	return r == 0 ? add_text(out, "\r\n") : r;
}

static int add_fields(const struct h1_head *h, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->fields_n; i++) {
		const struct h1_field *f = &h->fields[i];

		if (is_one_of(f->name, hop_by_hop) || is_named_by_connection(h, f->name))
			continue;
		r = buf_add(out, f->name.p, f->name.n);
		if (r == 0)
			r = add_line(out, ": ", f->value);
	}
	return r;
}

static int add_body_framing(const struct h1_head *h, bool is_chunked, struct buf *out)
{
	const struct h1_field *f;

	if (is_chunked) {
		f = h->framing == H1_CHUNKED ? h1_find(h, "trailer") : NULL;
		if (f && add_line(out, "Trailer: ", f->value) < 0)
			return -E2BIG;
		return add_text(out, "Transfer-Encoding: chunked\r\n");
	}
	if (h->framing == H1_LENGTH)
		return buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	/* No body: the length of what HEAD or 304 stand for, if it was said. */
	f = h->framing == H1_NO_BODY && h->status != 204 ? h1_find(h, "content-length") : NULL;
	return f ? add_line(out, "Content-Length: ", f->value) : 0;
}

static int add_connection(const struct heads_client *c, struct buf *out)
{
	if (c->closes)
		return add_text(out, "Connection: close\r\n\r\n");
	return add_text(out, c->minor == 0 ? "Connection: keep-alive\r\n\r\n" : "\r\n");
}

int heads_answer(const struct h1_head *h, const char *raw, size_t n, const struct heads_client *c,
	struct buf *out, bool *ret_chunked)
{
	bool is_chunked =
		c->minor == 1 && (h->framing == H1_CHUNKED || h->framing == H1_UNTIL_CLOSE);
	int r = add_status_line(h, raw, n, out);

	if (r == 0)
		r = add_fields(h, out);
	if (r == 0)
		r = add_body_framing(h, is_chunked, out);
	if (r == 0)
		r = add_connection(c, out);
	if (r == 0)
		*ret_chunked = is_chunked;
	return r;
}

int heads_interim(const struct h1_head *h, const char *raw, size_t n, struct buf *out)
{
	int r = add_status_line(h, raw, n, out);

	if (r == 0)
		r = add_fields(h, out);
	if (r == 0 && h->status == 101)
		r = add_text(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	return r == 0 ? add_text(out, "\r\n") : r;
}

/* ---- trailers ---- */

/* RFC 9110 6.5.1: what decides routing, framing, authentication or content is never one. */
static bool may_trail(struct h1_text name)
{
	static const char *const never[] = {"host", "authorization", "cookie", "set-cookie",
		"expect", "content-type", "content-encoding", "content-range", "cache-control",
		"max-forwards", "range", "location", "proxy-authorization", NULL};

	return !is_one_of(name, hop_by_hop) && !is_one_of(name, never);
}

int heads_trailers(const struct buf *lines, struct buf *out)
{
	const char *p = buf_data(lines);
	size_t n = buf_len(lines);

	while (n > 0) {
		const char *lf = memchr(p, '\n', n), *colon = memchr(p, ':', n);
		size_t len = lf ? (size_t)(lf - p) + 1 : n;

		if (!lf || !colon || colon > lf)
			return -EINVAL;
		if (may_trail((struct h1_text){p, (size_t)(colon - p)}) && buf_add(out, p, len) < 0)
			return -E2BIG;
		p += len;
		n -= len;
	}
	return 0;
}

/* ---- our own answers ---- */

static int add_reply(int status, const char *more, const char *type, const char *extra,
	size_t length, const struct heads_client *c, struct buf *out)
{
	int r = buf_addf(out,
		"HTTP/1.1 %d %s%s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
		"Cache-Control: no-store\r\n%s",
		status, h1_reason(status), more, type, length, extra);

	return r == 0 ? add_connection(c, out) : r;
}

int heads_reply(int status, const char *type, const char *body, size_t n,
	const struct heads_client *c, struct buf *out)
{
	int r = add_reply(status, "", type, "", n, c, out);

	return r == 0 && !c->is_head ? buf_add(out, body, n) : r;
}

int heads_denial(const struct denial *d, int status, bool is_json, const struct heads_client *c,
	struct buf *out)
{
	char text[DENIAL_TEXT_MAX + 1], more[64], extra[200];
	AUTO_FREE char *json = is_json ? denial_json(d) : NULL;
	const char *kind = denial_kind_name(d->kind), *body = json;
	bool has_rule = d->rule[0] && h1_is_value(d->rule, strlen(d->rule));
	size_t n;
	int r;

	denial_text(d, text);
	n = strlen(text);
	if (!json) {
		text[n++] = '\n';
		body = text;
	} else {
		n = strlen(json);
	}
	/* Many programs show the words of the status line and nothing else. */
	(void)snprintf(more, sizeof(more), " (bawn: %s)", kind);
	(void)snprintf(extra, sizeof(extra), "Bawn-Denied: %s%s%s\r\n", kind,
		has_rule ? "; rule=" : "", has_rule ? d->rule : "");
	r = add_reply(status != 0 ? status : denial_status(d->kind), more,
		json ? "application/json" : "text/plain; charset=utf-8", extra, n, c, out);
	return r == 0 && !c->is_head ? buf_add(out, body, n) : r;
}
