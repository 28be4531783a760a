/* SPDX-License-Identifier: Apache-2.0 */

/*
 * io/frame on hostile bytes: a frame parsed is within the input and is written the same; a shorter
 * input never gives another answer than "more"; fields never reach past the end.
 */
#include "io/frame.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fields(const char *p, size_t n)
{
	struct frame_reader r = {.p = p, .n = n};
	size_t len;

	while (!r.failed && r.n > 0) {
		switch (frame_get_u8(&r) % 7) {
		case 0: (void)frame_get_u8(&r); break;
		case 1: (void)frame_get_u16(&r); break;
		case 2: (void)frame_get_u32(&r); break;
		case 3: (void)frame_get_u64(&r); break;
		case 4: {
			char *s = frame_get_string(&r, 100);

			assert(strlen(s) <= 100);
			free(s);
			break;
		}
		case 5: {
			char **v = frame_get_strings(&r, 10, 100);
			size_t i = 0;

			while (v[i])
				i++;
			assert(i <= 10);
			frame_free_strings(v);
			break;
		}
		default: {
			const char *b = frame_get_bytes(&r, 100, &len);

			assert(len <= 100 && (len == 0 || (b >= p && b + len <= p + n)));
		}
		}
	}
	assert(r.failed || r.p == p + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	struct frame f, g;
	size_t at = 0;
	ssize_t n;

	while ((n = frame_parse(p + at, size - at, &f)) > 0) {
		char header[FRAME_HEADER];

		assert((size_t)n == FRAME_HEADER + f.length && (size_t)n <= size - at);
		assert(f.payload == p + at + FRAME_HEADER && f.length <= FRAME_PAYLOAD_MAX);
		frame_header(header, f.length, f.type, f.flags, f.channel);
		assert(memcmp(header, p + at, FRAME_HEADER) == 0);
		for (size_t cut = 0; cut < (size_t)n; cut += 1 + cut / 4)
			assert(frame_parse(p + at, cut, &g) == 0);
		fields(f.payload, f.length);
		at += (size_t)n;
	}
	fields(p, size);
	return 0;
}
