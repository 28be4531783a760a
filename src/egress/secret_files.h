/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/secret_files - a user's own secrets, for `bawn run`: one sealed file each.
 *
 *   <state>/run-secrets/NAME.json   0600   {"name", "version", "changed_ms", "sealed": hex}
 *   <state>/run-secrets/key                the key they are sealed under (egress/seal)
 *
 * Linked into both programs; opens nothing that is sealed. A server keeps its secrets in its store.
 */
#include "base/err.h"
#include "io/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define SECRET_FILES_DIR "run-secrets"

struct secret_file {
	char name[64];
	uint64_t version; /* 1, 2, … */
	int64_t changed_ms;
	struct buf sealed;
};

/* <state>/run-secrets of this user; nothing is made. The caller frees. */
int secret_files_dir(char **ret, struct err *err);

/* The directory, 0700, and those above it. */
int secret_files_make_dir(const char *dir, struct err *err);
bool secret_files_has(const char *dir, const char *name);
/* -ENOENT; -EBADMSG: damaged. The caller frees ret->sealed. */
int secret_files_get(const char *dir, const char *name, struct secret_file *ret, struct err *err);
/* Whole and durable, over the one before. Makes the directory. */
int secret_files_put(const char *dir, const struct secret_file *f, struct err *err);
int secret_files_remove(const char *dir, const char *name, struct err *err); /* -ENOENT */
/* By name, sorted. A directory that is not there is empty. */
int secret_files_each(const char *dir, int (*each)(const struct secret_file *f, void *arg),
	void *arg, struct err *err);

/* Bytes as hex and back; out has room for 2n + 1, or n / 2. false: not hex. */
void secret_hex(const void *p, size_t n, char *out);
bool secret_unhex(const char *s, size_t n, void *out);
