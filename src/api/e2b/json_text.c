/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/json_text.h"

#include <stdint.h>
#include <string.h>

/* Length of the well-formed UTF-8 character at p, 0 if there is none (RFC 3629, no surrogates). */
static size_t utf8_length(const unsigned char *p, size_t n)
{
	static const unsigned char least[] = {0, 0, 0x80, 0xa0, 0x90};
	size_t length;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (n < length)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 || p[0] == 0xf0) && p[1] < least[length])
		return 0; /* overlong */
	if ((p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0; /* a surrogate; past U+10FFFF */
	return length;
}

/* What stands for the character c in a string; NULL if it stands for itself. */
static const char *escape(unsigned char c, char out[8])
{
	static const char hex[] = "0123456789abcdef";

	switch (c) {
	case '"': return "\\\"";
	case '\\': return "\\\\";
	case '\n': return "\\n";
	case '\r': return "\\r";
	case '\t': return "\\t";
	default: break;
	}
	if (c >= 0x20 && c != 0x7f)
		return NULL;
	memcpy(out, "\\u00", 4);
	out[4] = hex[c >> 4];
	out[5] = hex[c & 15];
	out[6] = '\0';
	return out;
}

int json_text_addn(struct buf *b, const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t from = 0, i = 0;
	int r = buf_add(b, "\"", 1);

	while (i < n && r >= 0) {
		size_t length = utf8_length(p + i, n - i);
		char room[8];
		const char *other = length == 0   ? "\xef\xbf\xbd"
				    : length == 1 ? escape(p[i], room)
						  : NULL;

		if (other) {
			r = buf_add(b, s + from, i - from);
			if (r >= 0)
				r = buf_add(b, other, strlen(other));
			from = i + 1;
		}
		i += length > 0 ? length : 1;
	}
	if (r >= 0)
		r = buf_add(b, s + from, n - from);
	return r < 0 ? r : buf_add(b, "\"", 1);
}

int json_text_add(struct buf *b, const char *s)
{
	return json_text_addn(b, s, strlen(s));
}
