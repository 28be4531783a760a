/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/process_input - process.Process SendInput and StreamInput: bytes to a process.
 *
 * SendInput is one message; StreamInput is a body of frames, the first of which names the process.
 * Bytes go on as fast as the process takes them: while some wait, no more of the body is read.
 */
#include "api/e2b/base64.h"
#include "api/e2b/envd.h"
#include "api/e2b/question.h"
#include "base/mem.h"

#include <string.h>

struct process_input {
	struct envd_call call;
	struct buf frames;        /* StreamInput: read and not yet looked at */
	struct buf pending;       /* for the process, not yet taken */
	struct guest_which which; /* tag owned */
	bool is_stream;
	bool is_open;  /* the channel to the process */
	bool is_whole; /* nothing more will come from the client */
	bool is_paused;
};

static struct process_input *of(struct envd_call *c)
{
	return (struct process_input *)c;
}

static void step(struct process_input *in);

/* ---- towards the guest ---- */

static void open_channel(struct process_input *in, json_t *msg)
{
	struct frame_writer w = {0};
	struct guest_which which;

	if (!envd_get_which(&in->call, msg, &which))
		return;
	in->which.pid = which.pid;
	in->which.tag = mem_strdup(which.tag);
	guest_which_put(&w, &which);
	in->is_open = envd_ask(&in->call, GUEST_INPUT, &w, ENVD_ASK_AND_SEND) == 0;
}

/* False: the message makes no sense; answered. */
static bool take_input(struct process_input *in, json_t *holder)
{
	const char *text = "", *pty = "";
	json_t *input;
	size_t n;
	ssize_t used;
	char *room;

	if (!envd_get_object(holder, "input", &input) || !input ||
		!envd_get_string(input, "stdin", &text) || !envd_get_string(input, "pty", &pty)) {
		envd_fail(&in->call, CONNECT_INVALID_ARGUMENT,
			"input must be {\"stdin\":…} or {\"pty\":…}");
		return false;
	}
	text = text[0] ? text : pty;
	n = strlen(text);
	in->pending.cap = ENVD_INPUT_MAX;
	room = buf_reserve(&in->pending, n / 4 * 3 + 3);
	used = room ? base64_decode(room, text, n) : -E2BIG;
	if (used < 0) {
		envd_fail(&in->call, CONNECT_INVALID_ARGUMENT, "input is not base64");
		return false;
	}
	buf_commit(&in->pending, (size_t)used);
	return true;
}

static void message(struct envd_call *c, uint16_t kind, struct frame_reader *body)
{
	(void)body;
	if (kind != MSG_OK)
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
}

static void writable(struct envd_call *c)
{
	step(of(c));
}

static void ended(struct envd_call *c, int code, const char *why)
{
	struct process_input *in = of(c);

	if (code == ESRCH)
		envd_fail_which(c, &in->which);
	else if (code == EPIPE)
		envd_fail(c, CONNECT_INTERNAL, "error writing to stdin: %s", why);
	else if (code != 0)
		envd_fail_errno(c, code, why);
	else if (!in->is_whole || buf_len(&in->pending) > 0)
		envd_fail(c, CONNECT_INTERNAL, "error writing to stdin: the guest took not all");
	else if (!in->is_stream)
		envd_reply(c, "{}", 2);
	else {
		envd_stream_begin(c);
		envd_stream_message(c, "{}", 2);
		envd_stream_end(c, CONNECT_OK, NULL);
	}
}

/* ---- from the client ---- */

/* One frame's message. False: answered. */
static bool take_frame(struct process_input *in, const struct connect_frame *f)
{
	json_error_t why;
	json_t *msg = json_loadb(f->p, f->n, JSON_REJECT_DUPLICATES, &why);
	json_t *v = NULL;
	bool ok = true;

	if (!json_is_object(msg)) {
		envd_fail(&in->call, CONNECT_INVALID_ARGUMENT, "unmarshal message: not an object");
		ok = false;
	} else if (envd_get_object(msg, "start", &v) && v) {
		if (in->is_open)
			envd_fail(&in->call, CONNECT_INVALID_ARGUMENT, "a second start event");
		else
			open_channel(in, v);
		ok = !in->call.is_over;
	} else if (envd_get_object(msg, "data", &v) && v) {
		if (!in->is_open)
			envd_fail(&in->call, CONNECT_INVALID_ARGUMENT,
				"the first event must be a start event");
		ok = in->is_open && take_input(in, v);
	} else if (!envd_get_object(msg, "keepalive", &v) || !v) {
		envd_fail(&in->call, CONNECT_UNIMPLEMENTED, "invalid event type");
		ok = false;
	}
	json_decref(msg);
	return ok;
}

/* Send what is pending. True: all of it went. */
static bool flush(struct process_input *in)
{
	while (buf_len(&in->pending) > 0) {
		size_t n = mux_data(&in->call.channel, GUEST_BYTES, buf_data(&in->pending),
			buf_len(&in->pending));

		if (n == 0)
			return false;
		buf_eat(&in->pending, n);
	}
	return true;
}

static void finish(struct process_input *in)
{
	if (buf_len(&in->frames) > 0 || !in->is_open)
		envd_fail(&in->call, CONNECT_INVALID_ARGUMENT, "the request broke off");
	else if (!in->call.channel.has_ended)
		mux_end(&in->call.channel, 0, NULL); /* `ended` is the answer */
}

/* As far as it goes. */
static void step(struct process_input *in)
{
	while (!in->call.is_over && flush(in)) {
		struct connect_frame f;
		ssize_t used = connect_frame_parse(
			buf_data(&in->frames), buf_len(&in->frames), ENVD_INPUT_MAX, &f);

		if (used < 0 || (used > 0 && f.flags != 0)) {
			envd_fail(&in->call, CONNECT_INVALID_ARGUMENT,
				"protocol error: a frame that is too long or compressed");
			return;
		}
		if (used == 0) {
			if (in->is_whole)
				finish(in);
			else if (in->is_paused) {
				in->is_paused = false;
				http_resume_body(in->call.r);
			}
			return;
		}
		if (!take_frame(in, &f))
			return;
		buf_eat(&in->frames, (size_t)used);
	}
	if (!in->call.is_over && !in->is_whole && !in->is_paused) {
		in->is_paused = true;
		http_pause_body(in->call.r);
	}
}

/* ---- StreamInput ---- */

static void stream_data(struct http_request *r, const char *p, size_t n, void *arg)
{
	struct process_input *in = arg;

	(void)r;
	if (in->call.is_over)
		return;
	if (!envd_charge(&in->call, n) || buf_add(&in->frames, p, n) < 0) {
		envd_fail(&in->call, CONNECT_RESOURCE_EXHAUSTED, "too much input at once");
		return;
	}
	step(in);
	if (!in->call.is_over) {
		/* What was passed on is no longer held. */
		size_t held = buf_len(&in->frames) + buf_len(&in->pending);

		if (in->call.charged > held) {
			envd_memory_give(in->call.charged - held);
			in->call.charged = held;
		}
	}
}

static void stream_end(struct http_request *r, bool is_whole, void *arg)
{
	struct process_input *in = arg;

	(void)r;
	if (in->call.is_over || !is_whole)
		return;
	in->is_whole = true;
	step(in);
}

static void stream_linked(struct envd_call *c)
{
	static const struct http_sink sink = {.data = stream_data, .end = stream_end};

	/* Somebody types: hours may pass between two keys. */
	http_patient_body(c->r);
	http_stream_body(c->r, &sink, c);
}

/* ---- SendInput ---- */

static void send_linked(struct envd_call *c)
{
	json_t *msg = envd_json(c, buf_data(&c->body), buf_len(&c->body));

	if (!msg)
		return;
	if (take_input(of(c), msg))
		open_channel(of(c), msg);
	json_decref(msg);
	buf_done(&c->body);
	of(c)->is_whole = true;
	if (!c->is_over)
		step(of(c));
}

static void send_body(struct envd_call *c, const char *p, size_t n)
{
	(void)p;
	(void)n;
	envd_call_link(c);
}

static void release(struct envd_call *c)
{
	buf_done(&of(c)->frames);
	buf_done(&of(c)->pending);
	free(of(c)->which.tag);
}

void envd_send_input(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct process_input),
		.body = send_body,
		.linked = send_linked,
		.message = message,
		.writable = writable,
		.ended = ended,
		.release = release,
	};
	struct envd_call *c;
	uint64_t ms;

	if (!envd_is_type(r, "application/json"))
		return;
	c = envd_call_start(a, r, sb, ENVD_UNARY, &ops);
	if (!envd_timeout_ms(c, &ms))
		return;
	envd_call_deadline(c, ms > 0 ? ms : ENVD_PATIENCE_MS); /* a process that never reads */
	envd_call_collect(c, ENVD_INPUT_MAX);
}

void envd_stream_input(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct process_input),
		.linked = stream_linked,
		.message = message,
		.writable = writable,
		.ended = ended,
		.release = release,
	};
	struct envd_call *c;
	uint64_t ms;

	if (!envd_is_type(r, "application/connect+json"))
		return;
	c = envd_call_start(a, r, sb, ENVD_STREAM, &ops);
	of(c)->is_stream = true;
	of(c)->frames.cap = ENVD_INPUT_MAX + (1u << 20); /* one frame, and what came with it */
	if (!envd_timeout_ms(c, &ms))
		return;
	envd_call_deadline(c, ms);
	envd_call_link(c);
}
