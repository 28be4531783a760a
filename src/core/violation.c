/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/violation - the bounded list of refusals.
 *
 * Allocates nothing; runs in whatever process watches a box, never blocks.
 */
#include "core/violation.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Compare as stored: two texts that differ only past the cut are one entry. */
static bool same(const struct violation *a, const struct violation *b)
{
	return a->wall == b->wall && strcmp(a->kind, b->kind) == 0 &&
	       strcmp(a->tried, b->tried) == 0 && strcmp(a->instead, b->instead) == 0;
}

/* Cut at a character, not inside one: half a UTF-8 sequence is invalid in JSON. */
static void put(char *out, size_t out_size, const char *s)
{
	size_t n = strnlen(s, out_size);

	if (n == out_size) {
		n = out_size - 4;
		while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
			n--;
		memcpy(out, s, n);
		memcpy(out + n, "...", 4);
		return;
	}
	memcpy(out, s, n);
	out[n] = '\0';
}

void violation_add(struct violation_list *l, enum wall wall, const char *kind, const char *tried,
	const char *instead)
{
	violation_add_times(l, wall, kind, tried, instead, 1);
}

void violation_add_times(struct violation_list *l, enum wall wall, const char *kind,
	const char *tried, const char *instead, uint64_t times)
{
	struct violation v = {.wall = wall, .count = times};

	put(v.kind, sizeof(v.kind), kind);
	put(v.tried, sizeof(v.tried), tried);
	put(v.instead, sizeof(v.instead), instead);

	l->total += times;
	for (size_t i = 0; i < l->n; i++) {
		if (same(&l->v[i], &v)) {
			l->v[i].count += times;
			return;
		}
	}
	if (l->n < VIOLATION_MAX)
		l->v[l->n++] = v;
}
