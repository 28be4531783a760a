/* SPDX-License-Identifier: Apache-2.0 */

#include "guest/ring.h"

#include "guest/guest.h"

#include "tap.h"

#include <stdlib.h>

/* The byte at an offset, so that what comes out can be checked against where it was. */
static char byte_at(uint64_t offset)
{
	return (char)((offset * 2654435761u) >> 13);
}

/* Put up to n bytes; returns how many there was room for. */
static size_t put(struct ring *r, size_t n, uint64_t keep_from)
{
	size_t done = 0, room;
	char *at;

	while (done < n &&
		(at = ring_space(r, keep_from == UINT64_MAX ? r->end : keep_from, &room))) {
		size_t part = n - done < room ? n - done : room;

		for (size_t i = 0; i < part; i++)
			at[i] = byte_at(r->end + i);
		ring_commit(r, part);
		done += part;
	}
	return done;
}

static bool holds_what_it_says(const struct ring *r)
{
	for (uint64_t o = ring_start(r); o < r->end;) {
		size_t n;
		const char *p = ring_piece(r, o, &n);

		for (size_t i = 0; i < n; i++)
			if (p[i] != byte_at(o + i))
				return false;
		o += n;
	}
	return true;
}

static void an_empty_ring_holds_no_memory(void)
{
	size_t budget = 0;
	struct ring r = {.budget = &budget};

	CHECK_INT(ring_start(&r), 0);
	ring_shrink(&r);
	CHECK(r.p == NULL);
	CHECK_INT(budget, 0);
}

static void it_grows_with_what_comes(void)
{
	size_t budget = 0;
	struct ring r = {.budget = &budget};

	CHECK_INT(put(&r, 10, UINT64_MAX), 10);
	CHECK(budget <= 64u << 10);
	CHECK_INT(put(&r, 500000, UINT64_MAX), 500000);
	CHECK_INT(ring_start(&r), 0);
	CHECK(holds_what_it_says(&r));
	CHECK_INT(budget, r.size);
	ring_done(&r);
	CHECK_INT(budget, 0);
	CHECK_INT(r.end, 500010); /* offsets outlive the bytes */
	CHECK_INT(ring_start(&r), 500010);
}

static void the_oldest_go_when_nobody_needs_them(void)
{
	size_t budget = 0;
	struct ring r = {.budget = &budget};

	CHECK_INT(put(&r, 5 * GUEST_RING + 123, UINT64_MAX), 5 * GUEST_RING + 123);
	CHECK_INT(r.end, 5 * GUEST_RING + 123);
	CHECK(r.len <= GUEST_RING && r.len >= GUEST_RING - (64u << 10));
	CHECK_INT(budget, GUEST_RING);
	CHECK(holds_what_it_says(&r));
	ring_shrink(&r);
	CHECK_INT(r.size, r.len);
	CHECK_INT(budget, r.len);
	CHECK(holds_what_it_says(&r));
	ring_done(&r);
}

static void what_is_needed_stays(void)
{
	size_t budget = 0;
	struct ring r = {.budget = &budget};

	CHECK_INT(put(&r, 3 * GUEST_RING, 1000), GUEST_RING + 1000);
	CHECK_INT(ring_start(&r), 1000);
	CHECK_INT(put(&r, 1, 1000), 0);
	CHECK(holds_what_it_says(&r));
	CHECK(put(&r, 1, 1001) == 1);
	ring_done(&r);
}

static void past_the_budget_rings_stay_small_but_work(void)
{
	size_t budget = GUEST_RINGS_MAX;
	struct ring r = {.budget = &budget};

	CHECK_INT(put(&r, 100000, UINT64_MAX), 100000);
	CHECK(r.size <= 4096);
	CHECK(holds_what_it_says(&r));
	ring_done(&r);
	CHECK_INT(budget, GUEST_RINGS_MAX);
}

int main(void)
{
	RUN(an_empty_ring_holds_no_memory);
	RUN(it_grows_with_what_comes);
	RUN(the_oldest_go_when_nobody_needs_them);
	RUN(what_is_needed_stays);
	RUN(past_the_budget_rings_stay_small_but_work);
	return tap_done();
}
