/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/policy_path - paths of requests against globs, as a hostile client would write them.
 *
 * Servers disagree about "//", "%2e%2e", "..;" and the like. Here a path is *clear* when all of
 * them read it the same way; a rule that allows matches clear paths only, a rule that denies
 * matches whatever any server could read. Pure, no allocation, time in O(path * glob).
 */
#include "base/text.h"

#include <stdbool.h>

#define POLICY_PATH_MAX 8192 /* bytes; a longer one is not clear */

bool policy_path_is_clear(const char *path);
/* For rules that allow: a clear path, and a glob fits each way to read it. */
bool policy_paths_surely(const struct strv *globs, const char *path);
/* For rules that deny or ask: not clear, or a glob fits some way to read it. */
bool policy_paths_perhaps(const struct strv *globs, const char *path);
