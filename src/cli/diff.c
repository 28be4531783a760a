/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/diff - `bawn diff`: which runs are kept, and what one of them changed.
 *
 * What it prints was written in a box: to a terminal, control bytes are shown, not sent.
 */
#include "base/mem.h"
#include "cli/cow_args.h"
#include "cli/diff_print.h"
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char help[] =
	"usage: bawn diff [--json] [RUN [--stat] [PATH...]]\n"
	"\n"
	"Show what a run with 'bawn run --cow' changed, as a patch. Without RUN, list the kept\n"
	"runs. RUN may be cut to any part of its beginning that no other run shares.\n"
	"\n"
	"  --stat   one line for each change instead of the patch\n"
	"  --json   for programs\n";

static void set(json_t *o, const char *key, json_t *value)
{
	if (json_object_set_new(o, key, value) < 0)
		abort();
}

static int list_json(const struct strv *runs)
{
	json_t *o = mem_must(json_object());
	json_t *list = mem_must(json_array());

	set(o, "runs", list);
	for (size_t i = 0; i < runs->n; i++) {
		AUTO(cow_free) struct cow_run *run = NULL;
		json_t *item = mem_must(json_object());
		struct err err = {0};

		set(item, "run", json_string(runs->v[i]));
		if (cow_load(runs->v[i], &run, &err) == 0) {
			set(item, "target", cow_args_name(run->target));
			set(item, "created", json_integer(run->created));
			set(item, "changes", json_integer((json_int_t)run->n));
		} else {
			set(item, "error", cow_args_name(err.msg));
		}
		(void)json_array_append_new(list, item);
	}
	return cow_args_print_json("diff", o);
}

static void list_one(const char *id)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	struct err err = {0};
	struct tm tm;
	char when[32] = "?";
	time_t created;

	if (cow_load(id, &run, &err) < 0) {
		(void)printf("%s  %s\n", id, err.msg);
		return;
	}
	created = (time_t)run->created;
	if (localtime_r(&created, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
	(void)printf("%s  %s  %6zu change%s  ", id, when, run->n, run->n == 1 ? " " : "s");
	cow_args_put(stdout, isatty(STDOUT_FILENO), run->target, strlen(run->target));
	(void)putchar('\n');
}

static int list(const struct cow_args *a)
{
	struct strv runs = {0};
	struct err err = {0};
	int status = 0;

	if (cow_list(&runs, &err) < 0) {
		strv_done(&runs);
		return verb_fail("diff", &err);
	}
	if (a->options & COW_OPT_JSON)
		status = list_json(&runs);
	else if (runs.n == 0)
		(void)puts("no runs are kept; 'bawn run --cow -- CMD' makes one");
	for (size_t i = 0; !(a->options & COW_OPT_JSON) && i < runs.n; i++)
		list_one(runs.v[i]);
	strv_done(&runs);
	return status;
}

static json_t *entry_json(const struct cow_entry *e, const struct diff_stat *st)
{
	json_t *o = mem_must(json_object());

	set(o, "kind", json_string(cow_kind_name(e->kind)));
	set(o, "path", cow_args_name(e->path));
	set(o, "type", json_string(cow_type_name(e->mode ? e->mode : e->base_mode)));
	if (e->mode) {
		char mode[8];

		(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)(e->mode & 07777));
		set(o, "mode", json_string(mode));
	}
	if (S_ISREG(e->mode))
		set(o, "size", json_integer((json_int_t)e->size));
	if (e->link)
		set(o, "link", cow_args_name(e->link));
	if (e->is_stripped)
		set(o, "setid_dropped", json_true());
	if (st->is_binary) {
		set(o, "binary", json_true());
	} else {
		set(o, "lines_added", json_integer((json_int_t)st->added));
		set(o, "lines_deleted", json_integer((json_int_t)st->deleted));
	}
	return o;
}

static int show_json(const struct diff_print *p, const struct strv *only, struct err *err)
{
	json_t *o = mem_must(json_object());
	json_t *changes = mem_must(json_array());
	json_t *skipped = mem_must(json_array());

	set(o, "run", json_string(p->run->id));
	set(o, "target", cow_args_name(p->run->target));
	set(o, "created", json_integer(p->run->created));
	set(o, "changes", changes);
	set(o, "not_kept", skipped);
	for (size_t i = 0; i < p->run->n; i++) {
		const struct cow_entry *e = &p->run->entries[i];
		struct diff_stat st;
		int r;

		if (!cow_args_selects(only, e->path))
			continue;
		r = diff_print_entry(p, e, &st, err);
		if (r < 0) {
			json_decref(o);
			return r;
		}
		(void)json_array_append_new(changes, entry_json(e, &st));
	}
	for (size_t i = 0; i < p->run->skipped_n; i++) {
		json_t *item = mem_must(json_object());

		set(item, "path", cow_args_name(p->run->skipped[i].path));
		set(item, "why", json_string(p->run->skipped[i].why));
		(void)json_array_append_new(skipped, item);
	}
	return cow_args_print_json("diff", o);
}

static void show_stat_line(const struct cow_entry *e, const struct diff_stat *st, bool is_terminal)
{
	(void)printf("%c  ", cow_kind_letter(e->kind));
	cow_args_put(stdout, is_terminal, e->path, strlen(e->path));
	if (S_ISDIR(e->mode ? e->mode : e->base_mode))
		(void)fputs("/", stdout);
	else if (st->is_binary)
		(void)fputs(" | binary", stdout);
	else
		(void)printf(" | +%zu -%zu", st->added, st->deleted);
	if (e->is_stripped)
		(void)fputs(" (set-id bits dropped)", stdout);
	(void)putchar('\n');
}

static void show_skipped(const struct cow_run *run)
{
	for (size_t i = 0; i < run->skipped_n; i++) {
		(void)fputs("bawn: diff: not kept: ", stderr);
		cow_args_put(stderr, true, run->skipped[i].path, strlen(run->skipped[i].path));
		(void)fprintf(stderr, ": %s\n", run->skipped[i].why);
	}
}

static int show_text(struct diff_print *p, const struct strv *only, bool want_stat, struct err *err)
{
	struct diff_stat all = {0};
	size_t n = 0;

	if (!want_stat)
		p->out = stdout;
	for (size_t i = 0; i < p->run->n; i++) {
		const struct cow_entry *e = &p->run->entries[i];
		struct diff_stat st;
		int r;

		if (!cow_args_selects(only, e->path))
			continue;
		r = diff_print_entry(p, e, &st, err);
		if (r < 0)
			return r;
		if (want_stat)
			show_stat_line(e, &st, p->is_terminal);
		all.added += st.added;
		all.deleted += st.deleted;
		n++;
	}
	if (want_stat)
		(void)printf("%zu change%s, %zu line%s added, %zu deleted\n", n, n == 1 ? "" : "s",
			all.added, all.added == 1 ? "" : "s", all.deleted);
	show_skipped(p->run);
	if (fflush(stdout) != 0)
		return err_sys(err, "write to stdout");
	return 0;
}

static int show(const struct cow_args *a, struct err *err)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	AUTO_FD int target = -EBADF;
	struct strv only = {0};
	struct diff_print p = {.is_terminal = isatty(STDOUT_FILENO)};
	int r = cow_load(a->run, &run, err);

	if (r < 0)
		return r;
	target = open(run->target, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (target < 0)
		return err_sys(err, "open '%s'", run->target);
	p.run = run;
	p.target_fd = target;
	p.want_colour = p.is_terminal && !getenv("NO_COLOR");
	r = cow_args_paths(a, run, &only, err);
	if (r == 0)
		r = a->options & COW_OPT_JSON
			    ? show_json(&p, &only, err)
			    : show_text(&p, &only, a->options & COW_OPT_STAT, err);
	strv_done(&only);
	return r;
}

int verb_diff(int argc, char **argv)
{
	struct cow_args a = {0};
	struct err err = {0};
	int status = 0;

	if (cow_args_parse(argc, argv, COW_OPT_JSON | COW_OPT_STAT, &a, &err) < 0)
		status = verb_fail("diff", &err);
	else if (a.options & COW_OPT_HELP)
		(void)fputs(help, stdout);
	else if (!a.run)
		status = list(&a);
	else
		status = show(&a, &err);
	if (status < 0)
		status = verb_fail("diff", &err);
	cow_args_done(&a);
	return status;
}
