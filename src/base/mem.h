/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * base/mem - small fixed-size allocations that abort the program when memory is gone.
 *
 * A size that a tenant can influence does not belong here: it goes through a
 * buffer with a cap.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static inline void *mem_must(void *p)
{
	if (!p)
		abort();
	return p;
}

/* One zeroed object; freed with free(). */
#define MEM_NEW(type) ((type *)mem_must(calloc(1, sizeof(type))))

/* A copy of a string we already hold and have bounded. */
static inline char *mem_strdup(const char *s)
{
	return (char *)mem_must(strdup(s));
}
