/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/remote/secret - what the files of `bawn secret` share.
 *
 * A value comes from a file, a pipe or a terminal without echo, never from the command line, and
 * is printed nowhere.
 */
#include "base/err.h"
#include "io/buf.h"

#include <jansson.h>
#include <stdbool.h>

/* From the file, or standard input if NULL or "-"; one line end is taken off. Wiped when done. */
int secret_read_value(const char *file, const char *name, struct buf *ret, struct err *err);
/* Asked on the terminal, without echo; twice if `is_new`. -ENOTTY: there is none. */
int secret_read_passphrase(char *out, size_t size, bool is_new, struct err *err);

/* ---- this user's own, for `bawn run` (secret_local.c); *ret is what --json prints ---- */
int secret_local_set(const char *name, const struct buf *value, bool must_exist,
	bool want_passphrase, json_t **ret, struct err *err);
int secret_local_list(json_t **ret, struct err *err);
int secret_local_get(const char *name, json_t **ret, struct err *err);
int secret_local_remove(const char *name, struct err *err);
