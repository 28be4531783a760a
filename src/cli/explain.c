/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/explain - `bawn explain --net`: would this get out, and why? Nothing is looked up or tried.
 *
 * With --sandbox the server knows the policy, and `bawnd` asks it.
 */
#include "core/explain.h"
#include "cli/profile_args.h"
#include "cli/verb.h"

#include <errno.h>
#include <string.h>

static const char help[] =
	"usage: bawn explain --net [METHOD] TARGET [--profile PROFILE | --sandbox SANDBOX]\n"
	"\n"
	"Say whether a connection or request would be allowed, by which rule and why, without "
	"trying\n"
	"it. TARGET is a URL, or HOST[:PORT][/PATH]; tcp://HOST:PORT for what is no web protocol.\n"
	"\n"
	"  --profile PROFILE   by this profile, a name or a file (locked)\n"
	"  --sandbox SANDBOX   as it is now for this sandbox of a server\n"
	"  --floor FILE        on this floor instead of " PROFILE_FLOOR_FILE "\n"
	"  --program PATH      asked by this program\n"
	"  --json              for programs\n"
	"\n"
	"Exit status: 0 allowed; 1 denied; 2 asked first, or it depends; 125 bawn failed.\n";

struct options {
	bool want_net, want_json, want_help, is_remote;
	const char *profile, *floor, *program;
	const char *words[2];
	size_t words_n;
};

/* "--name VALUE" or "--name=VALUE"; 1 if it was that. */
static int take(int argc, char **argv, int *at, const char *name, const char **ret)
{
	size_t n = strlen(name);

	if (strncmp(argv[*at], name, n) != 0)
		return 0;
	if (argv[*at][n] == '=') {
		*ret = argv[*at] + n + 1;
		return 1;
	}
	if (argv[*at][n] != '\0' || *at + 1 >= argc)
		return 0;
	*ret = argv[++*at];
	return 1;
}

static int parse(int argc, char **argv, struct options *o, struct err *err)
{
	const char *sandbox = NULL;
	char quoted[64];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--net") == 0)
			o->want_net = true;
		else if (strcmp(argv[i], "--json") == 0)
			o->want_json = true;
		else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			o->want_help = true;
		else if (take(argc, argv, &i, "--profile", &o->profile) ||
			 take(argc, argv, &i, "--floor", &o->floor) ||
			 take(argc, argv, &i, "--program", &o->program))
			continue;
		else if (take(argc, argv, &i, "--sandbox", &sandbox) ||
			 text_starts(argv[i], "--server") || text_starts(argv[i], "--key"))
			o->is_remote = true;
		else if (argv[i][0] == '-' && !o->is_remote)
			return err_set(err, EINVAL,
				"unknown option '%s', or one without its value; accepted: --net, "
				"--profile P, --sandbox ID, --floor FILE, --program PATH, --json",
				text_quote(argv[i], quoted, sizeof(quoted)));
		else if (o->words_n < 2)
			o->words[o->words_n++] = argv[i];
		else if (!o->is_remote)
			return err_set(err, EINVAL, "one METHOD and one TARGET, not more");
	}
	return 0;
}

static int explain(const struct options *o, struct err *err)
{
	struct explain_target t;
	struct explain_answer a;
	struct profile p = {0};
	int r = explain_parse(
		o->words_n == 2 ? o->words[0] : NULL, o->words[o->words_n - 1], &t, err);

	if (r >= 0)
		r = profile_args_load(o->profile ? o->profile : "locked", o->floor, &p, err);
	if (r < 0)
		return r;
	explain_decide(p.policy, &t, o->program, &a);
	if (o->want_json) {
		AUTO_FREE char *json = explain_json(p.policy, &t, o->program);

		(void)puts(json);
	} else {
		(void)puts(a.text);
	}
	profile_done(&p);
	return strcmp(a.verdict, "allow") == 0 ? 0 : strcmp(a.verdict, "deny") == 0 ? 1 : 2;
}

int verb_explain(int argc, char **argv)
{
	struct options o = {0};
	struct err err = {0};
	int r = parse(argc, argv, &o, &err);

	if (r >= 0 && o.want_help) {
		(void)fputs(help, stdout);
		return 0;
	}
	if (r >= 0 && o.is_remote)
		return verb_remote(argc, argv);
	if (r >= 0 && (!o.want_net || o.words_n == 0))
		r = err_set(&err, EINVAL,
			"say what to explain: bawn explain --net [METHOD] TARGET (see --help)");
	if (r >= 0)
		r = explain(&o, &err);
	return r < 0 ? verb_fail("explain", &err) : r;
}
