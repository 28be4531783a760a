/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/profile - a sandbox policy written in YAML, read into a spec.
 *
 * Strict: an unknown or repeated field, an anchor, an alias, a tag, a directive or
 * a second document is an error that names the line, so that a slip of the pen never
 * weakens a wall. The fields are in bawn-run(1). Pure: the caller reads the file.
 */
#include "base/err.h"
#include "core/spec.h"

#include <stddef.h>

#define PROFILE_SIZE_MAX (256 * 1024) /* bytes of YAML */

struct profile_source {
	const char *file; /* named in errors */
	const char *cwd;  /* absolute: relative paths are below it */
	const char *home; /* absolute, or NULL: what "~/" means */
};

/*
 * Read `size` bytes of YAML into *s, which spec_init() has filled. On failure *s
 * holds some of the fields and is good for spec_done() only. -EINVAL with
 * "FILE:LINE: what is wrong", -E2BIG past PROFILE_SIZE_MAX.
 */
int profile_parse(const char *yaml, size_t size, const struct profile_source *source,
	struct spec *s, struct err *err);
