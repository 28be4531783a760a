/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/apply - carry out the operations of a plan, one by one.
 *
 * The same code runs in the bawn process (HOST), in pid 1 (INIT) and in the
 * child that becomes the command (COMMAND); in the last two it must not allocate
 * and must not log: an error is one struct err through a socket.
 */
#include "run/process/plan.h"
#include "sys/road.h"

struct apply {
	const struct plan *plan;
	int slots[PLAN_SLOTS_MAX];      /* detached (or parked) mounts; -EBADF if empty */
	bool is_parked[PLAN_SLOTS_MAX]; /* attached out of sight, as old kernels want it */
	bool must_park;                 /* this kernel refuses detached layers */
	bool in_userns;                 /* overlay needs user.* xattrs */
	int root_fd;                    /* the new root once attached */
	int mask_fds[2];                /* an attached mask: directory, file */
	struct road road;               /* EARLY: for bawn; -EBADF once it has them */
	int userns_fd;                  /* HOST: the box's user namespace, for id maps */
	int ruleset_fd;                 /* COMMAND: Landlock rules collected so far */
	int listener_fd;                /* COMMAND: seccomp notifications */
	bool is_landlocked;             /* COMMAND: the kernel refused what only Landlock refuses */
	const int *keep_fds;            /* COMMAND: descriptors that survive exec */
	size_t keep_n;
	int failed;       /* the wall whose operation failed, or -1 */
	bool is_unmapped; /* ids=preferred: a tree could not map ids and shows them as nobody's */
};

void apply_init(struct apply *a, const struct plan *plan);
void apply_done(struct apply *a);

/* Take away what was parked in our mount namespace; the slots stay as they are. */
void apply_unpark(struct apply *a);

/* One operation once more, in the finished box: an OP_MASK or OP_RDONLY that came off. */
int apply_again(struct apply *a, const struct op *op, struct err *err);

/* Carry out every operation of one side up to OP_EXEC (not included). */
int apply_side(struct apply *a, enum op_side side, struct err *err);
