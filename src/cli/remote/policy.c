/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/policy - the parts of `bawn explain` and `bawn profile` that a server answers.
 *
 * `bawn` itself does the rest of both, and hands over what names a sandbox or a server.
 */
#include "base/mem.h"
#include "cli/remote/list.h"
#include "cli/remote/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX (256 * 1024)

/* ---- explain --net [METHOD] TARGET --sandbox SANDBOX ---- */

static int print_explanation(const json_t *answer, bool want_json)
{
	const json_t *one = json_array_get(json_object_get(answer, "explanations"), 0);
	const json_t *network = json_object_get(one, "network");
	const char *verdict = json_string_value(json_object_get(network, "verdict"));
	char text[1100];

	if (want_json) {
		(void)json_dumpf(network, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		(void)printf("\n");
	} else {
		(void)printf("%s\n", list_text(one, "because", text, sizeof(text)));
	}
	return verdict && strcmp(verdict, "deny") == 0 ? 1 : 0;
}

int verb_explain(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	bool is_net = false;
	const char *sandbox = NULL;
	const struct arg table[] = {
		{"--net", 0, NULL, "would this be let out?", ARG_FLAG, &is_net},
		{"--sandbox", 0, "SANDBOX", "as it is now for this one", ARG_TEXT, &sandbox},
	};
	const struct args_verb v = {.name = "explain",
		.usage = "--net [METHOD] TARGET --sandbox SANDBOX",
		.about = "Would a sandbox be let out there, and by which rule? Nothing is tried.\n",
		.table = table,
		.table_n = 2,
		.min = 1,
		.max = 2};
	struct args a;
	struct err err = {0};
	struct client_box b = {0};
	json_t *answer = NULL;
	int r = args_parse(&v, argc, argv, &a, &err), status = 0;

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("explain", &err) : 0;
	if (!is_net || !sandbox)
		r = err_set(&err, EINVAL, "say --net and which --sandbox");
	if (r >= 0)
		r = client_open(&a, &c, &err);
	if (r >= 0)
		r = client_box_find(c, sandbox, &b, &err);
	if (r >= 0) {
		AUTO_FREE char *what = text_format("%s%s%s", a.rest[0], a.rest_n > 1 ? " " : "",
			a.rest_n > 1 ? a.rest[1] : "");
		AUTO_FREE char *escaped = client_escape(what);
		AUTO_FREE char *path =
			text_format("/v1/sandboxes/%s/explain?network=%s", b.id, escaped);

		r = client_json(c, "GET", path, NULL, &answer, &err);
	}
	if (r >= 0)
		status = print_explanation(answer, a.want_json);
	json_decref(answer);
	client_box_done(&b);
	return r < 0 ? args_fail("explain", &err) : status;
}

/* ---- profile put NAME FILE | get NAME | ls ---- */

static int read_file(const char *path, char **ret, struct err *err)
{
	AUTO_FILE FILE *f = strcmp(path, "-") == 0 ? fdopen(STDIN_FILENO, "r") : fopen(path, "re");
	AUTO_FREE char *text = (char *)mem_must(calloc(1, FILE_MAX + 2));
	size_t n;

	if (!f)
		return err_sys(err, "open '%s'", path);
	n = fread(text, 1, FILE_MAX + 1, f);
	if (ferror(f))
		return err_sys(err, "read '%s'", path);
	if (n > FILE_MAX)
		return err_set(err, E2BIG, "'%s' is too long", path);
	*ret = TAKE_PTR(text);
	return 0;
}

static int put(struct client *c, const char *path, const char *file, json_t **ret, struct err *err)
{
	AUTO_FREE char *yaml = NULL;
	int r = read_file(file, &yaml, err);
	json_t *body;

	if (r < 0)
		return r;
	body = json_pack("{s:s}", "yaml", yaml);
	if (!body)
		return err_set(err, EINVAL, "'%s' is not UTF-8", file);
	return client_json(c, "PUT", path, body, ret, err);
}

static void print_profile(const json_t *o)
{
	char name[80], digest[80], owner[16];

	(void)printf("%-24s %-8lld %-7s %s\n", list_text(o, "name", name, sizeof(name)),
		(long long)json_integer_value(json_object_get(o, "version")),
		list_text(o, "owner", owner, sizeof(owner)),
		list_text(o, "digest", digest, sizeof(digest)));
}

static void print_profiles(const json_t *answer, bool want_json, bool is_whole)
{
	const json_t *list = json_object_get(answer, "profiles");

	if (want_json || is_whole) {
		(void)json_dumpf(list ? list : answer, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		(void)printf("\n");
		return;
	}
	if (!list)
		print_profile(answer);
	for (size_t i = 0; i < json_array_size(list); i++)
		print_profile(json_array_get(list, i));
}

int verb_profile(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	const struct args_verb v = {.name = "profile",
		.usage = "put NAME FILE | get NAME[@VERSION] | ls",
		.about = "Profiles that a server keeps for its tenant; every version stays.\n",
		.min = 1,
		.max = 3};
	AUTO_FREE char *name = NULL, *path = NULL;
	struct args a;
	struct err err = {0};
	json_t *answer = NULL;
	bool is_get;
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("profile", &err) : 0;
	is_get = strcmp(a.rest[0], "get") == 0 && a.rest_n == 2;
	name = client_escape(a.rest_n > 1 ? a.rest[1] : "");
	path = text_format("/v1/profiles%s%s", *name ? "/" : "", name);
	r = client_open(&a, &c, &err);
	if (r >= 0 && strcmp(a.rest[0], "put") == 0 && a.rest_n == 3)
		r = put(c, path, a.rest[2], &answer, &err);
	else if (r >= 0 && (is_get || (strcmp(a.rest[0], "ls") == 0 && a.rest_n == 1)))
		r = client_json(c, "GET", path, NULL, &answer, &err);
	else if (r >= 0)
		r = err_set(&err, EINVAL, "accepted: %s", v.usage);
	if (r >= 0)
		print_profiles(answer, a.want_json, is_get);
	json_decref(answer);
	return r < 0 ? args_fail("profile", &err) : 0;
}
