/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The connection to a guest: one per sandbox, made when somebody needs it, bound before anybody
 * gets it, dropped after a minute without a channel, or when the guest has stopped answering: then
 * everything that waits for it ends with an error instead of never.
 *
 *   none --(sandbox_guest)--> binding --(MSG_OK)--> bound: sb->guest is set
 *     ^                          |                    |
 *     +----(lost, 10 s)----------+------(lost, idle, silent, killed)
 *
 * What the guest says here is "fine" or it is not there: nothing of its bytes is kept.
 */
#include "api/metrics.h"
#include "api/sandbox_impl.h"
#include "api/v1/secrets.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/road_env.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BIND_MS 10000 /* a guest that does not answer by then is not there */

struct sandbox_link {
	struct sandbox *sb;
	struct mux *mux;
	struct mux_channel bind;
	struct mux_channel ping; /* open while an answer is owed */
	struct loop_timer timer; /* binding: gives up; bound: looks whether it is idle or silent */
	bool is_ok;              /* the guest took the binding */
	bool was_idle;           /* at the last look */
};

struct sandbox_wait {
	sandbox_link_fn ready;
	void *arg;
	struct sandbox_wait *next;
};

static void tell(struct sandbox *sb, int code)
{
	struct sandbox_wait *w;
	size_t n = 0;

	for (w = sb->waits; w; w = w->next)
		n++;
	/*
	 * In the order they came, off the list one by one: a callback may cancel another
	 * one, or wait again, and then it is not told in this round.
	 */
	while (n-- > 0 && (w = sb->waits)) {
		sb->waits = w->next;
		w->ready(sb, code, w->arg);
		free(w);
	}
}

static void link_free(struct sandbox_link *k)
{
	/* Over, and not yet told so: the mux would call into what is freed here. */
	mux_drop(&k->bind);
	mux_drop(&k->ping);
	loop_timer_cancel(k->sb->api->loop, &k->timer);
	free(k);
}

/* The mux is gone, by whoever's doing; it frees itself. */
static void mux_gone(struct mux *m, const struct err *why, void *arg)
{
	struct sandbox_link *k = arg;
	struct sandbox *sb = k->sb;

	(void)m;
	(void)why;
	if (sb->guest)
		metrics_link(sb->api, -1);
	sb->guest = NULL;
	sb->link = NULL;
	link_free(k);
	tell(sb, -ECONNRESET);
}

static const struct mux_owner owner = {.closed = mux_gone};

void sandbox_link_close(struct sandbox *sb)
{
	if (sb->link && sb->link->mux)
		mux_close(sb->link->mux);
	tell(sb, -ECONNRESET);
}

static void drop_data(struct mux_channel *c, uint8_t stream, const char *p, size_t n)
{
	(void)c, (void)stream, (void)p, (void)n; /* no credit is given back: it stops by itself */
}

static void drop_message(struct mux_channel *c, uint16_t kind, struct frame_reader *body)
{
	(void)c, (void)kind, (void)body;
}

static void ping_closed(struct mux_channel *c, int code)
{
	(void)c, (void)code; /* not open any more: that is the answer, or mux_gone() follows */
}

/* Any answer will do, also a refusal. */
static const struct mux_events ping_events = {
	.message = drop_message,
	.data = drop_data,
	.closed = ping_closed,
};

static int ask_ping(struct sandbox_link *k, struct err *err)
{
	struct frame_writer w = {0};
	int r = mux_open(k->mux, &k->ping, GUEST_PING, &w, &ping_events, k, err);

	buf_done(&w.buf);
	if (r == 0)
		mux_end(&k->ping, 0, NULL);
	return r;
}

static void look_later(struct sandbox_link *k)
{
	struct api *a = k->sb->api;

	loop_timer_set(a->loop, &k->timer, a->sandboxes->look_ms);
}

static void timer_due(struct loop_timer *t)
{
	struct sandbox_link *k =
		(struct sandbox_link *)((char *)t - offsetof(struct sandbox_link, timer));
	bool is_owed = k->ping.mux, is_idle;
	struct err err = {0};

	is_idle = mux_channels(k->mux) == (is_owed ? 1 : 0);
	if (!k->sb->guest || (is_idle && k->was_idle)) {
		mux_close(k->mux);
		return;
	}
	k->was_idle = is_idle;
	if (is_owed) {
		api_log("error", "", "guest of %s does not answer: its link is dropped",
			k->sb->row.id);
		mux_close(k->mux);
		return;
	}
	/* No room for one more channel: so many are under way that one of them will tell. */
	if (!is_idle && ask_ping(k, &err) < 0)
		api_log("warning", "", "guest of %s: %s", k->sb->row.id, err.msg);
	look_later(k);
}

static void bind_message(struct mux_channel *c, uint16_t kind, struct frame_reader *body)
{
	struct sandbox_link *k = c->arg;

	if (kind == MSG_OK && frame_ok(body))
		k->is_ok = true;
}

static void bind_ended(struct mux_channel *c, int code, const char *why)
{
	struct sandbox_link *k = c->arg;
	char quoted[200];

	if (code != 0)
		api_log("error", "", "guest of %s refused its binding: %d %s", k->sb->row.id, code,
			text_quote(why, quoted, sizeof(quoted)));
	mux_end(c, 0, NULL);
}

static void bind_closed(struct mux_channel *c, int code)
{
	struct sandbox_link *k = c->arg;
	struct sandbox *sb = k->sb;

	if (code != 0)
		return; /* the connection went: mux_gone() follows */
	if (!k->is_ok) {
		mux_close(k->mux);
		return;
	}
	sb->guest = k->mux;
	metrics_link(sb->api, 1);
	look_later(k);
	tell(sb, 0);
}

static const struct mux_events bind_events = {
	.message = bind_message,
	.data = drop_data,
	.ended = bind_ended,
	.closed = bind_closed,
};

/*
 * "K=V": what programs read to find the road out, then the members of the object, which win.
 * frame_free_strings() frees.
 */
static char **env_strings(json_t *env)
{
	struct strv road = {0};
	struct err ignored = {0};
	const char *key;
	json_t *value;
	char **v;
	size_t i = 0;

	/* Fails only past the cap of a list. */
	(void)road_env(true, &road, &ignored);
	v = mem_must(calloc(json_object_size(env) + road.n + 1, sizeof(*v)));
	for (size_t k = 0; k < road.n; k++) {
		AUTO_FREE char *name = text_format("%.*s", (int)strcspn(road.v[k], "="), road.v[k]);

		if (!json_object_get(env, name))
			v[i++] = mem_strdup(road.v[k]);
	}
	strv_done(&road);
	json_object_foreach(env, key, value) v[i++] =
		text_format("%s=%s", key, json_string_value(value));
	return v;
}

static int ask_bind(struct sandbox_link *k, struct err *err)
{
	const struct store_sandbox *row = &k->sb->row;
	struct frame_writer w = {0};
	json_t *spec = json_loads(row->spec, 0, NULL);
	json_t *asked = json_object_get(spec, "env");
	json_t *env = json_is_object(asked) ? json_incref(asked) : json_object();
	char empty[1] = "", user[] = "user";
	struct guest_bind b = {
		.id = k->sb->row.id,
		.hostname = row->name[0] ? row->name : k->sb->row.id,
		.user = user,
		.cwd = empty,
	};
	int r;

	secrets_env(k->sb->api, row->tenant, row->policy, env);
	b.env = env_strings(env);
	guest_bind_put(&w, &b);
	r = mux_open(k->mux, &k->bind, GUEST_BIND, &w, &bind_events, k, err);
	frame_free_strings(b.env);
	buf_done(&w.buf);
	json_decref(env);
	json_decref(spec);
	return r;
}

static int dial(struct sandbox *sb, struct err *err)
{
	AUTO_FREE char *path = warden_guest_socket(sb->api->config.state, sb->row.id);
	/* A unix socket connects at once or not at all; EAGAIN is a full backlog. */
	int fd = warden_connect(path, SOCK_STREAM, err);

	return fd < 0 ? err_wrap(err, "guest of %s", sb->row.id) : fd;
}

static int link_open(struct sandbox *sb, struct err *err)
{
	struct sandbox_link *k;
	int fd = dial(sb, err), r;

	if (fd < 0)
		return fd;
	k = MEM_NEW(struct sandbox_link);
	k->sb = sb;
	k->timer.fire = timer_due;
	r = mux_create(sb->api->loop, fd, true, &owner, k, &k->mux, err);
	if (r < 0) {
		link_free(k);
		return r;
	}
	sb->link = k;
	loop_timer_set(sb->api->loop, &k->timer, BIND_MS);
	r = ask_bind(k, err);
	if (r < 0) {
		/* Told by the caller: not by mux_gone() as well. */
		struct sandbox_wait *waits = TAKE_PTR(sb->waits);

		mux_close(k->mux);
		sb->waits = waits;
	}
	return r;
}

void sandbox_guest(struct sandbox *sb, sandbox_link_fn ready, void *arg)
{
	struct sandbox_wait **end = &sb->waits, *w;
	struct err err = {0};

	if (sb->guest) {
		ready(sb, 0, arg);
		return;
	}
	if (sb->row.state != SANDBOX_RUNNING) {
		ready(sb, -ENOTCONN, arg);
		return;
	}
	if (!sb->link && link_open(sb, &err) < 0) {
		api_log("error", "", "%s", err.msg);
		ready(sb, -ECONNRESET, arg);
		return;
	}
	while (*end)
		end = &(*end)->next;
	w = MEM_NEW(struct sandbox_wait);
	w->ready = ready;
	w->arg = arg;
	*end = w;
}

void sandbox_guest_cancel(struct sandbox *sb, void *arg)
{
	for (struct sandbox_wait **p = &sb->waits; *p;) {
		struct sandbox_wait *w = *p;

		if (w->arg != arg) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		free(w);
	}
}
