/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/hello.h"

#include "core/address.h"

#include <stdint.h>
#include <string.h>

#define RECORD_HEADER  5
#define RECORD_MAX     16384
#define MESSAGE_HEADER 4

enum {
	RECORD_HANDSHAKE = 22,
	CLIENT_HELLO = 1,
	EXTENSION_NAME = 0,
	EXTENSION_ECH = 0xfe0d,
	EXTENSION_ESNI = 0xffce,
};

struct reader {
	const unsigned char *p;
	size_t n;
	bool failed;
};

static const unsigned char *get(struct reader *r, size_t n)
{
	const unsigned char *p = r->p;

	if (r->failed || n > r->n) {
		r->failed = true;
		return NULL;
	}
	r->p += n;
	r->n -= n;
	return p;
}

static size_t get_number(struct reader *r, unsigned bytes)
{
	const unsigned char *p = get(r, bytes);
	size_t v = 0;

	for (unsigned i = 0; p && i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

/* A part with its length in front. */
static struct reader get_part(struct reader *r, unsigned length_bytes)
{
	size_t n = get_number(r, length_bytes);
	const unsigned char *p = get(r, n);

	return (struct reader){.p = p, .n = p ? n : 0, .failed = r->failed};
}

static void take_name(struct hello *ret, struct reader *part)
{
	struct reader list = get_part(part, 2);
	struct address ignored;

	if (part->n != 0)
		list.failed = true;
	while (!list.failed && list.n > 0) {
		size_t type = get_number(&list, 1);
		struct reader name = get_part(&list, 2);

		if (list.failed)
			break;
		/* RFC 6066: one of each type, and there is only one type. */
		if (type != 0 || ret->has_name || !name.p ||
			address_parse((const char *)name.p, name.n, &ignored) ||
			policy_clean_name((const char *)name.p, name.n, ret->name) < 0)
			ret->is_bad_name = true;
		ret->has_name = true;
	}
	if (!ret->has_name)
		ret->is_bad_name = true; /* an empty list */
	part->failed = list.failed;
}

/* The message without its header. */
static bool parse_message(struct reader *r, struct hello *ret)
{
	struct reader extensions;
	unsigned names = 0;

	(void)get(r, 2 + 32); /* version, random */
	(void)get_part(r, 1); /* session */
	(void)get_part(r, 2); /* ciphers */
	(void)get_part(r, 1); /* compression */
	if (r->failed)
		return false;
	if (r->n == 0)
		return true; /* before extensions were invented */
	extensions = get_part(r, 2);
	while (!extensions.failed && extensions.n > 0) {
		size_t type = get_number(&extensions, 2);
		struct reader part = get_part(&extensions, 2);

		if (extensions.failed)
			return false;
		if (type == EXTENSION_NAME && names++ > 0)
			return false; /* which of them counts is anybody's guess */
		if (type == EXTENSION_NAME)
			take_name(ret, &part);
		else if (type == EXTENSION_ECH || type == EXTENSION_ESNI)
			ret->has_ech = true;
		if (part.failed)
			return false;
	}
	return !extensions.failed && r->n == 0;
}

/* Handshake bytes out of their records, as many as are there. */
static enum hello_result collect(
	const unsigned char *p, size_t n, unsigned char *out, size_t *out_n)
{
	size_t got = 0, want = MESSAGE_HEADER;

	while (got < want) {
		size_t length, have;

		if (n > 0 && p[0] != RECORD_HANDSHAKE)
			return HELLO_BAD;
		if ((n > 1 && p[1] != 3) || (n > 2 && p[2] > 4))
			return HELLO_BAD;
		if (n < RECORD_HEADER)
			return HELLO_MORE;
		length = (size_t)p[3] << 8 | p[4];
		/* Empty records carry nothing but a way to be endless. */
		if (length == 0 || length > RECORD_MAX)
			return HELLO_BAD;
		have = n - RECORD_HEADER < length ? n - RECORD_HEADER : length;
		if (have > MESSAGE_HEADER + HELLO_MAX - got)
			return HELLO_BAD; /* something behind the hello, before an answer */
		memcpy(out + got, p + RECORD_HEADER, have);
		got += have;
		if (got > 0 && out[0] != CLIENT_HELLO)
			return HELLO_BAD;
		if (got >= MESSAGE_HEADER) {
			want = MESSAGE_HEADER +
			       ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]);
			if (want > MESSAGE_HEADER + HELLO_MAX || got > want)
				return HELLO_BAD;
		}
		if (have < length)
			return got < want ? HELLO_MORE : HELLO_BAD;
		p += RECORD_HEADER + length;
		n -= RECORD_HEADER + length;
	}
	*out_n = got;
	return HELLO_OK;
}

enum hello_result hello_parse(const void *bytes, size_t n, struct hello *ret)
{
	const unsigned char *p = bytes;
	unsigned char message[MESSAGE_HEADER + HELLO_MAX];
	struct reader r = {0};
	enum hello_result result;
	size_t length = 0;

	*ret = (struct hello){0};
	if (n > 0 && (p[0] != RECORD_HANDSHAKE || (n > 1 && p[1] != 3)))
		return HELLO_NONE;
	result = collect(p, n, message, &length);
	if (result != HELLO_OK)
		return result;
	r.p = message + MESSAGE_HEADER;
	r.n = length - MESSAGE_HEADER;
	return parse_message(&r, ret) ? HELLO_OK : HELLO_BAD;
}
