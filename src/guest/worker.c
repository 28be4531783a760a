/* SPDX-License-Identifier: Apache-2.0 */

#include "guest/worker.h"

#include "base/mem.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#define WORKERS_MAX 32
#define OUT_FD      3
#define GATHER      (32u << 10)
#define READ_SIZE   (64u << 10)

struct worker {
	struct mux_channel ch;
	struct guest *g;
	struct loop_watch watch; /* the pipe; owned */
	struct loop_task dig;    /* frees it when no event can point at it */
	struct buf in;
	bool must_finish;
	bool has_channel;
};

/* --- in the child --- */

static void flush(struct worker_out *out)
{
	while (buf_len(&out->buf) > 0 && !out->is_broken) {
		ssize_t n = write(out->fd, buf_data(&out->buf), buf_len(&out->buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			out->is_broken = true;
		else
			buf_eat(&out->buf, (size_t)n);
	}
}

static void add(struct worker_out *out, uint8_t type, const struct frame_writer *w)
{
	char header[FRAME_HEADER];

	frame_header(header, (uint32_t)buf_len(&w->buf), type, 0, 0);
	if (buf_add(&out->buf, header, sizeof(header)) < 0 ||
		buf_add(&out->buf, buf_data(&w->buf), buf_len(&w->buf)) < 0)
		out->is_broken = true;
	if (buf_len(&out->buf) >= GATHER)
		flush(out);
}

bool worker_message(struct worker_out *out, uint16_t kind, const struct frame_writer *body)
{
	struct frame_writer w = {.buf.cap = FRAME_PAYLOAD_MAX};

	frame_put_u16(&w, kind);
	if (buf_add(&w.buf, buf_data(&body->buf), buf_len(&body->buf)) < 0)
		w.failed = true;
	/* One that does not fit a frame is left out: a name with absurd attributes. */
	if (!w.failed && !body->failed)
		add(out, FRAME_MESSAGE, &w);
	buf_done(&w.buf);
	return !out->is_broken;
}

static _Noreturn void run_child(int fd, worker_fn *fn, void *arg, bool must_finish)
{
	struct worker_out out = {.fd = OUT_FD};
	struct err err = {0};
	struct frame_writer w = {0};
	sigset_t none;
	int r;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_NAME, "bawn-worker");
	if (!must_finish)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(fd, OUT_FD) < 0)
		_exit(1);
	(void)close_range(OUT_FD + 1, ~0u, 0);
	(void)signal(SIGTERM, SIG_DFL);
	r = fn(&out, arg, &err);
	frame_put_u32(&w, r < 0 ? (uint32_t)-r : 0);
	frame_put_string(&w, r < 0 ? err.msg : "");
	add(&out, FRAME_END, &w);
	flush(&out);
	_exit(0);
}

/* --- in the guest --- */

static void dig(struct loop_task *t)
{
	struct worker *w = OWNER_OF(t, struct worker, dig);

	buf_done(&w->in);
	free(w);
}

static void close_pipe(struct worker *w)
{
	struct err err;

	if (w->watch.fd < 0)
		return;
	(void)loop_watch_set(w->g->loop, &w->watch, 0, &err);
	closep(&w->watch.fd);
	w->g->workers_n--;
	if (!w->has_channel)
		loop_defer(w->g->loop, &w->dig);
}

static void finish(struct worker *w, int code, const char *why)
{
	mux_end(&w->ch, code, why);
	close_pipe(w);
}

static void pass_on(struct worker *w, const struct frame *f)
{
	struct frame_reader r = {.p = f->payload, .n = f->length};

	if (f->type == FRAME_END) {
		int code = (int)frame_get_u32(&r);
		AUTO_FREE char *why = frame_get_string(&r, FRAME_PAYLOAD_MAX);

		finish(w, code, why);
		return;
	}
	if (w->has_channel) {
		uint16_t kind = frame_get_u16(&r);
		struct frame_writer body = {.buf.cap = FRAME_PAYLOAD_MAX};

		if (buf_add(&body.buf, r.p, r.n) < 0)
			body.failed = true;
		mux_message(&w->ch, kind, &body);
		buf_done(&body.buf);
	}
}

/* Whole frames that are there; false: the client's connection is full. */
static bool pass_all(struct worker *w)
{
	struct frame f;
	ssize_t n = 1;

	while (w->watch.fd >= 0 && n > 0) {
		if (w->ch.mux && !mux_has_room(w->ch.mux))
			return false;
		n = frame_parse(buf_data(&w->in), buf_len(&w->in), &f);
		if (n > 0) {
			pass_on(w, &f);
			buf_eat(&w->in, (size_t)n);
		}
	}
	return true;
}

static void pump(struct worker *w)
{
	struct err err;
	bool has_room = pass_all(w);

	if (w->watch.fd >= 0 &&
		loop_watch_set(w->g->loop, &w->watch, has_room ? EPOLLIN : 0, &err) < 0)
		finish(w, err.code, err.msg);
}

static void pipe_ready(struct loop_watch *watch, uint32_t events)
{
	struct worker *w = OWNER_OF(watch, struct worker, watch);
	char *at;
	ssize_t n;

	(void)events;
	w->in.cap = FRAME_PAYLOAD_MAX + FRAME_HEADER + READ_SIZE;
	at = buf_reserve(&w->in, READ_SIZE);
	if (!at) {
		finish(w, ENOMEM, "the guest has no memory");
		return;
	}
	n = read(w->watch.fd, at, READ_SIZE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		finish(w, EIO, "the work was cut short");
		return;
	}
	buf_commit(&w->in, (size_t)n);
	guest_active(w->g);
	pump(w);
}

/* Its next write fails, and it stops. */
static void abandon(struct worker *w)
{
	if (!w->must_finish)
		close_pipe(w);
}

static void writable(struct mux_channel *c)
{
	pump(c->arg);
}

static void ended(struct mux_channel *c, int code, const char *why)
{
	struct worker *w = c->arg;

	(void)why;
	if (code == 0)
		return;
	abandon(w);
	mux_end(c, 0, NULL);
}

static void closed(struct mux_channel *c, int code)
{
	struct worker *w = c->arg;

	(void)code;
	w->has_channel = false;
	abandon(w);
	if (w->watch.fd < 0)
		loop_defer(w->g->loop, &w->dig);
	else
		pump(w); /* to its end, unheard */
}

static const struct mux_events calls = {.writable = writable, .ended = ended, .closed = closed};

int worker_start(struct request *q, worker_fn *fn, void *arg, bool must_finish, struct err *err)
{
	struct worker *w;
	int fds[2], r;
	pid_t pid;

	if (q->g->workers_n >= WORKERS_MAX)
		return err_set(err, EAGAIN, "%d long operations run already", WORKERS_MAX);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(err, "make a pipe");
	pid = fork();
	if (pid == 0)
		run_child(fds[1], fn, arg, must_finish);
	(void)close(fds[1]);
	if (pid < 0) {
		r = err_sys(err, "fork");
		(void)close(fds[0]);
		return r;
	}
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	w = MEM_NEW(struct worker);
	w->g = q->g;
	w->must_finish = must_finish;
	w->dig.run = dig;
	w->watch.fd = fds[0];
	w->watch.ready = pipe_ready;
	w->has_channel = true;
	q->g->workers_n++;
	mux_accept(q->mux, q->id, &w->ch, &calls, w);
	if (loop_watch_set(q->g->loop, &w->watch, EPOLLIN, err) < 0)
		finish(w, err->code, err->msg);
	return 0;
}
