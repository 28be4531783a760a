/* SPDX-License-Identifier: Apache-2.0 */

/* Answers of our own: denials, and what http://bawn.internal/ has to say. */
#include "egress/intercept_impl.h"

#include <stdio.h>
#include <string.h>

/*
 * The answer is made; is anything of the request still to come? Then the connection ends behind
 * it.
 */
static void settle(struct intercept *ic)
{
	struct ic_request *q = &ic->req;

	q->client.closes = !q->keep_alive || !q->up.is_done || ic->phase == IC_ASK ||
			   ic->phase == IC_REFUSE || ic->is_lookup;
}

void ic_tell(struct intercept *ic, const struct denial *d, int status)
{
	AUTO_BUF struct buf out = {0};

	if (ic->req.is_answered || ic->phase == IC_RAW || !ic->client) {
		ic_abort(ic);
		return;
	}
	settle(ic);
	if (heads_denial(d, status, ic->req.is_json, &ic->req.client, &out) < 0) {
		ic_abort(ic);
		return;
	}
	conn_write(ic->client, buf_data(&out), buf_len(&out));
	dial_cancel(&ic->dial);
	ask_cancel(&ic->ask);
	ic->is_lookup = false;
	upstream_drop(TAKE_PTR(ic->up));
	ic_next(ic);
}

void ic_deny(struct intercept *ic, enum denial_kind kind, int status, const char *why)
{
	struct denial d;

	if (kind == DENIAL_MALFORMED)
		ic->req.keep_alive = false; /* who knows where the next request begins */
	denial_fill(
		&d, kind, &ic->flow, ic->req.method[0] ? ic->req.method : NULL, ic->req.path, why);
	violation_note(ic->flow.box, &d); /* a server's fault is none, and it knows that */
	ic_tell(ic, &d, status);
}

void ic_inside(struct intercept *ic, const struct h1_head *h)
{
	AUTO_BUF struct buf out = {0};
	const struct h1_field *f = h1_find(h, "accept");
	struct ic_request *q = &ic->req;
	struct inside_answer a = {0};
	char accept[256] = "";

	if (f)
		(void)snprintf(accept, sizeof(accept), "%.*s",
			(int)(f->value.n < 255 ? f->value.n : 255), f->value.p);
	inside_answer(&ic->flow, q->method, q->path, buf_data(&q->body), buf_len(&q->body),
		f ? accept : NULL, &a);
	settle(ic);
	if (heads_reply(a.status, a.type, buf_data(&a.body), buf_len(&a.body), &q->client, &out) <
		0) {
		buf_done(&a.body);
		ic_abort(ic);
		return;
	}
	buf_done(&a.body);
	conn_write(ic->client, buf_data(&out), buf_len(&out));
	ic_next(ic);
}
