/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/list - `bawn ls`: the sandboxes of the caller's tenant.
 */
#include "cli/remote/list.h"

#include "base/mem.h"
#include "cli/remote/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PAGES_MAX 1000

int list_all(struct client *c, bool with_ended, json_t **ret, struct err *err)
{
	json_t *all = json_array();
	AUTO_FREE char *after = mem_strdup("");
	int r = 0;

	for (int i = 0; r >= 0 && i < PAGES_MAX; i++) {
		AUTO_FREE char *path = text_format("/v1/sandboxes?limit=100%s%s%s",
			with_ended ? "&state=creating,running,paused,ending,ended,failed" : "",
			*after ? "&after=" : "", after);
		json_t *page = NULL;
		const char *next;

		r = client_json(c, "GET", path, NULL, &page, err);
		if (r >= 0 && json_array_extend(all, json_object_get(page, "sandboxes")) < 0)
			r = err_set(err, EPROTO, "the server's list makes no sense");
		next = json_string_value(json_object_get(page, "next"));
		free(after);
		after = client_escape(next ? next : "");
		json_decref(page);
		if (!*after)
			break;
	}
	if (r < 0) {
		json_decref(all);
		return r;
	}
	*ret = all;
	return 0;
}

const char *list_text(const json_t *o, const char *name, char *out, size_t size)
{
	const char *s = json_string_value(json_object_get(o, name));

	return client_clean(s ? s : "", out, size);
}

/* Seconds since 1970 of "2026-01-01T00:00:00.123Z"; 0 if it is none. */
static time_t parse_time(const char *s)
{
	struct tm tm = {0};

	return s && strptime(s, "%Y-%m-%dT%H:%M:%S", &tm) ? timegm(&tm) : 0;
}

static const char *span(long long seconds, char out[32])
{
	if (seconds < 0)
		seconds = 0;
	if (seconds < 60)
		(void)snprintf(out, 32, "%llds", seconds);
	else if (seconds < 3600)
		(void)snprintf(out, 32, "%lldm%02llds", seconds / 60, seconds % 60);
	else if (seconds < 86400)
		(void)snprintf(out, 32, "%lldh%02lldm", seconds / 3600, seconds / 60 % 60);
	else
		(void)snprintf(out, 32, "%lldd%02lldh", seconds / 86400, seconds / 3600 % 24);
	return out;
}

const char *list_until(const char *when, char out[32])
{
	time_t t = parse_time(when);

	return t ? span((long long)t - time(NULL), out) : "-";
}

const char *list_since(const char *when, char out[32])
{
	time_t t = parse_time(when);

	return t ? span((long long)time(NULL) - t, out) : "-";
}

static bool has_labels(const json_t *o, const struct strv *labels)
{
	const json_t *have = json_object_get(o, "labels");

	for (size_t i = 0; i < labels->n; i++) {
		const char *eq = strchr(labels->v[i], '=');
		size_t n = eq ? (size_t)(eq - labels->v[i]) : strlen(labels->v[i]);
		AUTO_FREE char *name = (char *)mem_must(strndup(labels->v[i], n));
		const char *value = json_string_value(json_object_get(have, name));

		if (!value || (eq && strcmp(value, eq + 1) != 0))
			return false;
	}
	return true;
}

static void print_table(const json_t *all)
{
	size_t i;
	const json_t *o;

	(void)printf("%-22s %-16s %-10s %-8s %8s %8s\n", "ID", "NAME", "TEMPLATE", "STATE", "AGE",
		"LEFT");
	json_array_foreach((json_t *)(uintptr_t)all, i, o)
	{
		char id[40], name[40], template[40], state[16], age[32], left[32];

		(void)printf("%-22s %-16s %-10s %-8s %8s %8s\n", list_text(o, "id", id, sizeof(id)),
			list_text(o, "name", name, sizeof(name)),
			list_text(o, "template", template, sizeof(template)),
			list_text(o, "state", state, sizeof(state)),
			list_since(json_string_value(json_object_get(o, "created_at")), age),
			list_until(json_string_value(json_object_get(o, "expires_at")), left));
	}
}

static void print_ids(const json_t *all)
{
	size_t i;
	const json_t *o;

	json_array_foreach((json_t *)(uintptr_t)all, i, o)
	{
		char id[40], name[80];

		(void)list_text(o, "name", name, sizeof(name));
		(void)printf("%s\n", *name ? name : list_text(o, "id", id, sizeof(id)));
	}
}

int verb_ls(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	struct strv labels = {0};
	bool is_quiet = false, is_all = false;
	const struct arg table[] = {
		{"--all", 'a', NULL, "those that ended, too", ARG_FLAG, &is_all},
		{"--label", 'l', "NAME[=VALUE]", "only those that have it", ARG_LIST, &labels},
		{"--quiet", 'q', NULL, "names only, or ids where there is none", ARG_FLAG,
			&is_quiet},
	};
	const struct args_verb v = {.name = "ls",
		.usage = "[options]",
		.about = "List your sandboxes, newest first.\n",
		.table = table,
		.table_n = sizeof(table) / sizeof(table[0])};
	struct args a;
	struct err err = {0};
	json_t *all = NULL;
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r >= 0 && !a.want_help) {
		r = client_open(&a, &c, &err);
		if (r >= 0)
			r = list_all(c, is_all, &all, &err);
	}
	for (size_t i = json_array_size(all); i > 0; i--) {
		if (!has_labels(json_array_get(all, i - 1), &labels))
			(void)json_array_remove(all, i - 1);
	}
	if (r >= 0 && all && a.want_json)
		r = json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) < 0 ? -1
										    : printf("\n");
	else if (r >= 0 && all && is_quiet)
		print_ids(all);
	else if (r >= 0 && all)
		print_table(all);
	json_decref(all);
	strv_done(&labels);
	return r < 0 ? args_fail("ls", &err) : 0;
}
