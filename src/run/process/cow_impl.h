/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/cow_impl - what the files of cow share. Private to them.
 *
 *   cow_keep.c      upper directory -> entries and contents
 *   cow_manifest.c  entries <-> manifest.jsonl
 *   cow.c           the runs in the state directory
 *   cow_judge.c     is the target still what the run saw?
 *   cow_apply.c     entries -> target
 */
#include "run/process/cow.h"

#include <sys/stat.h>

#define COW_MANIFEST "manifest.jsonl"
#define COW_FILES    "files"
#define COW_APPLYING "applying"

/* Count `n` more bytes of records; -E2BIG past COW_BYTES_MAX. */
int cow_charge(struct cow_run *run, size_t n, struct err *err);

/* Append a zeroed entry; -E2BIG past the caps. *ret is valid until the next call. */
int cow_add_entry(struct cow_run *run, const char *path, struct cow_entry **ret, struct err *err);
int cow_add_skip(struct cow_run *run, const char *path, const char *why, struct err *err);
/* Forget the last one. */
void cow_drop_skip(struct cow_run *run);

/* Write and read <dir_fd>/manifest.jsonl. -EBADMSG names the line. */
int cow_write_manifest(const struct cow_run *run, int dir_fd, struct err *err);
int cow_read_manifest(int dir_fd, struct cow_run *run, struct err *err);

/* <state>/runs, opened; made if want_make, else -ENOENT. The caller frees *ret_path. */
int cow_open_runs(bool want_make, char **ret_path, struct err *err);

uint64_t cow_mtime_ns(const struct stat *st);

/* The name an entry's new content has in its directory before it is renamed into place. */
void cow_temp_name(const struct cow_run *run, const struct cow_entry *e, char *out, size_t size);

/* True if the two files hold the same bytes. */
bool cow_same_content(int a_fd, int b_fd);

/* What judging and applying hold open. */
struct cow_job {
	const struct cow_run *run;
	const struct cow_apply *how;
	int target_fd;
	const struct cow_entry **sorted; /* all entries by path */
};

/* The run's entry for a path, or NULL. */
const struct cow_entry *cow_lookup(const struct cow_job *job, const char *path);

/*
 * True if the entry found at the path is the one the run saw: same inode, and for files unchanged.
 */
bool cow_is_base(const struct cow_entry *e, const struct stat *now);

/* Judge one entry against the target as it is now. *ret_why tells the reason, or NULL. */
enum cow_verdict cow_judge(
	const struct cow_job *job, const struct cow_entry *e, const char **ret_why);
