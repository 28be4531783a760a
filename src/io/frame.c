/* SPDX-License-Identifier: Apache-2.0 */

#include "io/frame.h"

#include "base/mem.h"

#include <endian.h>
#include <string.h>

ssize_t frame_parse(const char *p, size_t n, struct frame *ret)
{
	uint32_t length, channel;
	uint16_t zero;

	if (n < FRAME_HEADER)
		return 0;
	memcpy(&length, p, 4);
	memcpy(&zero, p + 6, 2);
	memcpy(&channel, p + 8, 4);
	length = le32toh(length);
	/* Judged before the payload is there: nobody waits for bytes that will be refused. */
	if (length > FRAME_PAYLOAD_MAX)
		return -EMSGSIZE;
	if (zero != 0 || (uint8_t)p[4] < FRAME_OPEN || (uint8_t)p[4] > FRAME_END)
		return -EPROTO;
	if (n - FRAME_HEADER < length)
		return 0;
	ret->length = length;
	ret->type = (uint8_t)p[4];
	ret->flags = (uint8_t)p[5];
	ret->channel = le32toh(channel);
	ret->payload = p + FRAME_HEADER;
	return (ssize_t)(FRAME_HEADER + length);
}

void frame_header(
	char out[FRAME_HEADER], uint32_t length, uint8_t type, uint8_t flags, uint32_t channel)
{
	uint32_t le_length = htole32(length), le_channel = htole32(channel);

	memcpy(out, &le_length, 4);
	out[4] = (char)type;
	out[5] = (char)flags;
	out[6] = out[7] = 0;
	memcpy(out + 8, &le_channel, 4);
}

static void put(struct frame_writer *w, const void *p, size_t n)
{
	if (!w->failed && buf_add(&w->buf, p, n) < 0)
		w->failed = true;
}

void frame_put_u8(struct frame_writer *w, uint8_t v)
{
	put(w, &v, 1);
}

void frame_put_u16(struct frame_writer *w, uint16_t v)
{
	v = htole16(v);
	put(w, &v, 2);
}

void frame_put_u32(struct frame_writer *w, uint32_t v)
{
	v = htole32(v);
	put(w, &v, 4);
}

void frame_put_u64(struct frame_writer *w, uint64_t v)
{
	v = htole64(v);
	put(w, &v, 8);
}

void frame_put_bytes(struct frame_writer *w, const void *p, size_t n)
{
	if (n > FRAME_PAYLOAD_MAX) {
		w->failed = true;
		return;
	}
	frame_put_u32(w, (uint32_t)n);
	if (n > 0)
		put(w, p, n);
}

void frame_put_string(struct frame_writer *w, const char *s)
{
	frame_put_bytes(w, s, s ? strlen(s) : 0);
}

void frame_put_strings(struct frame_writer *w, char *const *v)
{
	uint32_t n = 0;

	while (v && v[n])
		n++;
	frame_put_u32(w, n);
	for (uint32_t i = 0; i < n; i++)
		frame_put_string(w, v[i]);
}

/* The next n bytes, or NULL for good. */
static const char *get(struct frame_reader *r, size_t n)
{
	const char *p = r->p;

	if (r->failed || n > r->n) {
		r->failed = true;
		return NULL;
	}
	r->p += n;
	r->n -= n;
	return p;
}

uint8_t frame_get_u8(struct frame_reader *r)
{
	const char *p = get(r, 1);

	return p ? (uint8_t)*p : 0;
}

uint16_t frame_get_u16(struct frame_reader *r)
{
	const char *p = get(r, 2);
	uint16_t v = 0;

	if (p)
		memcpy(&v, p, 2);
	return le16toh(v);
}

uint32_t frame_get_u32(struct frame_reader *r)
{
	const char *p = get(r, 4);
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, 4);
	return le32toh(v);
}

uint64_t frame_get_u64(struct frame_reader *r)
{
	const char *p = get(r, 8);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, 8);
	return le64toh(v);
}

const char *frame_get_bytes(struct frame_reader *r, size_t cap, size_t *ret_n)
{
	uint32_t n = frame_get_u32(r);
	const char *p;

	if (n > cap)
		r->failed = true;
	p = get(r, n);
	*ret_n = p ? n : 0;
	return p ? p : "";
}

char *frame_get_string(struct frame_reader *r, size_t cap)
{
	size_t n;
	const char *p = frame_get_bytes(r, cap, &n);
	char *s;

	if (n > 0 && memchr(p, '\0', n))
		r->failed = true;
	s = r->failed ? NULL : malloc(n + 1);
	if (!s) {
		r->failed = true;
		return mem_strdup("");
	}
	memcpy(s, p, n);
	s[n] = '\0';
	return s;
}

char **frame_get_strings(struct frame_reader *r, size_t max, size_t cap)
{
	uint32_t n = frame_get_u32(r);
	char **v;

	/* Each string has at least its length: a count that cannot be true costs no memory. */
	if (n > max || n > r->n / 4)
		r->failed = true;
	if (r->failed)
		n = 0;
	v = calloc((size_t)n + 1, sizeof(*v));
	if (!v) {
		r->failed = true;
		return mem_must(calloc(1, sizeof(*v)));
	}
	for (uint32_t i = 0; i < n && !r->failed; i++)
		v[i] = frame_get_string(r, cap);
	return v;
}

void frame_free_strings(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}
