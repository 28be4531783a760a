/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/probe - facts about this machine, measured by trying.
 *
 * Each try runs in a child of its own, in namespaces of its own, with a time
 * limit; its mounts are detached or die with its mount namespace, so nothing is
 * left and nothing of the machine is changed (the kernel may load a module, as it
 * would for the first sandbox). What a fact means, and how to get
 * what is missing, is core/diagnosis; here is no policy.
 * Runs in: bawn doctor, as root or any user, nested or not. Blocks for as long as
 * the tries take: some 50 ms, each at most PROBE_TIMEOUT_MS. No threads.
 */
#include "base/err.h"
#include "sys/cgroup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROBE_TIMEOUT_MS 3000
#define PROBE_RANGE      65536u /* ids in one sandbox's range */

/* What is tried. Unless the comment says otherwise: in a fresh user namespace with one id. */
enum probe_item {
	PROBE_USERNS,          /* create, map, and use a capability inside */
	PROBE_USERNS_ORDINARY, /* the same as uid 65534; only tried by root */
	PROBE_NS_MOUNT,
	PROBE_NS_PID,
	PROBE_NS_NET, /* with lo brought up */
	PROBE_NS_IPC,
	PROBE_NS_UTS,
	PROBE_NS_CGROUP,
	PROBE_NS_TIME,
	PROBE_TMPFS,            /* with a size cap */
	PROBE_PROC,             /* fresh, in a pid namespace: refused where /proc is masked */
	PROBE_DEVPTS,           /* own instance, a terminal opened in it */
	PROBE_BIND,             /* a read-only copy of the whole mount tree */
	PROBE_PIVOT_ROOT,       /* into a tmpfs */
	PROBE_OVERLAY,          /* on tmpfs, a file removed through it */
	PROBE_OVERLAY_DETACHED, /* on layers that are not attached anywhere */
	PROBE_IDMAP_ROOT,       /* "/" idmapped to a 65,536-id range; only tried by root */
	PROBE_IDMAP_USR,        /* "/usr" likewise */
	PROBE_NEWUIDMAP, /* the caller's subuid and subgid ranges mapped by the tools; users only */
	PROBE_NNP,       /* no_new_privs; this and the rest without namespaces */
	PROBE_SECCOMP,
	PROBE_SECCOMP_NOTIFY, /* one call shown to a listener and continued */
	PROBE_CLONE3,
	PROBE_OPENAT2,
	PROBE_PIDFD,
	PROBE_CLOSE_RANGE,
	PROBE_MOUNT_API,     /* open_tree() */
	PROBE_MOUNT_SETATTR, /* known to the kernel */
	PROBE_MEMFD,         /* executable and sealed */
	PROBE_NFT,           /* nf_tables answers in a fresh network namespace */
	PROBE_KVM,           /* /dev/kvm opens and speaks version 12 */
	PROBE_REFLINK,       /* FICLONE between two unnamed files in the state directory */
	PROBE_COUNT
};

#define PROBE_UNTRIED (-1)

struct probe_try {
	int code;      /* 0 works, PROBE_UNTRIED, else a positive errno; ETIMEDOUT: no answer */
	char step[44]; /* what failed: "clone", "write '/proc/self/uid_map'", … */
};

/* Settings of the kernel that are read. */
enum probe_sysctl {
	PROBE_SYSCTL_APPARMOR_USERNS, /* Ubuntu: users' namespaces get no capabilities */
	PROBE_SYSCTL_USERNS_CLONE,    /* Debian's patch: users may not create them at all */
	PROBE_SYSCTL_MAX_USERNS,
	PROBE_SYSCTL_MAX_MNTNS,
	PROBE_SYSCTL_MAX_PIDNS,
	PROBE_SYSCTL_MAX_NETNS,
	PROBE_SYSCTL_TIOCSTI,
	PROBE_SYSCTL_CORE_PATTERN,
	PROBE_SYSCTL_PTRACE_SCOPE,
	PROBE_SYSCTL_INOTIFY_INSTANCES,
	PROBE_SYSCTL_INOTIFY_WATCHES,
	PROBE_SYSCTL_MEMFD_NOEXEC,
	PROBE_SYSCTL_PID_MAX,
	PROBE_SYSCTL_BPF_DISABLED,
	PROBE_SYSCTL_HARDLINKS,
	PROBE_SYSCTL_COUNT
};

enum probe_swap {
	PROBE_SWAP_NONE,        /* the machine has no swap */
	PROBE_SWAP_ACCOUNTED,   /* swap can be forbidden per cgroup */
	PROBE_SWAP_UNACCOUNTED, /* it cannot */
	PROBE_SWAP_UNKNOWN,
};

struct probe_cgroup {
	enum cgroup_kind usable; /* what the caller may write to, by cgroup_detect() */
	unsigned controllers;    /* CGROUP_ bits the caller may use */
	char v2_mount[96];       /* "" = not mounted */
	unsigned v2_controllers; /* CGROUP_ bits v2 has on this machine */
	char v1_mount[4][96];    /* memory, cpu, pids, io; "" = not on v1 */
	enum probe_swap swap;
};

struct probe {
	struct probe_try tries[PROBE_COUNT];
	char sysctls[PROBE_SYSCTL_COUNT][96]; /* "" = this kernel has no such setting */
	char kernel[65];
	char arch[65];
	uid_t uid; /* effective */
	gid_t gid;
	char user[33]; /* from /etc/passwd; "" = no entry */
	bool is_root;  /* uid 0 of the initial user namespace, with CAP_SYS_ADMIN */
	bool is_nested_userns;
	bool is_nnp;        /* no_new_privs is set: setuid helpers do not work */
	bool is_filtered;   /* a seccomp filter already stands around us */
	char container[32]; /* "docker", "podman", "kubernetes", …; "" = none seen */
	char apparmor[96];  /* profile we run under; "" = none */
	char lsms[96];      /* active security modules; "" = not readable */
	int landlock_abi;   /* 0 = none */
	int landlock_code;  /* errno when none: ENOSYS not built in, EOPNOTSUPP switched off */
	struct probe_cgroup cgroup;
	uint32_t subuid; /* first of PROBE_RANGE - 1 ids in /etc/subuid; 0 = no such range */
	uint32_t subgid;
	uint32_t subid_free; /* first id past every range of both files, at least 100000 */
	char newuidmap[96];  /* path of the program; "" = not in PATH; likewise below */
	char nft[96];
	char runsc[96];
	char vmm[96]; /* firecracker, cloud-hypervisor or qemu */
	char systemd_run[96];
	bool has_kvm;        /* /dev/kvm exists */
	char proc_cover[96]; /* a mount below /proc, which hides part of it; "" = none */
	char root_fs[24];    /* file system type: "ext4" */
	char usr_fs[24];
	char state_dir[256]; /* the nearest existing directory of the one asked for */
	char state_fs[24];
};

/* Measure everything. Cannot fail: what could not be measured says so. */
void probe_run(struct probe *p, const char *state_dir);

/* Name of a setting as sysctl(8) takes it: "user.max_user_namespaces". */
const char *probe_sysctl_name(enum probe_sysctl s);

/* The first id past every range in the text of a subuid file; `floor` if that is more. Pure. */
uint32_t probe_parse_subid_end(const char *text, uint32_t floor);

/* Fill what the text of /proc/self/mountinfo tells: cgroup mounts and proc_cover. Pure. */
void probe_parse_mounts(const char *mountinfo, struct probe *p);
