/* SPDX-License-Identifier: Apache-2.0 */

#include "guest/ring.h"

#include "guest/guest.h"

#include <string.h>

#define FIRST 4096        /* bytes of the first allocation */
#define CHUNK (32u << 10) /* room worth making at once */

/* Move to memory of `size` bytes, oldest byte first. */
static int move_to(struct ring *r, size_t size)
{
	char *p = malloc(size);
	size_t first = r->size - r->head < r->len ? r->size - r->head : r->len;

	if (!p)
		return -ENOMEM;
	if (r->len > 0) {
		memcpy(p, r->p + r->head, first);
		memcpy(p + first, r->p, r->len - first);
	}
	free(r->p);
	*r->budget += size;
	*r->budget -= r->size;
	r->p = p;
	r->size = size;
	r->head = 0;
	return 0;
}

static void grow(struct ring *r)
{
	size_t size = r->size ? r->size * 2 : FIRST;

	if (size > GUEST_RING)
		return;
	/* The first bytes of a process are always kept: a ring of nothing would stall it. */
	if (r->size > 0 && *r->budget + size - r->size > GUEST_RINGS_MAX)
		return;
	(void)move_to(r, size);
}

char *ring_space(struct ring *r, uint64_t keep_from, size_t *ret_n)
{
	size_t room, tail, want = CHUNK;

	if (r->size - r->len < want)
		grow(r);
	if (want > r->size / 2)
		want = r->size / 2;
	room = r->size - r->len;
	if (room < want && keep_from > ring_start(r)) {
		uint64_t old = keep_from - ring_start(r);
		size_t drop = want - room;

		if (drop > old)
			drop = (size_t)old;
		if (drop > r->len)
			drop = r->len;
		r->head = (r->head + drop) % r->size;
		r->len -= drop;
		room += drop;
	}
	if (room == 0)
		return NULL;
	tail = (r->head + r->len) % r->size;
	*ret_n = room < r->size - tail ? room : r->size - tail;
	return r->p + tail;
}

void ring_commit(struct ring *r, size_t n)
{
	r->len += n;
	r->end += n;
}

const char *ring_piece(const struct ring *r, uint64_t offset, size_t *ret_n)
{
	size_t skip = (size_t)(offset - ring_start(r));
	size_t at = (r->head + skip) % r->size, n = r->len - skip;

	*ret_n = n < r->size - at ? n : r->size - at;
	return r->p + at;
}

void ring_shrink(struct ring *r)
{
	if (r->len == 0) {
		ring_done(r);
		return;
	}
	if (r->len < r->size)
		(void)move_to(r, r->len); /* else it stays as it is: only memory is lost */
}

void ring_done(struct ring *r)
{
	free(r->p);
	if (r->budget)
		*r->budget -= r->size;
	r->p = NULL;
	r->size = r->head = r->len = 0;
}
