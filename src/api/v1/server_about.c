/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /v1/capabilities, /v1/whoami, /v1/keys: what this server is, and who you are to it.
 */
#include "api/v1/v1.h"
#include "base/mem.h"
#include "base/text.h"
#include "config.h"

#include <string.h>

static json_t *walls(void)
{
	json_t *list = json_array();

	for (int i = 0; i < WALL_COUNT; i++)
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s}", "name", wall_name((enum wall)i), "stops",
				      wall_about((enum wall)i)));
	return list;
}

static json_t *features(void)
{
	return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "exec_idempotency", true,
		"exec_resume", true, "events", true, "webhooks", true, "pause", false, "snapshots",
		false, "egress_rules", false);
}

static json_t *defaults(const struct api_config *c)
{
	return json_pack("{s:I, s:I, s:f, s:I, s:I, s:I, s:I}", "timeout_ms",
		(json_int_t)c->ttl_default_ms, "timeout_max_ms", (json_int_t)c->ttl_max_ms, "cpus",
		(double)c->cpu_milli / 1000.0, "memory_bytes", (json_int_t)c->memory_max,
		"disk_bytes", (json_int_t)c->disk_max, "processes", (json_int_t)c->pids_max,
		"sandboxes_max", (json_int_t)c->sandboxes_max);
}

static json_t *caps(void)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "body_bytes", (json_int_t)V1_BODY_MAX,
		"output_kept_bytes", (json_int_t)GUEST_RING, "processes_remembered",
		(json_int_t)GUEST_PROCS_MAX, "exit_remembered_ms", (json_int_t)GUEST_REMEMBER_MS);
}

void v1_capabilities(struct api *a, struct http_request *r, const struct route_match *m)
{
	(void)m;
	api_reply_json(r, 200,
		json_pack("{s:s, s:s, s:[s], s:[s], s:o, s:o, s:o, s:o, s:{s:s, s:s}}", "server",
			"bawn", "version", BAWN_VERSION, "tiers", "process", "templates", "base",
			"walls", walls(), "features", features(), "defaults", defaults(&a->config),
			"limits", caps(), "protocols", "e2b_envd", "0.6.13", "v1", "1"));
}

void v1_whoami(struct api *a, struct http_request *r, const struct route_match *m)
{
	(void)a;
	api_reply_json(r, 200,
		json_pack("{s:s, s:s}", "tenant", m->caller.tenant, "actor", m->caller.actor));
}

/* ---- keys of the own tenant ---- */

static json_t *key_json(const struct store_key *k)
{
	return json_pack("{s:I, s:o, s:s, s:o, s:o, s:o}", "id", (json_int_t)k->id, "name",
		v1_text(k->name), "prefix", k->prefix, "created_at", v1_time(k->made_ms), "used_at",
		v1_time(k->used_ms), "revoked_at", v1_time(k->revoked_ms));
}

static int add_key(const struct store_key *k, void *arg)
{
	(void)json_array_append_new(arg, key_json(k));
	return 0;
}

void v1_key_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	json_t *list = mem_must(json_array());
	struct err err = {0};

	if (store_key_list(a->store, m->caller.tenant, add_key, list, &err) < 0) {
		json_decref(list);
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(r, 200, json_pack("{s:o}", "keys", list));
}

static int record(struct api *a, const struct api_caller *who, const char *action,
	const struct store_key *k, struct err *err)
{
	AUTO_FREE char *detail =
		text_format("{\"id\":%lld,\"prefix\":\"%s\"}", (long long)k->id, k->prefix);
	struct store_event e = {.tenant = who->tenant,
		.actor = who->actor,
		.action = action,
		.outcome = "ok",
		.detail = detail};

	return store_event_append(a->store, &e, err);
}

static int commit(struct api *a, int r, struct err *err)
{
	if (r < 0)
		store_rollback(a->store);
	return r < 0 ? r : store_commit(a->store, err);
}

static void create_key(struct ask *k, json_t *body)
{
	static const char *const names[] = {"name", NULL};
	char text[STORE_KEY_TEXT] = "";
	const char *name = "";
	struct store_key key = {0};
	struct err err = {0};
	json_t *o;
	int r = v1_fields(body, names, &err);

	if (r == 0)
		r = v1_get_string(body, "name", 128, &name, &err);
	if (r == 0)
		r = store_begin(k->api->store, &err);
	if (r < 0) {
		ask_fail(k, &err);
		return;
	}
	r = store_key_create(k->api->store, k->who.tenant, name, text, &key, &err);
	if (r == 0)
		r = record(k->api, &k->who, "key.create", &key, &err);
	r = commit(k->api, r, &err);
	if (r < 0) {
		ask_fail(k, &err);
	} else {
		o = key_json(&key);
		(void)json_object_set_new(o, "key", json_string(text));
		ask_reply(k, 201, o);
	}
	store_key_done(&key);
}

void v1_key_create(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), create_key);
}

void v1_key_revoke(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_key key = {0};
	struct err err = {0};
	int q = store_begin(a->store, &err);

	if (q == 0) {
		q = store_key_revoke(a->store, m->caller.tenant, m->params[0], &key, &err);
		if (q == 0)
			q = record(a, &m->caller, "key.revoke", &key, &err);
		q = commit(a, q, &err);
	}
	if (q < 0)
		api_reply_err(r, &err);
	else
		http_reply(r, 204, NULL, NULL, 0);
	store_key_done(&key);
}
