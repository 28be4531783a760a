/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One request to a port inside a sandbox, over one channel to its guest.
 *
 *   linking --link--> connecting --MSG_OK--> head --final head--> body --end--> leaving
 *      |                  |                    |  \----- 101 ---> raw --------> leaving
 *      '--------502-------'---------502--------'
 *
 * 1. `r` is set until the request is answered, upgraded or gone; `client` only when raw.
 * 2. Bytes from inside are acknowledged (mux_consumed) when the client's queue has room, bytes
 *    of the client are read when the channel has credit: neither side fills our memory.
 * 3. In `leaving` only the channel is left; it frees the proxy when it is closed.
 * 4. Everything from inside is hostile: parsed by h1, or the client gets 502 or a reset.
 */
#include "api/e2b/signature.h"
#include "api/gateway/rewrite.h"
#include "api/sandbox.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define UP_HIGH    (256u << 10)
#define UP_LOW     (64u << 10)
#define LEAVING_MS 5000
#define TOUCH_MS   1000

enum phase { LINKING, CONNECTING, HEAD, BODY, RAW, LEAVING };

struct proxy {
	struct stream stream;
	struct sandbox *sb; /* until it is killed, or leaving */
	struct mux_channel channel;
	struct loop_timer timer; /* leaving */
	struct loop *loop;
	struct http_request *r;
	struct conn *client;
	enum phase phase;
	unsigned port;
	uint64_t touched_ms;
	struct buf up;   /* request bytes that found no credit */
	struct buf head; /* of the answer, as far as it came */
	size_t scan;
	struct h1_body body; /* of the answer */
	size_t owed;         /* bytes from inside, not yet acknowledged */
	bool is_up_paused, is_up_chunked;
	char method[40];
};

/* ---- ends ---- */

static void reply(
	struct http_request *r, int status, const char *id, const char *message, unsigned port)
{
	json_t *body = json_object();

	(void)json_object_set_new(body, "sandboxId", json_string(id));
	(void)json_object_set_new(body, "message", json_string(message));
	if (port > 0)
		(void)json_object_set_new(body, "port", json_integer(port));
	(void)json_object_set_new(body, "code", json_integer(status));
	api_reply_json(r, status, body);
}

static void proxy_free(struct proxy *p)
{
	loop_timer_cancel(p->loop, &p->timer);
	sandbox_stream_remove(&p->stream);
	mux_drop(&p->channel);
	buf_done(&p->up);
	buf_done(&p->head);
	free(p);
}

/* The client has what it gets. Let the server inside see an orderly end too. */
static void leave(struct proxy *p)
{
	p->r = NULL;
	p->client = NULL;
	p->sb = NULL;
	p->phase = LEAVING;
	sandbox_stream_remove(&p->stream);
	buf_done(&p->up);
	mux_consumed(&p->channel, p->owed);
	p->owed = 0;
	loop_timer_set(p->loop, &p->timer, LEAVING_MS);
	mux_end(&p->channel, 0, NULL); /* channel_closed() follows when the other end is done */
}

static void leaving_late(struct loop_timer *t)
{
	proxy_free((struct proxy *)((char *)t - offsetof(struct proxy, timer)));
}

/* No answer can be had from inside: say so, or break off what has begun. */
static void fail(struct proxy *p, const char *message)
{
	struct http_request *r = p->r;

	if (r && r->status == 0)
		reply(r, 502, p->sb->row.id, message, p->port);
	else if (r)
		http_abort(r);
	if (p->client)
		conn_abort(p->client);
	proxy_free(p);
}

static void cut(struct stream *s)
{
	struct proxy *p = (struct proxy *)((char *)s - offsetof(struct proxy, stream));

	if (p->phase == LINKING)
		sandbox_guest_cancel(p->sb, p);
	if (p->r)
		http_abort(p->r);
	if (p->client)
		conn_abort(p->client);
	proxy_free(p);
}

static void client_gone(struct http_request *r)
{
	struct proxy *p = r->state;

	if (p->phase == LINKING)
		sandbox_guest_cancel(p->sb, p);
	proxy_free(p);
}

static void touch(struct proxy *p)
{
	uint64_t now = loop_now_ms(p->loop);

	if (now - p->touched_ms < TOUCH_MS)
		return;
	p->touched_ms = now;
	sandbox_touch(p->sb);
}

/* ---- the request, inwards ---- */

/* Send p[0..n) behind what waits already. False: no memory. */
static bool send_up(struct proxy *p, const char *data, size_t n)
{
	size_t sent = 0;

	if (buf_len(&p->up) == 0)
		sent = mux_data(&p->channel, GUEST_BYTES, data, n);
	return buf_add(&p->up, data + sent, n - sent) == 0;
}

static void body_data(struct http_request *r, const char *data, size_t n, void *arg)
{
	struct proxy *p = arg;
	char size[24];
	bool ok = true;

	touch(p);
	if (p->is_up_chunked)
		ok = send_up(p, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n));
	ok = ok && send_up(p, data, n);
	if (p->is_up_chunked)
		ok = ok && send_up(p, "\r\n", 2);
	if (!ok) {
		fail(p, "The request could not be passed on");
		return;
	}
	if (buf_len(&p->up) > UP_HIGH) {
		p->is_up_paused = true;
		http_pause_body(r);
	}
}

static void body_end(struct http_request *r, bool is_whole, void *arg)
{
	struct proxy *p = arg;

	(void)r;
	if (is_whole && p->is_up_chunked && !send_up(p, "0\r\n\r\n", 5))
		fail(p, "The request could not be passed on");
}

static const struct http_sink body_sink = {body_data, body_end};

static void channel_writable(struct mux_channel *c)
{
	struct proxy *p = c->arg;

	buf_eat(&p->up, mux_data(c, GUEST_BYTES, buf_data(&p->up), buf_len(&p->up)));
	if (p->client) {
		conn_resume(p->client);
	} else if (p->r && p->is_up_paused && buf_len(&p->up) < UP_LOW) {
		p->is_up_paused = false;
		http_resume_body(p->r);
	}
}

static void channel_message(struct mux_channel *c, uint16_t kind, struct frame_reader *body)
{
	struct proxy *p = c->arg;
	AUTO_BUF struct buf head = {.cap = 4 * H1_HEAD_MAX};

	if (p->phase != CONNECTING || kind != MSG_OK || !frame_ok(body)) {
		if (p->phase != LEAVING)
			fail(p, "The sandbox's answer makes no sense");
		return;
	}
	p->phase = HEAD;
	if (rewrite_request(p->r, p->port, &head) < 0 ||
		!send_up(p, buf_data(&head), buf_len(&head))) {
		fail(p, "The request could not be passed on");
		return;
	}
	p->is_up_chunked = p->r->head.framing == H1_CHUNKED;
	if (p->r->head.framing != H1_NO_BODY)
		http_stream_body(p->r, &body_sink, p);
}

/* ---- raw, after 101 ---- */

static size_t raw_read(struct conn *c, const char *data, size_t n, void *arg)
{
	struct proxy *p = arg;
	size_t sent;

	touch(p);
	/* What was sent before comes first. */
	sent = buf_len(&p->up) > 0 ? 0 : mux_data(&p->channel, GUEST_BYTES, data, n);
	if (sent < n)
		conn_pause(c); /* until channel_writable() */
	return sent;
}

static bool raw_eof(struct conn *c, void *arg)
{
	struct proxy *p = arg;

	(void)c;
	mux_end(&p->channel, 0, NULL);
	return true;
}

static void acknowledge(struct proxy *p)
{
	mux_consumed(&p->channel, p->owed);
	p->owed = 0;
}

static void raw_drained(struct conn *c, void *arg)
{
	(void)c;
	acknowledge(arg);
}

static void raw_closed(struct conn *c, const struct err *err, void *arg)
{
	struct proxy *p = arg;

	(void)c;
	(void)err;
	p->client = NULL;
	proxy_free(p);
}

static const struct conn_events raw_events = {
	.read = raw_read,
	.eof = raw_eof,
	.drained = raw_drained,
	.closed = raw_closed,
};

/* ---- the answer, outwards ---- */

static void client_drained(struct http_request *r)
{
	acknowledge(r->state);
}

static int64_t answer_length(const struct h1_head *h)
{
	switch (h->framing) {
	case H1_LENGTH: return (int64_t)h->length;
	case H1_NO_BODY: /* of HEAD: what the body would have */
		return h1_find(h, "content-length") || h->status == 204 ? (int64_t)h->length : -1;
	default: return -1;
	}
}

/* False: the proxy is gone. So with those below. */
static bool answer_upgrade(struct proxy *p, const struct h1_head *h)
{
	struct http_request *r = p->r;

	if (!r->head.wants_upgrade || !h->wants_upgrade) {
		fail(p, "The server in the sandbox changed the protocol unasked");
		return false;
	}
	rewrite_answer(h, r);
	http_begin(r, 101, NULL, -1);
	p->phase = RAW;
	p->r = NULL;
	p->client = http_upgrade(r, &raw_events, p);
	return true;
}

/* A whole head is in p->head[0..n). */
static bool answer_head(struct proxy *p, size_t n)
{
	static struct h1_head h; /* used up before anybody else can come by */
	struct h1_text method = {p->method, strlen(p->method)};

	if (h1_parse_response(buf_data(&p->head), n, method, &h) != 0) {
		fail(p, "The server in the sandbox sent a malformed answer");
		return false;
	}
	if (h.status == 101)
		return answer_upgrade(p, &h);
	if (h.status < 200)
		return true; /* "continue" was ours to say; hints are dropped */
	rewrite_answer(&h, p->r);
	h1_body_init(&p->body, &h);
	p->phase = BODY;
	http_set_drained(p->r, client_drained);
	http_begin(p->r, h.status, NULL, answer_length(&h));
	return true;
}

static void answer_body(struct proxy *p, const char *data, size_t n)
{
	while (n > 0 && !p->body.is_done) {
		const char *out;
		size_t out_n;
		ssize_t used = h1_body_feed(&p->body, data, n, &out, &out_n);

		if (used < 0) {
			fail(p, "");
			return;
		}
		http_write(p->r, out, out_n);
		data += used;
		n -= (size_t)used;
	}
	if (p->body.is_done) {
		http_end(p->r);
		leave(p);
	}
}

/* Bytes while no final head was seen: they may hold several heads, and what follows. */
static void answer_start(struct proxy *p, const char *data, size_t n)
{
	struct buf rest;

	if (buf_add(&p->head, data, n) < 0) {
		fail(p, "The server in the sandbox sent a malformed answer");
		return;
	}
	while (p->phase == HEAD) {
		size_t end = h1_head_end(buf_data(&p->head), buf_len(&p->head), &p->scan);

		if (end > H1_HEAD_MAX || (end == 0 && buf_len(&p->head) > H1_HEAD_MAX)) {
			fail(p, "The server in the sandbox sent a malformed answer");
			return;
		}
		if (end == 0 || !answer_head(p, end))
			return;
		buf_eat(&p->head, end);
	}
	rest = p->head; /* the proxy may go while it is passed on */
	p->head = (struct buf){0};
	if (p->phase == RAW)
		conn_write(p->client, buf_data(&rest), buf_len(&rest));
	else
		answer_body(p, buf_data(&rest), buf_len(&rest));
	buf_done(&rest);
}

static void channel_data(struct mux_channel *c, uint8_t stream, const char *data, size_t n)
{
	struct proxy *p = c->arg;
	size_t queued = p->r ? http_queued(p->r) : p->client ? conn_queued(p->client) : 0;

	(void)stream;
	if (queued <= CONN_HIGH)
		mux_consumed(c, n);
	else
		p->owed += n;
	if (p->phase == LEAVING)
		return;
	touch(p);
	switch (p->phase) {
	case HEAD: answer_start(p, data, n); break;
	case BODY: answer_body(p, data, n); break;
	case RAW: conn_write(p->client, data, n); break;
	default: fail(p, "The sandbox's answer makes no sense");
	}
}

static void channel_ended(struct mux_channel *c, int code, const char *why)
{
	struct proxy *p = c->arg;

	(void)why; /* whatever it says: the client hears our words */
	switch (p->phase) {
	case CONNECTING:
		fail(p, code == ECONNREFUSED ? "The sandbox is running but port is not open"
					     : "The sandbox could not connect to the port");
		break;
	case HEAD:
		fail(p, "The server in the sandbox closed the connection without an answer");
		break;
	case BODY:
		if (code != 0 || p->body.framing != H1_UNTIL_CLOSE) {
			fail(p, "");
			break;
		}
		http_end(p->r);
		leave(p);
		break;
	case RAW:
		if (code != 0) {
			fail(p, "");
			break;
		}
		conn_finish(p->client);
		leave(p);
		break;
	default: break;
	}
}

static void channel_closed(struct mux_channel *c, int code)
{
	struct proxy *p = c->arg;

	(void)code;
	if (p->phase == LEAVING)
		proxy_free(p);
	else
		fail(p, "The connection to the sandbox was lost");
}

static const struct mux_events channel_events = {
	.message = channel_message,
	.data = channel_data,
	.writable = channel_writable,
	.ended = channel_ended,
	.closed = channel_closed,
};

/* ---- the beginning ---- */

static void linked(struct sandbox *sb, int code, void *arg)
{
	struct proxy *p = arg;
	struct frame_writer w = {0};
	struct err err;
	int r;

	p->phase = CONNECTING;
	if (code < 0) {
		fail(p, "The sandbox does not answer");
		return;
	}
	frame_put_u16(&w, (uint16_t)p->port);
	r = mux_open(sb->guest, &p->channel, GUEST_PORT, &w, &channel_events, p, &err);
	buf_done(&w.buf);
	if (r < 0)
		fail(p, "The sandbox has too many connections");
}

void gateway_handle(
	struct api *a, struct http_request *r, struct sandbox *sb, const char *id, unsigned port)
{
	const struct h1_field *token = h1_find(&r->head, "e2b-traffic-access-token");
	struct proxy *p;

	if (!sb) {
		reply(r, 502, id, "The sandbox was not found", 0);
		return;
	}
	if (sb->row.traffic_token[0] &&
		(!token || !signature_token_is(sb->row.traffic_token, token->value))) {
		reply(r, 403, id, "The traffic access token is missing or wrong", port);
		return;
	}
	p = MEM_NEW(struct proxy);
	p->loop = a->loop;
	p->sb = sb;
	p->r = r;
	p->port = port;
	p->timer.fire = leaving_late;
	p->stream.cut = cut;
	p->up.cap = 4 * UP_HIGH;
	/* h1 knows methods of up to 32 bytes. */
	(void)snprintf(
		p->method, sizeof(p->method), "%.*s", (int)r->head.method.n, r->head.method.p);
	r->state = p;
	r->gone = client_gone;
	sandbox_stream_add(sb, &p->stream);
	touch(p);
	sandbox_guest(sb, linked, p);
}
