/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/host_view_impl - what the files of host_view share. Private to them.
 *
 *   host_view.c        the rules of the user and the built-in lists, put together
 *   host_view_find.c   looking at the file system: globs, bounded search
 *   host_view_alias.c  the same directory at another place, by bind mounts
 *   host_view_homes.c  homes of other people, places named in the environment
 *   host_view_guard.c  which existing names become read-only, which are missing
 *   host_view_hold.c   after the run: what appeared under a protected name
 */
#include "run/process/host_view.h"

#include <dirent.h>
#include <stdbool.h>

#define HOST_VIEW_MAX        4096   /* mounts of each kind; more is a mistake or an attack */
#define HOST_VIEW_GLOB_MAX   100000 /* names one pattern may look at */
#define HOST_VIEW_SCAN_DEPTH 32     /* levels searched for ".env" and repositories */
/* names one search looks at before the run: it delays the start */
#define HOST_VIEW_SCAN_MAX 50000
/*
 * And after it, when the box may try to bury something: a list of names is read at some
 * millions in a second, and made far more slowly.
 */
#define HOST_VIEW_AFTER_MAX 4000000
#define HOST_VIEW_QUEUE_MAX ((size_t)16 << 20) /* bytes of directories' paths still to be listed */

/*
 * Existing paths that match an absolute pattern of * ? [ ] and **, links not
 * resolved. A path that exists as it is spelled is taken literally. -E2BIG past the cap.
 */
int host_find_glob(const char *pattern, struct strv *out, struct err *err);

#define HOST_LISTINGS 192 /* directories the built-in patterns look into */

/* Directories that many patterns look into, read once. Zeroed at the start. */
struct host_listings {
	struct {
		char *dir;
		struct strv names;
	} v[HOST_LISTINGS];
	size_t n;
};

/* The names in `dir`, none if it does not exist; NULL if it cannot be read or has too many. */
const struct strv *host_listing(struct host_listings *l, const char *dir);
void host_listings_done(struct host_listings *l);

/* As host_find_glob(), by the listings: for a pattern whose last component alone is magic. */
int host_find_listed(
	struct host_listings *l, const char *pattern, struct strv *out, struct err *err);

struct host_scan_hit {
	int dir_fd;           /* the directory being listed */
	const char *dir;      /* its absolute path */
	const char *name;     /* the entry */
	unsigned char d_type; /* DT_… */
	unsigned depth;       /* of the directory below the root of the search */
};

/* < 0 ends the search with that error. */
typedef int (*host_scan_fn)(const struct host_scan_hit *hit, void *arg, struct err *err);

/*
 * List `root` breadth first, links not followed. Of what masks_scan_skips() only the
 * directory itself and its direct children are looked at, for ".git" and "HEAD".
 * *ret_cut tells that a bound was reached. A directory that cannot be read is passed over:
 * the box, with no more rights than the caller, cannot read it either.
 */
int host_scan(
	const char *root, size_t max, host_scan_fn fn, void *arg, bool *ret_cut, struct err *err);

/* Other paths that lead to what is hidden, or to a part of it. */
int host_find_aliases(const struct strv *hidden, struct strv *out, struct err *err);

#define HOST_HOMES_MAX 256 /* home directories looked at */

/*
 * Real homes of people in /etc/passwd that can be entered: `whole` belong to them,
 * `in_part` are places that others use too.
 */
int host_find_people(struct strv *whole, struct strv *in_part, struct err *err);

/* Files and directories with secrets that the caller's environment names. */
int host_env_secrets(struct strv *out, struct err *err);

/* Parts of a home that a variable of the environment puts elsewhere. */
struct host_moved {
	const char *name;   /* the variable */
	const char *prefix; /* what it stands for in a home, with a slash at its end */
};
extern const struct host_moved host_moved[];
extern const size_t host_moved_n;

/* True if `path` is or holds a directory of programs or settings that everything needs. */
bool host_is_system_dir(const char *path);

/* The innermost writable directory that holds `path`, or NULL. */
const char *host_view_writable_above(const struct host_view *v, const char *path);

struct host_guard {
	struct host_view *v;      /* protect, pins, absent, links and repos are filled */
	struct strv *env_files;   /* ".env" files found on the way */
	const struct strv *homes; /* home directories, real */
	bool want_protect;        /* false: only look for ".env" */
};

/* Make one path read-only if it lies in a writable directory. */
int host_guard_path(struct host_view *v, const char *path, struct err *err);

/* Search the writable directory `w`. */
int host_guard_writable(const struct host_guard *g, const char *w, struct err *err);

/* Add to a list once, within HOST_VIEW_MAX. */
int host_view_add(struct strv *list, const char *path, struct err *err);

/*
 * True if git takes the directory for a bare repository: HEAD, and objects and refs, here
 * or where "commondir" says. Git only asks whether they can be entered, so their kind is no matter.
 */
bool host_is_git_dir(int dir_fd);
