/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/learn - from what a run wanted to the smallest profile that allows it. Pure.
 *
 * Requests that read (GET, HEAD, OPTIONS) of one host and port become one rule, each other method
 * one of its own. A few paths are listed; many become one glob for each first segment; more than
 * that become all.
 */
#include "core/denial.h"
#include "core/policy.h"

#define LEARN_MAX       8192 /* different wishes kept; more are counted */
#define LEARN_PATHS_MAX 8    /* in one rule before they are summed up */

struct learn_wish {
	char *name;
	uint16_t port;
	unsigned protocol;
	char *method, *path; /* "" = not seen */
};

struct learn {
	struct learn_wish *wishes;
	size_t wishes_n;
	uint64_t lost; /* that did not fit */
};

/* Of an `allowed` event. Bare addresses and what has no protocol are left out. */
void learn_note(struct learn *l, const struct denial *d);
void learn_done(struct learn *l);

/*
 * What to record under: every public name, any protocol; TLS on the web's usual ports is looked
 * into (want_paths), so that methods and paths are seen.
 */
int learn_policy(bool want_paths, struct policy **ret, struct err *err);

/* The profile as YAML, in an order that does not depend on time. The caller frees. */
char *learn_yaml(const struct learn *l, const char *profile);
