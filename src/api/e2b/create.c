/* SPDX-License-Identifier: Apache-2.0 */

/*
 * POST /sandboxes and /v2/sandboxes: a body becomes a wish, the wish a sandbox, the sandbox an
 * answer. What this server cannot keep yet (pausing at the timeout, volumes, …) is refused, not
 * forgotten.
 */
#include "api/e2b/call.h"
#include "api/e2b/network.h"
#include "api/e2b/sandboxes.h"
#include "api/e2b/shape.h"

#include <string.h>

#define BODY_MAX      (256u << 10)
#define V1_DEFAULT_MS 15000 /* of the older path; the newer has the server's default */
#define KEY_MAX       255

/* `mcp` is not among them: the SDK itself starts the gateway, by a command inside. */
static int refuse_later(json_t *body, struct err *err)
{
	static const struct {
		const char *field, *what;
	} later[] = {
		{"volumeMounts", "volumes come with persistence"},
		{"iam", "workload identity comes with egress"},
	};
	bool is_paused = false;
	int r = field_bool(body, "autoPause", &is_paused, err);

	if (r < 0)
		return r;
	if (is_paused)
		return err_set(err, EOPNOTSUPP, "autoPause: pausing comes with persistence");
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		json_t *v = json_object_get(body, later[i].field);

		if (json_object_size(v) > 0 || json_array_size(v) > 0)
			return err_set(err, EOPNOTSUPP, "%s: %s", later[i].field, later[i].what);
	}
	return 0;
}

/* Fields that are kept to be shown again. The caller drops *ret. */
static int read_extra(json_t *body, json_t **ret, struct err *err)
{
	json_t *extra = json_object(), *resume = NULL;
	bool is_allowed = false, is_resumed = false;
	int r = field_bool(body, "allow_internet_access", &is_allowed, err);

	if (r > 0)
		(void)json_object_set_new(extra, "allowInternetAccess", json_boolean(is_allowed));
	if (r >= 0)
		r = field_object(body, "autoResume", &resume, err);
	if (r > 0)
		r = field_bool(resume, "enabled", &is_resumed, err);
	if (r > 0)
		(void)json_object_set_new(extra, "autoResume", json_boolean(is_resumed));
	*ret = extra;
	return r < 0 ? r : 0;
}

static int read_network(json_t *body, struct sandbox_wish *w, struct err *err)
{
	bool is_public = true;
	int r = field_object(body, "network", &w->network, err);

	if (r <= 0)
		return r;
	r = network_check(w->network, err);
	if (r == 0)
		r = field_bool(w->network, "allowPublicTraffic", &is_public, err);
	w->is_private = !is_public;
	return r < 0 ? r : 0;
}

static int read_wish(struct e2b_call *c, json_t *body, struct sandbox_wish *w, struct err *err)
{
	int r = field_string(body, "templateID", &w->template, err);

	if (r == 0)
		return err_set(err, EINVAL, "templateID is required");
	w->timeout_ms = c->is_v2 ? c->api->config.ttl_default_ms : V1_DEFAULT_MS;
	w->is_secure = c->is_v2;
	if (r >= 0)
		r = field_timeout(c->api, body, "timeout", &w->timeout_ms, err);
	if (r >= 0 && !c->is_v2)
		r = field_bool(body, "secure", &w->is_secure, err);
	if (r >= 0)
		r = field_object(body, "metadata", &w->metadata, err);
	if (r >= 0)
		r = field_object(body, "envVars", &w->env, err);
	if (r >= 0)
		r = read_network(body, w, err);
	if (r >= 0)
		r = refuse_later(body, err);
	if (r >= 0)
		r = read_extra(body, &w->extra, err);
	return r < 0 ? r : 0;
}

/* Idempotency-Key: 1 to 255 of [A-Za-z0-9_-]; absent is "". */
static int read_key(const struct http_request *r, char out[KEY_MAX + 1], struct err *err)
{
	const struct h1_field *f = h1_find(&r->head, "Idempotency-Key");

	out[0] = '\0';
	if (!f)
		return 0;
	if (f->value.n == 0 || f->value.n > KEY_MAX)
		return err_set(
			err, EINVAL, "Idempotency-Key must have 1 to %d characters", KEY_MAX);
	memcpy(out, f->value.p, f->value.n);
	out[f->value.n] = '\0';
	if (strspn(out, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
		f->value.n)
		return err_set(err, EINVAL, "Idempotency-Key must be of [A-Za-z0-9_-]");
	return 0;
}

static void made(struct sandbox *sb, const struct err *err, void *arg)
{
	struct e2b_call *c = arg;

	if (err) {
		call_reply_err(c, err);
		return;
	}
	/* Nobody knows its id. With a key, the client may still ask for it again. */
	if ((!c->r || http_is_broken(c->r)) && !sb->row.idempotency[0])
		sandbox_kill(sb, "system", SANDBOX_NOT_ANSWERED, NULL, NULL);
	if (c->r)
		call_reply(c, 201, shape_sandbox(sb, c->r));
	else
		(void)call_free(c);
}

static void create(struct http_request *r, json_t *body, void *arg)
{
	struct e2b_call *c = arg;
	struct sandbox_wish w = {0};
	struct err err = {0};
	char key[KEY_MAX + 1];
	int q = read_key(r, key, &err);

	w.idempotency = key;
	if (q == 0)
		q = read_wish(c, body, &w, &err);
	if (q < 0) {
		call_reply_err(c, &err);
	} else {
		call_busy(c);
		sandbox_create(c->api, &c->who, &w, made, c);
	}
	json_decref(w.extra);
}

void e2b_create(struct api *a, struct http_request *r, const struct route_match *m)
{
	api_read_json(r, BODY_MAX, create, call_create(a, r, m, false));
}

void e2b_create_v2(struct api *a, struct http_request *r, const struct route_match *m)
{
	api_read_json(r, BODY_MAX, create, call_create(a, r, m, true));
}
