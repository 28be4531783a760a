/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The server's side: a connection from the pool or a new one, the request's head, the answer.
 *
 * Everything a server says is hostile: parsed by h1, bounded in size, number and time; what
 * cannot be understood is a 502 if nothing was passed on yet, and a reset otherwise, never a
 * guess.
 */
#include "egress/intercept_impl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with a valid clock */
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void bad_server(struct intercept *ic, const char *why)
{
	ic_deny(ic, DENIAL_UPSTREAM, 502, why);
}

/* ---- sending ---- */

static bool is_idempotent(const char *method)
{
	static const char *const list[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (strcmp(method, list[i]) == 0)
			return true;
	return false;
}

/* May the request go out a second time, on another connection, if this one dies without a word? */
static bool is_replayable(const struct ic_request *q)
{
	if (q->is_second_try || q->has_byte || q->has_sent_body)
		return false;
	return is_idempotent(q->method) || !q->up.is_done; /* no server acts on half a request */
}

static void send_request(struct intercept *ic)
{
	struct ic_request *q = &ic->req;
	struct conn *to = ic->up->conn;

	ic->phase = IC_FLOW;
	ic->up_scan = 0;
	q->sent_us = now_us();
	ic_moved(ic);
	ic_wait(ic, IC_SHAKE_MS);
	conn_write(to, buf_data(&q->out), buf_len(&q->out));
	conn_write(to, buf_data(&q->body), buf_len(&q->body));
	if (!ic->up->is_reused) {
		buf_wipe(&q->out);
		buf_wipe(&q->body);
	}
	conn_set_window(ic->client, IC_WINDOW);
	if (!q->up.is_done)
		conn_resume(ic->client);
}

/* A connection is there: what was it wanted for? */
static void connected(struct intercept *ic)
{
	if (!ic->is_lookup) {
		send_request(ic);
		return;
	}
	ic->is_lookup = false;
	ic->phase = IC_HEAD; /* the same head again */
	ic_wait(ic, IC_HEAD_MS);
	conn_resume(ic->client);
}

static void dialled(struct dial *d, int fd, enum denial_kind kind, const char *why)
{
	struct intercept *ic = (struct intercept *)((char *)d - offsetof(struct intercept, dial));
	struct egress *e = ic->flow.box->engine;
	char address[ADDRESS_TEXT_MAX];
	const char *peer = ic->flow.name;
	struct conn *c = NULL;
	struct err err;

	if (fd < 0) {
		ic_deny(ic, kind, 0, why);
		return;
	}
	if (!*peer) {
		address_format(&ic->flow.addr, address);
		peer = address;
	}
	if (conn_create(e->loop, fd, ic->is_tls ? e->upstream_tls : NULL, false, peer,
		    &ic_up_events, ic, &c, &err) < 0) {
		bad_server(ic, "the connection could not be used");
		return;
	}
	conn_set_window(c, IC_WINDOW);
	conn_set_secret(c);
	ic->up = upstream_create(&ic->flow, ic->is_tls, c);
	connected(ic);
}

void ic_connect(struct intercept *ic)
{
	struct egress_flow *f = &ic->flow;
	struct ic_request *q = &ic->req;

	if (!ic->up && !q->is_second_try)
		ic->up = pool_take(f, ic->is_tls, is_replayable(q) ? POOL_IDLE_MS : POOL_FRESH_MS);
	if (ic->up) {
		conn_set_events(ic->up->conn, &ic_up_events, ic);
		f->addr = ic->up->addr;
		connected(ic);
		return;
	}
	ic->phase = IC_DIAL;
	loop_timer_cancel(ic_loop(ic), &ic->timer); /* dialling has its own limits */
	ic->dial = (struct dial){.flow = f,
		.name = f->name[0] ? f->name : NULL,
		.port = f->port,
		.method = ic->req.method,
		.path = ic->req.path,
		.done = dialled};
	dial_start(&ic->dial);
}

static void repeated(struct intercept *ic)
{
	ic->req.keep_alive = false;
	ic_deny(ic, DENIAL_PLACEHOLDER, 0,
		"the answer repeats the credential that was put into the request");
}

/* ---- the answer's head ---- */

static void first_byte(struct intercept *ic)
{
	struct ic_request *q = &ic->req;

	q->has_byte = true;
	buf_wipe(&q->out);
	buf_wipe(&q->body);
	account_latency(&ic->flow, now_us() - q->sent_us);
	ic_wait(ic, IC_ANSWER_HEAD);
}

/* 1xx. False: the connection is over. */
static bool pass_interim(struct intercept *ic, const struct h1_head *h, const char *raw, size_t n)
{
	AUTO_BUF struct buf out = {.cap = 4 * H1_HEAD_MAX};
	struct ic_request *q = &ic->req;

	if (++q->interims > IC_INTERIMS) {
		bad_server(ic, "the server's interim answers do not end");
		return false;
	}
	if (q->client.minor == 0 || (h->status == 100 && !q->expects_continue))
		return true;
	if (heads_interim(h, raw, n, &out) < 0) {
		bad_server(ic, "the server's answer is too long");
		return false;
	}
	conn_write(ic->client, buf_data(&out), buf_len(&out));
	return true;
}

static bool pass_upgrade(struct intercept *ic, const struct h1_head *h, const char *raw, size_t n)
{
	AUTO_BUF struct buf out = {.cap = 4 * H1_HEAD_MAX};
	const struct h1_field *f = h1_find(h, "upgrade");

	if (!ic->req.is_websocket || !h->wants_upgrade || !h1_is_nocase(f->value, "websocket") ||
		heads_interim(h, raw, n, &out) < 0) {
		bad_server(ic, "the server changed the protocol unasked");
		return false;
	}
	conn_write(ic->client, buf_data(&out), buf_len(&out));
	ic_raw_begin(ic);
	return true;
}

static bool pass_final(struct intercept *ic, const struct h1_head *h, const char *raw, size_t n)
{
	AUTO_BUF struct buf out = {.cap = 4 * H1_HEAD_MAX};
	struct ic_request *q = &ic->req;

	/*
	 * An answer before the request was whole: what is left of that cannot be told from the
	 * next.
	 */
	q->client.closes = !q->keep_alive || !q->up.is_done ||
			   (q->client.minor == 0 &&
				   (h->framing == H1_CHUNKED || h->framing == H1_UNTIL_CLOSE));
	if (heads_answer(h, raw, n, &q->client, &out, &q->is_down_chunked) < 0) {
		bad_server(ic, "the server's answer is too long");
		return false;
	}
	q->is_answered = true;
	q->up_goes_on = h->keep_alive && q->up.is_done;
	h1_body_init(&q->down, h);
	if (q->is_down_chunked)
		q->down.trailers = &q->down_trailers;
	ic_wait(ic, IC_STALL_MS);
	conn_write(ic->client, buf_data(&out), buf_len(&out));
	return true;
}

/* Bytes taken; 0: more are needed, or it is over. */
static size_t answer_head(struct intercept *ic, const char *p, size_t n)
{
	static struct h1_head h; /* used up before anybody else can come by */
	struct ic_request *q = &ic->req;
	struct h1_text method = {q->method, strlen(q->method)};
	size_t end = h1_head_end(p, n, &ic->up_scan);
	bool ok;

	if (!q->has_byte)
		first_byte(ic);
	if (end == 0 && n < H1_HEAD_MAX)
		return 0;
	if (end == 0 || end > H1_HEAD_MAX || h1_parse_response(p, end, method, &h) != 0) {
		bad_server(ic, "the server's answer is malformed, or its head too long");
		return 0;
	}
	if (!account_bytes(&ic->flow, 0, end)) {
		ic_deny(ic, DENIAL_BUDGET, 0, NULL);
		return 0;
	}
	if (echo_has(&q->echo, p, end)) {
		repeated(ic);
		return 0;
	}
	if (h.status == 101)
		ok = pass_upgrade(ic, &h, p, end);
	else if (h.status < 200)
		ok = pass_interim(ic, &h, p, end);
	else
		ok = pass_final(ic, &h, p, end);
	return ok ? end : 0;
}

/* ---- its body ---- */

bool ic_unheard(struct intercept *ic, const char *p, size_t n, struct buf *ret)
{
	int r = echo_feed(&ic->req.echo, p, n, ret);

	if (r == -EPERM)
		repeated(ic);
	else if (r < 0)
		ic_abort(ic);
	return r == 0;
}

static void write_piece(struct intercept *ic, const char *p, size_t n)
{
	struct conn *to = ic->client;
	char size[24];

	if (n == 0)
		return; /* an empty chunk would be the last */
	if (ic->req.is_down_chunked)
		conn_write(to, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n));
	conn_write(to, p, n);
	if (ic->req.is_down_chunked)
		conn_write(to, "\r\n", 2);
}

static bool pass_last(struct intercept *ic)
{
	AUTO_BUF struct buf out = {0};
	AUTO_BUF struct buf rest = {.is_secret = true};

	if (echo_rest(&ic->req.echo, &rest) < 0) {
		ic_abort(ic);
		return false;
	}
	write_piece(ic, buf_data(&rest), buf_len(&rest));
	if (echo_has(&ic->req.echo, buf_data(&ic->req.down_trailers),
		    buf_len(&ic->req.down_trailers))) {
		repeated(ic);
		return false;
	}
	if (!ic->req.is_down_chunked)
		return true;
	if (buf_add(&out, "0\r\n", 3) < 0 || heads_trailers(&ic->req.down_trailers, &out) < 0 ||
		buf_add(&out, "\r\n", 2) < 0) {
		ic_abort(ic);
		return false;
	}
	conn_write(ic->client, buf_data(&out), buf_len(&out));
	return true;
}

static bool pass_piece(struct intercept *ic, const char *p, size_t n)
{
	AUTO_BUF struct buf clean = {.is_secret = true};

	if (!account_bytes(&ic->flow, 0, n)) {
		ic_deny(ic, DENIAL_BUDGET, 0, NULL);
		return false;
	}
	if (ic->req.echo.n == 0) {
		write_piece(ic, p, n);
		return true;
	}
	if (!ic_unheard(ic, p, n, &clean))
		return false;
	write_piece(ic, buf_data(&clean), buf_len(&clean));
	return true;
}

static size_t answer_body(struct intercept *ic, const char *p, size_t n)
{
	const char *piece;
	size_t piece_n;
	ssize_t used = h1_body_feed(&ic->req.down, p, n, &piece, &piece_n);

	ic_moved(ic);
	if (used < 0) {
		ic_abort(ic);
		return 0;
	}
	if (piece_n > 0 && !pass_piece(ic, piece, piece_n))
		return 0;
	if (conn_queued(ic->client) > IC_WINDOW && !ic->req.down.is_done) {
		ic->is_down_blocked = true;
		conn_pause(ic->up->conn);
	}
	return (size_t)used;
}

/* The answer is complete. `is_clean`: the server has said nothing beyond it. */
static void finish(struct intercept *ic, bool is_clean)
{
	struct upstream *u = ic->up;
	struct ic_request *q = &ic->req;

	if (!pass_last(ic))
		return;
	account_allowed(
		&ic->flow, q->method, q->path, ic->flow.up - q->up_at, ic->flow.down - q->down_at);
	ic->up = NULL;
	if (u->conn && is_clean && q->up_goes_on && q->up.is_done && conn_queued(u->conn) == 0)
		pool_put(u);
	else
		upstream_end(u);
	ic->is_up_blocked = ic->is_down_blocked = false;
	ic_next(ic);
}

/* ---- events ---- */

static size_t take_some(struct intercept *ic, const char *p, size_t n)
{
	if (ic->phase == IC_RAW)
		return ic->is_down_blocked ? 0 : ic_raw_down(ic, p, n);
	if (ic->phase != IC_FLOW) {
		/*
		 * It speaks before it was asked. Another one is dialled when there is a
		 * question.
		 */
		upstream_drop(TAKE_PTR(ic->up));
		return 0;
	}
	if (!ic->req.is_answered)
		return answer_head(ic, p, n);
	return ic->is_down_blocked ? 0 : answer_body(ic, p, n);
}

static size_t up_read(struct conn *c, const char *p, size_t n, void *arg)
{
	struct intercept *ic = arg;
	size_t used = 0;

	while (ic->up && ic->up->conn == c && used < n) {
		size_t k = take_some(ic, p + used, n - used);

		if (ic->phase == IC_FLOW && ic->req.is_answered && ic->req.down.is_done) {
			finish(ic, used + k == n);
			return n;
		}
		if (k == 0)
			break;
		used += k;
	}
	return used;
}

static void up_drained(struct conn *c, void *arg)
{
	struct intercept *ic = arg;

	(void)c;
	if (!ic->is_up_blocked || !ic->client)
		return;
	ic->is_up_blocked = false;
	conn_resume(ic->client);
}

/* It died without a byte of an answer. */
static void up_lost(struct intercept *ic, bool was_reused, const struct err *err)
{
	if (was_reused && is_replayable(&ic->req)) {
		ic->req.is_second_try = true;
		ic_connect(ic);
		return;
	}
	if (strncmp(err->msg, "read: certificate", 17) == 0 ||
		strncmp(err->msg, "write: certificate", 18) == 0)
		bad_server(ic, strstr(err->msg, "certificate"));
	else if (err->code == EPROTO)
		bad_server(ic, strchr(err->msg, ' ') ? strchr(err->msg, ' ') + 1 : err->msg);
	else
		bad_server(ic, "the server closed the connection without an answer");
}

static void up_closed(struct conn *c, const struct err *err, void *arg)
{
	struct intercept *ic = arg;
	bool was_reused = ic->up->is_reused;

	(void)c;
	ic->up->conn = NULL;
	switch (ic->phase) {
	case IC_RAW:
		if (err->code == 0)
			conn_finish(TAKE_PTR(ic->client));
		ic_abort(ic);
		return;
	case IC_FLOW:
		if (ic->req.is_answered && ic->req.down.framing == H1_UNTIL_CLOSE &&
			err->code == 0) {
			finish(ic, false);
			return;
		}
		break;
	default: break;
	}
	upstream_drop(TAKE_PTR(ic->up));
	if (ic->phase == IC_FLOW && ic->req.is_answered)
		ic_abort(ic);
	else if (ic->phase == IC_FLOW)
		up_lost(ic, was_reused, err);
}

const struct conn_events ic_up_events = {
	.read = up_read,
	.drained = up_drained,
	.closed = up_closed,
};
