/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/provider - what a tier must do to hold sandboxes for the server. One table per tier.
 *
 *   begin    make a sandbox from a spec with a guest inside that listens on `listen_fd`
 *   abandon  no more of it: kill what is there so far
 *   claim    give it to somebody
 *   discard  nobody wants it
 *   open     after a restart of the warden: find it again by its record
 *   stop     kill and remove everything it had; safe to repeat
 *   usage    what it has used so far
 *   road     the sockets of its way out again, when nobody holds them any more
 *
 * Several may be on their way up at once; what has to be waited for is waited for in the loop.
 * A claimed sandbox outlives the process that started it. Nothing above this header knows which
 * tier a sandbox has. Runs in: the warden.
 */
#include "base/err.h"
#include "core/spec.h"
#include "core/wall.h"
#include "io/loop.h"
#include "sys/road.h"

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

struct provider_making; /* a sandbox on its way up */
struct provider_spare;  /* a sandbox that is up and nobody's */

/*
 * It is up, its guest running and its walls verified, for nobody yet: it dies with this process,
 * or by discard. Or take is NULL, err says why, and nothing of it is left. From the loop, never
 * from inside begin(), and once.
 */
typedef void (*provider_made_fn)(struct provider_spare *take, const struct wall_record *walls,
	const struct err *err, void *arg);

/*
 * It outlives this process now; pidfd is its pid 1, road the two sockets of its way out (-EBADF if
 * it has none), both owned by whoever is called. With err->code set it was not to be had: it is
 * being killed, and stop() is due once pidfd fires.
 */
typedef void (*provider_claimed_fn)(
	int take_pidfd, struct road take_road, const struct err *err, void *arg);

struct provider {
	const char *tier;
	/*
	 * Blocks for a millisecond or two, not until it is up. `id` names what the kernel holds of
	 * it. The spec is emptied.
	 */
	struct provider_making *(*begin)(struct loop *l, struct spec *take, const char *id,
		int take_listen_fd, provider_made_fn made, void *arg);
	/*
	 * Kill it and call nobody. *ret is what stop() needs once the returned pidfd, which the
	 * caller owns, fires; at once if that is < 0.
	 */
	int (*abandon)(struct provider_making *take, struct provider_record *ret);
	/*
	 * Give it to somebody, with a name of its own. `released` is called with the record to be
	 * kept, before this returns; a negative return refuses. `claimed` is called once, from the
	 * loop or from inside this call.
	 */
	void (*claim)(struct loop *l, struct provider_spare *take, const char *id,
		const char *hostname, int (*released)(const struct provider_record *rec, void *arg),
		provider_claimed_fn claimed, void *arg);
	/* As abandon(). */
	int (*discard)(struct provider_spare *take, struct provider_record *ret);
	/* Is what the record names still running? Its pidfd, or -ESRCH. */
	int (*open)(const struct provider_record *rec, struct err *err);
	/* Kill everything, wait until it is gone, remove its cgroup leaves. -EBUSY after 5 s. */
	int (*stop)(const struct provider_record *rec, struct err *err);
	int (*usage)(
		const struct provider_record *rec, struct provider_usage *ret, struct err *err);
	/* -EADDRINUSE: somebody holds them still. */
	int (*road)(const struct provider_record *rec, struct road *ret, struct err *err);
};

extern const struct provider provider_process; /* src/run/process/resident.c */

const struct provider *provider_find(const char *tier);
