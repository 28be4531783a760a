/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/profile_args - what the verbs about profiles share: finding one, and a rule as a line.
 */
#include "core/profile_load.h"

/*
 * The profile called `what` as this caller would get it, on the machine's floor or on `floor`
 * (a file, or NULL); *ret is as of profile_load(), its policy with the floor.
 */
int profile_args_load(const char *what, const char *floor, struct profile *ret, struct err *err);

/* "allow https,ws api.test *.b.test ports 443 GET POST /v1 budget … credentials key"; owned. */
char *profile_args_rule_line(const struct policy *p, const struct policy_rule *r);
