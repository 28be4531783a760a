/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/remote/transfer - one file to or from a sandbox, streamed, with progress on a terminal.
 */
#include "cli/remote/client.h"

struct transfer {
	struct client *client;
	const struct client_box *box;
	const char *user; /* or NULL */
	bool is_quiet;
	uint64_t files, bytes; /* so far */
};

/*
 * The remote file into `fd`. What was written stays written on failure: write to a file of
 * your own and rename it.
 */
int transfer_get(struct transfer *t, const char *remote, int fd, struct err *err);
/* All that can be read from `fd` into the remote file. */
int transfer_put(struct transfer *t, int fd, const char *remote, struct err *err);
/* The line of progress goes. */
void transfer_done(const struct transfer *t);
