/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/provider - what a tier must do to hold sandboxes for the server. One table per tier.
 *
 *   prepare  make a sandbox from a spec with a guest inside that listens on `listen_fd`
 *   claim    give it to somebody
 *   open     after a restart of the warden: find it again by its record
 *   stop     kill and remove everything it had; safe to repeat
 *   usage    what it has used so far
 *
 * A claimed sandbox outlives the process that started it. Nothing above this header knows which
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

struct provider_spare; /* a sandbox that is up and nobody's */

struct provider {
	const char *tier;
	/*
	 * Make a sandbox with its guest running and its walls verified, for nobody yet: it dies
	 * with this process, or by discard. `id` names what the kernel holds of it.
	 */
	int (*prepare)(const struct spec *spec, const char *id, int listen_fd,
		struct wall_record walls[WALL_COUNT], struct provider_spare **ret, struct err *err);
	/*
	 * Give it to somebody, with a name of its own. `released` is called with the record to be
	 * kept; a negative return refuses. Afterwards it outlives this process. *ret_pidfd: its
	 * pid 1, owned by the caller. The spare is used up, also on failure: then it is gone.
	 */
	int (*claim)(struct provider_spare *take, const char *id, const char *hostname,
		int (*released)(const struct provider_record *rec, void *arg), void *arg,
		int *ret_pidfd, struct err *err);
	void (*discard)(struct provider_spare *take);
	/* Is what the record names still running? Its pidfd, or -ESRCH. */
	int (*open)(const struct provider_record *rec, struct err *err);
	/* Kill everything, wait until it is gone, remove its cgroup leaves. -EBUSY after 5 s. */
	int (*stop)(const struct provider_record *rec, struct err *err);
	int (*usage)(
		const struct provider_record *rec, struct provider_usage *ret, struct err *err);
};

extern const struct provider provider_process; /* src/run/process/resident.c */

const struct provider *provider_find(const char *tier);
