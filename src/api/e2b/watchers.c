/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/watchers - CreateWatcher, GetWatcherEvents, RemoveWatcher: watching by polling.
 *
 * A watcher is a channel to the guest with no request behind it; its events wait here, as JSON,
 * up to a cap, after which it says that it lost some. It lives in this process's memory among the
 * sandbox's streams: it goes when the sandbox does, and after a restart of the role its id is
 * unknown (not_found), as nobody could say what happened in between.
 */
#include "api/e2b/json_text.h"
#include "api/e2b/question.h"
#include "api/e2b/watch.h"
#include "base/mem.h"

#include <string.h>

#define EVENTS_MAX (256u << 10) /* bytes of JSON that wait */

struct watcher {
	struct stream stream; /* first */
	struct sandbox *sb;
	struct mux_channel channel;
	struct loop_task reap;
	struct envd_call *creator; /* NULL once answered */
	char *path;
	char id[24];
	struct buf events;  /* objects with commas between */
	const char *failed; /* why there will be no more; NULL: all is well */
};

struct create_watcher {
	struct envd_call call;
	struct watcher *watcher; /* until it is ready */
};

/* ---- requests ---- */

bool watch_put(struct envd_call *c, struct frame_writer *w, char **ret_path)
{
	json_t *msg = envd_json(c, buf_data(&c->body), buf_len(&c->body));
	bool is_recursive, has_entry;
	const char *path;
	bool ok = false;

	if (!msg)
		return false;
	if (!envd_get_string(msg, "path", &path) || strlen(path) > GUEST_PATH_MAX ||
		!envd_get_bool(msg, "recursive", false, &is_recursive) ||
		!envd_get_bool(msg, "includeEntry", false, &has_entry)) {
		envd_fail(c, CONNECT_INVALID_ARGUMENT,
			"unmarshal message: invalid path, recursive or includeEntry");
	} else {
		frame_put_string(w, c->user);
		frame_put_string(w, path);
		frame_put_u8(w, (uint8_t)((is_recursive ? GUEST_WATCH_RECURSIVE : 0) |
					  (has_entry ? GUEST_WATCH_ENTRY : 0)));
		*ret_path = mem_strdup(path);
		ok = true;
	}
	json_decref(msg);
	return ok;
}

void watch_fail(struct envd_call *c, int code, const char *path, const char *why)
{
	switch (code) {
	case ENOENT:
		envd_fail(
			c, CONNECT_NOT_FOUND, "path %s not found: no such file or directory", path);
		return;
	case ENOTDIR:
		envd_fail(c, CONNECT_INVALID_ARGUMENT, "path %s not a directory", path);
		return;
	case 0: envd_fail(c, CONNECT_INTERNAL, "the guest stopped watching"); return;
	default: envd_fail_errno(c, code, why);
	}
}

/* ---- the watcher ---- */

static void reap(struct loop_task *t)
{
	struct watcher *w = (struct watcher *)((char *)t - offsetof(struct watcher, reap));

	free(w->path);
	free(w);
}

static void watcher_end(struct watcher *w)
{
	if (!w->sb)
		return;
	mux_drop(&w->channel);
	/* Not counted as busy while it lived; removing it, here or by a kill, counts it off. */
	w->sb->busy++;
	sandbox_stream_remove(&w->stream);
	if (w->creator)
		((struct create_watcher *)w->creator)->watcher = NULL;
	envd_memory_give(buf_len(&w->events));
	buf_done(&w->events);
	loop_defer(w->sb->api->loop, &w->reap);
	w->sb = NULL;
}

static void cut(struct stream *s)
{
	watcher_end((struct watcher *)s);
}

static void keep(struct watcher *w, const struct guest_change *change)
{
	size_t before = buf_len(&w->events);
	int r = 0;

	if (w->failed)
		return;
	if (change->type == GUEST_OVERFLOW) {
		w->failed = WATCH_OVERFLOW;
		return;
	}
	if (before > 0)
		r = buf_add(&w->events, ",", 1);
	if (r >= 0)
		r = envd_change_add(&w->events, change);
	if (!envd_memory_take(buf_len(&w->events) - before)) {
		w->events.end -= buf_len(&w->events) - before;
		r = -ENOMEM;
	}
	if (r < 0)
		w->failed = WATCH_OVERFLOW;
}

static void ready(struct watcher *w)
{
	struct envd_call *c = w->creator;
	char json[64];
	int n = snprintf(json, sizeof(json), "{\"watcherId\":\"%s\"}", w->id);

	w->creator = NULL;
	((struct create_watcher *)c)->watcher = NULL;
	envd_reply(c, json, (size_t)n);
}

static void message(struct mux_channel *ch, uint16_t kind, struct frame_reader *body)
{
	struct guest_change change = {0};
	struct watcher *w = ch->arg;

	if (!w->sb)
		return;
	if (kind == MSG_OK && w->creator)
		ready(w);
	else if (kind == MSG_CHANGE && !w->creator && guest_change_get(body, &change))
		keep(w, &change);
	else
		w->failed = "watcher error: the guest's answer makes no sense";
	guest_change_done(&change);
}

static void data(struct mux_channel *ch, uint8_t stream, const char *p, size_t n)
{
	(void)stream;
	(void)p;
	mux_consumed(ch, n); /* nobody asked for it */
}

/* No more will come. Before it was ready: the creator's answer. After: what the next poll gets. */
static void over(struct watcher *w, int code, const char *why)
{
	struct envd_call *c = w->creator;
	AUTO_FREE char *path = NULL;

	if (!w->sb)
		return;
	if (!c) {
		w->failed = "watcher error: the guest stopped watching";
		return;
	}
	path = mem_strdup(w->path);
	watcher_end(w);
	w->creator = NULL;
	watch_fail(c, code, path, why);
}

static void ended(struct mux_channel *ch, int code, const char *why)
{
	over(ch->arg, code, why ? why : "");
}

static void closed(struct mux_channel *ch, int code)
{
	over(ch->arg, code, "the connection to the sandbox was lost");
}

static struct watcher *watcher_create(struct envd_call *c, struct err *err)
{
	struct watcher *w = MEM_NEW(struct watcher);
	char hex[21];

	if (sandbox_random_hex(hex, 10, err) < 0) {
		free(w);
		return NULL;
	}
	(void)snprintf(w->id, sizeof(w->id), "w%s", hex);
	w->sb = c->sb;
	w->creator = c;
	w->events.cap = EVENTS_MAX;
	w->reap.run = reap;
	w->stream.cut = cut;
	sandbox_stream_add(c->sb, &w->stream);
	/* A watcher that nobody polls is no use of the sandbox: it must not keep it alive. */
	c->sb->busy--;
	return w;
}

/* By the address of its callback: the sandbox's list holds all kinds of streams. */
static struct watcher *next_watcher(struct stream *s)
{
	while (s && s->cut != cut)
		s = s->next;
	return (struct watcher *)s;
}

static struct watcher *find(struct sandbox *sb, const char *id)
{
	struct watcher *w = next_watcher(sb->streams);

	while (w && (w->creator || strcmp(w->id, id) != 0))
		w = next_watcher(w->stream.next);
	return w;
}

static size_t count(struct sandbox *sb)
{
	size_t n = 0;

	for (struct watcher *w = next_watcher(sb->streams); w; w = next_watcher(w->stream.next))
		n++;
	return n;
}

/* ---- CreateWatcher ---- */

static void create_linked(struct envd_call *c)
{
	static const struct mux_events events = {
		.message = message, .data = data, .ended = ended, .closed = closed};
	struct frame_writer fw = {0};
	AUTO_FREE char *path = NULL;
	struct err err = {0};
	struct watcher *w;

	if (count(c->sb) >= ENVD_WATCHERS_MAX) {
		envd_fail(c, CONNECT_RESOURCE_EXHAUSTED,
			"a sandbox has at most %d watchers; remove one", ENVD_WATCHERS_MAX);
		return;
	}
	if (!watch_put(c, &fw, &path))
		return;
	w = watcher_create(c, &err);
	if (w && mux_open(c->sb->guest, &w->channel, GUEST_WATCH, &fw, &events, w, &err) < 0) {
		watcher_end(w);
		w = NULL;
	}
	buf_done(&fw.buf);
	if (!w) {
		envd_fail_errno(c, err.code, err.msg);
		return;
	}
	w->path = TAKE_PTR(path);
	((struct create_watcher *)c)->watcher = w;
}

static void create_body(struct envd_call *c, const char *p, size_t n)
{
	(void)p;
	(void)n;
	envd_call_link(c);
}

static void create_release(struct envd_call *c)
{
	struct watcher *w = ((struct create_watcher *)c)->watcher;

	if (w)
		watcher_end(w); /* nobody will ever know its id */
}

/* ---- the other two: no guest is asked ---- */

static void poll_answer(struct envd_call *c, struct watcher *w)
{
	AUTO_BUF struct buf b = {.cap = 2 * EVENTS_MAX};

	if (w->failed) {
		envd_fail(c, CONNECT_INTERNAL, "%s", w->failed);
		return;
	}
	(void)buf_add(&b, "{\"events\":[", 11);
	(void)buf_add(&b, buf_data(&w->events), buf_len(&w->events));
	(void)buf_add(&b, "]}", 2);
	envd_memory_give(buf_len(&w->events));
	buf_done(&w->events);
	w->events.cap = EVENTS_MAX;
	envd_reply(c, buf_data(&b), buf_len(&b));
}

static void by_id(struct envd_call *c, const char *p, size_t n, bool is_removal)
{
	json_t *msg = envd_json(c, p, n);
	struct watcher *w;
	const char *id;

	if (!msg)
		return;
	if (!envd_get_string(msg, "watcherId", &id)) {
		envd_fail(c, CONNECT_INVALID_ARGUMENT, "unmarshal message: invalid watcherId");
	} else if (!(w = find(c->sb, id))) {
		envd_fail(c, CONNECT_NOT_FOUND, "watcher with id %s not found", id);
	} else if (is_removal) {
		watcher_end(w);
		envd_reply(c, "{}", 2);
	} else {
		poll_answer(c, w);
	}
	json_decref(msg);
}

static void events_body(struct envd_call *c, const char *p, size_t n)
{
	by_id(c, p, n, false);
}

static void remove_body(struct envd_call *c, const char *p, size_t n)
{
	by_id(c, p, n, true);
}

static void start(
	struct api *a, struct http_request *r, struct sandbox *sb, const struct envd_ops *ops)
{
	struct envd_call *c;

	if (!envd_is_type(r, "application/json"))
		return;
	c = envd_call_start(a, r, sb, ENVD_UNARY, ops);
	if (!envd_basic_user(r, c->user))
		envd_fail(c, CONNECT_UNAUTHENTICATED, "invalid username");
	else
		envd_call_collect(c, ENVD_REQUEST_MAX);
}

void envd_create_watcher(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct create_watcher),
		.body = create_body,
		.linked = create_linked,
		.release = create_release,
	};

	start(a, r, sb, &ops);
}

void envd_watcher_events(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {.size = sizeof(struct envd_call), .body = events_body};

	start(a, r, sb, &ops);
}

void envd_remove_watcher(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {.size = sizeof(struct envd_call), .body = remove_body};

	start(a, r, sb, &ops);
}
