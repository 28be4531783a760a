/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/denial - the words of a refusal. Texts that came from a box are made harmless here: they
 * are cut, and bytes that could drive a terminal or break JSON become '?'.
 */
#include "core/denial.h"

#include "base/mem.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct kind {
	const char *name;
	int status;
	const char *reason;  /* when no rule gives one */
	const char *instead; /* what the agent may do */
};

#define ASK_INSIDE "see http://bawn.internal/allowed, or ask: POST http://bawn.internal/request"

static const struct kind kinds[] = {
	[DENIAL_NO_RULE] = {"no_rule", 403, "no rule allows it", ASK_INSIDE},
	[DENIAL_RULE] = {"rule", 403, "a rule of the profile denies it",
		"do without it; " ASK_INSIDE},
	[DENIAL_FLOOR] = {"floor", 403, "the operator's floor does not allow it",
		"do without it; only the operator of this machine can change that"},
	[DENIAL_ADDRESS] = {"address", 403, "the name leads to an address that is not public",
		"a rule must name that address or network for it to be reached"},
	[DENIAL_MISMATCH] = {"mismatch", 421, "the request names another host than the connection",
		"connect to the host that the request is for"},
	[DENIAL_PROTOCOL] = {"protocol", 403, "it is not spoken in a way that a rule allows",
		"use HTTPS or HTTP with the host's name in it, or have a rule with protocol tcp"},
	[DENIAL_BUDGET] = {"budget", 429, "its budget is used up",
		"see http://bawn.internal/budget for what is left and when there is more"},
	[DENIAL_PLACEHOLDER] = {"placeholder", 403,
		"a credential's placeholder stands where the credential does not belong",
		"send it only to the hosts and in the place it is bound to"},
	[DENIAL_ASK] = {"ask", 403, "nobody approved it", "go on without it, or try again later"},
	[DENIAL_MALFORMED] = {"malformed", 400, "it is not a well-formed request",
		"send one request that can be read in one way only"},
	[DENIAL_UPSTREAM] = {"upstream", 502, "the host could not be reached",
		"check the name, or try again later"},
	[DENIAL_LIMIT] = {"limit", 429, "too many connections at once",
		"close some, or try again later"},
};
_Static_assert(sizeof(kinds) / sizeof(kinds[0]) == DENIAL_KIND_COUNT, "a row for each kind");

const char *denial_kind_name(enum denial_kind k)
{
	return kinds[k].name;
}

int denial_status(enum denial_kind k)
{
	return kinds[k].status;
}

enum denial_kind denial_kind_of(const struct policy_answer *a)
{
	if (a->by_floor)
		return DENIAL_FLOOR;
	return a->rule ? DENIAL_RULE : DENIAL_NO_RULE;
}

static void join(char *out, size_t size, const struct strv *words)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < words->n && n < size; i++) {
		int k = snprintf(out + n, size - n, "%s%s", i ? ", " : "", words->v[i]);

		n += k > 0 ? (size_t)k : 0;
	}
}

void denial_near(struct denial *d, const struct policy *p, const struct policy_question *q)
{
	const struct policy_rule *r =
		d->kind == DENIAL_NO_RULE && !d->reason[0] ? policy_near(p, q) : NULL;
	char methods[80], paths[120];

	if (!r)
		return;
	join(methods, sizeof(methods), &r->methods);
	join(paths, sizeof(paths), &r->paths);
	(void)snprintf(d->reason, sizeof(d->reason), "rule %s allows%s%s%s%s%s%s%s", r->id,
		methods[0] ? " only " : "", methods, paths[0] ? " only at " : "", paths,
		r->programs.n ? " some programs only" : "", r->reason ? "; " : "",
		r->reason ? r->reason : "");
}

void denial_explain(struct denial *d)
{
	if (!d->reason[0])
		(void)snprintf(d->reason, sizeof(d->reason), "%s", kinds[d->kind].reason);
	if (!d->instead[0])
		(void)snprintf(d->instead, sizeof(d->instead), "%s", kinds[d->kind].instead);
}

/* A text as JSON and a terminal can take it; out has room for all of it. */
static const char *harmless(const char *s, char *out, size_t out_size)
{
	size_t n = strnlen(s, out_size - 1);

	memcpy(out, s, n);
	out[n] = '\0';
	if (text_is_line(out))
		return out;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)out[i];

		if (c < 0x20 || c >= 0x7f)
			out[i] = '?';
	}
	return out;
}

/* "GET https://pypi.org/x", "pypi.org:22", "https://pypi.org:8443". */
static void target(const struct denial *d, char *out, size_t size)
{
	bool is_web = strcmp(d->protocol, "https") == 0 || strcmp(d->protocol, "http") == 0 ||
		      strcmp(d->protocol, "ws") == 0;
	bool is_default = (strcmp(d->protocol, "https") == 0 && d->port == 443) ||
			  (strcmp(d->protocol, "http") == 0 && d->port == 80);
	bool is_six = strchr(d->name, ':') != NULL;
	char port[8] = "";

	if (d->port && !is_default)
		(void)snprintf(port, sizeof(port), ":%u", d->port);
	(void)snprintf(out, size, "%s%s%s%s%s%s%s%s%s%s", d->method, d->method[0] ? " " : "",
		is_web ? d->protocol : "", is_web ? "://" : "", is_six ? "[" : "", d->name,
		is_six ? "]" : "", port, d->path, strcmp(d->protocol, "dns") == 0 ? " (name)" : "");
}

void denial_text(const struct denial *d, char out[DENIAL_TEXT_MAX])
{
	struct denial full = *d;
	char what[640], text[2 * DENIAL_TEXT_MAX];

	denial_explain(&full);
	target(&full, what, sizeof(what));
	(void)snprintf(text, sizeof(text), "%s %s%s%s: %s; %s", what,
		d->kind == DENIAL_UPSTREAM ? "failed" : "refused", d->rule[0] ? " by rule " : "",
		d->rule, full.reason, full.instead);
	(void)harmless(text, out, DENIAL_TEXT_MAX);
}

static void put(json_t *o, const char *key, const char *s)
{
	char safe[DENIAL_TEXT_MAX];

	if (s[0] && json_object_set_new(
			    o, key, mem_must(json_string(harmless(s, safe, sizeof(safe))))) < 0)
		abort();
}

static void put_number(json_t *o, const char *key, uint64_t n)
{
	if (n && json_object_set_new(o, key, mem_must(json_integer((json_int_t)n))) < 0)
		abort();
}

static json_t *facts(const struct denial *d)
{
	struct denial full = *d;
	json_t *o = mem_must(json_object()), *steps = mem_must(json_array());
	char text[DENIAL_TEXT_MAX];

	denial_explain(&full);
	denial_text(d, text);
	put(o, "code", d->kind == DENIAL_UPSTREAM ? "egress_failed" : "egress_denied");
	put(o, "kind", kinds[d->kind].name);
	put(o, "message", text);
	put(o, "host", d->name);
	put_number(o, "port", d->port);
	put(o, "protocol", d->protocol);
	put(o, "method", d->method);
	put(o, "path", d->path);
	put(o, "rule", d->rule);
	put(o, "reason", full.reason);
	if (json_array_append_new(
		    steps, mem_must(json_string(harmless(full.instead, text, sizeof(text))))) < 0 ||
		json_object_set_new(o, "next_steps", steps) < 0)
		abort();
	return o;
}

static char *dump(json_t *take)
{
	char *s = mem_must(json_dumps(take, JSON_COMPACT));

	json_decref(take);
	return s;
}

char *denial_json(const struct denial *d)
{
	json_t *o = mem_must(json_object());

	if (json_object_set_new(o, "error", facts(d)) < 0)
		abort();
	return dump(o);
}

char *denial_record_json(const struct denial *d)
{
	json_t *o = facts(d);

	put_number(o, "at_ms", d->at_ms);
	put_number(o, "count", d->count);
	return dump(o);
}

static void take(json_t *o, const char *key, char *out, size_t size)
{
	const char *s = json_string_value(json_object_get(o, key));

	(void)snprintf(out, size, "%s", s ? s : "");
}

static uint64_t take_number(json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? (uint64_t)n : 0;
}

static int find_kind(const char *name, enum denial_kind *ret)
{
	for (int i = 0; name && i < DENIAL_KIND_COUNT; i++) {
		if (strcmp(kinds[i].name, name) == 0) {
			*ret = (enum denial_kind)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int read_denial(json_t *o, struct denial *ret, struct err *err)
{
	struct denial d = {0};
	json_t *inner = json_object_get(o, "error");
	uint64_t port;

	if (json_is_object(inner))
		o = inner;
	if (find_kind(json_string_value(json_object_get(o, "kind")), &d.kind) < 0)
		return err_set(err, EINVAL, "a denial needs a kind that we know");
	port = take_number(o, "port");
	if (port > UINT16_MAX)
		return err_set(err, EINVAL, "a denial's port is not one");
	d.port = (uint16_t)port;
	take(o, "host", d.name, sizeof(d.name));
	take(o, "protocol", d.protocol, sizeof(d.protocol));
	take(o, "method", d.method, sizeof(d.method));
	take(o, "path", d.path, sizeof(d.path));
	take(o, "rule", d.rule, sizeof(d.rule));
	take(o, "reason", d.reason, sizeof(d.reason));
	(void)snprintf(d.instead, sizeof(d.instead), "%s",
		json_is_string(json_array_get(json_object_get(o, "next_steps"), 0))
			? json_string_value(json_array_get(json_object_get(o, "next_steps"), 0))
			: "");
	d.at_ms = take_number(o, "at_ms");
	d.count = take_number(o, "count");
	*ret = d;
	return 0;
}

int denial_from_json(const char *json, size_t n, struct denial *ret, struct err *err)
{
	json_error_t why;
	json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &why);
	int r;

	if (!root)
		return err_set(err, EINVAL, "denial: not JSON: %s", why.text);
	r = read_denial(root, ret, err);
	json_decref(root);
	return r;
}
