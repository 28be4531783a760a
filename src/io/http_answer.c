/* SPDX-License-Identifier: Apache-2.0 */

/* Answers out: heads, framing, and how a request comes to its end. */
#include "io/http_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- the end of a request ---- */

static void detach(struct request *rq)
{
	struct http_conn *hc = rq->owner;

	rq->owner = NULL;
	hc->request = NULL;
	hc->has_served = true;
	if (hc->server->log)
		hc->server->log(&rq->pub, hc->server->arg);
	http_bury(hc->server, rq);
}

void http_complete(struct request *rq)
{
	struct http_conn *hc = rq->owner;
	bool was_paused = rq->is_paused;

	detach(rq);
	if (rq->will_close || hc->server->is_draining) {
		http_conn_finish(hc);
		return;
	}
	hc->is_draining = !hc->body.is_done;
	hc->to_drop = HTTP_DRAIN_MAX;
	http_set_deadline(
		hc, hc->is_draining ? hc->server->times.drain : hc->server->times.keep_alive);
	if (hc->in_read)
		return; /* it goes on by itself */
	if (was_paused || conn_kept(hc->conn) > 0)
		conn_resume(hc->conn);
	else if (hc->has_eof)
		http_conn_finish(hc);
}

void http_break_off(struct request *rq)
{
	struct http_conn *hc = rq->owner;

	if (!hc)
		return;
	/* First, so that whatever the callbacks call on it does nothing. */
	rq->owner = NULL;
	hc->request = NULL;
	if (rq->mode == BODY_STREAM && !hc->body.is_done)
		rq->sink->end(&rq->pub, false, rq->arg);
	if (rq->pub.gone)
		rq->pub.gone(&rq->pub);
	if (hc->server->log)
		hc->server->log(&rq->pub, hc->server->arg);
	http_bury(hc->server, rq);
}

void http_abort(struct http_request *r)
{
	struct request *rq = http_request_impl(r);
	struct http_conn *hc = rq->owner;

	if (!hc)
		return;
	detach(rq);
	conn_abort(hc->conn);
	http_conn_close(hc);
}

struct conn *http_upgrade(struct http_request *r, const struct conn_events *events, void *arg)
{
	struct request *rq = http_request_impl(r);
	struct http_conn *hc = rq->owner;
	struct conn *c;

	assert(r->status == 101);
	if (!hc)
		return NULL;
	c = hc->conn;
	detach(rq);
	hc->is_upgraded = true;
	conn_set_events(c, events, arg);
	http_conn_close(hc);
	return c;
}

/* ---- heads ---- */

static const char *date_of(struct http_server *s)
{
	struct timespec now;
	struct tm tm;

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (now.tv_sec != s->date_s) {
		s->date_s = now.tv_sec;
		(void)gmtime_r(&now.tv_sec, &tm);
		(void)strftime(s->date, sizeof(s->date), "%a, %d %b %Y %T GMT", &tm);
	}
	return s->date;
}

void http_field_text(struct http_request *request, struct h1_text name, struct h1_text value)
{
	struct request *rq = http_request_impl(request);
	struct buf *b = &rq->fields;
	int r;

	assert(h1_is_name(name.p, name.n) && h1_is_value(value.p, value.n));
	if (!rq->owner)
		return;
	r = buf_add(b, name.p, name.n);
	if (r == 0)
		r = buf_add(b, ": ", 2);
	if (r == 0)
		r = buf_add(b, value.p, value.n);
	if (r == 0)
		r = buf_add(b, "\r\n", 2);
	assert(r == 0); /* the cap is above what any head that we make or pass on can hold */
}

void http_field(struct http_request *r, const char *name, const char *value)
{
	http_field_text(
		r, (struct h1_text){name, strlen(name)}, (struct h1_text){value, strlen(value)});
}

/* Whether the connection can serve another request after this answer. */
static bool must_close(const struct request *rq)
{
	const struct http_conn *hc = rq->owner;
	const struct h1_head *h = &rq->pub.head;

	if (!h->keep_alive || hc->server->is_draining)
		return true;
	if (hc->body.is_done)
		return false;
	/* Nobody can tell whether a client that waits for its 100 will still send the body. */
	if (h->expects_continue && !rq->has_continued)
		return true;
	return h->framing == H1_LENGTH && hc->body.left > HTTP_DRAIN_MAX;
}

/* length < 0: not known. */
static void send_head(struct request *rq, int status, const char *type, int64_t length)
{
	struct http_conn *hc = rq->owner;
	struct conn *c = hc->conn;
	const struct h1_head *h = &rq->pub.head;
	char text[512], *p = text, *end = text + sizeof(text);

	rq->pub.status = status;
	rq->is_bodyless =
		status < 200 || status == 204 || status == 304 || h1_is(h->method, "HEAD");
	rq->has_length = length >= 0;
	rq->left = length >= 0 ? (uint64_t)length : 0;
	rq->will_close = must_close(rq);
	if (status == 101) {
		p += snprintf(p, (size_t)(end - p), "HTTP/1.1 101 %s\r\n", h1_reason(101));
		conn_write(c, text, (size_t)(p - text));
		goto fields;
	}
	if (length < 0 && !rq->is_bodyless) {
		rq->is_chunked = h->minor == 1;
		rq->will_close |= h->minor == 0;
	}
	p += snprintf(p, (size_t)(end - p), "HTTP/1.1 %d %s\r\nDate: %s\r\n", status,
		h1_reason(status), date_of(hc->server));
	if (rq->will_close)
		p += snprintf(p, (size_t)(end - p), "Connection: close\r\n");
	else if (h->minor == 0)
		p += snprintf(p, (size_t)(end - p), "Connection: keep-alive\r\n");
	if (rq->is_chunked)
		p += snprintf(p, (size_t)(end - p), "Transfer-Encoding: chunked\r\n");
	else if (length >= 0 && status != 204 && status != 304)
		p += snprintf(p, (size_t)(end - p), "Content-Length: %lld\r\n", (long long)length);
	conn_write(c, text, (size_t)(p - text));
	if (type) {
		conn_write(c, "Content-Type: ", 14);
		conn_write(c, type, strlen(type));
		conn_write(c, "\r\n", 2);
	}
fields:
	conn_write(c, buf_data(&rq->fields), buf_len(&rq->fields));
	conn_write(c, "\r\n", 2);
	buf_done(&rq->fields);
}

/* ---- bodies ---- */

void http_reply(struct http_request *r, int status, const char *type, const void *body, size_t n)
{
	struct request *rq = http_request_impl(r);

	if (!rq->owner)
		return;
	assert(r->status == 0);
	send_head(rq, status, type, (int64_t)n);
	if (!rq->is_bodyless)
		conn_write(rq->owner->conn, body, n);
	http_complete(rq);
}

void http_begin(struct http_request *r, int status, const char *type, int64_t length)
{
	struct request *rq = http_request_impl(r);

	if (!rq->owner)
		return;
	assert(r->status == 0);
	rq->is_streaming = true;
	send_head(rq, status, type, length);
}

void http_write(struct http_request *r, const void *p, size_t n)
{
	struct request *rq = http_request_impl(r);
	struct conn *c;
	char size[24];

	if (!rq->owner || rq->is_bodyless || n == 0)
		return;
	c = rq->owner->conn;
	if (rq->is_chunked) {
		conn_write(c, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n));
		conn_write(c, p, n);
		conn_write(c, "\r\n", 2);
		return;
	}
	if (rq->has_length) {
		assert(n <=
			rq->left); /* more than was announced would be read as the next answer */
		rq->left -= n;
	}
	conn_write(c, p, n);
}

size_t http_queued(const struct http_request *r)
{
	const struct request *rq = (const struct request *)r;

	return rq->owner ? conn_queued(rq->owner->conn) : 0;
}

bool http_is_broken(const struct http_request *r)
{
	const struct request *rq = (const struct request *)r;

	return !rq->owner || conn_is_broken(rq->owner->conn);
}

void http_set_drained(struct http_request *r, void (*drained)(struct http_request *r))
{
	http_request_impl(r)->drained = drained;
}

void http_end(struct http_request *r)
{
	struct request *rq = http_request_impl(r);

	if (!rq->owner)
		return;
	if (rq->left > 0 && !rq->is_bodyless) { /* shorter than announced: must not look whole */
		http_abort(r);
		return;
	}
	if (rq->is_chunked)
		conn_write(rq->owner->conn, "0\r\n\r\n", 5);
	http_complete(rq);
}

/* ---- refusals ---- */

static int refusal(char *out, size_t size, int status, const char *message)
{
	return snprintf(out, size, "{\"code\":%d,\"message\":\"%s\"}", status, message);
}

void http_refuse(struct request *rq, int status, const char *message)
{
	char body[256];
	int n = refusal(body, sizeof(body), status, message);

	rq->pub.head.keep_alive = false; /* what follows cannot be told apart from the body */
	if (rq->pub.gone)
		rq->pub.gone(&rq->pub);
	http_reply(&rq->pub, status, "application/json", body, (size_t)n);
}

void http_refuse_conn(struct http_conn *hc, int status, const char *message)
{
	char body[256], head[256];
	int n = refusal(body, sizeof(body), status, message), head_n;

	head_n = snprintf(head, sizeof(head),
		"HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n"
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		status, h1_reason(status), date_of(hc->server), n);
	conn_write(hc->conn, head, (size_t)head_n);
	conn_write(hc->conn, body, (size_t)n);
	http_conn_finish(hc);
}
