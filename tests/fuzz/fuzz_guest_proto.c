/* SPDX-License-Identifier: Apache-2.0 */

/*
 * io/guest_proto on hostile bytes: what a decoder accepts, the encoder writes back to the byte.
 * The first byte chooses the structure.
 */
#include "io/guest_proto.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TRY(name)                                                                                  \
	do {                                                                                       \
		struct guest_##name v;                                                             \
		struct frame_writer w = {0};                                                       \
		if (guest_##name##_get(&r, &v)) {                                                  \
			guest_##name##_put(&w, &v);                                                \
			assert(!w.failed && buf_len(&w.buf) == n - r.n);                           \
			assert(n == r.n || memcmp(buf_data(&w.buf), p, n - r.n) == 0);             \
		}                                                                                  \
		buf_done(&w.buf);                                                                  \
		guest_##name##_done(&v);                                                           \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data + 1;
	size_t n = size - 1;
	struct frame_reader r = {.p = p, .n = n};

	if (size == 0)
		return 0;
	switch (data[0] % 11) {
	case 0: TRY(bind); break;
	case 1: TRY(start); break;
	case 2: TRY(which); break;
	case 3: TRY(attach); break;
	case 4: TRY(started); break;
	case 5: TRY(exit); break;
	case 6: TRY(process); break;
	case 7: TRY(entry); break;
	case 8: TRY(write); break;
	case 9: TRY(change); break;
	default: TRY(usage);
	}
	return 0;
}
