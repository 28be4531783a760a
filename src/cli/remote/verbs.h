/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/remote/verbs - the verbs that talk to a server, listed once for both programs.
 *
 * `bawn` shows them in its help, completes them and execs `bawnd`; `bawnd` has their code.
 * X(name, arguments, summary, options for completion)
 */
#define REMOTE_CONNECT "--server --key --state --json --help"
#define REMOTE_VERBS(X)                                                                            \
	X(new, "[options]", "make a sandbox on the server",                                        \
		"--name --template --ttl --env --label --memory --cpus --disk --pids --private "   \
		"--idle --profile --allow --deny " REMOTE_CONNECT)                                 \
	X(ls, "[options]", "list the sandboxes", "--all --label --quiet " REMOTE_CONNECT)          \
	X(info, "SANDBOX", "everything about one, its walls included", REMOTE_CONNECT)             \
	X(exec, "[options] SANDBOX -- CMD [ARG...]", "run a command in it",                        \
		"--env --cwd --user --tty --detach --no-stdin --timeout " REMOTE_CONNECT)          \
	X(shell, "SANDBOX", "a shell in it; ^P^Q detaches",                                        \
		"--attach --user --cwd " REMOTE_CONNECT)                                           \
	X(cp, "FROM TO", "copy files: SANDBOX:PATH is inside", "--user --quiet " REMOTE_CONNECT)   \
	X(logs, "[-f] SANDBOX", "what ran in it and what came of it", "--follow " REMOTE_CONNECT)  \
	X(kill, "SANDBOX...", "end it", "--all " REMOTE_CONNECT)                                   \
	X(ttl, "SANDBOX TIME", "let it live TIME from now", REMOTE_CONNECT)                        \
	X(events, "[-f] [SANDBOX]", "who did what, when", "--follow --after " REMOTE_CONNECT)      \
	X(port, "SANDBOX PORT [LOCAL]", "the address of a port inside, or forward it here",        \
		REMOTE_CONNECT)                                                                    \
	X(asks, "", "what sandboxes want and wait for", "--all " REMOTE_CONNECT)                   \
	X(approve, "[--sandbox | --always] ASK...", "allow what a sandbox waits for",              \
		"--sandbox --always " REMOTE_CONNECT)                                              \
	X(deny, "ASK...", "refuse it", REMOTE_CONNECT)                                             \
	X(top, "", "the sandboxes and what they use, live", "--once --every " REMOTE_CONNECT)      \
	X(key, "create|list|revoke", "make and revoke API keys of a server here",                  \
		"--tenant --name --state --json --help")                                           \
	X(secret, "set|rotate|rm|show-placeholder NAME | ls",                                      \
		"credentials that boxes use and never see",                                        \
		"--file --remote --passphrase " REMOTE_CONNECT)

#define REMOTE_DECLARE(name, args, summary, options) int verb_##name(int argc, char **argv);
REMOTE_VERBS(REMOTE_DECLARE)
#undef REMOTE_DECLARE

/* `bawn` has these too, and hands over what a server has to answer. */
int verb_explain(int argc, char **argv);
int verb_profile(int argc, char **argv);

struct err;

/* src/daemon/state.h: become the user who owns the store, which is in *ret_dir. */
int state_enter_db(const char *state, char **ret_dir, struct err *err);
