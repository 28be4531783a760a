/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/plan - a sandbox flattened into an array of typed operations.
 *
 *   spec + facts + host view --plan_build--> plan --apply--> a running command
 *
 * Building is pure: it looks at no file system and needs no privilege, so it is
 * tested as any user and printed by `bawn run --plan`. Each operation names the
 * wall it builds and the process that carries it out:
 *
 *   HOST     the bawn process, with the caller's rights (makes idmapped mounts as root)
 *   EARLY    pid 1 of the box, at the same time as HOST: needs nothing but namespaces
 *   INIT     pid 1 of the box, in its namespaces, before anything of the tenant runs
 *   COMMAND  the child that becomes the command
 *
 * A slot holds a detached mount between the operation that makes it and the one
 * that attaches it.
 */
#include "base/err.h"
#include "base/text.h"
#include "core/spec.h"
#include "run/process/host_view.h"
#include "sys/cgroup.h"
#include "sys/userns.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define PLAN_SLOTS_MAX 200
#define PLAN_OPS_MAX   8192

#define OP_NOBODY ((uid_t)-1)

enum op_side { OP_SIDE_HOST, OP_SIDE_EARLY, OP_SIDE_INIT, OP_SIDE_COMMAND };

enum op_kind {
	/* make a detached mount in a slot */
	OP_TREE,    /* slot <- the tree at path */
	OP_TMPFS,   /* slot <- tmpfs of size, inodes */
	OP_OVERLAY, /* slot <- overlay of slot `lower` with directory `text` of slot `upper` */
	/* fill a tmpfs */
	OP_DIR,     /* directory path in slot: mode, uid, gid */
	OP_EMPTY,   /* file path in slot, empty or holding text */
	OP_SYMLINK, /* symlink path -> text in slot */
	OP_NODE,    /* device path ("null") in slot */
	OP_SEAL,    /* slot becomes read-only */
	/* in the box's mount namespace */
	OP_PRIVATE, /* nothing propagates out */
	OP_ROOT,    /* slot becomes the new root */
	OP_ATTACH,  /* slot (or its directory `text`) at path */
	OP_MASK,    /* an empty directory or file over path */
	OP_PIN,     /* path bound onto itself: cannot be renamed or removed */
	OP_RDONLY,  /* path bound onto itself read-only */
	OP_PROC,    /* fresh proc at path */
	OP_DEVPTS,  /* own devpts at path */
	OP_PIVOT,   /* pivot_root, old root detached */
	OP_HOSTNAME,
	OP_LOOPBACK,
	OP_ROAD,     /* every address is local, and two sockets for whoever is outside */
	OP_SYSCTL,   /* write text to path, a setting of the box's own namespaces */
	OP_OWN,      /* path of the finished root to uid, gid */
	OP_CGROUPNS, /* unshare the cgroup namespace once in the leaf */
	/* the command */
	OP_SESSION, /* own session; own terminal if the caller has one */
	OP_RLIMIT,  /* resource `number` to `size` */
	OP_NICE,    /* lower priority: stands in for a cpu limit */
	OP_BOUND,   /* capability bounding set `size` */
	OP_IDS,     /* become uid, gid; no other groups */
	OP_CAPS,    /* effective and permitted `size` */
	OP_CHDIR,   /* to path */
	OP_FDS,     /* close every descriptor but the listed ones */
	OP_NNP,
	OP_LANDLOCK_ALLOW, /* path, access in `number` */
	OP_LANDLOCK,       /* enter; TCP refused if `number` */
	OP_SECCOMP,        /* flags in `number` */
	OP_EXEC,
	OP_COUNT
};

struct op {
	enum op_kind kind;
	enum op_side side;
	enum wall wall;
	size_t seq;       /* order of building: ties keep it */
	bool soft;        /* OP_TREE: go on without the id map if there can be none */
	bool no_links;    /* OP_TREE: no part of path may be a link by now */
	bool idmap;       /* OP_TREE: map ids by the box's user namespace */
	bool want_target; /* OP_ATTACH: make the mount point if it is missing */
	bool is_file;     /* target is a file, not a directory */
	bool is_optional; /* a path that may be gone by now: skip */
	int slot, lower, upper;
	unsigned attrs;  /* enum mount_flag */
	unsigned number; /* see the kind */
	mode_t mode;
	uid_t uid; /* inside; OP_NOBODY: left to whoever made it, and nobody inside */
	gid_t gid;
	uint64_t size, inodes;
	char *path, *text; /* owned by the plan */
};

struct plan_mount {
	char *path;
	char *type;
	bool is_dir;
};

/* What building needs to know of machine and caller; filled by run/process/facts. */
struct plan_facts {
	bool is_host_root; /* root of the initial user namespace */
	uid_t uid;         /* the caller */
	gid_t gid;
	uint32_t range_first;    /* as root: first id of the reserved range */
	uint32_t subuid, subgid; /* rootless: first subordinate id, 0 = none */
	enum cgroup_kind cgroup;
	unsigned cgroup_controllers;
	int landlock_abi;
	struct plan_mount *mounts; /* this host's mounts, in order */
	size_t mounts_n;
	char *template_dir; /* root=base: the built template, absolute */
	int template_fd;    /* keeps it there; -EBADF without */
	bool has_cpu_dir;   /* /sys/devices/system/cpu */
	bool has_dpkg;      /* /var/lib/dpkg */
	unsigned trust;     /* want_road: which of plan_trust_path() are here, as bits */
	bool has_tty;       /* one of the command's streams is a terminal */
	bool is_resident;   /* outlives its maker: no listener, no polling, always a cgroup */
	/* who the command runs as, inside */
	uid_t box_uid;
	gid_t box_gid;
	char *box_user, *box_home, *box_shell;
};

enum plan_watch {
	PLAN_WATCH_MEMORY = 1u << 0, /* kill the box when its tree takes more */
	PLAN_WATCH_PIDS = 1u << 1,   /* tell when RLIMIT_NPROC was reached */
	PLAN_WATCH_CPU = 1u << 2,    /* keep every session of the box at low priority */
};

struct plan {
	struct op *ops;
	size_t n;
	int slots;      /* in use */
	int store_slot; /* the tmpfs that holds all the box owns; -1 without a mount namespace */
	bool has_cow;   /* store has "cow/u" */
	uint64_t namespaces; /* CLONE_NEW* bits */
	bool late_cgroupns;  /* v1: unshare after joining, not at clone */
	struct userns_map map;
	uid_t id_base; /* added to inside ids on the HOST side; 0 rootless */
	struct cgroup_limits cgroup_limits;
	unsigned cgroup_required;
	bool want_cgroup;
	unsigned watch; /* enum plan_watch: limits without a cgroup, looked after by polling */
	unsigned seccomp_flags;
	struct strv argv, env;
	char *cwd;
};

/* Where programs look for certificates they trust, the n-th; NULL past the last. */
const char *plan_trust_path(size_t n);

/* The box user of the base template, and the n-th path of it that is his; NULL past the last. */
#define TEMPLATE_USER 1000
const char *template_users_path(size_t n);

int plan_build(const struct spec *spec, const struct plan_facts *facts,
	const struct host_view *view, bool want_explain, struct plan *ret, struct err *err);
/* The same plan for a box whose own range of ids, as root, begins at `first`. */
void plan_set_range(struct plan *p, uint32_t first);
void plan_done(struct plan *p);
void plan_facts_done(struct plan_facts *f);

const char *op_kind_name(enum op_kind k);
const char *op_side_name(enum op_side s);
/* One operation per line for people, or a JSON array. */
int plan_print(const struct plan *p, bool as_json, FILE *out, struct err *err);
