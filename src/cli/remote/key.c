/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/key - `bawn key`: make, list and revoke API keys in the store of a server here.
 *
 * Works on the database itself, beside a running server or before the first one: whoever may
 * write there needs no key. The text of a key is printed once and is nowhere else.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/remote/verbs.h"
#include "core/state_dir.h"
#include "store/store.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXIT_BAWN 125

static const char help[] =
	"usage: bawn key create [--tenant NAME] [--name LABEL]\n"
	"       bawn key list   [--tenant NAME]\n"
	"       bawn key revoke [--tenant NAME] ID|PREFIX|LABEL\n"
	"\n"
	"Make, list and revoke the API keys of the server whose state is here. A key is shown "
	"once,\n"
	"by 'create'; the store has only its hash. A running server takes changes up at once.\n"
	"\n"
	"  --tenant NAME  whose key ('default'; list and revoke: anybody's)\n"
	"  --name LABEL   what to call it in lists\n"
	"  --state DIR    the server's state directory (see bawn-serve(1))\n"
	"  --json         print JSON\n";

struct args {
	const char *action, *which;
	const char *tenant, *name, *state;
	bool is_json, is_help;
};

static int parse(int argc, char **argv, struct args *a, struct err *err)
{
	static const struct option options[] = {
		{"tenant", required_argument, NULL, 't'},
		{"name", required_argument, NULL, 'n'},
		{"state", required_argument, NULL, 's'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	char quoted[80];
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == 't')
			a->tenant = optarg;
		else if (c == 'n')
			a->name = optarg;
		else if (c == 's')
			a->state = optarg;
		else if (c == 'j')
			a->is_json = true;
		else if (c == 'h')
			a->is_help = true;
		else
			return err_set(err, EINVAL, "%s '%s'; see 'bawn key --help'",
				c == ':' ? "a value is missing behind" : "unknown option",
				text_quote(argv[optind - 1], quoted, sizeof(quoted)));
	}
	a->action = optind < argc ? argv[optind++] : NULL;
	a->which = optind < argc ? argv[optind++] : NULL;
	if (a->is_help)
		return 0;
	if (!a->action)
		return err_set(err, EINVAL, "create, list or revoke? See 'bawn key --help'");
	if (optind < argc || (a->which && strcmp(a->action, "revoke") != 0))
		return err_set(err, EINVAL, "too many arguments; see 'bawn key --help'");
	return 0;
}

static json_t *key_json(const struct store_key *k)
{
	return json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:b}", "id", (json_int_t)k->id, "tenant",
		k->tenant, "name", k->name, "prefix", k->prefix, "created_at",
		(json_int_t)k->made_ms, "used_at", (json_int_t)k->used_ms, "revoked",
		k->revoked_ms != 0);
}

static void print_json(json_t *take_o)
{
	(void)json_dumpf(take_o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	(void)putchar('\n');
	json_decref(take_o);
}

/* The change and the event that tells of it, in one. */
static int record(struct store *s, const char *action, const struct store_key *k, struct err *err)
{
	AUTO_FREE char *actor = text_format("uid:%u", getuid());
	AUTO_FREE char *detail =
		text_format("{\"id\":%lld,\"prefix\":\"%s\"}", (long long)k->id, k->prefix);
	struct store_event e = {.tenant = k->tenant,
		.actor = actor,
		.action = action,
		.outcome = "ok",
		.detail = detail};

	return store_event_append(s, &e, err);
}

static int create_key(struct store *s, const struct args *a, struct err *err)
{
	char text[STORE_KEY_TEXT];
	struct store_key k = {0};
	json_t *o;
	int r = store_begin(s, err);

	if (r < 0)
		return r;
	r = store_key_create(
		s, a->tenant ? a->tenant : "default", a->name ? a->name : "", text, &k, err);
	if (r == 0)
		r = record(s, "key.create", &k, err);
	if (r == 0)
		r = store_commit(s, err);
	else
		store_rollback(s);
	if (r == 0 && a->is_json) {
		o = key_json(&k);
		(void)json_object_set_new(o, "key", json_string(text));
		print_json(o);
	} else if (r == 0) {
		(void)printf("%s\n", text);
	}
	store_key_done(&k);
	return r;
}

static int revoke_key(struct store *s, const struct args *a, struct err *err)
{
	struct store_key k = {0};
	char prefix[32], tenant[80];
	int r;

	if (!a->which)
		return err_set(err, EINVAL, "which key? Give its id, prefix or label");
	r = store_begin(s, err);
	if (r < 0)
		return r;
	r = store_key_revoke(s, a->tenant, a->which, &k, err);
	if (r == 0)
		r = record(s, "key.revoke", &k, err);
	if (r == 0)
		r = store_commit(s, err);
	else
		store_rollback(s);
	if (r == 0 && a->is_json)
		print_json(key_json(&k));
	else if (r == 0)
		(void)printf("revoked %s… of %s\n", text_quote(k.prefix, prefix, sizeof(prefix)),
			text_quote(k.tenant, tenant, sizeof(tenant)));
	store_key_done(&k);
	return r;
}

static int add_json(const struct store_key *k, void *arg)
{
	(void)json_array_append_new(arg, key_json(k));
	return 0;
}

static const char *day(int64_t unix_ms, char out[24])
{
	time_t t = (time_t)(unix_ms / 1000);
	struct tm tm;

	if (unix_ms == 0 || !gmtime_r(&t, &tm) || strftime(out, 24, "%Y-%m-%d %H:%M", &tm) == 0)
		return "never";
	return out;
}

static int print_row(const struct store_key *k, void *arg)
{
	char made[24], used[24], name[140], prefix[32], tenant[80];

	(void)arg;
	(void)printf("%-5lld %-14s %-16s %-17s %-17s %-8s %s\n", (long long)k->id,
		text_quote(k->prefix, prefix, sizeof(prefix)),
		text_quote(k->tenant, tenant, sizeof(tenant)), day(k->made_ms, made),
		day(k->used_ms, used), k->revoked_ms ? "revoked" : "active",
		text_quote(k->name, name, sizeof(name)));
	return 0;
}

static int list_keys(struct store *s, const struct args *a, struct err *err)
{
	json_t *keys;
	int r;

	if (!a->is_json) {
		(void)printf("%-5s %-14s %-16s %-17s %-17s %-8s %s\n", "ID", "PREFIX", "TENANT",
			"MADE (UTC)", "USED (UTC)", "STATE", "NAME");
		return store_key_list(s, a->tenant, print_row, NULL, err);
	}
	keys = mem_must(json_array());
	r = store_key_list(s, a->tenant, add_json, keys, err);
	if (r < 0)
		json_decref(keys);
	else
		print_json(json_pack("{s:o}", "keys", keys));
	return r;
}

static int act(const struct args *a, struct err *err)
{
	static const struct {
		const char *name;
		int (*act)(struct store *s, const struct args *a, struct err *err);
	} actions[] = {{"create", create_key}, {"list", list_keys}, {"revoke", revoke_key}};
	AUTO_FREE char *state = NULL;
	AUTO_FREE char *dir = NULL;
	AUTO(store_close) struct store *s = NULL;
	char quoted[80];
	size_t i;
	int r;

	for (i = 0; i < 3; i++)
		if (a->action && strcmp(a->action, actions[i].name) == 0)
			break;
	if (i == 3)
		return err_set(err, EINVAL, "unknown action '%s': create, list or revoke",
			text_quote(a->action, quoted, sizeof(quoted)));
	if (a->state)
		state = mem_strdup(a->state);
	r = state ? 0 : state_dir(&state, err);
	if (r == 0)
		r = state_enter_db(state, &dir, err);
	if (r == 0)
		r = store_open(dir, &s, err);
	return r < 0 ? r : actions[i].act(s, a, err);
}

/* The database is the api role's: what it says must not drive root's terminal. */
static const char *plain(char *s)
{
	for (char *p = s; *p; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
			*p = '?';
	return s;
}

int verb_key(int argc, char **argv)
{
	struct args a = {0};
	struct err err = {0};
	int r = parse(argc, argv, &a, &err);

	if (r == 0 && a.is_help) {
		(void)fputs(help, stdout);
		return 0;
	}
	if (r == 0)
		r = act(&a, &err);
	if (r == 0)
		return 0;
	(void)fflush(stdout);
	(void)fprintf(stderr, "bawn: key: %s\n", plain(err.msg));
	return EXIT_BAWN;
}
