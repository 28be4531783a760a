/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/events - `bawn events` and `bawn logs`: what happened, and what happens.
 *
 * Following is asking again from the last number: it survives a restart of the server.
 */
#include "base/mem.h"
#include "cli/remote/list.h"
#include "cli/remote/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS   400
#define RETRY_MAX 50 /* times POLL_MS without a server */

struct watch {
	const struct args *args;
	bool is_following;
	bool is_all; /* the tenant's events, not those of one sandbox */
	const char *box;
	json_int_t after;
};

static void print_line(const json_t *e, bool is_all)
{
	char at[40], box[40], action[48], outcome[40], actor[48], safe[300];
	const json_t *detail = json_object_get(e, "detail");
	AUTO_FREE char *text = detail ? json_dumps(detail, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

	(void)snprintf(safe, sizeof(safe), "%.280s", text ? text : "");
	(void)printf("%s  ", list_text(e, "at", at, sizeof(at)));
	if (is_all)
		(void)printf("%-22s ", list_text(e, "sandbox_id", box, sizeof(box)));
	(void)printf("%-18s %-8s %-18s %s\n", list_text(e, "action", action, sizeof(action)),
		list_text(e, "outcome", outcome, sizeof(outcome)),
		list_text(e, "actor", actor, sizeof(actor)), safe);
}

static size_t print_page(struct watch *w, const json_t *page)
{
	const json_t *events = json_object_get(page, "events");
	size_t n = json_array_size(events);

	for (size_t i = 0; i < n; i++) {
		const json_t *e = json_array_get(events, i);
		json_int_t number = json_integer_value(json_object_get(e, "number"));

		if (number > w->after)
			w->after = number;
		if (w->args->want_json)
			(void)json_dumpf(e, stdout, JSON_COMPACT | JSON_ENSURE_ASCII),
				(void)printf("\n");
		else
			print_line(e, w->is_all);
	}
	(void)fflush(stdout);
	return n;
}

static int ask(struct client *c, struct watch *w, size_t *ret_n, struct err *err)
{
	static const char *const fields[] = {"Accept: application/json", NULL};
	AUTO_FREE char *path = w->is_all ? text_format("/v1/events?after=%lld", (long long)w->after)
					 : text_format("/v1/sandboxes/%s/logs?after=%lld", w->box,
						   (long long)w->after);
	struct client_request q = {.method = "GET", .path = path, .fields = fields};
	json_t *page = NULL;
	int r = client_call(c, &q, NULL, &page, err);

	if (r >= 0)
		*ret_n = print_page(w, page);
	json_decref(page);
	return r;
}

static int watch(struct client *c, struct watch *w, struct err *err)
{
	int r = 0, failures = 0;
	size_t n = 1;

	while (r >= 0) {
		struct err this = {0};

		r = ask(c, w, &n, &this);
		if (r >= 0)
			failures = 0;
		else if (w->is_following && this.code != ENOENT && this.code != EACCES &&
			 failures++ < RETRY_MAX)
			r = 0;
		else
			*err = this;
		if (r >= 0 && ferror(stdout))
			break;
		if (r >= 0 && n > 0 && failures == 0)
			continue;
		if (!w->is_following)
			break;
		(void)usleep(POLL_MS * 1000);
	}
	return r;
}

static int run(const char *verb, const struct args *a, struct watch *w)
{
	AUTO(client_close) struct client *c = NULL;
	struct client_box b = {0};
	struct err err = {0};
	int r = client_open(a, &c, &err);

	w->args = a;
	w->is_all = a->rest_n == 0;
	if (r >= 0 && !w->is_all) {
		r = client_box_find(c, a->rest[0], &b, &err);
		w->box = b.id;
	}
	if (r >= 0)
		r = watch(c, w, &err);
	client_box_done(&b);
	return r < 0 ? args_fail(verb, &err) : 0;
}

static int parse_after(const char *text, struct watch *w, struct err *err)
{
	uint64_t n = 0;
	int r = text ? text_parse_u64(text, "--after", 0, INT64_MAX, &n, err) : 0;

	w->after = (json_int_t)n;
	return r;
}

static int events_or_logs(
	const char *name, const char *usage, const char *about, int min, int argc, char **argv)
{
	struct watch w = {0};
	const char *after = NULL;
	const struct arg table[] = {
		{"--follow", 'f', NULL, "go on with what comes", ARG_FLAG, &w.is_following},
		{"--after", 0, "NUMBER", "only those behind this one", ARG_TEXT, &after},
	};
	const struct args_verb v = {.name = name,
		.usage = usage,
		.about = about,
		.table = table,
		.table_n = 2,
		.min = min,
		.max = 1};
	struct args a;
	struct err err = {0};
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r >= 0 && a.want_help)
		return 0;
	if (r >= 0)
		r = parse_after(after, &w, &err);
	return r < 0 ? args_fail(name, &err) : run(name, &a, &w);
}

int verb_events(int argc, char **argv)
{
	return events_or_logs("events", "[-f] [--after NUMBER] [SANDBOX]",
		"Who did what, when, and what came of it: of everything that is yours, or of one\n"
		"sandbox. With --json one object a line.\n",
		0, argc, argv);
}

int verb_logs(int argc, char **argv)
{
	return events_or_logs("logs", "[-f] [--after NUMBER] SANDBOX",
		"What was done in a sandbox and what came of it. With --json one object a line.\n",
		1, argc, argv);
}
