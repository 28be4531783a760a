/* SPDX-License-Identifier: Apache-2.0 */

#include "api/gateway/rewrite.h"

#include <string.h>
#include <strings.h>

static bool is_one_of(struct h1_text name, const char *const *list)
{
	for (; *list; list++)
		if (h1_is_nocase(name, *list))
			return true;
	return false;
}

/* RFC 9110 7.6.1, and what frames a message: that is ours to say. */
static const char *const hop_by_hop[] = {"connection", "keep-alive", "proxy-authenticate",
	"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
	"content-length", NULL};

static bool is_named_by_connection(const struct h1_head *h, struct h1_text name)
{
	char text[64];

	if (name.n >= sizeof(text))
		return false; /* no token of ours to compare with: then it is an end-to-end field */
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	for (size_t i = 0; i < h->fields_n; i++)
		if (h1_is_nocase(h->fields[i].name, "connection") &&
			h1_has_token(h->fields[i].value, text))
			return true;
	return false;
}

static bool is_hop_by_hop(const struct h1_head *h, const struct h1_field *f)
{
	return is_one_of(f->name, hop_by_hop) || is_named_by_connection(h, f->name);
}

static int add_field(struct buf *out, struct h1_text name, struct h1_text value)
{
	int r = buf_add(out, name.p, name.n);

	if (r == 0)
		r = buf_add(out, ": ", 2);
	if (r == 0)
		r = buf_add(out, value.p, value.n);
	return r == 0 ? buf_add(out, "\r\n", 2) : r;
}

/* Secrets of the API, not of what runs in the sandbox: it may be hostile to its own caller. */
static bool is_secret(const struct h1_field *f)
{
	static const char *const names[] = {"e2b-traffic-access-token", "x-access-token", NULL};
	struct h1_text v = f->value;

	/* A key of ours, in either place where the API looks for one. */
	if (h1_is_nocase(f->name, "authorization") && v.n > 7 &&
		h1_is_nocase((struct h1_text){v.p, 7}, "Bearer "))
		v = (struct h1_text){v.p + 7, v.n - 7};
	else if (!h1_is_nocase(f->name, "x-api-key"))
		return is_one_of(f->name, names);
	return v.n >= 4 && memcmp(v.p, "e2b_", 4) == 0;
}

static bool is_passed_in(const struct h1_head *h, const struct h1_field *f)
{
	/* Expect was answered by our own server; X-Forwarded is written by us. */
	static const char *const ours[] = {
		"host", "expect", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", NULL};

	return !is_one_of(f->name, ours) && !is_secret(f) && !is_hop_by_hop(h, f);
}

/* By a unix socket, our own local one or another. */
static bool is_by_socket(const char *peer)
{
	return strncmp(peer, "unix:", 5) == 0 || strncmp(peer, "local:", 6) == 0;
}

/* Only a proxy beside us (which ends TLS, say) is believed about where a request came from. */
static bool is_near(const char *peer)
{
	return strncmp(peer, "127.", 4) == 0 || strcmp(peer, "::1") == 0 || is_by_socket(peer);
}

static int add_forwarded(const struct http_request *r, struct buf *out)
{
	const struct h1_field *by = h1_find(&r->head, "x-forwarded-for");
	const struct h1_field *proto = h1_find(&r->head, "x-forwarded-proto");
	const struct h1_field *as = h1_find(&r->head, "x-forwarded-host");
	const struct h1_field *host = h1_find(&r->head, "host");
	bool is_unix = is_by_socket(r->peer);
	int e;

	if (!is_near(r->peer))
		by = proto = as = NULL;
	e = buf_addf(out, "X-Forwarded-For: %.*s%s%s\r\n", by ? (int)by->value.n : 0,
		by ? by->value.p : "", by ? ", " : "", is_unix ? "127.0.0.1" : r->peer);
	if (e == 0)
		e = buf_addf(out, "X-Forwarded-Proto: %.*s\r\n",
			proto ? (int)proto->value.n : (r->is_tls ? 5 : 4),
			proto ? proto->value.p : "https");
	if (!as)
		as = host;
	if (e == 0 && as)
		e = add_field(out, (struct h1_text){"X-Forwarded-Host", 16}, as->value);
	return e;
}

static int add_framing(const struct http_request *r, struct buf *out)
{
	switch (r->head.framing) {
	case H1_LENGTH:
		return buf_addf(
			out, "Content-Length: %llu\r\n", (unsigned long long)r->head.length);
	case H1_CHUNKED: return buf_addf(out, "Transfer-Encoding: chunked\r\n");
	default:
		/* A POST without a body says so, or some servers wait for one. */
		return h1_find(&r->head, "content-length") ? buf_addf(out, "Content-Length: 0\r\n")
							   : 0;
	}
}

int rewrite_request(const struct http_request *r, unsigned port, struct buf *out)
{
	const struct h1_head *h = &r->head;
	const struct h1_field *host = h1_find(h, "host"), *upgrade = h1_find(h, "upgrade");
	int e = buf_addf(out, "%.*s %.*s HTTP/1.1\r\n", (int)h->method.n, h->method.p,
		(int)h->target.n, h->target.p);

	if (e == 0)
		e = host ? add_field(out, (struct h1_text){"Host", 4}, host->value)
			 : buf_addf(out, "Host: localhost:%u\r\n", port);
	for (size_t i = 0; e == 0 && i < h->fields_n; i++)
		if (is_passed_in(h, &h->fields[i]))
			e = add_field(out, h->fields[i].name, h->fields[i].value);
	if (e == 0)
		e = add_forwarded(r, out);
	if (e == 0)
		e = add_framing(r, out);
	if (e == 0 && h->wants_upgrade)
		e = add_field(out, (struct h1_text){"Upgrade", 7}, upgrade->value);
	if (e == 0)
		e = buf_addf(out, "Connection: %s\r\n\r\n", h->wants_upgrade ? "Upgrade" : "close");
	return e;
}

bool rewrite_is_kept(const struct h1_head *h, const struct h1_field *f)
{
	return !h1_is_nocase(f->name, "date") && !is_hop_by_hop(h, f); /* Date is ours */
}

void rewrite_answer(const struct h1_head *h, struct http_request *r)
{
	for (size_t i = 0; i < h->fields_n; i++)
		if (rewrite_is_kept(h, &h->fields[i]))
			http_field_text(r, h->fields[i].name, h->fields[i].value);
	if (h->status == 101) {
		http_field(r, "Connection", "Upgrade");
		http_field_text(r, (struct h1_text){"Upgrade", 7}, h1_find(h, "upgrade")->value);
	}
}
