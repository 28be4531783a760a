/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/help - `bawn --help`, `bawn help COMMAND`, `bawn --version`.
 */
#include "base/text.h"
#include "cli/verb.h"

#include <config.h>
#include <stdio.h>
#include <string.h>

static const char opening[] =
	"bawn - run a command in a sandbox of its own, in milliseconds\n"
	"\n"
	"The command sees your tools and files, but not your keys; it writes to the\n"
	"current directory and a private /tmp, and nowhere else; it has no network. When\n"
	"it ends, everything it started is gone. No server, no root, no image needed.\n"
	"\n"
	"Try:\n"
	"  bawn run -- python3 task.py               write only here, no network\n"
	"  bawn run --cow -- make                    ... and decide later what to keep\n"
	"  bawn run --root base -- bash              a clean system instead of yours\n"
	"  bawn run --memory 2G --timeout 5m -- npm test\n"
	"  bawn run --rw ~/.cache/pip -- pip wheel . one more directory to write to\n"
	"  bawn run --plan -- true                   print what would be done\n"
	"  bawn doctor                               what this machine can give\n"
	"  bawn attack                               let it attack itself and see\n"
	"\n"
	"Commands:\n";

static const char closing[] =
	"\n"
	"Exit status of 'bawn run': the command's own; 124 its time was up; 125 bawn itself\n"
	"failed and ran nothing; 126 the command cannot be executed; 127 it was not found;\n"
	"128+N a signal ended it.\n"
	"\n"
	"Read more: 'bawn help run', bawn(1), bawn-run(1).\n";

static void print_verbs(FILE *out, int is_remote)
{
	for (const struct verb *v = verb_table; v->name; v++) {
		if (!v->hidden && v->is_remote == is_remote)
			(void)fprintf(out, "  bawn %-10s %s\n", v->name, v->summary);
	}
}

void help_print(FILE *out)
{
	(void)fputs(opening, out);
	print_verbs(out, 0);
	(void)fputs("\nWith a server ('bawn serve', here or elsewhere):\n", out);
	print_verbs(out, 1);
	(void)fputs(closing, out);
}

int verb_help(int argc, char **argv)
{
	char flag[] = "--help";
	const struct verb *v;
	char quoted[64];

	if (argc < 2 || argv[1][0] == '-') {
		help_print(stdout);
		return 0;
	}
	v = verb_find(argv[1]);
	if (!v || v->hidden) {
		(void)fprintf(stderr, "bawn: help: '%s' is not a bawn command; see 'bawn --help'\n",
			text_quote(argv[1], quoted, sizeof(quoted)));
		return EXIT_BAWN;
	}
	if (v->main == verb_help) {
		help_print(stdout);
		return 0;
	}
	return v->main(2, (char *[]){argv[1], flag, NULL});
}

int verb_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	(void)printf("bawn %s\n", BAWN_VERSION);
	return 0;
}
