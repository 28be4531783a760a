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

struct page {
	int status;
	char token[256];
	struct buf body;
	struct err err;
	bool is_done;
};

static void on_head(void *arg, int status, const struct h1_head *head)
{
	struct page *p = arg;
	const struct h1_field *f = h1_find(head, "X-Next-Token");

	p->status = status;
	if (f && f->value.n < sizeof(p->token)) {
		memcpy(p->token, f->value.p, f->value.n);
		p->token[f->value.n] = '\0';
	}
}

static void on_data(void *arg, const char *data, size_t n)
{
	struct page *p = arg;

	if (buf_add(&p->body, data, n) < 0 && p->err.code == 0)
		(void)err_set(&p->err, E2BIG, "the server's list is too long");
}

static void on_end(void *arg, const struct err *err)
{
	struct page *p = arg;

	if (p->err.code == 0)
		p->err = *err;
	p->is_done = true;
}

/* One page appended to `all`; 1: there are more, `token` leads there. */
static int read_page(struct client *c, char *token, size_t token_size, json_t *all, struct err *err)
{
	static const struct client_events events = {on_head, on_data, NULL, on_end};
	AUTO_FREE char *escaped = client_escape(token);
	AUTO_FREE char *path =
		text_format("/v2/sandboxes?limit=100%s%s", *token ? "&nextToken=" : "", escaped);
	struct page p = {.body = {.cap = 16u << 20}};
	struct client_request q = {.method = "GET", .path = path};
	struct client_stream *s = NULL;
	json_t *part = NULL;
	int r = client_start(c, &q, &events, &p, &s, err);

	while (r >= 0 && !p.is_done)
		r = loop_once(client_loop(c), -1, err);
	if (r >= 0 && p.err.code) {
		*err = p.err;
		r = -err->code;
	}
	if (r >= 0 && p.status != 200)
		r = client_refused(p.status, buf_data(&p.body), buf_len(&p.body), err);
	if (r >= 0) {
		part = json_loadb(buf_data(&p.body), buf_len(&p.body), 0, NULL);
		r = json_is_array(part) ? json_array_extend(all, part) : -1;
		if (r < 0)
			r = err_set(err, EPROTO, "the server's list is not JSON");
	}
	json_decref(part);
	buf_done(&p.body);
	(void)snprintf(token, token_size, "%s", p.token);
	return r < 0 ? r : *token != '\0';
}

int list_all(struct client *c, json_t **ret, struct err *err)
{
	json_t *all = json_array();
	char token[256] = "";
	int r = 1;

	for (int i = 0; r > 0 && i < PAGES_MAX; i++)
		r = read_page(c, token, sizeof(token), all, err);
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

	return text_quote(s ? s : "", out, size);
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
	const json_t *have = json_object_get(o, "metadata");

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

		(void)printf("%-22s %-16s %-10s %-8s %8s %8s\n",
			list_text(o, "sandboxID", id, sizeof(id)),
			list_text(o, "alias", name, sizeof(name)),
			list_text(o, "templateID", template, sizeof(template)),
			list_text(o, "state", state, sizeof(state)),
			list_since(json_string_value(json_object_get(o, "startedAt")), age),
			list_until(json_string_value(json_object_get(o, "endAt")), left));
	}
}

static void print_ids(const json_t *all)
{
	size_t i;
	const json_t *o;

	json_array_foreach((json_t *)(uintptr_t)all, i, o)
	{
		char id[40], name[80];

		(void)list_text(o, "alias", name, sizeof(name));
		(void)printf("%s\n", *name ? name : list_text(o, "sandboxID", id, sizeof(id)));
	}
}

int verb_ls(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	struct strv labels = {0};
	bool is_quiet = false;
	const struct arg table[] = {
		{"--label", 'l', "NAME[=VALUE]", "only those that have it", ARG_LIST, &labels},
		{"--quiet", 'q', NULL, "names only, or ids where there is none", ARG_FLAG,
			&is_quiet},
	};
	const struct args_verb v = {.name = "ls",
		.usage = "[options]",
		.about = "List the sandboxes that run, newest first.\n",
		.table = table,
		.table_n = sizeof(table) / sizeof(table[0])};
	struct args a;
	struct err err = {0};
	json_t *all = NULL;
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r >= 0 && !a.want_help) {
		r = client_open(&a, &c, &err);
		if (r >= 0)
			r = list_all(c, &all, &err);
	}
	for (size_t i = json_array_size(all); i > 0; i--) {
		if (!has_labels(json_array_get(all, i - 1), &labels))
			(void)json_array_remove(all, i - 1);
	}
	if (r >= 0 && all && a.want_json)
		r = json_dumpf(all, stdout, JSON_INDENT(2)) < 0 ? -1 : printf("\n");
	else if (r >= 0 && all && is_quiet)
		print_ids(all);
	else if (r >= 0 && all)
		print_table(all);
	json_decref(all);
	strv_done(&labels);
	return r < 0 ? args_fail("ls", &err) : 0;
}
