/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a client sees of an exec: one JSON answer at the end, or a stream of JSON objects, one per
 * line (NDJSON) or one per server-sent event.
 *
 * Bytes are given as "text" where they are UTF-8 and as "base64" where they are not; an offset
 * always counts bytes. A client that reads slowly slows the process down: credit goes back to
 * the guest only as far as the client has taken.
 */
#include "api/e2b/base64.h"
#include "api/e2b/json_text.h"
#include "api/v1/exec.h"
#include "base/mem.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#define KEEPALIVE_MS 20000
#define OUT_MAX      GUEST_RING   /* of one stream in one answer */
#define HELD_MAX     (256u << 20) /* of all answers that wait: beyond, output is left out */
#define ANSWER_MAX   (32u << 20)  /* all of it, escaped */
#define LINE_MAX_    (512u << 10) /* one DATA frame, escaped */

static const char *const stream_names[EXEC_STREAMS] = {
	[GUEST_STDOUT] = "stdout",
	[GUEST_STDERR] = "stderr",
	[GUEST_PTY] = "pty",
};

enum follow_mode follow_mode(const struct http_request *r)
{
	static const char *const types[] = {
		"application/json", "application/x-ndjson", "text/event-stream", NULL};

	return (enum follow_mode)v1_accepts(r, types);
}

/* Well-formed as Unicode says: shortest form, no surrogates, up to U+10FFFF. */
static bool is_utf8(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned c = p[i++], more, low = 0x80, high = 0xbf;

		if (c < 0x80)
			continue;
		if (c < 0xc2 || c > 0xf4)
			return false;
		more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
		low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : low;
		high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : high;
		for (; more > 0; more--, low = 0x80, high = 0xbf) {
			if (i == n || p[i] < low || p[i] > high)
				return false;
			i++;
		}
	}
	return true;
}

/* Bytes that JSON writes as \u00XX: six for one. */
static bool is_mostly_plain(const unsigned char *p, size_t n)
{
	size_t bad = 0;

	for (size_t i = 0; i < n; i++)
		bad += p[i] < 0x20 && p[i] != '\n' && p[i] != '\t' && p[i] != '\r';
	return bad * 8 <= n;
}

/* "text":"…" or "base64":"…", the name with a prefix. */
static void add_bytes(struct buf *b, const char *prefix, const char *p, size_t n)
{
	char *room;

	if (is_utf8((const unsigned char *)p, n) && is_mostly_plain((const unsigned char *)p, n)) {
		(void)buf_addf(b, "\"%s\":", *prefix ? prefix : "text");
		(void)json_text_addn(b, p, n);
		return;
	}
	(void)buf_addf(b, "\"%s%sbase64\":\"", prefix, *prefix ? "_" : "");
	room = buf_reserve(b, BASE64_SIZE(n));
	if (room)
		buf_commit(b, base64_encode(room, p, n));
	(void)buf_add(b, "\"", 1);
}

/* ---- streams ---- */

static void send_line(struct run *u, const char *type, const struct buf *json)
{
	AUTO_BUF struct buf b = {.cap = LINE_MAX_ + 256};

	if (u->mode == FOLLOW_SSE)
		(void)buf_addf(&b,
			"event: %s\nid: %" PRIu64 ".%" PRIu64 ".%" PRIu64 "\ndata: ", type,
			u->at[GUEST_STDOUT], u->at[GUEST_STDERR], u->at[GUEST_PTY]);
	(void)buf_addf(&b, "{\"type\":\"%s\"", type);
	(void)buf_add(&b, buf_data(json), buf_len(json));
	(void)buf_addf(&b, "}\n%s", u->mode == FOLLOW_SSE ? "\n" : "");
	http_write(u->r, buf_data(&b), buf_len(&b));
}

static void drained(struct http_request *r)
{
	struct run *u = r->state;

	if (u && u->owed > 0)
		mux_consumed(&u->ch, TAKE_(u->owed, 0));
}

static void keep_alive(struct loop_timer *t)
{
	struct run *u = (struct run *)((char *)t - offsetof(struct run, timer));
	static const char comment[] = ": still here\n\n", line[] = "{\"type\":\"keepalive\"}\n";

	if (u->mode == FOLLOW_SSE)
		http_write(u->r, comment, sizeof(comment) - 1);
	else
		http_write(u->r, line, sizeof(line) - 1);
	loop_timer_set(u->api->loop, t, KEEPALIVE_MS);
}

static void begin(struct run *u)
{
	u->has_begun = true;
	http_field(u->r, "Cache-Control", "no-store");
	http_set_drained(u->r, drained);
	http_begin(u->r, 200, u->mode == FOLLOW_SSE ? "text/event-stream" : "application/x-ndjson",
		-1);
	u->timer.fire = keep_alive;
	loop_timer_set(u->api->loop, &u->timer, KEEPALIVE_MS);
}

/* ---- answers ---- */

static void wait_over(struct loop_timer *t)
{
	follow_answer((struct run *)((char *)t - offsetof(struct run, timer)));
}

static void add_stream(struct run *u, struct buf *b, unsigned i)
{
	const char *name = stream_names[i];

	if (i == GUEST_PTY && u->at[i] == 0)
		return;
	(void)buf_add(b, ",", 1);
	add_bytes(b, name, buf_data(&u->out[i]), buf_len(&u->out[i]));
	(void)buf_addf(b, ",\"%s_offset\":%" PRIu64 ",\"%s_next\":%" PRIu64 ",\"%s_incomplete\":%s",
		name, u->first[i], name, u->first[i] + buf_len(&u->out[i]), name,
		u->is_incomplete[i] ? "true" : "false");
}

void follow_answer(struct run *u)
{
	AUTO_BUF struct buf b = {.cap = ANSWER_MAX};
	json_t *head = exec_json(u->api, &u->row, u->row.has_ended ? "exited" : "running");
	AUTO_FREE char *text = head ? json_dumps(head, JSON_COMPACT) : NULL;
	struct http_request *r = u->r;
	struct err err = {0};

	json_decref(head);
	if (text && *text)
		(void)buf_add(&b, text, strlen(text) - 1); /* without its brace */
	if (u->has_exited)
		(void)buf_addf(&b,
			",\"cpu_us\":%" PRIu64 ",\"wall_ms\":%" PRIu64
			",\"memory_peak_bytes\":%" PRIu64,
			u->exit.cpu_us, u->exit.wall_ms, u->exit.rss_peak);
	for (unsigned i = GUEST_STDOUT; i < EXEC_STREAMS; i++)
		add_stream(u, &b, i);
	r->state = NULL;
	r->gone = NULL;
	u->r = NULL;
	if (text && buf_add(&b, "}", 1) == 0) {
		http_reply(r, 200, "application/json", buf_data(&b), buf_len(&b));
	} else {
		(void)err_set(&err, E2BIG, "the output does not fit an answer: stream it");
		api_reply_err(r, &err);
	}
	run_client_done(u);
}

/* ---- events of the run ---- */

void follow_started(struct run *u)
{
	AUTO_BUF struct buf b = {0};

	switch (u->mode) {
	case FOLLOW_BACKGROUND: {
		struct http_request *r = TAKE_PTR(u->r);

		r->state = NULL;
		r->gone = NULL;
		api_reply_json(r, 201, exec_json(u->api, &u->row, "running"));
		run_client_done(u);
		return;
	}
	case FOLLOW_WAIT:
		if (u->wait_ms > 0) {
			u->timer.fire = wait_over;
			loop_timer_set(u->api->loop, &u->timer, u->wait_ms);
		}
		return;
	default:
		begin(u);
		(void)buf_addf(&b,
			",\"id\":\"%s\",\"pid\":%lld,\"stdout_offset\":%" PRIu64
			",\"stderr_offset\":%" PRIu64 ",\"pty_offset\":%" PRIu64,
			u->row.id, (long long)u->row.pid, u->at[GUEST_STDOUT], u->at[GUEST_STDERR],
			u->at[GUEST_PTY]);
		send_line(u, "started", &b);
	}
}

void follow_drop(struct run *u)
{
	for (size_t i = 0; i < EXEC_STREAMS; i++) {
		u->api->v1->held -= buf_len(&u->out[i]);
		buf_done(&u->out[i]);
	}
}

static void keep_data(struct run *u, unsigned stream, const char *p, size_t n)
{
	struct buf *b = &u->out[stream];
	size_t room = OUT_MAX - buf_len(b), free_n = HELD_MAX - u->api->v1->held;
	size_t take = n < room ? n : room;

	b->cap = OUT_MAX;
	if (u->is_incomplete[stream] && buf_len(b) > 0)
		return; /* a gap inside would be a lie */
	if (buf_len(b) == 0)
		u->first[stream] = u->at[stream] - n;
	take = take < free_n ? take : free_n;
	if (take > 0 && buf_add(b, p, take) == 0)
		u->api->v1->held += take;
	else
		take = 0;
	u->is_incomplete[stream] |= take < n;
}

void follow_data(struct run *u, unsigned stream, const char *p, size_t n)
{
	AUTO_BUF struct buf b = {.cap = LINE_MAX_};

	if (u->mode == FOLLOW_WAIT || !u->has_begun) {
		u->at[stream] += n;
		keep_data(u, stream, p, n);
		mux_consumed(&u->ch, n);
		return;
	}
	(void)buf_addf(&b, ",\"offset\":%" PRIu64 ",", u->at[stream]);
	add_bytes(&b, "", p, n);
	u->at[stream] += n;
	send_line(u, stream_names[stream], &b);
	if (http_queued(u->r) > CONN_HIGH)
		u->owed += n;
	else
		mux_consumed(&u->ch, n);
}

void follow_lost(struct run *u, unsigned stream, uint64_t from, uint64_t to)
{
	AUTO_BUF struct buf b = {0};

	if (stream == 0)
		return;
	u->at[stream] = to;
	if (u->mode == FOLLOW_WAIT || !u->has_begun) {
		u->is_incomplete[stream] = true;
		if (buf_len(&u->out[stream]) == 0)
			u->first[stream] = to;
		return;
	}
	(void)buf_addf(&b, ",\"stream\":\"%s\",\"from\":%" PRIu64 ",\"to\":%" PRIu64,
		stream_names[stream], from, to);
	send_line(u, "lost", &b);
}

void follow_exited(struct run *u)
{
	AUTO_BUF struct buf b = {0};
	AUTO_FREE char *refused = NULL;
	struct http_request *r;
	json_t *violations;

	if (u->mode == FOLLOW_WAIT || u->mode == FOLLOW_BACKGROUND) {
		follow_answer(u);
		return;
	}
	if (!u->has_begun)
		begin(u);
	(void)buf_addf(&b,
		",\"exit_code\":%lld,\"signal\":%lld,\"timed_out\":%s,\"cpu_us\":%" PRIu64
		",\"wall_ms\":%" PRIu64 ",\"memory_peak_bytes\":%" PRIu64 ",\"stdout_end\":%" PRIu64
		",\"stderr_end\":%" PRIu64 ",\"pty_end\":%" PRIu64,
		(long long)u->row.exit_code, (long long)u->row.signal,
		u->row.is_timed_out ? "true" : "false", u->exit.cpu_us, u->exit.wall_ms,
		u->exit.rss_peak, u->exit.end[GUEST_STDOUT], u->exit.end[GUEST_STDERR],
		u->exit.end[GUEST_PTY]);
	violations = exec_violations(u->api, &u->row);
	refused = violations ? json_dumps(violations, JSON_COMPACT) : NULL;
	json_decref(violations);
	if (refused && strlen(refused) < LINE_MAX_ / 2)
		(void)buf_addf(&b, ",\"violations\":%s", refused);
	send_line(u, "exit", &b);
	r = TAKE_PTR(u->r);
	r->state = NULL;
	r->gone = NULL;
	http_end(r);
	run_client_done(u);
}

void follow_failed(struct run *u, const struct err *err)
{
	AUTO_BUF struct buf b = {0};
	struct http_request *r = u->r;

	if (u->has_begun) {
		(void)buf_addf(&b, ",\"code\":\"%s\",\"message\":", api_code(err->code));
		(void)json_text_add(&b, err->msg);
		(void)buf_addf(&b, ",\"next\":\"GET the output again from these offsets\"");
		send_line(u, "error", &b);
	}
	u->r = NULL;
	r->state = NULL;
	r->gone = NULL;
	if (u->has_begun)
		http_end(r);
	else if (err->code == ECONNRESET)
		api_reply_error(r, 503, "unavailable",
			"send the same request with the same Idempotency-Key, or GET …/output",
			"the link to the sandbox was lost; the command may be running");
	else
		api_reply_err(r, err);
	run_client_done(u);
}
