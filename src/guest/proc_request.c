/* SPDX-License-Identifier: Apache-2.0 */

/* The requests about processes. */
#include "guest/proc.h"

#include "base/mem.h"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>

/* Less than a frame: MSG_PROCESS repeats a request's strings beside its own fields. */
#define START_MAX    (FRAME_PAYLOAD_MAX - 2048)
#define KILL_WAIT_MS 200

static struct proc *find_or_fail(struct request *q, const struct guest_which *which)
{
	struct proc *p = proc_find(q->g, which);
	struct err err = {0};

	if (p)
		return p;
	if (which->pid != 0)
		(void)err_set(&err, ESRCH, "process with pid %u not found", which->pid);
	else
		(void)err_set(&err, ESRCH, "process with tag %s not found",
			which->key[0] ? which->key : which->tag);
	request_fail(q, &err);
	return NULL;
}

void start_request(struct request *q, struct frame_reader *body)
{
	static const struct guest_attach from_start = {.from = GUEST_FROM_START};
	size_t size = body->n;
	struct guest_start start;
	struct proc *p = NULL;
	bool is_new = false;
	struct err err = {0};
	int r = 0;

	if (!guest_start_get(body, &start) || !frame_ok(body)) {
		request_malformed(q);
		guest_start_done(&start);
		return;
	}
	if (size > START_MAX)
		r = err_set(&err, E2BIG, "the arguments and the environment are too long");
	else if (!start.argv[0] || !start.argv[0][0])
		r = err_set(&err, EINVAL, "no program is named");
	else
		p = proc_by_key(q->g, start.key);
	if (r == 0 && !p) {
		r = proc_start(q->g, &start, size, &p, &err);
		is_new = true;
	}
	if (r >= 0)
		r = proc_attach(q, p, &from_start, is_new, &err);
	if (r < 0)
		request_fail(q, &err);
	guest_start_done(&start);
}

void attach_request(struct request *q, struct frame_reader *body)
{
	struct guest_attach attach;
	struct err err = {0};
	struct proc *p;

	if (!guest_attach_get(body, &attach) || !frame_ok(body))
		request_malformed(q);
	else if ((p = find_or_fail(q, &attach.which)) &&
		 proc_attach(q, p, &attach, false, &err) < 0)
		request_fail(q, &err);
	guest_attach_done(&attach);
}

/* One list per request, sent at once: at most GUEST_PROCS_MAX messages. */
static void list_closed(struct mux_channel *c, int code)
{
	(void)code;
	free(c);
}

static const struct mux_events list_calls = {.closed = list_closed};

void processes_request(struct request *q, struct frame_reader *body)
{
	struct mux_channel *c;

	if (!frame_ok(body)) {
		request_malformed(q);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return; /* refused by mux */
	mux_accept(q->mux, q->id, c, &list_calls, NULL);
	for (struct proc *p = q->g->procs; p; p = p->next) {
		struct guest_process v = {
			.pid = (uint32_t)p->pid,
			.key = p->start.key,
			.tag = p->start.tag,
			.argv = p->start.argv,
			.env = p->start.env,
			.cwd = p->start.cwd[0] ? p->start.cwd : p->cwd,
			.user = p->user,
			.flags = p->start.flags,
			.is_running = p->state < PROC_EXITED,
			.started_ms = p->started_ms,
			.exit = p->exit,
		};
		struct frame_writer w = {0};

		guest_process_put(&w, &v);
		mux_message(c, MSG_PROCESS, &w);
		buf_done(&w.buf);
	}
	mux_end(c, 0, NULL);
}

void input_request(struct request *q, struct frame_reader *body)
{
	struct guest_which which;
	struct err err = {0};
	struct proc *p;

	if (!guest_which_get(body, &which) || !frame_ok(body))
		request_malformed(q);
	else if ((p = find_or_fail(q, &which)) && proc_input_attach(q, p, &err) < 0)
		request_fail(q, &err);
	guest_which_done(&which);
}

void close_input_request(struct request *q, struct frame_reader *body)
{
	struct guest_which which;
	struct err err = {0};
	struct proc *p;

	if (!guest_which_get(body, &which) || !frame_ok(body))
		request_malformed(q);
	else if ((p = find_or_fail(q, &which))) {
		if (p->state >= PROC_EXITED) {
			(void)err_set(&err, ESRCH, "process with pid %d has exited", p->pid);
			request_fail(q, &err);
		} else {
			request_ok(q);
			proc_input_close(p);
		}
	}
	guest_which_done(&which);
}

/* --- a kill is answered when it has happened --- */

static void kill_answer(struct proc_kill *k)
{
	struct proc *p = k->proc;

	if (!p)
		return;
	for (struct proc_kill **at = &p->kills; *at; at = &(*at)->next) {
		if (*at == k) {
			*at = k->next;
			break;
		}
	}
	loop_timer_cancel(p->g->loop, &k->limit);
	k->proc = NULL;
	mux_message(&k->ch, MSG_OK, NULL);
	mux_end(&k->ch, 0, NULL);
}

static void kill_late(struct loop_timer *t)
{
	kill_answer(OWNER_OF(t, struct proc_kill, limit));
}

static void kill_closed(struct mux_channel *c, int code)
{
	(void)code;
	kill_answer(c->arg);
	free(c->arg);
}

/* The client's END is no reason to end ours. */
static void kill_ended(struct mux_channel *c, int code, const char *why)
{
	(void)why;
	if (code != 0)
		kill_answer(c->arg);
}

static const struct mux_events kill_calls = {.ended = kill_ended, .closed = kill_closed};

void proc_kill_wait(struct request *q, struct proc *p)
{
	struct proc_kill *k = MEM_NEW(struct proc_kill);

	k->proc = p;
	k->next = p->kills;
	p->kills = k;
	k->limit.fire = kill_late;
	mux_accept(q->mux, q->id, &k->ch, &kill_calls, k);
	loop_timer_set(q->g->loop, &k->limit, KILL_WAIT_MS);
}

void proc_kill_answer(struct proc *p)
{
	while (p->kills)
		kill_answer(p->kills);
}

void signal_request(struct request *q, struct frame_reader *body)
{
	struct guest_which which;
	struct err err = {0};
	uint32_t sig;
	uint8_t to_group;
	struct proc *p;

	(void)guest_which_get(body, &which);
	sig = frame_get_u32(body);
	to_group = frame_get_u8(body);
	if (!frame_ok(body))
		request_malformed(q);
	else if ((p = find_or_fail(q, &which))) {
		if (proc_signal(p, sig > 64 ? -1 : (int)sig, to_group != 0, &err) < 0)
			request_fail(q, &err);
		else if (sig == SIGKILL && p->state < PROC_EXITED)
			proc_kill_wait(q, p);
		else
			request_ok(q);
	}
	guest_which_done(&which);
}

void resize_request(struct request *q, struct frame_reader *body)
{
	struct guest_which which;
	struct winsize size = {0};
	struct err err = {0};
	struct proc *p;

	(void)guest_which_get(body, &which);
	size.ws_col = frame_get_u16(body);
	size.ws_row = frame_get_u16(body);
	if (!frame_ok(body))
		request_malformed(q);
	else if ((p = find_or_fail(q, &which))) {
		int r = 0;

		if (!(p->start.flags & GUEST_START_PTY))
			r = err_set(&err, EINVAL, "process %d has no terminal", p->pid);
		else if (p->out[GUEST_PTY].watch.fd < 0)
			r = err_set(&err, ESRCH, "process with pid %d has exited", p->pid);
		else if (ioctl(p->out[GUEST_PTY].watch.fd, TIOCSWINSZ, &size) < 0)
			r = err_sys(&err, "resize the terminal");
		if (r < 0)
			request_fail(q, &err);
		else
			request_ok(q);
	}
	guest_which_done(&which);
}
