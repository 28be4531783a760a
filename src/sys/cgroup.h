/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/cgroup - one sandbox's control groups: a v2 leaf, or one leaf per v1 hierarchy.
 *
 *   cgroup_create()                          parent, before the child exists
 *   clone3(CLONE_INTO_CGROUP, cgroup_clone_fd())   v2: the child is born inside
 *   cgroup_join_self()                       child, first thing: enters the v1 leaves
 *   cgroup_read_limits(), cgroup_contains()  parent: read back what the kernel has
 *   cgroup_read_usage(), cgroup_remove()     parent, at the end
 *
 * The leaves outlive the handle, so that a janitor or a later start finds them by
 * name: "bawn-<pid>-<starttime>-<pid namespace>-<random>", or the one that was given
 * to cgroup_create_named(), directly in the parent; nothing else is ever left in the tree.
 * Everything but the two ways to enter works by
 * path, so a janitor that closed every descriptor may still kill, read and remove.
 * Knows no policy: which limits a sandbox gets is decided in core.
 * Runs in: bawn run, warden; root, or a user with a delegated subtree. No threads.
 */
#include "base/err.h"
#include "base/own.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_kind {
	CGROUP_NONE, /* nothing mounted, or nothing we may write to */
	CGROUP_V1,   /* v1 or hybrid: controllers on v1 hierarchies */
	CGROUP_V2,
};

enum cgroup_controller {
	CGROUP_MEMORY = 1u << 0,
	CGROUP_CPU = 1u << 1,
	CGROUP_PIDS = 1u << 2,
	CGROUP_IO = 1u << 3,
};

struct cgroup_limits {
	uint64_t memory_max; /* bytes, 0 = no limit; the kernel rounds down to a page; no swap */
	uint64_t cpu_milli;  /* thousandths of one cpu, 0 = no limit */
	uint64_t pids_max;   /* tasks, the sandbox's own pid 1 included, 0 = no limit */
	uint64_t io_bps;     /* bytes per second each way on every block device, 0 = no limit */
};

struct cgroup_usage {
	uint64_t memory;       /* bytes now; 0 = unknown */
	uint64_t memory_peak;  /* bytes; 0 = unknown */
	uint64_t cpu_us;       /* user + system; 0 = unknown */
	uint64_t oom_kills;    /* tasks killed at the limit */
	uint64_t pids_refused; /* forks refused at the limit */
	uint64_t io_written;   /* bytes to block devices; 0 = unknown */
};

struct cgroup; /* opaque */

/*
 * What this machine mounts and the caller may use. *ret_controllers: bits of enum
 * cgroup_controller that cgroup_create() can expect to get. Changes nothing.
 */
enum cgroup_kind cgroup_detect(unsigned *ret_controllers);

/*
 * Create leaves with those limits; a controller without a limit is not used. One that
 * cannot be had is an error if it is in controllers_required (-EOPNOTSUPP: this machine
 * lacks it; -EACCES: the caller may not; else what the kernel said to the value) and left
 * out otherwise: cgroup_controllers() tells what was built. On failure nothing is left on
 * disk. The caller frees *ret with cgroup_free(), after cgroup_remove().
 */
int cgroup_create(const struct cgroup_limits *limits, unsigned controllers_required,
	struct cgroup **ret, struct err *err);

/*
 * The same under a name of the caller's, "bawn-box-…", which must be new: the leaves
 * outlive their maker, cgroup_sweep() never takes them, and they are made for counting and
 * killing even where there is no limit. cgroup_remove() is up to whoever knows the name.
 */
int cgroup_create_named(const char *name, const struct cgroup_limits *limits,
	unsigned controllers_required, struct cgroup **ret, struct err *err);

/*
 * A handle on the leaves of that name, whoever made them: for usage, kill and removal.
 * -ENOENT if there are none.
 */
int cgroup_find(const char *name, struct cgroup **ret, struct err *err);

/* The controllers whose limit was written. 0: no leaf was needed or could be had. */
unsigned cgroup_controllers(const struct cgroup *cg);

/* The name shared by every leaf. Borrowed. */
const char *cgroup_name(const struct cgroup *cg);

/* Directory fd for CLONE_INTO_CGROUP if there is a v2 leaf, else -EBADF. Borrowed. */
int cgroup_clone_fd(const struct cgroup *cg);

/*
 * Called by the child on itself, single-threaded and before it closes descriptors: enter the
 * v1 leaves (nothing to do for a v2 leaf, the child was cloned into it). 0.2 ms, where
 * cgroup_join() costs 10 to 20: for every way to move a task but this one the kernel takes a
 * global lock and waits for an RCU grace period. Does not allocate. With v1 leaves, unshare
 * the cgroup namespace after this, not with the clone: its root is where one stands then.
 */
int cgroup_join_self(const struct cgroup *cg, struct err *err);

/* Put another process in, v2 leaf included. Blocks 10 to 20 ms: see cgroup_join_self(). */
int cgroup_join(const struct cgroup *cg, pid_t pid, struct err *err);

/* Limits as the kernel tells them back, read from the control files now; 0 = not limited there. */
int cgroup_read_limits(const struct cgroup *cg, struct cgroup_limits *ret, struct err *err);

int cgroup_read_usage(const struct cgroup *cg, struct cgroup_usage *ret, struct err *err);

/* True if pid is in every leaf, by /proc/<pid>/cgroup as the caller sees it. */
bool cgroup_contains(const struct cgroup *cg, pid_t pid);

/* SIGKILL every task of the leaves, forks included; safe to repeat. On v2 returns at once. */
int cgroup_kill(const struct cgroup *cg, struct err *err);

/* Kill, wait until empty (5 s at most, then -EBUSY), remove every leaf. Safe to repeat. */
int cgroup_remove(struct cgroup *cg, struct err *err);

/*
 * Remove leaves whose owner process (in the name) is gone, with whatever still runs in them.
 * Best effort; returns how many leaves went.
 */
int cgroup_sweep(void);

/* Release the handle only. NULL is fine. Always returns NULL. */
struct cgroup *cgroup_free(struct cgroup *cg);
DEFINE_AUTO(struct cgroup *, cgroup_free)
