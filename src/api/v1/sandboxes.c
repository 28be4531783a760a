/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /v1/sandboxes: create, list, get, delete, timeout, labels.
 */
#include "api/v1/v1.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define LIST_MAX 100

/* ---- create ---- */

static int read_limits(json_t *body, struct sandbox_wish *w, struct err *err)
{
	static const char *const names[] = {
		"cpus", "memory_bytes", "disk_bytes", "processes", NULL};
	json_t *limits = NULL, *cpus;
	int r = v1_get_object(body, "limits", &limits, err);

	if (r < 0 || !limits)
		return r;
	r = v1_fields(limits, names, err);
	if (r == 0)
		r = v1_get_u64(limits, "memory_bytes", 1ull << 44, &w->memory_max, err);
	if (r == 0)
		r = v1_get_u64(limits, "disk_bytes", 1ull << 50, &w->disk_max, err);
	if (r == 0)
		r = v1_get_u64(limits, "processes", 1u << 22, &w->pids_max, err);
	if (r < 0)
		return r;
	cpus = json_object_get(limits, "cpus");
	if (cpus && !(json_number_value(cpus) >= 0.01 && json_number_value(cpus) <= 4096.0))
		return err_set(err, EINVAL, "'cpus' must be a number from 0.01 to 4096");
	if (cpus)
		w->cpu_milli = (uint64_t)(json_number_value(cpus) * 1000.0);
	return 0;
}

static int read_wish(struct ask *k, json_t *body, struct sandbox_wish *w, struct err *err)
{
	static const char *const names[] = {"template", "name", "labels", "env", "timeout_ms",
		"idle_timeout_ms", "limits", "network", "profile", "secure", "private_ports", NULL};
	uint64_t max = k->api->config.ttl_max_ms;
	int r = v1_fields(body, names, err);

	if (r == 0)
		r = v1_get_string(body, "template", 128, &w->template, err);
	if (r == 0)
		r = v1_get_string(body, "name", 63, &w->name, err);
	if (r == 0)
		r = v1_get_strings(body, "labels", &w->metadata, err);
	if (r == 0)
		r = v1_get_strings(body, "env", &w->env, err);
	if (r == 0)
		r = v1_get_u64(body, "timeout_ms", max, &w->timeout_ms, err);
	if (r == 0)
		r = v1_get_u64(body, "idle_timeout_ms", max, &w->idle_ms, err);
	if (r == 0)
		r = v1_get_object(body, "network", &w->network, err);
	if (r == 0 && w->network)
		r = v1_network_check(w->network, err);
	if (r == 0)
		r = v1_get_string(body, "profile", 80, &w->profile, err);
	if (r == 0)
		r = v1_get_bool(body, "secure", &w->is_secure, err);
	if (r == 0)
		r = v1_get_bool(body, "private_ports", &w->is_private, err);
	return r == 0 ? read_limits(body, w, err) : r;
}

/* The client may have gone while it was made: then nobody knows its id, and it goes too (I6). */
struct making {
	struct ask *k; /* NULL: the client went */
};

static void maker_gone(struct http_request *r)
{
	struct making *m = r->state;

	(void)ask_take(m->k);
	m->k = NULL;
}

static void made(struct sandbox *sb, const struct err *err, void *arg)
{
	struct making *m = arg;
	struct ask *k = m->k;

	if (sb && (!k || http_is_broken(k->r)) && !sb->row.idempotency[0])
		sandbox_kill(sb, "system", SANDBOX_NOT_ANSWERED, NULL, NULL);
	if (k && sb)
		ask_reply(k, 201, v1_sandbox_json(&sb->row, true));
	else if (k)
		ask_fail(k, err);
	free(m);
}

static void make(struct ask *k, struct sandbox_wish *w)
{
	struct making *m = MEM_NEW(struct making);

	m->k = k;
	k->r->state = m;
	k->r->gone = maker_gone;
	sandbox_create(k->api, &k->who, w, made, m);
}

/* The header's value if it may be a key; "" if there is none. */
static bool idempotency_key(const struct http_request *r, char out[129])
{
	const struct h1_field *f = h1_find(&r->head, "Idempotency-Key");

	if (f && (f->value.n == 0 || f->value.n > 128))
		return false;
	(void)snprintf(out, 129, "%.*s", f ? (int)f->value.n : 0, f ? f->value.p : "");
	return true;
}

static void create(struct ask *k, json_t *body)
{
	struct sandbox_wish w = {.is_secure = true};
	struct err err = {0};
	char key[129];

	if (!idempotency_key(k->r, key)) {
		(void)err_set(&err, EINVAL, "Idempotency-Key must be 1 to 128 bytes");
		ask_fail(k, &err);
		return;
	}
	w.idempotency = key;
	if (read_wish(k, body, &w, &err) < 0)
		ask_fail(k, &err);
	else
		make(k, &w);
}

void v1_sandbox_create(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), create);
}

/* ---- recover: a new one like the one that ended ---- */

static int copy_wish(const struct store_sandbox *row, struct sandbox_wish *w, json_t **ret_spec,
	json_t **ret_labels)
{
	*ret_spec = json_loads(row->spec, 0, NULL);
	*ret_labels = json_loads(row->metadata, 0, NULL);
	*w = (struct sandbox_wish){
		.template = row->template,
		.name = *row->name ? row->name : NULL,
		.is_secure = row->token[0] != '\0',
		.is_private = row->traffic_token[0] != '\0',
		.metadata = *ret_labels,
		.env = json_object_get(*ret_spec, "env"),
		.network = json_object_get(*ret_spec, "network"),
		.profile = json_string_value(json_object_get(*ret_spec, "profile")),
		.extra = json_object_get(*ret_spec, "extra"),
		.idle_ms = (uint64_t)row->idle_ms,
		.memory_max = (uint64_t)row->memory_max,
		.disk_max = (uint64_t)row->disk_max,
		.pids_max = (uint64_t)row->pids_max,
		.cpu_milli = (uint64_t)row->cpu_milli,
	};
	return row->end_at_ms > row->made_ms ? (int)((row->end_at_ms - row->made_ms) / 1000) : 0;
}

static void recover(struct ask *k, json_t *body)
{
	static const char *const names[] = {"timeout_ms", NULL};
	struct store_sandbox row = {0};
	struct sandbox_wish w;
	struct err err = {0};
	json_t *spec = NULL, *labels = NULL;
	int r = v1_fields(body, names, &err);

	if (r == 0)
		r = v1_row(k->api, &k->who, k->params[0], &row, &err);
	if (r == 0 && row.state != SANDBOX_ENDED && row.state != SANDBOX_FAILED)
		r = err_set(&err, EEXIST, "sandbox '%s' is %s: there is nothing to recover", row.id,
			sandbox_state_name(row.state));
	if (r == 0) {
		uint64_t ttl = (uint64_t)copy_wish(&row, &w, &spec, &labels) * 1000;

		w.timeout_ms = ttl < k->api->config.ttl_max_ms ? ttl : k->api->config.ttl_max_ms;
		r = v1_get_u64(body, "timeout_ms", k->api->config.ttl_max_ms, &w.timeout_ms, &err);
	}
	if (r == 0) {
		AUTO_FREE char *detail =
			text_format("{\"reason\":\"%s\"}", sandbox_reason_name(row.reason));
		struct store_event e = {.tenant = k->who.tenant,
			.actor = k->who.actor,
			.action = "sandbox.recover",
			.sandbox = row.id,
			.outcome = "ok",
			.detail = detail};

		r = store_event_append(k->api->store, &e, &err);
	}
	if (r == 0)
		make(k, &w);
	else
		ask_fail(k, &err);
	json_decref(spec);
	json_decref(labels);
	store_sandbox_done(&row);
}

void v1_sandbox_recover(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), recover);
}

/* ---- list ---- */

struct listing {
	const char *tenant;
	json_t *found; /* oldest first */
	char label_name[128], label_value[256];
	bool has_label;
};

static bool has_label(const struct listing *l, const struct store_sandbox *row)
{
	json_t *labels = l->has_label ? json_loads(row->metadata, 0, NULL) : NULL;
	const char *v = json_string_value(json_object_get(labels, l->label_name));
	bool is_it = !l->has_label || (v && strcmp(v, l->label_value) == 0);

	json_decref(labels);
	return is_it;
}

static int list_one(const struct store_sandbox *row, void *arg)
{
	struct listing *l = arg;

	if (strcmp(row->tenant, l->tenant) == 0 && has_label(l, row))
		(void)json_array_append_new(l->found, v1_sandbox_json(row, false));
	return 0;
}

static int read_states(const struct http_request *r, unsigned *ret, struct err *err)
{
	char text[128];
	char *rest = text, *word;

	if (!v1_query(r, "state", "creating,running,paused,ending", text, sizeof(text)))
		return err_set(err, EINVAL, "'state' is malformed");
	*ret = 0;
	while ((word = strsep(&rest, ","))) {
		int state = sandbox_state_parse(word);
		char quoted[80];

		if (state < 0)
			return err_set(err, EINVAL,
				"state '%s': creating, running, paused, ending, ended, failed",
				text_quote(word, quoted, sizeof(quoted)));
		*ret |= 1u << state;
	}
	return 0;
}

static int read_label(const struct http_request *r, struct listing *l, struct err *err)
{
	char text[400];
	const char *equals;

	if (!v1_query(r, "label", "", text, sizeof(text)))
		return err_set(err, EINVAL, "'label' is malformed");
	if (!*text)
		return 0;
	equals = strchr(text, '=');
	if (!equals || (size_t)(equals - text) >= sizeof(l->label_name) ||
		strlen(equals + 1) >= sizeof(l->label_value))
		return err_set(err, EINVAL, "'label' must be NAME=VALUE");
	(void)snprintf(l->label_name, sizeof(l->label_name), "%.*s", (int)(equals - text), text);
	(void)snprintf(l->label_value, sizeof(l->label_value), "%.255s", equals + 1);
	l->has_label = true;
	return 0;
}

/* Newest first, from behind `after` (an id of the page before), at most `limit`. */
static json_t *page(json_t *found, const char *after, uint64_t limit)
{
	json_t *items = json_array();
	size_t i = json_array_size(found);
	const char *next = NULL;

	if (*after) {
		while (i > 0 && strcmp(json_string_value(
					       json_object_get(json_array_get(found, i - 1), "id")),
					after) != 0)
			i--;
		i = i > 0 ? i - 1 : 0;
	}
	while (i > 0 && json_array_size(items) < limit)
		(void)json_array_append(items, json_array_get(found, --i));
	if (i > 0)
		next = json_string_value(json_object_get(json_array_get(found, i), "id"));
	return json_pack("{s:o, s:s?}", "sandboxes", items, "next", next);
}

void v1_sandbox_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct listing l = {.tenant = m->caller.tenant};
	struct err err = {0};
	unsigned states = 0;
	uint64_t limit = LIST_MAX;
	char after[SANDBOX_ID_MAX] = "";
	int q = read_states(r, &states, &err);

	if (q == 0)
		q = read_label(r, &l, &err);
	if (q == 0)
		q = v1_query_u64(r, "limit", LIST_MAX, &limit, &err);
	if (q == 0 && !v1_query(r, "after", "", after, sizeof(after)))
		q = err_set(&err, EINVAL, "'after' must be the 'next' of the page before");
	l.found = mem_must(json_array());
	if (q == 0)
		q = store_sandbox_each(a->store, states, list_one, &l, &err);
	if (q < 0)
		api_reply_err(r, &err);
	else
		api_reply_json(r, 200, page(l.found, after, limit ? limit : LIST_MAX));
	json_decref(l.found);
}

/* ---- one ---- */

void v1_sandbox_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_sandbox row = {0};
	struct err err = {0};
	json_t *o, *walls;

	if (v1_row(a, &m->caller, m->params[0], &row, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	o = v1_sandbox_json(&row, true);
	walls = *row.walls ? json_loads(row.walls, 0, NULL) : NULL;
	if (o && walls)
		(void)json_object_set(o, "walls", walls);
	json_decref(walls);
	store_sandbox_done(&row);
	api_reply_json(r, 200, o);
}

static void deleted(int code, void *arg)
{
	struct ask *k = arg;
	struct err err = {0};

	if (!k->r) {
		(void)ask_take(k);
		return;
	}
	if (code < 0) {
		(void)err_set(&err, -code, "the sandbox cannot be ended now; it will be");
		ask_fail(k, &err);
	} else {
		ask_reply(k, 204, NULL);
	}
}

/* The kill goes on; its callback finds that there is nobody to tell. */
static void deleter_gone(struct http_request *r)
{
	((struct ask *)r->state)->r = NULL;
}

void v1_sandbox_delete(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct sandbox *sb = v1_sandbox(a, r, &m->caller, m->params[0]);

	if (!sb)
		return;
	(void)ask_new(a, r, m);
	r->gone = deleter_gone;
	sandbox_kill(sb, m->caller.actor, SANDBOX_KILLED, deleted, r->state);
}

static void timeout(struct ask *k, json_t *body)
{
	static const char *const names[] = {"timeout_ms", "only_extend", NULL};
	struct sandbox *sb = ask_sandbox(k);
	uint64_t ms = 0;
	bool only_extend = false;
	struct err err = {0};
	int r;

	if (!sb)
		return;
	r = v1_fields(body, names, &err);
	if (r == 0)
		r = v1_get_u64(body, "timeout_ms", k->api->config.ttl_max_ms, &ms, &err);
	if (r == 0)
		r = v1_get_bool(body, "only_extend", &only_extend, &err);
	if (r == 0 && ms == 0)
		r = err_set(&err, EINVAL, "'timeout_ms' is missing or 0");
	if (r == 0)
		r = sandbox_set_timeout(sb, k->who.actor, ms, only_extend, &err);
	if (r < 0)
		ask_fail(k, &err);
	else
		ask_reply(k, 200, v1_sandbox_json(&sb->row, false));
}

void v1_sandbox_timeout(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), timeout);
}

static int write_labels(struct sandbox *sb, const char *actor, const char *text, struct err *err)
{
	struct store *s = sb->api->store;
	struct store_event e = {.tenant = sb->row.tenant,
		.actor = actor,
		.action = "sandbox.labels",
		.sandbox = sb->row.id,
		.outcome = "ok"};
	int r = store_begin(s, err);

	if (r < 0)
		return r;
	r = store_sandbox_set_metadata(s, sb->row.id, text, err);
	if (r == 0)
		r = store_event_append(s, &e, err);
	if (r < 0)
		store_rollback(s);
	return r < 0 ? r : store_commit(s, err);
}

static void labels(struct ask *k, json_t *body)
{
	struct sandbox *sb = ask_sandbox(k);
	AUTO_FREE char *text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
	struct err err = {0};
	const char *key;
	json_t *v;
	int r = 0;

	if (!sb)
		return;
	json_object_foreach(body, key, v)
	{
		if (r == 0 && !json_is_string(v))
			r = err_set(&err, EINVAL, "every label must be a string");
	}
	if (r == 0 && (!text || strlen(text) > (64u << 10) || json_object_size(body) > 256))
		r = err_set(&err, E2BIG, "labels: at most 256, of 64 KiB in all");
	else if (r == 0)
		r = write_labels(sb, k->who.actor, text, &err);
	if (r < 0) {
		ask_fail(k, &err);
		return;
	}
	free(sb->row.metadata);
	sb->row.metadata = TAKE_PTR(text);
	ask_reply(k, 200, v1_sandbox_json(&sb->row, false));
}

void v1_sandbox_labels(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), labels);
}
