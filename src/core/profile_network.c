/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/profile_network - the network section of a profile, built rule by rule. Pure.
 */
#include "base/mem.h"
#include "core/profile_impl.h"

#include <string.h>

static int take_rule_name(struct reader *r, const char *key, const char *value, struct err *err)
{
	return profile_take_word(&r->rule_name, key, value, err);
}

static int take_action(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return policy_rule_action(&r->draft.rule, value, err);
}

static int take_approved(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return profile_take_bool(value, &r->draft.rule.is_approved, err);
}

static int take_reason(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return policy_rule_reason(&r->draft.rule, value, err);
}

static int take_host(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return policy_rule_host(&r->draft.rule, value, err);
}

static int take_port(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return policy_rule_port(&r->draft.rule, value, err);
}

static int take_protocol(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return policy_rule_protocol(&r->draft.rule, value, err);
}

static int take_method(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return policy_rule_method(&r->draft.rule, value, err);
}

static int take_path(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return policy_rule_path(&r->draft.rule, value, err);
}

static int take_program(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return policy_rule_program(&r->draft.rule, value, err);
}

static int take_budget(struct policy_budget *b, const char *key, const char *value, struct err *err)
{
	const uint64_t most = INT64_MAX; /* what JSON can carry */
	uint64_t n = 0;
	int q;

	if (strcmp(key, "requests") == 0)
		q = text_parse_u64(value, key, 1, most, &n, err);
	else if (strcmp(key, "per") == 0)
		q = text_parse_duration(value, key, &n, err);
	else
		q = text_parse_size(value, key, &n, err);
	if (q < 0)
		return q;
	if (n == 0 || n > most)
		return err_set(err, EINVAL, "%s must be more than 0", key);
	*(strcmp(key, "requests") == 0         ? &b->requests
		: strcmp(key, "per") == 0      ? &b->per_ms
		: strcmp(key, "bytes_up") == 0 ? &b->bytes_up
					       : &b->bytes_down) = n;
	return 0;
}

static int take_rule_budget(struct reader *r, const char *key, const char *value, struct err *err)
{
	return take_budget(&r->draft.rule.budget, key, value, err);
}

static int take_whole_budget(struct reader *r, const char *key, const char *value, struct err *err)
{
	return take_budget(&r->network->budget, key, value, err);
}

static int take_ask_timeout(struct reader *r, const char *key, const char *value, struct err *err)
{
	uint64_t ms = 0;
	int q = text_parse_duration(value, key, &ms, err);

	if (q < 0)
		return q;
	if (ms < 1000 || ms > POLICY_ASK_MAX_MS)
		return err_set(
			err, EINVAL, "%s '%s' is not accepted; accepted: 1s to 1d", key, value);
	r->network->ask_timeout_ms = ms;
	return 0;
}

static struct policy_binding *binding(struct reader *r)
{
	return &r->draft.bindings[r->draft.bindings_n - 1];
}

static int take_place(struct reader *r, const char *key, const char *value, struct err *err)
{
	struct policy_binding *b = binding(r);

	if (b->field)
		return err_set(err, EINVAL, "a credential has one place, not %s and %s",
			policy_place_name(b->place), key);
	b->field = mem_strdup(value);
	return policy_place_parse(key, &b->place);
}

static int take_credential(struct reader *r, const char *key, const char *value, struct err *err)
{
	struct policy_binding *b = binding(r);
	char **field = strcmp(key, "secret") == 0   ? &b->secret
		       : strcmp(key, "format") == 0 ? &b->format
		       : strcmp(key, "env") == 0    ? &b->env
						    : &b->file;

	return spec_set_string(field, key, value, err);
}

static int begin_credential(struct reader *r, struct err *err)
{
	struct policy_draft *d = &r->draft;

	if (d->bindings_n >= POLICY_BINDINGS_MAX)
		return err_set(err, E2BIG, "more than %d credentials", POLICY_BINDINGS_MAX);
	d->bindings = mem_must(reallocarray(d->bindings, d->bindings_n + 1, sizeof(*d->bindings)));
	d->bindings[d->bindings_n++] = (struct policy_binding){0};
	return 0;
}

static int end_credential(struct reader *r, struct err *err)
{
	return policy_binding_check(binding(r), err);
}

static int begin_rule(struct reader *r, struct err *err)
{
	(void)err;
	policy_draft_done(&r->draft);
	r->draft.rule.action = POLICY_ALLOW;
	free(r->rule_name);
	r->rule_name = NULL;
	return 0;
}

static int end_rule(struct reader *r, struct err *err)
{
	AUTO_FREE char *id = r->rule_name ? mem_strdup(r->rule_name)
					  : text_format("%zu", r->network->rules_n + 1);

	for (size_t i = 0; i < r->network->rules_n; i++) {
		if (strcmp(r->network->rules[i].id, id) == 0)
			return err_set(err, EINVAL, "two rules are called '%s'", id);
	}
	return policy_add_rule(r->network, POLICY_RULES, id, &r->draft, err);
}

int profile_network_begin(struct reader *r, struct err *err)
{
	(void)err;
	r->network = policy_create("");
	return 0;
}

static const struct field rule_budget_fields[] = {
	SCALAR("bytes_up", take_rule_budget),
	SCALAR("bytes_down", take_rule_budget),
	SCALAR("requests", take_rule_budget),
	SCALAR("per", take_rule_budget),
	{0},
};

static const struct field whole_budget_fields[] = {
	SCALAR("bytes_up", take_whole_budget),
	SCALAR("bytes_down", take_whole_budget),
	SCALAR("requests", take_whole_budget),
	SCALAR("per", take_whole_budget),
	{0},
};

static const struct field credential_fields[] = {
	SCALAR("secret", take_credential),
	SCALAR("header", take_place),
	SCALAR("basic", take_place),
	SCALAR("query", take_place),
	SCALAR("json", take_place),
	SCALAR("sigv4", take_place),
	SCALAR("format", take_credential),
	SCALAR("env", take_credential),
	SCALAR("file", take_credential),
	{0},
};

static const struct field rule_fields[] = {
	SCALAR("name", take_rule_name),
	LIST("hosts", take_host),
	LIST("ports", take_port),
	LIST("protocols", take_protocol),
	LIST("methods", take_method),
	LIST("paths", take_path),
	LIST("programs", take_program),
	MAP("budget", rule_budget_fields, NULL, NULL),
	SCALAR("action", take_action),
	SCALAR("approved", take_approved),
	SCALAR("reason", take_reason),
	MAPS("credentials", credential_fields, begin_credential, end_credential),
	{0},
};

const struct field profile_network_fields[] = {
	MAPS("rules", rule_fields, begin_rule, end_rule),
	MAP("budget", whole_budget_fields, NULL, NULL),
	SCALAR("ask_timeout", take_ask_timeout),
	{0},
};
