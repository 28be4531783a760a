/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/process_rpc - process.Process: the methods that are one question (List, SendSignal,
 * CloseStdin, Update), and GET /envs.
 */
#include "api/e2b/json_text.h"
#include "api/e2b/question.h"
#include "base/mem.h"

#include <signal.h>
#include <string.h>

/* The process the message names, into the request; kept for error texts. */
static bool put_which(struct question *q, json_t *msg, struct frame_writer *w)
{
	struct guest_which which;

	if (!envd_get_which(&q->call, msg, &which))
		return false;
	q->which.pid = which.pid;
	q->which.tag = mem_strdup(which.tag);
	guest_which_put(w, &which);
	return true;
}

static bool ask_signal(struct question *q, json_t *msg, struct frame_writer *w)
{
	json_t *v = json_object_get(msg, "signal");
	const char *name = json_string_value(v);
	json_int_t n = json_integer_value(v);

	if (name)
		n = strcmp(name, "SIGNAL_SIGKILL") == 0   ? SIGKILL
		    : strcmp(name, "SIGNAL_SIGTERM") == 0 ? SIGTERM
							  : 0;
	if (n != SIGKILL && n != SIGTERM) {
		envd_fail(&q->call, CONNECT_UNIMPLEMENTED, "invalid signal: %s",
			name ? name : "SIGNAL_UNSPECIFIED");
		return false;
	}
	if (!put_which(q, msg, w))
		return false;
	frame_put_u32(w, (uint32_t)n);
	/* To the group: who kills a command means what the shell started for it too. */
	frame_put_u8(w, 1);
	return true;
}

static bool ask_update(struct question *q, json_t *msg, struct frame_writer *w)
{
	json_t *pty, *size = NULL;
	uint32_t cols, rows;

	if (!envd_get_object(msg, "pty", &pty) || (pty && !envd_get_object(pty, "size", &size)))
		return envd_question_bad(q, "pty");
	if (!size || !envd_get_u32(size, "cols", &cols) || !envd_get_u32(size, "rows", &rows) ||
		cols == 0 || rows == 0 || cols > UINT16_MAX || rows > UINT16_MAX)
		return envd_question_bad(q, "pty.size");
	if (!put_which(q, msg, w))
		return false;
	frame_put_u16(w, (uint16_t)cols);
	frame_put_u16(w, (uint16_t)rows);
	return true;
}

/* "K=V" as two strings of an object. */
static int put_env(struct buf *b, char *const *env)
{
	int r = buf_add(b, "{", 1);

	for (size_t i = 0; r >= 0 && env && env[i]; i++) {
		size_t n = strcspn(env[i], "=");

		r = i > 0 ? buf_add(b, ",", 1) : 0;
		if (r >= 0)
			r = json_text_addn(b, env[i], n);
		if (r >= 0)
			r = buf_add(b, ":", 1);
		if (r >= 0)
			r = json_text_add(b, env[i][n] ? env[i] + n + 1 : "");
	}
	return r < 0 ? r : buf_add(b, "}", 1);
}

static int put_args(struct buf *b, char *const *args)
{
	int r = buf_add(b, "[", 1);

	for (size_t i = 0; r >= 0 && args[i]; i++) {
		r = i > 0 ? buf_add(b, ",", 1) : 0;
		if (r >= 0)
			r = json_text_add(b, args[i]);
	}
	return r < 0 ? r : buf_add(b, "]", 1);
}

static int put_process(struct buf *b, const struct guest_process *p, bool is_first)
{
	int r = buf_addf(b, "%s{\"config\":{\"cmd\":", is_first ? "" : ",");

	if (r >= 0)
		r = json_text_add(b, p->argv[0]);
	if (r >= 0)
		r = buf_add(b, ",\"args\":", 8);
	if (r >= 0)
		r = put_args(b, p->argv + 1);
	if (r >= 0)
		r = buf_add(b, ",\"envs\":", 8);
	if (r >= 0)
		r = put_env(b, p->env);
	if (r >= 0 && p->cwd[0])
		r = buf_add(b, ",\"cwd\":", 7);
	if (r >= 0 && p->cwd[0])
		r = json_text_add(b, p->cwd);
	if (r >= 0)
		r = buf_addf(b, "},\"pid\":%u", p->pid);
	if (r >= 0 && p->tag[0])
		r = buf_add(b, ",\"tag\":", 7);
	if (r >= 0 && p->tag[0])
		r = json_text_add(b, p->tag);
	return r < 0 ? r : buf_add(b, "}", 1);
}

static bool answer_process(struct question *q, uint16_t kind, struct frame_reader *body)
{
	size_t before = strlen(q->what->before);
	struct guest_process p = {0};
	bool ok = kind == MSG_PROCESS && guest_process_get(body, &p);

	/* Ended ones are remembered for Connect; upstream lists only what runs. */
	if (ok && p.is_running)
		ok = p.argv && p.argv[0] &&
		     put_process(&q->out, &p, buf_len(&q->out) == before) >= 0;
	guest_process_done(&p);
	return ok;
}

static bool answer_envs(struct question *q, uint16_t kind, struct frame_reader *body)
{
	char **env = frame_get_strings(body, GUEST_ARGS_MAX, GUEST_STRING_MAX);
	bool ok = kind == MSG_ENVS && frame_ok(body) && put_env(&q->out, env) >= 0;

	frame_free_strings(env);
	return ok;
}

const struct envd_question process_questions[] = {
	{"/process.Process/List", GUEST_PROCESSES, NULL, answer_process, false, "{\"processes\":[",
		"]}", NULL},
	{"/process.Process/SendSignal", GUEST_SIGNAL, ask_signal, NULL, false, "{", "}", NULL},
	{"/process.Process/CloseStdin", GUEST_CLOSE_INPUT, put_which, NULL, false, "{", "}", NULL},
	{"/process.Process/Update", GUEST_RESIZE, ask_update, NULL, false, "{", "}", NULL},
	{0},
};

void envd_envs(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_question envs = {
		"/envs", GUEST_ENVS, NULL, answer_envs, true, "", "\n", NULL};

	http_field(r, "Cache-Control", "no-store");
	envd_question_get(a, r, sb, &envs);
}
