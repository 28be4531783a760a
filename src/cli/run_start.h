/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/run_start - run what options say, for the verbs that do: run, learn.
 */
#include "cli/run_options.h"

/* What the caller's place is; *ret_cwd is freed by the caller after its last use. */
int run_caller_find(struct run_caller *ret, char **ret_cwd, struct err *err);

/* Blocks until the sandbox is gone; prints what `bawn run` prints. Returns the exit status. */
int run_start(struct run_options *o);
