/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Requests as they come: the head is read and must be for whom the connection is; the body is
 * passed on.
 */
#include "base/mem.h"
#include "egress/intercept_impl.h"

#include <stdio.h>
#include <string.h>

void ic_request_done(struct ic_request *q)
{
	free(q->path);
	free(q->plain);
	buf_done(&q->up_trailers);
	buf_done(&q->down_trailers);
	buf_wipe(&q->raw);
	buf_wipe(&q->body);
	buf_wipe(&q->out);
	echo_done(&q->echo);
	*q = (struct ic_request){0};
}

struct heads_goal ic_goal(const struct intercept *ic)
{
	struct heads_goal g = {.addr = ic->flow.addr, .port = ic->flow.port};

	memcpy(g.name, ic->flow.name, sizeof(g.name));
	return g;
}

/* ---- deciding ---- */

/* The stricter of two answers about two readings of one path. */
static bool is_stricter(const struct policy_answer *a, const struct policy_answer *b)
{
	static const int rank[] = {[POLICY_DENY] = 3, [POLICY_ASK] = 1, [POLICY_ALLOW] = 0};

	return (a->needs ? 2 : rank[a->action]) > (b->needs ? 2 : rank[b->action]);
}

void ic_decide(struct intercept *ic, struct policy_answer *ret)
{
	const struct ic_request *q = &ic->req;
	struct policy_answer plain;

	flow_decide(&ic->flow, q->method, q->path, ret);
	if (!q->plain)
		return;
	flow_decide(&ic->flow, q->method, q->plain, &plain);
	if (is_stricter(&plain, ret))
		*ret = plain;
}

/* ---- whom a head is for ---- */

static uint16_t scheme_port(const struct intercept *ic)
{
	return ic->is_tls ? 443 : 80;
}

/* An explicit proxy's client says in each request where it goes. */
static bool set_goal(struct intercept *ic, const struct heads_target *t)
{
	struct heads_goal g;

	if (t->is_https || !heads_authority(t->authority, &g))
		return false;
	memcpy(ic->flow.name, g.name, sizeof(g.name));
	ic->flow.addr = g.addr;
	ic->flow.port = g.port != 0 ? g.port : scheme_port(ic);
	return true;
}

/* False: it was answered. */
static bool is_for_us(struct intercept *ic, const struct h1_head *h, const struct heads_target *t)
{
	const struct h1_field *host = h1_find(h, "host");
	struct heads_goal own;
	bool is_ours = true;

	if (ic->is_proxy && t->authority.n > 0) {
		if (!set_goal(ic, t)) {
			ic_deny(ic, DENIAL_MALFORMED, 400,
				"the request's target is not a plain HTTP address");
			return false;
		}
	} else if (ic->is_proxy) {
		is_ours = false; /* it has named no host, or names another one by Host alone */
	}
	own = ic_goal(ic);
	if (t->authority.n > 0)
		is_ours = is_ours && t->is_https == ic->is_tls && heads_is_for(t->authority, &own);
	if (host)
		is_ours = is_ours && heads_is_for(host->value, &own);
	if (!is_ours)
		ic_deny(ic, DENIAL_MISMATCH, 0,
			"the request's Host is not the host that was connected to");
	return is_ours;
}

/* What is known about a request from its head alone. */
static void note_head(struct ic_request *q, const struct h1_head *h)
{
	(void)snprintf(q->method, sizeof(q->method), "%.*s", (int)h->method.n, h->method.p);
	q->client = (struct heads_client){.minor = h->minor, .is_head = h1_is(h->method, "HEAD")};
	q->is_json = heads_wants_json(h);
	q->keep_alive = h->keep_alive;
	q->expects_continue = h->expects_continue;
	q->is_websocket = heads_is_websocket(h);
	h1_body_init(&q->up, h);
	q->up.trailers = &q->up_trailers;
}

/* Returns n, or 0 if the head has to wait: then it is offered again. */
static size_t begin(struct intercept *ic, const struct h1_head *h, const char *raw, size_t n)
{
	struct egress_flow *f = &ic->flow;
	struct ic_request *q = &ic->req;
	struct heads_target t;

	ic_request_done(q);
	note_head(q, h);
	if (!heads_target(h, &t) || h1_is(h->method, "CONNECT")) {
		ic_deny(ic, DENIAL_MALFORMED, 400, "the request's target is malformed");
		return n;
	}
	q->path = mem_must(strndup(t.path.p, t.path.n)); /* h1 bounds it */
	if (heads_plain_path(t.path, &q->plain) < 0) {
		ic_deny(ic, DENIAL_MALFORMED, 400,
			"the path has dot segments, which two programs may read as two places");
		return n;
	}
	if (!is_for_us(ic, h, &t))
		return n;
	f->protocol = ic->is_tls ? POLICY_HTTPS : POLICY_HTTP;
	if (q->is_websocket)
		f->protocol |= POLICY_WS;
	q->up_at = f->up;
	q->down_at = f->down;
	return ic_judge(ic, h, raw, n);
}

static size_t malformed(struct intercept *ic, int status, size_t n)
{
	ic_request_done(&ic->req);
	ic->req.is_json = true;
	ic_deny(ic, DENIAL_MALFORMED, status, "the request is not well-formed HTTP/1.1");
	return n;
}

size_t ic_take_head(struct intercept *ic, const char *p, size_t n)
{
	static struct h1_head h; /* used up before anybody else can come by */
	size_t end = h1_head_end(p, n, &ic->scan);
	int r;

	if (end == 0 && n < H1_HEAD_MAX) {
		if (ic->timer.slot == 0 || ic->timer.due_ms > loop_now_ms(ic_loop(ic)) + IC_HEAD_MS)
			ic_wait(ic, IC_HEAD_MS);
		if (n >= IC_HEAD_WINDOW)
			conn_set_window(ic->client, H1_HEAD_MAX);
		return 0;
	}
	if (end == 0 || (end != (size_t)-1 && end > H1_HEAD_MAX))
		return malformed(ic, 431, n);
	if (end == (size_t)-1)
		return malformed(ic, 400, n);
	r = h1_parse_request(p, end, &h);
	if (ic->phase == IC_REFUSE) {
		if (r == 0)
			note_head(&ic->req, &h);
		ic_tell(ic, ic->refusal, 0);
		return n;
	}
	return r != 0 ? malformed(ic, r, n) : begin(ic, &h, p, end);
}

/* ---- the body ---- */

/* False: it was answered, or broken off. */
static bool may_go(struct intercept *ic, const char *p, size_t n)
{
	if (n > 0 && vault_scan_feed(&ic->req.scan, p, n)) {
		ic->req.keep_alive = false;
		ic_deny(ic, DENIAL_PLACEHOLDER, 0,
			"a credential's placeholder stands in the body, where no rule puts it");
		return false;
	}
	if (n > 0 && !account_bytes(&ic->flow, n, 0)) {
		ic->req.keep_alive = false;
		ic_deny(ic, DENIAL_BUDGET, 0, NULL);
		return false;
	}
	return true;
}

static bool send_piece(struct intercept *ic, const char *p, size_t n)
{
	struct conn *to = ic->up->conn;
	char size[24];

	if (!may_go(ic, p, n))
		return false;
	if (ic->req.up.framing == H1_CHUNKED)
		conn_write(to, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n));
	conn_write(to, p, n);
	if (ic->req.up.framing == H1_CHUNKED)
		conn_write(to, "\r\n", 2);
	ic->req.has_sent_body = true;
	return true;
}

static bool send_last(struct intercept *ic)
{
	AUTO_BUF struct buf out = {0};
	const struct buf *lines = &ic->req.up_trailers;

	if (ic->req.up.framing != H1_CHUNKED)
		return true;
	if (!may_go(ic, buf_data(lines), buf_len(lines)))
		return false;
	if (buf_add(&out, "0\r\n", 3) < 0 || heads_trailers(lines, &out) < 0 ||
		buf_add(&out, "\r\n", 2) < 0) {
		ic_abort(ic);
		return false;
	}
	conn_write(ic->up->conn, buf_data(&out), buf_len(&out));
	ic->req.has_sent_body = true;
	return true;
}

/* Past the cap: 413. */
static bool collect_piece(struct intercept *ic, const char *p, size_t n)
{
	struct buf *body = &ic->req.body;

	body->cap = ic->req.is_inside ? IC_INSIDE_BODY : VAULT_BODY_MAX;
	body->is_secret = true;
	if (buf_add(body, p, n) < 0) {
		ic_deny(ic, DENIAL_LIMIT, 413,
			"the body is too long for what has to be done with it");
		return false;
	}
	return true;
}

size_t ic_take_body(struct intercept *ic, const char *p, size_t n)
{
	struct ic_request *q = &ic->req;
	bool is_collecting = ic->phase == IC_COLLECT;
	const char *piece;
	size_t piece_n;
	ssize_t used = h1_body_feed(&q->up, p, n, &piece, &piece_n);

	ic_moved(ic);
	if (used < 0) {
		q->keep_alive = false;
		ic_deny(ic, DENIAL_MALFORMED, 400, "the request's body is not well-formed");
		return 0;
	}
	if (piece_n > 0 && !(is_collecting ? collect_piece(ic, piece, piece_n)
					   : send_piece(ic, piece, piece_n)))
		return 0;
	if (q->up.is_done && is_collecting) {
		ic_collected(ic);
		return (size_t)used;
	}
	if (q->up.is_done && !send_last(ic))
		return 0;
	if (ic->up && conn_queued(ic->up->conn) > IC_WINDOW) {
		ic->is_up_blocked = true;
		conn_pause(ic->client);
	}
	return (size_t)used;
}
