/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/envd_call - the life of one data-plane request; see envd.h.
 */
#include "api/e2b/envd.h"
#include "api/e2b/json_text.h"
#include "base/mem.h"

#include <stdarg.h>
#include <string.h>

static size_t charged_all; /* of ENVD_MEMORY_MAX, by every call there is */

static struct envd_call *of_channel(struct mux_channel *ch)
{
	return ch->arg;
}

static void reap(struct loop_task *t)
{
	struct envd_call *c = (struct envd_call *)((char *)t - offsetof(struct envd_call, reap));

	buf_done(&c->body);
	free(c);
}

void envd_call_end(struct envd_call *c)
{
	if (c->is_over)
		return;
	c->is_over = true;
	if (c->is_linking)
		sandbox_guest_cancel(c->sb, c);
	mux_drop(&c->channel);
	sandbox_stream_remove(&c->stream);
	loop_timer_cancel(c->api->loop, &c->deadline);
	if (c->r) {
		c->r->state = NULL;
		c->r->gone = NULL;
	}
	c->r = NULL;
	if (c->ops->release)
		c->ops->release(c);
	envd_memory_give(c->charged);
	loop_defer(c->api->loop, &c->reap);
}

/* The client went away first: the guest's side goes on or not as its request says. */
static void gone(struct http_request *r)
{
	struct envd_call *c = r->state;

	if (!c)
		return;
	c->r = NULL;
	envd_call_end(c);
}

/* The sandbox is being killed: a stream just breaks off, and the SDK asks /health why. */
static void cut(struct stream *s)
{
	struct envd_call *c = (struct envd_call *)((char *)s - offsetof(struct envd_call, stream));
	struct http_request *r = c->r;
	char id[SANDBOX_ID_MAX];

	memcpy(id, c->sb->row.id, sizeof(id));
	envd_call_end(c);
	if (!r)
		return;
	if (r->status == 0)
		envd_dead(r, id);
	else
		http_abort(r);
}

static void late(struct loop_timer *t)
{
	struct envd_call *c =
		(struct envd_call *)((char *)t - offsetof(struct envd_call, deadline));

	if (c->ops->late)
		c->ops->late(c);
	else
		envd_fail(c, CONNECT_DEADLINE_EXCEEDED, "context deadline exceeded");
}

struct envd_call *envd_call_start(struct api *a, struct http_request *r, struct sandbox *sb,
	enum envd_dialect dialect, const struct envd_ops *ops)
{
	struct envd_call *c = mem_must(calloc(1, ops->size));

	c->api = a;
	c->r = r;
	c->sb = sb;
	c->dialect = dialect;
	c->ops = ops;
	c->stream.cut = cut;
	c->deadline.fire = late;
	c->reap.run = reap;
	r->state = c;
	r->gone = gone;
	sandbox_touch(sb);
	sandbox_stream_add(sb, &c->stream);
	return c;
}

bool envd_memory_take(size_t n)
{
	if (n > ENVD_MEMORY_MAX - charged_all)
		return false;
	charged_all += n;
	return true;
}

void envd_memory_give(size_t n)
{
	charged_all -= n;
}

bool envd_charge(struct envd_call *c, size_t n)
{
	if (!envd_memory_take(n))
		return false;
	c->charged += n;
	return true;
}

void envd_uncharge(struct envd_call *c, size_t n)
{
	envd_memory_give(n);
	c->charged -= n;
}

bool envd_hold(struct envd_call *c, size_t n, size_t *held)
{
	struct http_request *r = c->r;

	*held += n;
	if (envd_charge(c, n))
		return true;
	*held -= n;
	envd_call_end(c);
	http_abort(r);
	return false;
}

void envd_unhold(struct envd_call *c, size_t *held)
{
	if (*held == 0 || !c->channel.mux || http_queued(c->r) >= CONN_HIGH)
		return;
	mux_consumed(&c->channel, *held);
	envd_uncharge(c, *held);
	*held = 0;
}

void envd_call_deadline(struct envd_call *c, uint64_t ms)
{
	if (ms > 0)
		loop_timer_set(c->api->loop, &c->deadline, ms);
}

/* ---- the request's body ---- */

static void body_data(struct http_request *r, const char *p, size_t n, void *arg)
{
	struct envd_call *c = arg;

	(void)r;
	if (c->is_over)
		return;
	if (!envd_charge(c, n) || buf_add(&c->body, p, n) < 0)
		envd_fail(c, CONNECT_RESOURCE_EXHAUSTED, "the request is larger than %zu bytes",
			c->body.cap);
}

static void body_end(struct http_request *r, bool is_whole, void *arg)
{
	struct envd_call *c = arg;

	(void)r;
	if (!c->is_over && is_whole)
		c->ops->body(c, buf_data(&c->body), buf_len(&c->body));
}

void envd_call_collect(struct envd_call *c, size_t cap)
{
	static const struct http_sink sink = {.data = body_data, .end = body_end};

	c->body.cap = cap;
	http_stream_body(c->r, &sink, c);
}

/* ---- the link and the channel ---- */

static void linked(struct sandbox *sb, int code, void *arg)
{
	struct envd_call *c = arg;

	(void)sb;
	c->is_linking = false;
	if (code < 0)
		envd_fail(c, CONNECT_UNAVAILABLE, "the sandbox does not answer");
	else
		c->ops->linked(c);
}

void envd_call_link(struct envd_call *c)
{
	c->is_linking = true; /* before: it may be called back at once */
	sandbox_guest(c->sb, linked, c);
}

static void channel_message(struct mux_channel *ch, uint16_t kind, struct frame_reader *body)
{
	struct envd_call *c = of_channel(ch);

	if (!c->is_over)
		c->ops->message(c, kind, body);
}

static void channel_data(struct mux_channel *ch, uint8_t stream, const char *p, size_t n)
{
	struct envd_call *c = of_channel(ch);

	if (c->is_over)
		return;
	if (c->ops->data)
		c->ops->data(c, stream, p, n);
	else
		mux_consumed(ch, n); /* nobody asked for it */
}

static void channel_writable(struct mux_channel *ch)
{
	struct envd_call *c = of_channel(ch);

	if (!c->is_over && c->ops->writable)
		c->ops->writable(c);
}

static void channel_ended(struct mux_channel *ch, int code, const char *why)
{
	struct envd_call *c = of_channel(ch);

	if (!c->is_over)
		c->ops->ended(c, code, why ? why : "");
}

static void channel_closed(struct mux_channel *ch, int code)
{
	struct envd_call *c = of_channel(ch);
	struct http_request *r = c->r;

	if (c->is_over)
		return;
	if (r && r->status != 0) {
		/* Half an answer cannot be taken back. */
		envd_call_end(c);
		http_abort(r);
		return;
	}
	envd_fail_errno(c, code != 0 ? code : EPROTO,
		code != 0 ? "the connection to the sandbox was lost" : "the guest gave no answer");
}

int envd_ask(struct envd_call *c, uint16_t kind, struct frame_writer *take_body,
	enum envd_ask_flags flags)
{
	static const struct mux_events events = {
		.message = channel_message,
		.data = channel_data,
		.writable = channel_writable,
		.ended = channel_ended,
		.closed = channel_closed,
	};
	struct err err = {0};
	int r;

	if (take_body->failed)
		r = err_set(&err, E2BIG, "the request is too large");
	else
		r = mux_open(c->sb->guest, &c->channel, kind, take_body, &events, c, &err);
	buf_done(&take_body->buf);
	if (r < 0) {
		envd_fail_errno(c, -r, r == -E2BIG ? "the request is too large" : err.msg);
		return r;
	}
	if (flags == ENVD_ASK_ONLY)
		mux_end(&c->channel, 0, NULL);
	return 0;
}
