/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /v1/asks: what sandboxes want and a person has to allow.
 */
#include "api/egress.h"
#include "api/v1/v1.h"
#include "base/mem.h"

#include <string.h>

#define LIST_MAX 200

static int add(const struct store_ask *k, void *arg)
{
	(void)json_array_append_new(arg, api_ask_json(k));
	return 0;
}

void v1_ask_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	static const char *const states[] = {"open", "allowed", "denied", "expired", "all"};
	json_t *list = mem_must(json_array());
	struct err err = {0};
	char state[16];
	bool is_known = false;
	int q = 0;

	if (!v1_query(r, "state", "open", state, sizeof(state)))
		state[0] = '\0';
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		is_known |= strcmp(state, states[i]) == 0;
	if (!is_known)
		q = err_set(&err, EINVAL, "'state' is open, allowed, denied, expired or all");
	if (q == 0)
		q = store_ask_each(a->store, m->caller.tenant,
			strcmp(state, "all") == 0 ? NULL : state, LIST_MAX, add, list, &err);
	if (q < 0) {
		json_decref(list);
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(r, 200, json_pack("{s:o}", "asks", list));
}

void v1_ask_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_ask k = {0};
	struct err err = {0};

	if (store_ask_get(a->store, m->caller.tenant, m->params[0], &k, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(r, 200, api_ask_json(&k));
	store_ask_done(&k);
}

/* ---- answer ---- */

struct answering {
	struct ask *k; /* NULL: the client went */
	struct api *api;
	char id[40];
};

static void answerer_gone(struct http_request *r)
{
	struct answering *w = r->state;

	(void)ask_take(w->k);
	w->k = NULL;
}

static void answered(int code, void *arg)
{
	struct answering *w = arg;
	struct store_ask row = {0};
	struct err err = {0};

	if (!w->k) {
		free(w);
		return;
	}
	if (code == -EALREADY)
		api_reply_error(
			ask_take(w->k), 409, "over", NULL, "nobody waits for this answer any more");
	else if (code < 0 || store_ask_get(w->api->store, NULL, w->id, &row, &err) < 0)
		api_reply_error(ask_take(w->k), 503, "unavailable", "try again",
			"the answer is kept, but egress could not be told");
	else
		ask_reply(w->k, 200, api_ask_json(&row));
	store_ask_done(&row);
	free(w);
}

static int read_answer(
	json_t *body, bool *ret_is_allowed, enum ask_scope *ret_scope, struct err *err)
{
	static const char *const names[] = {"verdict", "scope", NULL};
	const char *verdict = "", *scope = "once";
	int r = v1_fields(body, names, err), n;

	if (r == 0)
		r = v1_get_string(body, "verdict", 16, &verdict, err);
	if (r == 0)
		r = v1_get_string(body, "scope", 16, &scope, err);
	if (r < 0)
		return r;
	if (strcmp(verdict, "allow") != 0 && strcmp(verdict, "deny") != 0)
		return err_set(err, EINVAL, "'verdict' must be allow or deny");
	n = api_ask_scope_parse(scope);
	if (n < 0)
		return err_set(err, EINVAL, "'scope' must be once, sandbox or always");
	*ret_is_allowed = verdict[0] == 'a';
	*ret_scope = (enum ask_scope)n;
	return 0;
}

static void answer(struct ask *k, json_t *body)
{
	struct answering *w = MEM_NEW(struct answering);
	enum ask_scope scope = ASK_ONCE;
	bool is_allowed = false;
	struct err err = {0};
	int r = read_answer(body, &is_allowed, &scope, &err);

	w->k = k;
	w->api = k->api;
	(void)snprintf(w->id, sizeof(w->id), "%.39s", k->params[0]);
	if (r == 0) {
		k->r->state = w;
		k->r->gone = answerer_gone;
		r = api_ask_answer(k->api, &k->who, w->id, is_allowed, scope, answered, w, &err);
	}
	if (r == 0)
		return;
	free(w);
	if (r == -EALREADY)
		api_reply_error(ask_take(k), 409, "over", NULL, "%s", err.msg);
	else
		ask_fail(k, &err);
}

void v1_ask_answer(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), answer);
}
