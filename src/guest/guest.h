/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * guest/guest - the program inside every sandbox: what its parts share.
 *
 * One process, one loop, root of the box. Serves the guest protocol (io/guest_proto.h) on the
 * connections it accepts; knows no host, no tenant, no policy. Whatever a client or a process
 * of the box does, it goes on: a malformed request is answered, a malformed frame ends that
 * connection only. Nothing it waits for may be in the hands of one client: long work is
 * done by forked workers (guest/worker.h).
 */
#include "base/err.h"
#include "io/guest_proto.h"
#include "io/loop.h"
#include "io/mux.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define GUEST_RINGS_MAX (64u << 20) /* memory of all output rings together */
#define GUEST_INPUT_MAX (32u << 20) /* input that waits for processes, all together */

#define GUEST_RELAY_MAX (32u << 20) /* bytes for servers inside that do not read, all together */

struct proc;
struct watches;

struct guest {
	struct loop *loop;
	struct guest_bind bind;
	struct proc *procs; /* newest first */
	size_t procs_n;
	size_t ring_bytes;  /* allocated by rings */
	size_t input_bytes; /* waiting in proc inputs */
	size_t relay_bytes; /* waiting for servers inside */
	size_t workers_n;
	struct watches *watches; /* NULL until the first watcher */
	char *scratch;           /* GUEST_SCRATCH bytes, NULL when idle */
	struct rlimit files;     /* open files as we were given them; ours are raised */
	uint64_t active_ms;      /* of the last request or output byte */
	uint64_t reaped_cpu_us;  /* of everything that was reaped */
	struct loop_timer trim;  /* gives memory back when nothing happens */
};

#define GUEST_SCRATCH (64u << 10)

/* One request: where to answer. */
struct request {
	struct guest *g;
	struct mux *mux;
	uint32_t id;
};

typedef void request_fn(struct request *q, struct frame_reader *body);

/* A request or an output byte came: not idle. */
void guest_active(struct guest *g);

/* GUEST_SCRATCH bytes for the current callback; given back when idle. */
char *guest_scratch(struct guest *g);

/* A child ended: status as of wait4(). */
void guest_reaped(struct guest *g, pid_t pid, int status, const struct rusage *used);

/* Answers without a channel. */
void request_ok(struct request *q);
void request_fail(struct request *q, const struct err *err);
void request_malformed(struct request *q);

#define OWNER_OF(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

request_fn bind_request, envs_request, ping_request, usage_request;
request_fn start_request, attach_request, processes_request;
request_fn input_request, close_input_request, signal_request, resize_request;
request_fn stat_request, list_request, mkdir_request, move_request, remove_request;
request_fn read_request, write_request, watch_request, port_request;
