/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Saying no: in HTTP where the box speaks it (inside a minted TLS session too), as a TLS alert
 * where we have no authority, as a reset otherwise. The violation is recorded here.
 */
#include "base/mem.h"
#include "base/text.h"
#include "egress/egress_impl.h"

#include <stdio.h>
#include <sys/socket.h>

static const unsigned char tls_access_denied[7] = {21, 3, 3, 0, 2, 2, 49};

static bool wants_json(const char *accept, size_t n)
{
	struct h1_text t = {accept, n};

	if (!accept || h1_has_token(t, "application/json") || h1_has_token(t, "*/*"))
		return true;
	return !memmem(accept, n, "text/", 5);
}

void refuse_format(
	const struct denial *d, const char *accept, size_t accept_n, bool is_head, struct buf *out)
{
	AUTO_FREE char *json = NULL;
	char text[DENIAL_TEXT_MAX + 1];
	bool is_json = wants_json(accept, accept_n);
	int status = denial_status(d->kind);
	const char *body = text;

	denial_text(d, text);
	if (is_json) {
		json = denial_json(d);
		body = json;
	}
	/* The reason phrase is all that some clients show of a proxy's no. */
	(void)buf_addf(out, "HTTP/1.1 %d %s\r\nBawn-Denied: %s", status, h1_reason(status),
		denial_kind_name(d->kind));
	if (d->rule[0] && h1_is_value(d->rule, strlen(d->rule)))
		(void)buf_addf(out, "; rule=%s", d->rule);
	(void)buf_addf(out,
		"\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
		"Connection: close\r\n\r\n",
		is_json ? "application/json" : "text/plain; charset=utf-8", strlen(body));
	if (!is_head)
		(void)buf_add(out, body, strlen(body));
}

/* ---- one last word on a connection ---- */

static size_t dropped(struct conn *c, const char *p, size_t n, void *arg)
{
	(void)c;
	(void)p;
	(void)arg;
	return n;
}

static void closed(struct conn *c, const struct err *err, void *arg)
{
	(void)c;
	(void)err;
	(void)arg;
}

static const struct conn_events last_words = {.read = dropped, .closed = closed};

static void say(struct egress_box *b, int take_fd, const void *p, size_t n)
{
	struct conn *c;
	struct err err;

	if (conn_create(b->engine->loop, take_fd, NULL, true, "box", &last_words, NULL, &c, &err) <
		0)
		return;
	conn_write(c, p, n);
	conn_finish(c);
}

static void reset(int take_fd)
{
	struct linger hard = {.l_onoff = 1};

	(void)setsockopt(take_fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	(void)close(take_fd);
}

void refuse_start(struct egress_box *b, int take_fd, const struct flow_target *t, bool is_http,
	const struct denial *d)
{
	AUTO_BUF struct buf out = {0};

	violation_note(b, d);
	if (b->is_gone || (!is_http && !t->is_tls)) {
		reset(take_fd);
	} else if (is_http) {
		refuse_format(d, NULL, 0, false, &out);
		say(b, take_fd, buf_data(&out), buf_len(&out));
	} else if (b->engine->mint) {
		intercept_refuse(b, take_fd, t, d);
	} else {
		say(b, take_fd, tls_access_denied, sizeof(tls_access_denied));
	}
}
