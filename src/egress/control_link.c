/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/control_link.h"

#include "base/mem.h"
#include "io/conn.h"

#include <sys/queue.h>

struct waiting { /* a question of ours */
	uint64_t number;
	enum control_op op;
	control_answer_fn answer; /* NULL: nobody wants to know any more */
	void *arg;
	TAILQ_ENTRY(waiting) link;
};

struct control_link {
	struct loop *loop;
	struct conn *conn; /* NULL: over */
	struct buf in;
	uint64_t last; /* number of our last question */
	TAILQ_HEAD(waiting_list, waiting) waits;
	const struct control_link_events *events;
	void *arg;
	struct loop_task to_free;
};

static void free_later(struct loop_task *t)
{
	struct control_link *k =
		(struct control_link *)((char *)t - offsetof(struct control_link, to_free));

	buf_done(&k->in);
	free(k);
}

static void answer_lost(struct control_link *k)
{
	struct waiting *w;

	while ((w = TAILQ_FIRST(&k->waits))) {
		struct control_message m = {.op = w->op, .number = w->number, .is_answer = true};

		TAILQ_REMOVE(&k->waits, w, link);
		(void)err_set(&m.err, ECONNRESET, "the egress role went away");
		if (w->answer)
			w->answer(&m, w->arg);
		free(w);
	}
}

static void over(struct control_link *k)
{
	k->conn = NULL;
	answer_lost(k);
	k->to_free.run = free_later;
	loop_defer(k->loop, &k->to_free);
}

static void answered(struct control_link *k, const struct control_message *m)
{
	struct waiting *w;

	for (w = TAILQ_FIRST(&k->waits); w; w = TAILQ_NEXT(w, link)) {
		if (w->number == m->number && w->op == m->op)
			break;
	}
	if (!w)
		return;
	TAILQ_REMOVE(&k->waits, w, link);
	if (w->answer)
		w->answer(m, w->arg);
	free(w);
}

/* What came is no message, or too long: there is nothing to go on with. */
static void give_up(struct control_link *k, const struct err *why)
{
	struct conn *c = k->conn;

	over(k);
	conn_abort(c);
	k->events->closed(k, why, k->arg);
}

static size_t on_read(struct conn *c, const char *p, size_t n, void *arg)
{
	struct control_link *k = arg;
	struct err err = {0};
	size_t used = 0;
	int r = buf_add(&k->in, p, n);

	(void)c;
	if (r < 0)
		(void)err_set(&err, E2BIG, "control: too much at once");
	while (r >= 0 && k->conn) {
		struct control_message m;

		r = control_next(buf_data(&k->in), buf_len(&k->in), &used, &m, &err);
		if (r <= 0)
			break;
		buf_eat(&k->in, used);
		if (m.is_answer)
			answered(k, &m);
		else
			k->events->message(k, &m, k->arg);
		control_message_done(&m);
	}
	if (r < 0 && k->conn)
		give_up(k, &err);
	return n;
}

static void on_drained(struct conn *c, void *arg)
{
	struct control_link *k = arg;

	(void)c;
	if (k->events->drained)
		k->events->drained(k, k->arg);
}

static void on_closed(struct conn *c, const struct err *err, void *arg)
{
	struct control_link *k = arg;

	(void)c;
	over(k);
	k->events->closed(k, err, k->arg);
}

static const struct conn_events conn_events = {
	.read = on_read,
	.drained = on_drained,
	.closed = on_closed,
};

int control_link_create(struct loop *l, int take_fd, const struct control_link_events *events,
	void *arg, struct control_link **ret, struct err *err)
{
	struct control_link *k = MEM_NEW(struct control_link);
	int r;

	k->loop = l;
	k->events = events;
	k->arg = arg;
	/* One whole message, and what a read brings of the next. */
	k->in.cap = CONTROL_MAX + CONTROL_HEADER + (512u << 10);
	TAILQ_INIT(&k->waits);
	r = conn_create(l, take_fd, NULL, false, "control", &conn_events, k, &k->conn, err);
	if (r < 0) {
		free(k);
		return r;
	}
	*ret = k;
	return 0;
}

void control_link_close(struct control_link *k)
{
	struct conn *c = k->conn;

	if (!c)
		return;
	over(k);
	conn_abort(c);
}

void control_link_finish(struct control_link *k)
{
	struct conn *c = k->conn;

	if (!c)
		return;
	over(k);
	conn_finish(c);
}

static int put_out(struct control_link *k, struct buf *out, int r, struct err *err)
{
	if (r >= 0 && !k->conn)
		r = err_set(err, ENOTCONN, "the egress role is not there");
	if (r >= 0)
		conn_write(k->conn, buf_data(out), buf_len(out));
	return r;
}

int control_link_ask(struct control_link *k, enum control_op op, json_t *take_body,
	control_answer_fn answer, void *arg, struct err *err)
{
	AUTO_BUF struct buf out = {.cap = CONTROL_MAX + CONTROL_HEADER};
	struct waiting *w;
	int r = put_out(k, &out, control_ask(&out, op, k->last + 1, take_body, err), err);

	if (r < 0)
		return r;
	w = MEM_NEW(struct waiting);
	w->number = ++k->last;
	w->op = op;
	w->answer = answer;
	w->arg = arg;
	TAILQ_INSERT_TAIL(&k->waits, w, link);
	return 0;
}

void control_link_forget(struct control_link *k, const void *arg)
{
	struct waiting *w;

	for (w = TAILQ_FIRST(&k->waits); w; w = TAILQ_NEXT(w, link)) {
		if (w->arg == arg)
			w->answer = NULL;
	}
}

void control_link_reply(struct control_link *k, enum control_op op, uint64_t number,
	const struct err *why, json_t *take_body)
{
	AUTO_BUF struct buf out = {.cap = CONTROL_MAX + CONTROL_HEADER};
	struct err err = {0};
	int r = control_reply(&out, op, number, why, take_body, &err);

	/* An answer that is too long is still an answer: by what went wrong. */
	if (r < 0)
		r = control_reply(&out, op, number, &err, NULL, &err);
	(void)put_out(k, &out, r, &err);
}

int control_link_event(
	struct control_link *k, enum control_op op, json_t *take_body, struct err *err)
{
	AUTO_BUF struct buf out = {.cap = CONTROL_MAX + CONTROL_HEADER};

	return put_out(k, &out, control_event(&out, op, take_body, err), err);
}

size_t control_link_queued(const struct control_link *k)
{
	return k->conn ? conn_queued(k->conn) : 0;
}
