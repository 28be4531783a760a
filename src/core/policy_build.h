/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/policy_build - making a policy: one rule at a time, from texts, then finished for ever.
 *
 * Both readers (YAML, JSON) and both mappings (the command line, E2B) build through here, so that
 * one place says what is accepted. Order: policy_create, policy_add_rule…, policy_finish.
 */
#include "core/policy.h"

#define POLICY_ID_MAX     95 /* bytes: fits struct denial */
#define POLICY_REASON_MAX 240
#define POLICY_GLOB_MAX   512

struct policy *policy_create(const char *name); /* refs 1 */

/* Text of a rule to its field, checked; -EINVAL says what is accepted, -E2BIG past the caps. */
int policy_rule_action(struct policy_rule *r, const char *s, struct err *err);
int policy_rule_protocol(struct policy_rule *r, const char *s, struct err *err);
int policy_rule_host(struct policy_rule *r, const char *s, struct err *err);
int policy_rule_port(struct policy_rule *r, const char *s, struct err *err); /* "443", "1-9" */
int policy_rule_method(struct policy_rule *r, const char *s, struct err *err);
int policy_rule_path(struct policy_rule *r, const char *s, struct err *err);
int policy_rule_program(struct policy_rule *r, const char *s, struct err *err);
int policy_rule_reason(struct policy_rule *r, const char *s, struct err *err);
void policy_rule_done(struct policy_rule *r);

/* "header", "basic", "query", "json", "sigv4". */
int policy_place_parse(const char *s, enum policy_place *ret);
const char *policy_place_name(enum policy_place p);
int policy_binding_check(const struct policy_binding *b, struct err *err);
void policy_binding_done(struct policy_binding *b);

enum policy_list { POLICY_RULES, POLICY_FLOOR };

struct policy_draft { /* one rule, and the credentials it puts in */
	struct policy_rule rule;
	struct policy_binding *bindings;
	size_t bindings_n;
};
void policy_draft_done(struct policy_draft *d);

/*
 * Checks the rule as a whole and moves it to the end of a list, as `id` (POLICY_ID_MAX bytes at
 * most). *take is empty afterwards, also on failure. Defaults are filled in here.
 */
int policy_add_rule(struct policy *p, enum policy_list list, const char *id,
	struct policy_draft *take, struct err *err);
/*
 * Every rule, floor rule, binding of `from` appended; budgets: the smaller limit of each kind;
 * ask_timeout_ms: from's, if it is not the default.
 */
int policy_append(struct policy *p, const struct policy *from, struct err *err);
/*
 * The rules of `floor` become p's floor, its budget a bound on p's. -EEXIST if p has one: two
 * floors cannot be one list.
 */
int policy_set_floor(struct policy *p, const struct policy *floor, struct err *err);
/* Nothing changes after this: must_intercept and the digest. */
void policy_finish(struct policy *p);

const char *policy_action_name(enum policy_action a);
const char *policy_protocol_name(unsigned one_bit);
/* "pypi.org", "*.pypi.org", "*", "10.0.0.0/8"; as the rule would be written. */
void policy_host_format(const struct policy_host *h, char out[POLICY_NAME_MAX + 8]);
void policy_ports_format(const struct policy_ports *p, char out[16]);
