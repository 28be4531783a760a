/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/verb - the table of verbs; one file per verb.
 *
 * A verb gets its own argv (argv[0] is the verb), prints, and returns the exit
 * status. Our own failure is EXIT_BAWN with one line "bawn: …" on stderr.
 */
#include "base/err.h"

#include <stdio.h>

#define EXIT_TIMEOUT 124
#define EXIT_BAWN    125

struct verb {
	const char *name;
	const char *args;    /* for usage: "[options] -- CMD [ARG...]" */
	const char *summary; /* one line for --help */
	int (*main)(int argc, char **argv);
	int hidden;          /* not shown in --help */
	const char *options; /* for completion, separated by blanks; or NULL */
	int is_remote;       /* talks to a server */
};

int verb_run(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_attack(int argc, char **argv);
int verb_diff(int argc, char **argv);
int verb_apply(int argc, char **argv);
int verb_discard(int argc, char **argv);
int verb_help(int argc, char **argv);
int verb_version(int argc, char **argv);
int verb_completion(int argc, char **argv);
int verb_explain(int argc, char **argv);
int verb_learn(int argc, char **argv);
int verb_profile(int argc, char **argv);
/* Any verb of cli/remote/verbs.h: execs bawnd. */
int verb_remote(int argc, char **argv);

/* src/daemon: `bawn serve`, and the role it starts. */
int serve_main(int argc, char **argv);
int warden_main(int argc, char **argv);

/* The half of `bawn attack` that runs inside the box. */
int attack_inner_main(int argc, char **argv);

/* All verbs, hidden ones included, ended by an entry without a name. */
extern const struct verb verb_table[];

/* The verb called `name`, or NULL. */
const struct verb *verb_find(const char *name);

/* The page of `bawn --help`, on `out`. */
void help_print(FILE *out);

/* Print "bawn: <verb>: <msg>" to stderr; returns EXIT_BAWN. */
int verb_fail(const char *verb, const struct err *err);
