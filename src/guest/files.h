/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * guest/files - what the file requests share: whose file, which file, what it is.
 *
 * The guest works as root of the box and gives what it makes to the user, as E2B's does.
 * Paths are resolved by the kernel in the box's own root; there is nothing else to reach.
 */
#include "guest/account.h"
#include "guest/guest.h"

#include <sys/stat.h>

struct where {
	struct accounts accounts;
	struct account user;
	char *path;    /* absolute, clean */
	bool can_give; /* files can be given to the user */
};

/* Resolve; the caller calls where_done() in any case. */
int where_find(
	struct guest *g, const char *user, const char *path, struct where *ret, struct err *err);
void where_done(struct where *w);

/* The same from a request that starts with user and path. -EPROTO if it is malformed. */
int where_get(struct guest *g, struct frame_reader *body, struct where *ret, struct err *err);

/* What is at path, the entry itself if it is a link. The caller frees with guest_entry_done(). */
int entry_make(struct accounts *a, const char *path, struct guest_entry *ret, struct err *err);
/* MSG_ENTRY's body. */
int entry_write(struct accounts *a, const char *path, struct frame_writer *w, struct err *err);
/* Answer q with the entry at path, or with the failure to look at it. */
void entry_reply(struct request *q, struct accounts *a, const char *path);

/* Make the directories above path, given to the user. */
int files_make_parents(const struct where *w, const char *path, struct err *err);

/* True if something is mounted at path: it is not ours to remove. */
bool files_is_mount(int dir_fd, const char *name);

/* The tree below dir_fd/name, the last error kept; missing is fine. */
int files_remove_tree(int dir_fd, const char *name, int depth, struct err *err);
/* Copy a tree with modes, owners, times and attributes; `to` must not exist. */
int files_copy_tree(
	int from_dir, const char *from, int to_dir, const char *to, int depth, struct err *err);

/* Names of our unfinished files: never shown, never watched. */
#define FILES_NEW  ".bawn-new-"
#define FILES_OVER ".bawn-over-" /* will replace a file that is there */
bool files_is_hidden(const char *name);
