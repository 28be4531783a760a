/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * guest/ring - the newest output bytes of one stream, each with its offset since the start.
 *
 * Grows on demand up to GUEST_RING and within a budget shared by all rings; then the oldest
 * bytes make room. Pure memory.
 */
#include <stddef.h>
#include <stdint.h>

struct ring {
	char *p;        /* NULL while empty and unused */
	size_t size;    /* of p */
	size_t head;    /* index of the oldest byte */
	size_t len;     /* bytes held */
	uint64_t end;   /* bytes ever written */
	size_t *budget; /* bytes allocated by all rings; shared */
};

static inline uint64_t ring_start(const struct ring *r)
{
	return r->end - r->len;
}

/*
 * A place for at most *ret_n new bytes, counted by ring_commit(). Bytes older than offset
 * keep_from may be given up for it. NULL: there is no room.
 */
char *ring_space(struct ring *r, uint64_t keep_from, size_t *ret_n);
void ring_commit(struct ring *r, size_t n);

/* Bytes from `offset` (ring_start() <= offset < end) that lie in one piece. */
const char *ring_piece(const struct ring *r, uint64_t offset, size_t *ret_n);

/* Nothing more will come: keep no more memory than bytes. */
void ring_shrink(struct ring *r);
void ring_done(struct ring *r);
