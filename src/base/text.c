/* SPDX-License-Identifier: Apache-2.0 */

#include "base/text.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES_MAX 4095 /* PATH_MAX without the NUL */
#define WORD_MAX       64   /* longest word text_closest() compares */
#define DISTANCE_MAX   3    /* edits; more is another word, not a slip */

int strv_add(struct strv *s, const char *text, struct err *err)
{
	char **v;

	if (s->n >= STRV_MAX)
		return err_set(err, E2BIG, "more than %d entries in a list", STRV_MAX);
	/* Grown when n is zero or a power of two: the capacity needs no field of its own. */
	if ((s->n & (s->n - 1)) == 0) {
		size_t room = s->n ? s->n * 2 : 1;

		v = reallocarray(s->v, room + 1, sizeof(*v));
		s->v = mem_must(v);
	}
	s->v[s->n++] = mem_strdup(text);
	s->v[s->n] = NULL;
	return 0;
}

bool strv_has(const struct strv *s, const char *text)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i], text) == 0)
			return true;
	return false;
}

void strv_done(struct strv *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	s->v = NULL;
	s->n = 0;
}

char *text_format(const char *fmt, ...)
{
	char *out = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&out, fmt, ap);
	va_end(ap);
	return mem_must(n < 0 ? NULL : out);
}

bool text_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool text_path_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1 && dir[0] == '/')
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Append the components of `path` to the normalised `out` of `n` bytes; returns the new length. */
static size_t walk(char *out, size_t n, const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len == 2 && path[0] == '.' && path[1] == '.') {
			while (n > 0 && out[--n] != '/')
				;
		} else if (len > 0 && !(len == 1 && path[0] == '.')) {
			out[n++] = '/';
			memcpy(out + n, path, len);
			n += len;
		}
		path += len;
		path += *path == '/';
	}
	return n;
}

int text_path_clean(const char *path, const char *cwd, char **ret, struct err *err)
{
	AUTO_FREE char *out = NULL;
	size_t path_len = strlen(path);
	size_t cwd_len = strlen(cwd);
	size_t n = 0;

	if (path_len == 0)
		return err_set(err, EINVAL, "a path is empty");
	if (path_len > PATH_BYTES_MAX || cwd_len > PATH_BYTES_MAX)
		return err_set(err, ENAMETOOLONG, "a path is longer than %d bytes", PATH_BYTES_MAX);
	out = mem_must(malloc(cwd_len + path_len + 3));
	if (path[0] != '/')
		n = walk(out, n, cwd);
	n = walk(out, n, path);
	if (n == 0)
		out[n++] = '/';
	if (n > PATH_BYTES_MAX)
		return err_set(err, ENAMETOOLONG, "a path is longer than %d bytes", PATH_BYTES_MAX);
	out[n] = '\0';
	*ret = TAKE_PTR(out);
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{"", 1},
	{"B", 1},
	{"K", 1ull << 10},
	{"KB", 1ull << 10},
	{"KiB", 1ull << 10},
	{"M", 1ull << 20},
	{"MB", 1ull << 20},
	{"MiB", 1ull << 20},
	{"G", 1ull << 30},
	{"GB", 1ull << 30},
	{"GiB", 1ull << 30},
	{"T", 1ull << 40},
	{"TB", 1ull << 40},
	{"TiB", 1ull << 40},
};

static const struct unit duration_units[] = {
	{"", 1000},
	{"ms", 1},
	{"s", 1000},
	{"m", 60 * 1000},
	{"min", 60 * 1000},
	{"h", 60 * 60 * 1000},
	{"d", 24 * 60 * 60 * 1000},
};

/* The digits at *s as a number; moves *s past them. No digit or too many: nothing is touched. */
static int digits(const char **s, uint64_t *ret)
{
	const char *p = *s;
	uint64_t n = 0;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(n, 10u, &n) ||
			__builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
			return -ERANGE;
	*s = p;
	*ret = n;
	return 0;
}

int text_scan_u64(const char **s, uint64_t *ret)
{
	const char *p = *s + strspn(*s, " \t\n");
	int r = digits(&p, ret);

	if (r == 0)
		*s = p;
	return r;
}

int text_scan_hex(const char **s, uint64_t *ret)
{
	static const char set[] = "0123456789abcdefABCDEF";
	const char *p = *s + strspn(*s, " \t\n");
	size_t len = strspn(p, set);
	uint64_t n = 0;

	if (len == 0)
		return -EINVAL;
	if (len > 16)
		return -ERANGE;
	for (size_t i = 0; i < len; i++) {
		size_t value = (size_t)(strchr(set, p[i]) - set);

		n = n << 4 | (value < 16 ? value : value - 6);
	}
	*s = p + len;
	*ret = n;
	return 0;
}

/*
 * "<digits>[.<digits>]<unit>" times the unit's factor, rounded down. No floating
 * point: "0.1G" is the same number on every machine, and the locale has no say.
 */
static int scaled(const char *s, const struct unit *units, size_t n_units, uint64_t *ret)
{
	uint64_t whole, part = 0, scale = 1, fraction;

	if (digits(&s, &whole) < 0)
		return -1;
	if (*s == '.') {
		s++;
		if (*s < '0' || *s > '9')
			return -1;
		for (; *s >= '0' && *s <= '9'; s++) {
			if (scale >= 1000000) /* finer than any unit here can show */
				continue;
			part = part * 10 + (uint64_t)(*s - '0');
			scale *= 10;
		}
	}
	for (size_t i = 0; i < n_units; i++) {
		if (strcasecmp(s, units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(whole, units[i].factor, &whole))
			return -1;
		fraction = part * units[i].factor / scale; /* < 10^6 * 2^40 < 2^60 */
		return __builtin_add_overflow(whole, fraction, ret) ? -1 : 0;
	}
	return -1;
}

#define N_UNITS(table) (sizeof(table) / sizeof((table)[0]))

int text_parse_size(const char *s, const char *what, uint64_t *ret, struct err *err)
{
	char shown[64];

	if (scaled(s, size_units, N_UNITS(size_units), ret) < 0)
		return err_set(err, EINVAL,
			"%s '%s' is not a size; write a number of bytes or 64K, 512M, 1.5G, 1T",
			what, text_quote(s, shown, sizeof(shown)));
	return 0;
}

int text_parse_duration(const char *s, const char *what, uint64_t *ret_ms, struct err *err)
{
	char shown[64];

	if (scaled(s, duration_units, N_UNITS(duration_units), ret_ms) < 0)
		return err_set(err, EINVAL,
			"%s '%s' is not a duration; write seconds or 300ms, 10s, 5m, 2h, 1d", what,
			text_quote(s, shown, sizeof(shown)));
	return 0;
}

int text_parse_u64(
	const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret, struct err *err)
{
	const char *p = s;
	char shown[64];
	uint64_t n;

	if (digits(&p, &n) < 0 || *p || n < min || n > max)
		return err_set(err, EINVAL, "%s '%s' is not a whole number from %llu to %llu", what,
			text_quote(s, shown, sizeof(shown)), (unsigned long long)min,
			(unsigned long long)max);
	*ret = n;
	return 0;
}

/* How many bytes at `s` are one printable UTF-8 sequence (shortest form, no C1, no surrogate). */
static size_t utf8_printable(const unsigned char *s)
{
	/* What reorders or hides part of what the reader sees (CVE-2021-42574). */
	static const struct {
		uint32_t first, last;
	} unseen[] = {
		{0xad, 0xad},       /* soft hyphen */
		{0x34f, 0x34f},     /* combining grapheme joiner */
		{0x61c, 0x61c},     /* Arabic letter mark: direction */
		{0x115f, 0x1160},   /* Hangul fillers */
		{0x17b4, 0x17b5},   /* Khmer vowels without a shape */
		{0x180b, 0x180f},   /* Mongolian selectors and separator */
		{0x200b, 0x200f},   /* zero width, direction marks */
		{0x2028, 0x202e},   /* line ends, direction */
		{0x2060, 0x206f},   /* joiners, isolates, format controls */
		{0x3164, 0x3164},   /* Hangul filler */
		{0xfe00, 0xfe0f},   /* variation selectors */
		{0xfeff, 0xfeff},   /* zero width no-break space */
		{0xffa0, 0xffa0},   /* Hangul filler */
		{0xfff0, 0xfffb},   /* interlinear annotation */
		{0xe0000, 0xe0fff}, /* tags, more selectors */
	};
	uint32_t c = s[0];
	size_t n;

	if (c < 0x80)
		return c >= 0x20 && c != 0x7f;
	if (c >= 0xc2 && c < 0xe0)
		n = 2;
	else if (c >= 0xe0 && c < 0xf0)
		n = 3;
	else if (c >= 0xf0 && c < 0xf5)
		n = 4;
	else
		return 0;
	c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) /* stops at the NUL too */
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	if (c < 0xa0 || (c >= 0xd800 && c < 0xe000))
		return 0;
	for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++) {
		if (c >= unseen[i].first && c <= unseen[i].last)
			return 0;
	}
	return n;
}

const char *text_quote(const char *s, char *out, size_t out_size)
{
	const unsigned char *p = (const unsigned char *)s;
	static const char hex[] = "0123456789abcdef";
	size_t n = 0, safe = 0; /* safe: where "..." would still fit */

	if (out_size < 4) {
		if (out_size > 0)
			out[0] = '\0';
		return out;
	}
	while (*p) {
		size_t len = utf8_printable(p);
		bool plain = len > 0 && *p != '\'' && *p != '"' && *p != '\\';
		size_t need = plain ? len : 4;

		if (n + need >= out_size) {
			memcpy(out + safe, "...", 4);
			return out;
		}
		if (plain) {
			memcpy(out + n, p, len);
			p += len;
		} else {
			out[n] = '\\';
			out[n + 1] = 'x';
			out[n + 2] = hex[*p >> 4];
			out[n + 3] = hex[*p & 15];
			p++;
		}
		n += need;
		if (n + 4 <= out_size)
			safe = n;
	}
	out[n] = '\0';
	return out;
}

/* Edit distance with swaps of neighbours, the commonest slip; both at most WORD_MAX long. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2], *spare;

	for (size_t j = 0; j <= b_len; j++)
		last[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		now[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		spare = before;
		before = last;
		last = now;
		now = spare;
	}
	return last[b_len];
}

const char *text_closest(const char *word, const char *const *names, size_t n)
{
	size_t word_len = strlen(word), best = DISTANCE_MAX + 1;
	const char *found = NULL;

	if (word_len == 0 || word_len > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t len = names[i] ? strlen(names[i]) : 0;
		size_t d;

		if (len == 0 || len > WORD_MAX)
			continue;
		d = distance(word, word_len, names[i], len);
		/* As many edits as letters turn any word into any other: no likeness at all. */
		if (d < best && d < word_len && d < len) {
			best = d;
			found = names[i];
		}
	}
	return found;
}

bool text_is_line(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	while (*p) {
		size_t n = utf8_printable(p);

		if (n == 0)
			return false;
		p += n;
	}
	return true;
}
