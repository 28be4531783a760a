/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/confine - what the unprivileged roles keep when their start-up is over. Irreversible.
 *
 * The supervisor has already taken the user, the capabilities and the way back
 * (no_new_privs). Here go the file system, by Landlock, and what limits can be had. A kernel
 * without Landlock leaves the file permissions alone to hold: that is reported, not refused.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * profiles: directories of profiles that requests may name; NULL entries are left out.
 * *ret_has_landlock: whether the second wall stands.
 */
int confine_api(const char *state, const char *const *profiles, size_t profiles_n,
	bool *ret_has_landlock, struct err *err);

/* What the egress role was told to use; NULL: nothing of the kind. */
struct confine_egress {
	const char *upstream_ca; /* a file */
	const char *secrets;     /* directory */
	const char *warden;      /* a socket */
};
int confine_egress(const struct confine_egress *c, bool *ret_has_landlock, struct err *err);

/* As many open files as the system lets us have. */
void confine_raise_files(void);
