/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GET /v1/events: the tenant's events as a page, or as server-sent events that go on.
 *
 * The store is the queue: a follower is a number, and whatever is behind it is sent as far as the
 * client reads. Last-Event-ID continues where a lost connection broke off, without gaps.
 */
#include "api/auth.h"
#include "api/v1/v1.h"
#include "base/mem.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#define PAGE          1000
#define BATCH         200 /* events per turn and follower */
#define FOLLOWERS_MAX 1000
#define KEEPALIVE_MS  20000

struct follower {
	struct api *api;
	struct http_request *r;
	struct follower *next, **prev;
	struct api_caller who;
	char sandbox[SANDBOX_ID_MAX]; /* "" = all */
	int64_t after;
	uint64_t keys;    /* version of the keys when its own was last seen to be good */
	uint64_t sent_ms; /* loop time of the last bytes */
};

static void follower_free(struct follower *f)
{
	*f->prev = f->next;
	if (f->next)
		f->next->prev = f->prev;
	free(f);
}

static void follower_gone(struct http_request *r)
{
	follower_free(r->state);
}

static int send_one(const struct store_event *e, void *arg)
{
	struct follower *f = arg;
	json_t *o = v1_event_json(e);
	AUTO_FREE char *json = o ? json_dumps(o, JSON_COMPACT) : NULL;
	AUTO_FREE char *text = NULL;

	json_decref(o);
	text = text_format("id: %" PRId64 "\nevent: %s\ndata: %s\n\n", e->number, e->action,
		json ? json : "{}");
	http_write(f->r, text, strlen(text));
	f->after = e->number;
	f->sent_ms = loop_now_ms(f->api->loop);
	return http_queued(f->r) > CONN_HIGH ? -EAGAIN : 0;
}

static void advance(struct follower *f)
{
	struct err err = {0};
	static const char comment[] = ": still here\n\n";
	int r;

	if (http_queued(f->r) > CONN_LOW)
		return;
	r = store_event_each(f->api->store, f->who.tenant, *f->sandbox ? f->sandbox : NULL,
		f->after, BATCH, send_one, f, &err);
	if (r < 0 && r != -EAGAIN)
		api_log("error", f->r->id, "events: %s", err.msg);
	if (loop_now_ms(f->api->loop) - f->sent_ms >= KEEPALIVE_MS) {
		http_write(f->r, comment, sizeof(comment) - 1);
		f->sent_ms = loop_now_ms(f->api->loop);
	}
}

/* False: its key was revoked, and it is gone. */
static bool is_welcome(struct follower *f, uint64_t keys)
{
	static const char comment[] = ": the key was revoked\n\n";
	struct http_request *r = f->r;

	if (f->keys == keys)
		return true;
	f->keys = keys;
	if (api_caller_lives(f->api, &f->who))
		return true;
	r->gone = NULL;
	r->state = NULL;
	http_write(r, comment, sizeof(comment) - 1);
	http_end(r);
	follower_free(f);
	return false;
}

void v1_events_tick(struct api *a)
{
	uint64_t keys = a->v1->followers ? api_keys_version(a) : 0;

	for (struct follower *f = a->v1->followers, *next; f; f = next) {
		next = f->next;
		if (is_welcome(f, keys))
			advance(f);
	}
}

void v1_events_free(struct api *a)
{
	while (a->v1->followers)
		follower_free(a->v1->followers);
}

static void follow(struct api *a, struct http_request *r, const struct api_caller *who,
	const char *sandbox, int64_t after)
{
	struct follower *f;
	unsigned n = 0;

	if (h1_is(r->head.method, "HEAD")) {
		http_begin(r, 200, "text/event-stream", -1);
		http_end(r);
		return;
	}
	for (f = a->v1->followers; f; f = f->next)
		n++;
	if (n >= FOLLOWERS_MAX) {
		http_field(r, "Retry-After", "5");
		api_reply_error(r, 429, "too_many", NULL, "%u clients follow events already", n);
		return;
	}
	f = MEM_NEW(struct follower);
	f->api = a;
	f->r = r;
	f->after = after;
	f->sent_ms = loop_now_ms(a->loop);
	f->who = *who;
	f->keys = api_keys_version(a);
	(void)snprintf(f->sandbox, sizeof(f->sandbox), "%s", sandbox);
	f->next = a->v1->followers;
	f->prev = &a->v1->followers;
	if (f->next)
		f->next->prev = &f->next;
	a->v1->followers = f;
	r->state = f;
	r->gone = follower_gone;
	http_field(r, "Cache-Control", "no-store");
	http_begin(r, 200, "text/event-stream", -1);
	http_write(r, ": events\n\n", 10);
	advance(f);
	/* The tick is slow while nobody follows. */
	loop_timer_set(a->loop, &a->v1->tick, 50);
}

static int add_event(const struct store_event *e, void *arg)
{
	(void)json_array_append_new(arg, v1_event_json(e));
	return 0;
}

static void reply_page(struct api *a, struct http_request *r, const char *tenant,
	const char *sandbox, int64_t after, uint64_t limit)
{
	json_t *list = mem_must(json_array());
	struct err err = {0};

	if (store_event_each(a->store, tenant, *sandbox ? sandbox : NULL, after, limit, add_event,
		    list, &err) < 0) {
		json_decref(list);
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(r, 200, json_pack("{s:o}", "events", list));
}

/* after=N, or Last-Event-ID: N; after=now is the end. */
static int read_after(struct api *a, const struct http_request *r, int64_t *ret, struct err *err)
{
	const struct h1_field *f = h1_find(&r->head, "Last-Event-ID");
	uint64_t after = 0;
	char text[32] = "";
	int q = 0;

	if (f)
		(void)snprintf(text, sizeof(text), "%.*s", (int)(f->value.n < 31 ? f->value.n : 31),
			f->value.p);
	else if (!v1_query(r, "after", "", text, sizeof(text)))
		return err_set(err, EINVAL, "'after' must be a number, or now");
	if (strcmp(text, "now") == 0)
		after = (uint64_t)store_event_last(a->store);
	else if (*text)
		q = text_parse_u64(text, "after", 0, INT64_MAX, &after, err);
	*ret = (int64_t)after;
	return q;
}

void v1_events(struct api *a, struct http_request *r, const struct route_match *m)
{
	static const char *const types[] = {"application/json", "text/event-stream", NULL};
	char sandbox[SANDBOX_ID_MAX] = "";
	uint64_t limit = PAGE;
	int64_t after = 0;
	struct err err = {0};
	int q = read_after(a, r, &after, &err);

	if (q == 0)
		q = v1_query_u64(r, "limit", PAGE, &limit, &err);
	if (q == 0 && !v1_query(r, "sandbox", "", sandbox, sizeof(sandbox)))
		q = err_set(&err, EINVAL, "'sandbox' must be an id");
	if (q < 0)
		api_reply_err(r, &err);
	else if (v1_accepts(r, types) == 1)
		follow(a, r, &m->caller, sandbox, after);
	else
		reply_page(a, r, m->caller.tenant, sandbox, after, limit);
}
