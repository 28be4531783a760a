/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request of /v1 while it waits: for its body, for the link to a guest, for the guest's answer.
 *
 *   ask_new -> (ask_json: body) -> ask_guest: link -> channel -> finish -> done -> answer
 *                  |                     |               |
 *                  +------ gone ---------+---------------+--> freed, nobody to answer
 */
#include "api/v1/v1.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

#define PATIENCE_MS 120000 /* for a guest's answer */

static void ask_free(struct ask *k)
{
	if (k->sb)
		sandbox_guest_cancel(k->sb, k);
	loop_timer_cancel(k->api->loop, &k->patience);
	mux_drop(&k->ch);
	buf_done(&k->body.buf);
	buf_done(&k->data);
	json_decref(k->answer);
	free(k);
}

static void ask_gone(struct http_request *r)
{
	struct ask *k = r->state;

	k->r = NULL;
	if (!k->is_finishing)
		ask_free(k);
}

struct ask *ask_new(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct ask *k = MEM_NEW(struct ask);

	k->api = a;
	k->r = r;
	k->who = m->caller;
	(void)memcpy(k->params, m->params, sizeof(k->params));
	r->state = k;
	r->gone = ask_gone;
	return k;
}

static void got_body(struct http_request *r, json_t *body, void *arg)
{
	struct ask *k = arg;

	(void)r;
	k->with_body(k, body);
}

void ask_json(struct ask *k, void (*with_body)(struct ask *k, json_t *body))
{
	k->with_body = with_body;
	api_read_json(k->r, V1_BODY_MAX, got_body, k);
}

struct http_request *ask_take(struct ask *k)
{
	struct http_request *r = TAKE_PTR(k->r);

	if (r) {
		r->state = NULL;
		r->gone = NULL;
	}
	if (!k->is_finishing)
		ask_free(k);
	return r;
}

void ask_reply(struct ask *k, int status, json_t *take_body)
{
	struct http_request *r = ask_take(k);

	if (!r)
		json_decref(take_body);
	else if (take_body)
		api_reply_json(r, status, take_body);
	else
		http_reply(r, status, NULL, NULL, 0);
}

void ask_fail(struct ask *k, const struct err *err)
{
	struct err copy = *err;
	struct http_request *r = ask_take(k);

	if (r)
		api_reply_err(r, &copy);
}

void ask_answer(struct ask *k, const struct err *err)
{
	if (err)
		ask_fail(k, err);
	else if (k->answer)
		ask_reply(k, 200, TAKE_PTR(k->answer));
	else
		ask_reply(k, 204, NULL);
}

/* The one end of a question: `done` answers, then the ask goes. */
static void finish(struct ask *k, int code, const char *why)
{
	struct err err = {0};
	char quoted[300];

	mux_drop(&k->ch);
	loop_timer_cancel(k->api->loop, &k->patience);
	if (code != 0)
		(void)err_set(&err, code, "%s",
			why && *why ? text_quote(why, quoted, sizeof(quoted))
				    : strerrordesc_np(code));
	k->is_finishing = true;
	k->done(k, code ? &err : NULL);
	k->is_finishing = false;
	(void)ask_take(k);
}

static void got_message(struct mux_channel *ch, uint16_t kind, struct frame_reader *b)
{
	struct ask *k = ch->arg;
	bool is_good = k->message ? k->message(k, kind, b) : kind == MSG_OK && frame_ok(b);

	if (is_good)
		return;
	if (k->is_too_large)
		finish(k, E2BIG, "the list is too long: ask for a part of it");
	else
		finish(k, EPROTO, "the sandbox sent something that cannot be");
}

static void got_ended(struct mux_channel *ch, int code, const char *why)
{
	finish(ch->arg, code, why);
}

static void got_closed(struct mux_channel *ch, int code)
{
	finish(ch->arg, code ? code : ECONNRESET, "the sandbox closed the connection");
}

static void too_late(struct loop_timer *t)
{
	finish((struct ask *)((char *)t - offsetof(struct ask, patience)), ETIMEDOUT,
		"the sandbox did not answer in time");
}

static void push(struct mux_channel *ch)
{
	struct ask *k = ch->arg;
	size_t n = 1;

	while (n > 0 && buf_len(&k->data) > 0) {
		n = mux_data(ch, GUEST_BYTES, buf_data(&k->data), buf_len(&k->data));
		buf_eat(&k->data, n);
	}
	if (buf_len(&k->data) == 0 && !ch->has_ended)
		mux_end(ch, 0, NULL);
}

static const struct mux_events events = {
	.message = got_message,
	.writable = push,
	.ended = got_ended,
	.closed = got_closed,
};

static void linked(struct sandbox *sb, int code, void *arg)
{
	struct ask *k = arg;
	struct err err = {0};

	k->sb = NULL;
	if (code == 0)
		code = mux_open(sb->guest, &k->ch, k->kind, &k->body, &events, k, &err);
	if (code < 0) {
		finish(k, -code, err.code ? err.msg : "the sandbox cannot be reached");
		return;
	}
	push(&k->ch);
}

void ask_guest(struct ask *k, struct sandbox *sb, uint16_t kind,
	bool (*message)(struct ask *k, uint16_t kind, struct frame_reader *b),
	void (*done)(struct ask *k, const struct err *err))
{
	k->kind = kind;
	k->message = message;
	k->done = done;
	k->sb = sb;
	sandbox_touch(sb);
	k->patience.fire = too_late;
	loop_timer_set(k->api->loop, &k->patience, PATIENCE_MS);
	sandbox_guest(sb, linked, k);
}

struct sandbox *v1_sandbox(
	struct api *a, struct http_request *r, const struct api_caller *who, const char *which)
{
	struct sandbox *sb = sandbox_find(a, who->tenant, which);
	char quoted[80];

	if (!sb)
		api_reply_error(r, 404, "sandbox_not_found", "list yours with GET /v1/sandboxes",
			"no running sandbox '%s'", text_quote(which, quoted, sizeof(quoted)));
	return sb;
}

struct sandbox *ask_sandbox(struct ask *k)
{
	struct sandbox *sb = sandbox_find(k->api, k->who.tenant, k->params[0]);
	struct api_caller who = k->who;
	struct api *a = k->api;
	char which[sizeof(k->params[0])];

	if (sb)
		return sb;
	memcpy(which, k->params[0], sizeof(which));
	return v1_sandbox(a, ask_take(k), &who, which);
}
