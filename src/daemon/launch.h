/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/launch - everything a role of this server is started with: options, sockets, programs.
 *
 * Runs in: the supervisor, which keeps it across restarts of the roles.
 */
#include "daemon/listen.h"
#include "daemon/role.h"
#include "daemon/serve_options.h"

#define LAUNCH_LISTENERS_MAX (2 * SERVE_LISTEN_MAX)

struct launch {
	struct serve_options options;
	struct state_ids ids, egress_ids; /* of the api role; of the egress role */
	struct listener listeners[LAUNCH_LISTENERS_MAX];
	size_t listeners_n;
	struct listener local;  /* <state>/run/api.sock */
	struct listener warden; /* <state>/run/warden.sock */
	struct listener egress; /* <state>/run/egress.sock */
	int cert, key;          /* copies in memory, which the api role may read; -EBADF: no TLS */
	int policy, floor;      /* likewise: the default profile and the floor as canonical JSON */
	char *bawnd;            /* path */
	struct strv env;
};

/* Behind serve_options_parse(): find the programs, decide the ids, read the profiles. */
int launch_init(struct launch *l, struct err *err);
/* Open every socket, read the certificate. With the lock held. */
int launch_listen(struct launch *l, struct err *err);
/*
 * The options again; on failure nothing has changed. Addresses that stay keep their socket.
 * *ret_is_egress: those of the egress role have changed.
 */
int launch_reload(struct launch *l, int argc, char **argv, bool *ret_is_egress, struct err *err);
void launch_done(struct launch *l);

/* *ret_ready: one byte comes when it serves; then end of file. */
pid_t launch_api(const struct launch *l, int *ret_ready, struct err *err);
pid_t launch_warden(const struct launch *l, struct err *err);
pid_t launch_egress(const struct launch *l, int *ret_ready, struct err *err);
/*
 * The authority under which certificates are minted is there when this returns: boxes are made
 * with it. Blocks.
 */
int launch_make_ca(const struct launch *l, struct err *err);

/* The URLs, each followed by `end` but the last; the caller frees. */
char *launch_addresses(const struct launch *l, const char *end);
