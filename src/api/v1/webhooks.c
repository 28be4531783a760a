/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /v1/webhooks: make, list, change, remove. Their secrets are shown once, when they are made.
 */
#include "api/v1/webhooks.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

#define ACTIONS_MAX 512

static json_t *hook_json(const struct store_webhook *w)
{
	return json_pack("{s:I, s:s, s:s, s:b, s:I, s:I, s:o}", "id", (json_int_t)w->id, "url",
		w->url, "actions", w->actions, "enabled", !w->is_off, "delivered_up_to",
		(json_int_t)w->next, "failures", (json_int_t)w->failures, "retry_at",
		v1_time(w->retry_at_ms));
}

static int add_hook(const struct store_webhook *w, void *arg)
{
	(void)json_array_append_new(arg, hook_json(w));
	return 0;
}

void v1_webhook_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	json_t *list = mem_must(json_array());
	struct err err = {0};

	if (store_webhook_each(a->store, m->caller.tenant, add_hook, list, &err) < 0) {
		json_decref(list);
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(r, 200, json_pack("{s:o}", "webhooks", list));
}

struct search {
	int64_t id;
	struct store_webhook found;
	bool has_found;
};

static int look(const struct store_webhook *w, void *arg)
{
	struct search *s = arg;

	if (w->id != s->id)
		return 0;
	s->found = *w;
	s->found.tenant = mem_strdup(w->tenant);
	s->found.url = mem_strdup(w->url);
	s->found.secret = mem_strdup(w->secret);
	s->found.actions = mem_strdup(w->actions);
	s->has_found = true;
	return 0;
}

static int find(struct api *a, const char *tenant, const char *id, struct store_webhook *ret,
	struct err *err)
{
	struct search s = {0};
	uint64_t number = 0;
	int r = text_parse_u64(id, "webhook id", 1, INT64_MAX, &number, err);

	s.id = (int64_t)number;
	if (r == 0)
		r = store_webhook_each(a->store, tenant, look, &s, err);
	if (r == 0 && !s.has_found)
		r = err_set(err, ENOENT, "no webhook %s", id);
	if (r == 0)
		*ret = s.found;
	return r;
}

void v1_webhook_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_webhook w = {0};
	struct err err = {0};

	if (find(a, m->caller.tenant, m->params[0], &w, &err) < 0)
		api_reply_err(r, &err);
	else
		api_reply_json(r, 200, hook_json(&w));
	store_webhook_done(&w);
}

/* The change and its event in one. */
static int commit(struct api *a, const struct api_caller *who, const char *action, int r,
	int64_t id, struct err *err)
{
	AUTO_FREE char *detail = text_format("{\"webhook\":%lld}", (long long)id);
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
	r = store_commit(a->store, err);
	if (r == 0)
		webhooks_reload(a);
	return r;
}

static int read_url(struct api *a, json_t *body, struct store_webhook *w, struct err *err)
{
	struct webhook_url u;
	const char *url = NULL;
	int r = v1_get_string(body, "url", WEBHOOK_URL_MAX - 1, &url, err);

	if (r < 0 || !url)
		return r;
	r = webhook_url_parse(url, &u, err);
	if (r == 0 && !a->config.webhooks_private && u.address.ss_family != 0 &&
		webhook_is_private((const struct sockaddr *)&u.address))
		r = err_set(err, EPERM,
			"url: '%s' is an address of this machine or its network; the operator may "
			"allow them with --webhooks-private",
			u.host);
	if (r < 0)
		return r;
	free(w->url);
	w->url = mem_strdup(url);
	return 0;
}

static int read_actions(json_t *body, struct store_webhook *w, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz._*";
	json_t *list = json_object_get(body, "actions"), *one;
	char text[ACTIONS_MAX] = "";
	size_t n = 0, i;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) == 0)
		return err_set(err, EINVAL, "'actions' must be an array like [\"sandbox.*\"]");
	json_array_foreach(list, i, one)
	{
		const char *s = json_string_value(one);

		if (!s || !*s || strlen(s) > 64 || strspn(s, letters) != strlen(s))
			return err_set(err, EINVAL, "'actions' must be words like \"sandbox.*\"");
		if (n + strlen(s) + 2 > sizeof(text))
			return err_set(err, EINVAL, "'actions' is too long");
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? "," : "", s);
	}
	free(w->actions);
	w->actions = mem_strdup(text);
	return 0;
}

static int read_fields(struct ask *k, json_t *body, struct store_webhook *w, struct err *err)
{
	static const char *const names[] = {"url", "actions", "secret", "enabled", NULL};
	const char *secret = NULL;
	bool is_on = !w->is_off;
	int r = v1_fields(body, names, err);

	if (r == 0)
		r = read_url(k->api, body, w, err);
	if (r == 0)
		r = read_actions(body, w, err);
	if (r == 0)
		r = v1_get_string(body, "secret", 256, &secret, err);
	if (r == 0)
		r = v1_get_bool(body, "enabled", &is_on, err);
	if (r == 0 && secret && strlen(secret) < 16)
		r = err_set(err, EINVAL, "'secret' must be 16 to 256 bytes");
	if (r < 0)
		return r;
	if (secret) {
		free(w->secret);
		w->secret = mem_strdup(secret);
	}
	if (is_on && w->is_off)
		w->failures = w->retry_at_ms = 0;
	w->is_off = !is_on;
	return 0;
}

static int make_secret(struct store_webhook *w, struct err *err)
{
	char hex[65];
	int r = w->secret ? 0 : sandbox_random_hex(hex, 32, err);

	if (r == 0 && !w->secret)
		w->secret = mem_strdup(hex);
	return r;
}

static void create(struct ask *k, json_t *body)
{
	struct store_webhook w = {.tenant = mem_strdup(k->who.tenant), .actions = mem_strdup("*")};
	struct err err = {0};
	int r = read_fields(k, body, &w, &err);

	if (r == 0 && !w.url)
		r = err_set(&err, EINVAL, "'url' is missing");
	if (r == 0)
		r = make_secret(&w, &err);
	w.next = store_event_last(k->api->store);
	if (r == 0)
		r = store_begin(k->api->store, &err);
	if (r == 0) {
		r = store_webhook_create(k->api->store, &w, &err);
		r = commit(k->api, &k->who, "webhook.create", r, w.id, &err);
	}
	if (r < 0) {
		ask_fail(k, &err);
	} else {
		json_t *o = hook_json(&w);

		(void)json_object_set_new(o, "secret", v1_text(w.secret));
		ask_reply(k, 201, o);
	}
	store_webhook_done(&w);
}

void v1_webhook_create(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), create);
}

static void change(struct ask *k, json_t *body)
{
	struct store_webhook w = {0};
	struct err err = {0};
	int r = find(k->api, k->who.tenant, k->params[0], &w, &err);

	if (r == 0)
		r = read_fields(k, body, &w, &err);
	if (r == 0)
		r = store_begin(k->api->store, &err);
	if (r == 0) {
		r = store_webhook_update(k->api->store, &w, &err);
		r = commit(k->api, &k->who, "webhook.change", r, w.id, &err);
	}
	if (r < 0)
		ask_fail(k, &err);
	else
		ask_reply(k, 200, hook_json(&w));
	store_webhook_done(&w);
}

void v1_webhook_change(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), change);
}

void v1_webhook_remove(struct api *a, struct http_request *r, const struct route_match *m)
{
	uint64_t id = 0;
	struct err err = {0};
	int q = text_parse_u64(m->params[0], "webhook id", 1, INT64_MAX, &id, &err);

	if (q == 0)
		q = store_begin(a->store, &err);
	if (q == 0) {
		q = store_webhook_remove(a->store, m->caller.tenant, (int64_t)id, &err);
		q = commit(a, &m->caller, "webhook.remove", q, (int64_t)id, &err);
	}
	if (q < 0)
		api_reply_err(r, &err);
	else
		http_reply(r, 204, NULL, NULL, 0);
}
