/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One sandbox of the E2B control plane: connect, get, kill, timeout, network. Making one is in
 * create.c, many of them in list.c.
 */
#include "api/e2b/sandboxes.h"

#include "api/e2b/call.h"
#include "api/e2b/network.h"
#include "api/e2b/shape.h"
#include "api/egress.h"

#define BODY_MAX      (256u << 10)
#define V1_DEFAULT_MS 15000
#define REFRESH_MAX_S 3600

/* The call's sandbox; if there is none, 404 is answered and the call gone. */
static struct sandbox *find_or_reply(struct e2b_call *c)
{
	struct sandbox *sb = e2b_find(c->api, c->who.tenant, c->id);
	struct http_request *r = c->r;
	char id[SANDBOX_ID_MAX];

	if (sb)
		return sb;
	(void)snprintf(id, sizeof(id), "%s", c->id);
	(void)call_free(c);
	r->gone = NULL;
	e2b_not_found(r, id);
	return NULL;
}

static void connect_to(struct http_request *r, json_t *body, void *arg)
{
	struct e2b_call *c = arg;
	uint64_t ms = c->is_v2 ? c->api->config.ttl_default_ms : V1_DEFAULT_MS;
	struct err err = {0};
	struct sandbox *sb;
	int q = field_timeout(c->api, body, "timeout", &ms, &err);

	if (q < 0) {
		call_reply_err(c, &err);
		return;
	}
	sb = find_or_reply(c);
	if (!sb)
		return;
	sandbox_touch(sb);
	if (sandbox_set_timeout(sb, c->who.actor, ms, true, &err) < 0)
		call_reply_err(c, &err);
	else
		call_reply(c, 200, shape_sandbox(sb, r));
}

void e2b_connect(struct api *a, struct http_request *r, const struct route_match *m)
{
	api_read_json(r, BODY_MAX, connect_to, call_create(a, r, m, false));
}

void e2b_connect_v2(struct api *a, struct http_request *r, const struct route_match *m)
{
	api_read_json(r, BODY_MAX, connect_to, call_create(a, r, m, true));
}

void e2b_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	const struct sandbox *sb = e2b_find(a, m->caller.tenant, m->params[0]);
	AUTO_BUF struct buf b = {0};

	if (!sb) {
		e2b_not_found(r, m->params[0]);
		return;
	}
	(void)buf_reserve(&b, 1024); /* most fit: no growing in steps */
	shape_detail(&b, sb, r);
	http_reply(r, 200, "application/json", buf_data(&b), buf_len(&b));
}

static void killed(int code, void *arg)
{
	struct e2b_call *c = arg;
	struct err err = {0};

	if (code < 0) {
		(void)err_set(&err, -code, "the sandbox could not be ended");
		call_reply_err(c, &err);
		return;
	}
	call_reply(c, 204, NULL);
}

void e2b_kill(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct e2b_call *c = call_create(a, r, m, false);
	struct sandbox *sb = find_or_reply(c);

	if (!sb)
		return;
	call_busy(c);
	sandbox_kill(sb, c->who.actor, SANDBOX_KILLED, killed, c);
}

static void set_timeout(struct http_request *r, json_t *body, void *arg)
{
	struct e2b_call *c = arg;
	struct err err = {0};
	struct sandbox *sb;
	uint64_t ms = 0;
	int q = field_timeout(c->api, body, "timeout", &ms, &err);

	(void)r;
	if (q == 0)
		q = err_set(&err, EINVAL, "timeout is required");
	if (q < 0) {
		call_reply_err(c, &err);
		return;
	}
	sb = find_or_reply(c);
	if (!sb)
		return;
	if (sandbox_set_timeout(sb, c->who.actor, ms, false, &err) < 0)
		call_reply_err(c, &err);
	else
		call_reply(c, 204, NULL);
}

void e2b_timeout(struct api *a, struct http_request *r, const struct route_match *m)
{
	api_read_json(r, BODY_MAX, set_timeout, call_create(a, r, m, false));
}

static void refresh(struct http_request *r, json_t *body, void *arg)
{
	struct e2b_call *c = arg;
	struct err err = {0};
	struct sandbox *sb;
	int64_t s = V1_DEFAULT_MS / 1000;
	int q = field_integer(body, "duration", &s, &err);

	(void)r;
	if (q >= 0 && (s < 1 || s > REFRESH_MAX_S))
		q = err_set(&err, EINVAL, "duration must be between 1 and %d", REFRESH_MAX_S);
	if (q < 0) {
		call_reply_err(c, &err);
		return;
	}
	sb = find_or_reply(c);
	if (!sb)
		return;
	if (sandbox_set_timeout(sb, c->who.actor, (uint64_t)s * 1000, true, &err) < 0)
		call_reply_err(c, &err);
	else
		call_reply(c, 204, NULL);
}

void e2b_refresh(struct api *a, struct http_request *r, const struct route_match *m)
{
	api_read_json(r, BODY_MAX, refresh, call_create(a, r, m, false));
}

static void network_is_set(int code, void *arg)
{
	struct e2b_call *c = arg;
	struct err err = {0};

	if (code == 0) {
		call_reply(c, 204, NULL);
		return;
	}
	(void)err_set(&err, -code, "the rules are kept, but egress does not take them");
	call_reply_err(c, &err);
}

/* Replaces the rules; who may reach its ports was settled when it was made. */
static void set_network(struct http_request *r, json_t *body, void *arg)
{
	struct e2b_call *c = arg;
	struct err err = {0};
	struct sandbox *sb;

	(void)r;
	if (network_check(body, &err) < 0) {
		call_reply_err(c, &err);
		return;
	}
	sb = find_or_reply(c);
	if (!sb)
		return;
	if (sandbox_set_network(sb, c->who.actor, NULL, body, &err) < 0) {
		call_reply_err(c, &err);
		return;
	}
	call_busy(c);
	api_egress_policy(sb, network_is_set, c);
}

void e2b_network(struct api *a, struct http_request *r, const struct route_match *m)
{
	api_read_json(r, BODY_MAX, set_network, call_create(a, r, m, false));
}
