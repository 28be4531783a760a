/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/exec - `bawn exec` and `bawn shell`: commands in a sandbox of a server.
 */
#include "base/mem.h"
#include "cli/remote/process.h"
#include "cli/remote/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char exec_about[] =
	"Run a command in a sandbox. Its output is printed as it comes, what we read is sent\n"
	"to it, and its exit status becomes ours: 124 its time was up, 125 bawn failed,\n"
	"128+N signal N ended it.\n";

static int print_started(const struct args *a, const struct client_box *b, uint64_t pid)
{
	if (a->want_json)
		(void)printf("{\"sandbox\":\"%s\",\"pid\":%llu}\n", b->id, (unsigned long long)pid);
	else
		(void)printf("%llu\n", (unsigned long long)pid);
	return 0;
}

static int run(const struct args *a, const struct process_wish *w, const char *verb)
{
	AUTO(client_close) struct client *c = NULL;
	struct client_box box = {0};
	struct process_result result = {.status = EXIT_BAWN};
	struct err err = {0};
	int r = client_open(a, &c, &err);

	if (r >= 0)
		r = client_box_live(c, a->rest[0], &box, &err);
	if (r >= 0)
		r = process_run(c, &box, w, &result, &err);
	if (r >= 0 && w->is_detached)
		result.status = print_started(a, &box, result.pid);
	else if (r >= 0 && result.is_left) {
		(void)fprintf(stderr,
			"\r\nleft running; 'bawn shell %s --attach %llu' goes back to it\n",
			a->rest[0], (unsigned long long)result.pid);
		result.status = 0;
	}
	client_box_done(&box);
	/* The message, and the status that a shell would give. */
	if (r < 0 && result.status <= 128)
		(void)args_fail(verb, &err);
	return result.status;
}

/* What our terminal is, unless something else was asked for. */
static int add_term(struct strv *env, struct err *err)
{
	const char *term = getenv("TERM");
	AUTO_FREE char *pair = text_format("TERM=%s", term && *term ? term : "xterm-256color");

	for (size_t i = 0; i < env->n; i++) {
		if (text_starts(env->v[i], "TERM="))
			return 0;
	}
	return strv_add(env, pair, err);
}

int verb_exec(int argc, char **argv)
{
	struct process_wish w = {.want_stdin = true};
	struct strv env = {0};
	const char *timeout = NULL;
	bool no_stdin = false;
	const struct arg table[] = {
		{"--env", 'e', "NAME=VALUE", "set a variable", ARG_LIST, &env},
		{"--cwd", 'w', "PATH", "start there", ARG_TEXT, &w.cwd},
		{"--user", 'u', "USER", "as whom (user)", ARG_TEXT, &w.user},
		{"--tty", 't', NULL, "with a terminal", ARG_FLAG, &w.want_tty},
		{"--detach", 'd', NULL, "print its pid and leave it running", ARG_FLAG,
			&w.is_detached},
		{"--no-stdin", 'n', NULL, "send it nothing to read", ARG_FLAG, &no_stdin},
		{"--timeout", 0, "TIME", "kill it after TIME: 90, 300ms, 5m", ARG_TEXT, &timeout},
	};
	const struct args_verb v = {.name = "exec",
		.usage = "[options] SANDBOX [--] CMD [ARG...]",
		.about = exec_about,
		.table = table,
		.table_n = sizeof(table) / sizeof(table[0]),
		.min = 2,
		.max = -1,
		.stops_at_command = true};
	struct args a;
	struct err err = {0};
	int status, r = args_parse(&v, argc, argv, &a, &err);

	if (r >= 0 && timeout && !a.want_help)
		r = text_parse_duration(timeout, "--timeout", &w.timeout_ms, &err);
	for (size_t i = 0; r >= 0 && i < env.n; i++) {
		if (!strchr(env.v[i], '=') || env.v[i][0] == '=')
			r = err_set(&err, EINVAL, "--env needs NAME=VALUE");
	}
	if (r >= 0 && w.want_tty)
		r = add_term(&env, &err);
	if (r < 0 || a.want_help) {
		strv_done(&env);
		return r < 0 ? args_fail("exec", &err) : 0;
	}
	w.env = env;
	/* A detached process has nobody to read from. */
	w.want_stdin = !no_stdin && !w.is_detached;
	a.rest[a.rest_n] = NULL;
	w.argv = a.rest + 1;
	status = run(&a, &w, "exec");
	strv_done(&env);
	return status;
}

static const char shell_about[] =
	"A login shell in a sandbox, on a terminal of its own. ^P^Q leaves it running and\n"
	"prints how to come back.\n";

int verb_shell(int argc, char **argv)
{
	char bash[] = "/bin/bash", interactive[] = "-i", login[] = "-l";
	char *const words[] = {bash, interactive, login, NULL};
	struct process_wish w = {.want_stdin = true, .want_tty = true, .argv = words};
	const char *attach = NULL;
	const struct arg table[] = {
		{"--attach", 'a', "PID", "go back to a shell that was left", ARG_TEXT, &attach},
		{"--user", 'u', "USER", "as whom (user)", ARG_TEXT, &w.user},
		{"--cwd", 'w', "PATH", "start there", ARG_TEXT, &w.cwd},
	};
	const struct args_verb v = {.name = "shell",
		.usage = "[options] SANDBOX",
		.about = shell_about,
		.table = table,
		.table_n = sizeof(table) / sizeof(table[0]),
		.min = 1,
		.max = 1};
	struct args a;
	struct err err = {0};
	int status, r = args_parse(&v, argc, argv, &a, &err);

	if (r >= 0 && attach && !a.want_help) {
		r = text_parse_u64(attach, "--attach", 1, INT32_MAX, &w.pid, &err);
		w.argv = NULL;
	}
	if (r >= 0)
		r = add_term(&w.env, &err);
	if (r >= 0)
		r = strv_add(&w.env, "LANG=C.UTF-8", &err);
	status = r < 0 ? args_fail("shell", &err) : a.want_help ? 0 : run(&a, &w, "shell");
	strv_done(&w.env);
	return status;
}
