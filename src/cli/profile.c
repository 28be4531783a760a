/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/profile - `bawn profile check|show|diff|test`: what a profile says, without running anything.
 */
#include "base/mem.h"
#include "cli/profile_args.h"
#include "cli/verb.h"
#include "core/explain.h"
#include "core/policy_build.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define LINE_BYTES 4096 /* of a file of expectations */

static const char help[] =
	"usage: bawn profile check PROFILE...            is it well-formed?\n"
	"       bawn profile show PROFILE               its rules, parents included\n"
	"       bawn profile diff PROFILE PROFILE       what changes between two\n"
	"       bawn profile test PROFILE FILE          does it decide as FILE expects?\n"
	"\n"
	"PROFILE is a name (looked for in ~/.config/bawn/profiles, /etc/bawn/profiles and among "
	"those\n"
	"that come with bawn) or a YAML file. FILE has lines as 'allow GET "
	"https://pypi.org/simple/',\n"
	"'deny tcp://db.test:5432', 'ask https://api.test/'; '#' begins a comment.\n"
	"\n"
	"  --floor FILE   on this floor instead of " PROFILE_FLOOR_FILE "\n"
	"  --json         for programs\n"
	"\n"
	"Exit status: 0; 1 not well-formed, different, or not as expected; 125 bawn failed.\n"
	"More: bawn-profile(1).\n";

struct options {
	bool want_json;
	const char *floor;
	const char *words[64]; /* the rest, the subcommand first */
	size_t words_n;
};

static int parse(int argc, char **argv, struct options *o, struct err *err)
{
	for (int i = 1; i < argc; i++) {
		char quoted[64];

		if (strcmp(argv[i], "--json") == 0) {
			o->want_json = true;
		} else if (strcmp(argv[i], "--floor") == 0 && i + 1 < argc) {
			o->floor = argv[++i];
		} else if (text_starts(argv[i], "--floor=")) {
			o->floor = argv[i] + 8;
		} else if (argv[i][0] == '-' && argv[i][1]) {
			return err_set(err, EINVAL,
				"unknown option '%s', or one without its value; accepted: --json, "
				"--floor FILE",
				text_quote(argv[i], quoted, sizeof(quoted)));
		} else if (o->words_n < sizeof(o->words) / sizeof(o->words[0])) {
			o->words[o->words_n++] = argv[i];
		} else {
			return err_set(err, E2BIG, "more than 63 profiles");
		}
	}
	return 0;
}

static void set(json_t *o, const char *key, json_t *take)
{
	if (json_object_set_new(o, key, mem_must(take)) < 0)
		abort();
}

static void push(json_t *list, json_t *take)
{
	if (json_array_append_new(list, mem_must(take)) < 0)
		abort();
}

static void print_json(json_t *take)
{
	char *text = mem_must(json_dumps(take, JSON_COMPACT));

	(void)puts(text);
	free(text);
	json_decref(take);
}

static json_t *summary(const struct profile *p)
{
	json_t *o = mem_must(json_object()), *files = mem_must(json_array());

	set(o, "name", json_string(p->name));
	set(o, "version", p->version ? json_integer((json_int_t)p->version) : json_null());
	set(o, "description", p->description ? json_string(p->description) : json_null());
	set(o, "digest", json_string(p->policy->digest));
	set(o, "rules", json_integer((json_int_t)p->policy->rules_n));
	for (size_t i = 0; i < p->files.n; i++) {
		char quoted[4096];

		push(files, json_string(text_quote(p->files.v[i], quoted, sizeof(quoted))));
	}
	set(o, "files", files);
	return o;
}

static int check(const struct options *o)
{
	json_t *list = mem_must(json_array());
	int status = 0;

	for (size_t i = 1; i < o->words_n; i++) {
		struct profile p = {0};
		struct err err = {0};
		json_t *one;

		if (profile_args_load(o->words[i], o->floor, &p, &err) < 0) {
			char quoted[500];

			status = 1;
			one = mem_must(json_object());
			set(one, "profile",
				json_string(text_quote(o->words[i], quoted, sizeof(quoted))));
			set(one, "error", json_string(text_is_line(err.msg) ? err.msg : "invalid"));
			if (!o->want_json)
				(void)verb_fail("profile", &err);
		} else {
			one = summary(&p);
			if (!o->want_json)
				(void)printf("%s: ok, %zu rule%s, digest %.12s\n", p.name,
					p.policy->rules_n, p.policy->rules_n == 1 ? "" : "s",
					p.policy->digest);
		}
		push(list, one);
		profile_done(&p);
	}
	if (o->want_json)
		print_json(list);
	else
		json_decref(list);
	return status;
}

static void show_rules(const struct policy *p, const struct policy_rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *line = profile_args_rule_line(p, &rules[i]);

		(void)printf("  %-24s %s\n", rules[i].id, line);
		if (rules[i].reason)
			(void)printf("  %-24s   \"%s\"\n", "", rules[i].reason);
	}
}

static int show(const struct options *o)
{
	struct profile p = {0};
	struct err err = {0};

	if (profile_args_load(o->words[1], o->floor, &p, &err) < 0)
		return verb_fail("profile", &err);
	if (o->want_json) {
		AUTO_FREE char *json = policy_to_json(p.policy);
		json_t *all = summary(&p);

		set(all, "policy", json_loads(json, 0, NULL));
		print_json(all);
	} else {
		(void)printf("%s%s%s\n", p.name, p.description ? ": " : "",
			p.description ? p.description : "");
		(void)printf("digest %s\n", p.policy->digest);
		for (size_t i = 0; i < p.files.n; i++) {
			char quoted[4096];

			(void)printf("from %s\n", text_quote(p.files.v[i], quoted, sizeof(quoted)));
		}
		(void)printf("rules%s\n", p.policy->rules_n ? ":" : ": none, so no network");
		show_rules(p.policy, p.policy->rules, p.policy->rules_n);
		if (p.policy->floor_n)
			(void)puts("floor (all of this must be allowed here too):");
		show_rules(p.policy, p.policy->floor, p.policy->floor_n);
	}
	profile_done(&p);
	return 0;
}

static void lines_of(const struct policy *p, struct strv *ret)
{
	struct err err = {0};

	for (size_t i = 0; i < p->rules_n + p->floor_n; i++) {
		bool is_floor = i >= p->rules_n;
		const struct policy_rule *r = is_floor ? &p->floor[i - p->rules_n] : &p->rules[i];
		AUTO_FREE char *line = profile_args_rule_line(p, r);
		AUTO_FREE char *text = text_format("%s%s%s%s", is_floor ? "floor " : "", line,
			r->reason ? " because " : "", r->reason ? r->reason : "");

		if (strv_add(ret, text, &err) < 0)
			abort(); /* POLICY_RULES_MAX is far below the cap */
	}
}

static json_t *only_in(const struct strv *a, const struct strv *b, bool want_print, char mark)
{
	json_t *list = mem_must(json_array());

	for (size_t i = 0; i < a->n; i++) {
		if (strv_has(b, a->v[i]))
			continue;
		push(list, json_string(a->v[i]));
		if (want_print)
			(void)printf("%c %s\n", mark, a->v[i]);
	}
	return list;
}

static int diff(const struct options *o)
{
	struct profile a = {0}, b = {0};
	struct strv left = {0}, right = {0};
	struct err err = {0};
	json_t *all, *removed, *added;
	bool is_same;

	if (profile_args_load(o->words[1], o->floor, &a, &err) < 0)
		return verb_fail("profile", &err);
	if (profile_args_load(o->words[2], o->floor, &b, &err) < 0) {
		profile_done(&a);
		return verb_fail("profile", &err);
	}
	lines_of(a.policy, &left);
	lines_of(b.policy, &right);
	removed = only_in(&left, &right, !o->want_json, '-');
	added = only_in(&right, &left, !o->want_json, '+');
	is_same = json_array_size(removed) == 0 && json_array_size(added) == 0 &&
		  memcmp(&a.policy->budget, &b.policy->budget, sizeof(a.policy->budget)) == 0;
	if (is_same != (json_array_size(removed) == 0 && json_array_size(added) == 0) &&
		!o->want_json)
		(void)puts("the budget over everything differs");
	all = mem_must(json_object());
	set(all, "same", json_boolean(is_same));
	set(all, "removed", removed);
	set(all, "added", added);
	if (o->want_json)
		print_json(all);
	else
		json_decref(all);
	strv_done(&left);
	strv_done(&right);
	profile_done(&a);
	profile_done(&b);
	return is_same ? 0 : 1;
}

/* One line: "VERDICT [METHOD] TARGET". 1: as expected, 0: not, -EINVAL: not a line. */
static int test_line(const struct policy *p, char *line, json_t *results, const struct options *o,
	struct err *err)
{
	char *words[4] = {0};
	struct explain_target t;
	struct explain_answer a;
	struct policy_rule scratch = {0};
	json_t *one;
	size_t n = 0;
	bool ok;

	for (char *rest = line, *word; n < 4 && (word = strsep(&rest, " \t\r\n")) != NULL;) {
		if (word[0])
			words[n++] = word;
	}
	if (n < 2 || n > 3)
		return err_set(err, EINVAL, "a line is 'allow|deny|ask [METHOD] TARGET'");
	if (policy_rule_action(&scratch, words[0], err) < 0 ||
		explain_parse(n == 3 ? words[1] : NULL, words[n - 1], &t, err) < 0)
		return -err->code;
	explain_decide(p, &t, NULL, &a);
	ok = strcmp(a.verdict, words[0]) == 0;
	one = mem_must(json_object());
	set(one, "expected", json_string(words[0]));
	set(one, "ok", json_boolean(ok));
	set(one, "verdict", json_string(a.verdict));
	set(one, "message", json_string(a.text));
	push(results, one);
	if (!o->want_json)
		(void)printf("%-4s %s%s%s\n", ok ? "ok" : "FAIL", a.text, ok ? "" : "; expected ",
			ok ? "" : words[0]);
	return ok;
}

static int run_test(
	const struct policy *p, FILE *f, const struct options *o, json_t *results, struct err *err)
{
	char line[LINE_BYTES];
	size_t number = 0;
	int failed = 0;

	while (fgets(line, sizeof(line), f)) {
		size_t blank = strspn(line, " \t\r\n");
		int r;

		number++;
		if (!strchr(line, '\n') && !feof(f))
			return err_set(
				err, E2BIG, "line %zu is longer than %d bytes", number, LINE_BYTES);
		if (line[blank] == '\0' || line[blank] == '#')
			continue;
		r = test_line(p, line + blank, results, o, err);
		if (r < 0)
			return err_wrap(err, "line %zu", number);
		failed += r == 0;
	}
	return failed;
}

static int test(const struct options *o)
{
	AUTO_FILE FILE *f = fopen(o->words[2], "re");
	json_t *results, *all;
	struct profile p = {0};
	struct err err = {0};
	char quoted[200];
	size_t n;
	int failed;

	(void)text_quote(o->words[2], quoted, sizeof(quoted));
	if (!f) {
		(void)err_sys(&err, "open '%s'", quoted);
		return verb_fail("profile", &err);
	}
	if (profile_args_load(o->words[1], o->floor, &p, &err) < 0)
		return verb_fail("profile", &err);
	results = mem_must(json_array());
	failed = run_test(p.policy, f, o, results, &err);
	n = json_array_size(results);
	profile_done(&p);
	all = mem_must(json_object());
	set(all, "ok", json_boolean(failed == 0));
	set(all, "results", results);
	if (failed >= 0 && o->want_json)
		print_json(all);
	else
		json_decref(all);
	if (failed < 0) {
		(void)err_wrap(&err, "%s", quoted);
		return verb_fail("profile", &err);
	}
	if (!o->want_json)
		(void)printf("%zu of %zu as expected\n", n - (size_t)failed, n);
	return failed ? 1 : 0;
}

static const struct {
	const char *name;
	size_t least, most; /* words behind it */
	int (*main)(const struct options *o);
} words[] = {
	{"check", 1, 63, check},
	{"show", 1, 1, show},
	{"diff", 2, 2, diff},
	{"test", 2, 2, test},
};

int verb_profile(int argc, char **argv)
{
	struct options o = {0};
	struct err err = {0};
	char quoted[64];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			(void)fputs(help, stdout);
			return 0;
		}
	}
	/* Those of a server. */
	if (argc > 1 && (strcmp(argv[1], "put") == 0 || strcmp(argv[1], "get") == 0 ||
				strcmp(argv[1], "ls") == 0))
		return verb_remote(argc, argv);
	if (parse(argc, argv, &o, &err) < 0)
		return verb_fail("profile", &err);
	for (size_t i = 0; o.words_n > 0 && i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(o.words[0], words[i].name) != 0)
			continue;
		if (o.words_n - 1 < words[i].least || o.words_n - 1 > words[i].most) {
			(void)err_set(&err, EINVAL, "%s takes %s; see 'bawn profile --help'",
				words[i].name,
				words[i].least == 2 ? "two words behind it"
				: words[i].most > 1 ? "one profile or more"
						    : "one profile");
			return verb_fail("profile", &err);
		}
		return words[i].main(&o);
	}
	(void)err_set(&err, EINVAL,
		"'%s' is not accepted; accepted: check, show, diff, test, and on a "
		"server put, get, ls",
		text_quote(o.words_n ? o.words[0] : "", quoted, sizeof(quoted)));
	return verb_fail("profile", &err);
}
