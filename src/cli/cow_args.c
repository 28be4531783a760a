/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/cow_args.h"

#include "base/mem.h"
#include "cli/verb.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static const char *const option_names[] = {
	"--json",
	"--stat",
	"--dry-run",
	"--force",
	"--allow-protected",
	"--skip-protected",
	"--all",
	"--help",
};
#define OPTIONS (sizeof(option_names) / sizeof(option_names[0]))

static int unknown_option(const char *word, unsigned allowed, struct err *err)
{
	const char *names[OPTIONS];
	const char *near;
	char quoted[64];
	char list[160] = "";
	size_t n = 0;
	size_t used = 0;

	for (size_t i = 0; i < OPTIONS; i++) {
		if (!(allowed & (1u << i)))
			continue;
		used += (size_t)snprintf(
			list + used, sizeof(list) - used, "%s%s", n ? ", " : "", option_names[i]);
		names[n++] = option_names[i];
	}
	near = text_closest(word, names, n);
	(void)err_set(err, EINVAL, "unknown option '%s'; accepted: %s",
		text_quote(word, quoted, sizeof(quoted)), list);
	return near ? err_hint(err, "did you mean '%s'?", near) : -EINVAL;
}

int cow_args_parse(int argc, char **argv, unsigned allowed, struct cow_args *ret, struct err *err)
{
	bool is_plain = false; /* after "--" */

	allowed |= COW_OPT_HELP;
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		size_t k = 0;
		int r = 0;

		if (!is_plain && strcmp(word, "--") == 0) {
			is_plain = true;
			continue;
		}
		if (is_plain || word[0] != '-' || word[1] == '\0') {
			if (!ret->run)
				ret->run = word;
			else
				r = strv_add(&ret->paths, word, err);
			if (r < 0)
				return r;
			continue;
		}
		if (strcmp(word, "-h") == 0)
			word = "--help";
		while (k < OPTIONS && strcmp(word, option_names[k]) != 0)
			k++;
		if (k == OPTIONS || !(allowed & (1u << k)))
			return unknown_option(word, allowed, err);
		ret->options |= 1u << k;
	}
	return 0;
}

void cow_args_done(struct cow_args *a)
{
	strv_done(&a->paths);
}

int cow_args_paths(
	const struct cow_args *a, const struct cow_run *run, struct strv *ret, struct err *err)
{
	AUTO_FREE char *cwd = realpath(".", NULL);
	/* As with git: below the directory in question a path is relative to where one stands. */
	const char *from = cwd && text_path_below(cwd, run->target) ? cwd : run->target;

	for (size_t i = 0; i < a->paths.n; i++) {
		AUTO_FREE char *whole = NULL;
		char quoted[128];
		int r = text_path_clean(a->paths.v[i], from, &whole, err);

		if (r < 0)
			return r;
		if (!text_path_below(whole, run->target))
			return err_set(err, EINVAL,
				"'%s' is not below '%s', which run '%s' changed",
				text_quote(a->paths.v[i], quoted, sizeof(quoted)), run->target,
				run->id);
		if (strcmp(whole, run->target) == 0) {
			strv_done(ret);
			return 0;
		}
		r = strv_add(ret, whole + strlen(run->target) + (run->target[1] != '\0'), err);
		if (r < 0)
			return r;
	}
	return 0;
}

bool cow_args_selects(const struct strv *only, const char *path)
{
	for (size_t i = 0; i < only->n; i++) {
		if (text_path_below(path, only->v[i]))
			return true;
	}
	return only->n == 0;
}

json_t *cow_args_name(const char *path)
{
	AUTO_FREE char *quoted = NULL;
	json_t *j = json_string(path);

	if (j)
		return j;
	quoted = mem_must(malloc((size_t)4 * PATH_MAX + 1));
	return mem_must(json_string(text_quote(path, quoted, (size_t)4 * PATH_MAX + 1)));
}

int cow_args_print_json(const char *verb, json_t *take_o)
{
	struct err err = {0};
	int r = json_dumpf(take_o, stdout, JSON_COMPACT);

	json_decref(take_o);
	if (r == 0 && fputc('\n', stdout) != EOF && fflush(stdout) == 0)
		return 0;
	(void)err_sys(&err, "write to stdout");
	return verb_fail(verb, &err);
}

/* Length of a UTF-8 sequence that is safe to show, or 0. */
static size_t plain_utf8(const unsigned char *s, size_t n)
{
	size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;

	if (s[0] < 0xc2 || s[0] > 0xf4 || n < len)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	/* U+0080..9F are controls again; U+202A..E and U+2066..9 make code read backwards. */
	if (s[0] == 0xc2 && s[1] < 0xa0)
		return 0;
	if (s[0] == 0xe2 && ((s[1] == 0x80 && s[2] >= 0xaa && s[2] <= 0xae) ||
				    (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9)))
		return 0;
	return len;
}

void cow_args_put(FILE *out, bool is_terminal, const char *bytes, size_t n)
{
	const unsigned char *s = (const unsigned char *)bytes;

	if (!is_terminal) {
		(void)fwrite(bytes, 1, n, out);
		return;
	}
	for (size_t i = 0; i < n;) {
		size_t len = s[i] == '\t' || (s[i] >= 0x20 && s[i] < 0x7f) ? 1
			     : s[i] >= 0x80 ? plain_utf8(s + i, n - i)
					    : 0;

		if (len)
			(void)fwrite(s + i, 1, len, out);
		else
			(void)fprintf(out, "\\x%02x", s[i]);
		i += len ? len : 1;
	}
}
