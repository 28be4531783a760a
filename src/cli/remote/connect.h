/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/remote/connect - from the address of a server to a connected socket. Blocks.
 */
#include "base/err.h"

#include <stdbool.h>

struct connect_to {
	bool is_tls;
	char *path; /* of a socket file, or NULL */
	char *host, *port;
};
void connect_to_done(struct connect_to *t);

/* "http://HOST[:PORT]", "https://…", "unix:PATH"; a path behind the port is refused. */
int connect_parse(const char *url, struct connect_to *ret, struct err *err);
int connect_open(const struct connect_to *t, struct err *err);
