/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/run_egress - the road out of one run: a child `bawnd role-egress --run` that serves it.
 *
 *   run_egress_prepare   before the box: the program is there, and so are the certificates
 *   box_options.road     = &run_egress.road: starts the child once there is a road, notes what it
 *                          denied, ends it with the box
 *   run_egress_done
 *
 * The child dies with bawn, however bawn dies: it is killed by the kernel, and its end of the
 * control socket hangs up. Until it is up the box's connections wait; once it is gone they are
 * refused.
 */
#include "base/err.h"
#include "cli/run_network.h"
#include "core/denial.h"
#include "core/learn.h"
#include "core/spec.h"
#include "io/buf.h"
#include "run/process/box.h"

#include <sys/types.h>

#define RUN_EGRESS_NAMES 16

struct run_egress {
	struct box_road road;
	const struct run_network *network;
	char *bawnd, *ca, *policy;
	char *secrets; /* directory of sealed values; NULL: none are bound */
	int fd, pidfd; /* control socket; the child */
	pid_t pid;
	struct buf in;
	struct denial names[RUN_EGRESS_NAMES]; /* looked up, and nothing more so far; "" = told */
	size_t names_n;
	struct learn *learn; /* what is allowed is noted here; borrowed; NULL = nobody asks */
	bool is_served;      /* the child has said that it serves the road */
	bool is_over;        /* nothing more comes */
	bool is_gone;        /* it has said its last words */
};

/* Where the certificates are, or will be, that a box trusts; the caller frees *ret. */
int run_egress_public(char **ret, struct err *err);

/*
 * Sets want_road and ca_dir of *spec. -ENOENT: there is no bawnd. Makes the installation's
 * certificate authority in the state directory if there is none yet.
 */
int run_egress_prepare(struct run_egress *e, const struct run_network *network,
	const struct policy *policy, struct spec *spec, struct err *err);
void run_egress_done(struct run_egress *e);
