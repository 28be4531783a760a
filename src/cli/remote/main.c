/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/main - the program `bawnd`: the verbs that talk to a server, and the api role.
 *
 * People call it through `bawn`, which execs it; so it calls itself by that name.
 */
#include "cli/remote/verbs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define EXIT_BAWN 125

/* src/daemon: the unprivileged roles. */
int api_main(int argc, char **argv);
int egress_main(int argc, char **argv);

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} verbs[] = {
#define ENTRY(name, args, summary, options) {#name, verb_##name},
	REMOTE_VERBS(ENTRY)
#undef ENTRY
		{"explain", verb_explain},
	{"profile", verb_profile},
};

int main(int argc, char **argv)
{
	int status = EXIT_BAWN;

	if (argc >= 2 && strcmp(argv[1], "role-egress") == 0)
		return egress_main(argc - 1, argv + 1);
	if (argc >= 2 && strcmp(argv[1], "role-api") == 0)
		return api_main(argc - 1, argv + 1);
	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; argc >= 2 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		status = verbs[i].main(argc - 1, argv + 1);
		if (fflush(stdout) != 0 || ferror(stdout)) {
			(void)fprintf(stderr, "bawn: write to standard output: %s\n",
				errno ? strerrordesc_np(errno) : "failed");
			return status ? status : EXIT_BAWN;
		}
		return status;
	}
	(void)fputs(
		"bawnd belongs to bawn and is not called by itself; see 'bawn --help'\n", stderr);
	return status;
}
