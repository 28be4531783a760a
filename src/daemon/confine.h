/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/confine - what the api role keeps when its start-up is over. Irreversible.
 *
 * The supervisor has already taken the user, the capabilities and the way back
 * (no_new_privs). Here go the file system, by Landlock, and what limits can be had. A kernel
 * without Landlock leaves the file permissions alone to hold: that is reported, not refused.
 */
#include "base/err.h"

#include <stdbool.h>

/* *ret_has_landlock: whether the second wall stands. */
int confine_api(const char *state, bool *ret_has_landlock, struct err *err);
