/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two requests at most: the stream of events (Start or Connect), and behind it, once the pid
 * is known, the stream of our input (StreamInput). The first one's end is the end.
 */
#include "cli/remote/process.h"

#include "api/e2b/base64.h"
#include "base/mem.h"
#include "cli/remote/signals.h"
#include "sys/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FRAME_MAX  (8u << 20)
#define INPUT_SIZE 16384
/* As `bawn run` has them. */
#define EXIT_NOT_EXEC  126
#define EXIT_NOT_FOUND 127
#define KEY_LEAVE1     0x10 /* ^P */
#define KEY_LEAVE2     0x11 /* ^Q */

/* NUL-terminated; the caller frees. */
static char *encode(const char *p, size_t n)
{
	char *out = (char *)mem_must(malloc(BASE64_SIZE(n) + 1));

	out[base64_encode(out, p, n)] = '\0';
	return out;
}

struct run {
	struct client *client;
	const struct client_box *box;
	const struct process_wish *wish;
	struct process_result *result;
	struct client_stream *events; /* NULL: over */
	struct client_stream *input;  /* NULL: none, or over */
	struct buf frames, refusal;
	int http_status;
	struct err err;
	bool is_done, has_end;
	/* our standard input */
	struct loop_watch in;
	struct loop_timer in_again; /* for files, which epoll does not take */
	bool in_is_file, in_is_over;
	bool saw_leave1;
	struct termios saved;
	bool is_raw;
	struct loop_task leave;
};

static struct run *current; /* for signals */

static void done(struct run *r)
{
	r->is_done = true;
}

static void fail(struct run *r, int code, const char *what)
{
	if (r->err.code == 0)
		(void)err_set(&r->err, code, "%s", what);
	done(r);
}

static void put_out(struct run *r, int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t k = write(fd, p, n);

		if (k < 0 && (errno == EINTR || errno == EAGAIN))
			continue; /* a terminal that others made non-blocking */
		if (k < 0) {
			fail(r, errno, "our output is closed");
			return;
		}
		p += k;
		n -= (size_t)k;
	}
}

static void print_data(struct run *r, const json_t *data)
{
	static const struct {
		const char *name;
		int fd;
	} streams[] = {{"stdout", 1}, {"stderr", 2}, {"pty", 1}};

	for (size_t i = 0; i < 3; i++) {
		const json_t *text = json_object_get(data, streams[i].name);
		AUTO_FREE char *bytes = NULL;
		ssize_t n;

		if (!json_is_string(text))
			continue;
		bytes = (char *)mem_must(malloc(json_string_length(text) / 4 * 3 + 3));
		n = base64_decode(bytes, json_string_value(text), json_string_length(text));
		if (n < 0)
			fail(r, EPROTO, "the server's answer is not base64");
		else
			put_out(r, streams[i].fd, bytes, (size_t)n);
	}
}

/* ---- our input ---- */

/* One Connect frame around the message; the caller frees. */
static char *framed(json_t *take_message, size_t *ret_n)
{
	AUTO_FREE char *text = json_dumps(take_message, JSON_COMPACT);
	size_t n = text ? strlen(text) : 0;
	char *frame = (char *)mem_must(malloc(n + 5));

	json_decref(take_message);
	frame[0] = 0;
	for (int i = 0; i < 4; i++)
		frame[1 + i] = (char)(n >> (24 - 8 * i) & 0xff);
	if (text)
		memcpy(frame + 5, text, n);
	*ret_n = n + 5;
	return text ? frame : (free(frame), NULL);
}

static void send_frame(struct client_stream *s, json_t *take_message)
{
	size_t n = 0;
	AUTO_FREE char *frame = framed(take_message, &n);

	if (frame)
		client_write(s, frame, n);
}

static void send_input(struct run *r, const char *p, size_t n)
{
	AUTO_FREE char *text = encode(p, n);

	if (r->input && n > 0)
		send_frame(r->input, json_pack("{s:{s:{s:s}}}", "data", "input",
					     r->wish->want_tty ? "pty" : "stdin", text));
}

static void quiet_end(void *arg, const struct err *err)
{
	(void)arg;
	(void)err;
}

/* A unary call nobody waits for. */
static void tell(struct run *r, const char *path, json_t *take_message)
{
	static const struct client_events events = {NULL, NULL, NULL, quiet_end};
	AUTO_FREE char *text = json_dumps(take_message, JSON_COMPACT);
	const char *fields[6];
	struct client_request q = {.method = "POST",
		.path = path,
		.fields = fields,
		.type = "application/json",
		.body = text,
		.body_n = text ? strlen(text) : 0};
	struct client_stream *s = NULL;
	struct err ignored = {0};

	json_decref(take_message);
	client_box_fields(r->box, NULL, fields);
	if (text)
		(void)client_start(r->client, &q, &events, NULL, &s, &ignored);
}

static json_t *selector(const struct run *r)
{
	return json_pack("{s:{s:I}}", "process", "pid", (json_int_t)r->result->pid);
}

/* The input's end is told behind its last byte: when the server has taken the stream. */
static void input_end(void *arg, const struct err *err)
{
	struct run *r = arg;

	r->input = NULL;
	if (err->code == 0 && r->in_is_over && !r->wish->want_tty && !r->is_done)
		tell(r, "/process.Process/CloseStdin", selector(r));
}

static void set_input(struct run *r, bool is_on)
{
	struct err ignored = {0};

	if (!r->wish->want_stdin || r->in_is_over)
		is_on = false;
	if (r->in_is_file) {
		if (is_on)
			loop_timer_set(client_loop(r->client), &r->in_again, 0);
		return;
	}
	if (loop_watch_set(client_loop(r->client), &r->in, is_on ? EPOLLIN : 0, &ignored) < 0 &&
		is_on && ignored.code == EPERM) {
		r->in_is_file = true;
		loop_timer_set(client_loop(r->client), &r->in_again, 0);
	}
}

static void input_drained(void *arg)
{
	set_input(arg, true);
}

static void leave_now(struct loop_task *t)
{
	struct run *r = (struct run *)((char *)t - offsetof(struct run, leave));

	r->result->is_left = true;
	done(r);
}

/* ^P^Q leaves; a ^P alone is sent with what follows it. Returns how many bytes are left in p. */
static size_t filter_keys(struct run *r, char *p, size_t n)
{
	char out[INPUT_SIZE + 1] = "";
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (r->saw_leave1 && p[i] == KEY_LEAVE2) {
			loop_defer(client_loop(r->client), &r->leave);
			break;
		}
		if (r->saw_leave1)
			out[k++] = KEY_LEAVE1;
		r->saw_leave1 = p[i] == KEY_LEAVE1;
		if (!r->saw_leave1)
			out[k++] = p[i];
	}
	memcpy(p, out, k);
	return k;
}

static void read_input(struct run *r)
{
	char p[INPUT_SIZE + 1];
	ssize_t n;

	if (r->is_done || r->in_is_over || !r->input)
		return;
	n = read(STDIN_FILENO, p, INPUT_SIZE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		r->in_is_over = true;
		set_input(r, false);
		client_finish(r->input);
		return;
	}
	if (r->is_raw)
		n = (ssize_t)filter_keys(r, p, (size_t)n);
	send_input(r, p, (size_t)n);
	if (client_queued(r->input) > CONN_HIGH)
		set_input(r, false); /* a slow reader inside slows us */
	else if (r->in_is_file)
		set_input(r, true);
}

static void in_ready(struct loop_watch *w, uint32_t events)
{
	(void)events;
	read_input((struct run *)((char *)w - offsetof(struct run, in)));
}

static void in_again(struct loop_timer *t)
{
	read_input((struct run *)((char *)t - offsetof(struct run, in_again)));
}

static void open_input(struct run *r)
{
	static const struct client_events events = {NULL, NULL, input_drained, input_end};
	const char *fields[6];
	struct client_request q = {.method = "POST",
		.path = "/process.Process/StreamInput",
		.fields = fields,
		.type = "application/connect+json",
		.is_streaming = true};
	json_t *start = json_pack("{s:o}", "start", selector(r));

	client_box_fields(r->box, NULL, fields);
	if (client_start(r->client, &q, &events, r, &r->input, &r->err) < 0) {
		json_decref(start);
		done(r);
		return;
	}
	send_frame(r->input, start);
	set_input(r, true);
}

/* ---- its terminal ---- */

static json_t *window(void)
{
	struct winsize w = {0};

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col == 0)
		w = (struct winsize){.ws_col = 80, .ws_row = 24};
	return json_pack("{s:{s:i,s:i}}", "size", "cols", w.ws_col, "rows", w.ws_row);
}

static void send_window(struct run *r)
{
	json_t *m = selector(r);

	(void)json_object_set_new(m, "pty", window());
	tell(r, "/process.Process/Update", m);
}

static void on_signal(int sig, void *arg)
{
	struct run *r = current;
	json_t *m;

	(void)arg;
	if (!r || r->is_done)
		return;
	if (sig == SIGWINCH) {
		if (r->wish->want_tty && r->result->pid > 0)
			send_window(r);
		return;
	}
	/* ^C on our side ends us, and with us the process that we started. */
	if (r->result->pid > 0 && !r->wish->is_detached && r->wish->argv) {
		m = selector(r);
		(void)json_object_set_new(m, "signal",
			json_string(sig == SIGINT ? "SIGNAL_SIGKILL" : "SIGNAL_SIGTERM"));
		tell(r, "/process.Process/SendSignal", m);
		return;
	}
	r->result->status = 128 + sig;
	fail(r, EINTR, "interrupted");
}

/* ---- events of the process ---- */

static void ended(struct run *r, const json_t *end)
{
	json_int_t code = json_integer_value(json_object_get(end, "exitCode"));
	const char *status = json_string_value(json_object_get(end, "status"));

	r->has_end = true;
	if (code >= 0)
		r->result->status = (int)(code & 0xff);
	else
		r->result->status = 128 + signals_number(status ? status : "");
}

static void take_event(struct run *r, const json_t *event)
{
	const json_t *start = json_object_get(event, "start");
	const json_t *data = json_object_get(event, "data");
	const json_t *end = json_object_get(event, "end");

	if (start) {
		r->result->pid = (uint64_t)json_integer_value(json_object_get(start, "pid"));
		if (r->wish->is_detached) {
			r->result->is_left = true;
			done(r);
			return;
		}
		/* A terminal that was left has the size of whoever left it. */
		if (r->wish->want_tty && !r->wish->argv)
			send_window(r);
		if (r->wish->want_stdin)
			open_input(r);
	}
	if (data)
		print_data(r, data);
	if (end)
		ended(r, end);
}

static void take_last(struct run *r, const json_t *message)
{
	const json_t *error = json_object_get(message, "error");
	const char *code = json_string_value(json_object_get(error, "code"));
	const char *text = json_string_value(json_object_get(error, "message"));
	char quoted[300];

	if (!error)
		return;
	if (code && strcmp(code, "deadline_exceeded") == 0) {
		r->has_end = true;
		r->result->status = EXIT_TIMEOUT;
		return;
	}
	if (text && text_starts(text, "error starting process"))
		r->result->status =
			strstr(text, "no such program") ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
	fail(r, code && strcmp(code, "not_found") == 0 ? ENOENT : EIO,
		client_clean(text ? text : "the server gave no reason", quoted, sizeof(quoted)));
}

static bool take_frame(struct run *r)
{
	const unsigned char *p = (const unsigned char *)buf_data(&r->frames);
	size_t n;
	json_t *m;

	if (buf_len(&r->frames) < 5)
		return false;
	n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (n > FRAME_MAX) {
		fail(r, EPROTO, "the server's frame is too long");
		return false;
	}
	if (buf_len(&r->frames) < n + 5)
		return false;
	m = json_loadb((const char *)p + 5, n, 0, NULL);
	if (!json_is_object(m))
		fail(r, EPROTO, "the server's frame is not JSON");
	else if (p[0] & 2)
		take_last(r, m);
	else
		take_event(r, json_object_get(m, "event"));
	json_decref(m);
	buf_eat(&r->frames, n + 5);
	return !r->is_done;
}

static void on_head(void *arg, int status, const struct h1_head *head)
{
	struct run *r = arg;

	(void)head;
	r->http_status = status;
}

static void on_data(void *arg, const char *p, size_t n)
{
	struct run *r = arg;

	if (r->is_done)
		return;
	if (r->http_status != 200) {
		(void)buf_add(&r->refusal, p, n);
		return;
	}
	if (buf_add(&r->frames, p, n) < 0)
		fail(r, EPROTO, "the server's frame is too long");
	while (!r->is_done && take_frame(r))
		;
}

static void on_end(void *arg, const struct err *err)
{
	struct run *r = arg;

	r->events = NULL;
	if (r->is_done)
		return;
	if (err->code)
		r->err = *err;
	else if (r->http_status != 200)
		(void)client_refused(
			r->http_status, buf_data(&r->refusal), buf_len(&r->refusal), &r->err);
	else if (!r->has_end)
		(void)err_set(&r->err, EPROTO, "the server did not say how it ended");
	done(r);
}

static json_t *start_message(const struct process_wish *w)
{
	json_t *args = json_array(), *envs = json_object();
	json_t *process, *m;

	for (char *const *a = w->argv + 1; *a; a++)
		(void)json_array_append_new(args, json_string(*a));
	for (size_t i = 0; i < w->env.n; i++) {
		AUTO_FREE char *name = mem_strdup(w->env.v[i]);
		char *value = strchr(name, '=');

		if (!value)
			continue;
		*value++ = '\0';
		(void)json_object_set_new(envs, name, json_string(value));
	}
	process = json_pack("{s:s,s:o,s:o}", "cmd", w->argv[0], "args", args, "envs", envs);
	if (w->cwd)
		(void)json_object_set_new(process, "cwd", json_string(w->cwd));
	m = json_pack("{s:o,s:b}", "process", process, "stdin", w->want_stdin);
	if (w->want_tty)
		(void)json_object_set_new(m, "pty", window());
	return m;
}

static int begin(struct run *r, struct err *err)
{
	static const struct client_events events = {on_head, on_data, NULL, on_end};
	const struct process_wish *w = r->wish;
	AUTO_FREE char *credentials = w->user ? text_format("%s:", w->user) : NULL;
	AUTO_FREE char *encoded = w->user ? encode(credentials, strlen(credentials)) : NULL;
	AUTO_FREE char *authorization =
		w->user ? text_format("Authorization: Basic %s", encoded) : NULL;
	AUTO_FREE char *timeout = w->timeout_ms ? text_format("Connect-Timeout-Ms: %llu",
							  (unsigned long long)w->timeout_ms)
						: NULL;
	const char *fields[8];
	size_t n = 0, body_n = 0;
	AUTO_FREE char *body =
		framed(w->argv ? start_message(w)
			       : json_pack("{s:{s:I}}", "process", "pid", (json_int_t)w->pid),
			&body_n);
	struct client_request q = {.method = "POST",
		.path = w->argv ? "/process.Process/Start" : "/process.Process/Connect",
		.fields = fields,
		.type = "application/connect+json",
		.body = body,
		.body_n = body_n};

	if (!body)
		return err_set(err, EINVAL, "an argument is not UTF-8");
	client_box_fields(r->box, authorization, fields);
	while (fields[n])
		n++;
	if (timeout)
		fields[n++] = timeout;
	fields[n] = NULL;
	return client_start(r->client, &q, &events, r, &r->events, err);
}

static int hear_signals(struct run *r, struct err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGWINCH);
	current = r;
	return loop_signals(client_loop(r->client), &set, on_signal, NULL, err);
}

int process_run(struct client *c, const struct client_box *b, const struct process_wish *w,
	struct process_result *ret, struct err *err)
{
	struct run r = {.client = c,
		.box = b,
		.wish = w,
		.result = ret,
		.frames = {.cap = FRAME_MAX + 4096},
		.in = {.fd = STDIN_FILENO, .ready = in_ready},
		.in_again = {.fire = in_again},
		.leave = {.run = leave_now}};
	int q = hear_signals(&r, err);

	*ret = (struct process_result){.status = EXIT_BAWN, .pid = w->pid};
	if (q >= 0)
		q = begin(&r, err);
	if (q >= 0 && w->want_tty && isatty(STDIN_FILENO) &&
		pty_raw(STDIN_FILENO, &r.saved, err) == 0)
		r.is_raw = true;
	while (q >= 0 && !r.is_done)
		q = loop_once(client_loop(c), -1, err);
	if (r.is_raw)
		pty_restore(STDIN_FILENO, &r.saved);
	set_input(&r, false);
	loop_timer_cancel(client_loop(c), &r.in_again);
	if (r.events)
		client_drop(r.events);
	if (r.input)
		client_drop(r.input);
	current = NULL;
	buf_done(&r.frames);
	buf_done(&r.refusal);
	if (q >= 0 && r.err.code) {
		*err = r.err;
		q = -err->code;
	}
	return q < 0 ? q : 0;
}
