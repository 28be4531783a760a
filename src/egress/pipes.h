/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/pipes - pipes for splice(2), lent to the connections that are moving bulk just now.
 *
 * An idle connection has none. There are PIPES_MAX in all; who gets none copies.
 */
#include "base/own.h"

#include <stdbool.h>
#include <stddef.h>

#define PIPES_MAX  64
#define PIPES_SIZE (256u << 10)

struct pipes;

struct pipe_pair {
	int in, out; /* write end, read end; -EBADF: none */
	size_t n;    /* bytes inside */
};

#define PIPE_NONE ((struct pipe_pair){-EBADF, -EBADF, 0})

struct pipes *pipes_create(void);
struct pipes *pipes_free(struct pipes *p); /* all were given back */
/* An empty one; false: there is none left. */
bool pipes_take(struct pipes *p, struct pipe_pair *ret);
/* Closed instead of kept if bytes are left inside: they are nobody's any more. */
void pipes_give(struct pipes *p, struct pipe_pair *pair);
