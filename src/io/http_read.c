/* SPDX-License-Identifier: Apache-2.0 */

/* Heads and bodies in: from the bytes of a connection to the handler, and to whom it named. */
#include "base/mem.h"
#include "io/http_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- heads ---- */

static void split_target(struct http_request *r)
{
	const char *mark = memchr(r->head.target.p, '?', r->head.target.n);

	r->path = r->head.target;
	r->query = (struct h1_text){"", 0};
	if (mark) {
		r->path.n = (size_t)(mark - r->path.p);
		r->query = (struct h1_text){mark + 1, r->head.target.n - r->path.n - 1};
	}
}

static void split_host(struct http_request *r)
{
	const struct h1_field *f = h1_find(&r->head, "host");
	const char *end;

	r->host = f ? f->value : (struct h1_text){"", 0};
	if (r->host.n == 0)
		return;
	end = memchr(r->host.p, *r->host.p == '[' ? ']' : ':', r->host.n);
	if (end)
		r->host.n = (size_t)(end - r->host.p) + (*end == ']');
}

static void hex32(char out[8], uint32_t v)
{
	for (int i = 7; i >= 0; i--, v >>= 4)
		out[i] = "0123456789abcdef"[v & 15];
}

/* A request with its own copy of the head; NULL if it was refused. */
static struct request *make_request(struct http_conn *hc, const char *p, size_t n)
{
	struct http_server *s = hc->server;
	struct request *rq = mem_must(malloc(sizeof(*rq) + n)); /* n <= H1_HEAD_MAX */
	struct http_request *r = &rq->pub;
	int status;

	memset((char *)rq + sizeof(r->head), 0, sizeof(*rq) - sizeof(r->head));
	memcpy(rq->bytes, p, n);
	status = h1_parse_request(rq->bytes, n, &r->head);
	/* We are no forward proxy: a target is a path, or "*" of the server itself. */
	if (status == 0 && r->head.target.p[0] != '/' &&
		!(h1_is(r->head.target, "*") && h1_is(r->head.method, "OPTIONS")))
		status = 400;
	if (status != 0) {
		free(rq);
		http_refuse_conn(hc, status, "the request's head is malformed");
		return NULL;
	}
	rq->owner = hc;
	rq->fields.cap = 4 * H1_HEAD_MAX;
	split_target(r);
	split_host(r);
	hex32(r->id, s->id_prefix);
	hex32(r->id + 8, (uint32_t)s->serial++);
	memcpy(r->peer, hc->peer, sizeof(r->peer));
	r->started_ms = loop_now_ms(s->loop);
	r->is_tls = hc->listener->tls != NULL;
	return rq;
}

/* Bytes used; 0: it is not whole yet. */
static size_t take_head(struct http_conn *hc, const char *p, size_t n)
{
	size_t end = h1_head_end(p, n, &hc->scan);
	struct request *rq;

	if (end == (size_t)-1 || end > H1_HEAD_MAX || (end == 0 && n > H1_HEAD_MAX)) {
		http_refuse_conn(hc, end == (size_t)-1 ? 400 : 431,
			"the request's head is malformed or too long");
		return n;
	}
	if (end == 0) {
		if (!hc->in_head)
			http_set_deadline(hc, hc->server->times.head);
		hc->in_head = true;
		return 0;
	}
	hc->in_head = false;
	rq = make_request(hc, p, end);
	if (!rq)
		return n;
	hc->request = rq;
	h1_body_init(&hc->body, &rq->pub.head);
	http_set_deadline(hc, 0);
	hc->server->handler(&rq->pub, hc->server->arg);
	return end;
}

/* ---- bodies ---- */

/* The body of a live request is malformed or broke off. */
static void spoil(struct http_conn *hc, int status, const char *message)
{
	struct request *rq = hc->request;
	bool can_answer = rq->pub.status == 0;

	if (rq->mode == BODY_COLLECT && can_answer) {
		http_refuse(rq, status, message);
		return;
	}
	http_break_off(rq);
	if (!hc->conn)
		return;
	if (can_answer) {
		http_refuse_conn(hc, status, message);
		return;
	}
	conn_abort(hc->conn);
	http_conn_close(hc);
}

static void collect(struct http_conn *hc, const char *p, size_t n)
{
	struct request *rq = hc->request;

	if (n > rq->cap - buf_len(&rq->collected)) {
		http_refuse(rq, 413, "the request's body is too large");
		return;
	}
	if (hc->body.is_done && buf_len(&rq->collected) == 0) { /* came in one piece: no copy */
		http_set_deadline(hc, 0);
		rq->done(&rq->pub, p, n, rq->arg);
		return;
	}
	rq->collected.cap = rq->cap;
	if (buf_add(&rq->collected, p, n) < 0) {
		http_refuse(rq, 413, "the request's body is too large");
		return;
	}
	if (!hc->body.is_done)
		return;
	http_set_deadline(hc, 0);
	rq->done(&rq->pub, buf_data(&rq->collected), buf_len(&rq->collected), rq->arg);
}

static uint64_t body_ms(const struct request *rq)
{
	return rq->is_patient ? 0 : rq->owner->server->times.body;
}

/* Bytes used; 0: nobody wants them now. */
static size_t feed_body(struct http_conn *hc, const char *p, size_t n)
{
	struct request *rq = hc->request;
	const char *out;
	size_t out_n;
	ssize_t used;

	if (hc->body.is_done || rq->mode == BODY_UNDECIDED || rq->is_paused)
		return 0;
	used = h1_body_feed(&hc->body, p, n, &out, &out_n);
	if (used < 0) {
		spoil(hc, 400, "the request's body is malformed");
		return n;
	}
	http_set_deadline(hc, hc->body.is_done ? 0 : body_ms(rq));
	if (rq->mode == BODY_COLLECT) {
		if (out_n > 0 || hc->body.is_done)
			collect(hc, out, out_n);
		return (size_t)used;
	}
	if (out_n > 0)
		rq->sink->data(&rq->pub, out, out_n, rq->arg);
	if (rq->owner && hc->body.is_done)
		rq->sink->end(&rq->pub, true, rq->arg);
	return (size_t)used;
}

/* The rest of an upload that was answered before its end. */
static size_t drop_body(struct http_conn *hc, const char *p, size_t n)
{
	const char *out;
	size_t out_n;
	ssize_t used = h1_body_feed(&hc->body, p, n, &out, &out_n);

	if (used < 0 || (size_t)used > hc->to_drop) {
		http_conn_finish(hc);
		return n;
	}
	hc->to_drop -= (size_t)used;
	if (hc->body.is_done) {
		hc->is_draining = false;
		http_set_deadline(hc, hc->server->times.keep_alive);
	}
	return (size_t)used;
}

static void want_body(struct request *rq)
{
	struct http_conn *hc = rq->owner;

	if (rq->pub.head.expects_continue && !rq->has_continued && rq->pub.status == 0) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

		conn_write(hc->conn, go_on, sizeof(go_on) - 1);
		rq->has_continued = true;
	}
	/* The client's end is told once: if that was before, nothing more will come. */
	http_set_deadline(hc, hc->has_eof && conn_kept(hc->conn) == 0 ? 1 : body_ms(rq));
	conn_resume(hc->conn);
}

void http_collect(struct http_request *r, size_t cap,
	void (*done)(struct http_request *r, const char *body, size_t n, void *arg), void *arg)
{
	struct request *rq = http_request_impl(r);
	struct http_conn *hc = rq->owner;

	if (!hc)
		return;
	if (hc->body.is_done) {
		done(r, "", 0, arg);
		return;
	}
	if (r->head.framing == H1_LENGTH && r->head.length > cap) {
		http_refuse(rq, 413, "the request's body is too large");
		return;
	}
	rq->mode = BODY_COLLECT;
	rq->cap = cap;
	rq->done = done;
	rq->arg = arg;
	want_body(rq);
}

void http_stream_body(struct http_request *r, const struct http_sink *sink, void *arg)
{
	struct request *rq = http_request_impl(r);

	if (!rq->owner)
		return;
	rq->mode = BODY_STREAM;
	rq->sink = sink;
	rq->arg = arg;
	if (rq->owner->body.is_done)
		sink->end(r, true, arg);
	else
		want_body(rq);
}

void http_patient_body(struct http_request *r)
{
	struct request *rq = http_request_impl(r);

	rq->is_patient = true;
	if (rq->owner && rq->mode != BODY_UNDECIDED)
		http_set_deadline(rq->owner, 0);
}

void http_pause_body(struct http_request *r)
{
	struct request *rq = http_request_impl(r);

	if (!rq->owner || rq->is_paused || rq->owner->body.is_done)
		return;
	rq->is_paused = true;
	http_set_deadline(rq->owner, 0); /* it is us who are slow */
	conn_pause(rq->owner->conn);
}

void http_resume_body(struct http_request *r)
{
	struct request *rq = http_request_impl(r);

	if (!rq->owner || !rq->is_paused)
		return;
	rq->is_paused = false;
	if (!rq->owner->body.is_done)
		http_set_deadline(rq->owner, body_ms(rq));
	conn_resume(rq->owner->conn);
}

/* ---- what conn tells ---- */

/* The client sends no more, and everything it sent was offered. */
static void judge_eof(struct http_conn *hc)
{
	struct request *rq = hc->request;

	if (!hc->has_eof || !hc->conn)
		return;
	if (!rq) {
		http_conn_finish(hc);
		return;
	}
	if (rq->is_paused || rq->mode == BODY_UNDECIDED) {
		/* A half-close may be how it ends its request: let the answer be made. For one
		 * that streams it means that nobody listens. */
		if (!rq->is_streaming || rq->is_paused)
			return;
	} else if (hc->body.is_done && !rq->is_streaming) {
		return;
	}
	http_break_off(rq);
	if (hc->conn)
		conn_abort(hc->conn);
	http_conn_close(hc);
}

static size_t on_read(struct conn *c, const char *p, size_t n, void *arg)
{
	struct http_conn *hc = arg;
	size_t at = 0;
	int served = 0;

	hc->in_read = true;
	while (at < n && hc->conn) {
		size_t used;

		if (hc->request)
			used = feed_body(hc, p + at, n - at);
		else if (hc->is_draining)
			used = drop_body(hc, p + at, n - at);
		else if (conn_queued(c) > CONN_HIGH || served++ == HTTP_TURN)
			break; /* goes on when the queue has drained; or after the others */
		else
			used = take_head(hc, p + at, n - at);
		if (used == 0)
			break;
		at += used;
	}
	hc->in_read = false;
	if (!hc->conn)
		return hc->is_upgraded ? at : n;
	if (served > HTTP_TURN)
		conn_resume(c);
	else if (conn_queued(c) <= CONN_HIGH)
		judge_eof(hc);
	return at;
}

static bool on_eof(struct conn *c, void *arg)
{
	struct http_conn *hc = arg;

	hc->has_eof = true;
	if (hc->request || conn_kept(c) == 0 || hc->in_head)
		judge_eof(hc);
	return true;
}

static void on_drained(struct conn *c, void *arg)
{
	struct http_conn *hc = arg;

	if (hc->request && hc->request->drained)
		hc->request->drained(&hc->request->pub);
	else if (!hc->request)
		conn_resume(c);
}

static void on_closed(struct conn *c, const struct err *err, void *arg)
{
	struct http_conn *hc = arg;

	(void)c;
	(void)err;
	if (hc->request)
		http_break_off(hc->request);
	http_conn_close(hc);
}

const struct conn_events http_conn_events = {
	.read = on_read,
	.eof = on_eof,
	.drained = on_drained,
	.closed = on_closed,
};
