/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/userns - id maps of a child's user namespace, and the ranges they come from.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define USERNS_EXTENTS 4

struct userns_extent {
	uint32_t inside, outside, count;
};

struct userns_map {
	struct userns_extent uid[USERNS_EXTENTS], gid[USERNS_EXTENTS];
	unsigned uid_n, gid_n;
	bool by_helper; /* write by newuidmap/newgidmap: more than the caller's own id, rootless */
};

/*
 * 1 if we are root of the initial user namespace with CAP_SYS_ADMIN (may idmap, use any
 * range), 0 if not, < 0 if that cannot be told: guessing "no" would build another sandbox.
 */
int userns_is_host_root(struct err *err);

/*
 * Write the maps of pid. Single-id maps of an unprivileged caller deny setgroups first, as the
 * kernel demands.
 */
int userns_write(pid_t pid, const struct userns_map *map, struct err *err);

/*
 * The caller's first subordinate range of at least `count` ids in /etc/subuid (or subgid), with
 * newuidmap installed. -ENOENT if there is none.
 */
int userns_subid(const char *file, uid_t uid, const char *user, uint32_t count, uint32_t *ret_start,
	struct err *err);

#define USERNS_RANGE_FIRST                                                                         \
	0x70000000u /* above what systemd-nspawn hands out (ends at 0x6fffffff) */
#define USERNS_RANGE_SIZE  0x10000u
#define USERNS_RANGE_COUNT 0x0fffu

/*
 * Reserve a range of 65,536 ids on this machine for as long as the returned
 * descriptor (CLOEXEC, inherited by fork) is open anywhere. Root only.
 */
int userns_reserve_range(uint32_t *ret_first, struct err *err);
