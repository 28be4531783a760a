/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is known of one sandbox: its walls, why things are as they are, what it used, what
 * happened in it.
 */
#include "api/usage.h"
#include "api/v1/v1.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/explain.h"

#include <string.h>

#define EVENTS_PAGE 1000

/* ---- walls ---- */

/* What was stored says which and how; what each one is for is the table's to say. */
static json_t *walls_of(const struct store_sandbox *row)
{
	json_t *stored = *row->walls ? json_loads(row->walls, 0, NULL) : NULL;
	json_t *list = json_array();

	for (int i = 0; i < WALL_COUNT; i++) {
		const char *name = wall_name((enum wall)i);
		json_t *w = json_object_get(stored, name);

		if (!json_is_object(w))
			continue;
		w = json_deep_copy(w);
		(void)json_object_set_new(w, "name", json_string(name));
		(void)json_object_set_new(w, "stops", json_string(wall_about((enum wall)i)));
		(void)json_array_append_new(list, w);
	}
	json_decref(stored);
	return list;
}

void v1_sandbox_walls(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_sandbox row = {0};
	struct err err = {0};

	if (v1_row(a, &m->caller, m->params[0], &row, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(
		r, 200, json_pack("{s:s, s:o}", "sandbox_id", row.id, "walls", walls_of(&row)));
	store_sandbox_done(&row);
}

/* ---- explain: one answer shape for every question ---- */

static json_t *explained(
	const char *subject, const char *verdict, const char *because, const char *next)
{
	return json_pack("{s:s, s:s, s:o, s:s?}", "subject", subject, "verdict", verdict, "because",
		v1_text(because), "next", next);
}

static json_t *explain_wall(const struct store_sandbox *row, enum wall w)
{
	json_t *stored = *row->walls ? json_loads(row->walls, 0, NULL) : NULL;
	json_t *one = json_object_get(stored, wall_name(w));
	const char *verdict = json_string_value(json_object_get(one, "enforced"));
	const char *detail = json_string_value(json_object_get(one, "detail"));
	bool is_missing = verdict && strcmp(verdict, "missing") == 0;
	AUTO_FREE char *because = text_format("%s%s%s", wall_about(w),
		detail && *detail ? "; read back: " : "", detail ? detail : "");
	json_t *o = explained(wall_name(w), verdict ? verdict : "unknown", because,
		is_missing ? wall_remedy(w) : NULL);

	json_decref(stored);
	return o;
}

static json_t *explain_end(const struct store_sandbox *row)
{
	static const struct {
		const char *because, *next;
	} texts[SANDBOX_REASON_COUNT] = {
		[SANDBOX_NO_REASON] = {"it is as it was asked to be", NULL},
		[SANDBOX_KILLED] = {"somebody with a key of its tenant ended it",
			"the events say who"},
		[SANDBOX_TTL] = {"its time was up", "ask for a longer 'timeout_ms', or extend it "
						    "with POST …/timeout while it runs"},
		[SANDBOX_IDLE] = {"nobody used it for its idle timeout",
			"ask for a longer 'idle_timeout_ms'"},
		[SANDBOX_GUEST_GONE] = {"its first process ended by itself", "POST …/recover"},
		[SANDBOX_OOM] = {"it used more memory than its limit, and the kernel ended it",
			"ask for more 'memory_bytes', then POST …/recover"},
		[SANDBOX_HOST_REBOOT] = {"the machine was restarted", "POST …/recover"},
		[SANDBOX_NOT_MADE] = {"it could not be made", "POST …/recover once the cause in "
							      "'message' is gone"},
		[SANDBOX_NOT_ANSWERED] = {"the server or its client went away before the create "
					  "was answered",
			"create it again, with an Idempotency-Key"},
		[SANDBOX_SHUTDOWN] = {"the server was ended with --kill-on-exit", NULL},
	};

	return explained("state", sandbox_state_name(row->state),
		*row->message ? row->message : texts[row->reason].because, texts[row->reason].next);
}

/* "pypi.org:443/simple/", "POST https://…": would its policy of now let it? Nothing is tried. */
static int explain_network(
	const struct store_sandbox *row, const char *what, json_t *list, struct err *err)
{
	AUTO(policy_unref) struct policy *policy = NULL;
	AUTO_FREE char *subject = text_format("network %s", what), *json = NULL, *method = NULL;
	const char *space = strchr(what, ' ');
	struct explain_target target;
	struct explain_answer answer;
	json_t *o;
	int r;

	if (space)
		method = text_format("%.*s", (int)(space - what), what);
	r = explain_parse(method, space ? space + 1 : what, &target, err);
	if (r >= 0)
		r = policy_from_json(row->policy, strlen(row->policy), &policy, err);
	if (r < 0)
		return r;
	explain_decide(policy, &target, NULL, &answer);
	json = explain_json(policy, &target, NULL);
	o = explained(subject,
		strcmp(answer.verdict, "deny") == 0    ? "denied"
		: strcmp(answer.verdict, "allow") == 0 ? "allowed"
						       : answer.verdict,
		answer.text,
		strcmp(answer.verdict, "deny") == 0 ? "PATCH …/network changes what it may reach"
						    : NULL);
	(void)json_object_set_new(o, "network", json_loads(json, 0, NULL));
	(void)json_array_append_new(list, o);
	return 0;
}

void v1_sandbox_explain(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_sandbox row = {0};
	struct err err = {0};
	char name[64] = "", network[1400] = "";
	enum wall w = WALL_USER;
	json_t *list = NULL;
	int q = v1_row(a, &m->caller, m->params[0], &row, &err);

	if (q == 0 && (!v1_query(r, "wall", "", name, sizeof(name)) ||
			      !v1_query(r, "network", "", network, sizeof(network))))
		q = err_set(&err, EINVAL, "'wall' or 'network' is malformed");
	if (q == 0 && *name)
		q = wall_parse(name, &w, &err);
	list = mem_must(json_array());
	if (q == 0 && *network)
		q = explain_network(&row, network, list, &err);
	if (q < 0) {
		json_decref(list);
		store_sandbox_done(&row);
		api_reply_err(r, &err);
		return;
	}
	if (*name)
		(void)json_array_append_new(list, explain_wall(&row, w));
	if (!*name && !*network) {
		(void)json_array_append_new(list, explain_end(&row));
		for (int i = 0; i < WALL_COUNT; i++)
			(void)json_array_append_new(list, explain_wall(&row, (enum wall)i));
	}
	api_reply_json(r, 200, json_pack("{s:s, s:o}", "sandbox_id", row.id, "explanations", list));
	store_sandbox_done(&row);
}

/* ---- metrics ---- */

static int add_sample(const struct usage_sample *s, void *arg)
{
	json_t *o = json_pack("{s:o, s:f, s:I}", "at", v1_time(s->at_ms), "cpu_percent",
		s->cpu_percent, "cpu_us", (json_int_t)s->cpu_us);

	if (s->has_memory)
		(void)json_object_set_new(o, "memory_bytes", json_integer((json_int_t)s->memory));
	if (s->has_disk)
		(void)json_object_set_new(o, "disk_bytes", json_integer((json_int_t)s->disk));
	(void)json_array_append_new(arg, o);
	return 0;
}

static void measured(struct sandbox *sb, void *arg)
{
	struct ask *k = arg;
	struct err err = {0};
	json_t *samples;

	if (!sb || !k->r) {
		(void)err_set(&err, ENOENT, "the sandbox has ended");
		ask_fail(k, &err);
		return;
	}
	samples = json_array();
	(void)usage_each(sb, add_sample, samples);
	ask_reply(k, 200,
		json_pack("{s:s, s:f, s:I, s:I, s:o}", "sandbox_id", sb->row.id, "cpus",
			(double)sb->row.cpu_milli / 1000.0, "memory_limit_bytes",
			(json_int_t)sb->row.memory_max, "disk_limit_bytes",
			(json_int_t)sb->row.disk_max, "samples", samples));
}

/* The sample is taken all the same; its callback finds that there is nobody to tell. */
static void asker_gone(struct http_request *r)
{
	((struct ask *)r->state)->r = NULL;
}

void v1_sandbox_metrics(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct sandbox *sb = v1_sandbox(a, r, &m->caller, m->params[0]);

	if (!sb)
		return;
	(void)ask_new(a, r, m);
	r->gone = asker_gone;
	usage_take(sb, measured, r->state);
}

/* ---- logs: what happened in it ---- */

static int add_event(const struct store_event *e, void *arg)
{
	(void)json_array_append_new(arg, v1_event_json(e));
	return 0;
}

void v1_sandbox_logs(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_sandbox row = {0};
	struct err err = {0};
	uint64_t after = 0, limit = EVENTS_PAGE;
	json_t *list = mem_must(json_array());
	int q = v1_row(a, &m->caller, m->params[0], &row, &err);

	if (q == 0)
		q = v1_query_u64(r, "after", INT64_MAX, &after, &err);
	if (q == 0)
		q = v1_query_u64(r, "limit", EVENTS_PAGE, &limit, &err);
	if (q == 0)
		q = store_event_each(a->store, m->caller.tenant, row.id, (int64_t)after, limit,
			add_event, list, &err);
	store_sandbox_done(&row);
	if (q < 0) {
		json_decref(list);
		api_reply_err(r, &err);
		return;
	}
	api_reply_json(r, 200, json_pack("{s:o}", "events", list));
}
