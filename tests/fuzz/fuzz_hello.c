/* SPDX-License-Identifier: Apache-2.0 */

/*
 * egress/hello on hostile bytes: an answer stays the same whatever comes behind a whole hello, and
 * every beginning of one wants more; a name is one that a policy can speak of.
 */
#include "egress/hello.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum hello_result whole;
	struct hello h, g;
	char clean[POLICY_NAME_MAX + 1];
	size_t end = size;

	whole = hello_parse(data, size, &h);
	if (whole == HELLO_OK && h.has_name && !h.is_bad_name) {
		assert(policy_clean_name(h.name, strlen(h.name), clean) >= 0);
		assert(strcmp(h.name, clean) == 0);
	}
	/* The shortest beginning that is answered is answered in the same way. */
	for (size_t n = 0; n < size; n += 1 + n / 16) {
		enum hello_result r = hello_parse(data, n, &g);

		if (r == HELLO_MORE)
			continue;
		assert(r == whole);
		assert(r != HELLO_OK || memcmp(&g, &h, sizeof(g)) == 0);
		end = n;
		break;
	}
	assert(end <= size);
	return 0;
}
