/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * tests/unit/egress/egress_hello - TLS client hellos, well-formed and not.
 */
#include <stddef.h>
#include <string.h>

enum {
	HELLO_WITHOUT_NAME = 1u << 0,
	HELLO_WITH_ECH = 1u << 1,
	HELLO_TWO_NAMES = 1u << 2,     /* in one extension */
	HELLO_TWICE = 1u << 3,         /* the extension */
	HELLO_CUT_EXTENSION = 1u << 4, /* its length reaches past the end */
};

static unsigned char hello_bytes[70000];
static size_t hello_len;

static inline size_t hello_put(unsigned char *p, const void *data, size_t n)
{
	memcpy(p, data, n);
	return n;
}

static inline size_t hello_put16(unsigned char *p, size_t v)
{
	p[0] = (unsigned char)(v >> 8);
	p[1] = (unsigned char)v;
	return 2;
}

static inline size_t hello_name_entry(unsigned char *p, const char *name)
{
	size_t n = 0;

	p[n++] = 0;
	n += hello_put16(p + n, strlen(name));
	return n + hello_put(p + n, name, strlen(name));
}

static inline size_t hello_name_extension(unsigned char *p, const char *name, unsigned flags)
{
	unsigned char list[1024];
	size_t list_n = hello_name_entry(list, name), n = 0;

	if (flags & HELLO_TWO_NAMES)
		list_n += hello_name_entry(list + list_n, "evil.test");
	n += hello_put16(p + n, 0);
	n += hello_put16(p + n, list_n + 2);
	n += hello_put16(p + n, list_n);
	return n + hello_put(p + n, list, list_n);
}

/* per_record: bytes of the message in each record; 0: all in one. */
static inline void hello_make(const char *name, unsigned flags, size_t per_record)
{
	static unsigned char m[66000];
	unsigned char x[4096];
	size_t n = 4, x_n = 0;

	n += hello_put(m + n, "\3\3", 2);
	memset(m + n, 0x55, 32);
	n += 32;
	m[n++] = 0;
	n += hello_put(m + n, "\0\2\x13\1", 4);
	n += hello_put(m + n, "\1\0", 2);
	if (!(flags & HELLO_WITHOUT_NAME))
		x_n += hello_name_extension(x + x_n, name, flags);
	if (flags & HELLO_TWICE)
		x_n += hello_name_extension(x + x_n, "evil.test", 0);
	if (flags & HELLO_WITH_ECH)
		x_n += hello_put(x + x_n, "\xfe\x0d\0\4abcd", 8);
	x_n += hello_put(x + x_n, "\0\x2b\0\3\2\3\4", 7); /* versions */
	if (flags & HELLO_CUT_EXTENSION)
		x[x_n - 4] = 9;
	n += hello_put16(m + n, x_n);
	n += hello_put(m + n, x, x_n);
	m[0] = 1;
	m[1] = (unsigned char)((n - 4) >> 16);
	(void)hello_put16(m + 2, (n - 4) & 0xffff);
	hello_len = 0;
	for (size_t at = 0; at < n;) {
		size_t part = per_record && n - at > per_record ? per_record : n - at;

		hello_len += hello_put(hello_bytes + hello_len, "\x16\3\1", 3);
		hello_len += hello_put16(hello_bytes + hello_len, part);
		hello_len += hello_put(hello_bytes + hello_len, m + at, part);
		at += part;
	}
}
