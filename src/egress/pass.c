/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A connection passed on without a look inside: dial, then relay both ways until both are done.
 *
 *   dialling --connected--> relaying --both ways ended--> over
 *       \-- refused, failed    \-- reset, idle, cut, budget --^
 *
 * 1. What was read and not yet written is in `left` or in the pipe of its way; while there is any,
 *    that way reads no more: a slow reader slows the writer, and nobody's memory grows.
 * 2. A pipe is held only while it has bytes in it.
 * 3. Bytes are charged when they are read, and no more are read than the budgets give.
 * 4. What epoll waits for is decided in one place, set_interest().
 */
#include "base/mem.h"
#include "egress/egress_impl.h"
#include "egress/pipes.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define COPY    (64u << 10) /* one read; a full one means bulk */
#define BULK    (1u << 20)  /* one splice asks for so much */
#define SMALL   (16u << 10) /* a splice that gives less means the bulk is over */
#define TURN    (1u << 20)  /* bytes of one way before others have their turn */
#define IDLE_MS (10 * 60 * 1000)

struct way {
	struct loop_watch *from, *to;
	struct buf left;
	struct pipe_pair pipe;
	bool is_up, is_bulk;
	bool at_eof, has_shut;
	bool is_scanned; /* for placeholders: never by splice */
};

struct pass {
	struct egress_flow flow; /* first */
	struct loop_watch box, far;
	struct way up, down;
	struct vault_scan scan;
	struct dial dial;
	struct loop_timer idle;
	struct loop_task bury;
	uint64_t moved_ms;
	bool is_relaying, is_over;
};

static char scratch[COPY];

static struct pass *of_flow(struct egress_flow *f)
{
	return (struct pass *)f;
}

static struct loop *loop_of(const struct pass *p)
{
	return p->flow.box->engine->loop;
}

/* ---- the end ---- */

static void bury(struct loop_task *t)
{
	struct pass *p = (struct pass *)((char *)t - offsetof(struct pass, bury));

	free(p);
}

static void close_reset(int *fd)
{
	struct linger hard = {.l_onoff = 1};

	if (*fd >= 0)
		(void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	closep(fd);
}

static void end_way(struct pass *p, struct way *w)
{
	buf_done(&w->left);
	pipes_give(p->flow.box->engine->pipes, &w->pipe);
}

static void end(struct pass *p, bool by_reset)
{
	struct loop *l = loop_of(p);
	struct err ignored;

	if (p->is_over)
		return;
	p->is_over = true;
	dial_cancel(&p->dial);
	loop_timer_cancel(l, &p->idle);
	(void)loop_watch_set(l, &p->box, 0, &ignored);
	(void)loop_watch_set(l, &p->far, 0, &ignored);
	if (by_reset) {
		close_reset(&p->box.fd);
		close_reset(&p->far.fd);
	}
	closep(&p->box.fd);
	closep(&p->far.fd);
	end_way(p, &p->up);
	end_way(p, &p->down);
	if (p->is_relaying)
		account_allowed(&p->flow, NULL, NULL, p->flow.up, p->flow.down);
	flow_done(&p->flow);
	p->bury.run = bury;
	loop_defer(l, &p->bury);
}

static void cut(struct egress_flow *f)
{
	end(of_flow(f), true);
}

static void deny(struct pass *p, enum denial_kind kind, const char *why)
{
	struct denial d;

	denial_fill(&d, kind, &p->flow, NULL, NULL, why);
	violation_note(p->flow.box, &d);
	end(p, true);
}

/* Before any byte was relayed: told in the box's own protocol where that is possible. */
static void refuse(struct pass *p, enum denial_kind kind, const char *why)
{
	struct egress_box *b = p->flow.box;
	struct flow_target t;
	struct denial d;
	struct err ignored;
	int fd;

	denial_fill(&d, kind, &p->flow, NULL, NULL, why);
	flow_retarget(&p->flow, &t);
	t.is_tls = p->flow.protocol == POLICY_HTTPS;
	(void)loop_watch_set(loop_of(p), &p->box, 0, &ignored);
	fd = TAKE_FD(p->box.fd);
	end(p, false);
	refuse_start(b, fd, &t, false, &d);
}

/* ---- relaying ---- */

static size_t pending(const struct way *w)
{
	return buf_len(&w->left) + w->pipe.n;
}

static void set_interest(struct pass *p)
{
	struct loop *l = loop_of(p);
	struct err err;
	uint32_t box = EPOLLHUP, far = EPOLLHUP; /* always told; keeps the watch registered */

	if (p->is_over)
		return;
	if (pending(&p->up) > 0)
		far |= EPOLLOUT;
	else if (!p->up.at_eof)
		box |= EPOLLIN;
	if (pending(&p->down) > 0)
		box |= EPOLLOUT;
	else if (!p->down.at_eof)
		far |= EPOLLIN;
	if (loop_watch_set(l, &p->box, box, &err) < 0 || loop_watch_set(l, &p->far, far, &err) < 0)
		end(p, true);
}

/* Bytes written, 0 for "not now", < 0 for a failure. */
static ssize_t drain(struct pass *p, struct way *w)
{
	ssize_t n;

	if (buf_len(&w->left) > 0)
		n = send(w->to->fd, buf_data(&w->left), buf_len(&w->left), MSG_NOSIGNAL);
	else
		n = splice(w->pipe.out, NULL, w->to->fd, NULL, w->pipe.n,
			SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (buf_len(&w->left) > 0) {
		buf_eat(&w->left, (size_t)n);
		return n;
	}
	w->pipe.n -= (size_t)n;
	if (w->pipe.n == 0)
		pipes_give(p->flow.box->engine->pipes, &w->pipe);
	return n;
}

/* Bytes read, 0 at the end, < 0: -EAGAIN or a failure. */
static ssize_t fill_pipe(struct pass *p, struct way *w, size_t most)
{
	ssize_t n = splice(w->from->fd, NULL, w->pipe.in, NULL, most < BULK ? most : BULK,
		SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	int code = errno;

	if (n > 0)
		w->pipe.n = (size_t)n;
	else
		pipes_give(p->flow.box->engine->pipes, &w->pipe);
	w->is_bulk = n >= (ssize_t)SMALL;
	return n < 0 ? -code : n;
}

static ssize_t fill_copy(struct way *w, size_t most, struct vault_scan *scan)
{
	ssize_t n = recv(w->from->fd, scratch, most < COPY ? most : COPY, 0);
	ssize_t sent;

	if (n <= 0)
		return n < 0 ? -errno : 0;
	if (w->is_scanned && vault_scan_feed(scan, scratch, (size_t)n))
		return -EPERM;
	w->is_bulk = n == (ssize_t)COPY && !w->is_scanned;
	sent = send(w->to->fd, scratch, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return -EPIPE;
	sent = sent < 0 ? 0 : sent;
	if (sent < n && buf_add(&w->left, scratch + sent, (size_t)(n - sent)) < 0)
		return -ENOMEM;
	return n;
}

/* The budget is used up: an end of data is still one. */
static ssize_t fill_nothing(const struct way *w)
{
	char byte;
	ssize_t n = recv(w->from->fd, &byte, 1, MSG_PEEK);

	if (n > 0)
		return -EDQUOT;
	return n < 0 ? -errno : 0;
}

static ssize_t fill(struct pass *p, struct way *w)
{
	uint64_t most = account_left(&p->flow, w->is_up);
	ssize_t n;

	if (most == 0)
		return fill_nothing(w);
	if (most > BULK)
		most = BULK;
	if (w->is_bulk && pipes_take(p->flow.box->engine->pipes, &w->pipe))
		n = fill_pipe(p, w, most);
	else
		n = fill_copy(w, most, &p->scan);
	if (n > 0)
		(void)account_bytes(
			&p->flow, w->is_up ? (uint64_t)n : 0, w->is_up ? 0 : (uint64_t)n);
	return n;
}

/* The way's end: everything is written, the other side is told. */
static void shut(struct pass *p, struct way *w)
{
	const struct way *other = w == &p->up ? &p->down : &p->up;

	w->has_shut = true;
	(void)shutdown(w->to->fd, SHUT_WR);
	if (other->has_shut)
		end(p, false);
}

static void failed(struct pass *p, int code)
{
	if (code == EDQUOT)
		deny(p, DENIAL_BUDGET, NULL);
	else if (code == EPERM)
		deny(p, DENIAL_PLACEHOLDER, NULL);
	else
		end(p, true);
}

static void pump(struct pass *p, struct way *w)
{
	size_t moved = 0;

	while (!p->is_over && moved < TURN) {
		ssize_t n;

		if (pending(w) > 0) {
			n = drain(p, w);
			if (n < 0)
				failed(p, EPIPE);
			if (n <= 0)
				return;
			continue;
		}
		if (w->at_eof) {
			if (!w->has_shut)
				shut(p, w);
			return;
		}
		n = fill(p, w);
		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n < 0) {
			failed(p, (int)-n);
			return;
		}
		p->moved_ms = loop_now_ms(loop_of(p));
		w->at_eof = n == 0;
		moved += (size_t)n;
	}
}

/* A dead end that nothing is expected of any more would be told for ever. */
static void look_away(struct pass *p, struct loop_watch *w, const struct way *from)
{
	struct err ignored;

	if (!p->is_over && from->at_eof)
		(void)loop_watch_set(loop_of(p), w, 0, &ignored);
}

static void ready(struct pass *p, struct loop_watch *w, uint32_t events)
{
	struct way *from = w == &p->box ? &p->up : &p->down;
	struct way *to = w == &p->box ? &p->down : &p->up;

	if (events & EPOLLERR && !(events & EPOLLIN)) {
		end(p, true);
		return;
	}
	if (events & EPOLLOUT)
		pump(p, to);
	if (events & (EPOLLIN | EPOLLHUP) && !p->is_over)
		pump(p, from);
	set_interest(p);
	if (events & EPOLLHUP)
		look_away(p, w, from);
}

static void box_ready(struct loop_watch *w, uint32_t events)
{
	struct pass *p = (struct pass *)((char *)w - offsetof(struct pass, box));

	if (p->is_relaying)
		ready(p, w, events);
	else
		end(p, true); /* it did not wait for the other side */
}

static void far_ready(struct loop_watch *w, uint32_t events)
{
	ready((struct pass *)((char *)w - offsetof(struct pass, far)), w, events);
}

static void idle_fired(struct loop_timer *t)
{
	struct pass *p = (struct pass *)((char *)t - offsetof(struct pass, idle));
	uint64_t quiet = loop_now_ms(loop_of(p)) - p->moved_ms;

	if (quiet >= IDLE_MS)
		end(p, true);
	else
		loop_timer_set(loop_of(p), t, IDLE_MS - quiet);
}

/* ---- the beginning ---- */

static void dialled(struct dial *d, int fd, enum denial_kind kind, const char *why)
{
	struct pass *p = (struct pass *)((char *)d - offsetof(struct pass, dial));

	if (fd < 0) {
		refuse(p, kind, why);
		return;
	}
	p->far.fd = fd;
	p->is_relaying = true;
	p->moved_ms = loop_now_ms(loop_of(p));
	p->idle.fire = idle_fired;
	loop_timer_set(loop_of(p), &p->idle, IDLE_MS);
	pump(p, &p->up); /* what has been waiting */
	set_interest(p);
}

void pass_start(struct egress_box *b, int take_fd, const struct flow_target *t,
	const struct policy_answer *why)
{
	struct pass *p = MEM_NEW(struct pass);
	struct egress_flow *f = &p->flow;
	struct err err;
	int one = 1;

	flow_aim(f, t);
	f->protocol = t->is_tls ? POLICY_HTTPS : POLICY_TCP;
	f->rule = why->rule;
	f->cut = cut;
	p->box = (struct loop_watch){.fd = take_fd, .ready = box_ready};
	p->far = (struct loop_watch){.fd = -EBADF, .ready = far_ready};
	p->up = (struct way){.from = &p->box, .to = &p->far, .pipe = PIPE_NONE, .is_up = true};
	p->down = (struct way){.from = &p->far, .to = &p->box, .pipe = PIPE_NONE};
	p->up.is_scanned = !t->is_tls && b->policy->bindings_n > 0;
	flow_add(f, b);
	(void)setsockopt(take_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(take_fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (!account_request(f)) {
		refuse(p, DENIAL_BUDGET, NULL);
		return;
	}
	if (loop_watch_set(b->engine->loop, &p->box, EPOLLHUP, &err) < 0) {
		end(p, true);
		return;
	}
	p->dial = (struct dial){
		.flow = f, .name = f->name[0] ? f->name : NULL, .port = f->port, .done = dialled};
	dial_start(&p->dial);
}
