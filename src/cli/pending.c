/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/pending - weak stand-ins so that the program links while its verbs are being written.
 */
#include "cli/verb.h"

#define PENDING(fn)                                                                                \
	__attribute__((weak)) int fn(int argc, char **argv)                                        \
	{                                                                                          \
		(void)argc;                                                                        \
		(void)argv;                                                                        \
		(void)fprintf(stderr, "bawn: " #fn " is not built yet\n");                         \
		return EXIT_BAWN;                                                                  \
	}

PENDING(verb_diff)
PENDING(verb_apply)
PENDING(verb_discard)
