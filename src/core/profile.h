/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/profile - a sandbox policy written in YAML, read into a spec and a network policy.
 *
 * Strict: an unknown or repeated field, an anchor, an alias, a tag, a directive or
 * a second document is an error that names the line, so that a slip of the pen never
 * weakens a wall. The fields are in docs/profiles.md. Pure: the caller reads the file.
 */
#include "base/err.h"
#include "core/policy.h"
#include "core/spec.h"

#include <stddef.h>

#define PROFILE_SIZE_MAX    (256 * 1024) /* bytes of YAML */
#define PROFILE_NAME_MAX    64
#define PROFILE_TEXT_MAX    400
#define PROFILE_PARENTS_MAX 16

struct profile_source {
	const char *file; /* named in errors */
	const char *cwd;  /* absolute: relative paths are below it */
	const char *home; /* absolute, or NULL: what "~/" means */
};

struct profile {
	char *name;            /* as it says, or after its file */
	uint64_t version;      /* 0 = not given */
	char *description;     /* or NULL */
	struct strv parents;   /* as written */
	struct policy *policy; /* what its network section says; without rules if it has none */
	bool has_network;      /* it (or a parent, when loaded) has that section */
	struct strv files;     /* that were read for it (profile_load) */
};
void profile_done(struct profile *p);

/*
 * Read `size` bytes of YAML: the box into *s, which spec_init() has filled, the rest into *ret,
 * without looking at parents; ret->policy is not finished yet. On failure *s holds some of the
 * fields and is good for spec_done() only. -EINVAL with "FILE:LINE: what is wrong", -E2BIG past
 * PROFILE_SIZE_MAX. profile_load.h reads parents too.
 */
int profile_read(const char *yaml, size_t size, const struct profile_source *source, struct spec *s,
	struct profile *ret, struct err *err);

/* Every field there is: "network.rules[].hosts[]", "env.*". */
typedef void (*profile_field_fn)(const char *path, void *arg);
void profile_each_field(profile_field_fn fn, void *arg);
