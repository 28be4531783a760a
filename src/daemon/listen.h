/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/listen - the listening sockets of the server, made and held by the supervisor.
 *
 * They outlive the role that serves them: while a role is restarted, clients wait in the
 * kernel's queue and are not refused. Runs in: the supervisor.
 */
#include "base/err.h"
#include "base/own.h"

#include <stdbool.h>
#include <sys/types.h>

struct listener {
	int fd;       /* owned */
	char *spec;   /* as asked for; "systemd" if it was passed to us */
	char *url;    /* "http://127.0.0.1:7070", "unix:/run/x.sock", for people and the log */
	char *path;   /* of a socket file that we made and remove; or NULL */
	bool is_unix; /* else TCP */
};

void listener_close(struct listener *l); /* also removes the socket file */

/* "ADDR:PORT", "[ADDR]:PORT", "unix:PATH" (mode 0660); ADDR is a number or "localhost". */
int listener_open(const char *spec, bool is_tls, struct listener *ret, struct err *err);

/*
 * A socket file of ours, for one user, and for a group's users too unless `group` is -1. What
 * stands at `path` is removed: call with the lock held. type: SOCK_STREAM or SOCK_SEQPACKET.
 */
int listener_private(const char *path, int type, uid_t owner, gid_t group, struct listener *ret,
	struct err *err);

/*
 * The sockets that systemd passed (LISTEN_FDS); the variables are removed. Returns how many
 * were put into ret[], at most max.
 */
int listener_inherited(struct listener *ret, int max, bool is_tls, struct err *err);
