/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/wire - what bawn, pid 1 of the box and the command's process tell each other.
 *
 *   bawn                      pid 1 (init)                  command
 *    | START, mounts ----------->|                            |
 *    |<---- BOX, store, pty, road|---- fork ----------------->|
 *    |                           |        (walls read back, a missing one is an ERR)
 *    |<------------------------------------- READY, listener -| execve: its socket closes
 *    | SIGNAL, TERM, KILL ------>|                            |
 *    |<-- STOPPED, FELL, EXIT ---|                            |
 *
 * A resident box is let go once it runs: RELEASE, answered by RELEASE, and no word more.
 * ERR may come from either side of the box at any time. Fixed layout, one packet
 * each. Until READY only our own code runs on the other ends; pid 1 is ours for ever.
 */
#include "base/err.h"
#include "sys/cgroup.h"
#include "sys/sock.h"

#include <stdbool.h>
#include <stdint.h>

#define WIRE_NAME_MAX 65 /* a host name, with NUL */

enum wire_type {
	WIRE_START = 1,
	WIRE_BOX,
	WIRE_READY,
	WIRE_SIGNAL,
	WIRE_TERM,
	WIRE_KILL,
	WIRE_FREEZE, /* SIGSTOP or SIGCONT to everybody */
	WIRE_STOPPED,
	WIRE_FELL, /* number: the operation whose mask had to be put back */
	WIRE_EXIT,
	WIRE_ERR,
	WIRE_RELEASE, /* live on without us; answered by the same */
};

enum wire_namespace {
	WIRE_NS_USER,
	WIRE_NS_MNT,
	WIRE_NS_PID,
	WIRE_NS_NET,
	WIRE_NS_IPC,
	WIRE_NS_UTS,
	WIRE_NS_CGROUP,
	WIRE_NS_COUNT
};

/* What the kernel tells the command's process of itself, just before it execs. */
struct wire_readback {
	uint64_t namespaces[WIRE_NS_COUNT]; /* inode numbers */
	uint64_t cap_bounding, cap_effective;
	uint64_t root_type, proc_type, dev_type, sys_type; /* statfs magic */
	uint64_t nofile, core, nproc, data, fsize;         /* rlimits, hard */
	uint64_t tmp_size;                                 /* bytes of the file system at /tmp */
	uint32_t uid, gid;
	int32_t no_new_privs, seccomp; /* /proc/self/status */
	int32_t nice;
	bool is_root_readonly, has_landlock, has_leaked_fd, has_foreign_tty;
	uint32_t links; /* network interfaces that are up */
	bool are_kernel_files_masked;
};

/* START: which slot each descriptor of the packet fills, and what bawn read from outside. */
struct wire_start {
	uint64_t own_namespaces[WIRE_NS_COUNT], box_namespaces[WIRE_NS_COUNT];
	struct cgroup_limits limits;
	uint32_t n;
	int16_t slot[SOCK_FDS_MAX];
};

struct wire_exit {
	int32_t status; /* wait status of the command */
	uint64_t cpu_us, rss_peak, bytes_written;
	uint64_t left; /* processes that were still there when the command ended */
};

struct wire {
	uint32_t type;
	int32_t number; /* signal; exit status for ERR from exec (126, 127) */
	int32_t wall;   /* ERR: the wall that could not be built, or -1 */
	union {
		struct err err;
		struct wire_readback readback;
		struct wire_start start;
		struct wire_exit exit;
		char hostname[WIRE_NAME_MAX]; /* RELEASE; "" leaves it */
	};
};
