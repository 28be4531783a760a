/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs: the channel to the guest, recording the end, and finding what lost its watch.
 *
 *   run_go -> linked -> MSG_STARTED -> DATA… -> MSG_EXIT: recorded (E2), told -> freed
 *                |           |           |
 *                +-- refused-+           +-- link lost: told, rescan attaches again (E4)
 */
#include "api/v1/exec.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

#define LOOK_AGAIN_MS 1000
/* Behind this the guest's memory of a key may be gone: E3 says do not start. */
#define SURE_MS (GUEST_REMEMBER_MS - 30000)

struct run *run_new(
	struct api *a, const char *sandbox, const char *actor, struct store_exec *take_row)
{
	struct run *u = MEM_NEW(struct run);

	u->api = a;
	(void)snprintf(u->sandbox, sizeof(u->sandbox), "%s", sandbox);
	(void)snprintf(u->actor, sizeof(u->actor), "%s", actor);
	u->row = *take_row;
	*take_row = (struct store_exec){0};
	u->next = a->v1->runs;
	u->prev = &a->v1->runs;
	if (u->next)
		u->next->prev = &u->next;
	a->v1->runs = u;
	return u;
}

void run_free(struct run *u)
{
	*u->prev = u->next;
	if (u->next)
		u->next->prev = u->prev;
	if (u->sb)
		sandbox_guest_cancel(u->sb, u);
	mux_drop(&u->ch);
	sandbox_stream_remove(&u->cut);
	loop_timer_cancel(u->api->loop, &u->timer);
	follow_drop(u);
	buf_done(&u->request.buf);
	store_exec_done(&u->row);
	free(u);
}

struct run *run_find(struct api *a, const char *sandbox, const char *id)
{
	for (struct run *u = a->v1->runs; u; u = u->next)
		if (u->is_watch && strcmp(u->row.id, id) == 0 && strcmp(u->sandbox, sandbox) == 0)
			return u;
	return NULL;
}

/* ---- the client ---- */

void run_client_done(struct run *u)
{
	if (u->r) {
		u->r->state = NULL;
		u->r->gone = NULL;
		u->r = NULL;
	}
	sandbox_stream_remove(&u->cut);
	loop_timer_cancel(u->api->loop, &u->timer);
	if (!u->is_watch || u->has_exited) {
		run_free(u);
		return;
	}
	follow_drop(u);
	/* From here on the output is for nobody: taken and dropped, so that the end comes. */
	if (u->owed > 0)
		mux_consumed(&u->ch, TAKE_(u->owed, 0));
}

static void client_gone(struct http_request *r)
{
	run_client_done(r->state);
}

/* The sandbox was killed. */
static void client_cut(struct stream *s)
{
	struct run *u = (struct run *)((char *)s - offsetof(struct run, cut));
	struct http_request *r = TAKE_PTR(u->r);

	if (!r)
		return;
	r->state = NULL;
	r->gone = NULL;
	loop_timer_cancel(u->api->loop, &u->timer);
	if (u->has_begun)
		http_abort(r);
	else
		api_reply_error(r, 410, "sandbox_ended", "GET the sandbox for the reason",
			"the sandbox ended while the command ran");
}

void run_set_client(
	struct run *u, struct sandbox *sb, struct http_request *r, enum follow_mode mode)
{
	u->r = r;
	u->mode = mode;
	r->state = u;
	r->gone = client_gone;
	u->cut.cut = client_cut;
	sandbox_stream_add(sb, &u->cut);
}

/* ---- the record ---- */

static int write_end(struct run *u, struct err *err)
{
	struct store *s = u->api->store;
	AUTO_FREE char *detail =
		text_format("{\"exec\":\"%s\",\"exit_code\":%lld,\"signal\":%lld,\"timed_out\":%s}",
			u->row.id, (long long)u->row.exit_code, (long long)u->row.signal,
			u->row.is_timed_out ? "true" : "false");
	struct sandbox *sb = sandbox_by_id(u->api, u->sandbox);
	struct store_event e = {.tenant = sb ? sb->row.tenant : "",
		.actor = "guest",
		.action = "exec.end",
		.sandbox = u->sandbox,
		.outcome = "ok",
		.detail = detail};
	int r = store_begin(s, err);

	if (r < 0)
		return r;
	r = store_exec_update(s, &u->row, err);
	if (r == 0)
		r = store_event_append(s, &e, err);
	if (r < 0)
		store_rollback(s);
	return r < 0 ? r : store_commit(s, err);
}

static int record_exit(struct run *u, struct err *err)
{
	struct store_exec now = {0};
	int r = store_exec_get(u->api->store, u->sandbox, u->row.id, &now, err);
	bool is_known = r == 0 && now.has_ended;

	store_exec_done(&now);
	u->row.has_ended = true;
	u->row.exit_code = u->exit.exit_code;
	u->row.signal = u->exit.signal;
	u->row.is_timed_out = u->exit.is_timed_out != 0;
	return r < 0 || is_known ? r : write_end(u, err);
}

/* Somebody else is at it: a client that sent the key again may be starting it right now. */
static bool has_other_run(const struct run *u)
{
	for (const struct run *o = u->api->v1->runs; o; o = o->next)
		if (o != u && strcmp(o->row.id, u->row.id) == 0 &&
			strcmp(o->sandbox, u->sandbox) == 0)
			return true;
	return false;
}

/* The guest does not know it: it never started, or ended so long ago that nobody can say how. */
static void settle_unknown(struct run *u)
{
	struct err err = {0};
	int r;

	if (u->row.has_ended || has_other_run(u))
		return;
	if (u->row.pid == 0 && api_now_unix_ms() - u->row.made_ms < SURE_MS) {
		r = store_exec_remove(u->api->store, u->sandbox, u->row.id, &err);
	} else {
		u->row.has_ended = true;
		u->row.exit_code = -1;
		u->row.signal = 0;
		r = write_end(u, &err);
	}
	if (r < 0 && r != -ENOENT)
		api_log("error", "", "exec %s: %s", u->row.id, err.msg);
}

/* ---- the channel ---- */

/* The connection went, not the process. */
static void lost(struct run *u)
{
	struct err err = {0};

	if (u->is_watch && !u->has_exited)
		v1_rescan_in(u->api, LOOK_AGAIN_MS);
	if (u->r) {
		(void)err_set(&err, ECONNRESET, "the link to the sandbox was lost");
		u->is_watch = false;
		follow_failed(u, &err);
		return;
	}
	run_free(u);
}

static void refused(struct run *u, int code, const char *why)
{
	struct err err = {0}, store_err = {0};
	char quoted[300];

	(void)err_set(&err, code, "%s", text_quote(why, quoted, sizeof(quoted)));
	/* A start that was refused did not happen: the key is free for another try. */
	if (u->kind == GUEST_START &&
		store_exec_remove(u->api->store, u->sandbox, u->row.id, &store_err) < 0)
		api_log("error", "", "exec %s: %s", u->row.id, store_err.msg);
	if (u->kind == GUEST_ATTACH && code == ESRCH)
		settle_unknown(u);
	u->is_watch = false;
	if (!u->r) {
		run_free(u);
		return;
	}
	if (u->kind == GUEST_ATTACH && code == ESRCH && u->row.has_ended) {
		/* The exit status is kept; the output is not there any more. */
		for (size_t i = 0; i < EXEC_STREAMS; i++)
			u->is_incomplete[i] = true;
		follow_exited(u);
		return;
	}
	follow_failed(u, &err);
}

static void got_started(struct run *u, struct frame_reader *b)
{
	struct guest_started s = {0};
	struct err err = {0};

	/* Twice would be two answers to one request. */
	if (u->has_started || !guest_started_get(b, &s) || !frame_ok(b)) {
		lost(u);
		return;
	}
	u->has_started = true;
	u->row.pid = s.pid;
	for (size_t i = 0; i < EXEC_STREAMS; i++)
		u->at[i] = u->first[i] = s.offset[i];
	/* Only who answers before the end needs the pid on disk; the others save a sync. */
	if (u->mode == FOLLOW_BACKGROUND && u->is_watch &&
		store_exec_update(u->api->store, &u->row, &err) < 0)
		api_log("error", "", "exec %s: %s", u->row.id, err.msg);
	if (u->r)
		follow_started(u);
}

static void got_exit(struct run *u, struct frame_reader *b)
{
	struct err err = {0};

	if (!guest_exit_get(b, &u->exit) || !frame_ok(b)) {
		lost(u);
		return;
	}
	if (record_exit(u, &err) < 0) {
		api_log("error", "", "exec %s: the exit status cannot be kept: %s", u->row.id,
			err.msg);
		lost(u);
		return;
	}
	u->has_exited = true;
	mux_drop(&u->ch);
	if (u->r)
		follow_exited(u);
	else
		run_free(u);
}

static void got_message(struct mux_channel *ch, uint16_t kind, struct frame_reader *b)
{
	struct run *u = ch->arg;
	uint8_t stream;
	uint64_t from, to;

	switch (kind) {
	case MSG_STARTED: got_started(u, b); return;
	case MSG_EXIT: got_exit(u, b); return;
	case MSG_LOST:
		stream = frame_get_u8(b);
		from = frame_get_u64(b);
		to = frame_get_u64(b);
		if (!frame_ok(b) || stream >= EXEC_STREAMS || to < from)
			lost(u);
		else if (u->r)
			follow_lost(u, stream, from, to);
		return;
	default: lost(u);
	}
}

static void got_data(struct mux_channel *ch, uint8_t stream, const char *p, size_t n)
{
	struct run *u = ch->arg;

	if (u->r && stream > 0 && stream < EXEC_STREAMS)
		follow_data(u, stream, p, n);
	else
		mux_consumed(ch, n);
}

static void got_ended(struct mux_channel *ch, int code, const char *why)
{
	struct run *u = ch->arg;

	if (code != 0 && !u->has_started)
		refused(u, code, why);
	else
		lost(u); /* it must not end before the exit */
}

static void got_closed(struct mux_channel *ch, int code)
{
	(void)code;
	lost(ch->arg);
}

static const struct mux_events events = {
	.message = got_message,
	.data = got_data,
	.ended = got_ended,
	.closed = got_closed,
};

static void linked(struct sandbox *sb, int code, void *arg)
{
	struct run *u = arg;
	struct err err = {0};

	u->sb = NULL;
	if (code < 0) {
		lost(u);
		return;
	}
	code = mux_open(sb->guest, &u->ch, u->kind, &u->request, &events, u, &err);
	if (code < 0) {
		refused(u, -code, err.msg);
		return;
	}
	mux_end(&u->ch, 0, NULL);
	buf_done(&u->request.buf);
}

void run_attach(struct run *u, enum guest_from from, const uint64_t offset[EXEC_STREAMS])
{
	struct guest_attach q = {.from = (uint8_t)from, .which = {.key = u->row.id}};
	char none[1] = "";

	q.which.tag = none;
	if (offset)
		(void)memcpy(q.offset, offset, sizeof(q.offset));
	u->kind = GUEST_ATTACH;
	guest_attach_put(&u->request, &q);
}

void run_go(struct run *u, struct sandbox *sb)
{
	u->sb = sb;
	sandbox_guest(sb, linked, u);
}

/* ---- E4 ---- */

struct open_rows {
	struct api *api;
	struct store_exec rows[64];
	size_t n, skip;
};

static int keep_row(const struct store_exec *e, void *arg)
{
	struct open_rows *o = arg;
	struct store_exec *copy;

	if (run_find(o->api, e->sandbox, e->id))
		return 0;
	if (o->skip > 0) {
		o->skip--;
		return 0;
	}
	if (o->n == sizeof(o->rows) / sizeof(o->rows[0]))
		return -EAGAIN;
	copy = &o->rows[o->n++];
	*copy = *e;
	copy->request = mem_strdup(e->request);
	return 0;
}

/* In turns, and each turn passes over those of the last: a guest that lets go of every watch at
 * once would have all turns otherwise. */
void v1_exec_rescan(struct api *a)
{
	size_t skip = a->v1->rescan_skip;
	struct open_rows o = {.api = a, .skip = skip};
	struct err err = {0};
	int r = store_exec_each_open(a->store, keep_row, &o, &err);

	a->v1->rescan_skip = r == -EAGAIN ? skip + o.n : 0;
	if (r < 0 && r != -EAGAIN)
		api_log("error", "", "execs without an end cannot be listed: %s", err.msg);
	if (r < 0)
		v1_rescan_in(a, r == -EAGAIN ? 0 : LOOK_AGAIN_MS);
	else if (skip > 0)
		v1_rescan_in(a, 0);
	for (size_t i = 0; i < o.n; i++) {
		struct sandbox *sb = sandbox_by_id(a, o.rows[i].sandbox);

		if (sb) {
			struct run *u = run_new(a, sb->row.id, "system", &o.rows[i]);

			u->is_watch = true;
			run_attach(u, GUEST_FROM_NOW, NULL);
			run_go(u, sb);
		}
		store_exec_done(&o.rows[i]);
	}
}

void v1_execs_free(struct api *a)
{
	while (a->v1->runs)
		run_free(a->v1->runs);
}
