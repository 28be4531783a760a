/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/watch_stream - filesystem.Filesystem WatchDir: changes of a directory as a stream.
 *
 * A client that does not read is cut off by its connection's queue; the guest's events are lost to
 * nobody else.
 */
#include "api/e2b/envd.h"
#include "api/e2b/question.h"
#include "api/e2b/watch.h"
#include "base/mem.h"

#include <string.h>

struct watch_stream {
	struct envd_call call;
	uint64_t quiet_ms;
	struct loop_timer keepalive;
	char *path; /* for error texts; owned */
};

static struct watch_stream *of(struct envd_call *c)
{
	return (struct watch_stream *)c;
}

static void refresh(struct watch_stream *s)
{
	loop_timer_set(s->call.api->loop, &s->keepalive, s->quiet_ms);
}

static void send(struct watch_stream *s, const char *json)
{
	envd_stream_message(&s->call, json, strlen(json));
	refresh(s);
}

static void keepalive(struct loop_timer *t)
{
	send((struct watch_stream *)((char *)t - offsetof(struct watch_stream, keepalive)),
		"{\"keepalive\":{}}");
}

static void changed(struct watch_stream *s, const struct guest_change *change)
{
	AUTO_BUF struct buf b = {0};

	if (change->type == GUEST_OVERFLOW) {
		envd_fail(&s->call, CONNECT_INTERNAL, WATCH_OVERFLOW);
		return;
	}
	if (buf_add(&b, "{\"filesystem\":", 14) < 0 || envd_change_add(&b, change) < 0 ||
		buf_add(&b, "}", 1) < 0) {
		envd_fail(&s->call, CONNECT_INTERNAL, "the guest's answer makes no sense");
		return;
	}
	envd_stream_message(&s->call, buf_data(&b), buf_len(&b));
	refresh(s);
}

static void message(struct envd_call *c, uint16_t kind, struct frame_reader *body)
{
	struct guest_change change = {0};

	if (kind == MSG_OK && c->r->status == 0) {
		envd_stream_begin(c);
		send(of(c), "{\"start\":{}}");
	} else if (kind == MSG_CHANGE && c->r->status != 0 && guest_change_get(body, &change)) {
		changed(of(c), &change);
	} else {
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
	}
	guest_change_done(&change);
}

static void ended(struct envd_call *c, int code, const char *why)
{
	watch_fail(c, code, of(c)->path, why);
}

static void linked(struct envd_call *c)
{
	struct frame_writer w = {0};

	if (watch_put(c, &w, &of(c)->path))
		(void)envd_ask(c, GUEST_WATCH, &w, ENVD_ASK_AND_SEND);
	buf_done(&w.buf);
	if (c->is_over)
		return;
	/* As for a process: the stream lasts, its request need not. */
	envd_uncharge(c, buf_len(&c->body));
	buf_done(&c->body);
}

static void body(struct envd_call *c, const char *p, size_t n)
{
	(void)p;
	(void)n;
	envd_call_link(c);
}

static void release(struct envd_call *c)
{
	loop_timer_cancel(c->api->loop, &of(c)->keepalive);
	free(of(c)->path);
}

void envd_watch_dir(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct watch_stream),
		.body = body,
		.linked = linked,
		.message = message,
		.ended = ended,
		.release = release,
	};
	struct watch_stream *s;
	uint64_t ms;

	if (!envd_is_type(r, "application/connect+json"))
		return;
	s = (struct watch_stream *)envd_call_start(a, r, sb, ENVD_STREAM, &ops);
	s->keepalive.fire = keepalive;
	s->quiet_ms = envd_quiet_ms(r);
	if (!envd_timeout_ms(&s->call, &ms))
		return;
	envd_call_deadline(&s->call, ms);
	if (!envd_basic_user(r, s->call.user))
		envd_fail(&s->call, CONNECT_UNAUTHENTICATED, "invalid username");
	else
		envd_call_collect(&s->call, ENVD_REQUEST_MAX);
}
