/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote_exec - hand a verb that talks to a server over to `bawnd`.
 *
 * This program parses nothing that comes from a network.
 */
#include "base/mem.h"
#include "base/own.h"
#include "cli/verb.h"
#include "core/programs.h"

#include <unistd.h>

int verb_remote(int argc, char **argv)
{
	AUTO_FREE char **words = (char **)mem_must(calloc((size_t)argc + 2, sizeof(char *)));
	AUTO_FREE char *path = NULL;
	struct err err = {0};

	if (programs_bawnd(&path, &err) < 0)
		return verb_fail(argv[0], &err);
	words[0] = path;
	for (int i = 0; i < argc; i++)
		words[i + 1] = argv[i];
	(void)execv(path, words);
	(void)err_sys(&err, "execute '%s'", path);
	return verb_fail(argv[0], &err);
}
