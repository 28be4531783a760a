/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads one request, or one response, the way a server does: bytes come in pieces, the head is
 * looked for in what has come so far, then the body is fed. What comes out must not depend on the
 * pieces: that is the oracle of the unit test and of the fuzz target.
 */
#include "io/h1.h"

#include <stdint.h>
#include <string.h>

enum { ORACLE_MORE = 0, ORACLE_DONE = 1, ORACLE_BAD_BODY = 2 }; /* or the status of a refusal */

struct oracle {
	int verdict;
	size_t used;      /* bytes of the message, if done */
	size_t payload_n; /* of the body */
	uint64_t sum;     /* over the payload */
};

static inline void oracle_payload(struct oracle *o, const char *p, size_t n)
{
	o->payload_n += n;
	for (size_t i = 0; i < n; i++)
		o->sum = (o->sum ^ (unsigned char)p[i]) * 1099511628211u;
}

/* Feed b[0..n) in pieces of `step` bytes. */
static inline struct oracle oracle_read(const char *b, size_t n, size_t step, bool is_response)
{
	static struct h1_head head; /* 3 KiB: not for a small stack */
	struct oracle o = {.verdict = ORACLE_MORE};
	struct h1_body body;
	size_t scan = 0, end = 0, have = 0, at;
	struct h1_text method = {"GET", 3};

	while (end == 0) {
		have = n - have > step ? have + step : n;
		end = h1_head_end(b, have, &scan);
		if (end == (size_t)-1) {
			o.verdict = 400;
			return o;
		}
		/* A server refuses a head that is too long as soon as it is. */
		if (end > H1_HEAD_MAX || (end == 0 && have > H1_HEAD_MAX)) {
			o.verdict = 431;
			return o;
		}
		if (end == 0 && have == n)
			return o;
	}
	o.verdict = is_response ? h1_parse_response(b, end, method, &head)
				: h1_parse_request(b, end, &head);
	if (o.verdict != 0)
		return o;
	h1_body_init(&body, &head);
	for (at = end; !body.is_done;) {
		const char *out;
		size_t out_n;
		ssize_t used;

		if (at == have) {
			if (have == n)
				return o;
			have = n - have > step ? have + step : n;
		}
		used = h1_body_feed(&body, b + at, have - at, &out, &out_n);
		if (used < 0) {
			o.verdict = ORACLE_BAD_BODY;
			o.payload_n = 0; /* how much came out before depends on the pieces */
			o.sum = 0;
			return o;
		}
		oracle_payload(&o, out, out_n);
		at += (size_t)used;
	}
	o.verdict = ORACLE_DONE;
	o.used = at;
	return o;
}
