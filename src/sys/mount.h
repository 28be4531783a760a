/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/mount - the mount API of Linux 5.2 and later, by descriptor.
 *
 * A detached mount is a descriptor; it becomes visible when it is attached. All
 * paths inside a new root are resolved below a held descriptor, so a symlink in
 * a host tree cannot lead a mount elsewhere. No allocation: runs in the child
 * before execve() as well as in the parent.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum mount_flag {
	MOUNT_RDONLY = 1u << 0,
	MOUNT_NOSUID = 1u << 1,
	MOUNT_NODEV = 1u << 2,
	MOUNT_NOEXEC = 1u << 3,
	MOUNT_RECURSIVE = 1u << 4, /* the tree below with all its mounts */
	MOUNT_PRIVATE = 1u << 5,   /* propagation */
};

/* Detached clone of the mount at path below dir_fd ("" = dir_fd itself). */
int mount_clone(int dir_fd, const char *path, unsigned attrs, struct err *err);
/* Change attributes; userns_fd >= 0 also maps ids by that user namespace. */
int mount_change(int fd, unsigned attrs, int userns_fd, struct err *err);
/* Make every mount of this namespace private, so that nothing we do propagates. */
int mount_make_private(struct err *err);

/* Detached tmpfs; size 0 = kernel default, inodes 0 = default. */
int mount_tmpfs(uint64_t size, uint64_t inodes, mode_t mode, unsigned attrs, struct err *err);

/*
 * Detached overlay of the directories lower_fds (topmost first) with "<upper>/u"
 * and "<upper>/w" below upper_fd as upper and work directory (upper_fd < 0: read-only).
 * COMPAT(6.15): before, layers must be attached in our namespace: -EINVAL here
 * when they are detached. in_userns selects user.* xattrs.
 */
int mount_overlay(const int *lower_fds, size_t lower_n, int upper_fd, bool in_userns,
	unsigned attrs, struct err *err);

/* Detached instance of a kernel file system: "proc", "devpts" with its one option or NULL. */
int mount_kernel_fs(const char *type, const char *const *options, unsigned attrs, struct err *err);

/* Open an absolute path that holds no symlink anywhere: O_PATH. -ELOOP or -ENOTDIR if it does. */
int mount_open_real(const char *path, struct err *err);

/* Open a path inside root_fd without leaving it: O_PATH. Symlinks are resolved inside the root. */
int mount_resolve(int root_fd, const char *path, struct err *err);
/* mkdir -p inside root_fd; the last part a file if want_file. Existing is fine. */
int mount_make_target(int root_fd, const char *path, bool want_file, struct err *err);

/* Attach a detached mount at an already resolved target. */
int mount_attach(int fd, int target_fd, struct err *err);

/* Make the mount root_fd our root, detach the old one, stand at "/". */
int mount_pivot(int root_fd, struct err *err);

/* Take an attached mount out of our mount namespace; fd itself stays usable. Best effort. */
void mount_detach(int fd);
