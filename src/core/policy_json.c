/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/policy_json - a policy as canonical JSON, and back.
 *
 * Fields that say nothing are left out, so that one policy has one text. Strict: an unknown field
 * is an error, since it would be a limit that nobody keeps.
 */
#include "core/policy_build.h"

#include "base/mem.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static void put(json_t *o, const char *key, json_t *take_value)
{
	mem_must(take_value);
	if (json_object_set_new(o, key, take_value) < 0)
		abort();
}

static void put_text(json_t *o, const char *key, const char *s)
{
	if (s)
		put(o, key, json_string(s));
}

static void put_number(json_t *o, const char *key, uint64_t n)
{
	if (n > 0)
		put(o, key, json_integer((json_int_t)n));
}

static void push(json_t *list, json_t *take_value)
{
	mem_must(take_value);
	if (json_array_append_new(list, take_value) < 0)
		abort();
}

static void put_list(json_t *o, const char *key, json_t *take_list)
{
	if (json_array_size(take_list) > 0)
		put(o, key, take_list);
	else
		json_decref(take_list);
}

static void put_strv(json_t *o, const char *key, const struct strv *s)
{
	json_t *list = mem_must(json_array());

	for (size_t i = 0; i < s->n; i++)
		push(list, json_string(s->v[i]));
	put_list(o, key, list);
}

static void put_budget(json_t *o, const struct policy_budget *b)
{
	json_t *budget = mem_must(json_object());

	put_number(budget, "bytes_up", b->bytes_up);
	put_number(budget, "bytes_down", b->bytes_down);
	put_number(budget, "requests", b->requests);
	put_number(budget, "per_ms", b->per_ms);
	if (json_object_size(budget) > 0)
		put(o, "budget", budget);
	else
		json_decref(budget);
}

static json_t *hosts_json(const struct policy_rule *r)
{
	json_t *list = mem_must(json_array());
	char text[POLICY_NAME_MAX + 8];

	for (size_t i = 0; i < r->hosts_n; i++) {
		policy_host_format(&r->hosts[i], text);
		push(list, json_string(text));
	}
	return list;
}

static json_t *rule_json(const struct policy_rule *r)
{
	json_t *o = mem_must(json_object());
	json_t *ports = mem_must(json_array()), *protocols = mem_must(json_array());
	json_t *bindings = mem_must(json_array());
	char text[16];

	put_text(o, "id", r->id);
	put_text(o, "action", policy_action_name(r->action));
	if (r->is_approved)
		put(o, "approved", json_true());
	put_text(o, "reason", r->reason);
	put_list(o, "hosts", hosts_json(r));
	for (size_t i = 0; i < r->ports_n; i++) {
		policy_ports_format(&r->ports[i], text);
		push(ports, json_string(text));
	}
	put_list(o, "ports", ports);
	for (unsigned bit = 1; bit <= POLICY_TCP; bit <<= 1) {
		if (r->protocols & bit)
			push(protocols, json_string(policy_protocol_name(bit)));
	}
	put_list(o, "protocols", protocols);
	put_strv(o, "methods", &r->methods);
	put_strv(o, "paths", &r->paths);
	put_strv(o, "programs", &r->programs);
	put_budget(o, &r->budget);
	for (size_t i = 0; i < r->bindings_n; i++)
		push(bindings, json_integer((json_int_t)r->bindings[i]));
	put_list(o, "credentials", bindings);
	return o;
}

static json_t *binding_json(const struct policy_binding *b)
{
	json_t *o = mem_must(json_object());

	put_text(o, "secret", b->secret);
	put_text(o, policy_place_name(b->place), b->field);
	put_text(o, "format", b->format);
	put_text(o, "env", b->env);
	put_text(o, "file", b->file);
	return o;
}

char *policy_to_json(const struct policy *p)
{
	json_t *o = mem_must(json_object());
	json_t *rules = mem_must(json_array()), *floor = mem_must(json_array());
	json_t *bindings = mem_must(json_array());
	char *text;

	put_text(o, "name", p->name);
	put_number(o, "ask_timeout_ms", p->ask_timeout_ms);
	put_budget(o, &p->budget);
	for (size_t i = 0; i < p->rules_n; i++)
		push(rules, rule_json(&p->rules[i]));
	put(o, "rules", rules);
	for (size_t i = 0; i < p->floor_n; i++)
		push(floor, rule_json(&p->floor[i]));
	put_list(o, "floor", floor);
	for (size_t i = 0; i < p->bindings_n; i++)
		push(bindings, binding_json(&p->bindings[i]));
	put_list(o, "credentials", bindings);
	text = mem_must(json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT));
	json_decref(o);
	return text;
}

/* ---- reading */

static int unknown(struct err *err, const char *key)
{
	char quoted[64];

	return err_set(err, EINVAL, "unknown field '%s'", text_quote(key, quoted, sizeof(quoted)));
}

static int want_text(json_t *v, const char *key, const char **ret, struct err *err)
{
	*ret = json_string_value(v);
	if (!*ret)
		return err_set(err, EINVAL, "'%s' must be a string", key);
	return 0;
}

static int want_number(json_t *v, const char *key, uint64_t *ret, struct err *err)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return err_set(err, EINVAL, "'%s' must be a whole number", key);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int read_budget(json_t *v, struct policy_budget *ret, struct err *err)
{
	const char *key;
	json_t *n;
	int q = 0;

	if (!json_is_object(v))
		return err_set(err, EINVAL, "'budget' must be an object");
	for (void *it = json_object_iter(v); q >= 0 && it; it = json_object_iter_next(v, it)) {
		key = json_object_iter_key(it);
		n = json_object_iter_value(it);
		if (strcmp(key, "bytes_up") == 0)
			q = want_number(n, key, &ret->bytes_up, err);
		else if (strcmp(key, "bytes_down") == 0)
			q = want_number(n, key, &ret->bytes_down, err);
		else if (strcmp(key, "requests") == 0)
			q = want_number(n, key, &ret->requests, err);
		else if (strcmp(key, "per_ms") == 0)
			q = want_number(n, key, &ret->per_ms, err);
		else
			q = unknown(err, key);
	}
	return q;
}

typedef int (*rule_text_fn)(struct policy_rule *r, const char *s, struct err *err);

static const struct {
	const char *key;
	rule_text_fn take;
	bool is_list;
} rule_fields[] = {
	{"action", policy_rule_action, false},
	{"reason", policy_rule_reason, false},
	{"hosts", policy_rule_host, true},
	{"ports", policy_rule_port, true},
	{"protocols", policy_rule_protocol, true},
	{"methods", policy_rule_method, true},
	{"paths", policy_rule_path, true},
	{"programs", policy_rule_program, true},
};

static int read_texts(struct policy_rule *r, size_t field, json_t *v, struct err *err)
{
	const char *key = rule_fields[field].key, *s = NULL;
	size_t n = json_array_size(v);
	int q = 0;

	if (!rule_fields[field].is_list) {
		q = want_text(v, key, &s, err);
		return q < 0 ? q : rule_fields[field].take(r, s, err);
	}
	if (!json_is_array(v))
		return err_set(err, EINVAL, "'%s' must be a list", key);
	for (size_t i = 0; q >= 0 && i < n; i++) {
		json_t *one = json_array_get(v, i);
		char number[24];

		if (json_is_integer(one)) { /* a port may be written as a number */
			(void)snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
				json_integer_value(one));
			s = number;
		} else {
			q = want_text(one, key, &s, err);
		}
		if (q >= 0)
			q = rule_fields[field].take(r, s, err);
	}
	return q;
}

static int read_place(struct policy_binding *b, const char *key, const char *s, struct err *err)
{
	enum policy_place place;

	if (policy_place_parse(key, &place) < 0)
		return unknown(err, key);
	if (b->field)
		return err_set(err, EINVAL, "a credential has one place, not two");
	b->place = place;
	b->field = mem_strdup(s);
	return 0;
}

static int read_binding(json_t *v, struct policy_binding *b, struct err *err)
{
	int q = 0;

	if (!json_is_object(v))
		return err_set(err, EINVAL, "a credential must be an object");
	for (void *it = json_object_iter(v); q >= 0 && it; it = json_object_iter_next(v, it)) {
		const char *key = json_object_iter_key(it), *s = NULL;
		char **to = strcmp(key, "secret") == 0   ? &b->secret
			    : strcmp(key, "format") == 0 ? &b->format
			    : strcmp(key, "env") == 0    ? &b->env
			    : strcmp(key, "file") == 0   ? &b->file
							 : NULL;

		q = want_text(json_object_iter_value(it), key, &s, err);
		if (q < 0)
			break;
		if (to)
			*to = mem_strdup(s);
		else
			q = read_place(b, key, s, err);
	}
	return q;
}

/* In a rule a credential is the number of one of the policy's, or stands there itself. */
static int read_bindings(json_t *root, json_t *v, struct policy_draft *d, struct err *err)
{
	json_t *all = json_object_get(root, "credentials");
	size_t n = json_array_size(v);

	if (!json_is_array(v) || n > POLICY_BINDINGS_MAX)
		return err_set(err, EINVAL, "'credentials' must be a list of at most %d",
			POLICY_BINDINGS_MAX);
	if (n == 0)
		return 0;
	d->bindings = mem_must(calloc(n, sizeof(*d->bindings)));
	for (size_t i = 0; i < n; i++) {
		json_t *one = json_array_get(v, i);

		if (json_is_integer(one))
			one = json_integer_value(one) < 0
				      ? NULL
				      : json_array_get(all, (size_t)json_integer_value(one));
		d->bindings_n++;
		if (!one)
			return err_set(err, EINVAL, "there is no such credential");
		if (read_binding(one, &d->bindings[i], err) < 0)
			return -err->code;
	}
	return 0;
}

static int read_rule_field(json_t *root, const char *key, json_t *v, struct policy_draft *d,
	const char **ret_id, struct err *err)
{
	if (strcmp(key, "id") == 0)
		return want_text(v, key, ret_id, err);
	if (strcmp(key, "budget") == 0)
		return read_budget(v, &d->rule.budget, err);
	if (strcmp(key, "approved") == 0) {
		d->rule.is_approved = true;
		return json_is_true(v) ? 0 : err_set(err, EINVAL, "'approved' can only be true");
	}
	if (strcmp(key, "credentials") == 0)
		return read_bindings(root, v, d, err);
	for (size_t i = 0; i < sizeof(rule_fields) / sizeof(rule_fields[0]); i++) {
		if (strcmp(key, rule_fields[i].key) == 0)
			return read_texts(&d->rule, i, v, err);
	}
	return unknown(err, key);
}

static int read_rule(struct policy *p, enum policy_list list, json_t *root, json_t *v, size_t at,
	struct err *err)
{
	const char *what = list == POLICY_RULES ? "rules" : "floor";
	AUTO_FREE char *made = text_format("%s/%zu", list == POLICY_RULES ? p->name : what, at + 1);
	struct policy_draft d = {0};
	const char *id = made;
	int q = 0;

	if (!json_is_object(v))
		return err_set(err, EINVAL, "%s[%zu] must be an object", what, at);
	if (!json_object_get(v, "action"))
		q = err_set(err, EINVAL, "'action' is missing");
	for (void *it = json_object_iter(v); q >= 0 && it; it = json_object_iter_next(v, it))
		q = read_rule_field(
			root, json_object_iter_key(it), json_object_iter_value(it), &d, &id, err);
	if (q >= 0)
		q = policy_add_rule(p, list, id, &d, err);
	policy_draft_done(&d);
	return q < 0 ? err_wrap(err, "%s[%zu]", what, at) : 0;
}

static int read_rules(
	struct policy *p, enum policy_list list, json_t *root, const char *key, struct err *err)
{
	json_t *v = json_object_get(root, key);
	size_t n = json_array_size(v);
	int q = 0;

	if (v && !json_is_array(v))
		return err_set(err, EINVAL, "'%s' must be a list", key);
	for (size_t i = 0; q >= 0 && i < n; i++)
		q = read_rule(p, list, root, json_array_get(v, i), i, err);
	return q;
}

static int check_keys(json_t *root, struct err *err)
{
	static const char *const known[] = {
		"ask_timeout_ms", "budget", "credentials", "floor", "name", "rules"};

	for (void *it = json_object_iter(root); it; it = json_object_iter_next(root, it)) {
		const char *key = json_object_iter_key(it);
		size_t i = 0;

		while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], key) != 0)
			i++;
		if (i == sizeof(known) / sizeof(known[0]))
			return unknown(err, key);
	}
	return 0;
}

static int read_policy(json_t *root, struct policy **ret, struct err *err)
{
	AUTO(policy_unref) struct policy *p = NULL;
	json_t *v = json_object_get(root, "name");
	const char *name = json_is_string(v) ? json_string_value(v) : "policy";
	int q;

	if (!json_is_object(root))
		return err_set(err, EINVAL, "a policy must be an object");
	q = check_keys(root, err);
	if (q >= 0 && v && !json_is_string(v))
		q = err_set(err, EINVAL, "'name' must be a string");
	if (q >= 0 && (name[0] == '\0' || strlen(name) > 512 || !text_is_line(name)))
		q = err_set(err, EINVAL, "'name' must be one line of 1 to 512 bytes");
	if (q < 0)
		return q;
	p = policy_create(name);
	v = json_object_get(root, "ask_timeout_ms");
	if (v)
		q = want_number(v, "ask_timeout_ms", &p->ask_timeout_ms, err);
	if (q >= 0 && (p->ask_timeout_ms < 1000 || p->ask_timeout_ms > POLICY_ASK_MAX_MS))
		q = err_set(err, EINVAL, "'ask_timeout_ms' must be 1000 to %d", POLICY_ASK_MAX_MS);
	v = json_object_get(root, "budget");
	if (q >= 0 && v)
		q = read_budget(v, &p->budget, err);
	if (q >= 0)
		q = read_rules(p, POLICY_RULES, root, "rules", err);
	if (q >= 0)
		q = read_rules(p, POLICY_FLOOR, root, "floor", err);
	if (q < 0)
		return q;
	policy_finish(p);
	*ret = TAKE_PTR(p);
	return 0;
}

int policy_from_json(const char *json, size_t n, struct policy **ret, struct err *err)
{
	json_error_t why;
	json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &why);
	int q;

	if (!root)
		return err_set(err, EINVAL, "policy: not JSON: %s (line %d)", why.text, why.line);
	q = read_policy(root, ret, err);
	json_decref(root);
	return q < 0 ? err_wrap(err, "policy") : 0;
}
