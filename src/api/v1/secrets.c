/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /v1/secrets: set, list, rotate, remove. Values go in and never come out.
 *
 * This role stores what the egress role has sealed and cannot open it: a value passes through
 * once, on its way there. A change is in the store before egress is told, and holds from the next
 * request of every sandbox on.
 */
#include "api/v1/secrets.h"

#include "api/egress.h"
#include "api/v1/v1.h"
#include "base/mem.h"
#include "base/text.h"
#include "egress/secret_files.h"
#include "egress/vault.h"

#include <stdio.h>
#include <string.h>

static json_t *about(const struct store_secret *s)
{
	char placeholder[PLACEHOLDER_LEN + 1];

	placeholder_make(s->tenant, s->name, placeholder);
	return json_pack("{s:s, s:I, s:s, s:I, s:I}", "name", s->name, "version",
		(json_int_t)s->version, "placeholder", placeholder, "created_ms",
		(json_int_t)s->made_ms, "changed_ms", (json_int_t)s->changed_ms);
}

static int add(const struct store_secret *s, void *arg)
{
	(void)json_array_append_new(arg, about(s));
	return 0;
}

void v1_secret_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	json_t *list = mem_must(json_array());
	struct err err = {0};

	if (store_secret_each(a->store, m->caller.tenant, add, list, &err) < 0) {
		json_decref(list);
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(r, 200, json_pack("{s:o}", "secrets", list));
}

void v1_secret_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_secret s;
	struct err err = {0};

	if (store_secret_get(a->store, m->caller.tenant, m->params[0], &s, &err) < 0)
		api_reply_err(r, &err);
	else
		api_reply_json(r, 200, about(&s));
}

/* The change and its event in one; `r` is the outcome so far. */
static int commit(struct api *a, const struct api_caller *who, const char *action, const char *name,
	int64_t version, int r, struct err *err)
{
	AUTO_FREE char *detail =
		text_format("{\"secret\":\"%s\",\"version\":%lld}", name, (long long)version);
	struct store_event e = {.tenant = who->tenant,
		.actor = who->actor,
		.action = action,
		.outcome = "ok",
		.detail = detail};

	if (r == 0)
		r = store_event_append(a->store, &e, err);
	if (r < 0) {
		store_rollback(a->store);
		return r;
	}
	return store_commit(a->store, err);
}

void v1_secret_remove(struct api *a, struct http_request *r, const struct route_match *m)
{
	const char *name = m->params[0];
	struct store_secret s = {0};
	struct err err = {0}, ignored = {0};
	int q = store_begin(a->store, &err);

	if (q == 0) {
		q = store_secret_get(a->store, m->caller.tenant, name, &s, &err);
		if (q == 0)
			q = store_secret_remove(a->store, m->caller.tenant, name, &err);
		q = commit(a, &m->caller, "secret.remove", s.name, s.version, q, &err);
	}
	if (q < 0) {
		api_reply_err(r, &err);
		return;
	}
	/* Not there now: the next connection begins with those that are left. */
	(void)api_egress_ask(a, CONTROL_FORGET,
		json_pack("{s:s, s:s}", "owner", s.tenant, "name", s.name), NULL, NULL, &ignored);
	http_reply(r, 204, NULL, NULL, 0);
}

/* ---- set and rotate ---- */

struct put { /* while the egress role seals it; lives until its answer, with or without a client */
	struct api *api;
	struct http_request *r; /* NULL: the client went */
	struct api_caller who;
	struct store_secret s;
};

static json_t *sealed_json(const struct store_secret *s)
{
	AUTO_FREE char *hex = mem_must(malloc(2 * s->sealed_n + 1));

	secret_hex(s->sealed, s->sealed_n, hex);
	return json_pack("{s:s, s:s, s:I, s:s}", "owner", s->tenant, "name", s->name, "version",
		(json_int_t)s->version, "sealed", hex);
}

static int keep(struct put *p, const json_t *body, struct err *err)
{
	const char *hex = json_string_value(json_object_get(body, "sealed"));
	size_t n = hex ? strlen(hex) : 0;
	AUTO_FREE char *sealed = n > 0 && n <= 2 * STORE_SEALED_MAX ? malloc(n / 2) : NULL;
	struct err ignored = {0};
	int r;

	if (!sealed || !secret_unhex(hex, n, sealed))
		return err_set(err, EIO, "the egress role sealed nothing");
	p->s.sealed = sealed;
	p->s.sealed_n = n / 2;
	r = store_begin(p->api->store, err);
	if (r == 0) {
		r = store_secret_put(p->api->store, &p->s, err);
		if (r == -ENOENT || r == -EEXIST)
			r = err_set(err, EEXIST, "secret '%s' was changed meanwhile", p->s.name);
		r = commit(p->api, &p->who, p->s.version == 1 ? "secret.set" : "secret.rotate",
			p->s.name, p->s.version, r, err);
	}
	if (r == 0)
		(void)api_egress_ask(
			p->api, CONTROL_SECRET, sealed_json(&p->s), NULL, NULL, &ignored);
	p->s.sealed = NULL;
	return r < 0 ? r : store_secret_get(p->api->store, p->s.tenant, p->s.name, &p->s, err);
}

static void was_sealed(const struct control_message *m, void *arg)
{
	struct put *p = arg;
	struct err err = m->err;
	bool is_new = p->s.version == 1;

	if (err.code == 0)
		(void)keep(p, m->body, &err);
	if (p->r) {
		p->r->state = NULL;
		p->r->gone = NULL;
		if (err.code)
			api_reply_err(p->r, &err);
		else
			api_reply_json(p->r, is_new ? 201 : 200, about(&p->s));
	}
	free(p);
}

static void put_gone(struct http_request *r)
{
	struct put *p = r->state;

	p->r = NULL;
}

/* The version that this one becomes, in p->s. */
static int read_put(struct ask *k, json_t *body, struct put *p, const char **ret, size_t *ret_n,
	struct err *err)
{
	static const char *const names[] = {"value", NULL};
	struct store_secret old = {0};
	bool must_exist = h1_is(k->r->head.method, "PATCH");
	int r = v1_fields(body, names, err);

	if (r == 0)
		r = v1_get_string(body, "value", VAULT_VALUE_MAX, ret, err);
	if (r == 0 && !*ret)
		r = err_set(err, EINVAL, "'value' is missing");
	if (r == 0 && !placeholder_is_name(k->params[0]))
		r = err_set(err, EINVAL,
			"a secret's name is letters, digits, and inside also '-', '_', '.'; at "
			"most %d",
			PLACEHOLDER_NAME_MAX);
	if (r < 0)
		return r;
	*ret_n = json_string_length(json_object_get(body, "value"));
	r = store_secret_get(k->api->store, k->who.tenant, k->params[0], &old, err);
	if (r < 0 && (r != -ENOENT || must_exist))
		return r;
	*err = (struct err){0};
	(void)snprintf(p->s.tenant, sizeof(p->s.tenant), "%s", k->who.tenant);
	memcpy(p->s.name, k->params[0], strlen(k->params[0]) + 1); /* it is a name: it fits */
	p->s.version = old.version + 1;
	return 0;
}

static int seal(struct put *p, const char *value, size_t n, struct err *err)
{
	char *hex = mem_must(malloc(2 * n + 1));
	json_t *body;

	secret_hex(value, n, hex);
	body = json_pack("{s:s, s:s, s:I, s:s}", "owner", p->s.tenant, "name", p->s.name, "version",
		(json_int_t)p->s.version, "value", hex);
	explicit_bzero(hex, 2 * n + 1);
	free(hex);
	return api_egress_ask(p->api, CONTROL_SEAL, body, was_sealed, p, err);
}

static void put(struct ask *k, json_t *body)
{
	struct put *p = MEM_NEW(struct put);
	const char *value = NULL;
	struct err err = {0};
	size_t n = 0;
	int r = read_put(k, body, p, &value, &n, &err);

	p->api = k->api;
	p->who = k->who;
	if (r == 0)
		r = seal(p, value, n, &err);
	if (r < 0) {
		ask_fail(k, &err);
		free(p);
		return;
	}
	p->r = ask_take(k);
	p->r->state = p;
	p->r->gone = put_gone;
}

void v1_secret_put(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), put);
}

/* ---- for the egress role and for boxes ---- */

struct push {
	struct api *api;
	struct secrets_cursor *at;
};

static int push_one(const struct store_secret *s, void *arg)
{
	struct push *p = arg;
	int order = strcmp(s->tenant, p->at->tenant);
	struct err err = {0};

	if (order < 0 || (order == 0 && strcmp(s->name, p->at->name) <= 0))
		return 0;
	if (api_egress_queued(p->api) > CONN_HIGH)
		return -EAGAIN;
	if (api_egress_ask(p->api, CONTROL_SECRET, sealed_json(s), NULL, NULL, &err) < 0)
		return -EAGAIN;
	(void)snprintf(p->at->tenant, sizeof(p->at->tenant), "%s", s->tenant);
	(void)snprintf(p->at->name, sizeof(p->at->name), "%s", s->name);
	return 0;
}

bool secrets_push(struct api *a, struct secrets_cursor *at)
{
	struct push p = {a, at};
	struct err err = {0};
	int r = at->is_done ? 0 : store_secret_each(a->store, NULL, push_one, &p, &err);

	if (r < 0 && r != -EAGAIN)
		api_log("error", "", "secrets: %s", err.msg);
	at->is_done = r != -EAGAIN;
	return at->is_done;
}

struct owner {
	struct api *api;
	const char *tenant;
};

static bool is_set(const char *secret, void *arg)
{
	const struct owner *o = arg;
	struct store_secret s;
	struct err ignored = {0};

	return store_secret_get(o->api->store, o->tenant, secret, &s, &ignored) == 0;
}

void secrets_env(struct api *a, const char *tenant, const char *policy, json_t *env)
{
	AUTO(policy_unref) struct policy *p = NULL;
	struct owner o = {a, tenant};
	struct placeholder_files files = {0};
	struct strv vars = {0};
	struct err err = {0};

	if (!policy || !*policy || policy_from_json(policy, strlen(policy), &p, &err) < 0)
		return;
	if (placeholder_for_box(p, tenant, is_set, &o, &vars, &files, &err) < 0)
		api_log("error", "", "placeholders: %s", err.msg);
	for (size_t i = 0; i < vars.n; i++) {
		char *equals = strchr(vars.v[i], '=');

		*equals = '\0';
		if (!json_object_get(env, vars.v[i])) /* what was asked for goes first */
			(void)json_object_set_new(env, vars.v[i], json_string(equals + 1));
	}
	placeholder_files_done(&files);
	strv_done(&vars);
}
