/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a sandbox used, and what happened to it: metrics from the ring of samples, logs from the
 * events.
 */
#include "api/e2b/call.h"
#include "api/e2b/filters.h"
#include "api/e2b/sandboxes.h"
#include "api/e2b/shape.h"
#include "api/usage.h"
#include "base/mem.h"

#include <string.h>

#define LOGS_MAX 1000
#define IDS_MAX  100

static json_t *shape_metric(const struct sandbox *sb, const struct usage_sample *s)
{
	char at[32];

	return json_pack("{s:s, s:I, s:i, s:f, s:I, s:I, s:I, s:I, s:I}", "timestamp",
		api_time(s->at_ms, at), "timestampUnix", (json_int_t)(s->at_ms / 1000), "cpuCount",
		(int)shape_cpu_count(sb), "cpuUsedPct", s->cpu_percent, "memUsed",
		(json_int_t)s->memory, "memTotal", (json_int_t)shape_memory(sb), "memCache",
		(json_int_t)0, "diskUsed", (json_int_t)s->disk, "diskTotal",
		(json_int_t)sb->row.disk_max);
}

struct metrics_call {
	struct e2b_call *call;
	struct sandbox *sb;
	uint64_t start_s, end_s;
	json_t *list;
};

static int add_metric(const struct usage_sample *s, void *arg)
{
	struct metrics_call *c = arg;
	uint64_t at_s = (uint64_t)(s->at_ms / 1000);

	if (at_s >= c->start_s && at_s <= c->end_s)
		(void)json_array_append_new(c->list, shape_metric(c->sb, s));
	return 0;
}

static void taken(struct sandbox *sb, void *arg)
{
	struct metrics_call *c = arg;
	struct err err = {0};

	if (!sb) {
		(void)err_set(&err, ENOENT, "the sandbox has ended");
		call_reply_err(c->call, &err);
	} else {
		c->sb = sb;
		c->list = json_array();
		(void)usage_each(sb, add_metric, c);
		call_reply(c->call, 200, c->list);
	}
	free(c);
}

void e2b_metrics(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct sandbox *sb = e2b_find(a, m->caller.tenant, m->params[0]);
	uint64_t start_s = 0, end_s = INT64_MAX;
	struct metrics_call *c;
	struct err err = {0};

	if (filters_number(r->query, "start", 0, INT64_MAX, &start_s, &err) < 0 ||
		filters_number(r->query, "end", 0, INT64_MAX, &end_s, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	if (!sb) {
		e2b_not_found(r, m->params[0]);
		return;
	}
	c = MEM_NEW(struct metrics_call);
	c->call = call_create(a, r, m, false);
	c->start_s = start_s;
	c->end_s = end_s;
	call_busy(c->call);
	usage_take(sb, taken, c);
}

static void add_newest(json_t *to, struct api *a, const char *tenant, const char *id)
{
	struct sandbox *sb = e2b_find(a, tenant, id);
	const struct usage_ring *u = sb ? sb->usage : NULL;

	if (u && u->n > 0)
		(void)json_object_set_new(to, id,
			shape_metric(sb, &u->samples[(u->at + USAGE_SAMPLES - 1) % USAGE_SAMPLES]));
}

void e2b_metrics_many(struct api *a, struct http_request *r, const struct route_match *m)
{
	char text[IDS_MAX * SANDBOX_ID_MAX], *p = text;
	struct err err = {0};
	json_t *found;
	size_t n = 0;
	int q = filters_text(r->query, "sandbox_ids", text, sizeof(text), &err);

	if (q == 0)
		q = err_set(&err, EINVAL, "sandbox_ids is required");
	if (q < 0) {
		api_reply_err(r, &err);
		return;
	}
	found = json_object();
	while (*p && n++ < IDS_MAX) {
		char *end = strchrnul(p, ',');
		bool is_last = !*end;

		*end = '\0';
		add_newest(found, a, m->caller.tenant, p);
		p = is_last ? end : end + 1;
	}
	api_reply_json(r, 200, json_pack("{s:o}", "sandboxes", found));
}

struct logs {
	json_t *lines, *entries;
	int64_t from_ms;
	size_t limit;
	bool is_backward;
	bool only_errors;
	char search[257];
	size_t seen;
};

static int add_log(const struct store_event *e, void *arg)
{
	struct logs *l = arg;
	bool is_fine = strcmp(e->outcome, "ok") == 0 || strcmp(e->outcome, "killed") == 0 ||
		       strcmp(e->outcome, "ttl") == 0 || strcmp(e->outcome, "idle") == 0;
	char at[32], line[400];

	l->seen++;
	(void)snprintf(line, sizeof(line), "%s %s%s%.256s", e->action, e->outcome,
		e->detail[0] ? " " : "", e->detail);
	if (l->is_backward ? l->from_ms > 0 && e->at_ms > l->from_ms : e->at_ms < l->from_ms)
		return 0;
	if ((l->only_errors && is_fine) || (l->search[0] && !strstr(line, l->search)))
		return 0;
	if (!l->is_backward && json_array_size(l->entries) >= l->limit)
		return 0;
	(void)api_time(e->at_ms, at);
	(void)json_array_append_new(
		l->lines, json_pack("{s:s, s:s}", "timestamp", at, "line", line));
	(void)json_array_append_new(
		l->entries, json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}}", "timestamp", at,
				    "level", is_fine ? "info" : "error", "message", line, "fields",
				    "action", e->action, "actor", e->actor, "outcome", e->outcome));
	/* Backward: the newest ones are wanted, and events come oldest first. */
	if (json_array_size(l->entries) > l->limit)
		(void)json_array_remove(l->entries, 0);
	return 0;
}

static json_t *reversed(json_t *list)
{
	json_t *out = json_array();

	for (size_t i = json_array_size(list); i-- > 0;)
		(void)json_array_append(out, json_array_get(list, i));
	return out;
}

static int read_logs(struct api *a, struct http_request *r, const struct route_match *m, bool is_v2,
	struct logs *l, struct err *err)
{
	uint64_t from = 0, limit = LOGS_MAX;
	char word[16] = "";
	int q = filters_number(r->query, is_v2 ? "cursor" : "start", 0, INT64_MAX, &from, err);

	if (q >= 0)
		q = filters_number(r->query, "limit", 0, LOGS_MAX, &limit, err);
	if (q >= 0 && is_v2)
		q = filters_text(r->query, "direction", word, sizeof(word), err);
	if (q >= 0 && is_v2) {
		l->is_backward = strcmp(word, "backward") == 0;
		q = filters_text(r->query, "search", l->search, sizeof(l->search), err);
	}
	if (q >= 0 && is_v2) {
		word[0] = '\0';
		q = filters_text(r->query, "level", word, sizeof(word), err);
		l->only_errors = strcmp(word, "error") == 0 || strcmp(word, "warn") == 0;
	}
	if (q < 0)
		return q;
	l->from_ms = (int64_t)from;
	l->limit = (size_t)limit;
	/* More than a sandbox's life of events, and a bound on one request's work. */
	return store_event_each(
		a->store, m->caller.tenant, m->params[0], 0, 100 * LOGS_MAX, add_log, l, err);
}

static void logs(struct api *a, struct http_request *r, const struct route_match *m, bool is_v2)
{
	struct logs l = {.lines = json_array(), .entries = json_array()};
	struct err err = {0};
	int q = read_logs(a, r, m, is_v2, &l, &err);

	if (q < 0)
		api_reply_err(r, &err);
	else if (l.seen == 0)
		e2b_not_found(r, m->params[0]);
	else if (!is_v2)
		api_reply_json(
			r, 200, json_pack("{s:O, s:O}", "logs", l.lines, "logEntries", l.entries));
	else
		api_reply_json(r, 200,
			json_pack("{s:o}", "logs",
				l.is_backward ? reversed(l.entries) : json_incref(l.entries)));
	json_decref(l.lines);
	json_decref(l.entries);
}

void e2b_logs(struct api *a, struct http_request *r, const struct route_match *m)
{
	logs(a, r, m, false);
}

void e2b_logs_v2(struct api *a, struct http_request *r, const struct route_match *m)
{
	logs(a, r, m, true);
}
