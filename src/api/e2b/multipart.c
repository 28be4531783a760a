/* SPDX-License-Identifier: Apache-2.0 */

/*
 * States, and what ends each:
 *
 *   PREAMBLE --delimiter--> AFTER --CRLF--> HEAD --blank line--> DATA --delimiter--> AFTER
 *                             |  "--"
 *                             +------> EPILOGUE
 *
 * A delimiter begins with CR, and no CR is inside it (a boundary has none): when a match fails, the
 * bytes matched so far are data, and only the byte that did not fit can begin another.
 */
#include "api/e2b/multipart.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum state { PREAMBLE, AFTER, AFTER_DASH, AFTER_CR, HEAD, DATA, EPILOGUE };

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	return p;
}

static bool is_token_byte(char c)
{
	return (unsigned char)c > 0x20 && c != 0x7f && !strchr("()<>@,;:\\\"/[]?={}", c);
}

/* One value, a token or a quoted string, from *s; false if malformed, or if out is too small. */
static bool value(const char **s, const char *end, char *out, size_t size)
{
	const char *p = *s;
	size_t n = 0;
	bool is_quoted = p < end && *p == '"';

	for (p += is_quoted; p < end && (is_quoted ? *p != '"' : is_token_byte(*p)); p++) {
		/* Only these two are escaped: Windows' own separators stay what they are. */
		if (is_quoted && *p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\\'))
			p++;
		if (*p == '\0' || n + 1 >= size)
			return false;
		out[n++] = *p;
	}
	if (is_quoted && (p == end || *p++ != '"'))
		return false;
	out[n] = '\0';
	*s = p;
	return true;
}

enum found { FOUND_NOT, FOUND, FOUND_BAD };

/* `; name=value` among the parameters in [p, end). */
static enum found parameter(
	const char *p, const char *end, const char *name, char *out, size_t size)
{
	char key[64], other[MULTIPART_FILENAME_MAX + 1];

	other[0] = '\0';
	while (p < end && (p = memchr(p, ';', (size_t)(end - p)))) {
		bool is_it;

		p = skip_blanks(p + 1, end);
		if (p == end)
			break; /* a stray semicolon at the end */
		if (!value(&p, end, key, sizeof(key)))
			return FOUND_BAD;
		p = skip_blanks(p, end);
		if (p == end || *p != '=')
			return FOUND_BAD;
		p = skip_blanks(p + 1, end);
		is_it = strcasecmp(key, name) == 0;
		if (!value(&p, end, is_it ? out : other, is_it ? size : sizeof(other)))
			return FOUND_BAD;
		if (is_it)
			return FOUND;
		p = skip_blanks(p, end);
		if (p < end && *p != ';')
			return FOUND_BAD;
	}
	return FOUND_NOT;
}

static bool is_boundary(const char *s, size_t n)
{
	if (n == 0 || n > MULTIPART_BOUNDARY_MAX || s[n - 1] == ' ')
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] > 0x7e)
			return false;
	return true;
}

bool multipart_init(struct multipart *m, struct h1_text type)
{
	char boundary[MULTIPART_BOUNDARY_MAX + 1];
	size_t n;

	*m = (struct multipart){.state = PREAMBLE};
	if (type.n < 10 || strncasecmp(type.p, "multipart/", 10) != 0)
		return false;
	if (parameter(type.p, type.p + type.n, "boundary", boundary, sizeof(boundary)) != FOUND)
		return false;
	n = strlen(boundary);
	if (!is_boundary(boundary, n))
		return false;
	memcpy(m->delimiter, "\r\n--", 4);
	memcpy(m->delimiter + 4, boundary, n);
	m->delimiter_n = 4 + n;
	/* The first delimiter stands at the very beginning: its CRLF is as good as read. */
	m->matched = 2;
	return true;
}

void multipart_done(struct multipart *m)
{
	free(m->head);
	m->head = NULL;
}

/* The delimiter is complete. */
static ssize_t delimited(struct multipart *m, ssize_t used, struct multipart_event *ret)
{
	if (m->state == DATA)
		ret->kind = MULTIPART_PART_END;
	m->matched = 0;
	m->state = AFTER;
	return used;
}

/* Go on with a delimiter of which m->matched bytes were there when the last input ended. */
static ssize_t match_on(struct multipart *m, const char *p, size_t n, struct multipart_event *ret)
{
	size_t want = m->delimiter_n - m->matched;
	size_t i = 0;

	while (i < n && i < want && p[i] == m->delimiter[m->matched + i])
		i++;
	if (i == want)
		return delimited(m, (ssize_t)i, ret);
	if (i == n) {
		m->matched += n;
		return (ssize_t)n;
	}
	/* A false one: what looked like it is data. */
	if (m->state == DATA)
		*ret = (struct multipart_event){MULTIPART_DATA, m->delimiter, m->matched + i};
	m->matched = 0;
	return (ssize_t)i;
}

static ssize_t take_data(struct multipart *m, const char *p, size_t n, struct multipart_event *ret)
{
	size_t at = 0;

	if (m->matched > 0)
		return match_on(m, p, n, ret);
	while (at < n) {
		const char *cr = memchr(p + at, '\r', n - at);
		size_t left;

		if (!cr) {
			at = n;
			break;
		}
		at = (size_t)(cr - p);
		left = n - at;
		if (memcmp(cr, m->delimiter, left < m->delimiter_n ? left : m->delimiter_n) == 0)
			break;
		at++;
	}
	if (at == 0) {
		m->matched = n < m->delimiter_n ? n : m->delimiter_n;
		if (m->matched == m->delimiter_n)
			return delimited(m, (ssize_t)m->delimiter_n, ret);
		return (ssize_t)n;
	}
	if (m->state == DATA)
		*ret = (struct multipart_event){MULTIPART_DATA, p, at};
	return (ssize_t)at;
}

/* Behind a delimiter: "--" is the end, blanks and CRLF begin a part. One byte at a time. */
static ssize_t take_after(struct multipart *m, char c, struct multipart_event *ret)
{
	switch ((enum state)m->state) {
	case AFTER:
		if (c == ' ' || c == '\t')
			return 1;
		m->state = c == '-' ? AFTER_DASH : AFTER_CR;
		return c == '-' || c == '\r' ? 1 : -EINVAL;
	case AFTER_DASH:
		if (c != '-')
			return -EINVAL;
		m->state = EPILOGUE;
		m->is_done = true;
		ret->kind = MULTIPART_END;
		return 1;
	default: /* AFTER_CR */
		if (c != '\n')
			return -EINVAL;
		if (++m->parts > MULTIPART_PARTS_MAX)
			return -E2BIG;
		m->state = HEAD;
		m->head_n = 0;
		return 1;
	}
}

/* RFC 5987: UTF-8''percent-encoded. */
static bool decode_extended(char *s)
{
	char out[MULTIPART_FILENAME_MAX + 1];
	const char *from = strncasecmp(s, "utf-8'", 6) == 0 ? strchr(s + 6, '\'') : NULL;
	ssize_t n;

	if (!from)
		return false;
	n = h1_unescape(from + 1, strlen(from + 1), false, out, sizeof(out));
	if (n < 0)
		return false;
	memcpy(s, out, (size_t)n + 1);
	return true;
}

static bool disposition(struct multipart *m, const char *p, const char *end)
{
	enum found name = parameter(p, end, "name", m->name, sizeof(m->name));
	enum found file = parameter(p, end, "filename*", m->filename, sizeof(m->filename));

	if (name == FOUND_BAD || file == FOUND_BAD)
		return false;
	if (file == FOUND && !decode_extended(m->filename))
		return false;
	if (file == FOUND_NOT)
		file = parameter(p, end, "filename", m->filename, sizeof(m->filename));
	m->has_filename = file == FOUND;
	return file != FOUND_BAD;
}

/* The fields of a part: only Content-Disposition matters, the others are looked past. */
static bool parse_head(struct multipart *m)
{
	static const char field[] = "content-disposition:";
	const char *p = m->head, *end = m->head + m->head_n;

	m->name[0] = m->filename[0] = '\0';
	m->has_filename = false;
	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));

		if (!eol || eol == p || eol[-1] != '\r')
			return false;
		if ((size_t)(eol - p) > sizeof(field) - 1 &&
			strncasecmp(p, field, sizeof(field) - 1) == 0)
			return disposition(m, p + sizeof(field) - 1, eol - 1);
		p = eol + 1;
	}
	return true;
}

static bool is_head_whole(const struct multipart *m)
{
	const char *end = m->head + m->head_n;

	return (m->head_n == 2 && memcmp(m->head, "\r\n", 2) == 0) ||
	       (m->head_n >= 4 && memcmp(end - 4, "\r\n\r\n", 4) == 0);
}

static ssize_t take_head(struct multipart *m, const char *p, size_t n, struct multipart_event *ret)
{
	if (!m->head)
		m->head = mem_must(malloc(MULTIPART_HEAD_MAX));
	for (size_t i = 0; i < n; i++) {
		if (m->head_n == MULTIPART_HEAD_MAX)
			return -E2BIG;
		m->head[m->head_n++] = p[i];
		if (p[i] != '\n' || !is_head_whole(m))
			continue;
		if (!parse_head(m))
			return -EINVAL;
		m->state = DATA;
		ret->kind = MULTIPART_PART;
		return (ssize_t)(i + 1);
	}
	return (ssize_t)n;
}

ssize_t multipart_next(struct multipart *m, const char *p, size_t n, struct multipart_event *ret)
{
	*ret = (struct multipart_event){.kind = MULTIPART_MORE};
	switch ((enum state)m->state) {
	case PREAMBLE:
	case DATA: return take_data(m, p, n, ret);
	case AFTER:
	case AFTER_DASH:
	case AFTER_CR: return take_after(m, p[0], ret);
	case HEAD: return take_head(m, p, n, ret);
	case EPILOGUE: break;
	}
	return (ssize_t)n;
}
