/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/process - clone into namespaces, hold children by pidfd, close what nobody listed.
 *
 * No policy. Everything here may run between clone and execve: no allocation.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * fork() into new namespaces (CLONE_NEW* bits). cgroup_fd >= 0: the child starts in that
 * cgroup v2 leaf. Returns 0 in the child, the pid in the parent with *ret_pidfd open (CLOEXEC).
 * COMPAT(5.3): without clone3 the old clone() is used and -EOPNOTSUPP is returned
 * for a cgroup_fd, which the caller then joins by pid.
 */
pid_t process_clone(uint64_t namespaces, int cgroup_fd, int *ret_pidfd, struct err *err);

/* Signal by pidfd: never hits a recycled pid. */
int process_signal(int pidfd, int sig, struct err *err);

/* Mark every descriptor >= first close-on-exec, then make `keep` survive. */
int process_cloexec_from(int first, const int *keep, size_t keep_n, struct err *err);

/* Close every descriptor >= 3 but those of `keep` (any order, -EBADF among them is fine). */
int process_close_except(const int *keep, size_t keep_n, struct err *err);

/* Start time in clock ticks since boot, from /proc/<pid>/stat; 0 if gone. */
uint64_t process_start_time(pid_t pid);

/*
 * The inode number that names a namespace: "user", "mnt", … of pid ("self" if 0); 0 if unreadable.
 */
uint64_t process_namespace(pid_t pid, const char *name);
