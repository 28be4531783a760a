/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/cow - what a copy-on-write run changed, kept for diff, apply and discard.
 *
 * The box wrote into an overlay upper directory on a tmpfs; cow_keep() copies
 * it, after the run, to <state>/runs/<run-id>/:
 *
 *   manifest.jsonl   first line the run, then one JSON object for each change
 *   files/<n>        contents of changed regular files, by number
 *   applying         exists while an apply has started and not finished
 *
 * Contents are kept by number, so that no name, depth or hard link the box made
 * can do harm in our own directory. Extended attributes are not kept; set-id bits
 * are dropped and reported. Blocks on disk only.
 */
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define COW_ENTRIES_MAX 1000000             /* changes in one run */
#define COW_BYTES_MAX   ((size_t)128 << 20) /* memory their records may take */
#define COW_NO_ID       ((uid_t)-1)

enum cow_kind {
	COW_ADDED,
	COW_MODIFIED,
	COW_DELETED,
	COW_REPLACED, /* the type changed: a file became a directory, and so on */
	COW_KIND_COUNT
};

struct cow_entry {
	enum cow_kind kind;
	char *path;    /* relative to the target directory */
	mode_t mode;   /* type and permissions of the new entry; 0 for a deletion */
	uint64_t size; /* bytes of a regular file */
	uint64_t file; /* number of its content in files/; 0 = none */
	char *link;    /* target of a symbolic link, or NULL */
	uid_t uid;     /* owner as the host sees it; COW_NO_ID = whoever applies */
	gid_t gid;
	bool is_stripped; /* it had set-id bits */
	/*
	 * identity of the lower entry when the run ended, to notice that somebody else changed it:
	 */
	uint64_t base_size, base_mtime_ns, base_ino;
	mode_t base_mode; /* 0: there was none */
};

/* Something the box made that cannot be kept. */
struct cow_skip {
	char *path;
	char *why;
};

struct cow_run {
	char id[32];
	char *dir;                 /* state directory of this run, absolute */
	char *target;              /* the directory that was copy-on-write */
	int64_t created;           /* seconds since 1970 */
	struct cow_entry *entries; /* a directory before what is in it */
	size_t n;
	struct cow_skip *skipped;
	size_t skipped_n;
	size_t bytes; /* that all of this takes */
};

/*
 * Read the overlay upper directory (whiteouts are 0/0 devices; opaque by
 * trusted.overlay.opaque where root made the overlay, else user.overlay.opaque), compare
 * with lower_path, copy what changed to the state. id_offset is subtracted from owners in
 * the upper (root mode's id range; 0 rootless).
 * Past COW_ENTRIES_MAX or COW_BYTES_MAX the rest is left out, and said to be, in `skipped`.
 * Atomic: the run exists only if everything was copied. *ret_n = number of entries (0: nothing is
 * kept).
 */
int cow_keep(int upper_fd, const char *lower_path, const char *run_id, uid_t id_offset,
	uint64_t *ret_n, struct err *err);

/* The id of a run, from its id or a unique prefix; -ENOENT lists what exists. The caller frees. */
int cow_find(const char *id, char **ret, struct err *err);

/* Load a run by id or unique prefix; -EBADMSG if its record is damaged. */
int cow_load(const char *id, struct cow_run **ret, struct err *err);
struct cow_run *cow_free(struct cow_run *r);
DEFINE_AUTO(struct cow_run *, cow_free)

/* The ids of all kept runs, sorted; empties half-made ones that nobody holds any more. */
int cow_list(struct strv *ret, struct err *err);

/* Forget a run. Also cleans up after an apply that was cut off. */
int cow_discard(const struct cow_run *run, struct err *err);

/* "added", "modified", "deleted", "replaced"; and as one letter. */
const char *cow_kind_name(enum cow_kind kind);
char cow_kind_letter(enum cow_kind kind);
/* "file", "directory", "link". */
const char *cow_type_name(mode_t mode);

enum cow_verdict {
	COW_READY,     /* the target is as it was: can be applied */
	COW_DONE,      /* the target already is as the run left it */
	COW_CONFLICT,  /* somebody else changed it since */
	COW_PROTECTED, /* the host would run or obey it */
};

enum cow_apply_flags {
	COW_FORCE = 1u << 0, /* overwrite what others changed; never a directory by a file */
	COW_ALLOW_PROTECTED = 1u << 1, /* apply protected names too */
	COW_SKIP_PROTECTED = 1u << 2,  /* leave them out */
	COW_DRY_RUN = 1u << 3,         /* judge, change nothing */
};

struct cow_apply {
	unsigned flags; /* enum cow_apply_flags */
	const struct strv
		*only;    /* paths relative to the target, with all below; NULL = everything */
	const char *home; /* the caller's home, for its protected names; or NULL */
	/*
	 * Called for each selected entry: with its verdict before anything is changed. May be NULL.
	 */
	void (*judged)(const struct cow_entry *e, enum cow_verdict v, const char *why, void *arg);
	void *arg;
	size_t conflicts, refused, applied, done; /* counted for the caller */
};

/*
 * Bring the target to what the run left. First every selected entry is judged;
 * one conflict or protected name and nothing is changed (-EEXIST, -EPERM). Then each
 * is changed atomically. Cut off at any moment, it can be called again. *ret_all tells
 * that nothing of the run is left to apply. -ENOENT if a path of `only` is not in the run.
 */
int cow_apply(const struct cow_run *run, struct cow_apply *a, bool *ret_all, struct err *err);

/* Open the kept content of an entry for reading; a descriptor or -errno. */
int cow_open_content(const struct cow_run *run, const struct cow_entry *e, struct err *err);
