/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/multipart - a multipart/form-data body taken apart as it comes. Pure, fuzzed.
 *
 *   multipart_init(&m, content_type)
 *   while (n > 0) { used = multipart_next(&m, p, n, &event); … p += used, n -= used }
 *   at the end of the body: m.is_done, else it broke off
 *
 * Holds no file data: an event points into the input (or at the few bytes of a false delimiter), so
 * the caller may stop between any two events and go on later with the rest of the input.
 */
#include "io/h1.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 */
#define MULTIPART_HEAD_MAX     8192
#define MULTIPART_FILENAME_MAX 4096
#define MULTIPART_PARTS_MAX    10000

enum multipart_kind {
	MULTIPART_MORE,     /* nothing to tell; go on with the rest */
	MULTIPART_PART,     /* a part begins: m->name, m->filename */
	MULTIPART_DATA,     /* bytes of it */
	MULTIPART_PART_END, /* it is over */
	MULTIPART_END       /* the last one was; the rest of the body means nothing */
};

struct multipart_event {
	enum multipart_kind kind;
	const char *p; /* MULTIPART_DATA: valid until the next call and while the input is */
	size_t n;
};

struct multipart {
	char delimiter[4 + MULTIPART_BOUNDARY_MAX]; /* CRLF "--" boundary */
	size_t delimiter_n;
	size_t matched; /* bytes of the delimiter at the end of the input so far */
	uint8_t state;
	unsigned parts;
	char *head; /* fields of the part that begins; owned */
	size_t head_n;
	char name[64];                             /* of the form's field, cut */
	char filename[MULTIPART_FILENAME_MAX + 1]; /* with directories, as it was sent */
	bool has_filename;
	bool is_done;
};

/* False: no multipart type, or no usable boundary. */
bool multipart_init(struct multipart *m, struct h1_text content_type);
void multipart_done(struct multipart *m);

/*
 * One event. Returns the bytes used, maybe 0; -EINVAL malformed, -E2BIG a cap was passed. Call with
 * n > 0.
 */
ssize_t multipart_next(struct multipart *m, const char *p, size_t n, struct multipart_event *ret);
