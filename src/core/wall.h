/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/wall - the walls by name, how much each is wanted, and what the kernel gave.
 *
 * Every wall of a sandbox has one entry here; the same names are used by
 * `--wall NAME=LEVEL`, profiles, the JSON result, `bawn doctor` and `bawn attack`.
 * Pure data; run/process/verify fills the record from the kernel.
 */
#include "base/err.h"

#include <stdbool.h>

enum wall {
	WALL_USER,     /* user namespace: root in the box is nobody outside */
	WALL_IDS,      /* own id range (or the caller's single id), lower layers idmapped */
	WALL_MOUNT,    /* mount namespace */
	WALL_ROOT,     /* own root by pivot_root: the host view read-only, or the template */
	WALL_MASKS,    /* secrets hidden, protected names read-only (host view) */
	WALL_PROC,     /* fresh masked /proc */
	WALL_DEV,      /* minimal /dev, own devpts */
	WALL_SYS,      /* /sys absent but for harmless leaves */
	WALL_PID,      /* pid namespace */
	WALL_NET,      /* network namespace with lo only */
	WALL_IPC,      /* ipc namespace */
	WALL_UTS,      /* uts namespace */
	WALL_CGROUPNS, /* cgroup namespace */
	WALL_CAPS,     /* capability bounding set */
	WALL_NNP,      /* no_new_privs */
	WALL_SECCOMP,  /* system call allow-list */
	WALL_LANDLOCK, /* second file and network wall, scopes */
	WALL_MEMORY,   /* memory limit, no swap */
	WALL_CPU,      /* cpu quota */
	WALL_PIDS,     /* process count */
	WALL_IO,       /* block io rate */
	WALL_DISK,     /* size cap of everything the box owns */
	WALL_RLIMITS,  /* open files, core dumps, locked memory, queues */
	WALL_FDS,      /* no descriptor but the listed ones */
	WALL_TTY,      /* own terminal; the caller's is never reachable */
	WALL_TIME,     /* wall clock timeout */
	WALL_COUNT
};

enum wall_level {
	WALL_LEVEL_OFF,       /* not wanted */
	WALL_LEVEL_PREFERRED, /* built if this machine can; the record says if it could not */
	WALL_LEVEL_REQUIRED,  /* built, or the sandbox does not start */
};

enum wall_verdict {
	WALL_VERDICT_OFF,      /* was not wanted */
	WALL_VERDICT_ENFORCED, /* read back from the kernel */
	WALL_VERDICT_FALLBACK, /* a weaker mechanism stands in; detail says which */
	WALL_VERDICT_MISSING,  /* wanted and not there */
};

struct wall_record {
	enum wall_level requested;
	enum wall_verdict enforced;
	char detail[120]; /* what was read back: "landlock abi 7: fs, scopes" */
};

/* "user", "ids", … as users write them. */
const char *wall_name(enum wall w);
/* One line: what the wall stops. */
const char *wall_about(enum wall w);
/* One line: how to get it when it is missing. */
const char *wall_remedy(enum wall w);
const char *wall_level_name(enum wall_level l);
const char *wall_verdict_name(enum wall_verdict v);

/* -EINVAL names the closest wall and the accepted levels. */
int wall_parse(const char *name, enum wall *ret, struct err *err);
int wall_level_parse(const char *name, enum wall_level *ret, struct err *err);
