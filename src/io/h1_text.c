/* SPDX-License-Identifier: Apache-2.0 */

/* Percent-escapes, query strings, and the words behind a status. */
#include "io/h1.h"

#include <errno.h>
#include <string.h>

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

ssize_t h1_unescape(const char *s, size_t n, bool is_query, char *out, size_t out_size)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (c == '%') {
			if (n - i < 3 || hex(s[i + 1]) < 0 || hex(s[i + 2]) < 0)
				return -EINVAL;
			c = (char)(hex(s[i + 1]) << 4 | hex(s[i + 2]));
			i += 2;
		} else if (c == '+' && is_query) {
			c = ' ';
		}
		if (c == '\0')
			return -EINVAL;
		if (len + 1 >= out_size)
			return -ENAMETOOLONG;
		out[len++] = c;
	}
	if (out_size == 0)
		return -ENAMETOOLONG;
	out[len] = '\0';
	return (ssize_t)len;
}

bool h1_query(struct h1_text query, const char *name, struct h1_text *ret)
{
	size_t name_n = strlen(name);

	while (query.n > 0) {
		const char *amp = memchr(query.p, '&', query.n);
		size_t n = amp ? (size_t)(amp - query.p) : query.n;
		const char *eq = memchr(query.p, '=', n);
		size_t key_n = eq ? (size_t)(eq - query.p) : n;

		if (key_n == name_n && memcmp(query.p, name, name_n) == 0) {
			*ret = eq ? (struct h1_text){eq + 1, n - key_n - 1}
				  : (struct h1_text){query.p + n, 0};
			return true;
		}
		n += amp != NULL;
		query.p += n;
		query.n -= n;
	}
	return false;
}

const char *h1_reason(int status)
{
	static const struct {
		int status;
		const char *words;
	} reasons[] = {
		{100, "Continue"},
		{101, "Switching Protocols"},
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{206, "Partial Content"},
		{301, "Moved Permanently"},
		{302, "Found"},
		{303, "See Other"},
		{304, "Not Modified"},
		{307, "Temporary Redirect"},
		{308, "Permanent Redirect"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{402, "Payment Required"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{406, "Not Acceptable"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{411, "Length Required"},
		{412, "Precondition Failed"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{416, "Range Not Satisfiable"},
		{417, "Expectation Failed"},
		{421, "Misdirected Request"},
		{422, "Unprocessable Content"},
		{425, "Too Early"},
		{426, "Upgrade Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{499, "Client Closed Request"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
		{507, "Insufficient Storage"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].words;
	return "Status";
}
