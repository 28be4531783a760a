/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two texts, split at the first zero byte. The hunks, laid over the first text,
 * must give the second.
 */
#include "core/line_diff.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct check {
	const char *a, *b; /* what is left of each */
	size_t a_n, b_n;
};

/* Lines between hunks are equal in both; skip until the line given stands at the front. */
static void eat(const char **text, size_t *left, const char *bytes, size_t n)
{
	while (*text != bytes) {
		const char *eol = memchr(*text, '\n', *left);

		assert(eol);
		*left -= (size_t)(eol + 1 - *text);
		*text = eol + 1;
	}
	assert(*left >= n);
	*text += n;
	*left -= n;
	if (*left > 0) {
		assert(**text == '\n');
		(*text)++;
		(*left)--;
	}
}

static void put(char mark, const char *bytes, size_t n, void *arg)
{
	struct check *c = arg;

	if (mark == '-' || mark == ' ')
		eat(&c->a, &c->a_n, bytes, n);
	if (mark == '+')
		eat(&c->b, &c->b_n, bytes, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *s = malloc(size + 1);
	struct line_diff_count count = {0};
	struct line_diff_text from, to;
	struct err err = {0};
	struct check c;
	size_t at;

	assert(s);
	if (size > 0)
		memcpy(s, data, size);
	s[size] = '\0';
	at = strlen(s);
	from = (struct line_diff_text){.bytes = s, .n = at};
	to = (struct line_diff_text){.bytes = at < size ? s + at + 1 : s + size, .n = 0};
	to.n = (size_t)(s + size - to.bytes);
	c = (struct check){.a = from.bytes, .b = to.bytes, .a_n = from.n, .b_n = to.n};
	assert(line_diff(&from, &to, put, &c, &count, &err) == 0);
	if (count.added + count.deleted == 0)
		assert(from.n == to.n && memcmp(from.bytes, to.bytes, from.n) == 0);
	free(s);
	return 0;
}
