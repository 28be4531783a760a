/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/resident_impl - what the files of resident sandboxes share.
 *
 *   resident_plan   what boxes of one kind have in common
 *   resident_make   from a spec to a box that is up and nobody's
 *   resident        its life from there on
 */
#include "run/process/box_impl.h"
#include "run/provider.h"

#define RESIDENT_LEAF_MAX (PROVIDER_ID_MAX + 16)

struct provider_spare {
	int init_fd, pidfd;
	struct road road;
	struct provider_record rec; /* without the id it will have */
	/* while it is claimed */
	struct loop *loop;
	struct loop_watch watch; /* init_fd */
	struct loop_timer timer;
	struct loop_task free;
	provider_claimed_fn claimed;
	void *arg;
};

/* The leaf of a box that has this id, and no record that says otherwise. */
void resident_leaf(const char *id, char ret[RESIDENT_LEAF_MAX]);

/* This boot's, borrowed for ever; NULL if it cannot be read. */
const char *resident_boot_id(struct err *err);

struct provider_making *resident_begin(struct loop *l, struct spec *take, const char *id,
	int take_listen_fd, provider_made_fn made, void *arg);
int resident_abandon(struct provider_making *take, struct provider_record *ret);

/*
 * In place of box_prepare(): fill facts and plan of a box that sees nothing of the host but the
 * base template, and reserve its ids. NULL and err on failure. The plan is lent:
 * resident_plan_return() before box_done(). NULL is fine there.
 */
struct resident_plan;
struct resident_plan *resident_plan_take(struct box *b, uint64_t now_ms, struct err *err);
void resident_plan_return(struct resident_plan *k, struct box *b);
