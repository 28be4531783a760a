/* SPDX-License-Identifier: Apache-2.0 */

#include "io/h1.h"

#include "io/h1_chars.h"

#include <string.h>
#include <strings.h>

#define METHOD_MAX 32
#define TARGET_MAX 32768
#define LENGTH_MAX 18 /* digits: fits 63 bits */

bool h1_is_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!h1_is_token_char(s[i]))
			return false;
	return n > 0;
}

bool h1_is_value(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!h1_is_value_char(s[i]))
			return false;
	return true;
}

bool h1_is(struct h1_text t, const char *s)
{
	size_t n = strlen(s);

	return t.n == n && memcmp(t.p, s, n) == 0;
}

bool h1_is_nocase(struct h1_text t, const char *s)
{
	size_t n = strlen(s);

	return t.n == n && strncasecmp(t.p, s, n) == 0;
}

static struct h1_text trim(struct h1_text t)
{
	while (t.n > 0 && (*t.p == ' ' || *t.p == '\t')) {
		t.p++;
		t.n--;
	}
	while (t.n > 0 && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t'))
		t.n--;
	return t;
}

bool h1_has_token(struct h1_text value, const char *token)
{
	while (value.n > 0) {
		const char *comma = memchr(value.p, ',', value.n);
		size_t n = comma ? (size_t)(comma - value.p) : value.n;

		if (h1_is_nocase(trim((struct h1_text){value.p, n}), token))
			return true;
		n += comma != NULL;
		value.p += n;
		value.n -= n;
	}
	return false;
}

const struct h1_field *h1_find(const struct h1_head *h, const char *name)
{
	for (size_t i = 0; i < h->fields_n; i++)
		if (h1_is_nocase(h->fields[i].name, name))
			return &h->fields[i];
	return NULL;
}

size_t h1_head_end(const char *b, size_t n, size_t *scan)
{
	for (size_t i = *scan; i < n; i++) {
		const char *lf = memchr(b + i, '\n', n - i);

		if (!lf)
			break;
		i = (size_t)(lf - b);
		if (i < 2 || b[i - 1] != '\r')
			return (size_t)-1; /* a bare LF; or an empty first line */
		if (i >= 3 && b[i - 2] == '\n') {
			*scan = 0;
			return i + 1;
		}
	}
	*scan = n;
	return 0;
}

/* The text up to CRLF, which is skipped; false if there is none. */
static bool next_line(const char **b, size_t *n, struct h1_text *ret)
{
	const char *lf = memchr(*b, '\n', *n);
	size_t len;

	if (!lf || lf == *b || lf[-1] != '\r')
		return false;
	len = (size_t)(lf - *b) + 1;
	*ret = (struct h1_text){*b, len - 2};
	*b += len;
	*n -= len;
	return true;
}

/* Lines of fields up to the blank line, which must be the end. 0, 400 or 431. */
static int parse_fields(const char *b, size_t n, struct h1_head *h)
{
	struct h1_text line;

	while (next_line(&b, &n, &line)) {
		const char *colon;
		struct h1_field *f;

		if (line.n == 0)
			return n == 0 ? 0 : 400;
		if (h->fields_n == H1_FIELDS_MAX)
			return 431;
		/* A line that starts with a blank (obs-fold) has no token before its colon. */
		colon = memchr(line.p, ':', line.n);
		if (!colon || !h1_is_name(line.p, (size_t)(colon - line.p)))
			return 400;
		f = &h->fields[h->fields_n++];
		f->name = (struct h1_text){line.p, (size_t)(colon - line.p)};
		f->value = trim((struct h1_text){colon + 1, line.n - f->name.n - 1});
		if (!h1_is_value(f->value.p, f->value.n))
			return 400;
	}
	return 400;
}

static bool parse_length(struct h1_text t, uint64_t *ret)
{
	uint64_t v = 0;

	if (t.n == 0 || t.n > LENGTH_MAX)
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(t.p[i] - '0');
	}
	*ret = v;
	return true;
}

static bool is_host(struct h1_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (!h1_is_host_char(t.p[i]))
			return false;
	return true;
}

struct seen { /* of one head */
	unsigned hosts, lengths, codings, upgrades;
	bool is_close, is_keep_alive, is_upgrade, is_chunked;
	bool has_other_expectation;
};

/* What decides the framing and the connection. False: malformed. */
static bool look_at(struct h1_head *h, const struct h1_field *f, struct seen *s)
{
	switch (f->name.n) {
	case 4:
		if (!h1_is_nocase(f->name, "host"))
			break;
		s->hosts++;
		return is_host(f->value);
	case 6:
		if (!h1_is_nocase(f->name, "expect"))
			break;
		h->expects_continue = h1_is_nocase(f->value, "100-continue");
		s->has_other_expectation |= !h->expects_continue;
		break;
	case 7:
		if (h1_is_nocase(f->name, "upgrade"))
			s->upgrades++;
		break;
	case 10:
		if (!h1_is_nocase(f->name, "connection"))
			break;
		s->is_close |= h1_has_token(f->value, "close");
		s->is_keep_alive |= h1_has_token(f->value, "keep-alive");
		s->is_upgrade |= h1_has_token(f->value, "upgrade");
		break;
	case 14:
		if (!h1_is_nocase(f->name, "content-length"))
			break;
		return s->lengths++ == 0 && parse_length(f->value, &h->length);
	case 17:
		if (!h1_is_nocase(f->name, "transfer-encoding"))
			break;
		s->is_chunked = h1_is_nocase(f->value, "chunked");
		return s->codings++ == 0;
	default: break;
	}
	return true;
}

/* 0, 400 or 501. */
static int judge(struct h1_head *h, struct seen *s)
{
	for (size_t i = 0; i < h->fields_n; i++)
		if (!look_at(h, &h->fields[i], s))
			return 400;
	if (s->codings > 0 && (s->lengths > 0 || h->minor == 0))
		return 400;
	if (s->codings > 0 && !s->is_chunked)
		return 501;
	h->keep_alive = !s->is_close && (h->minor == 1 || s->is_keep_alive);
	h->wants_upgrade = s->is_upgrade && s->upgrades > 0 && h->minor == 1;
	if (s->codings > 0)
		h->framing = H1_CHUNKED;
	else if (s->lengths > 0)
		h->framing = H1_LENGTH;
	return 0;
}

/* "HTTP/1.0" or "HTTP/1.1". 0, 400 or 505. */
static int parse_version(struct h1_text t, int *ret_minor)
{
	if (t.n != 8 || memcmp(t.p, "HTTP/", 5) != 0 || t.p[6] != '.' || t.p[5] < '0' ||
		t.p[5] > '9' || t.p[7] < '0' || t.p[7] > '9')
		return 400;
	if (t.p[5] != '1' || t.p[7] > '1')
		return 505;
	*ret_minor = t.p[7] - '0';
	return 0;
}

static int parse_request_line(struct h1_text line, struct h1_head *h)
{
	const char *sp = memchr(line.p, ' ', line.n);
	size_t i;

	if (!sp)
		return 400;
	h->method = (struct h1_text){line.p, (size_t)(sp - line.p)};
	if (h->method.n > METHOD_MAX || !h1_is_name(h->method.p, h->method.n))
		return 400;
	line.n -= h->method.n + 1;
	line.p = sp + 1;
	for (i = 0; i < line.n && line.p[i] > 0x20 && line.p[i] < 0x7f; i++)
		;
	h->target = (struct h1_text){line.p, i};
	if (i == 0 || i >= line.n || line.p[i] != ' ')
		return 400;
	if (i > TARGET_MAX)
		return 414;
	return parse_version((struct h1_text){line.p + i + 1, line.n - i - 1}, &h->minor);
}

static void clear(struct h1_head *h)
{
	/* Not the table of fields: fields_n says how much of it is valid. */
	h->method = h->target = (struct h1_text){"", 0};
	h->status = h->minor = 0;
	h->fields_n = 0;
	h->framing = H1_NO_BODY;
	h->length = 0;
	h->keep_alive = h->expects_continue = h->wants_upgrade = false;
}

int h1_parse_request(const char *b, size_t n, struct h1_head *ret)
{
	struct seen seen = {0};
	struct h1_text line;
	int r;

	clear(ret);
	if (n > H1_HEAD_MAX)
		return 431;
	if (!next_line(&b, &n, &line))
		return 400;
	r = parse_request_line(line, ret);
	if (r == 0)
		r = parse_fields(b, n, ret);
	if (r == 0)
		r = judge(ret, &seen);
	if (r != 0)
		return r;
	if (seen.hosts > 1 || (seen.hosts == 0 && ret->minor == 1))
		return 400;
	if (seen.has_other_expectation)
		return 417;
	ret->expects_continue &= ret->minor == 1 && ret->framing != H1_NO_BODY;
	if (ret->framing == H1_LENGTH && ret->length == 0)
		ret->framing = H1_NO_BODY;
	return 0;
}

static bool parse_status_line(struct h1_text line, struct h1_head *h)
{
	if (line.n < 12 || parse_version((struct h1_text){line.p, 8}, &h->minor) != 0 ||
		line.p[8] != ' ')
		return false;
	for (size_t i = 9; i < 12; i++) {
		if (line.p[i] < '0' || line.p[i] > '9')
			return false;
		h->status = h->status * 10 + (line.p[i] - '0');
	}
	if (h->status < 100 || h->status > 599)
		return false;
	return line.n == 12 || (line.p[12] == ' ' && h1_is_value(line.p + 13, line.n - 13));
}

int h1_parse_response(const char *b, size_t n, struct h1_text method, struct h1_head *ret)
{
	struct seen seen = {0};
	struct h1_text line;

	clear(ret);
	if (n > H1_HEAD_MAX || !next_line(&b, &n, &line) || !parse_status_line(line, ret) ||
		parse_fields(b, n, ret) != 0 || judge(ret, &seen) != 0)
		return 502;
	ret->expects_continue = false;
	if (ret->status < 200 || ret->status == 204 || ret->status == 304 ||
		h1_is(method, "HEAD") || (h1_is(method, "CONNECT") && ret->status < 300) ||
		(ret->framing == H1_LENGTH && ret->length == 0)) {
		ret->framing = H1_NO_BODY;
	} else if (ret->framing == H1_NO_BODY) {
		ret->framing = H1_UNTIL_CLOSE;
		ret->keep_alive = false;
	}
	return 0;
}
