/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request or a response from a stranger. However it is cut into pieces, verdict and payload are
 * the same; what was accepted holds no byte that may not be sent on.
 */
#include "../unit/io/h1_oracle.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_fields(const char *b, size_t n, bool is_response)
{
	static struct h1_head h;
	struct h1_text method = {"GET", 3};
	int r = is_response ? h1_parse_response(b, n, method, &h) : h1_parse_request(b, n, &h);
	unsigned framing = 0;

	if (r != 0)
		return;
	for (size_t i = 0; i < h.fields_n; i++) {
		const struct h1_field *f = &h.fields[i];

		assert(h1_is_name(f->name.p, f->name.n));
		assert(h1_is_value(f->value.p, f->value.n));
		framing += h1_is_nocase(f->name, "content-length");
		framing += h1_is_nocase(f->name, "transfer-encoding");
	}
	assert(framing <= 1);
}

static void check_text(const char *p, size_t n)
{
	struct h1_text value;
	char out[64];
	ssize_t r = h1_unescape(p, n, n & 1, out, sizeof(out));

	assert(r < (ssize_t)sizeof(out));
	if (r >= 0)
		assert(strlen(out) == (size_t)r);
	if (h1_query((struct h1_text){p, n}, "a", &value))
		assert(value.p >= p && value.p + value.n <= p + n);
	(void)h1_has_token((struct h1_text){p, n}, "chunked");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct oracle whole, parts;
	bool is_response;
	char *b;

	if (size < 1 || size > H1_HEAD_MAX) /* past it, which refusal comes first may differ */
		return 0;
	is_response = data[0] & 1;
	size--;
	b = malloc(size > 0 ? size : 1); /* a copy of its own: reading past it is found */
	assert(b);
	memcpy(b, data + 1, size);
	whole = oracle_read(b, size, SIZE_MAX / 2, is_response);
	parts = oracle_read(b, size, (size_t)(data[0] >> 1) + 1, is_response);
	assert(whole.verdict == parts.verdict && whole.used == parts.used);
	assert(whole.payload_n == parts.payload_n && whole.sum == parts.sum);
	check_fields(b, size, is_response);
	if (whole.verdict == ORACLE_DONE)
		assert(whole.used <= size);
	check_text(b, size);
	free(b);
	return 0;
}
