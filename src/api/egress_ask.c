/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Questions for people. Egress holds the connection and the clock; here is who may answer, what
 * was said, and what comes of "always": a rule in a new version of the tenant's profile.
 */
#include "api/egress_impl.h"
#include "api/sandbox_impl.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/policy_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const scopes[] = {
	[ASK_ONCE] = "once",
	[ASK_SANDBOX] = "sandbox",
	[ASK_ALWAYS] = "always",
};

int api_ask_scope_parse(const char *s)
{
	for (int i = 0; i < (int)(sizeof(scopes) / sizeof(scopes[0])); i++)
		if (strcmp(s, scopes[i]) == 0)
			return i;
	return -1;
}

json_t *api_ask_json(const struct store_ask *k)
{
	json_t *record = json_loads(k->record, 0, NULL);
	char made[32], expires[32], answered[32];
	json_t *o =
		json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "id", k->id, "sandbox_id", k->sandbox,
			"state", k->state, "request", record ? record : json_object(), "asked_at",
			api_time(k->made_ms, made), "expires_at", api_time(k->expires_ms, expires));

	if (!o)
		return NULL;
	if (*k->note)
		(void)json_object_set_new(o, "note", json_string(k->note));
	if (*k->scope)
		(void)json_object_set_new(o, "scope", json_string(k->scope));
	if (k->answered_ms > 0)
		(void)json_object_set_new(
			o, "answered_at", json_string(api_time(k->answered_ms, answered)));
	if (*k->actor)
		(void)json_object_set_new(o, "answered_by", json_string(k->actor));
	return o;
}

/* What is asked for, without what only refusals have. */
static char *record_of(const struct denial *d)
{
	json_t *o = json_pack(
		"{s:s, s:i, s:s}", "host", d->name, "port", (int)d->port, "protocol", d->protocol);
	char *text;

	if (o && d->method[0])
		(void)json_object_set_new(o, "method", json_string(d->method));
	if (o && d->path[0])
		(void)json_object_set_new(o, "path", json_string(d->path));
	if (o && d->rule[0])
		(void)json_object_set_new(o, "rule", json_string(d->rule));
	if (o && d->reason[0])
		(void)json_object_set_new(o, "reason", json_string(d->reason));
	text = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(o);
	return text ? text : mem_strdup("{}");
}

static char *key_of(const char *sandbox, const char *engine)
{
	return text_format("%s/%s", sandbox, engine);
}

static int insert(struct sandbox *sb, const struct egress_ask *q, struct err *err)
{
	struct api *a = sb->api;
	AUTO_FREE char *record = record_of(&q->what);
	struct store_ask k = {.tenant = sb->row.tenant, .record = record};
	AUTO_FREE char *note = mem_strdup(q->note);
	AUTO_FREE char *detail = NULL;
	struct store_event e = {.tenant = sb->row.tenant,
		.actor = "egress",
		.action = "network.ask",
		.sandbox = sb->row.id,
		.outcome = "open"};
	int r = sandbox_random_hex(k.id, 8, err);

	k.note = note;
	(void)snprintf(k.sandbox, sizeof(k.sandbox), "%s", sb->row.id);
	(void)snprintf(k.engine, sizeof(k.engine), "%s", q->id);
	k.made_ms = api_now_unix_ms();
	k.expires_ms = (int64_t)(q->expires_ms & INT64_MAX);
	detail = text_format("{\"ask\":\"%s\",\"request\":%s}", k.id, record);
	e.detail = detail;
	if (r >= 0)
		r = store_begin(a->store, err);
	if (r < 0)
		return r;
	r = store_ask_insert(a->store, &k, err);
	if (r >= 0)
		r = store_event_append(a->store, &e, err);
	if (r < 0)
		store_rollback(a->store);
	return r < 0 ? r : store_commit(a->store, err);
}

void api_asked(struct api *a, const json_t *body)
{
	struct store_ask known = {0};
	struct egress_ask q;
	struct err err = {0}, none = {0};
	AUTO_FREE char *key = NULL;
	struct sandbox *sb;

	if (control_ask_get(body, &q, &err) < 0)
		return;
	sb = sandbox_by_id(a, q.box);
	if (!sb)
		return;
	key = key_of(q.box, q.id);
	(void)json_object_set_new(a->egress->asks, key, json_true());
	/* Told again on a new connection. */
	if (store_ask_by_engine(a->store, sb->row.id, q.id, (int64_t)(q.expires_ms & INT64_MAX),
		    &known, &none) == 0) {
		store_ask_done(&known);
		return;
	}
	if (insert(sb, &q, &err) < 0)
		api_log("error", "", "sandbox %s asks, and it cannot be kept: %s", sb->row.id,
			err.msg);
}

/* ---- over without an answer ---- */

static void expire(struct api *a, const struct store_ask *k)
{
	AUTO_FREE char *detail = text_format("{\"ask\":\"%s\"}", k->id);
	struct store_event e = {.tenant = k->tenant,
		.actor = "system",
		.action = "network.ask",
		.sandbox = k->sandbox,
		.outcome = "expired",
		.detail = detail};
	struct err err = {0};
	int r = store_begin(a->store, &err);

	if (r >= 0) {
		r = store_ask_expire(a->store, NULL, k->id, &err);
		if (r >= 0)
			r = store_event_append(a->store, &e, &err);
		if (r < 0)
			store_rollback(a->store);
		else
			r = store_commit(a->store, &err);
	}
	if (r < 0)
		api_log("error", "", "ask %s: %s", k->id, err.msg);
}

#define OPEN_MAX 512 /* open asks looked at in one go */

struct open_asks {
	struct store_ask v[OPEN_MAX];
	size_t n;
};

static int collect(const struct store_ask *k, void *arg)
{
	struct open_asks *o = arg;
	struct store_ask *copy;

	if (o->n == OPEN_MAX)
		return 0;
	copy = &o->v[o->n++];
	*copy = *k;
	copy->tenant = mem_strdup(k->tenant);
	copy->record = mem_strdup(k->record);
	copy->note = mem_strdup(k->note);
	return 0;
}

/* Each open ask for which `is_over` holds. A callback of the store must not write: two steps. */
static void expire_those(
	struct api *a, bool (*is_over)(const struct store_ask *k, const void *arg), const void *arg)
{
	AUTO_FREE struct open_asks *o = MEM_NEW(struct open_asks);
	struct err err = {0};

	if (store_ask_each(a->store, NULL, "open", OPEN_MAX, collect, o, &err) < 0)
		api_log("error", "", "open asks: %s", err.msg);
	for (size_t i = 0; i < o->n; i++) {
		if (is_over(&o->v[i], arg))
			expire(a, &o->v[i]);
		store_ask_done(&o->v[i]);
	}
}

static bool has_engine_id(const struct store_ask *k, const void *arg)
{
	return strcmp(k->engine, (const char *)arg) == 0;
}

void api_ask_over(struct api *a, const json_t *body)
{
	const char *id = "";
	struct err err = {0};

	if (control_string(body, "ask", &id, &err) >= 0)
		expire_those(a, has_engine_id, id);
}

static bool is_not_told(const struct store_ask *k, const void *arg)
{
	const struct api_egress *g = arg;
	AUTO_FREE char *key = key_of(k->sandbox, k->engine);

	return !json_object_get(g->asks, key);
}

void api_asks_synced(struct api *a)
{
	expire_those(a, is_not_told, a->egress);
}

/* ---- answers ---- */

/* A rule like the one that asked, but for this request alone, and allowing it. */
static json_t *approved_rule(const json_t *policy, const json_t *request, const char *id)
{
	const char *rule_id = json_string_value(json_object_get(request, "rule"));
	json_t *method = json_object_get(request, "method"),
	       *path = json_object_get(request, "path");
	AUTO_FREE char *port = text_format(
		"%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(request, "port")));
	json_t *from = NULL, *v, *made;
	size_t i;

	json_array_foreach(json_object_get(policy, "rules"), i, v)
	{
		const char *have = json_string_value(json_object_get(v, "id"));

		if (rule_id && have && strcmp(have, rule_id) == 0)
			from = v;
	}
	made = from ? json_deep_copy(from) : json_object();
	(void)json_object_set_new(made, "id", json_string(id));
	(void)json_object_set_new(made, "action", json_string("allow"));
	(void)json_object_set_new(made, "approved", json_true());
	(void)json_object_set_new(
		made, "hosts", json_pack("[O]", json_object_get(request, "host")));
	(void)json_object_set_new(made, "ports", json_pack("[s]", port));
	(void)json_object_set_new(
		made, "protocols", json_pack("[O]", json_object_get(request, "protocol")));
	/* What was asked about one method and path is approved for these. */
	if (method)
		(void)json_object_set_new(made, "methods", json_pack("[O]", method));
	if (path)
		(void)json_object_set_new(made, "paths", json_pack("[O]", path));
	return made;
}

static int extended(
	const struct policy *base, const char *request, struct policy **ret, struct err *err)
{
	AUTO_FREE char *text = policy_to_json(base), *made = NULL, *id = NULL;
	json_t *policy = json_loads(text, 0, NULL), *what = json_loads(request, 0, NULL);
	json_t *rules = json_object_get(policy, "rules");
	int r;

	if (policy && !rules) {
		rules = json_array();
		(void)json_object_set_new(policy, "rules", rules);
	}
	id = text_format("%.60s/approved-%zu", base->name, json_array_size(rules) + 1);
	(void)json_array_append_new(rules, approved_rule(policy, what, id));
	made = json_dumps(policy, JSON_COMPACT);
	r = made ? policy_from_json(made, strlen(made), ret, err)
		 : err_set(err, EINVAL, "the approved rule cannot be written");
	json_decref(policy);
	json_decref(what);
	return r;
}

/* A new version of the profile the sandbox was made with; of its tenant from now on. */
static int write_profile(struct api *a, const struct api_caller *who, const char *profile,
	const struct store_ask *k, json_t *detail, struct err *err)
{
	AUTO(policy_unref) struct policy *base = NULL, *more = NULL;
	AUTO_FREE char *name = text_format("%.*s", (int)strcspn(profile, "@"), profile);
	AUTO_FREE char *json = NULL;
	struct store_profile p = {.tenant = k->tenant, .name = name};
	int r;

	if (!*name || strcmp(name, "locked") == 0)
		return err_set(err, EINVAL,
			"the sandbox was made without a profile that could remember it; "
			"use the scope 'sandbox'");
	r = api_policy_profile(a, k->tenant, name, &base, err);
	if (r >= 0)
		r = extended(base, k->record, &more, err);
	if (r < 0)
		return r;
	json = policy_to_json(more);
	p.policy = json;
	(void)snprintf(p.digest, sizeof(p.digest), "%s", more->digest);
	(void)snprintf(p.actor, sizeof(p.actor), "%s", who->actor);
	r = store_profile_put(a->store, &p, err);
	if (r < 0)
		return r;
	(void)json_object_set_new(detail, "profile", json_string(name));
	(void)json_object_set_new(detail, "version", json_integer(p.version));
	return 0;
}

static int write_answer(struct api *a, const struct api_caller *who, const struct store_ask *k,
	bool is_allowed, enum ask_scope scope, struct err *err)
{
	const struct sandbox *sb = sandbox_any(a, k->sandbox);
	const char *state = is_allowed ? "allowed" : "denied";
	json_t *detail = json_pack("{s:s, s:s}", "ask", k->id, "scope", scopes[scope]);
	AUTO_FREE char *text = NULL;
	struct store_event e = {.tenant = k->tenant,
		.actor = who->actor,
		.action = "network.answer",
		.sandbox = k->sandbox,
		.outcome = state};
	int r = store_begin(a->store, err);

	if (r < 0) {
		json_decref(detail);
		return r;
	}
	r = store_ask_answer(a->store, k->id, state, scopes[scope], who->actor, err);
	if (r >= 0 && is_allowed && scope == ASK_ALWAYS)
		r = write_profile(a, who, sb ? sb->row.profile : "", k, detail, err);
	text = json_dumps(detail, JSON_COMPACT);
	json_decref(detail);
	e.detail = text;
	if (r >= 0)
		r = store_event_append(a->store, &e, err);
	if (r < 0)
		store_rollback(a->store);
	return r < 0 ? r : store_commit(a->store, err);
}

struct answering {
	void (*done)(int code, void *arg);
	void *arg;
};

static void told(const struct control_message *m, void *arg)
{
	struct answering *w = arg;

	/* Over while we wrote it down: whoever asked has been refused. */
	w->done(m->err.code == ENOENT || m->err.code == ECONNRESET ? -EALREADY : -m->err.code,
		w->arg);
	free(w);
}

int api_ask_answer(struct api *a, const struct api_caller *who, const char *id, bool is_allowed,
	enum ask_scope scope, void (*done)(int code, void *arg), void *arg, struct err *err)
{
	enum egress_ask_verdict verdict = !is_allowed         ? EGRESS_ASK_DENY
					  : scope == ASK_ONCE ? EGRESS_ASK_ONCE
							      : EGRESS_ASK_BOX;
	struct store_ask k = {0};
	struct answering *w;
	int r = store_ask_get(a->store, who->tenant, id, &k, err);

	if (r >= 0 && strcmp(k.state, "open") != 0)
		r = err_set(err, EALREADY, "ask '%s' is over: %s", k.id, k.state);
	if (r >= 0 && !api_egress_is_up(a))
		r = err_set(err, EAGAIN, "the egress role is being started; try again");
	if (r >= 0)
		r = write_answer(a, who, &k, is_allowed, scope, err);
	if (r >= 0) {
		w = MEM_NEW(struct answering);
		w->done = done;
		w->arg = arg;
		r = api_egress_ask(a, CONTROL_ANSWER,
			json_pack("{s:s, s:s}", "ask", k.engine, "verdict",
				control_verdict_name(verdict)),
			told, w, err);
		if (r < 0)
			free(w);
	}
	store_ask_done(&k);
	return r < 0 ? r : 0;
}
