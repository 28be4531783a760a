/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/apply - `bawn apply`: make the changes of a copy-on-write run for real.
 */
#include "base/mem.h"
#include "cli/cow_args.h"
#include "cli/verb.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define EXIT_REFUSED 1 /* conflicts or protected names: nothing was changed */

static const char help[] =
	"usage: bawn apply [options] RUN [PATH...]\n"
	"\n"
	"Make the changes of RUN in the directory it was run in, all or those below PATH. If\n"
	"somebody else has changed one of the files since, nothing is done and they are listed\n"
	"(exit status 1). Once everything is applied the run is forgotten.\n"
	"\n"
	"  --dry-run          say what would be done\n"
	"  --force            overwrite files that were changed since\n"
	"  --allow-protected  also change names the host runs or obeys (.git/hooks, rc files, "
	"...)\n"
	"  --skip-protected   apply the rest and leave those out\n"
	"  --json             for programs\n";

struct report {
	bool want_text;
	bool is_dry;
	json_t *changes, *conflicts, *refused; /* NULL without --json */
};

static void note_json(json_t *list, const struct cow_entry *e, const char *why)
{
	json_t *o = mem_must(json_object());

	(void)json_object_set_new(o, "kind", json_string(cow_kind_name(e->kind)));
	(void)json_object_set_new(o, "path", cow_args_name(e->path));
	if (why)
		(void)json_object_set_new(o, "why", json_string(why));
	(void)json_array_append_new(list, o);
}

static void put_text(FILE *out, const char *word, const struct cow_entry *e, const char *why)
{
	(void)fprintf(out, "%s%c  ", word, cow_kind_letter(e->kind));
	cow_args_put(out, true, e->path, strlen(e->path));
	(void)fprintf(out, "%s%s\n", why ? ": " : "", why ? why : "");
}

static void judged(const struct cow_entry *e, enum cow_verdict v, const char *why, void *arg)
{
	const struct report *rep = arg;

	if (v == COW_READY) {
		if (rep->changes)
			note_json(rep->changes, e, NULL);
		else if (rep->is_dry)
			put_text(stdout, "", e, NULL);
	} else if (v == COW_CONFLICT) {
		if (rep->conflicts)
			note_json(rep->conflicts, e, why);
		else
			put_text(stderr, "conflict  ", e, why);
	} else if (v == COW_PROTECTED) {
		if (rep->refused)
			note_json(rep->refused, e, why);
		else
			put_text(stderr, "protected ", e, why);
	}
}

static void hint(const struct cow_apply *a, struct err *err)
{
	if (a->conflicts)
		(void)err_hint(err, "look at 'bawn diff', then use --force to overwrite");
	else
		(void)err_hint(err, "use --skip-protected to apply the rest, or --allow-protected "
				    "once you have read them");
}

static int report_json(const struct cow_run *run, const struct cow_apply *a, struct report *rep,
	bool is_forgotten, int status)
{
	json_t *o = mem_must(json_object());
	int r;

	(void)json_object_set_new(o, "run", json_string(run->id));
	(void)json_object_set_new(o, "target", cow_args_name(run->target));
	(void)json_object_set_new(o, "dry_run", json_boolean(rep->is_dry));
	(void)json_object_set_new(o, "applied", json_integer((json_int_t)a->applied));
	(void)json_object_set_new(o, "already", json_integer((json_int_t)a->done));
	(void)json_object_set_new(o, "forgotten", json_boolean(is_forgotten));
	(void)json_object_set_new(o, "changes", rep->changes);
	(void)json_object_set_new(o, "conflicts", rep->conflicts);
	(void)json_object_set_new(o, "protected", rep->refused);
	r = cow_args_print_json("apply", o);
	return r ? r : status;
}

static void report_text(
	const struct cow_run *run, const struct cow_apply *a, bool is_forgotten, bool is_dry)
{
	if (is_dry)
		return;
	(void)printf("applied %zu change%s to ", a->applied, a->applied == 1 ? "" : "s");
	cow_args_put(stdout, isatty(STDOUT_FILENO), run->target, strlen(run->target));
	if (a->done)
		(void)printf(" (%zu already there)", a->done);
	(void)printf("%s\n", is_forgotten ? "" : "; the run is kept for the rest");
}

static int apply(const struct cow_args *args, const struct cow_run *run, struct err *err)
{
	struct report rep = {.is_dry = args->options & COW_OPT_DRY_RUN};
	AUTO_FREE char *home = getenv("HOME") ? realpath(getenv("HOME"), NULL) : NULL;
	struct strv only = {0};
	struct cow_apply a = {.only = &only, .home = home, .judged = judged, .arg = &rep};
	bool want_json = args->options & COW_OPT_JSON;
	bool is_all = false;
	int status = 0;
	int r = cow_args_paths(args, run, &only, err);

	a.flags = (args->options & COW_OPT_FORCE ? COW_FORCE : 0u) |
		  (args->options & COW_OPT_ALLOW_PROTECTED ? COW_ALLOW_PROTECTED : 0u) |
		  (args->options & COW_OPT_SKIP_PROTECTED ? COW_SKIP_PROTECTED : 0u) |
		  (rep.is_dry ? COW_DRY_RUN : 0u);
	if (want_json) {
		rep.changes = mem_must(json_array());
		rep.conflicts = mem_must(json_array());
		rep.refused = mem_must(json_array());
	}
	if (r == 0)
		r = cow_apply(run, &a, &is_all, err);
	if (r == 0 && is_all)
		r = cow_discard(run, err);
	if (r == -EEXIST || r == -EPERM) {
		status = a.conflicts || a.refused ? EXIT_REFUSED : EXIT_BAWN;
		if (status == EXIT_REFUSED)
			hint(&a, err);
		(void)verb_fail("apply", err);
	} else if (r < 0) {
		status = verb_fail("apply", err);
	}
	if (want_json)
		status = report_json(run, &a, &rep, r == 0 && is_all, status);
	else if (r == 0)
		report_text(run, &a, is_all, rep.is_dry);
	strv_done(&only);
	return status;
}

int verb_apply(int argc, char **argv)
{
	unsigned allowed = COW_OPT_JSON | COW_OPT_DRY_RUN | COW_OPT_FORCE |
			   COW_OPT_ALLOW_PROTECTED | COW_OPT_SKIP_PROTECTED;
	AUTO(cow_free) struct cow_run *run = NULL;
	struct cow_args a = {0};
	struct err err = {0};
	int status = 0;
	int r = cow_args_parse(argc, argv, allowed, &a, &err);

	if (r == 0 && (a.options & COW_OPT_HELP)) {
		(void)fputs(help, stdout);
	} else {
		if (r == 0 && !a.run)
			r = err_set(&err, EINVAL, "which run? 'bawn diff' lists them");
		if (r == 0 && (a.options & COW_OPT_ALLOW_PROTECTED) &&
			(a.options & COW_OPT_SKIP_PROTECTED))
			r = err_set(&err, EINVAL,
				"--allow-protected and --skip-protected contradict: choose one");
		if (r == 0)
			r = cow_load(a.run, &run, &err);
		status = r < 0 || !run ? verb_fail("apply", &err) : apply(&a, run, &err);
	}
	cow_args_done(&a);
	return status;
}
