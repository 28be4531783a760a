/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/secret - `bawn secret`: credentials that boxes use and never see.
 *
 * Those of this user, for `bawn run`, or with --remote those of the caller's tenant on a server.
 */
#include "cli/remote/secret.h"

#include "base/mem.h"
#include "cli/remote/client.h"
#include "cli/remote/verbs.h"
#include "core/placeholder.h"
#include "egress/guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

struct options {
	const char *action, *name, *file;
	bool is_remote, want_passphrase, want_json;
	struct client *client; /* NULL: local */
};

/* ---- a server's ---- */

static int remote_set(
	const struct options *o, const struct buf *value, json_t **ret, struct err *err)
{
	AUTO_FREE char *path = text_format("/v1/secrets/%s", o->name);
	json_t *text = json_stringn(buf_data(value), buf_len(value));
	bool must_exist = strcmp(o->action, "rotate") == 0;

	if (!text)
		return err_set(err, EINVAL, "the value is not UTF-8");
	return client_json(o->client, must_exist ? "PATCH" : "PUT", path,
		json_pack("{s:o}", "value", text), ret, err);
}

static int remote_get(const struct options *o, json_t **ret, struct err *err)
{
	AUTO_FREE char *path = text_format("/v1/secrets/%s", o->name);

	return client_json(o->client, "GET", path, NULL, ret, err);
}

static int remote_remove(const struct options *o, struct err *err)
{
	AUTO_FREE char *path = text_format("/v1/secrets/%s", o->name);

	return client_json(o->client, "DELETE", path, NULL, NULL, err);
}

/* ---- what each word does; *ret is printed ---- */

static int do_set(const struct options *o, json_t **ret, struct err *err)
{
	bool must_exist = strcmp(o->action, "rotate") == 0;
	AUTO_BUF struct buf value = {0};
	int r = secret_read_value(o->file, o->name, &value, err);

	if (r < 0)
		return r;
	return o->client ? remote_set(o, &value, ret, err)
			 : secret_local_set(
				   o->name, &value, must_exist, o->want_passphrase, ret, err);
}

static int do_list(const struct options *o, json_t **ret, struct err *err)
{
	return o->client ? client_json(o->client, "GET", "/v1/secrets", NULL, ret, err)
			 : secret_local_list(ret, err);
}

static int do_remove(const struct options *o, json_t **ret, struct err *err)
{
	int r = o->client ? remote_remove(o, err) : secret_local_remove(o->name, err);

	if (r >= 0)
		*ret = json_pack("{s:s, s:b}", "name", o->name, "removed", 1);
	return r;
}

static int do_show(const struct options *o, json_t **ret, struct err *err)
{
	return o->client ? remote_get(o, ret, err) : secret_local_get(o->name, ret, err);
}

/* ---- for people ---- */

static const char *field(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

static void print_row(const json_t *o)
{
	json_int_t ms = json_integer_value(json_object_get(o, "changed_ms"));
	time_t t = (time_t)(ms / 1000);
	char name[80], placeholder[80], day[24] = "?";
	struct tm tm;

	if (gmtime_r(&t, &tm))
		(void)strftime(day, sizeof(day), "%Y-%m-%d %H:%M", &tm);
	(void)printf("%-28s %-8lld %-17s %s\n", client_clean(field(o, "name"), name, sizeof(name)),
		(long long)json_integer_value(json_object_get(o, "version")), day,
		client_clean(field(o, "placeholder"), placeholder, sizeof(placeholder)));
}

static void print_text(const struct options *o, const json_t *answer)
{
	const json_t *all = json_object_get(answer, "secrets");
	char placeholder[80];

	if (strcmp(o->action, "ls") == 0) {
		(void)printf(
			"%-28s %-8s %-17s %s\n", "NAME", "VERSION", "CHANGED (UTC)", "PLACEHOLDER");
		for (size_t i = 0; i < json_array_size(all); i++)
			print_row(json_array_get(all, i));
	} else if (strcmp(o->action, "show-placeholder") == 0) {
		(void)printf("%s\n", client_clean(field(answer, "placeholder"), placeholder,
					     sizeof(placeholder)));
	}
}

static const struct {
	const char *name;
	int (*act)(const struct options *o, json_t **ret, struct err *err);
	bool has_name;
} actions[] = {
	{"set", do_set, true},
	{"ls", do_list, false},
	{"rm", do_remove, true},
	{"rotate", do_set, true},
	{"show-placeholder", do_show, true},
};
#define ACTIONS (sizeof(actions) / sizeof(actions[0]))

static int find_action(const struct args *a, struct options *o, size_t *ret, struct err *err)
{
	char quoted[80];
	size_t i = 0;

	o->action = a->rest[0];
	o->name = a->rest_n > 1 ? a->rest[1] : NULL;
	while (i < ACTIONS && strcmp(o->action, actions[i].name) != 0)
		i++;
	if (i == ACTIONS)
		return err_set(err, EINVAL,
			"unknown action '%s': set, ls, rm, rotate or show-placeholder",
			text_quote(o->action, quoted, sizeof(quoted)));
	if (actions[i].has_name != (o->name != NULL))
		return err_set(err, EINVAL, o->name ? "'%s' takes no name" : "'%s' needs a name",
			o->action);
	if (o->name && !placeholder_is_name(o->name))
		return err_set(err, EINVAL,
			"'%s' is no name of a secret: letters, digits, and inside also '-', '_', "
			"'.'; at most %d",
			text_quote(o->name, quoted, sizeof(quoted)), PLACEHOLDER_NAME_MAX);
	*ret = i;
	return 0;
}

static void keep_to_ourselves(void)
{
	struct rlimit none = {0, 0};

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &none);
	guard_json();
}

static int run(const struct args *a, struct options *o, struct err *err)
{
	AUTO(client_close) struct client *c = NULL;
	json_t *answer = NULL;
	size_t i = 0;
	int r = find_action(a, o, &i, err);

	if (r >= 0 && (o->is_remote || a->server || getenv("BAWN_SERVER")))
		r = client_open(a, &c, err);
	o->client = c;
	if (r >= 0)
		r = actions[i].act(o, &answer, err);
	if (r >= 0 && a->want_json) {
		(void)json_dumpf(answer, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		(void)printf("\n");
	} else if (r >= 0) {
		print_text(o, answer);
	}
	json_decref(answer);
	return r;
}

int verb_secret(int argc, char **argv)
{
	struct options o = {0};
	const struct arg table[] = {
		{"--file", 'f', "FILE", "read the value from here instead of standard input",
			ARG_TEXT, &o.file},
		{"--remote", 0, NULL, "of the server, not of this user's 'bawn run'", ARG_FLAG,
			&o.is_remote},
		{"--passphrase", 0, NULL, "with the first 'set': seal under a passphrase", ARG_FLAG,
			&o.want_passphrase},
	};
	const struct args_verb v = {.name = "secret",
		.usage = "set|rotate|rm|show-placeholder NAME | ls",
		.about = "Credentials that boxes use and never see. A profile binds a secret to "
			 "hosts and a place\nin requests; inside there is only its placeholder. "
			 "The value is read from standard\ninput or a file, never from the "
			 "command line.\n",
		.table = table,
		.table_n = 3,
		.min = 1,
		.max = 2};
	struct args a;
	struct err err = {0};
	int r;

	keep_to_ourselves();
	r = args_parse(&v, argc, argv, &a, &err);
	if (r >= 0 && !a.want_help)
		r = run(&a, &o, &err);
	return r < 0 ? args_fail("secret", &err) : 0;
}
