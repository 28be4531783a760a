/* SPDX-License-Identifier: Apache-2.0 */

/*
 * http://bawn.internal/: what an agent may know about its own sandbox, and where it asks for more.
 * Nothing in here is secret to the box: its own policy, its own use, its own refusals.
 */
#include "base/mem.h"
#include "base/text.h"
#include "egress/egress_impl.h"

#include <jansson.h>
#include <stdio.h>

static const char *action_name(enum policy_action a)
{
	static const char *const names[] = {
		[POLICY_DENY] = "deny", [POLICY_ALLOW] = "allow", [POLICY_ASK] = "ask"};

	return names[a];
}

/* ---- as JSON ---- */

static json_t *texts(const struct strv *s)
{
	json_t *a = json_array();

	for (size_t i = 0; i < s->n; i++)
		json_array_append_new(a, json_string(s->v[i]));
	return a;
}

static json_t *hosts_json(const struct policy_rule *r)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->hosts_n; i++) {
		const struct policy_host *h = &r->hosts[i];

		if (h->kind == POLICY_HOST_ANY)
			json_array_append_new(a, json_string("*"));
		else
			json_array_append_new(
				a, json_sprintf("%s%s", h->kind == POLICY_HOST_SUFFIX ? "*." : "",
					   h->name));
	}
	return a;
}

static json_t *ports_json(const struct policy_rule *r)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->ports_n; i++) {
		const struct policy_ports *p = &r->ports[i];

		json_array_append_new(a, p->first == p->last
						 ? json_sprintf("%u", p->first)
						 : json_sprintf("%u-%u", p->first, p->last));
	}
	return a;
}

static json_t *protocols_json(const struct policy_rule *r)
{
	static const struct {
		unsigned bit;
		const char *name;
	} all[] = {{POLICY_HTTPS, "https"}, {POLICY_HTTP, "http"}, {POLICY_WS, "ws"},
		{POLICY_TCP, "tcp"}};
	json_t *a = json_array();

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (r->protocols & all[i].bit)
			json_array_append_new(a, json_string(all[i].name));
	return a;
}

static json_t *rule_json(const struct policy_rule *r)
{
	json_t *o = json_pack("{s:s, s:s, s:o, s:o}", "rule", r->id, "action",
		action_name(r->action), "hosts", hosts_json(r), "protocols", protocols_json(r));

	if (r->ports_n > 0)
		json_object_set_new(o, "ports", ports_json(r));
	if (r->methods.n > 0)
		json_object_set_new(o, "methods", texts(&r->methods));
	if (r->paths.n > 0)
		json_object_set_new(o, "paths", texts(&r->paths));
	if (r->reason)
		json_object_set_new(o, "reason", json_string(r->reason));
	return o;
}

static json_t *allowed_json(const struct egress_box *b)
{
	const struct policy *p = b->policy;
	json_t *rules = json_array(), *granted = json_array();

	for (size_t i = 0; i < p->rules_n; i++)
		json_array_append_new(rules, rule_json(&p->rules[i]));
	for (size_t i = 0; i < b->standing_n; i++) {
		const struct standing_yes *y = &b->standing[i];

		json_array_append_new(granted, json_pack("{s:s, s:i, s:s}", "host", y->name, "port",
						       y->port, "methods", y->method));
	}
	return json_pack("{s:s, s:s, s:o, s:o}", "policy", p->name ? p->name : "", "otherwise",
		"deny", "rules", rules, "granted", granted);
}

static void put_left(json_t *o, const char *name, uint64_t limit, uint64_t used)
{
	if (limit > 0)
		json_object_set_new(o, name,
			json_pack("{s:I, s:I, s:I}", "limit", (json_int_t)limit, "used",
				(json_int_t)used, "left",
				(json_int_t)(used < limit ? limit - used : 0)));
}

static void put_budget(
	json_t *list, struct egress_box *b, const struct policy_budget *g, const char *rule)
{
	const struct budget_state *s = account_budget(b, g, rule);
	uint64_t age;
	json_t *o;

	if (!s)
		return;
	o = json_object();
	json_object_set_new(o, "of", json_string(*rule ? rule : "everything"));
	put_left(o, "bytes_up", g->bytes_up, s->bytes_up);
	put_left(o, "bytes_down", g->bytes_down, s->bytes_down);
	put_left(o, "requests", g->requests, s->requests);
	age = loop_now_ms(b->engine->loop) - s->since_ms;
	if (g->per_ms > 0)
		json_object_set_new(o, "refilled_in_ms",
			json_integer((json_int_t)(age < g->per_ms ? g->per_ms - age : 0)));
	json_array_append_new(list, o);
}

static json_t *budget_json(struct egress_box *b)
{
	json_t *list = json_array();

	put_budget(list, b, &b->policy->budget, "");
	for (size_t i = 0; i < b->policy->rules_n; i++)
		put_budget(list, b, &b->policy->rules[i].budget, b->policy->rules[i].id);
	return json_pack("{s:o}", "budgets", list);
}

static json_t *violations_json(const struct egress_box *b)
{
	json_t *list = json_array();

	for (size_t i = 0; i < b->violations_n; i++) {
		AUTO_FREE char *text = denial_record_json(&b->violations[i].d);

		json_array_append_new(list, json_loads(text, 0, NULL));
	}
	return json_pack("{s:o}", "violations", list);
}

static json_t *limits_json(const struct egress_box *b)
{
	json_t *o = json_loadb(buf_data(&b->limits_json), buf_len(&b->limits_json), 0, NULL);

	if (!json_is_object(o)) {
		json_decref(o);
		o = json_object();
	}
	if (b->expires_ms > 0)
		json_object_set_new(o, "expires_at_ms", json_integer((json_int_t)b->expires_ms));
	return o;
}

static json_t *all_json(struct egress_box *b)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s}", "sandbox", b->id, "limits",
		limits_json(b), "allowed", allowed_json(b), "budget", budget_json(b), "violations",
		violations_json(b), "request",
		"POST http://" EGRESS_INTERNAL
		"/request {\"host\": …, \"port\": …, \"methods\": […], \"reason\": …}");
}

/* ---- as text ---- */

static void put_list(struct buf *out, const char *what, json_t *list)
{
	json_t *v;
	size_t i;

	if (json_array_size(list) == 0)
		return;
	(void)buf_addf(out, " %s", what);
	json_array_foreach(list, i, v)(void)
		buf_addf(out, "%s%s", i > 0 ? "," : "", json_string_value(v));
}

static void all_text(struct egress_box *b, struct buf *out)
{
	json_t *all = all_json(b), *rules, *rule;
	AUTO_FREE char *limits = json_dumps(json_object_get(all, "limits"), JSON_COMPACT);
	AUTO_FREE char *budgets = json_dumps(
		json_object_get(json_object_get(all, "budget"), "budgets"), JSON_COMPACT);
	size_t i;

	(void)buf_addf(out, "This is sandbox %s.\nLimits: %s\n\n", b->id, limits);
	(void)buf_addf(out, "What may be reached; everything else is denied:\n");
	rules = json_object_get(json_object_get(all, "allowed"), "rules");
	json_array_foreach(rules, i, rule)
	{
		const char *reason = json_string_value(json_object_get(rule, "reason"));

		(void)buf_addf(out, "  %s", json_string_value(json_object_get(rule, "action")));
		put_list(out, "", json_object_get(rule, "hosts"));
		put_list(out, "ports ", json_object_get(rule, "ports"));
		put_list(out, "by ", json_object_get(rule, "protocols"));
		put_list(out, "methods ", json_object_get(rule, "methods"));
		put_list(out, "paths ", json_object_get(rule, "paths"));
		(void)buf_addf(out, " (%s)%s%s\n", json_string_value(json_object_get(rule, "rule")),
			reason ? ": " : "", reason ? reason : "");
	}
	(void)buf_addf(out,
		"\nBudgets: %s\nRefused so far: %zu kinds; see /violations\n\n"
		"/limits /allowed /budget /violations give JSON. To ask for more:\n"
		"  POST /request {\"host\": \"example.com\", \"port\": 443, \"methods\": "
		"[\"GET\"], "
		"\"reason\": \"why\"}\n",
		budgets, b->violations_n);
	json_decref(all);
}

/* ---- asking for more ---- */

static void fail(struct inside_answer *ret, int status, const char *what)
{
	AUTO_FREE char *text = NULL;
	json_t *o = json_pack("{s:{s:s}}", "error", "message", what);

	ret->status = status;
	text = json_dumps(o, JSON_COMPACT);
	(void)buf_addf(&ret->body, "%s\n", text);
	json_decref(o);
}

static bool take_methods(json_t *list, char *out, size_t size)
{
	size_t i, n = 0;
	json_t *v;

	if (!list)
		return true;
	if (!json_is_array(list))
		return false;
	json_array_foreach(list, i, v)
	{
		const char *m = json_string_value(v);

		if (!m || !*m || strspn(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(m) ||
			n + strlen(m) + 2 > size)
			return false;
		n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? "," : "", m);
	}
	return true;
}

static bool take_what(json_t *o, struct denial *what)
{
	const char *host = json_string_value(json_object_get(o, "host"));
	json_t *port = json_object_get(o, "port");
	json_int_t n = port ? json_integer_value(port) : 443;

	if (!host || policy_clean_name(host, strlen(host), what->name) < 0 || n < 1 || n > 65535)
		return false;
	what->port = (uint16_t)n;
	return true;
}

static void request(struct egress_box *b, const char *body, size_t n, struct inside_answer *ret)
{
	json_t *o = json_loadb(body, n, JSON_REJECT_DUPLICATES, NULL);
	const char *reason = json_string_value(json_object_get(o, "reason"));
	struct egress_flow f = {.box = b};
	struct denial what;
	char id[24], note[512] = "";
	struct err err;

	denial_fill(&what, DENIAL_ASK, &f, NULL, NULL, "the agent asks for it");
	if (reason)
		(void)text_quote(reason, note, sizeof(note));
	if (!take_what(o, &what))
		fail(ret, 400,
			"wanted: {\"host\": a name, \"port\": a number, \"methods\": [...], "
			"\"reason\": text}");
	else if (!take_methods(json_object_get(o, "methods"), what.method, sizeof(what.method)))
		fail(ret, 400, "methods: at most three short ones in capitals, or none for all");
	else if (vault_scan_name(what.name))
		fail(ret, 400, "host: this name cannot be asked for");
	else if (ask_note(b, &what, note, id, &err) < 0)
		fail(ret, 429, err.msg);
	else {
		ret->status = 202;
		(void)buf_addf(&ret->body,
			"{\"ask\":\"%s\",\"message\":\"a person was asked; try again when it is "
			"allowed\"}\n",
			id);
	}
	json_decref(o);
}

/* ---- routes ---- */

static void answer_json(struct inside_answer *ret, json_t *take)
{
	AUTO_FREE char *text = json_dumps(take, JSON_INDENT(2));

	json_decref(take);
	ret->status = 200;
	if (!text || buf_addf(&ret->body, "%s\n", text) < 0)
		ret->status = 500;
}

static bool is_path(const char *path, const char *want)
{
	size_t n = strcspn(path, "?#");

	return n == strlen(want) && memcmp(path, want, n) == 0;
}

void inside_answer(struct egress_flow *f, const char *method, const char *path, const char *body,
	size_t body_n, const char *accept, struct inside_answer *ret)
{
	struct egress_box *b = f->box;

	*ret = (struct inside_answer){.type = "application/json"};
	if (is_path(path, "/request")) {
		if (strcmp(method, "POST") == 0)
			request(b, body, body_n, ret);
		else
			fail(ret, 405, "POST it");
		return;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		fail(ret, 405, "GET it");
	} else if (is_path(path, "/limits")) {
		answer_json(ret, limits_json(b));
	} else if (is_path(path, "/allowed")) {
		answer_json(ret, allowed_json(b));
	} else if (is_path(path, "/budget")) {
		answer_json(ret, budget_json(b));
	} else if (is_path(path, "/violations")) {
		answer_json(ret, violations_json(b));
	} else if (!is_path(path, "/")) {
		fail(ret, 404, "there are /, /limits, /allowed, /budget, /violations and /request");
	} else if (accept && strstr(accept, "json")) {
		answer_json(ret, all_json(b));
	} else {
		ret->status = 200;
		ret->type = "text/plain; charset=utf-8";
		all_text(b, &ret->body);
	}
}
