/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/discard - `bawn discard`: forget what copy-on-write runs changed.
 */
#include "base/mem.h"
#include "cli/cow_args.h"
#include "cli/verb.h"

#include <errno.h>

static const char help[] =
	"usage: bawn discard [--json] RUN... | --all\n"
	"\n"
	"Forget the changes of a run, or of all. The directory it ran in is as it was.\n";

/* A run whose record is damaged can still be forgotten. */
static int discard_one(const char *id, json_t *gone, struct err *err)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	AUTO_FREE char *name = NULL;
	int r = cow_find(id, &name, err);

	if (r < 0)
		return r;
	if (cow_load(name, &run, err) < 0) {
		run = MEM_NEW(struct cow_run);
		(void)snprintf(run->id, sizeof(run->id), "%s", name);
	}
	r = cow_discard(run, err);
	if (r == 0)
		(void)json_array_append_new(gone, json_string(name));
	return r;
}

static int discard(const struct cow_args *a, json_t *gone, struct err *err)
{
	struct strv all = {0};
	int r = 0;

	if (!(a->options & COW_OPT_ALL)) {
		r = discard_one(a->run, gone, err);
		for (size_t i = 0; r == 0 && i < a->paths.n; i++)
			r = discard_one(a->paths.v[i], gone, err);
		return r;
	}
	r = cow_list(&all, err);
	for (size_t i = 0; r == 0 && i < all.n; i++)
		r = discard_one(all.v[i], gone, err);
	strv_done(&all);
	return r;
}

static int report(const struct cow_args *a, json_t *take_gone)
{
	size_t n = json_array_size(take_gone);
	json_t *o;

	if (!(a->options & COW_OPT_JSON)) {
		json_decref(take_gone);
		(void)printf("forgot %zu run%s\n", n, n == 1 ? "" : "s");
		return 0;
	}
	o = mem_must(json_object());
	(void)json_object_set_new(o, "discarded", take_gone);
	return cow_args_print_json("discard", o);
}

int verb_discard(int argc, char **argv)
{
	struct cow_args a = {0};
	struct err err = {0};
	json_t *gone;
	int status;
	int r = cow_args_parse(argc, argv, COW_OPT_JSON | COW_OPT_ALL, &a, &err);

	if (r == 0 && (a.options & COW_OPT_HELP)) {
		(void)fputs(help, stdout);
		cow_args_done(&a);
		return 0;
	}
	if (r == 0 && !a.run == !(a.options & COW_OPT_ALL))
		r = err_set(
			&err, EINVAL, "which run? give RUN or --all; 'bawn diff' lists the runs");
	gone = mem_must(json_array());
	if (r == 0)
		r = discard(&a, gone, &err);
	if (r < 0) {
		status = verb_fail("discard", &err);
		json_decref(gone);
	} else {
		status = report(&a, gone);
	}
	cow_args_done(&a);
	return status;
}
