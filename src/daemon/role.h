/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/role - start one role: a fresh process image, with the descriptors and rights it is given.
 *
 * Privilege is given up before the role's program is executed: not one instruction of the api
 * role, nor of the libraries it links, runs as root. Runs in: the supervisor.
 */
#include "base/err.h"
#include "daemon/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ROLE_FDS_MAX 32

/* How to start it. All borrowed. */
struct role_launch {
	int program; /* the file to execute */
	char *const *argv;
	char *const *env;
	const int *fds; /* become 3, 4, …; every other descriptor is closed */
	size_t fds_n;
	const struct state_ids *ids; /* NULL: keeps ours, and what we may */
};

/* Returns the pid. The role is killed when the supervisor dies. */
pid_t role_start(const struct role_launch *l, struct err *err);

/* Back-off of restarts: 50 ms, doubled up to 5 s, forgotten once it was up for a while. */
struct role_backoff {
	uint64_t delay_ms; /* of the next restart; 0 = the first */
};
uint64_t role_backoff_next(struct role_backoff *b, uint64_t lived_ms, bool was_ready);
