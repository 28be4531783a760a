/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/host_view - which paths of this host are hidden, protected or writable in a box.
 *
 * Takes the spec's path rules and the built-in lists (core/masks) and looks at the
 * file system once: globs are expanded, symlinks resolved, so that the plan holds
 * only real, existing paths. What does not exist is not created: a protected name
 * that is missing at the start is remembered and looked for at the end.
 */
#include "base/err.h"
#include "base/text.h"
#include "core/spec.h"

#include <stdint.h>

struct host_view {
	struct strv
		/* real directories or files, writable; outermost first; nested ones dropped */
		writable;
	struct strv
		readonly; /* user's --ro: real paths, also inside writable or hidden directories */
	struct strv hidden_dirs;
	struct strv hidden_files;
	struct strv protect; /* existing protected paths below a writable directory: read-only */
	struct strv
		pins; /* their ancestors up to the writable directory: must not be renamed away */
	struct strv absent; /* protected paths that do not exist now */
	struct strv
		/* protected names that are symbolic links, which nothing can be mounted on */
		links;
	struct strv link_targets; /* what each of links says */
	struct strv
		/* writable directories that have protected names (not copy-on-write ones) */
		guarded;
	struct strv repos;    /* git directories that exist now, all guarded */
	struct strv rebasing; /* of these, the ones in the middle of a rebase */
	bool is_scan_cut;     /* a tree was too large to look for every ".env" and repository */
	uint64_t began_ns;    /* when all this was so: wall clock, as the kernel stamps files */
};

struct host_view_who {
	const char *home;     /* the caller's home, absolute, or NULL */
	const char *work_dir; /* the caller's working directory */
};

/*
 * Fill *ret. -ENOENT for an --rw/--ro path that does not exist (names the option), -EINVAL for
 * contradictions (same path rw and hidden), -E2BIG past the caps. Nested: the most specific rule
 * wins; on
 * the same path hide > ro > rw is an error if both came from the user.
 */
int host_view_build(const struct spec *spec, const struct host_view_who *who, struct host_view *ret,
	struct err *err);
void host_view_done(struct host_view *v);

/*
 * After the run: protected names that appeared although they were absent are moved
 * to `hold_dir` (made when needed) so that nothing the box wrote is run by the host unseen.
 * Each is reported through `held`, where moved_to is quoted for a terminal. With moved_to
 * NULL, `path` is a directory that was too large to be searched whole, before or after the run.
 */
int host_view_hold_back(const struct host_view *v, const char *hold_dir,
	void (*held)(const char *path, const char *moved_to, void *arg), void *arg,
	struct err *err);
