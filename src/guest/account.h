/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * guest/account - users and groups of the box, read from /etc by hand.
 *
 * No NSS: a static program would load whatever libraries the box has. The files belong to the
 * box: size and fields are capped. One struct accounts is one look at the files, for one request.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ACCOUNT_GROUPS_MAX 64

struct accounts {
	char *passwd, *group; /* whole files, NUL-terminated; NULL until asked for */
};

struct account {
	char *name, *home, *shell; /* owned */
	uid_t uid;
	gid_t gid;
	gid_t groups[ACCOUNT_GROUPS_MAX]; /* with gid */
	size_t groups_n;
};

/* By name or number. -EKEYREJECTED if there is none. The caller frees with account_done(). */
int account_find(struct accounts *a, const char *who, struct account *ret, struct err *err);
void account_done(struct account *v);

/* The name, or the number as text, in out. */
const char *account_user_name(struct accounts *a, uid_t uid, char *out, size_t size);
const char *account_group_name(struct accounts *a, gid_t gid, char *out, size_t size);

void accounts_done(struct accounts *a);

/*
 * False where the box has no such id (a rootless box of one id): then there is nobody to become
 * and nobody to give a file to; everything runs as the one id there is.
 */
bool account_is_mapped(uid_t uid);

/* "~", "~name" and relative paths against the account's home; "" is the home. Fresh, clean. */
int account_path(struct accounts *a, const struct account *user, const char *path, char **ret,
	struct err *err);
