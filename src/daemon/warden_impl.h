/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * daemon/warden_impl - what the files of the warden role share.
 *
 *   warden          the role's main: its socket, its connections, what they ask
 *   warden_boxes    the sandboxes it has: adopted, watched, ended
 *   warden_starts   those on their way up, for somebody or as spares
 *   warden_spares   one of them: its directory, its socket, its spec
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

struct warden_start; /* a question under way; warden_starts */

struct warden_spare {
	char id[PROVIDER_ID_MAX]; /* its directory's name until it is claimed */
	int dir;
	const struct provider *provider;
	struct provider_making *making; /* on its way up */
	struct provider_spare *held;    /* up, and not claimed */
	struct wall_record walls[WALL_COUNT];
	/* From the loop: it is up, or (err->code) will not be and is to be removed. */
	void (*up)(struct warden_spare *s, const struct err *err);
	void *arg;
	struct warden_start *start; /* whose it will be; NULL = nobody's yet */
	struct warden_spare *next;  /* kept by its owner */
};

/* Make <boxes>/<id>/ with the guest's socket, and begin the sandbox behind it. -EEXIST. */
int warden_spare_begin(struct loop *l, int boxes, const struct warden_spec *spec,
	const char *ca_dir, const char *id, struct warden_spare **ret, struct err *err);
/* Of one that is not up or was not claimed: remove what it left, and the handle. */
void warden_spare_remove(int boxes, struct warden_spare *take);
/* Release the handle only. */
void warden_spare_free(struct warden_spare *take);

/* ---- warden_starts ---- */

#define WARDEN_MAKINGS_MAX 8   /* on their way up at once; others wait */
#define WARDEN_STARTS_MAX  512 /* questions under way or waiting; more are refused */

struct warden_boxes;
struct warden_boxes_config;
struct warden_starts;

typedef void (*warden_started_fn)(const struct warden_message *answer, void *arg);
typedef void (*warden_stopped_fn)(
	const char *id, const struct err *err, void *arg, uint64_t number);

struct warden_starts *warden_starts_create(
	const struct warden_boxes_config *c, int boxes_dir, struct warden_boxes *b);
/* At the end of the role: what is nobody's goes. Blocks. */
void warden_starts_close(struct warden_starts *s);

/* Checked, and new. `started` is called once, maybe from inside this call. */
void warden_starts_ask(struct warden_starts *s, const struct warden_message *q,
	warden_started_fn started, void *arg);
bool warden_starts_has(const struct warden_starts *s, const char *id);
size_t warden_starts_count(const struct warden_starts *s);
/* Of one under way: its asker hears -ECANCELED, and `stopped` is called when it is gone. */
void warden_starts_stop(struct warden_starts *s, const char *id, warden_stopped_fn stopped,
	void *arg, uint64_t number);
/* Call `settled` once nobody else's start is under way that is now; maybe from inside this call. */
void warden_starts_settle(struct warden_starts *s, void (*settled)(void *arg, uint64_t number),
	void *arg, uint64_t number);
/* Whoever has this arg is gone. What it asked for and was begun goes on, and is listed. */
void warden_starts_forget(struct warden_starts *s, const void *arg);

/* ---- warden_boxes ---- */

struct warden_boxes_config {
	struct loop *loop;
	const char *state;  /* directory; borrowed for ever */
	uid_t api_uid;      /* who may connect to guests */
	const char *ca_dir; /* certificates that boxes with a road trust; NULL = none */
	unsigned spares;    /* kept ready, at most WARDEN_SPARES_MAX; 0 = none */
	void (*ended)(const char *id, const char *reason, void *arg); /* one went by itself */
	void *arg;
};

/* Open <state>/boxes, adopt what lives, remove what is left of what does not. */
int warden_boxes_open(
	const struct warden_boxes_config *c, struct warden_boxes **ret, struct err *err);

/* At the end of the role: spares go, sandboxes stay. */
void warden_boxes_close(struct warden_boxes *b);

/* Make one, or hand out a spare. `started` is called once, maybe from inside this call. */
void warden_boxes_start(struct warden_boxes *b, const struct warden_message *q,
	warden_started_fn started, void *arg);

/*
 * Kill it; `stopped` is called when it is gone and removed (err->code 0), or will not go
 * (-EBUSY after 5 s); at once if there is none.
 */
void warden_boxes_stop(struct warden_boxes *b, const char *id, warden_stopped_fn stopped, void *arg,
	uint64_t number);
/* Call nobody any more that has this arg. */
void warden_boxes_forget(struct warden_boxes *b, void *arg);

int warden_boxes_usage(
	struct warden_boxes *b, const char *id, struct provider_usage *ret, struct err *err);
/*
 * The sockets of its way out; they stay the warden's, so that connections wait while nobody else
 * has them. Made again if this warden is not the one that made the box. -ENOENT.
 */
int warden_boxes_road(
	struct warden_boxes *b, const char *id, struct road *ret_borrowed, struct err *err);

/* As warden_starts_settle(): then each() tells all there is that its caller was not told of. */
void warden_boxes_settle(struct warden_boxes *b, void (*settled)(void *arg, uint64_t number),
	void *arg, uint64_t number);
/* Each that runs, as a WARDEN_BOX; each < 0 stops. */
int warden_boxes_each(
	struct warden_boxes *b, int (*each)(const struct warden_message *m, void *arg), void *arg);

/* For warden_starts: it is up, and its directory and record are in place. */
int warden_boxes_add(struct warden_boxes *b, const struct provider *p,
	const struct provider_record *rec, int take_pidfd, struct road take_road, struct err *err);
/* And: it was killed and goes once pidfd fires, directory `rec->id` and all; at once if < 0. */
void warden_boxes_bury(struct warden_boxes *b, const struct provider *p,
	const struct provider_record *rec, int take_pidfd);
bool warden_is_spare(const char *id);
void warden_tell_walls(const struct wall_record *walls, struct warden_message *ret);
