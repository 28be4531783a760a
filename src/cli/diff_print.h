/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/diff_print - one change of a run as a patch that `git apply` and `patch -p1` read.
 */
#include "run/process/cow.h"

#include <stdbool.h>
#include <stdio.h>

struct diff_print {
	const struct cow_run *run;
	int target_fd;    /* the target directory */
	FILE *out;        /* NULL: only count */
	bool is_terminal; /* show control bytes instead of sending them */
	bool want_colour;
};

struct diff_stat {
	size_t added, deleted; /* lines */
	bool is_binary;        /* or too large: lines were not counted */
};

int diff_print_entry(const struct diff_print *p, const struct cow_entry *e, struct diff_stat *ret,
	struct err *err);
