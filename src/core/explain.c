/* SPDX-License-Identifier: Apache-2.0 */

#include "core/explain.h"

#include "base/mem.h"
#include "core/denial.h"
#include "core/policy_build.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int refuse(const char *target, struct err *err)
{
	char quoted[100];

	return err_set(err, EINVAL,
		"'%s' is not accepted; accepted: https://HOST[:PORT][/PATH], http://, ws://, "
		"wss://, "
		"tcp://HOST:PORT, HOST[:PORT][/PATH]",
		text_quote(target, quoted, sizeof(quoted)));
}

static const struct {
	const char *prefix;
	unsigned protocol;
	uint16_t port;
} schemes[] = {
	{"https://", POLICY_HTTPS, 443},
	{"http://", POLICY_HTTP, 80},
	{"wss://", POLICY_HTTPS | POLICY_WS, 443},
	{"ws://", POLICY_HTTP | POLICY_WS, 80},
	{"tcp://", POLICY_TCP, 0},
};

/* "host", "host:port", "[v6]:port", "v6": *ret_port stays as it is without one. */
static bool parse_authority(const char *s, size_t n, struct explain_target *t)
{
	struct policy_rule scratch = {0};
	struct err ignored = {0};
	const char *colon = memrchr(s, ':', n);
	size_t host = n;
	char port[8];
	bool is_bracketed = n > 1 && s[0] == '[';

	if (address_parse(s, n, &t->addr))
		return true;
	if (is_bracketed && s[n - 1] == ']')
		return address_parse(s + 1, n - 2, &t->addr);
	if (colon) {
		size_t digits = n - (size_t)(colon - s) - 1;

		host = (size_t)(colon - s);
		if (digits == 0 || digits >= sizeof(port))
			return false;
		(void)snprintf(port, sizeof(port), "%.*s", (int)digits, colon + 1);
		if (strchr(port, '-') || policy_rule_port(&scratch, port, &ignored) < 0)
			return false;
		t->port = scratch.ports[0].first;
		policy_rule_done(&scratch);
	}
	if (is_bracketed)
		return host > 2 && s[host - 1] == ']' && address_parse(s + 1, host - 2, &t->addr);
	return address_parse(s, host, &t->addr) || policy_clean_name(s, host, t->name) == 0;
}

static void guess_protocol(struct explain_target *t, bool has_path)
{
	if (t->protocol)
		return;
	if (t->port == 80)
		t->protocol = POLICY_HTTP;
	else if (t->port == 0 || t->port == 443 || has_path)
		t->protocol = POLICY_HTTPS;
	else
		t->protocol = POLICY_TCP;
}

int explain_parse(
	const char *method, const char *target, struct explain_target *ret, struct err *err)
{
	struct explain_target t = {0};
	struct policy_rule scratch = {0};
	const char *rest = target;
	size_t authority, path;
	uint16_t fallback = 443;
	int r = 0;

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (strncasecmp(target, schemes[i].prefix, strlen(schemes[i].prefix)) == 0) {
			t.protocol = schemes[i].protocol;
			fallback = schemes[i].port;
			rest = target + strlen(schemes[i].prefix);
			break;
		}
	}
	authority = strcspn(rest, "/?#");
	path = strcspn(rest + authority, "?#");
	if (!parse_authority(rest, authority, &t) || path >= sizeof(t.path) || !text_is_line(rest))
		return refuse(target, err);
	guess_protocol(&t, path > 0);
	if (t.port == 0)
		t.port = fallback;
	if (t.port == 0)
		return refuse(target, err);
	*ret = t;
	if (t.protocol == POLICY_TCP) {
		if (path > 0 || method)
			return refuse(target, err);
		return 0;
	}
	(void)snprintf(ret->path, sizeof(ret->path), "%.*s", path ? (int)path : 1,
		path ? rest + authority : "/");
	r = policy_rule_method(&scratch, method ? method : "GET", err);
	if (r >= 0)
		(void)snprintf(ret->method, sizeof(ret->method), "%s", scratch.methods.v[0]);
	policy_rule_done(&scratch);
	return r;
}

static struct policy_question question(const struct explain_target *t, const char *program)
{
	return (struct policy_question){
		.name = t->name[0] ? t->name : NULL,
		.addr = t->name[0] ? NULL : &t->addr,
		.port = t->port,
		.protocol = t->protocol,
		.method = t->method[0] ? t->method : NULL,
		.path = t->path[0] ? t->path : NULL,
		.program = program,
	};
}

static void fill_denial(struct denial *d, const struct explain_target *t, const struct policy *p,
	const struct policy_question *q, const struct policy_answer *a)
{
	*d = (struct denial){.kind = denial_kind_of(a), .port = t->port};
	if (t->name[0])
		(void)snprintf(d->name, sizeof(d->name), "%s", t->name);
	else
		address_format(&t->addr, d->name);
	(void)snprintf(d->protocol, sizeof(d->protocol), "%s", policy_protocol_name(t->protocol));
	(void)snprintf(d->method, sizeof(d->method), "%.15s", t->method);
	(void)snprintf(d->path, sizeof(d->path), "%.255s", t->path);
	if (a->rule)
		(void)snprintf(d->rule, sizeof(d->rule), "%s", a->rule->id);
	if (a->rule && a->rule->reason)
		(void)snprintf(d->reason, sizeof(d->reason), "%s", a->rule->reason);
	denial_near(d, p, q);
}

static void target_text(const struct explain_target *t, char *out, size_t size)
{
	char host[ADDRESS_TEXT_MAX + 2], plain[ADDRESS_TEXT_MAX];
	const char *scheme = t->protocol & POLICY_WS ? (t->protocol & POLICY_HTTPS ? "wss" : "ws")
						     : policy_protocol_name(t->protocol);

	if (!t->name[0]) {
		address_format(&t->addr, plain);
		(void)snprintf(host, sizeof(host), t->addr.family == 6 ? "[%s]" : "%s", plain);
	}
	(void)snprintf(out, size, "%s%s%s://%s:%u%s", t->method, t->method[0] ? " " : "", scheme,
		t->name[0] ? t->name : host, t->port, t->path);
}

/* What "yes" comes with. */
static const char *conditions(const struct policy_answer *a)
{
	if (a->rule && a->rule->bindings_n > 0)
		return "; looked into, credentials go in";
	return a->must_intercept ? "; looked into" : "";
}

void explain_decide(const struct policy *p, const struct explain_target *t, const char *program,
	struct explain_answer *ret)
{
	struct policy_question q = question(t, program);
	struct policy_answer *a = &ret->decision;
	struct denial d;
	char what[1400];

	*ret = (struct explain_answer){0};
	policy_decide(p, &q, a);
	target_text(t, what, sizeof(what));
	if (a->needs) {
		ret->verdict = "depends";
		(void)snprintf(ret->text, sizeof(ret->text), "%.900s depends on %s", what,
			a->needs == POLICY_NEEDS_ADDRESS
				? "where the name leads: a rule denies some addresses"
				: "the program that asks");
	} else if (a->action == POLICY_DENY) {
		ret->verdict = "deny";
		fill_denial(&d, t, p, &q, a);
		denial_text(&d, ret->text);
	} else {
		ret->verdict = policy_action_name(a->action);
		(void)snprintf(ret->text, sizeof(ret->text), "%.800s %s by rule %s%s", what,
			a->action == POLICY_ASK ? "is asked about" : "allowed", a->rule->id,
			conditions(a));
	}
}

static void put(json_t *o, const char *key, json_t *take_value)
{
	if (json_object_set_new(o, key, mem_must(take_value)) < 0)
		abort();
}

static json_t *needs_json(unsigned needs)
{
	static const char *const names[] = {"port", "protocol", "request", "program", "address"};
	json_t *list = mem_must(json_array());

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if ((needs >> i & 1) && json_array_append_new(list, json_string(names[i])) < 0)
			abort();
	}
	return list;
}

static json_t *budget_json(const struct policy_budget *b)
{
	json_t *o = mem_must(json_object());

	put(o, "bytes_up", json_integer((json_int_t)b->bytes_up));
	put(o, "bytes_down", json_integer((json_int_t)b->bytes_down));
	put(o, "requests", json_integer((json_int_t)b->requests));
	put(o, "per_ms", json_integer((json_int_t)b->per_ms));
	return o;
}

static json_t *credentials_json(const struct policy *p, const struct policy_rule *r)
{
	json_t *list = mem_must(json_array());

	for (size_t i = 0; r && i < r->bindings_n; i++) {
		if (json_array_append_new(list, json_string(p->bindings[r->bindings[i]].secret)) <
			0)
			abort();
	}
	return list;
}

char *explain_json(const struct policy *p, const struct explain_target *t, const char *program)
{
	json_t *o = mem_must(json_object());
	struct explain_answer e;
	const struct policy_rule *rule;
	char what[1400];
	char *text;

	explain_decide(p, t, program, &e);
	rule = e.decision.rule;
	target_text(t, what, sizeof(what));
	put(o, "verdict", json_string(e.verdict));
	put(o, "target", json_string(what));
	put(o, "message", json_string(e.text));
	put(o, "profile", json_string(p->name));
	put(o, "digest", json_string(p->digest));
	put(o, "rule", rule ? json_string(rule->id) : json_null());
	put(o, "reason", rule && rule->reason ? json_string(rule->reason) : json_null());
	put(o, "by_floor", json_boolean(e.decision.by_floor));
	put(o, "intercepted", json_boolean(e.decision.must_intercept));
	put(o, "credentials", credentials_json(p, rule));
	if (rule)
		put(o, "budget", budget_json(&rule->budget));
	put(o, "needs", needs_json(e.decision.needs));
	text = mem_must(json_dumps(o, JSON_COMPACT));
	json_decref(o);
	return text;
}
