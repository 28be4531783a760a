/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What sandbox.c, sandbox_create.c, sandbox_kill.c, sandbox_link.c, reaper.c and reconcile.c share.
 *
 * A struct sandbox is in the register from before its row is CREATING until behind ENDED or
 * FAILED, and is never freed while the warden has a question about it. A question whose answer was
 * lost leaves is_asked false and the state as it is: only reconcile goes on from there.
 */
#include "api/sandbox.h"

#define SANDBOX_BUCKETS  4096
#define EVENTS_MS        50           /* so long may an event be in memory alone */
#define LINK_LOOK_MS     30000        /* a guest is asked so often whether it is there */
#define SANDBOX_SPEC_MAX (200u << 10) /* bytes of JSON */

struct api_sandboxes {
	struct sandbox *first; /* newest first */
	struct sandbox *buckets[SANDBOX_BUCKETS];
	unsigned live; /* CREATING, RUNNING, PAUSED or ENDING: all that is in the register */
	struct reconcile *reconcile; /* under way, or NULL */
	struct loop_timer audit;     /* the next reconcile */
	struct loop_timer settle;    /* events of sandbox_event() are written then */
	struct sandbox *due;         /* in the order of their moves: told after one sync for all */
	struct loop_task sync;
	struct usage_sampler *sampler;
	unsigned look_ms; /* between two looks at a link; fixed but for the tests */
	struct api *api;
};

struct sandbox_made_wait {
	sandbox_made_fn made;
	void *arg;
	struct sandbox_made_wait *next;
};

struct sandbox_gone_wait {
	void (*done)(int code, void *arg);
	void *arg;
	struct sandbox_gone_wait *next;
};

int sandboxes_create(struct api *a, struct err *err); /* and load what the store has */
void sandboxes_free(struct api *a);

/* Into the register; the row's strings become its own. */
struct sandbox *sandbox_add(struct api *a, struct store_sandbox *take_row);
/* Out of the register, freed when nothing of this batch can point at it. */
void sandbox_remove(struct sandbox *sb);
struct sandbox *sandbox_any(struct api *a, const char *id); /* whatever its state */

/*
 * One transaction: the new state in the row, and the event (I7). Takes detail. What is intended,
 * RUNNING and ENDED are on the disk only when sandbox_tell_later() tells.
 */
int sandbox_move(struct sandbox *sb, enum sandbox_state state, enum sandbox_reason reason,
	const char *message, const char *actor, json_t *take_detail, struct err *err);

/*
 * sandbox_due.c: at the end of this turn of the loop, when all that was committed is on the disk:
 * sandbox_tell_up() (is_up_due), or sandbox_tell_gone() and sandbox_remove() (is_gone_due). A sync
 * takes as long as a start: one serves all that came meanwhile.
 */
void sandbox_tell_later(struct sandbox *sb);
/* sandbox_create.c, sandbox_kill.c: to those who wait; err NULL, code 0: it is so. */
void sandbox_tell_up(struct sandbox *sb, const struct err *err);
void sandbox_tell_gone(struct sandbox *sb, int code);

/* sandbox_create.c: ask the warden for it; go on with what it said (START's answer, or a BOX). */
void sandbox_ask_start(struct sandbox *sb);
void sandbox_is_up(struct sandbox *sb, const struct warden_message *walls);
void sandbox_is_failed(struct sandbox *sb, enum sandbox_reason reason, const struct err *why);

/* sandbox_kill.c: ask the warden to end what is ENDING, or CREATING and not wanted any more. */
void sandbox_ask_stop(struct sandbox *sb);
void sandbox_cut_streams(struct sandbox *sb);

/* sandbox_link.c: close the connection to the guest; those who wait are told. */
void sandbox_link_close(struct sandbox *sb);

/* reaper.c: set the timer for the next thing that can happen by time. */
void sandbox_arm(struct sandbox *sb);

/* reconcile.c: look again after a while. */
void sandbox_audit_in(struct api *a, uint64_t delay_ms);
