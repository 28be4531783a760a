/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/state_dir - where bawn keeps what outlives a run.
 *
 *   <state>/runs/<run-id>/   what a copy-on-write run changed (run/process/cow)
 *   <state>/held/<run-id>/   protected names a run made, moved out of the way
 *   <state>/run-ca/          certificate authority of this user's runs (cli/run_egress)
 *   <state>/run-secrets/     sealed secrets of this user's runs (egress/secret_files)
 *
 * A server may keep its state in the same directory, under other names (daemon/state.h): its roles
 * have ids of their own, and what one of them may write no run may trust.
 *
 * Nothing is created here.
 */
#include "base/err.h"

#include <stdbool.h>

struct state_dir_env {
	bool is_root;         /* may write system directories */
	const char *override; /* $BAWN_STATE_DIR, or NULL */
	const char *xdg;      /* $XDG_STATE_HOME, or NULL */
	const char *home;     /* $HOME, or NULL */
};

/* /var/lib/bawn for root, else the desktop standard's place. Pure. The caller frees *ret. */
int state_dir_choose(const struct state_dir_env *env, char **ret, struct err *err);

/* The same for this process: root of a user namespace counts as the user it is. */
int state_dir(char **ret, struct err *err);
