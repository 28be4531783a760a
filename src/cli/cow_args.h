/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/cow_args - the command line that diff, apply and discard share: options, a run, paths;
 * and the texts they share.
 */
#include "base/err.h"
#include "base/text.h"
#include "run/process/cow.h"

#include <jansson.h>
#include <stdio.h>

enum cow_option {
	COW_OPT_JSON = 1u << 0,
	COW_OPT_STAT = 1u << 1,
	COW_OPT_DRY_RUN = 1u << 2,
	COW_OPT_FORCE = 1u << 3,
	COW_OPT_ALLOW_PROTECTED = 1u << 4,
	COW_OPT_SKIP_PROTECTED = 1u << 5,
	COW_OPT_ALL = 1u << 6,
	COW_OPT_HELP = 1u << 7,
};

struct cow_args {
	unsigned options;  /* enum cow_option */
	const char *run;   /* NULL if none was given */
	struct strv paths; /* as given */
};

/* Read argv[1..]; options outside `allowed` are refused with a suggestion. */
int cow_args_parse(int argc, char **argv, unsigned allowed, struct cow_args *ret, struct err *err);
void cow_args_done(struct cow_args *a);

/* Turn the given paths into paths relative to the run's target. An empty *ret means everything. */
int cow_args_paths(
	const struct cow_args *a, const struct cow_run *run, struct strv *ret, struct err *err);

/* True if `path` is one of `only` or below it, or `only` is empty. */
bool cow_args_selects(const struct strv *only, const char *path);

/* A file name as a JSON string: bytes that are not UTF-8 as \xNN, never lost. */
json_t *cow_args_name(const char *path);

/* Print one line of JSON; drops the reference. Returns the exit status. */
int cow_args_print_json(const char *verb, json_t *take_o);

/* Print a name or line from a box: control bytes as \xNN when it goes to a terminal. */
void cow_args_put(FILE *out, bool is_terminal, const char *bytes, size_t n);
