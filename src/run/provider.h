/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/provider - what a tier must do to hold sandboxes for the server. One table per tier.
 *
 *   start    make a sandbox from a spec with a guest inside that listens on `listen_fd`
 *   find     after a restart of the warden: the sandboxes this tier still has, by their records
 *   stop     kill and remove everything it had; safe to repeat
 *   usage    what it has used so far
 *
 * A started sandbox outlives the process that started it. Nothing above this header knows which
 * tier a sandbox has. Runs in: the warden; blocks for milliseconds.
 */
#include "base/err.h"
#include "core/spec.h"
#include "core/wall.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROVIDER_ID_MAX 32

/* What identifies a running sandbox to the kernel; the warden's <state>/boxes/<id>/record. */
struct provider_record {
	char id[PROVIDER_ID_MAX]; /* ^[a-z0-9]{1,31}$ */
	char tier[16];
	char cgroup[128];   /* leaf name, "" = none */
	char boot_id[40];   /* /proc/sys/kernel/random/boot_id */
	int64_t pid;        /* pid 1 of the box, outside */
	uint64_t pid_start; /* its start time: a recycled pid is not it */
	uint64_t made_ms;   /* unix */
};

struct provider_usage {
	uint64_t cpu_us, memory, memory_peak, disk, oom_kills, pids_refused;
	bool has_cpu, has_memory, has_disk;
};

struct provider {
	const char *tier;
	/*
	 * Start a sandbox. `released` is called when its walls are verified, with the record
	 * to be kept, `walls` filled; a negative return kills the sandbox. Until then it dies
	 * with this process; afterwards it does not. *ret_pidfd: its pid 1, owned by the
	 * caller.
	 */
	int (*start)(const struct spec *spec, const char *id, int listen_fd,
		int (*released)(const struct provider_record *rec, void *arg), void *arg,
		struct wall_record walls[WALL_COUNT], int *ret_pidfd, struct err *err);
	/* Is what the record names still running? Its pidfd, or -ESRCH. */
	int (*open)(const struct provider_record *rec, struct err *err);
	/* Kill everything, wait until it is gone, remove its cgroup leaves. -EBUSY after 5 s. */
	int (*stop)(const struct provider_record *rec, struct err *err);
	int (*usage)(
		const struct provider_record *rec, struct provider_usage *ret, struct err *err);
};

extern const struct provider provider_process; /* src/run/process/resident.c */

const struct provider *provider_find(const char *tier);
