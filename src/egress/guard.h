/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/guard - bytes in pages of their own: not dumped, not inherited, not read past.
 */
#include "base/err.h"

#include <stddef.h>

struct guard {
	char *p; /* ends where a page without rights begins */
	size_t n;
	void *map; /* guard page, pages, guard page */
	size_t map_n;
};

/* A copy of n > 0 bytes; *g must be empty. Locked in memory if the limit allows. */
int guard_set(struct guard *g, const void *p, size_t n, struct err *err);
/* Zero them and give the pages back. Empty is fine. */
void guard_done(struct guard *g);

/* From now on the JSON library zeroes what it lets go of: messages hold values in clear. */
void guard_json(void);
