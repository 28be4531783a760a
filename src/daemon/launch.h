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
	struct state_ids ids; /* of the api role */
	struct listener listeners[LAUNCH_LISTENERS_MAX];
	size_t listeners_n;
	struct listener local;  /* <state>/run/api.sock */
	struct listener warden; /* <state>/run/warden.sock */
	int cert, key;          /* copies in memory, which the api role may read; -EBADF: no TLS */
	char *bawnd;            /* path */
	struct strv env;
};

/* Behind serve_options_parse(): find the programs, decide the ids. Opens nothing. */
int launch_init(struct launch *l, struct err *err);
/* Open every socket, read the certificate. With the lock held. */
int launch_listen(struct launch *l, struct err *err);
/* The options again; on failure nothing has changed. Addresses that stay keep their socket. */
int launch_reload(struct launch *l, int argc, char **argv, struct err *err);
void launch_done(struct launch *l);

/* *ret_ready: one byte comes when it serves; then end of file. */
pid_t launch_api(const struct launch *l, int *ret_ready, struct err *err);
pid_t launch_warden(const struct launch *l, struct err *err);

/* The URLs, each followed by `end` but the last; the caller frees. */
char *launch_addresses(const struct launch *l, const char *end);
