/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/remote/args.h"

#include "base/mem.h"
#include "cli/remote/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMON  5
#define ALL_MAX 32

struct parse {
	struct arg all[ALL_MAX];
	size_t n;
	struct args *ret;
};

static const struct arg *by_name(const struct parse *p, const char *word, size_t size)
{
	for (size_t i = 0; i < p->n; i++) {
		if (strlen(p->all[i].name) == size && strncmp(p->all[i].name, word, size) == 0)
			return &p->all[i];
	}
	return NULL;
}

static const struct arg *by_letter(const struct parse *p, char letter)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->all[i].letter == letter)
			return &p->all[i];
	}
	return NULL;
}

static int unknown(const struct parse *p, const char *verb, const char *word, struct err *err)
{
	const char *names[ALL_MAX];
	const char *near;
	char quoted[64];

	for (size_t i = 0; i < p->n; i++)
		names[i] = p->all[i].name + 2;
	near = text_closest(word + strspn(word, "-"), names, p->n);
	(void)text_quote(word, quoted, sizeof(quoted));
	if (near)
		return err_set(
			err, EINVAL, "unknown option '%s'; did you mean '--%s'?", quoted, near);
	return err_set(
		err, EINVAL, "unknown option '%s'; 'bawn %s --help' lists them", quoted, verb);
}

static int take(const struct arg *a, const char *value, struct err *err)
{
	if (a->kind == ARG_FLAG)
		*(bool *)a->to = true;
	else if (a->kind == ARG_TEXT)
		*(const char **)a->to = value;
	else
		return strv_add(a->to, value, err);
	return 0;
}

/* The option at argv[*at]; moves *at behind it and its value. */
static int read_one(
	struct parse *p, const char *verb, int argc, char **argv, int *at, struct err *err)
{
	const char *word = argv[*at];
	size_t size = strcspn(word, "=");
	bool is_long = word[1] == '-';
	const struct arg *a = is_long ? by_name(p, word, size) : by_letter(p, word[1]);
	const char *value = is_long && word[size] == '=' ? word + size + 1 : NULL;

	if (!a)
		return unknown(p, verb, word, err);
	(*at)++;
	if (!is_long && word[2] != '\0') {
		if (a->kind == ARG_FLAG)
			return err_set(err, EINVAL, "write the letters of '%s' one by one", word);
		value = word + 2;
	}
	if (a->kind == ARG_FLAG && value)
		return err_set(err, EINVAL, "%s takes no value", a->name);
	if (a->kind != ARG_FLAG && !value) {
		if (*at >= argc)
			return err_set(
				err, EINVAL, "%s needs a value: %s %s", a->name, a->name, a->value);
		value = argv[(*at)++];
	}
	return take(a, value, err);
}

static void print_help(const struct args_verb *v, const struct parse *p)
{
	(void)printf("usage: bawn %s %s\n\n%s\n", v->name, v->usage, v->about);
	for (size_t i = 0; i < p->n; i++) {
		const struct arg *a = &p->all[i];
		char letter[8] = "";
		AUTO_FREE char *left = NULL;

		if (a->letter)
			(void)snprintf(letter, sizeof(letter), "-%c, ", a->letter);
		left = text_format(
			"%s%s%s%s", letter, a->name, a->value ? " " : "", a->value ? a->value : "");
		(void)printf("  %-24s %s\n", left, a->help);
	}
}

static int check(const struct args_verb *v, const struct args *a, struct err *err)
{
	char quoted[64];

	if (a->rest_n < v->min)
		return err_set(err, EINVAL, "too few words; usage: bawn %s %s", v->name, v->usage);
	if (v->max >= 0 && a->rest_n > v->max)
		return err_set(err, EINVAL, "unexpected '%s'; usage: bawn %s %s",
			text_quote(a->rest[v->max], quoted, sizeof(quoted)), v->name, v->usage);
	return 0;
}

int args_parse(const struct args_verb *v, int argc, char **argv, struct args *ret, struct err *err)
{
	const struct arg common[COMMON] = {
		{"--server", 0, "URL",
			"http(s)://HOST:PORT or unix:PATH ($BAWN_SERVER, else this "
			"machine's)",
			ARG_TEXT, &ret->server},
		{"--key", 0, "KEY", "API key ($BAWN_API_KEY, $E2B_API_KEY)", ARG_TEXT, &ret->key},
		{"--state", 0, "DIR", "state directory of a server on this machine", ARG_TEXT,
			&ret->state},
		{"--json", 0, NULL, "print JSON", ARG_FLAG, &ret->want_json},
		{"--help", 'h', NULL, "this page", ARG_FLAG, &ret->want_help},
	};
	struct parse p = {.ret = ret};
	int at = 1, r = 0;

	*ret = (struct args){.rest = argv};
	for (size_t i = 0; i < v->table_n; i++)
		p.all[p.n++] = v->table[i];
	for (size_t i = 0; i < COMMON; i++)
		p.all[p.n++] = common[i];
	while (r >= 0 && at < argc) {
		if (strcmp(argv[at], "--") == 0 && !ret->has_dashes) {
			ret->has_dashes = true;
			at++;
			for (; at < argc; at++)
				ret->rest[ret->rest_n++] = argv[at];
		} else if (argv[at][0] == '-' && argv[at][1] != '\0' &&
			   !(v->stops_at_command && ret->rest_n > 1)) {
			r = read_one(&p, v->name, argc, argv, &at, err);
		} else {
			/* The words gather at the front of argv, where nothing is read again. */
			ret->rest[ret->rest_n++] = argv[at++];
		}
	}
	if (r >= 0 && ret->want_help) {
		print_help(v, &p);
		return 0;
	}
	return r < 0 ? r : check(v, ret, err);
}

int args_fail(const char *verb, const struct err *err)
{
	char safe[sizeof(err->msg)];

	(void)fflush(stdout);
	/* There may be names in it that a sandbox chose. */
	(void)fprintf(stderr, "bawn: %s: %s\n", verb, client_clean(err->msg, safe, sizeof(safe)));
	return EXIT_BAWN;
}
