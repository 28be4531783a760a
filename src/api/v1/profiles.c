/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /v1/profiles: what sandboxes of this tenant may be made with: its own, every version of them,
 * and the server's.
 */
#include "api/egress.h"
#include "api/v1/v1.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/profile_load.h"

#include <string.h>

static json_t *profile_json(const struct store_profile *p, bool is_whole)
{
	json_t *o = json_pack("{s:s, s:I, s:s, s:s, s:o, s:s}", "name", p->name, "version",
		(json_int_t)p->version, "digest", p->digest, "owner", "tenant", "created_at",
		v1_time(p->made_ms), "created_by", p->actor);

	if (o && is_whole)
		(void)json_object_set_new(o, "policy", json_loads(p->policy, 0, NULL));
	return o;
}

static int add(const struct store_profile *p, void *arg)
{
	(void)json_array_append_new(arg, profile_json(p, false));
	return 0;
}

void v1_profile_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	json_t *list = mem_must(json_array());
	struct err err = {0};

	if (store_profile_each(a->store, m->caller.tenant, add, list, &err) < 0) {
		json_decref(list);
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(r, 200, json_pack("{s:o}", "profiles", list));
}

static json_t *server_json(const struct policy *p, const char *name)
{
	AUTO_FREE char *text = policy_to_json(p);

	return json_pack("{s:s, s:s, s:s, s:o}", "name", name, "digest", p->digest, "owner",
		"server", "policy", json_loads(text, 0, NULL));
}

void v1_profile_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	AUTO_FREE char *name = text_format("%.*s", (int)strcspn(m->params[0], "@"), m->params[0]);
	const char *at = strchr(m->params[0], '@');
	AUTO(policy_unref) struct policy *policy = NULL;
	struct store_profile p = {0};
	struct err err = {0}, none = {0};
	uint64_t version = 0;
	int q = at ? text_parse_u64(at + 1, "version", 1, INT32_MAX, &version, &err) : 0;

	if (q >= 0 && store_profile_get(
			      a->store, m->caller.tenant, name, (int64_t)version, &p, &none) == 0) {
		api_reply_json(r, 200, profile_json(&p, true));
		store_profile_done(&p);
		return;
	}
	if (q >= 0)
		q = api_policy_profile(a, m->caller.tenant, m->params[0], &policy, &err);
	if (q < 0)
		api_reply_err(r, &err);
	else
		api_reply_json(r, 200, server_json(policy, name));
}

/* ---- put ---- */

struct kept { /* the one profile there is to read */
	const char *name, *yaml;
};

static int fetch(void *arg, const char *what, const char *from, char **ret_yaml, size_t *ret_size,
	char **ret_file, struct err *err)
{
	const struct kept *p = arg;

	if (!from && strcmp(what, p->name) == 0) {
		*ret_yaml = mem_strdup(p->yaml);
		*ret_size = strlen(p->yaml);
		*ret_file = mem_strdup(p->name);
		return 0;
	}
	return err_set(err, ENOENT,
		"parent '%s': a profile kept here names no parents; write "
		"their rules into it",
		what);
}

static int from_yaml(const char *name, const char *yaml, struct policy **ret, struct err *err)
{
	struct kept kept = {.name = name, .yaml = yaml};
	const struct profile_source source = {.cwd = "/"};
	struct profile profile = {0};
	int r = profile_compose(name, fetch, &kept, &source, NULL, &profile, err);

	if (r >= 0)
		*ret = policy_ref(profile.policy);
	profile_done(&profile);
	return r;
}

/* It is called what it is kept as, whatever it calls itself. */
static int from_json(json_t *body, const char *name, struct policy **ret, struct err *err)
{
	AUTO_FREE char *text = NULL;

	(void)json_object_set_new(body, "name", json_string(name));
	text = json_dumps(body, JSON_COMPACT);

	return text ? policy_from_json(text, strlen(text), ret, err)
		    : err_set(err, EINVAL, "'policy' is no JSON");
}

static int put(struct ask *k, json_t *body, struct store_profile *p, struct err *err)
{
	static const char *const names[] = {"yaml", "policy", NULL};
	AUTO(policy_unref) struct policy *policy = NULL;
	const char *yaml = NULL;
	json_t *json = NULL;
	int r = v1_fields(body, names, err);

	if (r == 0)
		r = v1_get_string(body, "yaml", PROFILE_SIZE_MAX, &yaml, err);
	if (r == 0)
		r = v1_get_object(body, "policy", &json, err);
	if (r == 0 && !yaml == !json)
		r = err_set(err, EINVAL, "either 'yaml' or 'policy' must be there");
	if (r == 0)
		r = yaml ? from_yaml(p->name, yaml, &policy, err)
			 : from_json(json, p->name, &policy, err);
	if (r < 0)
		return r;
	p->policy = policy_to_json(policy);
	(void)snprintf(p->digest, sizeof(p->digest), "%s", policy->digest);
	return store_profile_put(k->api->store, p, err);
}

static bool is_name(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= 63 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == n;
}

static void put_profile(struct ask *k, json_t *body)
{
	struct store_profile p = {
		.tenant = mem_strdup(k->who.tenant), .name = mem_strdup(k->params[0])};
	struct err err = {0};
	AUTO_FREE char *detail = NULL;
	int r = 0;

	(void)snprintf(p.actor, sizeof(p.actor), "%s", k->who.actor);
	if (!is_name(p.name) || strcmp(p.name, "locked") == 0)
		r = err_set(&err, EINVAL,
			"a profile's name is 1 to 63 of [a-z0-9_-], and not 'locked'");
	if (r == 0)
		r = store_begin(k->api->store, &err);
	if (r == 0) {
		r = put(k, body, &p, &err);
		detail = text_format("{\"profile\":\"%s\",\"version\":%lld,\"digest\":\"%s\"}",
			p.name, (long long)p.version, p.digest);
		if (r >= 0)
			r = store_event_append(k->api->store,
				&(struct store_event){.tenant = k->who.tenant,
					.actor = k->who.actor,
					.action = "profile.put",
					.sandbox = "",
					.outcome = "ok",
					.detail = detail},
				&err);
		if (r < 0)
			store_rollback(k->api->store);
		else
			r = store_commit(k->api->store, &err);
	}
	if (r < 0)
		ask_fail(k, &err);
	else
		ask_reply(k, 200, profile_json(&p, true));
	store_profile_done(&p);
}

void v1_profile_put(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), put_profile);
}
