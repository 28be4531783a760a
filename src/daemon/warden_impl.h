/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/warden_impl - what the files of the warden role share.
 *
 *   warden          the role's main: its socket, its connections, what they ask
 *   warden_boxes    the sandboxes it has: made, adopted, watched, ended
 *   warden_spares   sandboxes that are up before anybody asked for them
 *   warden_record   a sandbox's record on disk
 */
#include "io/loop.h"
#include "run/provider.h"
#include "run/warden.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- warden_record ---- */

/*
 * A record is written to <dir>/starting before the sandbox is released and becomes <dir>/record
 * once it is: whoever finds only the first knows that nobody was told of this sandbox, and
 * that it may be dying with us. Not synced: after a power cut no sandbox runs, and a record says
 * of which boot it is.
 */
int warden_record_write(int dir_fd, const struct provider_record *rec,
	const struct wall_record walls[WALL_COUNT], struct err *err);
int warden_record_commit(int dir_fd, struct err *err);

/*
 * Read "record" or "starting"; walls may be NULL. -ENOENT if there is none, -EBADMSG if it is not
 * one of ours.
 */
int warden_record_read(int dir_fd, const char *file, struct provider_record *ret,
	struct wall_record *walls, struct err *err);

/* ---- warden_spares ---- */

#define WARDEN_SPARES_MAX 64

struct warden_spare {
	char id[PROVIDER_ID_MAX]; /* its directory's name until it is claimed */
	int dir;
	const struct provider *provider;
	struct provider_spare *held; /* NULL once claimed */
	struct wall_record walls[WALL_COUNT];
};

/* Make <boxes>/<id>/ with the guest's socket, and the sandbox behind it. -EEXIST. Blocks for ms. */
int warden_spare_make(int boxes, const struct warden_spec *spec, const char *id,
	struct warden_spare **ret, struct err *err);
/* End it and remove what it had. */
void warden_spare_discard(int boxes, struct warden_spare *take);
/* Release the handle only. */
void warden_spare_free(struct warden_spare *take);

/* ---- warden_boxes ---- */

struct warden_boxes;

struct warden_boxes_config {
	struct loop *loop;
	const char *state; /* directory; borrowed for ever */
	uid_t api_uid;     /* who may connect to guests */
	unsigned spares;   /* kept ready, at most WARDEN_SPARES_MAX; 0 = none */
	void (*ended)(const char *id, const char *reason, void *arg); /* one went by itself */
	void *arg;
};

/* Open <state>/boxes, adopt what lives, remove what is left of what does not. */
int warden_boxes_open(
	const struct warden_boxes_config *c, struct warden_boxes **ret, struct err *err);

/* At the end of the role: spares go, sandboxes stay. */
void warden_boxes_close(struct warden_boxes *b);

/* Make one, or hand out a spare; blocks for milliseconds. *ret: its walls, for the answer. */
int warden_boxes_start(struct warden_boxes *b, const struct warden_message *m,
	struct warden_message *ret, struct err *err);

typedef void (*warden_stopped_fn)(
	const char *id, const struct err *err, void *arg, uint64_t number);

/*
 * Kill it; `stopped` is called when it is gone and removed (err->code 0), or will not go
 * (-EBUSY after 5 s); at once if there is none.
 */
void warden_boxes_stop(struct warden_boxes *b, const char *id, warden_stopped_fn stopped, void *arg,
	uint64_t number);
/* Forget every `stopped` that has this arg. */
void warden_boxes_forget(struct warden_boxes *b, void *arg);

int warden_boxes_usage(
	struct warden_boxes *b, const char *id, struct provider_usage *ret, struct err *err);

/* Each that runs, as a WARDEN_BOX; each < 0 stops. */
int warden_boxes_each(
	struct warden_boxes *b, int (*each)(const struct warden_message *m, void *arg), void *arg);
