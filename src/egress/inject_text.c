/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Encodings in which a request may carry a placeholder, and in which a value is written.
 */
#include "egress/vault_impl.h"

#include <ctype.h>
#include <string.h>

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

ssize_t inject_base64(const char *s, size_t n, char *out)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t k = 0;

	while (n > 0 && s[n - 1] == '=')
		n--;
	for (size_t i = 0; i < n; i++) {
		int d = base64_digit(s[i]);

		if (d < 0)
			return -1;
		bits = bits << 6 | (uint32_t)d;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[k++] = (char)(bits >> have & 0xff);
		}
	}
	return (ssize_t)k;
}

int inject_escape(struct buf *out, const char *p, size_t n, const char *keep)
{
	static const char digits[] = "0123456789ABCDEF";
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
		bool is_plain = isalnum(c) || (c && (strchr("-._~", c) || strchr(keep, c)));

		r = is_plain ? buf_add(out, p + i, 1) : buf_add(out, escaped, 3);
	}
	return r;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t inject_unescape(const char *p, size_t n, bool is_form, char *out)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		int high = p[i] == '%' && i + 2 < n ? hex_digit(p[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(p[i + 2]) : -1;

		if (low >= 0) {
			out[k++] = (char)(high << 4 | low);
			i += 2;
		} else {
			out[k++] = is_form && p[i] == '+' ? ' ' : p[i];
		}
	}
	return k;
}

const char *inject_find(const char *p, size_t n, const char *needle)
{
	return n > 0 ? memmem(p, n, needle, strlen(needle)) : NULL;
}
