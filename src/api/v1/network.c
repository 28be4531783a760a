/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /v1/sandboxes/{id}/network and /violations: what a sandbox may reach, what it used, what it
 * was refused.
 */
#include "api/e2b/network.h"
#include "api/egress.h"
#include "api/v1/v1.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

/* ---- what it was refused ---- */

void v1_sandbox_violations(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_sandbox row = {0};
	struct err err = {0};
	uint64_t since = 0;
	int q = v1_row(a, &m->caller, m->params[0], &row, &err);

	if (q == 0)
		q = v1_query_u64(r, "since_ms", INT64_MAX, &since, &err);
	if (q < 0)
		api_reply_err(r, &err);
	else
		api_reply_json(r, 200,
			json_pack("{s:s, s:o}", "sandbox_id", row.id, "violations",
				api_told_list(a, row.id, (int64_t)since, 0)));
	store_sandbox_done(&row);
}

/* ---- what it may reach, and what it used ---- */

static json_t *network_json(const struct store_sandbox *row)
{
	json_t *spec = json_loads(row->spec, 0, NULL);
	json_t *policy = *row->policy ? json_loads(row->policy, 0, NULL) : NULL;
	struct policy *p = NULL;
	struct err err = {0};
	json_t *o = json_pack("{s:s, s:s, s:O*, s:o*}", "sandbox_id", row->id, "profile",
		row->profile, "network", json_object_get(spec, "network"), "policy", policy);

	if (o && *row->policy && policy_from_json(row->policy, strlen(row->policy), &p, &err) >= 0)
		(void)json_object_set_new(o, "digest", json_string(p->digest));
	p = policy_unref(p);
	json_decref(spec);
	return o;
}

static json_t *usage_json(const json_t *body)
{
	json_t *list = json_array(), *e;
	size_t i;

	json_array_foreach(json_object_get(body, "usage"), i, e)
	{
		struct egress_usage u;

		if (!control_usage_get(e, &u))
			continue;
		(void)json_array_append_new(list,
			json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:f}", "host", u.name,
				"port", (int)u.port, "bytes_up", (json_int_t)u.bytes_up,
				"bytes_down", (json_int_t)u.bytes_down, "requests",
				(json_int_t)u.requests, "connections", (json_int_t)u.connections,
				"denied", (json_int_t)u.denied, "latency_ms",
				u.latency_n ? (double)u.latency_us / 1000.0 / (double)u.latency_n
					    : 0.0));
	}
	return list;
}

/* By id: the sandbox may have ended when egress has answered. */
struct looking {
	struct ask *k; /* NULL: the client went */
	json_t *answer;
};

static void looker_gone(struct http_request *r)
{
	struct looking *l = r->state;

	(void)ask_take(l->k);
	l->k = NULL;
}

static void got_usage(const struct control_message *m, void *arg)
{
	struct looking *l = arg;

	/* Not known to egress: nothing was used. */
	if (l->answer)
		(void)json_object_set_new(
			l->answer, "usage", m->err.code ? json_array() : usage_json(m->body));
	if (l->k)
		ask_reply(l->k, 200, TAKE_PTR(l->answer));
	json_decref(l->answer);
	free(l);
}

void v1_network_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_sandbox row = {0};
	struct err err = {0};
	struct looking *l;
	json_t *o;

	if (v1_row(a, &m->caller, m->params[0], &row, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	o = network_json(&row);
	if (!sandbox_by_id(a, row.id) || !api_egress_is_up(a)) {
		store_sandbox_done(&row);
		api_reply_json(r, 200, o);
		return;
	}
	l = MEM_NEW(struct looking);
	l->answer = o;
	l->k = ask_new(a, r, m);
	r->state = l;
	r->gone = looker_gone;
	if (api_egress_ask(a, CONTROL_USAGE, json_pack("{s:s}", "id", row.id), got_usage, l, &err) <
		0) {
		ask_reply(l->k, 200, TAKE_PTR(l->answer));
		free(l);
	}
	store_sandbox_done(&row);
}

/* ---- change ---- */

int v1_network_check(json_t *network, struct err *err)
{
	static const char *const names[] = {"allow", "deny", "allowOut", "denyOut",
		"allow_internet_access", "allowPublicTraffic", "httpsPorts", "maskRequestHost",
		"rules", "egressProxy", NULL};
	int r = v1_fields(network, names, err);

	return r < 0 ? err_wrap(err, "network") : network_check(network, err);
}

struct changing {
	struct ask *k; /* NULL: the client went */
	char id[SANDBOX_ID_MAX];
	struct api *api;
};

static void changer_gone(struct http_request *r)
{
	struct changing *c = r->state;

	(void)ask_take(c->k);
	c->k = NULL;
}

static void changed(int code, void *arg)
{
	struct changing *c = arg;
	struct sandbox *sb = sandbox_by_id(c->api, c->id);
	struct err err = {0};

	if (c->k && code < 0) {
		(void)err_set(&err, -code, "the rules are kept, but egress does not take them");
		ask_fail(c->k, &err);
	} else if (c->k && !sb) {
		(void)err_set(&err, ENOENT, "the sandbox has ended");
		ask_fail(c->k, &err);
	} else if (c->k) {
		ask_reply(c->k, 200, network_json(&sb->row));
	}
	free(c);
}

static void change(struct ask *k, json_t *body)
{
	static const char *const names[] = {"profile", "network", NULL};
	struct sandbox *sb = ask_sandbox(k);
	const char *profile = NULL;
	json_t *network = NULL;
	struct changing *c;
	struct err err = {0};
	int r;

	if (!sb)
		return;
	r = v1_fields(body, names, &err);
	if (r == 0)
		r = v1_get_string(body, "profile", 80, &profile, &err);
	if (r == 0)
		r = v1_get_object(body, "network", &network, &err);
	if (r == 0 && !profile && !network)
		r = err_set(&err, EINVAL, "'profile' or 'network' must be there");
	if (r == 0 && network)
		r = v1_network_check(network, &err);
	if (r == 0)
		r = sandbox_set_network(sb, k->who.actor, profile, network, &err);
	if (r < 0) {
		ask_fail(k, &err);
		return;
	}
	c = MEM_NEW(struct changing);
	c->k = k;
	c->api = k->api;
	(void)snprintf(c->id, sizeof(c->id), "%s", sb->row.id);
	k->r->state = c;
	k->r->gone = changer_gone;
	api_egress_policy(sb, changed, c);
}

void v1_network_change(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), change);
}
