/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/verb - the table of verbs, and how a verb says that it failed.
 */
#include "cli/verb.h"

#include <string.h>

const struct verb verb_table[] = {
	{"run", "[options] -- CMD [ARG...]", "run a command in a fresh sandbox", verb_run, 0},
	{"doctor", "[--json]", "what this machine can give, and how to get the rest", verb_doctor,
		0},
	{"attack", "[--json] [--list] [--only GLOB]",
		"attack a fresh sandbox and show which walls held", verb_attack, 0},
	{"diff", "[RUN [PATH...]]", "show what a run with --cow changed", verb_diff, 0},
	{"apply", "RUN [PATH...]", "make those changes for real", verb_apply, 0},
	{"discard", "RUN | --all", "forget those changes", verb_discard, 0},
	{"help", "[COMMAND]", "explain a command", verb_help, 0},
	{"version", "", "print the version", verb_version, 1},
	/* Started by `bawn attack` inside the box, from a sealed memfd. */
	{"__attack", "", "", attack_inner_main, 1},
	{NULL, NULL, NULL, NULL, 1},
};

const struct verb *verb_find(const char *name)
{
	for (const struct verb *v = verb_table; v->name; v++) {
		if (strcmp(v->name, name) == 0)
			return v;
	}
	return NULL;
}

int verb_fail(const char *verb, const struct err *err)
{
	(void)fflush(stdout);
	(void)fprintf(stderr, "bawn: %s: %s\n", verb, err->msg);
	return EXIT_BAWN;
}
