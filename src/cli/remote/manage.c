/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/manage - `bawn kill` and `bawn ttl`.
 */
#include "base/mem.h"
#include "cli/remote/list.h"
#include "cli/remote/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int kill_one(struct client *c, const char *which, json_t *killed, struct err *err)
{
	struct client_box b = {0};
	AUTO_FREE char *path = NULL;
	int r = client_box_find(c, which, &b, err);

	if (r < 0)
		return r;
	path = text_format("/v1/sandboxes/%s", b.id);
	r = client_json(c, "DELETE", path, NULL, NULL, err);
	if (r >= 0)
		(void)json_array_append_new(killed, json_string(b.id));
	client_box_done(&b);
	return r;
}

static int kill_all(struct client *c, json_t *killed, struct err *err)
{
	json_t *all = NULL;
	int r = list_all(c, false, &all, err);

	for (size_t i = 0; r >= 0 && i < json_array_size(all); i++) {
		const char *id = json_string_value(json_object_get(json_array_get(all, i), "id"));

		r = kill_one(c, id ? id : "", killed, err);
		if (r == -ENOENT)
			r = 0; /* it ended by itself meanwhile */
	}
	json_decref(all);
	return r;
}

int verb_kill(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	bool is_all = false;
	const struct arg table[] = {{"--all", 0, NULL, "all of yours", ARG_FLAG, &is_all}};
	const struct args_verb v = {.name = "kill",
		.usage = "SANDBOX... | --all",
		.about = "End sandboxes, with everything that runs in them.\n",
		.table = table,
		.table_n = 1,
		.max = -1};
	struct args a;
	struct err err = {0};
	json_t *killed = json_array();
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r >= 0 && !a.want_help) {
		if ((a.rest_n == 0) != is_all)
			r = err_set(&err, EINVAL, "name the sandboxes, or say --all");
		if (r >= 0)
			r = client_open(&a, &c, &err);
		if (r >= 0 && is_all)
			r = kill_all(c, killed, &err);
		for (int i = 0; r >= 0 && i < a.rest_n; i++) {
			r = kill_one(c, a.rest[i], killed, &err);
			if (r < 0)
				(void)err_wrap(&err, "'%s'", a.rest[i]);
		}
		if (a.want_json)
			(void)json_dumpf(killed, stdout, 0), (void)printf("\n");
		else
			for (size_t i = 0; i < json_array_size(killed); i++)
				(void)printf("%s\n", json_string_value(json_array_get(killed, i)));
	}
	json_decref(killed);
	return r < 0 ? args_fail("kill", &err) : 0;
}

int verb_ttl(int argc, char **argv)
{
	AUTO(client_close) struct client *c = NULL;
	const struct args_verb v = {.name = "ttl",
		.usage = "SANDBOX TIME",
		.about = "Let a sandbox live TIME from now: 90, 5m, 2h, 1d. It may become less.\n",
		.min = 2,
		.max = 2};
	struct args a;
	struct err err = {0};
	struct client_box b = {0};
	AUTO_FREE char *path = NULL;
	uint64_t ms = 0;
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("ttl", &err) : 0;
	r = text_parse_duration(a.rest[1], "the time", &ms, &err);
	if (r >= 0)
		r = client_open(&a, &c, &err);
	if (r >= 0)
		r = client_box_find(c, a.rest[0], &b, &err);
	if (r >= 0) {
		path = text_format("/v1/sandboxes/%s/timeout", b.id);
		r = client_json(c, "POST", path, json_pack("{s:I}", "timeout_ms", (json_int_t)ms),
			NULL, &err);
	}
	if (r >= 0 && a.want_json)
		(void)printf(
			"{\"sandbox\":\"%s\",\"seconds\":%" PRIu64 "}\n", b.id, (ms + 999) / 1000);
	client_box_done(&b);
	return r < 0 ? args_fail("ttl", &err) : 0;
}
