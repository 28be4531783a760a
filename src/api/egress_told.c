/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What egress tells of sandboxes. A sandbox decides how often: refusals are rows by kind,
 * written in batches; as events each kind comes once a minute, and all of a sandbox so many a
 * minute.
 */
#include "api/egress_impl.h"
#include "api/sandbox_impl.h"
#include "base/mem.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SETTLE_MS  200
#define TOLD_MAX   1024 /* then they are written at once */
#define MINUTE_MS  60000
#define EVENTS_MAX 60  /* per sandbox and minute, of each sort */
#define SLACK_MS   250 /* between a refusal and the time egress tells it by */

static uint64_t hash_of(const char *s)
{
	uint64_t h = 14695981039346656037u;

	while (*s)
		h = (h ^ (unsigned char)*s++) * 1099511628211u;
	return h;
}

static char *what_of(const struct denial *d)
{
	return text_format("%s|%s|%u|%s|%s|%s|%s", denial_kind_name(d->kind), d->name, d->port,
		d->protocol, d->method, d->path, d->rule);
}

/* May one more event be written about this sandbox now? */
static bool may_tell(struct sandbox *sb, struct told_rate *rate, const char *what)
{
	uint64_t now = loop_now_ms(sb->api->loop), h = hash_of(what);

	if (now - rate->since_ms >= MINUTE_MS || rate->since_ms == 0) {
		rate->since_ms = now;
		rate->n = 0;
		memset(rate->seen, 0, sizeof(rate->seen));
	}
	for (size_t i = 0; i < TOLD_SEEN && rate->seen[i]; i++)
		if (rate->seen[i] == h)
			return false;
	if (rate->n >= EVENTS_MAX)
		return false;
	if (rate->n < TOLD_SEEN)
		rate->seen[rate->n] = h;
	rate->n++;
	return true;
}

static int write_one(struct api *a, const struct told_entry *t, struct err *err)
{
	struct store_violation v = {
		.what = t->what, .record = t->record, .last_ms = t->at_ms, .count = t->count};

	return store_violation_note(a->store, t->sandbox, &v, err);
}

static void entry_free(struct told_entry *t)
{
	free(t->what);
	free(t->record);
	free(t);
}

void api_told_settle(struct api *a)
{
	struct api_egress *g = a->egress;
	struct err err = {0};
	struct told_entry *t;
	int r;

	if (!g || !g->told)
		return;
	r = store_begin(a->store, &err);
	for (t = g->told; r >= 0 && t; t = t->next)
		r = write_one(a, t, &err);
	if (r < 0)
		store_rollback(a->store);
	else
		r = store_commit(a->store, &err);
	if (r < 0)
		api_log("error", "", "refusals of sandboxes are not kept: %s", err.msg);
	while ((t = g->told)) {
		g->told = t->next;
		entry_free(t);
	}
	g->told_end = &g->told;
	g->told_n = 0;
	loop_timer_cancel(a->loop, &g->settle);
}

static void settle_due(struct loop_timer *t)
{
	struct api_egress *g =
		(struct api_egress *)((char *)t - offsetof(struct api_egress, settle));

	api_told_settle(g->api);
}

static void keep(struct api_egress *g, const char *sandbox, const struct denial *d, char *take_what,
	char *take_record)
{
	struct told_entry *t = MEM_NEW(struct told_entry);

	(void)snprintf(t->sandbox, sizeof(t->sandbox), "%s", sandbox);
	t->what = take_what;
	t->record = take_record;
	t->at_ms = d->at_ms > 0 && d->at_ms < INT64_MAX ? (int64_t)d->at_ms : api_now_unix_ms();
	t->count = d->count > 0 && d->count < INT32_MAX ? (int64_t)d->count : 1;
	*g->told_end = t;
	g->told_end = &t->next;
	g->settle.fire = settle_due;
	if (++g->told_n >= TOLD_MAX)
		api_told_settle(g->api);
	else if (g->settle.slot == 0)
		loop_timer_set(g->api->loop, &g->settle, SETTLE_MS);
}

static json_t *detail_of(const char *record)
{
	return json_loads(record, 0, NULL);
}

void api_told_denied(struct api *a, const json_t *body)
{
	const char *id = "";
	struct denial d;
	struct err err = {0};
	struct sandbox *sb;
	char *what, *record;

	if (control_denial_get(body, &id, &d, &err) < 0)
		return;
	sb = sandbox_any(a, id);
	a->egress->denied[d.kind] += d.count ? d.count : 1;
	if (!sb)
		return;
	sb->has_denied = true;
	what = what_of(&d);
	record = denial_record_json(&d);
	if (may_tell(sb, &sb->denied_rate, what))
		sandbox_event(sb, "egress", "network.denied", denial_kind_name(d.kind),
			detail_of(record));
	keep(a->egress, sb->row.id, &d, what, record);
}

void api_told_allowed(struct api *a, const json_t *body)
{
	const char *id = "";
	uint64_t up = 0, down = 0;
	struct denial d;
	struct err err = {0};
	struct sandbox *sb;
	AUTO_FREE char *what = NULL;

	if (control_allowed_get(body, &id, &d, &up, &down, &err) < 0)
		return;
	sb = sandbox_any(a, id);
	if (!sb)
		return;
	what = what_of(&d);
	if (!may_tell(sb, &sb->allowed_rate, what))
		return;
	sandbox_event(sb, "egress", "network.allowed", "ok",
		json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:I}", "host", d.name, "port",
			(int)d.port, "protocol", d.protocol, "rule", d.rule, "count",
			(json_int_t)d.count, "bytes_up", (json_int_t)up, "bytes_down",
			(json_int_t)down));
}

void api_told_lost(struct api *a, const json_t *body)
{
	json_int_t n = json_integer_value(json_object_get(body, "events"));

	if (n > 0)
		a->egress->lost += (uint64_t)n;
}

/* ---- reading ---- */

struct listing {
	json_t *found;
	int64_t from_ms, to_ms;
};

static bool is_between(const struct listing *l, const struct store_violation *v)
{
	if (l->from_ms == 0 && l->to_ms == 0)
		return true;
	for (size_t i = 0; i < STORE_VIOLATION_TIMES && v->times[i]; i++)
		if (v->times[i] >= l->from_ms && (l->to_ms == 0 || v->times[i] <= l->to_ms))
			return true;
	return false;
}

static int list_one(const struct store_violation *v, void *arg)
{
	struct listing *l = arg;
	json_t *o = is_between(l, v) ? json_loads(v->record, 0, NULL) : NULL;
	char text[32];

	if (!o)
		return 0;
	(void)json_object_set_new(o, "wall", json_string("network"));
	(void)json_object_set_new(o, "count", json_integer(v->count));
	(void)json_object_set_new(o, "first_at", json_string(api_time(v->first_ms, text)));
	(void)json_object_set_new(o, "last_at", json_string(api_time(v->last_ms, text)));
	(void)json_object_del(o, "at_ms");
	(void)json_array_append_new(l->found, o);
	return 0;
}

json_t *api_told_list(struct api *a, const char *sandbox, int64_t from_ms, int64_t to_ms)
{
	struct listing l = {.found = json_array(),
		.from_ms = from_ms,
		.to_ms = to_ms > 0 ? to_ms + SLACK_MS : 0};
	struct err err = {0};

	api_told_settle(a);
	if (store_violation_each(a->store, sandbox, list_one, &l, &err) < 0)
		api_log("error", "", "refusals of sandbox %s: %s", sandbox, err.msg);
	return l.found;
}
