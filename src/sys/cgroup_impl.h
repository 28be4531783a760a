/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/cgroup_impl - what the files of sys/cgroup share; private to them and their test.
 *
 *   cgroup_file   control files: one write, one read, the little grammars in them
 *   cgroup_tree   where leaves may go: mounts, delegation, the caller's own place
 *   cgroup_v1/v2  the two sets of control files
 *   cgroup_reap   names, killing, waiting for emptiness, removal, sweep
 *   cgroup        the life of a handle, over all of these
 */
#include "base/err.h"
#include "sys/cgroup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_PATH_MAX 1024 /* a parent directory longer than this is not used */
#define CGROUP_NAME_MAX 96
#define CGROUP_LEAF_MAX (CGROUP_PATH_MAX + CGROUP_NAME_MAX)
#define CGROUP_COUNT    4 /* controllers we use, at worst each in a hierarchy of its own */
#define CGROUP_TEXT_MAX 4096

extern const char *const cgroup_controller_name[CGROUP_COUNT]; /* by bit number */

/* ---- cgroup_file ---- */

/* Write the whole value at once. The error names file and value. */
int cgroup_put(const char *dir, const char *file, const char *value, struct err *err);
int cgroup_put_number(const char *dir, const char *file, uint64_t n, struct err *err);

/* Read at most size - 1 bytes, NUL-terminated. Length or -errno, with no message. */
int cgroup_get(const char *dir, const char *file, char *text, size_t size);

/* A control file that holds one number; "max" and "-1" give UINT64_MAX. */
int cgroup_get_number(const char *dir, const char *file, uint64_t *ret);

/* Decimal digits at *p, advancing it. False at a non-digit or past 2^64 - 1. */
bool cgroup_scan_number(const char **p, uint64_t *ret);

/* The number after "key " at the start of a line. */
bool cgroup_find_key(const char *text, const char *key, uint64_t *ret);

/* Our controllers in a list separated by spaces, commas or line ends. */
unsigned cgroup_parse_controllers(const char *text);

/* Every whole block device as "major:minor". Returns how many, or -errno. */
#define CGROUP_DISKS_MAX 256
struct cgroup_disks {
	char id[CGROUP_DISKS_MAX][16];
	size_t n;
};
int cgroup_disks_read(struct cgroup_disks *ret, struct err *err);

/* ---- cgroup_tree ---- */

struct cgroup_mount {
	char path[CGROUP_PATH_MAX]; /* the mount point, unescaped */
	char root[CGROUP_PATH_MAX]; /* the directory of the hierarchy that is mounted there */
	unsigned controllers;       /* ours, on a v1 hierarchy; 0 on v2 */
	bool is_v2;
	bool has_cpuacct; /* cpuacct.usage is there too */
};

/* One line of /proc/self/mountinfo, pure. False if it is no cgroup mount of use to us. */
bool cgroup_parse_mount(const char *line, size_t n, struct cgroup_mount *ret);

/*
 * The path in the line of /proc/<pid>/cgroup for a v1 controller by name, or of v2
 * if controller is NULL. Pure. False if absent, too long or outside the namespace.
 */
bool cgroup_parse_place(const char *text, const char *controller, char *ret, size_t size);

struct cgroup_parent {
	char path[CGROUP_PATH_MAX];     /* leaves go directly in here */
	unsigned controllers;           /* usable */
	unsigned enabled;               /* v2: already in cgroup.subtree_control */
	unsigned added;                 /* v2: put there by us, taken back with the move */
	unsigned movers;                /* v2: live handles that need us out of `path` */
	char self[CGROUP_LEAF_MAX + 8]; /* v2: where we went meanwhile */
	bool is_v2;
	bool has_cpuacct;
	bool must_move; /* v2: `path` is our own cgroup, we stand in the way of its controllers */
};

struct cgroup_tree {
	enum cgroup_kind kind;
	struct cgroup_parent parent[CGROUP_COUNT];
	size_t n;
	unsigned mounted;     /* controllers that exist here, ours to use or not */
	unsigned controllers; /* those we may use */
};

/* The tree for the effective user, looked up once. Never NULL. */
struct cgroup_tree *cgroup_tree_get(void);

/* ---- cgroup_v1, cgroup_v2 ---- */

/* Write one controller's limit in a leaf. */
int cgroup_v1_apply(
	const char *leaf, unsigned controller, const struct cgroup_limits *l, struct err *err);
int cgroup_v2_apply(
	const char *leaf, unsigned controller, const struct cgroup_limits *l, struct err *err);

/* Read one controller's limit back into its field of *ret. */
int cgroup_v1_limit(
	const char *leaf, unsigned controller, struct cgroup_limits *ret, struct err *err);
int cgroup_v2_limit(
	const char *leaf, unsigned controller, struct cgroup_limits *ret, struct err *err);

/* Fill the fields of *ret that the leaf knows; a file this kernel lacks leaves 0. */
void cgroup_v1_usage(
	const char *leaf, unsigned controllers, bool has_cpuacct, struct cgroup_usage *ret);
void cgroup_v2_usage(const char *leaf, struct cgroup_usage *ret);

/*
 * Make `controllers` available to children of parent, one by one; *ret_got are those
 * that could be. Moves the caller to "<path>/<name>.self" first if it must.
 */
int cgroup_v2_enable(struct cgroup_parent *parent, const char *name, unsigned controllers,
	unsigned *ret_got, struct err *err);

/* Undo the move of cgroup_v2_enable() when the last handle that needed it goes. */
void cgroup_v2_restore(struct cgroup_parent *parent);

/* Quota and period in microseconds: "cpu_milli" in the kernel's terms. */
void cgroup_cpu_quota(uint64_t cpu_milli, uint64_t *ret_quota, uint64_t *ret_period);

/* ---- cgroup_reap ---- */

/* "bawn-<pid>-<starttime>-<pid namespace>-<random>" for the calling process. */
int cgroup_make_name(char ret[CGROUP_NAME_MAX], struct err *err);

/*
 * True if `name` is one of ours and the process in it is gone. False for foreign names and for
 * owners of another pid namespace, whom we cannot see.
 */
bool cgroup_name_is_dead(const char *name);

/* Monotonic clock. */
uint64_t cgroup_now_ms(void);

/* True if pid is in a cgroup whose last part is `name`, in `n` hierarchies or more. */
bool cgroup_pid_in(pid_t pid, const char *name, size_t n);

/* SIGKILL all in the leaf; on v1 returns when it is empty, on v2 at once. */
int cgroup_kill_leaf(
	const char *leaf, const char *name, bool is_v2, uint64_t deadline_ms, struct err *err);
int cgroup_remove_leaf(
	const char *leaf, const char *name, bool is_v2, uint64_t deadline_ms, struct err *err);
