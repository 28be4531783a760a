/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/kernel_abi - what newer kernels have and the headers of Debian 12 (Linux 6.1) lack.
 *
 * Each entry names the kernel version that brought it. The guards let a newer
 * header win; nothing else in the tree defines kernel constants. Knows neither
 * policy nor how the facilities are used. <linux/mount.h> is left out on purpose:
 * it does not go together with glibc's <sys/mount.h>, which has the 5.17 state.
 */
#include <linux/types.h>

/* System calls. From 424 on a call has one number on every architecture. */
#ifndef __NR_cachestat
#define __NR_cachestat 451 /* 6.5 */
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452 /* 6.6 */
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453 /* 6.6 */
#endif
#ifndef __NR_futex_wake
#define __NR_futex_wake 454 /* 6.7 */
#endif
#ifndef __NR_futex_wait
#define __NR_futex_wait 455 /* 6.7 */
#endif
#ifndef __NR_futex_requeue
#define __NR_futex_requeue 456 /* 6.7 */
#endif
#ifndef __NR_statmount
#define __NR_statmount 457 /* 6.8 */
#endif
#ifndef __NR_listmount
#define __NR_listmount 458 /* 6.8 */
#endif
#ifndef __NR_lsm_get_self_attr
#define __NR_lsm_get_self_attr 459 /* 6.8 */
#endif
#ifndef __NR_lsm_set_self_attr
#define __NR_lsm_set_self_attr 460 /* 6.8 */
#endif
#ifndef __NR_lsm_list_modules
#define __NR_lsm_list_modules 461 /* 6.8 */
#endif
#ifndef __NR_mseal
#define __NR_mseal 462 /* 6.10 */
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463 /* 6.13 */
#endif
#ifndef __NR_getxattrat
#define __NR_getxattrat 464 /* 6.13 */
#endif
#ifndef __NR_listxattrat
#define __NR_listxattrat 465 /* 6.13 */
#endif
#ifndef __NR_removexattrat
#define __NR_removexattrat 466 /* 6.13 */
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467 /* 6.15 */
#endif
#ifndef __NR_file_getattr
#define __NR_file_getattr 468 /* 6.17 */
#endif
#ifndef __NR_file_setattr
#define __NR_file_setattr 469 /* 6.17 */
#endif

/* Mount API. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1u /* 5.2 */
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC 02000000u /* 5.2; O_CLOEXEC, the same on x86-64 and arm64 */
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000u /* 5.2 */
#endif
#ifndef MOVE_MOUNT_BENEATH
#define MOVE_MOUNT_BENEATH 0x200u /* 6.5 */
#endif
#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000u /* 5.14 */
#endif
#ifndef FSCONFIG_CMD_CREATE_EXCL
#define FSCONFIG_CMD_CREATE_EXCL 8 /* 6.6; an enum in the kernel's header */
#endif
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000u /* 5.8 */
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000u /* 6.8 */
#endif

/* clone3() and pidfds. */
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80u /* 5.6; in clone() the same bit is part of the exit signal */
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL /* 5.5 */
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL /* 5.7 */
#endif
#ifndef PIDFD_THREAD
#define PIDFD_THREAD 0200u /* 6.9; O_EXCL, the same on x86-64 and arm64 */
#endif

/* memfd_create() */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8u /* 6.3 */
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u /* 6.3 */
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20 /* 6.3 */
#endif

/* prctl() */
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67 /* 6.4 */
#endif

/* seccomp() */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* 5.19 */
#endif

/* Landlock. The ABI number, which is what programs test, is in brackets. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13) /* 5.19 [2] */
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* 6.2 [3] */
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15) /* 6.10 [5] */
#endif
#ifndef LANDLOCK_ACCESS_NET_BIND_TCP
#define LANDLOCK_ACCESS_NET_BIND_TCP (1ULL << 0) /* 6.7 [4] */
#endif
#ifndef LANDLOCK_ACCESS_NET_CONNECT_TCP
#define LANDLOCK_ACCESS_NET_CONNECT_TCP (1ULL << 1) /* 6.7 [4] */
#endif
#ifndef LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0) /* 6.12 [6] */
#endif
#ifndef LANDLOCK_SCOPE_SIGNAL
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1) /* 6.12 [6] */
#endif
#ifndef LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF
#define LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF  (1U << 0) /* 6.15 [7] */
#define LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON    (1U << 1) /* 6.15 [7] */
#define LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF (1U << 2) /* 6.15 [7] */
#endif

/*
 * struct landlock_ruleset_attr as of ABI 6. A kernel takes a longer struct than
 * it knows if the rest is zero, so this one serves every ABI.
 */
struct abi_landlock_ruleset_attr {
	__u64 handled_access_fs;
	__u64 handled_access_net; /* 6.7 [4] */
	__u64 scoped;             /* 6.12 [6] */
};
