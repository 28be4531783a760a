/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/verb - the table of verbs, and how a verb says that it failed.
 */
#include "cli/verb.h"

#include "cli/remote/verbs.h"

#include <string.h>

#define RUN_OPTIONS                                                                                \
	"--root --cow --rw --ro --hide --no-protect --cwd --env --pass-env --user --hostname "     \
	"--memory --cpus --pids --disk --io --open-files --timeout --kill-after --net "            \
	"--allow --deny --floor --resolver --upstream-ca --upstream-proxy --no-proxy "             \
	"--loopback --no-loopback --wall --allow-sudo --profile --json --plan --no-explain "       \
	"--quiet --help"
#define SERVE_OPTIONS                                                                              \
	"--listen --domain --tls-cert --tls-key --state --ttl --ttl-max --memory --disk --pids "   \
	"--cpus --open-files --max-sandboxes --spares --kill-on-exit --webhooks-private "          \
	"--json-log "                                                                              \
	"--config --help"

const struct verb verb_table[] = {
	{"run", "[options] -- CMD [ARG...]", "run a command in a fresh sandbox", verb_run, 0,
		RUN_OPTIONS, 0},
	{"doctor", "[--json]", "what this machine can give, and how to get the rest", verb_doctor,
		0, "--json --help", 0},
	{"attack", "[--json] [--list] [--only GLOB]",
		"attack a fresh sandbox and show which walls held", verb_attack, 0,
		"--json --list --only --help", 0},
	{"diff", "[RUN [PATH...]]", "show what a run with --cow changed", verb_diff, 0,
		"--json --stat --help", 0},
	{"apply", "RUN [PATH...]", "make those changes for real", verb_apply, 0,
		"--dry-run --force --allow-protected --skip-protected --json --help", 0},
	{"discard", "RUN | --all", "forget those changes", verb_discard, 0, "--all --json --help",
		0},
	{"profile", "check|show|diff|test PROFILE...",
		"what a profile allows, and whether it is what you meant", verb_profile, 0,
		"--floor --json --help", 0},
	{"explain", "--net [METHOD] TARGET", "would this get out, and why?", verb_explain, 0,
		"--net --profile --sandbox --floor --program --json --help", 0},
	{"learn", "[options] -- CMD [ARG...]", "run a command, and make the profile that it needs",
		verb_learn, 0, "--out --name --names-only --no-replay " RUN_OPTIONS, 0},
	{"serve", "[options]", "the server: sandboxes for the E2B SDKs, curl and the verbs below",
		serve_main, 0, SERVE_OPTIONS, 0},
	{"completion", "bash|zsh|fish", "print a completion script for your shell", verb_completion,
		0, NULL, 0},
	{"help", "[COMMAND]", "explain a command", verb_help, 0, NULL, 0},
	{"version", "", "print the version", verb_version, 1, NULL, 0},
#define REMOTE_ENTRY(name, args, summary, options)                                                 \
	{#name, args, summary, verb_remote, 0, options, 1},
	REMOTE_VERBS(REMOTE_ENTRY)
	/* Started by `bawn attack` inside the box, from a sealed memfd. */
	{"__attack", "", "", attack_inner_main, 1, NULL, 0},
	/* Started by `bawn serve`. */
	{"role-warden", "", "", warden_main, 1, NULL, 0},
	{NULL, NULL, NULL, NULL, 1, NULL, 0},
};

const struct verb *verb_find(const char *name)
{
	for (const struct verb *v = verb_table; v->name; v++) {
		if (strcmp(v->name, name) == 0)
			return v;
	}
	return NULL;
}

int verb_fail(const char *verb, const struct err *err)
{
	(void)fflush(stdout);
	(void)fprintf(stderr, "bawn: %s: %s\n", verb, err->msg);
	return EXIT_BAWN;
}
