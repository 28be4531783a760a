/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Input: channels in order of arrival, each byte's credit given back when the pipe took it.
 *
 * Requests come one channel each; what was sent first is written first, also when a long-lived
 * channel is in between: a channel with nothing waiting does not hold up the next.
 */
#include "guest/proc.h"

#include "base/mem.h"

#include <fcntl.h>
#include <sys/epoll.h>

#define TERMINAL_EOF "\x04" /* ^D, what a terminal in its usual mode takes for the end */

static void give_up_waiting(struct proc_input *in)
{
	if (in->proc)
		in->proc->g->input_bytes -= buf_len(&in->waiting);
	buf_done(&in->waiting);
}

static void take_out(struct proc_input *in)
{
	struct proc *p = in->proc;

	if (!p)
		return;
	for (struct proc_input **at = &p->inputs; *at; at = &(*at)->next) {
		if (*at == in) {
			*at = in->next;
			break;
		}
	}
	give_up_waiting(in);
	in->proc = NULL;
}

static void fail(struct proc_input *in, int code, const char *why)
{
	take_out(in);
	mux_end(&in->ch, code, why);
}

static void succeed(struct proc_input *in)
{
	take_out(in);
	mux_message(&in->ch, MSG_OK, NULL);
	mux_end(&in->ch, 0, NULL);
}

static void close_now(struct proc *p)
{
	struct err err;

	if (p->in_watch.fd < 0)
		return;
	if (p->want_close_input && (p->start.flags & GUEST_START_PTY)) {
		(void)write(p->in_watch.fd, TERMINAL_EOF, 1);
		p->want_close_input = false; /* a terminal goes on */
		return;
	}
	(void)loop_watch_set(p->g->loop, &p->in_watch, 0, &err);
	closep(&p->in_watch.fd);
}

/* Write what waits; done inputs are told; then perhaps close. */
static void flush(struct proc *p)
{
	struct proc_input *in = p->inputs, *next;
	struct err err;
	uint32_t mask = 0;

	for (; in && mask == 0; in = next) {
		next = in->next;
		while (buf_len(&in->waiting) > 0) {
			ssize_t n = write(
				p->in_watch.fd, buf_data(&in->waiting), buf_len(&in->waiting));

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && errno == EAGAIN) {
				mask = EPOLLOUT;
				break;
			}
			if (n < 0) {
				proc_input_end(p, EPIPE, "stdin is closed");
				return;
			}
			buf_eat(&in->waiting, (size_t)n);
			p->g->input_bytes -= (size_t)n;
			mux_consumed(&in->ch, (size_t)n);
		}
		if (in->is_done && buf_len(&in->waiting) == 0)
			succeed(in);
	}
	/* EPOLLERR comes unasked when the reader of a pipe goes: kept off while nothing waits. */
	if (loop_watch_set(p->g->loop, &p->in_watch, mask, &err) < 0)
		proc_input_end(p, EIO, "stdin cannot be watched");
	else if (mask == 0 && p->want_close_input)
		close_now(p);
}

static void in_ready(struct loop_watch *w, uint32_t events)
{
	(void)events;
	flush(OWNER_OF(w, struct proc, in_watch));
}

static void input_data(struct mux_channel *c, uint8_t stream, const char *bytes, size_t n)
{
	struct proc_input *in = c->arg;
	struct guest *g = in->proc ? in->proc->g : NULL;

	(void)stream;
	if (!g)
		return; /* it was told; what was under way is dropped */
	in->waiting.cap = MUX_CREDIT;
	if (g->input_bytes + n > GUEST_INPUT_MAX || buf_add(&in->waiting, bytes, n) < 0) {
		fail(in, EAGAIN, "too much input is waiting for processes that do not read");
		return;
	}
	g->input_bytes += n;
	flush(in->proc);
}

static void input_ended(struct mux_channel *c, int code, const char *why)
{
	struct proc_input *in = c->arg;

	(void)why;
	if (!in->proc) {
		mux_end(c, 0, NULL);
		return;
	}
	if (code != 0) {
		fail(in, 0, NULL);
		return;
	}
	in->is_done = true;
	flush(in->proc);
}

static void input_closed(struct mux_channel *c, int code)
{
	struct proc_input *in = c->arg;

	(void)code;
	take_out(in);
	buf_done(&in->waiting);
	free(in);
}

static const struct mux_events input_calls = {
	.data = input_data,
	.ended = input_ended,
	.closed = input_closed,
};

void proc_input_open(struct proc *p, int take_fd)
{
	p->in_watch.fd = take_fd;
	p->in_watch.ready = in_ready;
}

int proc_input_attach(struct request *q, struct proc *p, struct err *err)
{
	struct proc_input *in, **at = &p->inputs;

	if (p->state >= PROC_EXITED)
		return err_set(err, ESRCH, "process with pid %d has exited", p->pid);
	if (p->in_watch.fd < 0 || p->want_close_input)
		return err_set(err, EPIPE, "stdin is closed");
	in = MEM_NEW(struct proc_input);
	in->proc = p;
	while (*at)
		at = &(*at)->next;
	*at = in;
	mux_accept(q->mux, q->id, &in->ch, &input_calls, in);
	return 0;
}

void proc_input_close(struct proc *p)
{
	if (p->in_watch.fd < 0)
		return;
	p->want_close_input = true;
	flush(p);
}

void proc_input_end(struct proc *p, int code, const char *why)
{
	while (p->inputs)
		fail(p->inputs, code, why);
	p->want_close_input = false;
	if (p->in_watch.fd >= 0) {
		struct err err;

		(void)loop_watch_set(p->g->loop, &p->in_watch, 0, &err);
		closep(&p->in_watch.fd);
	}
}
