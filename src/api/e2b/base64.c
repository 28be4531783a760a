/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/base64.h"

#include <errno.h>
#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(char *out, const void *in, size_t n)
{
	const unsigned char *p = in;
	char *o = out;

	for (; n >= 3; p += 3, n -= 3) {
		uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

		*o++ = alphabet[v >> 18];
		*o++ = alphabet[v >> 12 & 63];
		*o++ = alphabet[v >> 6 & 63];
		*o++ = alphabet[v & 63];
	}
	if (n > 0) {
		uint32_t v = (uint32_t)p[0] << 16 | (n == 2 ? (uint32_t)p[1] << 8 : 0);

		*o++ = alphabet[v >> 18];
		*o++ = alphabet[v >> 12 & 63];
		*o++ = '=';
		if (n == 2)
			o[-1] = alphabet[v >> 6 & 63];
		*o++ = '=';
	}
	return (size_t)(o - out);
}

/* The six bits of a character; -1 for others. "-_" too: protobuf's JSON takes either alphabet. */
static int bits(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	if (c == '/' || c == '_')
		return 63;
	return -1;
}

ssize_t base64_decode(void *out, const char *in, size_t n)
{
	unsigned char *o = out;
	uint32_t v = 0;
	size_t used = 0;

	if (n % 4 == 0 && n > 0 && in[n - 1] == '=')
		n -= in[n - 2] == '=' ? 2 : 1;
	if (n % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		int b = bits(in[i]);

		if (b < 0)
			return -EINVAL;
		v = v << 6 | (uint32_t)b;
		if (i % 4 == 3) {
			o[used++] = (unsigned char)(v >> 16);
			o[used++] = (unsigned char)(v >> 8);
			o[used++] = (unsigned char)v;
		}
	}
	if (n % 4 >= 2)
		o[used++] = (unsigned char)(n % 4 == 2 ? v >> 4 : v >> 10);
	if (n % 4 == 3)
		o[used++] = (unsigned char)(v >> 2);
	return (ssize_t)used;
}
