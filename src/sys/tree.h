/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/tree - look into, copy and remove directory trees that somebody hostile wrote.
 *
 * Everything is relative to a held directory and never follows a symbolic
 * link. Functions that callers use to probe return a bare -errno; the ones that
 * do work take an err. Blocks on disk only. No policy.
 */
#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

#define TREE_DEPTH_MAX 200 /* levels a copy goes down; removal has no limit */

/*
 * Open `path` (relative, no "..") below dir_fd. No component may be a symbolic
 * link (the last one may with O_PATH | O_NOFOLLOW: the link itself is opened).
 * O_CLOEXEC and O_NOFOLLOW are added. A descriptor or -errno; -ELOOP or -ENOTDIR for a link.
 * COMPAT(5.6): walks the path by hand where openat2() is missing.
 */
int tree_open(int dir_fd, const char *path, int flags, mode_t mode);

/* Open the directory that holds `path`'s last component; *ret_name points into path. */
int tree_open_parent(int dir_fd, const char *path, const char **ret_name);

/* mkdir -p of an absolute path; made directories get `mode`. Follows links: for our own paths. */
int tree_make_dirs(const char *path, mode_t mode, struct err *err);

/*
 * The same, mode 0700, and open it: the last `own` components are never links and belong
 * to the caller, else -EPERM. A descriptor.
 */
int tree_make_private(const char *path, unsigned own, struct err *err);

/* Remove `name` in parent_fd and everything below it. Absent is success. */
int tree_remove(int parent_fd, const char *name, struct err *err);

/* Copy the bytes of a regular file; holes stay holes. -EFBIG past max_bytes of data. */
int tree_copy_data(int from_fd, int to_fd, uint64_t max_bytes, struct err *err);

struct tree_limits {
	uint64_t entries;
	uint64_t bytes;
};

/*
 * Copy an entry: directories, regular files and symbolic links; other kinds are
 * left out. Owners become the caller; set-id bits are dropped. `left` is counted down;
 * -EFBIG when it runs out, -ELOOP past TREE_DEPTH_MAX. What was copied stays there on failure.
 */
int tree_copy(int from_fd, const char *from, int to_fd, const char *to, struct tree_limits *left,
	struct err *err);
