/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/state - the state directory of a server: its layout, who owns what, one server at a time.
 *
 *   <state>/run        0755  sockets, the lock, the addresses of the running server
 *   <state>/db         0700  the store; belongs to the api role
 *   <state>/boxes      0711  one directory per sandbox; belongs to the warden; maybe a link
 *   <state>/templates  0700  what sandboxes start from; who could open one could lock it
 *   <state>/ca         0700  the certificate authority; belongs to the egress role
 *   <state>/secrets    0700  the key that secrets are sealed with; belongs to the egress role
 *
 * Runs in: the supervisor.
 */
#include "base/err.h"

#include <sys/types.h>

/*
 * As whom the api and egress roles run when we are root: the users `bawn` and `bawn-egress` of
 * /etc/passwd, else numbers that nobody has. Rootless: ourselves.
 */
#define STATE_API_UID    0x6fff0001u
#define STATE_EGRESS_UID 0x6fff0002u

struct state_ids {
	uid_t uid;
	gid_t gid;
};
struct state_ids state_api_ids(void);
struct state_ids state_egress_ids(void);

/*
 * Make what is missing and set owners and modes. -EACCES with a hint if a role could not
 * reach it; -EPERM if we are root and somebody else may write to the directory.
 */
int state_prepare(const char *state, const struct state_ids *api, const struct state_ids *egress,
	struct err *err);

/*
 * For `bawn key`, which works beside a server and before there ever was one: make the
 * layout if it is missing and become the api role's user for good, so that no file of the
 * store is ever root's. *ret_dir: where the store is; the caller frees.
 */
int state_enter_db(const char *state, char **ret_dir, struct err *err);

/* The lock, held while the descriptor is open; -EBUSY names the server that has it. */
int state_lock(const char *state, struct err *err);

/*
 * With the lock held: move <state>/boxes into memory if that can be had (state_boxes.c); and back,
 * if it is empty, at the end.
 */
int state_place_boxes(const char *state, struct err *err);
void state_unplace_boxes(const char *state);

/* Write <state>/run/<name>, whole or not at all. */
int state_write(const char *state, const char *name, const char *text, struct err *err);
