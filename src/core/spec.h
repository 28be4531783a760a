/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/spec - what a sandbox should be, before anyone looked at the machine.
 *
 * Filled by the command line (cli/run_options), a profile (core/profile), or
 * later the API; spec_validate() is the one gate. Pure: no file system, no
 * kernel. All strings are owned by the spec.
 */
#include "base/err.h"
#include "base/text.h"
#include "core/wall.h"

#include <stdbool.h>
#include <stdint.h>

#define SPEC_ARG_MAX   131071    /* bytes in one argument or K=V: the kernel's MAX_ARG_STRLEN - 1 */
#define SPEC_ARGS_MAX  (1 << 20) /* bytes in all arguments and environment */
#define SPEC_PATHS_MAX 1024      /* --rw, --ro, --hide entries in all */

enum spec_root {
	SPEC_ROOT_HOST, /* the host's tree read-only, secrets hidden */
	SPEC_ROOT_BASE, /* the clean built-in template */
};

enum spec_path_mode {
	SPEC_PATH_RW,   /* writable */
	SPEC_PATH_RO,   /* readable even if hidden by default, never writable */
	SPEC_PATH_HIDE, /* not there */
};

struct spec_path {
	char *path; /* absolute, clean; may hold glob characters * ? [ ] and ** */
	enum spec_path_mode mode;
};

struct spec_limits {
	uint64_t memory_max;    /* bytes, 0 = none */
	uint64_t cpu_milli;     /* thousandths of a cpu, 0 = none */
	uint64_t pids_max;      /* tasks, 0 = none */
	uint64_t disk_max;      /* bytes the box may own, 0 = none */
	uint64_t io_bps;        /* bytes per second each way, 0 = none */
	uint64_t timeout_ms;    /* wall clock, 0 = none */
	uint64_t kill_after_ms; /* grace between SIGTERM and SIGKILL at the timeout */
	uint64_t open_files;    /* RLIMIT_NOFILE */
};

struct spec {
	enum spec_root root;
	bool cow;           /* the working directory is copy-on-write */
	bool want_loopback; /* lo is up inside, so that localhost servers work */
	bool want_road;     /* all addresses lead to a pair of sockets for somebody outside */
	bool allow_sudo;    /* setuid programs inside may gain root over the box's ids */
	bool no_protect;    /* do not hold .git/hooks, rc files, IDE settings read-only */
	char *cwd;          /* absolute; working directory inside; NULL = default of the root */
	char *work_dir;     /* absolute; the caller's directory, shared with the box; NULL = none */
	char *user;         /* name or number inside; NULL = default of the root */
	char *hostname;     /* NULL = "bawn" */
	char *ca_dir;  /* want_road: absolute; its certificates are trusted inside; NULL = none */
	char *profile; /* name of the profile it came from, for the record; or NULL */
	struct strv policy; /* files this came from, absolute: a box must not write its own rules */
	struct strv argv;   /* the command */
	struct strv env;    /* K=V, set inside */
	struct strv pass_env; /* names copied from the caller's environment; trailing * globs */
	struct spec_path *paths;
	size_t paths_n;
	struct spec_limits limits;
	enum wall_level walls[WALL_COUNT];
	bool walls_set[WALL_COUNT]; /* level given by the user, not by default */
};

/* Defaults: every isolation wall required, default limits preferred. */
void spec_init(struct spec *s);
void spec_done(struct spec *s);

/* Add a path rule; `path` is cleaned against `cwd`. */
int spec_add_path(struct spec *s, enum spec_path_mode mode, const char *path, const char *cwd,
	struct err *err);

/* The same for a path a person wrote: a leading "~/" is `home`. -EINVAL if home is then NULL. */
int spec_add_user_path(struct spec *s, enum spec_path_mode mode, const char *path, const char *cwd,
	const char *home, struct err *err);

/* "NAME=required|preferred|off" */
int spec_set_wall(struct spec *s, const char *assignment, struct err *err);

/*
 * Check every field; -EINVAL names the field and what it accepts. Resolves
 * dependencies between walls (mount=off turns root, proc, dev, sys, masks off, and
 * refuses if one of them was set by the user).
 */
int spec_validate(struct spec *s, struct err *err);

/* Setters shared by the command line and profiles; `what` names the option in errors. */

/*
 * "memory", "cpus", "pids", "disk", "io", "timeout", "kill_after", "open_files", also as
 * "--kill-after"; the value "none" lifts the limit. Unless its level was set by the user, the
 * wall becomes required with the limit and off without. Errors use `name` as given.
 */
int spec_set_limit(struct spec *s, const char *name, const char *value, struct err *err);
/* The wall a limit belongs to; WALL_COUNT if there is no such limit. */
enum wall spec_limit_wall(const char *name);

int spec_set_root(struct spec *s, const char *value, struct err *err);
/* Replace *field by a copy; -EINVAL if empty, -ENAMETOOLONG past 4095 bytes. */
int spec_set_string(char **field, const char *what, const char *value, struct err *err);
/* The network a box gets: "none" is the only value so far. */
int spec_check_net(const char *value, struct err *err);
/* K=V; a later one for the same K replaces the earlier. */
int spec_add_env(struct spec *s, const char *assignment, struct err *err);

/* Rules from index `first` on replace earlier ones for the same path (options beat the profile). */
void spec_override_paths(struct spec *s, size_t first);
