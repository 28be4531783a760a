/* SPDX-License-Identifier: Apache-2.0 */

#include "core/policy_path.h"

#include "core/policy.h"
#include "core/policy_build.h"

#include <stdint.h>
#include <string.h>

#define WORDS        ((POLICY_GLOB_MAX + 64) / 64)
#define DECODE_TURNS 3 /* a server behind a proxy behind a cache may each decode once */

/* The places in a glob that the text so far may have reached. */
struct places {
	uint64_t w[WORDS];
};

static void reach(struct places *s, const char *glob, size_t i)
{
	s->w[i / 64] |= UINT64_C(1) << (i % 64);
	/* Stars may stand for nothing. */
	while (glob[i] == '*') {
		i++;
		s->w[i / 64] |= UINT64_C(1) << (i % 64);
	}
}

/* One byte further from place i. */
static void step(struct places *to, const char *glob, size_t i, char c)
{
	if (glob[i] == '*') {
		bool is_wide = glob[i + 1] == '*' || (i > 0 && glob[i - 1] == '*');

		if (is_wide || c != '/')
			reach(to, glob, i);
		return;
	}
	if (glob[i] == c || (glob[i] == '?' && c != '/'))
		reach(to, glob, i + 1);
}

bool policy_path_matches(const char *glob, const char *path)
{
	size_t n = strlen(glob), same = strcspn(glob, "*?");
	struct places now = {0};

	if (n > POLICY_GLOB_MAX || strncmp(glob, path, same) != 0)
		return false;
	if (strcmp(glob + same, "**") == 0)
		return true;
	reach(&now, glob, same);
	for (const char *p = path + same; *p; p++) {
		struct places next = {0};
		bool is_alive = false;

		for (size_t w = same / 64; w <= n / 64; w++) {
			for (uint64_t left = now.w[w]; left; left &= left - 1) {
				size_t i = w * 64 + (size_t)__builtin_ctzll(left);

				if (i < n)
					step(&next, glob, i, *p);
			}
		}
		for (size_t w = same / 64; w <= n / 64; w++)
			is_alive |= next.w[w] != 0;
		if (!is_alive)
			return false;
		now = next;
	}
	return now.w[n / 64] >> (n % 64) & 1;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_unreserved(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

enum decode { DECODE_SAFE /* what RFC 3986 says never differs */, DECODE_ALL };

/* False: a broken escape, a NUL, or it does not fit. Escapes that stay are upper case. */
static bool decode(const char *in, enum decode how, char out[POLICY_PATH_MAX + 1])
{
	size_t n = 0;

	for (; *in; in++) {
		int high, low, c;

		if (n + 3 > POLICY_PATH_MAX)
			return false;
		if (*in != '%') {
			out[n++] = *in;
			continue;
		}
		high = hex(in[1]);
		low = high < 0 ? -1 : hex(in[2]);
		if (low < 0)
			return false;
		c = high * 16 + low;
		if (c == 0)
			return false;
		if (how == DECODE_ALL || is_unreserved(c)) {
			out[n++] = (char)c;
		} else {
			out[n++] = '%';
			out[n++] = "0123456789ABCDEF"[high];
			out[n++] = "0123456789ABCDEF"[low];
		}
		in += 2;
	}
	out[n] = '\0';
	return true;
}

/* "." and "..", also with parameters behind them; backslashes, which some take for slashes. */
static bool has_dots(const char *s)
{
	while (*s) {
		size_t n = strcspn(s, "/"), word = strcspn(s, "/;");

		if ((word == 1 && s[0] == '.') || (word == 2 && s[0] == '.' && s[1] == '.'))
			return true;
		s += n;
		s += *s == '/';
	}
	return false;
}

/* 0xc0 and 0xc1 begin no UTF-8; lax decoders read a "." or "/" there. */
static bool has_odd_bytes(const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == 0x7f || c == '\\' || c == 0xc0 || c == 0xc1)
			return true;
	}
	return false;
}

bool policy_path_is_clear(const char *path)
{
	char turns[2][POLICY_PATH_MAX + 1] = {{0}};
	const char *now = path;

	if (strcmp(path, "*") == 0) /* OPTIONS * */
		return true;
	if (path[0] != '/')
		return false;
	for (int turn = 0; turn <= DECODE_TURNS; turn++) {
		char *next = turns[turn % 2];

		if (has_dots(now) || has_odd_bytes(now))
			return false;
		/* What is no escape the second time was a '%' of its own. */
		if (!decode(now, DECODE_ALL, next))
			return turn > 0;
		if (strcmp(now, next) == 0)
			return true;
		now = next;
	}
	return false;
}

static void merge_slashes(const char *in, char out[POLICY_PATH_MAX + 1])
{
	size_t n = 0;

	for (; *in; in++) {
		if (*in != '/' || n == 0 || out[n - 1] != '/')
			out[n++] = *in;
	}
	out[n] = '\0';
}

static void cut_parameters(char *s)
{
	char *to = s;

	while (*s) {
		if (*s == ';')
			s += strcspn(s, "/");
		else
			*to++ = *s++;
	}
	*to = '\0';
}

static bool any_fits(const struct strv *globs, const char *path)
{
	for (size_t i = 0; i < globs->n; i++) {
		if (policy_path_matches(globs->v[i], path))
			return true;
	}
	return false;
}

bool policy_paths_surely(const struct strv *globs, const char *path)
{
	char plain[POLICY_PATH_MAX + 1], merged[POLICY_PATH_MAX + 1];

	if (!policy_path_is_clear(path) || !decode(path, DECODE_SAFE, plain))
		return false;
	merge_slashes(plain, merged);
	return any_fits(globs, plain) && any_fits(globs, merged);
}

bool policy_paths_perhaps(const struct strv *globs, const char *path)
{
	char plain[POLICY_PATH_MAX + 1], merged[POLICY_PATH_MAX + 1], glob[POLICY_PATH_MAX + 1];

	if (!policy_path_is_clear(path) || !decode(path, DECODE_SAFE, plain))
		return true;
	merge_slashes(plain, merged);
	if (any_fits(globs, plain) || any_fits(globs, merged))
		return true;
	if (!decode(path, DECODE_ALL, plain))
		return true;
	merge_slashes(plain, merged);
	cut_parameters(merged);
	for (size_t i = 0; i < globs->n; i++) {
		if (decode(globs->v[i], DECODE_ALL, glob) && policy_path_matches(glob, merged))
			return true;
	}
	return false;
}
