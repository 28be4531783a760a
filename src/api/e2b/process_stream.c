/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/process_stream - process.Process Start and Connect: a process's life as a stream.
 *
 *   start (the first frame, once the guest says the process runs) - data… and keepalives - end,
 *   end frame. An error instead of any of these is an end frame with it.
 *
 * The process does not depend on the stream: a client that goes away leaves it running, one that
 * does not read makes it wait (the guest gets no credit while our queue is full).
 */
#include "api/e2b/base64.h"
#include "api/e2b/envd.h"
#include "api/e2b/json_text.h"
#include "api/e2b/question.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

#define COMMAND_MAX 256  /* bytes of it in an event */
#define GRACE_MS    1000 /* the guest ends a process that is late; we wait this much longer */

struct process_stream {
	struct envd_call call;
	bool is_start;       /* Start, not Connect */
	size_t held;         /* bytes written to the client whose credit we keep back */
	uint64_t timeout_ms; /* of the process; 0 = none */
	uint64_t quiet_ms;   /* a keepalive after so long without a frame */
	struct loop_timer keepalive;
	struct guest_which which;      /* Connect: for error texts; tag owned */
	char command[COMMAND_MAX + 1]; /* of Start, for the event: cut */
};

static struct process_stream *of(struct envd_call *c)
{
	return (struct process_stream *)c;
}

/* ---- events ---- */

static void note(struct process_stream *s, const char *outcome, uint32_t pid)
{
	const struct sandbox *sb = s->call.sb;
	json_t *detail;

	if (!s->is_start || !s->command[0])
		return;
	detail = json_pack("{s:s, s:s, s:I}", "command", s->command, "user", s->call.user, "pid",
		(json_int_t)pid);
	sandbox_event(
		s->call.sb, sb->row.token[0] ? "token" : "anyone", "exec.start", outcome, detail);
}

/* Without the beginning of a character whose end was cut off: jansson takes whole ones only. */
static size_t whole_utf8(const char *s, size_t n)
{
	size_t at = n;

	while (at > 0 && n - at < 3 && ((unsigned char)s[at - 1] & 0xc0) == 0x80)
		at--;
	if (at > 0 && (unsigned char)s[at - 1] >= 0xc0) {
		unsigned char lead = (unsigned char)s[at - 1];
		size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

		if (n - (at - 1) < length)
			return at - 1;
	}
	return n;
}

/* The words with blanks between, cut. */
static void remember(struct process_stream *s, char *const *argv)
{
	size_t n = 0;

	for (size_t i = 0; argv[i] && n < COMMAND_MAX; i++) {
		size_t take = strlen(argv[i]);

		if (i > 0)
			s->command[n++] = ' ';
		take = take < COMMAND_MAX - n ? take : COMMAND_MAX - n;
		memcpy(s->command + n, argv[i], take);
		n += take;
	}
	s->command[whole_utf8(s->command, n)] = '\0';
}

/* ---- frames ---- */

static void refresh(struct process_stream *s)
{
	loop_timer_set(s->call.api->loop, &s->keepalive, s->quiet_ms);
}

static void keepalive(struct loop_timer *t)
{
	static const char json[] = "{\"event\":{\"keepalive\":{}}}";
	struct process_stream *s =
		(struct process_stream *)((char *)t - offsetof(struct process_stream, keepalive));

	envd_stream_message(&s->call, json, sizeof(json) - 1);
	refresh(s);
}

static void drained(struct http_request *r)
{
	struct envd_call *c = r->state;

	if (c && !c->is_over)
		envd_unhold(c, &of(c)->held);
}

/* Output is the hot path: no JSON tree, no allocation, one copy, one write. */
static void data(struct envd_call *c, uint8_t stream, const char *p, size_t n)
{
	static const char *const before[] = {
		[GUEST_STDOUT] = "{\"event\":{\"data\":{\"stdout\":\"",
		[GUEST_STDERR] = "{\"event\":{\"data\":{\"stderr\":\"",
		[GUEST_PTY] = "{\"event\":{\"data\":{\"pty\":\"",
	};
	static const char after[] = "\"}}}";
	static char frame[CONNECT_HEADER + 64 + BASE64_SIZE(FRAME_PAYLOAD_MAX)];
	size_t at = CONNECT_HEADER, head;

	if (stream < GUEST_STDOUT || stream > GUEST_PTY || c->r->status == 0 ||
		n > FRAME_PAYLOAD_MAX) {
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
		return;
	}
	head = strlen(before[stream]);
	memcpy(frame + at, before[stream], head);
	at += head;
	at += base64_encode(frame + at, p, n);
	memcpy(frame + at, after, sizeof(after) - 1);
	at += sizeof(after) - 1;
	connect_frame_header(frame, 0, (uint32_t)(at - CONNECT_HEADER));
	http_write(c->r, frame, at);
	if (!envd_hold(c, n, &of(c)->held))
		return;
	envd_unhold(c, &of(c)->held);
	refresh(of(c));
}

static void started(struct process_stream *s, uint32_t pid)
{
	char json[64];
	int n = snprintf(json, sizeof(json), "{\"event\":{\"start\":{\"pid\":%u}}}", pid);

	envd_stream_begin(&s->call);
	http_set_drained(s->call.r, drained);
	envd_stream_message(&s->call, json, (size_t)n);
	refresh(s);
	note(s, "ok", pid);
}

/* Go's words for a process state. */
static void status_text(const struct guest_exit *e, char out[64])
{
	static const char *const names[] = {[1] = "hangup",
		"interrupt",
		"quit",
		"illegal instruction",
		"trace/breakpoint trap",
		"aborted",
		"bus error",
		"floating point exception",
		"killed",
		"user defined signal 1",
		"segmentation fault",
		"user defined signal 2",
		"broken pipe",
		"alarm clock",
		"terminated"};
	const char *core = e->has_core ? " (core dumped)" : "";

	if (e->exit_code >= 0)
		(void)snprintf(out, 64, "exit status %d", e->exit_code);
	else if (e->signal < sizeof(names) / sizeof(names[0]) && names[e->signal])
		(void)snprintf(out, 64, "signal: %s%s", names[e->signal], core);
	else
		(void)snprintf(out, 64, "signal: signal %u%s", e->signal, core);
}

static void exited(struct process_stream *s, const struct guest_exit *e)
{
	char status[64], json[256];
	bool is_fine = e->exit_code == 0;
	int n;

	if (e->is_timed_out && s->is_start) {
		envd_stream_end(&s->call, CONNECT_DEADLINE_EXCEEDED, "context deadline exceeded");
		return;
	}
	status_text(e, status);
	n = snprintf(json, sizeof(json),
		"{\"event\":{\"end\":{\"exitCode\":%d,\"exited\":%s,\"status\":\"%s\"%s%s%s}}}",
		e->exit_code >= 0 ? e->exit_code : -1, e->exit_code >= 0 ? "true" : "false", status,
		is_fine ? "" : ",\"error\":\"", is_fine ? "" : status, is_fine ? "" : "\"");
	envd_stream_message(&s->call, json, (size_t)n);
	envd_stream_end(&s->call, CONNECT_OK, NULL);
}

static void message(struct envd_call *c, uint16_t kind, struct frame_reader *body)
{
	struct guest_started begun = {0};
	struct guest_exit e = {0};

	if (kind == MSG_STARTED && c->r->status == 0 && guest_started_get(body, &begun))
		started(of(c), begun.pid);
	else if (kind == MSG_EXIT && c->r->status != 0 && guest_exit_get(body, &e))
		exited(of(c), &e);
	else if (kind != MSG_LOST || c->r->status == 0)
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
}

static void ended(struct envd_call *c, int code, const char *why)
{
	struct process_stream *s = of(c);

	if (code != 0 && c->r->status == 0)
		note(s, connect_code_name(connect_code_of(code)), 0);
	if (code == 0)
		envd_fail(c, CONNECT_INTERNAL, "the guest gave no answer");
	else if (code == ESRCH && !s->is_start)
		envd_fail_which(c, &s->which);
	else if (s->is_start && (code == ENOENT || code == EACCES || code == ENOEXEC))
		/* Not the process is missing but the program: upstream's verdict too. */
		envd_fail(c, CONNECT_INVALID_ARGUMENT, "error starting process: %s", why);
	else
		envd_fail_errno(c, code, why);
}

/* ---- the request ---- */

static bool bad(struct process_stream *s, const char *field)
{
	envd_fail(&s->call, CONNECT_INVALID_ARGUMENT, "unmarshal message: invalid value for '%s'",
		field);
	return false;
}

/* cmd and args as one vector of borrowed strings; the vector is the caller's. */
static char **get_argv(json_t *process)
{
	json_t *args = json_object_get(process, "args");
	const char *cmd;
	char **argv;
	size_t n = json_array_size(args);

	if ((args && !json_is_array(args) && !json_is_null(args)) || n >= GUEST_ARGS_MAX ||
		!envd_get_string(process, "cmd", &cmd) || !cmd[0])
		return NULL;
	argv = mem_must(calloc(n + 2, sizeof(*argv)));
	memcpy(&argv[0], &cmd, sizeof(cmd));
	for (size_t i = 0; i < n; i++) {
		const char *arg = json_string_value(json_array_get(args, i));

		if (!arg) {
			free(argv);
			return NULL;
		}
		memcpy(&argv[i + 1], &arg, sizeof(arg));
	}
	return argv;
}

/* envs as K=V; NULL if malformed. Freed with frame_free_strings(). */
static char **get_env(json_t *process)
{
	const char *name;
	json_t *envs, *v;
	char **env;
	size_t n = 0;

	if (!envd_get_object(process, "envs", &envs) || json_object_size(envs) > GUEST_ARGS_MAX)
		return NULL;
	env = mem_must(calloc(json_object_size(envs) + 1, sizeof(*env)));
	json_object_foreach(envs, name, v)
	{
		/* The whole message is capped, and so is each of these. */
		if (!json_is_string(v) || !name[0] || strchr(name, '=')) {
			frame_free_strings(env);
			return NULL;
		}
		env[n++] = text_format("%s=%s", name, json_string_value(v));
	}
	return env;
}

static bool get_pty(struct process_stream *s, json_t *msg, struct guest_start *ret)
{
	json_t *pty, *size = NULL;
	uint32_t cols = 0, rows = 0;

	if (!envd_get_object(msg, "pty", &pty) || (pty && !envd_get_object(pty, "size", &size)) ||
		(size &&
			(!envd_get_u32(size, "cols", &cols) || !envd_get_u32(size, "rows", &rows))))
		return bad(s, "pty");
	if (cols > UINT16_MAX || rows > UINT16_MAX)
		return bad(s, "pty.size");
	if (pty)
		ret->flags |= GUEST_START_PTY;
	ret->cols = (uint16_t)cols;
	ret->rows = (uint16_t)rows;
	return true;
}

static bool put_start(struct process_stream *s, json_t *msg, struct frame_writer *w)
{
	struct guest_start start = {.user = s->call.user, .timeout_ms = s->timeout_ms};
	AUTO_FREE char **argv = NULL;
	const char *cwd, *tag;
	static char nothing[] = "";
	json_t *process;
	bool has_stdin;

	if (!envd_get_object(msg, "process", &process) || !process)
		return bad(s, "process");
	if (!envd_get_string(process, "cwd", &cwd))
		return bad(s, "process.cwd");
	if (!envd_get_string(msg, "tag", &tag))
		return bad(s, "tag");
	if (!envd_get_bool(msg, "stdin", true, &has_stdin))
		return bad(s, "stdin");
	if (!get_pty(s, msg, &start))
		return false;
	argv = get_argv(process);
	if (!argv)
		return bad(s, "process.cmd or process.args");
	start.env = get_env(process);
	if (!start.env)
		return bad(s, "process.envs");
	start.flags |= has_stdin ? GUEST_START_STDIN : 0;
	start.key = nothing;
	memcpy(&start.tag, &tag, sizeof(tag));
	memcpy(&start.cwd, &cwd, sizeof(cwd));
	start.argv = argv;
	remember(s, argv);
	guest_start_put(w, &start);
	frame_free_strings(start.env);
	return true;
}

static bool put_attach(struct process_stream *s, json_t *msg, struct frame_writer *w)
{
	struct guest_attach attach = {.from = GUEST_FROM_NOW};

	if (!envd_get_which(&s->call, msg, &attach.which))
		return false;
	s->which.pid = attach.which.pid;
	s->which.tag = mem_strdup(attach.which.tag);
	guest_attach_put(w, &attach);
	return true;
}

static void linked(struct envd_call *c)
{
	struct process_stream *s = of(c);
	struct frame_writer w = {0};
	json_t *msg = envd_json(c, buf_data(&c->body), buf_len(&c->body));

	if (msg && (s->is_start ? put_start(s, msg, &w) : put_attach(s, msg, &w)))
		(void)envd_ask(c, s->is_start ? GUEST_START : GUEST_ATTACH, &w, ENVD_ASK_ONLY);
	buf_done(&w.buf);
	json_decref(msg);
	if (c->is_over)
		return;
	/* A stream may last for days: what its request took goes now, also from the account
	 * that all sandboxes share. */
	envd_uncharge(c, buf_len(&c->body));
	buf_done(&c->body);
}

static void body(struct envd_call *c, const char *p, size_t n)
{
	(void)p;
	(void)n;
	envd_call_link(c);
}

static void release(struct envd_call *c)
{
	struct process_stream *s = of(c);

	loop_timer_cancel(c->api->loop, &s->keepalive);
	free(s->which.tag);
}

static void start(struct api *a, struct http_request *r, struct sandbox *sb, bool is_start)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct process_stream),
		.body = body,
		.linked = linked,
		.message = message,
		.data = data,
		.ended = ended,
		.release = release,
	};
	struct process_stream *s;

	if (!envd_is_type(r, "application/connect+json"))
		return;
	s = (struct process_stream *)envd_call_start(a, r, sb, ENVD_STREAM, &ops);
	s->is_start = is_start;
	s->keepalive.fire = keepalive;
	s->quiet_ms = envd_quiet_ms(r);
	if (!envd_timeout_ms(&s->call, &s->timeout_ms))
		return;
	if (!envd_basic_user(r, s->call.user)) {
		envd_fail(&s->call, CONNECT_UNAUTHENTICATED, "invalid username");
		return;
	}
	/* A process that is late is ended by the guest; this is for a guest that does not. */
	if (s->timeout_ms > 0)
		envd_call_deadline(&s->call, s->timeout_ms + (is_start ? GRACE_MS : 0));
	envd_call_collect(&s->call, ENVD_REQUEST_MAX);
}

void envd_start(struct api *a, struct http_request *r, struct sandbox *sb)
{
	start(a, r, sb, true);
}

void envd_connect(struct api *a, struct http_request *r, struct sandbox *sb)
{
	start(a, r, sb, false);
}
