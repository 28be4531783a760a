/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * guest/worker - a forked child that does the long work of one request.
 *
 * It answers in frames through a pipe, which the guest passes on as fast as the client takes
 * them; the loop waits for nobody. The child has a copy of the guest's memory and nothing open
 * but the pipe.
 */
#include "guest/guest.h"

struct worker_out {
	int fd;
	struct buf buf; /* gathered, so that many short answers are one write */
	bool is_broken; /* nobody reads any more: stop */
};

/* Runs in the child. < 0: the answer is END with err. */
typedef int worker_fn(struct worker_out *out, void *arg, struct err *err);

/* One message of the answer. False: nobody listens, give up. */
bool worker_message(struct worker_out *out, uint16_t kind, const struct frame_writer *body);

/*
 * Answer q by fn(arg) in a child; arg is only read there, before this returns nothing of it is
 * kept. must_finish: goes on when the client is gone. -EAGAIN past the cap of workers.
 */
int worker_start(struct request *q, worker_fn *fn, void *arg, bool must_finish, struct err *err);
