/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/masks - which names hold secrets, and which names make the host run code.
 *
 * Two tables of data with one reason per line, and the pure questions about
 * names that go with them. Knows no file system: run/process/host_view looks
 * the names up on a real machine.
 */
#include <stdbool.h>
#include <stddef.h>

enum mask_base {
	MASK_HOME,   /* relative to a home directory */
	MASK_SYSTEM, /* absolute */
};

/* Hidden from reading in the host view: an empty file or directory stands in its place. */
struct mask_hidden {
	enum mask_base base;
	const char *pattern; /* path, components may hold * ? [ ] */
	const char *why;
};

enum mask_where {
	MASK_AT_ROOT, /* at the top of a writable directory or of a home directory */
	MASK_AT_REPO, /* there, and at the top of every repository below */
};

/* Read-only inside a writable directory: the host would run or obey what is written there. */
struct mask_protected {
	enum mask_where where;
	const char *path; /* relative, no globs */
	const char *why;
};

extern const struct mask_hidden masks_hidden[];
extern const size_t masks_hidden_n;
extern const struct mask_protected masks_protected[];
extern const size_t masks_protected_n;

/* Names inside a git directory that make git run programs or look elsewhere for its config. */
extern const char *const masks_git_names[];
extern const size_t masks_git_names_n;

/* ".env", ".env.local", ".envrc" and friends, but not templates such as ".env.example". */
bool masks_is_env_file(const char *name);

/* Directories not worth a search for ".env" files and repositories: large and never hand-made. */
bool masks_scan_skips(const char *name);

/*
 * Why writing `rel` (clean, relative to a writable directory) would let the host run
 * code, or NULL. Includes everything below a protected name and inside git directories.
 */
const char *masks_why_protected(const char *rel);

/* The same for a path inside a git directory, whatever that is called: a bare repository. */
const char *masks_why_protected_in_git(const char *rel);

/* True if `rel` is a hook below a git directory that git never runs ("pre-commit.sample"). */
bool masks_is_sample_hook(const char *rel);

enum masks_git_config_flags {
	MASKS_GIT_MODULE = 1u << 0, /* a submodule's: core.worktree may point at "../…" */
};

/*
 * True if git can read this config without running a program or leaving the
 * repository: only keys of a short list, in plain syntax. Anything odd is not safe.
 */
bool masks_git_config_is_safe(const char *text, size_t n, unsigned flags);
