/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/landlock - a Landlock ruleset at the highest ABI the kernel has.
 *
 * Order: landlock_open, landlock_allow for each tree, no_new_privs, landlock_enter.
 * Allocates nothing; runs in the child before execve(). No policy: the caller says
 * which trees are readable or writable.
 */
#include "base/err.h"

#include <stdbool.h>

enum landlock_access {
	LANDLOCK_READ = 1u << 0,    /* read, list, execute */
	LANDLOCK_WRITE = 1u << 1,   /* create, change, remove, rename across; never device nodes */
	LANDLOCK_DEVICES = 1u << 2, /* ioctl on devices */
	LANDLOCK_WRITE_FILE = 1u << 3, /* write existing files only (/proc, /dev) */
};

/* 0 if the kernel has none or it is switched off. */
int landlock_abi(void);

/*
 * A ruleset handling all the kernel knows, scopes included; TCP bind and connect
 * only if deny_tcp. Returns an fd (CLOEXEC) that the caller closes; -EOPNOTSUPP
 * if the kernel has no Landlock.
 */
int landlock_open(bool deny_tcp, struct err *err);
/* Allow below parent_fd (O_PATH; a file gets the file rights only). */
int landlock_allow(int ruleset_fd, int parent_fd, unsigned access, struct err *err);
/* Enter; needs no_new_privs or CAP_SYS_ADMIN in the user namespace. */
int landlock_enter(int ruleset_fd, struct err *err);
/* "fs", "fs, net", "fs, net, scopes": what abi gives, for the record. */
const char *landlock_describe(int abi, bool deny_tcp);
