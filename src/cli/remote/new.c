/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/new - `bawn new`: make a sandbox; `bawn info`: everything about one.
 */
#include "base/mem.h"
#include "cli/remote/list.h"
#include "cli/remote/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct wish {
	const char *template, *name, *ttl, *idle, *memory, *disk, *cpus, *pids, *profile;
	struct strv env, labels, allow, deny;
	bool is_private;
};

static int set_pairs(
	json_t *to, const char *name, const struct strv *pairs, const char *option, struct err *err)
{
	json_t *o = json_object();

	for (size_t i = 0; i < pairs->n; i++) {
		const char *eq = strchr(pairs->v[i], '=');
		AUTO_FREE char *key = NULL;

		if (!eq || eq == pairs->v[i]) {
			json_decref(o);
			return err_set(err, EINVAL, "%s needs NAME=VALUE", option);
		}
		key = (char *)mem_must(strndup(pairs->v[i], (size_t)(eq - pairs->v[i])));
		if (json_object_set_new(o, key, json_string(eq + 1)) < 0) {
			json_decref(o);
			return err_set(err, EINVAL, "%s: the value is not UTF-8", option);
		}
	}
	if (pairs->n > 0)
		(void)json_object_set(to, name, o);
	json_decref(o);
	return 0;
}

static int set_time(
	json_t *to, const char *name, const char *value, const char *option, struct err *err)
{
	uint64_t ms = 0;
	int r = value ? text_parse_duration(value, option, &ms, err) : 0;

	if (r >= 0 && value)
		(void)json_object_set_new(to, name, json_integer((json_int_t)ms));
	return r;
}

static int set_size(
	json_t *to, const char *name, const char *value, const char *option, struct err *err)
{
	uint64_t bytes = 0;
	int r = value ? text_parse_size(value, option, &bytes, err) : 0;

	if (r >= 0 && value)
		(void)json_object_set_new(to, name, json_integer((json_int_t)bytes));
	return r;
}

static int set_limits(json_t *to, const struct wish *w, struct err *err)
{
	json_t *limits = json_object();
	uint64_t n = 0;
	int r = set_size(limits, "memory_bytes", w->memory, "--memory", err);

	if (r >= 0)
		r = set_size(limits, "disk_bytes", w->disk, "--disk", err);
	if (r >= 0 && w->pids) {
		r = text_parse_u64(w->pids, "--pids", 1, 1u << 22, &n, err);
		(void)json_object_set_new(limits, "processes", json_integer((json_int_t)n));
	}
	if (r >= 0 && w->cpus) {
		/* Seconds in milliseconds are units in thousandths. */
		r = w->cpus[strspn(w->cpus, "0123456789.")] != '\0'
			    ? err_set(err, EINVAL, "--cpus needs a number such as 1.5")
			    : text_parse_duration(w->cpus, "--cpus", &n, err);
		(void)json_object_set_new(limits, "cpus", json_real((double)n / 1000.0));
	}
	if (r >= 0 && json_object_size(limits) > 0)
		(void)json_object_set(to, "limits", limits);
	json_decref(limits);
	return r;
}

static void set_list(json_t *to, const char *name, const struct strv *list)
{
	json_t *all = json_array();

	for (size_t i = 0; i < list->n; i++)
		(void)json_array_append_new(all, json_string(list->v[i]));
	if (list->n > 0)
		(void)json_object_set(to, name, all);
	json_decref(all);
}

static void set_network(json_t *to, const struct wish *w)
{
	json_t *network = json_object();

	set_list(network, "allow", &w->allow);
	set_list(network, "deny", &w->deny);
	if (json_object_size(network) > 0)
		(void)json_object_set(to, "network", network);
	json_decref(network);
}

static int make_body(const struct wish *w, json_t *to, struct err *err)
{
	int r = set_pairs(to, "env", &w->env, "--env", err);

	if (r >= 0)
		r = set_pairs(to, "labels", &w->labels, "--label", err);
	if (r >= 0)
		r = set_time(to, "timeout_ms", w->ttl, "--ttl", err);
	if (r >= 0)
		r = set_time(to, "idle_timeout_ms", w->idle, "--idle", err);
	if (r >= 0)
		r = set_limits(to, w, err);
	if (w->template)
		(void)json_object_set_new(to, "template", json_string(w->template));
	if (w->name)
		(void)json_object_set_new(to, "name", json_string(w->name));
	if (w->profile)
		(void)json_object_set_new(to, "profile", json_string(w->profile));
	set_network(to, w);
	if (w->is_private)
		(void)json_object_set_new(to, "private_ports", json_true());
	return r;
}

int verb_new(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	struct wish w = {0};
	const struct arg table[] = {
		{"--name", 'n', "NAME", "what to call it", ARG_TEXT, &w.name},
		{"--template", 't', "NAME", "what it starts from (base)", ARG_TEXT, &w.template},
		{"--ttl", 0, "TIME", "how long it lives: 90, 5m, 2h (the server's default)",
			ARG_TEXT, &w.ttl},
		{"--idle", 0, "TIME", "end it after TIME without use", ARG_TEXT, &w.idle},
		{"--env", 'e', "NAME=VALUE", "a variable of every command in it", ARG_LIST, &w.env},
		{"--label", 'l', "NAME=VALUE", "to find it by", ARG_LIST, &w.labels},
		{"--memory", 0, "SIZE", "such as 512M", ARG_TEXT, &w.memory},
		{"--disk", 0, "SIZE", "such as 2G", ARG_TEXT, &w.disk},
		{"--cpus", 0, "N", "such as 1.5", ARG_TEXT, &w.cpus},
		{"--pids", 0, "N", "processes and threads", ARG_TEXT, &w.pids},
		{"--profile", 0, "NAME", "what it may reach (the server's default)", ARG_TEXT,
			&w.profile},
		{"--allow", 0, "HOST[:PORT]", "reach this too; tcp:HOST:PORT if not HTTP", ARG_LIST,
			&w.allow},
		{"--deny", 0, "HOST[:PORT]", "never reach this", ARG_LIST, &w.deny},
		{"--private", 0, NULL, "its ports need a token", ARG_FLAG, &w.is_private},
	};
	const struct args_verb v = {.name = "new",
		.usage = "[options]",
		.about = "Make a sandbox on the server and print its id.\n",
		.table = table,
		.table_n = sizeof(table) / sizeof(table[0])};
	struct args a;
	struct err err = {0};
	json_t *body = json_object(), *made = NULL;
	char id[64];
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r >= 0 && !a.want_help) {
		r = make_body(&w, body, &err);
		if (r >= 0)
			r = client_open(&a, &c, &err);
		if (r >= 0)
			r = client_json(c, "POST", "/v1/sandboxes", json_incref(body), &made, &err);
		if (r >= 0 && a.want_json)
			(void)json_dumpf(made, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII),
				(void)printf("\n");
		else if (r >= 0)
			(void)printf("%s\n", list_text(made, "id", id, sizeof(id)));
	}
	json_decref(made);
	json_decref(body);
	strv_done(&w.env);
	strv_done(&w.labels);
	strv_done(&w.allow);
	strv_done(&w.deny);
	return r < 0 ? args_fail("new", &err) : 0;
}

/* ---- info ---- */

static void print_value(const char *name, const json_t *v)
{
	char quoted[200];
	AUTO_FREE char *text = NULL;

	if (!v || json_is_null(v))
		return;
	text = json_is_string(v)
		       ? mem_strdup(json_string_value(v))
		       : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
	/* JSON is full of quotes and safe as it is; a string is not. */
	(void)printf("%-12s %s\n", name,
		json_is_string(v) ? client_clean(text, quoted, sizeof(quoted)) : text);
}

static void print_walls(const json_t *walls)
{
	const char *name;
	const json_t *w;

	if (json_object_size(walls) > 0)
		(void)printf("\n%-12s %-10s %-10s %s\n", "WALL", "REQUESTED", "ENFORCED",
			"AS READ "
			"BACK");
	json_object_foreach((json_t *)(uintptr_t)walls, name, w)
	{
		char shown[32], requested[32], enforced[32], detail[120];

		(void)printf("%-12s %-10s %-10s %s\n", client_clean(name, shown, sizeof(shown)),
			list_text(w, "requested", requested, sizeof(requested)),
			list_text(w, "enforced", enforced, sizeof(enforced)),
			list_text(w, "detail", detail, sizeof(detail)));
	}
}

static void print_info(const json_t *o)
{
	static const char *const names[] = {"id", "name", "template", "state", "reason", "message",
		"created_at", "started_at", "ended_at", "expires_at", "labels", "limits",
		"network"};
	char left[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		print_value(names[i], json_object_get(o, names[i]));
	(void)printf("%-12s %s\n", "left",
		list_until(json_string_value(json_object_get(o, "expires_at")), left));
	print_walls(json_object_get(o, "walls"));
}

int verb_info(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	const struct args_verb v = {.name = "info",
		.usage = "SANDBOX",
		.about = "Everything about a sandbox: limits, time, and the walls that were asked "
			 "for and that stand.\n",
		.min = 1,
		.max = 1};
	struct args a;
	struct err err = {0};
	struct client_box b = {0};
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("info", &err) : 0;
	r = client_open(&a, &c, &err);
	if (r >= 0)
		r = client_box_find(c, a.rest[0], &b, &err);
	if (r >= 0) {
		/* Whoever looks over the shoulder does not get the token. */
		(void)json_object_del(b.detail, "access_token");
		(void)json_object_del(b.detail, "traffic_token");
		if (a.want_json)
			(void)json_dumpf(b.detail, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII),
				(void)printf("\n");
		else
			print_info(b.detail);
	}
	client_box_done(&b);
	return r < 0 ? args_fail("info", &err) : 0;
}
