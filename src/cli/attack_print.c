/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_print - lines for people, one JSON document for programs.
 *
 * Details hold text that came from inside a sandbox: only printable ASCII of it
 * reaches a terminal or a JSON string.
 */
#include "cli/attack_print.h"

#include "cli/verb.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DETAIL_SIZE 1024

/* Keeps what a terminal shows as it is; everything else becomes '?'. */
static const char *printable(const char *text, char *out, size_t out_size)
{
	size_t n = 0;

	for (; text[n] && n + 1 < out_size; n++)
		out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	out[n] = '\0';
	return out;
}

static const char *const titles[][2] = {{"fs", "File system"}, {"kernel", "Kernel surface"},
	{"neighbours", "Host and neighbours"}, {"network", "Network"}, {"resources", "Resources"},
	{"terminal", "Terminal"}};

static size_t group_length(const char *name)
{
	return strcspn(name, "/");
}

static bool is_in_group(const struct attack *a, const char *group)
{
	return group_length(a->name) == strlen(group) &&
	       strncmp(a->name, group, strlen(group)) == 0;
}

static bool want_colour(void)
{
	return isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
}

int attack_print_help(void)
{
	(void)printf("usage: bawn attack [options]\n\n"
		     "Attack a fresh sandbox from inside and tell which walls held.\n\n"
		     "  --list             show the attacks, run none\n"
		     "  --only GLOB        only attacks whose name matches; may be repeated\n"
		     "  --root base|host   what the sandboxes start from (default base)\n"
		     "  --wall NAME=LEVEL  required, preferred or off; may be repeated\n"
		     "  --json             one JSON document on standard output\n\n"
		     "Exit status: 0 all held, 1 not all held, 125 bawn itself failed.\n"
		     "Examples:\n"
		     "  bawn attack\n"
		     "  bawn attack --only 'fs/*'\n"
		     "  bawn attack --only 'kernel/*' --wall seccomp=off\n");
	return 0;
}

static json_t *entry_json(const struct attack *a)
{
	return json_pack("{s:s, s:s%, s:s}", "name", a->name, "group", a->name,
		group_length(a->name), "wall", wall_name(a->wall));
}

static int print_json(json_t *root)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	if (!text)
		return EXIT_BAWN;
	(void)printf("%s\n", text);
	free(text);
	return 0;
}

static void list_group(const struct attack_board *b, const char *group, const char *title)
{
	bool is_first = true;

	for (size_t i = 0; i < attack_count(); i++) {
		const struct attack *a = attack_at(i);

		if (!b->entry[i].is_chosen || !is_in_group(a, group))
			continue;
		if (is_first)
			(void)printf("%s\n", title);
		is_first = false;
		(void)printf("  %-50s %-9s %s\n", a->name, wall_name(a->wall), a->success);
	}
}

int attack_print_list(const struct attack_board *b, bool as_json)
{
	json_t *list;

	if (!as_json) {
		for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
			list_group(b, titles[i][0], titles[i][1]);
		return 0;
	}
	list = json_array();
	for (size_t i = 0; i < attack_count(); i++) {
		json_t *e;

		if (!b->entry[i].is_chosen)
			continue;
		e = entry_json(attack_at(i));
		(void)json_object_set_new(e, "success", json_string(attack_at(i)->success));
		(void)json_array_append_new(list, e);
	}
	return print_json(json_pack("{s:o}", "attacks", list));
}

void attack_print_progress(const struct attack_board *b, size_t index)
{
	size_t n = 0;

	if (!isatty(STDERR_FILENO))
		return;
	for (size_t i = 0; i < attack_count(); i++)
		n += b->entry[i].outcome.detail[0] != '\0';
	(void)fprintf(stderr, "\r\033[K%zu %s\r", n, attack_at(index)->name);
}

static void print_entry(const struct attack_entry *e, const struct attack *a, bool has_colour)
{
	const char *mark = e->why_not ? "-" : e->outcome.is_held ? "✓" : "✗";
	const char *on = !has_colour || e->why_not ? ""
			 : e->outcome.is_held      ? "\033[32m"
						   : "\033[31m";
	char detail[DETAIL_SIZE];

	(void)printable(e->why_not ? e->why_not : e->outcome.detail, detail, sizeof(detail));
	(void)printf("  %s%s%s %-50s %-9s %s%s\n", on, mark, *on ? "\033[0m" : "", a->name,
		wall_name(a->wall), e->why_not ? "not offered: " : "", detail);
}

static void print_group(const struct attack_board *b, const char *group, const char *title)
{
	bool is_first = true;

	for (size_t i = 0; i < attack_count(); i++) {
		if (!b->entry[i].is_chosen || !is_in_group(attack_at(i), group))
			continue;
		if (is_first)
			(void)printf("%s\n", title);
		is_first = false;
		print_entry(&b->entry[i], attack_at(i), want_colour());
	}
}

static int print_board_json(const struct attack_board *b, size_t held, size_t total)
{
	json_t *list = json_array(), *not_offered = json_array();

	for (size_t i = 0; i < attack_count(); i++) {
		const struct attack_entry *e = &b->entry[i];
		char detail[DETAIL_SIZE];
		json_t *o;

		if (!e->is_chosen)
			continue;
		o = entry_json(attack_at(i));
		if (e->why_not) {
			(void)json_object_set_new(o, "why", json_string(e->why_not));
			(void)json_array_append_new(not_offered, o);
			continue;
		}
		(void)printable(e->outcome.detail, detail, sizeof(detail));
		(void)json_object_set_new(o, "held", json_boolean(e->outcome.is_held));
		(void)json_object_set_new(o, "detail", json_string(detail));
		(void)json_array_append_new(list, o);
	}
	return print_json(json_pack("{s:o, s:o, s:I, s:I}", "attacks", list, "not_offered",
		not_offered, "held", (json_int_t)held, "total", (json_int_t)total));
}

int attack_print_board(const struct attack_board *b, bool as_json)
{
	size_t held = 0, total = 0, absent = 0;
	int r = 0;

	for (size_t i = 0; i < attack_count(); i++) {
		if (!b->entry[i].is_chosen)
			continue;
		absent += b->entry[i].why_not != NULL;
		total += b->entry[i].why_not == NULL;
		held += !b->entry[i].why_not && b->entry[i].outcome.is_held;
	}
	if (as_json) {
		r = print_board_json(b, held, total);
	} else {
		for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
			print_group(b, titles[i][0], titles[i][1]);
		(void)printf("%zu of %zu held", held, total);
		if (absent)
			(void)printf(", %zu not offered here", absent);
		(void)printf("\n");
	}
	if (r != 0)
		return r;
	return held == total ? 0 : 1;
}
