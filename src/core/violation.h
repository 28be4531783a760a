/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/violation - what a command tried that a wall refused.
 *
 * A bounded list: identical entries are counted, not repeated, and past the cap
 * only the total grows, so a hostile command cannot grow our memory.
 */
#include "core/wall.h"

#include <stddef.h>
#include <stdint.h>

#define VIOLATION_MAX 64

struct violation {
	enum wall wall;
	char kind[24];   /* stable word: "syscall", "write", "connect", "memory", "timeout", … */
	char tried[256]; /* what was tried, quoted for a terminal */
	char instead[200]; /* what would allow it, or what to do instead */
	uint64_t count;
};

struct violation_list {
	struct violation v[VIOLATION_MAX];
	size_t n;
	uint64_t total; /* all, including the ones not kept */
};

/* Add or count. Texts are cut to fit. */
void violation_add(struct violation_list *l, enum wall wall, const char *kind, const char *tried,
	const char *instead);
/* The same for something that was tried `times` times. */
void violation_add_times(struct violation_list *l, enum wall wall, const char *kind,
	const char *tried, const char *instead, uint64_t times);
