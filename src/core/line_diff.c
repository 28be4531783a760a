/* SPDX-License-Identifier: Apache-2.0 */

#include "core/line_diff.h"

#include "base/mem.h"
#include "base/own.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LINES_MAX 400000 /* of one text */
#define WORK_MAX  1000   /* differences Myers looks for; his memory is the square of it */
#define CONTEXT   3

struct line {
	const char *bytes;
	size_t n; /* with the newline, if it has one */
	uint64_t hash;
};

struct lines {
	struct line *v; /* owned */
	size_t n;
};

struct diff {
	struct lines a, b;
	bool *deleted; /* for each line of a */
	bool *added;   /* for each line of b */
};

static uint64_t hash(const char *s, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
	return h;
}

static int split(const struct line_diff_text *t, struct lines *ret, struct err *err)
{
	const char *p = t->bytes;
	const char *end = p + t->n;
	size_t n = 0;

	if (t->n > LINE_DIFF_MAX)
		return err_set(err, E2BIG, "text is larger than %u bytes", LINE_DIFF_MAX);
	for (size_t i = 0; i < t->n; i++)
		n += p[i] == '\n';
	if (n >= LINES_MAX)
		return err_set(err, E2BIG, "text has more than %d lines", LINES_MAX);
	ret->v = mem_must(calloc(n + 1, sizeof(*ret->v)));
	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((eol ? eol + 1 : end) - p);

		ret->v[ret->n++] = (struct line){.bytes = p, .n = len, .hash = hash(p, len)};
		p += len;
	}
	return 0;
}

static bool same(const struct line *x, const struct line *y)
{
	return x->hash == y->hash && x->n == y->n && memcmp(x->bytes, y->bytes, x->n) == 0;
}

/* Myers: is the furthest point on diagonal k, with d differences, reached by a line of b? */
static bool is_down(const long *row, long d, long k)
{
	bool has_left = k - 1 >= -(d - 1); /* diagonals of the row before */
	bool has_right = k + 1 <= d - 1;

	return !has_left || (has_right && row[k - 1] < row[k + 1]);
}

/* Furthest x on diagonal k with d differences, from the row before. */
static long step(const long *row, long d, long k)
{
	if (d == 0)
		return 0;
	return is_down(row, d, k) ? row[k + 1] : row[k - 1] + 1;
}

/* Walk the rows back from the end and mark what is not common. trace[d] holds 2d+1 points. */
static void mark_path(struct diff *df, size_t from, long k, long d, long *const *trace)
{
	for (; d > 0; d--) {
		const long *row = trace[d - 1] + (d - 1); /* row[k], k in -(d-1)..d-1 */

		if (is_down(row, d, k)) {
			k++;
			df->added[from + (size_t)(row[k] - k)] = true;
		} else {
			k--;
			df->deleted[from + (size_t)row[k]] = true;
		}
	}
}

/* Mark the differences of a[from..from+n) and b[from..from+m); false if there are too many. */
static bool myers(struct diff *df, size_t from, long n, long m)
{
	long *trace[WORK_MAX + 1];
	long d;
	bool is_found = false;

	for (d = 0; d <= WORK_MAX && !is_found; d++) {
		long *row;

		trace[d] = mem_must(calloc((size_t)(2 * d + 1), sizeof(*row)));
		row = trace[d] + d;
		for (long k = -d; k <= d && !is_found; k += 2) {
			long x = step(d ? trace[d - 1] + (d - 1) : NULL, d, k);
			long y = x - k;

			while (x < n && y >= 0 && y < m &&
				same(&df->a.v[from + (size_t)x], &df->b.v[from + (size_t)y])) {
				x++;
				y++;
			}
			row[k] = x;
			is_found = x >= n && y >= m;
		}
	}
	d--;
	if (is_found)
		mark_path(df, from, n - m, d, trace);
	for (; d >= 0; d--)
		free(trace[d]);
	return is_found;
}

static void compare(struct diff *df)
{
	size_t head = 0;
	size_t tail = 0;
	size_t least = df->a.n < df->b.n ? df->a.n : df->b.n;
	size_t n, m;

	while (head < least && same(&df->a.v[head], &df->b.v[head]))
		head++;
	while (tail < least - head &&
		same(&df->a.v[df->a.n - 1 - tail], &df->b.v[df->b.n - 1 - tail]))
		tail++;
	n = df->a.n - head - tail;
	m = df->b.n - head - tail;
	if (n == 0 || m == 0 || !myers(df, head, (long)n, (long)m)) {
		memset(df->deleted + head, 1, n * sizeof(bool));
		memset(df->added + head, 1, m * sizeof(bool));
	}
}

struct out {
	line_diff_fn fn;
	void *arg;
	struct line_diff_count count;
};

static void put_line(struct out *o, char mark, const struct line *l)
{
	bool has_newline = l->n > 0 && l->bytes[l->n - 1] == '\n';

	o->count.added += mark == '+';
	o->count.deleted += mark == '-';
	if (!o->fn)
		return;
	o->fn(mark, l->bytes, l->n - has_newline, o->arg);
	if (!has_newline)
		o->fn('\\', " No newline at end of file", 26, o->arg);
}

/* "start,count" as diff -u writes it: lines from 1, an empty range names the line before. */
static int put_range(char *out, size_t size, size_t start, size_t n)
{
	if (n == 1)
		return snprintf(out, size, "%zu", start + 1);
	return snprintf(out, size, "%zu,%zu", n ? start + 1 : start, n);
}

static void put_head(struct out *o, size_t a, size_t a_n, size_t b, size_t b_n)
{
	char from[48];
	char to[48];
	char head[112];
	int n;

	if (!o->fn)
		return;
	(void)put_range(from, sizeof(from), a, a_n);
	(void)put_range(to, sizeof(to), b, b_n);
	n = snprintf(head, sizeof(head), "@@ -%s +%s @@", from, to);
	o->fn('@', head, (size_t)n, o->arg);
}

static bool is_change(const struct diff *df, size_t i, size_t j)
{
	return (i < df->a.n && df->deleted[i]) || (j < df->b.n && df->added[j]);
}

/* From a change at (i, j): the hunk's end, past its last change, before the trailing context. */
static void find_end(const struct diff *df, size_t i, size_t j, size_t *ret_i, size_t *ret_j)
{
	size_t quiet = 0;

	while (i < df->a.n || j < df->b.n) {
		if (is_change(df, i, j)) {
			quiet = 0;
			if (i < df->a.n && df->deleted[i])
				i++;
			else
				j++;
			*ret_i = i;
			*ret_j = j;
			continue;
		}
		if (++quiet > 2 * CONTEXT)
			return;
		i++;
		j++;
	}
}

static void put_hunk(
	const struct diff *df, struct out *o, size_t i, size_t j, size_t end_i, size_t end_j)
{
	put_head(o, i, end_i - i, j, end_j - j);
	while (i < end_i || j < end_j) {
		if (i < end_i && df->deleted[i]) {
			put_line(o, '-', &df->a.v[i++]);
		} else if (j < end_j && df->added[j]) {
			put_line(o, '+', &df->b.v[j++]);
		} else {
			put_line(o, ' ', &df->a.v[i++]);
			j++;
		}
	}
}

static void put_all(const struct diff *df, struct out *o)
{
	size_t i = 0;
	size_t j = 0;

	while (i < df->a.n || j < df->b.n) {
		size_t lead = i < CONTEXT ? i : CONTEXT;
		size_t end_i = i;
		size_t end_j = j;
		size_t tail;

		if (!is_change(df, i, j)) {
			i++;
			j++;
			continue;
		}
		find_end(df, i, j, &end_i, &end_j);
		tail = df->a.n - end_i < CONTEXT ? df->a.n - end_i : CONTEXT;
		put_hunk(df, o, i - lead, j - lead, end_i + tail, end_j + tail);
		i = end_i + tail;
		j = end_j + tail;
	}
}

int line_diff(const struct line_diff_text *from, const struct line_diff_text *to, line_diff_fn fn,
	void *arg, struct line_diff_count *ret, struct err *err)
{
	struct diff df = {0};
	struct out o = {.fn = fn, .arg = arg};
	int r = split(from, &df.a, err);

	if (r == 0)
		r = split(to, &df.b, err);
	if (r == 0) {
		df.deleted = mem_must(calloc(df.a.n + 1, sizeof(bool)));
		df.added = mem_must(calloc(df.b.n + 1, sizeof(bool)));
		compare(&df);
		put_all(&df, &o);
		*ret = o.count;
	}
	free(df.a.v);
	free(df.b.v);
	free(df.deleted);
	free(df.added);
	return r;
}
