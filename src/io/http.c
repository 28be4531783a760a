/* SPDX-License-Identifier: Apache-2.0 */

/* The server, its listeners, the life of a connection. */
#include "io/http.h"

#include "base/mem.h"
#include "io/http_impl.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define ACCEPT_TURN    64
#define RETRY_MS       100
#define LEAVING_MS     10  /* full of connections on their way out: look again */
#define DRAIN_FIRST_MS 500 /* draining: for the first request of a connection to come */

/* ---- the graveyard ---- */

static void reap(struct loop_task *t)
{
	struct http_server *s =
		(struct http_server *)((char *)t - offsetof(struct http_server, reaper));

	while (s->dead_requests) {
		struct request *rq = s->dead_requests;

		s->dead_requests = rq->next;
		buf_done(&rq->collected);
		buf_done(&rq->fields);
		free(rq);
	}
	while (s->dead_conns) {
		struct http_conn *hc = s->dead_conns;

		s->dead_conns = hc->next;
		free(hc);
	}
	if (s->is_freed)
		free(s);
}

void http_bury(struct http_server *s, struct request *rq)
{
	rq->next = s->dead_requests;
	s->dead_requests = rq;
	loop_defer(s->loop, &s->reaper);
}

/* ---- listening ---- */

/* What is on its way out counts too: it has a descriptor until its peer has read all. */
static bool is_full(const struct http_server *s)
{
	return s->conns_n + conn_finishing() >= s->conns_max;
}

static void listen_again(struct http_server *s)
{
	struct err ignored;

	for (struct http_listener *l = s->listeners; l; l = l->next) {
		bool has_room = !is_full(s) && l->conns_n < HTTP_LISTENER_CONNS_MAX;
		bool want;

		/* Nobody tells us when one of those is gone. */
		if (is_full(s) && s->conns_n < s->conns_max && l->retry.slot == 0 &&
			!s->is_draining)
			loop_timer_set(s->loop, &l->retry, LEAVING_MS);
		want = has_room && l->retry.slot == 0 && !s->is_draining;
		(void)loop_watch_set(s->loop, &l->watch, want ? EPOLLIN : 0, &ignored);
	}
}

static void retry_fire(struct loop_timer *t)
{
	struct http_listener *l =
		(struct http_listener *)((char *)t - offsetof(struct http_listener, retry));

	listen_again(l->server);
}

static void name_peer(struct http_conn *hc, const struct sockaddr_storage *a)
{
	unsigned uid = 0;

	if (a->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)a;

		(void)inet_ntop(AF_INET, &in->sin_addr, hc->peer, sizeof(hc->peer));
	} else if (a->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)a;

		(void)inet_ntop(AF_INET6, &in->sin6_addr, hc->peer, sizeof(hc->peer));
	} else if (conn_peer_uid(hc->conn, &uid)) {
		(void)snprintf(hc->peer, sizeof(hc->peer), "unix:%u", uid);
	}
}

static void timer_fire(struct loop_timer *t);

static void add_conn(struct http_listener *l, int take_fd, const struct sockaddr_storage *a)
{
	struct http_server *s = l->server;
	struct http_conn *hc = MEM_NEW(struct http_conn);
	struct err err;

	hc->server = s;
	hc->listener = l;
	hc->timer.fire = timer_fire;
	if (conn_create(s->loop, take_fd, l->tls, true, NULL, &http_conn_events, hc, &hc->conn,
		    &err) < 0) {
		free(hc);
		return;
	}
	name_peer(hc, a);
	hc->next = s->conns;
	hc->prev = &s->conns;
	if (s->conns)
		s->conns->prev = &hc->next;
	s->conns = hc;
	s->conns_n++;
	l->conns_n++;
	http_set_deadline(hc, hc->server->times.head);
}

static void listener_ready(struct loop_watch *w, uint32_t events)
{
	struct http_listener *l =
		(struct http_listener *)((char *)w - offsetof(struct http_listener, watch));
	struct http_server *s = l->server;

	(void)events;
	for (int i = 0; i < ACCEPT_TURN && !is_full(s) && l->conns_n < HTTP_LISTENER_CONNS_MAX;
		i++) {
		struct sockaddr_storage a = {0};
		socklen_t n = sizeof(a);
		int fd = accept4(l->fd, (struct sockaddr *)&a, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			add_conn(l, fd, &a);
			continue;
		}
		if (errno == EAGAIN)
			return;
		/* Out of descriptors or memory: whoever waits in the backlog would keep us
		 * spinning. Others (a peer that left again) concern that one peer only. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			loop_timer_set(s->loop, &l->retry, RETRY_MS);
			break;
		}
	}
	listen_again(s);
}

int http_listen(struct http_server *s, int take_fd, struct tls *tls, struct err *err)
{
	struct http_listener *l = MEM_NEW(struct http_listener);
	int r;

	l->server = s;
	l->fd = l->watch.fd = take_fd;
	l->watch.ready = listener_ready;
	l->retry.fire = retry_fire;
	l->tls = tls;
	r = loop_watch_set(s->loop, &l->watch, EPOLLIN, err);
	if (r < 0) {
		closep(&l->fd);
		free(l);
		return err_wrap(err, "listen");
	}
	l->next = s->listeners;
	s->listeners = l;
	return 0;
}

/* ---- connections ---- */

void http_set_deadline(struct http_conn *hc, uint64_t delay_ms)
{
	struct loop *l = hc->server->loop;

	if (delay_ms == 0) {
		hc->deadline_ms = 0;
		return;
	}
	/* The timer fires early rather than being moved at every byte. */
	hc->deadline_ms = loop_now_ms(l) + delay_ms;
	if (hc->timer.slot == 0 || hc->timer.due_ms > hc->deadline_ms)
		loop_timer_set(l, &hc->timer, delay_ms);
}

static void tell_drained(struct http_server *s)
{
	void (*done)(void *arg) = s->drained;

	if (!s->is_draining || s->conns_n > 0 || !done)
		return;
	s->drained = NULL;
	done(s->drained_arg);
}

void http_conn_close(struct http_conn *hc)
{
	struct http_server *s = hc->server;

	if (!hc->conn)
		return;
	hc->conn = NULL;
	loop_timer_cancel(s->loop, &hc->timer);
	*hc->prev = hc->next;
	if (hc->next)
		hc->next->prev = hc->prev;
	s->conns_n--;
	hc->listener->conns_n--;
	hc->next = s->dead_conns;
	s->dead_conns = hc;
	loop_defer(s->loop, &s->reaper);
	if (!s->is_freed)
		listen_again(s);
	tell_drained(s);
}

void http_conn_finish(struct http_conn *hc)
{
	if (!hc->conn)
		return;
	conn_finish(hc->conn);
	http_conn_close(hc);
}

static void abort_conn(struct http_conn *hc)
{
	if (hc->request)
		http_break_off(hc->request);
	if (hc->conn)
		conn_abort(hc->conn);
	http_conn_close(hc);
}

static void timer_fire(struct loop_timer *t)
{
	struct http_conn *hc = (struct http_conn *)((char *)t - offsetof(struct http_conn, timer));
	uint64_t now = loop_now_ms(hc->server->loop);
	struct request *rq = hc->request;

	if (hc->deadline_ms == 0)
		return;
	if (now < hc->deadline_ms) {
		loop_timer_set(hc->server->loop, t, hc->deadline_ms - now);
		return;
	}
	if (rq && rq->mode == BODY_COLLECT && rq->pub.status == 0)
		http_refuse(rq, 408, "the request's body did not come in time");
	else if (rq)
		abort_conn(hc);
	else if (hc->in_head)
		http_refuse_conn(hc, 408, "the request's head did not come in time");
	else
		http_conn_finish(hc);
}

/* ---- the server ---- */

/* A quarter of the descriptors is for what connections make us open: others' clients could take
 * all of them otherwise. */
static unsigned most_conns(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 4 * 3 > HTTP_CONNS_MAX)
		return HTTP_CONNS_MAX;
	return (unsigned)(files.rlim_cur / 4 * 3);
}

int http_server_create(struct loop *l, http_handler_fn handler, void *arg, struct http_server **ret,
	struct err *err)
{
	struct http_server *s = MEM_NEW(struct http_server);

	if (getrandom(&s->id_prefix, sizeof(s->id_prefix), 0) != (ssize_t)sizeof(s->id_prefix)) {
		free(s);
		return err_sys(err, "getrandom");
	}
	s->times = (struct http_times){
		.head = 10000, .body = 120000, .keep_alive = 650000, .drain = 10000};
	s->loop = l;
	s->handler = handler;
	s->arg = arg;
	s->conns_max = most_conns();
	s->reaper.run = reap;
	*ret = s;
	return 0;
}

void http_set_log(struct http_server *s, void (*log)(const struct http_request *r, void *arg))
{
	s->log = log;
}

void http_drain(struct http_server *s, void (*done)(void *arg), void *arg)
{
	struct http_conn *next;

	s->is_draining = true;
	s->drained = done;
	s->drained_arg = arg;
	listen_again(s);
	for (struct http_conn *hc = s->conns; hc; hc = next) {
		next = hc->next;
		if (hc->request || hc->in_head || conn_kept(hc->conn) > 0)
			continue;
		/*
		 * One that waits for its next request, with nothing of it here yet, can be told to
		 * come again. The first of one that was just accepted is on its way: nobody
		 * expects a server to hang up on it.
		 */
		if (hc->has_served)
			http_conn_finish(hc);
		else
			http_set_deadline(hc, DRAIN_FIRST_MS);
	}
	tell_drained(s);
}

struct http_server *http_server_free(struct http_server *s)
{
	if (!s)
		return NULL;
	s->drained = NULL;
	s->is_freed = true;
	s->is_draining = true;
	while (s->conns)
		abort_conn(s->conns);
	while (s->listeners) {
		struct http_listener *l = s->listeners;
		struct err ignored;

		s->listeners = l->next;
		loop_timer_cancel(s->loop, &l->retry);
		(void)loop_watch_set(s->loop, &l->watch, 0, &ignored);
		closep(&l->fd);
		free(l);
	}
	loop_defer(s->loop, &s->reaper);
	return NULL;
}
