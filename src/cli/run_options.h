/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/run_options - the command line of `bawn run`, read into a spec.
 *
 * A table says what each option is called, what it takes, what it does and what
 * the help says of it. Options are written `--opt value` or `--opt=value`; the first
 * word that is no option, or what follows `--`, is the command. A profile is applied
 * first, wherever --profile stands, so that options override it.
 */
#include "base/err.h"
#include "cli/run_network.h"
#include "core/spec.h"

#include <stdbool.h>
#include <stdio.h>

struct run_caller {
	const char *cwd;  /* absolute */
	const char *home; /* absolute, or NULL */
	uint64_t memory;  /* bytes in this machine, 0 = unknown; bounds the default limit */
};

struct run_options {
	struct spec spec;
	struct run_network network;
	struct policy *policy; /* with spec.want_road: what it may reach; owned */
	bool want_help;
	bool want_plan;      /* print the plan, run nothing */
	bool want_json;      /* the result as one line of JSON */
	bool want_explain;   /* watch for refusals, to explain them */
	bool is_quiet;       /* no line of ours on stderr but failures */
	struct learn *learn; /* `bawn learn`: what was wanted goes here; borrowed; or NULL */
	char *json_file;     /* NULL = standard output; owned */
	/* while reading: */
	const struct run_caller *caller;
	bool has_profile;
	bool wall_given[WALL_COUNT]; /* by --wall, which beats what a limit implies */
};

/*
 * Read argv (argv[0] is the verb), fill in what depends on the caller (working
 * directory), and validate. Reads the file of --profile and nothing else. With --help only
 * want_help is set. On failure the error is one sentence naming the option and what
 * it accepts. run_options_done() is right in every case.
 */
int run_options_parse(int argc, char **argv, const struct run_caller *caller,
	struct run_options *ret, struct err *err);
void run_options_done(struct run_options *o);

/* The page of `bawn run --help`. */
void run_options_help(FILE *out);
