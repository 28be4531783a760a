/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/frame - bytes of the guest protocol: the frame header, and fields inside a payload. Pure.
 *
 * A frame is FRAME_HEADER bytes, little endian: u32 length of the payload, u8 type,
 * u8 flags, u16 zero, u32 channel; then the payload. What a frame_reader is asked for and
 * does not have makes it fail for good: check frame_ok() once at the end.
 */
#include "io/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define FRAME_HEADER      12
#define FRAME_PAYLOAD_MAX (128u << 10)

enum frame_type {
	FRAME_OPEN = 1, /* u16 kind (enum guest_request), body: a new channel with a request */
	FRAME_MESSAGE,  /* u16 kind (enum guest_message), body */
	FRAME_DATA,     /* flags: stream number; payload: bytes; counts against the credit */
	FRAME_CREDIT,   /* u32: so many bytes more may be sent on the channel */
	FRAME_END, /* u32 errno (0 = fine), string message: the sender is done with the channel */
};

struct frame {
	uint32_t length;
	uint8_t type, flags;
	uint32_t channel;
	const char *payload; /* into the input */
};

/* > 0: bytes used by one whole frame; 0: more needed; < 0: malformed, drop the connection. */
ssize_t frame_parse(const char *p, size_t n, struct frame *ret);
void frame_header(
	char out[FRAME_HEADER], uint32_t length, uint8_t type, uint8_t flags, uint32_t channel);

struct frame_writer {
	struct buf buf;
	bool failed;
};

void frame_put_u8(struct frame_writer *w, uint8_t v);
void frame_put_u16(struct frame_writer *w, uint16_t v);
void frame_put_u32(struct frame_writer *w, uint32_t v);
void frame_put_u64(struct frame_writer *w, uint64_t v);
void frame_put_bytes(struct frame_writer *w, const void *p, size_t n); /* u32 length, bytes */
void frame_put_string(struct frame_writer *w, const char *s);          /* NULL is "" */
/* u32 count, strings; NULL-terminated array or NULL */
void frame_put_strings(struct frame_writer *w, char *const *v);

struct frame_reader {
	const char *p;
	size_t n;
	bool failed;
};

uint8_t frame_get_u8(struct frame_reader *r);
uint16_t frame_get_u16(struct frame_reader *r);
uint32_t frame_get_u32(struct frame_reader *r);
uint64_t frame_get_u64(struct frame_reader *r);
/* Points into the input; fails past `cap` bytes. */
const char *frame_get_bytes(struct frame_reader *r, size_t cap, size_t *ret_n);
/* A fresh NUL-terminated copy, without NUL inside; "" on failure or OOM. The caller frees. */
char *frame_get_string(struct frame_reader *r, size_t cap);
/* NULL-terminated fresh array of fresh strings, at most max; the caller frees with
 * frame_free_strings(). */
char **frame_get_strings(struct frame_reader *r, size_t max, size_t cap);
void frame_free_strings(char **v);
static inline bool frame_ok(const struct frame_reader *r) /* all read, nothing missing */
{
	return !r->failed && r->n == 0;
}
