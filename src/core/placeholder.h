/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/placeholder - what a box holds in place of a credential.
 *
 * "bawn-ph-" and 40 hex digits of a hash over owner and name: the same for ever, so that rotation
 * needs nothing inside the box, computed by whoever starts a box without any key, and saying
 * nothing of the value. Knowing one gives nothing: egress puts the value in only where a rule of
 * that very box says so. Pure.
 */
#include "base/err.h"
#include "base/text.h"
#include "core/policy.h"

#include <stdbool.h>
#include <stddef.h>

#define PLACEHOLDER_PREFIX   "bawn-ph-"
#define PLACEHOLDER_LEN      48 /* bytes, without NUL */
#define PLACEHOLDER_NAME_MAX 63 /* bytes of a secret's name */

/* [A-Za-z0-9] and inside also '-', '_', '.'; 1 to PLACEHOLDER_NAME_MAX of them. */
bool placeholder_is_name(const char *s);

/* `owner`: tenant, or "" for `bawn run`. */
void placeholder_make(const char *owner, const char *name, char out[PLACEHOLDER_LEN + 1]);

struct placeholder_file {
	char *path; /* as the binding has it: absolute, or "~/…" of the box's user */
	char *text; /* mode 0600 */
};

struct placeholder_files {
	struct placeholder_file *v;
	size_t n;
};
void placeholder_files_done(struct placeholder_files *f);

/*
 * What the box of this policy is to find: env gets "NAME=bawn-ph-…" (of a SigV4 binding, whose env
 * is a prefix such as "AWS": <env>_ACCESS_KEY_ID and <env>_SECRET_ACCESS_KEY), files one
 * entry per path, with a line for each binding that names it:
 *
 *   …netrc            machine HOST login USER password PLACEHOLDER
 *   …git-credentials  https://USER:PLACEHOLDER@HOST
 *   any other         PLACEHOLDER
 *
 * For git the variables GIT_CONFIG_* say the same as its file, so that it works without one.
 *
 * `has` says whether a secret exists; one that does not gives nothing. NULL: all do.
 */
int placeholder_for_box(const struct policy *p, const char *owner,
	bool (*has)(const char *secret, void *arg), void *arg, struct strv *env,
	struct placeholder_files *files, struct err *err);
