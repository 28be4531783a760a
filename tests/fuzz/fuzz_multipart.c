/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/multipart on hostile bodies. Oracle: however the input is cut in pieces, the same parts
 * with the same bytes come out, or the same refusal.
 */
#include "api/e2b/multipart.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void note(struct buf *out, const struct multipart *m, const struct multipart_event *e)
{
	switch (e->kind) {
	case MULTIPART_PART:
		assert(strlen(m->name) < sizeof(m->name));
		assert(strlen(m->filename) <= MULTIPART_FILENAME_MAX);
		assert(buf_addf(out, "P%s|%d%s;", m->name, m->has_filename, m->filename) >= 0);
		break;
	case MULTIPART_DATA: assert(e->n > 0 && buf_add(out, e->p, e->n) >= 0); break;
	case MULTIPART_PART_END: assert(buf_add(out, "E;", 2) >= 0); break;
	case MULTIPART_END: assert(buf_add(out, "F;", 2) >= 0); break;
	case MULTIPART_MORE: break;
	}
}

static void run(struct multipart m, const char *p, size_t n, size_t piece, struct buf *out)
{
	for (size_t at = 0; at < n;) {
		size_t end = n - at < piece ? n : at + piece;

		for (unsigned idle = 0; at < end;) {
			struct multipart_event e;
			/* A copy of exactly these bytes, so that ASan sees a look beyond. */
			char *copy = malloc(end - at);
			ssize_t used;

			assert(copy);
			memcpy(copy, p + at, end - at);
			used = multipart_next(&m, copy, end - at, &e);
			assert(used <= (ssize_t)(end - at));
			if (used < 0) {
				assert(buf_addf(out, "!%d", (int)-used) >= 0);
				free(copy);
				goto out;
			}
			idle = used == 0 ? idle + 1 : 0;
			assert(idle < 3);
			note(out, &m, &e);
			free(copy);
			at += (size_t)used;
		}
	}
	assert(buf_addf(out, "%d", m.is_done) >= 0);
out:
	multipart_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *eol = memchr(p, '\n', size);
	size_t head = eol ? (size_t)(eol - p) : size, pieces[] = {1, 2, 3, 7, 64};
	struct buf whole = {.cap = 64u << 20};
	struct multipart m;

	if (!multipart_init(&m, (struct h1_text){p, head}) || head == size)
		return 0;
	p += head + 1;
	size -= head + 1;
	run(m, p, size, size + 1, &whole);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		struct buf again = {.cap = 64u << 20};

		run(m, p, size, pieces[i], &again);
		assert(buf_len(&again) == buf_len(&whole));
		assert(memcmp(buf_data(&again), buf_data(&whole), buf_len(&whole)) == 0);
		buf_done(&again);
	}
	buf_done(&whole);
	return 0;
}
