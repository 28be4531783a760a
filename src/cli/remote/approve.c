/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/approve - `bawn asks`, `bawn approve`, `bawn deny`: what sandboxes want, and what a
 * person says.
 */
#include "base/mem.h"
#include "cli/remote/list.h"
#include "cli/remote/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void print_ask(const json_t *o)
{
	const json_t *q = json_object_get(o, "request");
	char id[40], box[40], host[256], protocol[16], method[32], path[256], note[200], state[16];

	(void)printf("%-18s %-8s %-22s %s%s%s://%s:%d%s", list_text(o, "id", id, sizeof(id)),
		list_text(o, "state", state, sizeof(state)),
		list_text(o, "sandbox_id", box, sizeof(box)),
		list_text(q, "method", method, sizeof(method)), *method ? " " : "",
		list_text(q, "protocol", protocol, sizeof(protocol)),
		list_text(q, "host", host, sizeof(host)),
		(int)json_integer_value(json_object_get(q, "port")),
		list_text(q, "path", path, sizeof(path)));
	if (*list_text(o, "note", note, sizeof(note)))
		(void)printf("  \"%s\"", note);
	(void)printf("\n");
}

static void print_all(const json_t *answer, bool want_json)
{
	const json_t *list = json_object_get(answer, "asks");

	if (want_json) {
		(void)json_dumpf(list, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		(void)printf("\n");
		return;
	}
	if (json_array_size(list) > 0)
		(void)printf("%-18s %-8s %-22s %s\n", "ASK", "STATE", "SANDBOX", "WANTS");
	for (size_t i = 0; i < json_array_size(list); i++)
		print_ask(json_array_get(list, i));
}

int verb_asks(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	bool is_all = false;
	const struct arg table[] = {
		{"--all", 0, NULL, "also those that are over", ARG_FLAG, &is_all}};
	const struct args_verb v = {.name = "asks",
		.usage = "[--all]",
		.about = "What sandboxes want to reach and wait for a person to allow.\n",
		.table = table,
		.table_n = 1};
	struct args a;
	struct err err = {0};
	json_t *answer = NULL;
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("asks", &err) : 0;
	r = client_open(&a, &c, &err);
	if (r >= 0)
		r = client_json(
			c, "GET", is_all ? "/v1/asks?state=all" : "/v1/asks", NULL, &answer, &err);
	if (r >= 0)
		print_all(answer, a.want_json);
	json_decref(answer);
	return r < 0 ? args_fail("asks", &err) : 0;
}

static int say(struct client *c, const char *id, const char *verdict, const char *scope,
	bool want_json, struct err *err)
{
	AUTO_FREE char *escaped = client_escape(id);
	AUTO_FREE char *path = text_format("/v1/asks/%s", escaped);
	json_t *answer = NULL;
	int r = client_json(c, "POST", path,
		json_pack("{s:s, s:s}", "verdict", verdict, "scope", scope), &answer, err);

	if (r >= 0 && want_json) {
		(void)json_dumpf(answer, stdout, JSON_ENSURE_ASCII);
		(void)printf("\n");
	} else if (r >= 0) {
		print_ask(answer);
	}
	json_decref(answer);
	return r;
}

int verb_approve(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	bool for_sandbox = false, is_always = false;
	const struct arg table[] = {
		{"--sandbox", 0, NULL, "for as long as this sandbox lives", ARG_FLAG, &for_sandbox},
		{"--always", 0, NULL, "a rule in a new version of its profile", ARG_FLAG,
			&is_always},
	};
	const struct args_verb v = {.name = "approve",
		.usage = "[--sandbox | --always] ASK...",
		.about = "Allow what a sandbox waits for: this once, unless told otherwise.\n"
			 "'bawn asks' lists what waits.\n",
		.table = table,
		.table_n = 2,
		.min = 1,
		.max = -1};
	struct args a;
	struct err err = {0};
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("approve", &err) : 0;
	if (for_sandbox && is_always)
		r = err_set(&err, EINVAL, "--sandbox or --always, not both");
	if (r >= 0)
		r = client_open(&a, &c, &err);
	for (int i = 0; r >= 0 && i < a.rest_n; i++)
		r = say(c, a.rest[i], "allow",
			is_always     ? "always"
			: for_sandbox ? "sandbox"
				      : "once",
			a.want_json, &err);
	return r < 0 ? args_fail("approve", &err) : 0;
}

int verb_deny(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	const struct args_verb v = {.name = "deny",
		.usage = "ASK...",
		.about = "Refuse what a sandbox waits for. 'bawn asks' lists what waits.\n",
		.min = 1,
		.max = -1};
	struct args a;
	struct err err = {0};
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("deny", &err) : 0;
	r = client_open(&a, &c, &err);
	for (int i = 0; r >= 0 && i < a.rest_n; i++)
		r = say(c, a.rest[i], "deny", "once", a.want_json, &err);
	return r < 0 ? args_fail("deny", &err) : 0;
}
