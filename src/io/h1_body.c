/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Chunked bodies, byte by byte except for the payload:
 *
 *   SIZE --;--> EXTENSION --CR--> SIZE_LF --size > 0--> DATA --> DATA_CR --> DATA_LF --> SIZE
 *     \-----------CR------------->   \------size 0---> LINE --CR--> LAST_LF --> done
 *                                                       | ^
 *                                      NAME --:--> VALUE --CR--> VALUE_LF
 *
 * Trailers are checked like fields, and dropped unless somebody wants them.
 */
#include "io/h1.h"
#include "io/h1_chars.h"

#define SIZE_DIGITS   15 /* hexadecimal: 60 bits */
#define EXTENSION_MAX 256
#define TRAILERS_MAX  4096

enum {
	SIZE,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	LINE,
	NAME,
	VALUE,
	VALUE_LF,
	LAST_LF,
};

void h1_body_init(struct h1_body *b, const struct h1_head *h)
{
	*b = (struct h1_body){.framing = h->framing};
	if (h->framing == H1_LENGTH)
		b->left = h->length;
	b->is_done = h->framing == H1_NO_BODY || (h->framing == H1_LENGTH && h->length == 0);
}

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

static bool size_step(struct h1_body *b, char c)
{
	int digit = hex(c);

	if (digit >= 0) {
		b->left = b->left << 4 | (uint64_t)digit;
		return ++b->digits <= SIZE_DIGITS;
	}
	b->line_n = 0;
	b->state = c == ';' ? EXTENSION : SIZE_LF;
	return b->digits > 0 && (c == ';' || c == '\r');
}

static bool size_lf_step(struct h1_body *b, char c)
{
	b->state = b->left > 0 ? DATA : LINE;
	b->digits = 0;
	b->line_n = 0;
	return c == '\n';
}

static bool is_last_line(const struct h1_body *b, char c)
{
	return b->state == LAST_LF || (b->state == LINE && c == '\r');
}

static bool trailer_step(struct h1_body *b, char c)
{
	if (++b->line_n > TRAILERS_MAX)
		return false;
	if (b->trailers && !is_last_line(b, c) && buf_add(b->trailers, &c, 1) < 0)
		return false;
	switch (b->state) {
	case LINE: b->state = c == '\r' ? LAST_LF : NAME; return c == '\r' || h1_is_token_char(c);
	case NAME:
		if (c == ':')
			b->state = VALUE;
		return c == ':' || h1_is_token_char(c);
	case VALUE:
		if (c == '\r')
			b->state = VALUE_LF;
		return c == '\r' || h1_is_value_char(c);
	case VALUE_LF: b->state = LINE; return c == '\n';
	default: /* LAST_LF */ b->is_done = true; return c == '\n';
	}
}

/* One byte of framing. False: malformed. */
static bool step(struct h1_body *b, char c)
{
	switch (b->state) {
	case SIZE: return size_step(b, c);
	case EXTENSION:
		if (c == '\r')
			b->state = SIZE_LF;
		return c == '\r' || (h1_is_value_char(c) && ++b->line_n <= EXTENSION_MAX);
	case SIZE_LF: return size_lf_step(b, c);
	case DATA_CR: b->state = DATA_LF; return c == '\r';
	case DATA_LF: b->state = SIZE; return c == '\n';
	default: return trailer_step(b, c);
	}
}

ssize_t h1_body_feed(struct h1_body *b, const char *in, size_t n, const char **out, size_t *out_n)
{
	size_t i = 0, take;

	*out = in;
	*out_n = 0;
	if (b->is_done)
		return 0;
	if (b->framing == H1_UNTIL_CLOSE) {
		*out_n = n;
		return (ssize_t)n;
	}
	if (b->framing == H1_CHUNKED) {
		for (; i < n && b->state != DATA && !b->is_done; i++)
			if (!step(b, in[i]))
				return -1;
		if (b->state != DATA)
			return (ssize_t)i;
	}
	take = n - i < b->left ? n - i : (size_t)b->left;
	*out = in + i;
	*out_n = take;
	b->left -= take;
	if (b->left == 0 && b->framing == H1_CHUNKED)
		b->state = DATA_CR;
	else if (b->left == 0)
		b->is_done = true;
	return (ssize_t)(i + take);
}
