/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An exec that is there: look at it, read its output from an offset, write to it, signal it.
 */
#include "api/v1/exec.h"
#include "base/mem.h"
#include "base/text.h"

#include <signal.h>
#include <string.h>

#define WAIT_MS     30000
#define WAIT_MAX_MS 600000
#define WAIT_MIN_MS 50 /* time for what is there already to arrive */
#define INPUT_MAX   (1u << 20)
#define LIST_MAX    (2u << 20) /* bytes of a list a guest may send */

/* The row, of a sandbox of the caller's, running or not. */
static int find(struct api *a, const struct api_caller *who, const char *sandbox, const char *id,
	struct store_exec *ret, struct err *err)
{
	struct store_sandbox row = {0};
	int r = v1_row(a, who, sandbox, &row, err);

	if (r == 0)
		r = store_exec_get(a->store, row.id, id, ret, err);
	store_sandbox_done(&row);
	return r;
}

void v1_exec_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct store_exec row = {0};
	struct err err = {0};

	if (find(a, &m->caller, m->params[0], m->params[1], &row, &err) < 0)
		api_reply_err(r, &err);
	else
		api_reply_json(r, 200, exec_json(a, &row, exec_state(a, &row)));
	store_exec_done(&row);
}

/* ---- all that run, whoever started them ---- */

static bool add_process(struct ask *k, uint16_t kind, struct frame_reader *b)
{
	struct guest_process p = {0};
	bool is_good = kind == MSG_PROCESS && guest_process_get(b, &p) && frame_ok(b);
	json_t *argv;

	if (is_good) {
		argv = json_array();
		for (char **v = p.argv; v && *v; v++) {
			k->size += strlen(*v);
			(void)json_array_append_new(argv, v1_text(*v));
		}
		k->size += 200;
		(void)json_array_append_new(json_object_get(k->answer, "processes"),
			json_pack("{s:i, s:s*, s:o, s:o, s:o, s:o, s:b, s:b, s:o}", "pid",
				(int)p.pid, "exec_id", p.key && *p.key ? p.key : NULL, "tag",
				v1_text(p.tag), "argv", argv, "cwd", v1_text(p.cwd), "user",
				v1_text(p.user), "pty", (p.flags & GUEST_START_PTY) != 0, "running",
				p.is_running, "started_at", v1_time((int64_t)p.started_ms)));
	}
	guest_process_done(&p);
	k->is_too_large = k->size > LIST_MAX;
	return is_good && !k->is_too_large;
}

void v1_exec_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct sandbox *sb = v1_sandbox(a, r, &m->caller, m->params[0]);
	struct ask *k;

	if (!sb)
		return;
	k = ask_new(a, r, m);
	k->answer = json_pack("{s:[]}", "processes");
	ask_guest(k, sb, GUEST_PROCESSES, add_process, ask_answer);
}

/* ---- output, from an offset ---- */

/* "12.0.3": stdout, stderr, pty, as our own events' ids say. */
static bool parse_event_id(const struct http_request *r, uint64_t offset[EXEC_STREAMS])
{
	const struct h1_field *f = h1_find(&r->head, "Last-Event-ID");
	char text[80];
	const char *s = text;

	if (!f)
		return true;
	(void)snprintf(
		text, sizeof(text), "%.*s", (int)(f->value.n < 79 ? f->value.n : 79), f->value.p);
	return text_scan_u64(&s, &offset[GUEST_STDOUT]) == 0 && *s++ == '.' &&
	       text_scan_u64(&s, &offset[GUEST_STDERR]) == 0 && *s++ == '.' &&
	       text_scan_u64(&s, &offset[GUEST_PTY]) == 0 && *s == '\0';
}

static int read_offsets(
	const struct http_request *r, uint64_t offset[EXEC_STREAMS], struct err *err)
{
	int q = v1_query_u64(r, "stdout", INT64_MAX, &offset[GUEST_STDOUT], err);

	if (q == 0)
		q = v1_query_u64(r, "stderr", INT64_MAX, &offset[GUEST_STDERR], err);
	if (q == 0)
		q = v1_query_u64(r, "pty", INT64_MAX, &offset[GUEST_PTY], err);
	if (q == 0 && !parse_event_id(r, offset))
		q = err_set(err, EINVAL, "Last-Event-ID is none of ours");
	return q;
}

void v1_exec_output(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct sandbox *sb = sandbox_find(a, m->caller.tenant, m->params[0]);
	uint64_t offset[EXEC_STREAMS] = {0}, wait_ms = WAIT_MS;
	struct store_exec row = {0};
	struct err err = {0};
	struct run *u;
	int q = find(a, &m->caller, m->params[0], m->params[1], &row, &err);

	if (q == 0)
		q = read_offsets(r, offset, &err);
	if (q == 0)
		q = v1_query_u64(r, "wait_ms", WAIT_MAX_MS, &wait_ms, &err);
	if (q == 0 && !sb)
		q = err_set(&err, ENOENT, "the sandbox has ended, and the output with it");
	if (q < 0 || !sb) {
		store_exec_done(&row);
		api_reply_err(r, &err);
		return;
	}
	u = run_new(a, sb->row.id, m->caller.actor, &row);
	u->wait_ms = wait_ms < WAIT_MIN_MS ? WAIT_MIN_MS : wait_ms;
	run_attach(u, GUEST_FROM_OFFSET, offset);
	run_set_client(u, sb, r, follow_mode(r));
	run_go(u, sb);
}

/* ---- input, signal, resize ---- */

/* A running sandbox, and the exec as the guest knows it at the head of k->body. */
static struct sandbox *target(struct ask *k, struct err *err)
{
	struct sandbox *sb = sandbox_find(k->api, k->who.tenant, k->params[0]);
	struct store_exec row = {0};
	char none[1] = "";
	struct guest_which which = {.key = row.id, .tag = none};

	if (!sb)
		(void)err_set(err, ENOENT, "no running sandbox of this name");
	else if (store_exec_get(k->api->store, sb->row.id, k->params[1], &row, err) < 0)
		sb = NULL;
	else
		guest_which_put(&k->body, &which);
	store_exec_done(&row);
	return sb;
}

static void close_input(struct ask *k, const struct err *err)
{
	struct http_request *r = err ? NULL : k->r;
	struct api *a = k->api; /* the ask may be gone below */
	struct err e = {0};
	struct route_match m = {0};
	struct sandbox *sb;
	struct ask *next;
	char close[8];

	if (!r || !v1_query(r, "close", "false", close, sizeof(close)) ||
		(strcmp(close, "true") != 0 && strcmp(close, "1") != 0)) {
		ask_answer(k, err);
		return;
	}
	m.caller = k->who;
	(void)memcpy(m.params, k->params, sizeof(k->params));
	(void)ask_take(k);
	next = ask_new(a, r, &m);
	sb = target(next, &e);
	if (sb)
		ask_guest(next, sb, GUEST_CLOSE_INPUT, NULL, ask_answer);
	else
		ask_fail(next, &e);
}

static void input(struct http_request *r, const char *body, size_t n, void *arg)
{
	struct ask *k = arg;
	struct err err = {0};
	struct sandbox *sb = target(k, &err);

	(void)r;
	k->data.cap = INPUT_MAX;
	if (sb && n > 0 && buf_add(&k->data, body, n) < 0) {
		(void)err_set(&err, E2BIG, "at most %u bytes at once", INPUT_MAX);
		sb = NULL;
	}
	if (!sb)
		ask_fail(k, &err);
	else if (n > 0)
		ask_guest(k, sb, GUEST_INPUT, NULL, close_input);
	else
		close_input(k, NULL);
}

void v1_exec_input(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct ask *k = ask_new(a, r, m);

	http_collect(r, INPUT_MAX, input, k);
}

static int signal_number(json_t *v, struct err *err)
{
	static const struct {
		const char *name;
		int number;
	} names[] = {{"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT}, {"KILL", SIGKILL},
		{"TERM", SIGTERM}, {"STOP", SIGSTOP}, {"CONT", SIGCONT}, {"USR1", SIGUSR1},
		{"USR2", SIGUSR2}, {"WINCH", SIGWINCH}};
	const char *s = json_string_value(v);

	if (json_is_integer(v) && json_integer_value(v) >= 1 && json_integer_value(v) <= 64)
		return (int)json_integer_value(v);
	if (s && text_starts(s, "SIG"))
		s += 3;
	for (size_t i = 0; s && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, s) == 0)
			return names[i].number;
	return err_set(err, EINVAL, "'signal' must be 1 to 64, or a name like \"TERM\"");
}

static void send_signal(struct ask *k, json_t *body)
{
	static const char *const names[] = {"signal", "group", NULL};
	struct err err = {0};
	struct sandbox *sb = target(k, &err);
	bool to_group = false;
	int number = -EINVAL, r = sb ? v1_fields(body, names, &err) : -ENOENT;

	if (r == 0)
		r = v1_get_bool(body, "group", &to_group, &err);
	if (r == 0)
		r = number = signal_number(json_object_get(body, "signal"), &err);
	if (r < 0) {
		ask_fail(k, &err);
		return;
	}
	frame_put_u32(&k->body, (uint32_t)number);
	frame_put_u8(&k->body, to_group);
	ask_guest(k, sb, GUEST_SIGNAL, NULL, ask_answer);
}

void v1_exec_signal(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), send_signal);
}

static void resize(struct ask *k, json_t *body)
{
	static const char *const names[] = {"cols", "rows", NULL};
	struct err err = {0};
	struct sandbox *sb = target(k, &err);
	uint64_t cols = 0, rows = 0;
	int r = sb ? v1_fields(body, names, &err) : -ENOENT;

	if (r == 0)
		r = v1_get_u64(body, "cols", 4096, &cols, &err);
	if (r == 0)
		r = v1_get_u64(body, "rows", 4096, &rows, &err);
	if (r == 0 && (cols == 0 || rows == 0))
		r = err_set(&err, EINVAL, "'cols' and 'rows' must be at least 1");
	if (r < 0) {
		ask_fail(k, &err);
		return;
	}
	frame_put_u16(&k->body, (uint16_t)cols);
	frame_put_u16(&k->body, (uint16_t)rows);
	ask_guest(k, sb, GUEST_RESIZE, NULL, ask_answer);
}

void v1_exec_resize(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), resize);
}
