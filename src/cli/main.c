/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/main - the program: finds the verb and hands over.
 *
 * Knows nothing of what verbs do. Single-threaded: sandboxes are made by clone.
 */
#include "base/text.h"
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VERBS_MAX 48

/*
 * A caller may start us with 0, 1 or 2 closed; the next open() would then become
 * "stdout" and our own messages would be written into it.
 */
static int open_missing_stdio(void)
{
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			continue;
		/* open() gives the lowest free number, which is this one. */
		if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
			return -1;
	}
	return 0;
}

static int unknown_verb(const char *word)
{
	const char *names[VERBS_MAX];
	const char *near;
	char quoted[64];
	size_t n = 0;

	for (const struct verb *v = verb_table; v->name && n < VERBS_MAX; v++) {
		if (!v->hidden)
			names[n++] = v->name;
	}
	(void)text_quote(word, quoted, sizeof(quoted));
	near = text_closest(word, names, n);
	if (near)
		(void)fprintf(stderr, "bawn: '%s' is not a bawn command; did you mean '%s'?\n",
			quoted, near);
	else if (word[0] == '-')
		(void)fprintf(stderr,
			"bawn: unknown option '%s'; options come after the command: bawn run "
			"%s (see 'bawn --help')\n",
			quoted, quoted);
	else
		(void)fprintf(stderr,
			"bawn: '%s' is not a bawn command; to run a program use 'bawn run -- "
			"%s' (see 'bawn --help')\n",
			quoted, quoted);
	return EXIT_BAWN;
}

static int dispatch(int argc, char **argv)
{
	const struct verb *v;

	if (argc < 2) {
		help_print(stderr);
		return EXIT_BAWN;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		help_print(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return verb_version(1, argv + 1);
	v = verb_find(argv[1]);
	if (!v)
		return unknown_verb(argv[1]);
	return v->main(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status;

	if (open_missing_stdio() < 0)
		return EXIT_BAWN;
	status = dispatch(argc, argv);
	/* A result that could not be written is not a result. */
	if (fflush(stdout) != 0 || ferror(stdout)) {
		(void)fprintf(stderr, "bawn: write to standard output: %s\n",
			errno ? strerrordesc_np(errno) : "failed");
		return status ? status : EXIT_BAWN;
	}
	return status;
}
