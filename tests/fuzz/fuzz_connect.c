/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The data plane's small parsers on hostile bytes: Connect frames, base64, JSON text, ranges. What
 * we write must be read again by jansson as the same text, or with U+FFFD where it was no UTF-8.
 */
#include "api/e2b/base64.h"
#include "api/e2b/connect_frames.h"
#include "api/e2b/files.h"
#include "api/e2b/json_text.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void frames(const char *p, size_t n)
{
	while (n > 0) {
		struct connect_frame f;
		char header[CONNECT_HEADER];
		ssize_t used = connect_frame_parse(p, n, 1000, &f);

		assert(used <= (ssize_t)n);
		if (used <= 0)
			return;
		assert(f.n <= 1000 && f.p == p + CONNECT_HEADER);
		connect_frame_header(header, f.flags, f.n);
		assert(memcmp(header, p, CONNECT_HEADER) == 0);
		p += used;
		n -= (size_t)used;
	}
}

static void base64(const char *p, size_t n)
{
	char *text = malloc(BASE64_SIZE(n) + 1), *back = malloc(n + 6);
	ssize_t used;

	assert(text && back);
	assert(base64_encode(text, p, n) == BASE64_SIZE(n));
	assert(base64_decode(back, text, BASE64_SIZE(n)) == (ssize_t)n);
	assert(n == 0 || memcmp(back, p, n) == 0);
	used = base64_decode(back, p, n);
	assert(used <= (ssize_t)(n / 4 * 3 + 3));
	free(text);
	free(back);
}

static void json(const char *p, size_t n)
{
	struct buf b = {.cap = 8 * n + 16};
	json_t *v;

	assert(json_text_addn(&b, p, n) >= 0);
	v = json_loadb(buf_data(&b), buf_len(&b), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	assert(json_is_string(v));
	assert(memmem(buf_data(&b), buf_len(&b), "\xef\xbf\xbd", 3) ||
		(json_string_length(v) == n && memcmp(json_string_value(v), p, n) == 0) ||
		memchr(p, 0, n));
	json_decref(v);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	struct files_range range;

	frames(p, size);
	base64(p, size);
	json(p, size);
	if (files_range_get((struct h1_text){p, size}, &range))
		assert(range.is_suffix || range.from <= range.to);
	return 0;
}
