/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/warden_client - the asking end of the warden's socket.
 *
 * Runs in: the api role, on its event loop; never blocks. Keeps one connection, comes back by
 * itself when the warden was restarted, and answers every question exactly once: with the
 * warden's words, or with -ECONNRESET when they can no longer come.
 */
#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "run/warden.h"
#include "sys/sock.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define QUESTIONS_MAX 4096 /* under way at once */
#define RETRY_MIN_MS  20
#define RETRY_MAX_MS  2000
#define BATCH         64 /* packets of one turn: others want the loop too */

struct question {
	struct warden_message m; /* as it goes out */
	warden_answer_fn answer; /* NULL: ROAD */
	warden_road_fn got;
	void *arg;
	bool is_sent;
	struct question *next;
};

struct warden_client {
	struct loop *loop; /* borrowed */
	char *path;
	struct warden_client_events events;
	void *arg;
	int fd; /* -EBADF while there is no connection */
	struct loop_watch watch;
	struct loop_timer retry;
	struct loop_task failing; /* hands out -ECONNRESET, never from inside warden_ask() */
	struct question *first, **last;
	struct question *lost; /* waiting to be told so */
	size_t n;
	uint64_t number;
	uint64_t retry_ms;
	bool is_connected, is_freed;
};

char *warden_guest_socket(const char *state, const char *id)
{
	return text_format("%s/boxes/%s/guest.sock", state, id);
}

char *warden_socket(const char *state)
{
	return text_format("%s/run/warden.sock", state);
}

static void tell_lost(struct loop_task *t)
{
	struct warden_client *c =
		(struct warden_client *)(void *)((char *)t -
						 offsetof(struct warden_client, failing));

	while (c->lost) {
		struct question *q = c->lost;

		c->lost = q->next;
		q->m.code = -ECONNRESET;
		(void)err_set(&q->m.err, ECONNRESET,
			"the warden went away before it answered; what happened is known at its "
			"next LIST");
		if (q->answer)
			q->answer(&q->m, q->arg);
		else
			q->got(-EBADF, -EBADF, &q->m.err, q->arg);
		free(q);
	}
	if (c->is_freed) {
		free(c->path);
		free(c);
	}
}

static void lose_questions(struct warden_client *c)
{
	struct question **end = &c->lost;

	while (*end)
		end = &(*end)->next;
	*end = c->first;
	c->first = NULL;
	c->last = &c->first;
	c->n = 0;
	if (c->lost)
		loop_defer(c->loop, &c->failing);
}

static void disconnect(struct warden_client *c)
{
	struct err ignored;
	bool was = c->is_connected;

	if (c->fd >= 0)
		(void)loop_watch_set(c->loop, &c->watch, 0, &ignored);
	closep(&c->fd);
	c->is_connected = false;
	lose_questions(c);
	if (c->is_freed)
		return;
	loop_timer_set(c->loop, &c->retry, c->retry_ms);
	c->retry_ms = c->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : c->retry_ms * 2;
	if (was && c->events.lost)
		c->events.lost(c->arg);
}

static struct question *take_question(struct warden_client *c, uint64_t number, bool remove)
{
	for (struct question **p = &c->first; *p; p = &(*p)->next) {
		struct question *q = *p;

		if (q->m.number != number || !q->is_sent)
			continue;
		if (remove) {
			*p = q->next;
			if (c->last == &q->next)
				c->last = p;
			c->n--;
		}
		return q;
	}
	return NULL;
}

/* A warden is ours; that it sends nonsense means that it is another version. */
static bool is_answer(const struct warden_message *m, ssize_t n)
{
	if (n != (ssize_t)sizeof(*m) || m->op < WARDEN_START || m->op > WARDEN_ENDED)
		return false;
	if (strnlen(m->id, sizeof(m->id)) == sizeof(m->id))
		return false;
	if (m->op == WARDEN_ENDED)
		return strnlen(m->reason, sizeof(m->reason)) < sizeof(m->reason);
	if (m->code < 0)
		return strnlen(m->err.msg, sizeof(m->err.msg)) < sizeof(m->err.msg);
	for (size_t i = 0; (m->op == WARDEN_START || m->op == WARDEN_BOX) && i < WALL_COUNT; i++)
		if (strnlen(m->walls.detail[i], WARDEN_DETAIL_MAX) == WARDEN_DETAIL_MAX ||
			m->walls.requested[i] > WALL_LEVEL_REQUIRED ||
			m->walls.enforced[i] > WALL_VERDICT_MISSING)
			return false;
	return true;
}

static bool take_road(struct question *q, const struct warden_message *m, int fds[2])
{
	struct err none = {0};

	/* An answer that is neither a reason nor two descriptors. */
	if (m->code >= 0 && fds[1] < 0) {
		(void)err_set(&none, EPROTO, "the warden sent no road");
		q->got(-EBADF, -EBADF, &none, q->arg);
		return false;
	}
	q->got(TAKE_FD(fds[0]), TAKE_FD(fds[1]), m->code < 0 ? &m->err : &none, q->arg);
	return true;
}

static bool take_answer(struct warden_client *c, const struct warden_message *m, int fds[2])
{
	struct question *q;

	if (m->op == WARDEN_ENDED) {
		if (c->events.ended)
			c->events.ended(m->id, m->reason, c->arg);
		return true;
	}
	q = take_question(c, m->number, m->op != WARDEN_BOX);
	if (!q || (m->op != q->m.op && !(m->op == WARDEN_BOX && q->m.op == WARDEN_LIST)))
		return false;
	if (m->op == WARDEN_ROAD) {
		bool is_good = take_road(q, m, fds);

		free(q);
		return is_good;
	}
	q->answer(m, q->arg);
	if (m->op != WARDEN_BOX)
		free(q);
	return true;
}

static void receive(struct warden_client *c)
{
	for (int i = 0; i < BATCH && c->fd >= 0; i++) {
		AUTO_FD int tcp = -EBADF, dns = -EBADF;
		int fds[2] = {-EBADF, -EBADF};
		struct warden_message m;
		struct err err = {0};
		size_t fds_n = 2;
		ssize_t n = sock_receive(c->fd, &m, sizeof(m), fds, &fds_n, &err);
		bool is_good;

		if (n == -EAGAIN)
			return;
		is_good = n > 0 && is_answer(&m, n) && take_answer(c, &m, fds);
		tcp = fds[0]; /* closed unless somebody took them */
		dns = fds[1];
		if (!is_good) {
			disconnect(c);
			return;
		}
		/* It speaks: the next failure is a new one. */
		c->retry_ms = RETRY_MIN_MS;
	}
}

static void transmit(struct warden_client *c)
{
	struct question *q = c->first;
	struct err err;

	while (q && q->is_sent)
		q = q->next;
	for (; q; q = q->next) {
		if (send(c->fd, &q->m, sizeof(q->m), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
			/* The loop will find it closed, and say so from there. */
			if (errno != EAGAIN && errno != EINTR)
				(void)shutdown(c->fd, SHUT_RDWR);
			break;
		}
		q->is_sent = true;
	}
	if (loop_watch_set(c->loop, &c->watch, EPOLLIN | (q ? EPOLLOUT : 0u), &err) < 0)
		(void)shutdown(c->fd, SHUT_RDWR);
}

static void ready(struct loop_watch *w, uint32_t events)
{
	struct warden_client *c =
		(struct warden_client *)(void *)((char *)w - offsetof(struct warden_client, watch));

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(c);
	if (c->fd >= 0 && (events & EPOLLOUT))
		transmit(c);
}

static void try_connect(struct loop_timer *t)
{
	struct warden_client *c =
		(struct warden_client *)(void *)((char *)t - offsetof(struct warden_client, retry));
	struct err ignored;

	c->fd = warden_connect(c->path, SOCK_SEQPACKET, &ignored);
	if (c->fd < 0) {
		disconnect(c);
		return;
	}
	c->watch = (struct loop_watch){.fd = c->fd, .ready = ready};
	if (loop_watch_set(c->loop, &c->watch, EPOLLIN, &ignored) < 0) {
		disconnect(c);
		return;
	}
	c->is_connected = true;
	if (c->events.connected)
		c->events.connected(c->arg);
}

int warden_client_create(struct loop *l, const char *path, const struct warden_client_events *e,
	void *arg, struct warden_client **ret, struct err *err)
{
	struct warden_client *c;

	if (path[0] != '/')
		return err_set(err, EINVAL, "'%s' is not an absolute path", path);
	c = MEM_NEW(struct warden_client);
	c->loop = l;
	c->path = mem_strdup(path);
	c->events = *e;
	c->arg = arg;
	c->fd = -EBADF;
	c->last = &c->first;
	c->retry.fire = try_connect;
	c->retry_ms = RETRY_MIN_MS;
	c->failing.run = tell_lost;
	loop_timer_set(l, &c->retry, 0);
	*ret = c;
	return 0;
}

/* The questions are answered first, from the loop: it must run once more. */
struct warden_client *warden_client_free(struct warden_client *c)
{
	if (!c)
		return NULL;
	c->is_freed = true;
	loop_timer_cancel(c->loop, &c->retry);
	disconnect(c);
	loop_defer(c->loop, &c->failing);
	return NULL;
}

static int ask(struct warden_client *c, const struct warden_message *m, const struct question *how,
	struct err *err)
{
	struct question *q;

	if (!c->is_connected)
		return err_set(err, ENOTCONN, "the warden is not there just now");
	if (c->n >= QUESTIONS_MAX)
		return err_set(err, EBUSY, "%zu questions to the warden are under way", c->n);
	q = MEM_NEW(struct question);
	*q = *how;
	q->m.op = m->op;
	q->m.number = ++c->number;
	/* Field by field: what lies behind them in the caller's memory is not the warden's. */
	memcpy(q->m.id, m->id, strnlen(m->id, sizeof(m->id) - 1));
	if (m->op == WARDEN_START)
		q->m.spec = m->spec;
	*c->last = q;
	c->last = &q->next;
	c->n++;
	transmit(c);
	return 0;
}

int warden_ask(struct warden_client *c, const struct warden_message *m, warden_answer_fn answer,
	void *arg, struct err *err)
{
	struct question how = {.answer = answer, .arg = arg};

	return ask(c, m, &how, err);
}

int warden_ask_road(
	struct warden_client *c, const char *id, warden_road_fn got, void *arg, struct err *err)
{
	struct question how = {.got = got, .arg = arg};
	struct warden_message m = {.op = WARDEN_ROAD};

	(void)snprintf(m.id, sizeof(m.id), "%s", id);
	return ask(c, &m, &how, err);
}
