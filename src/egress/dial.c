/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From a name or an address to a connected socket:
 *
 *   looking up --addresses--> connecting --connected--> done
 *        |                        |--connected to the proxy--> chaining --> done
 *        '------ failure, refusal, time -----------------------'-----------> done (no descriptor)
 *
 * 1. Every address is judged before a packet goes to it, and the one that is judged is the one
 *    that is dialled: there is no second look-up.
 * 2. A little after the first attempt the next address is tried beside it; the first to connect
 *    wins.
 * 3. done() comes from the loop only, once, and not after dial_cancel().
 */
#include "base/mem.h"
#include "egress/chain.h"
#include "egress/egress_impl.h"
#include "egress/resolve.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define DIAL_MS    10000 /* of connecting, all addresses together */
#define STAGGER_MS 300
#define ATTEMPTS   4

struct dialing;

struct attempt {
	struct loop_watch watch; /* first; fd < 0: free */
	struct dialing *owner;
	struct address addr;
};

struct dialing {
	struct dial *dial; /* NULL: over */
	struct egress *engine;
	struct resolve_wait wait;
	struct chain_wait chain;
	bool is_chained;
	struct address addrs[RESOLVE_ADDRS_MAX];
	size_t addrs_n, next;
	uint16_t port;
	struct attempt attempts[ATTEMPTS];
	struct loop_timer timer;
	uint64_t deadline_ms;
	struct timespec began;
	struct loop_task work; /* tells a refusal, or frees */
	enum denial_kind kind; /* of the last failure */
	char why[160];
};

static void fail(struct dialing *g, enum denial_kind kind, const char *why)
{
	g->kind = kind;
	(void)snprintf(g->why, sizeof(g->why), "%s", why);
}

/* ---- the end ---- */

static void drop_attempt(struct attempt *a)
{
	struct err ignored;

	if (a->watch.fd < 0)
		return;
	(void)loop_watch_set(a->owner->engine->loop, &a->watch, 0, &ignored);
	closep(&a->watch.fd);
}

static void stop(struct dialing *g)
{
	resolve_cancel(&g->wait);
	chain_cancel(&g->chain);
	loop_timer_cancel(g->engine->loop, &g->timer);
	for (size_t i = 0; i < ATTEMPTS; i++)
		drop_attempt(&g->attempts[i]);
}

static void tell(struct dialing *g, int fd)
{
	struct dial *d = g->dial;

	stop(g);
	g->dial = NULL;
	d->impl = NULL;
	loop_defer(g->engine->loop, &g->work);
	d->done(d, fd, g->kind, g->why);
}

static void work(struct loop_task *t)
{
	struct dialing *g = (struct dialing *)((char *)t - offsetof(struct dialing, work));

	if (g->dial)
		tell(g, -EBADF);
	else
		free(g);
}

void dial_cancel(struct dial *d)
{
	struct dialing *g = d->impl;

	if (!g)
		return;
	stop(g);
	d->impl = NULL;
	g->dial = NULL;
	loop_defer(g->engine->loop, &g->work);
}

/* ---- judging ---- */

static bool is_own(const struct egress *e, const struct address *a)
{
	for (size_t i = 0; i < e->config.own_n; i++)
		if (address_in(a, &e->config.own[i]))
			return true;
	return false;
}

static bool may_dial(struct dialing *g, const struct address *a)
{
	struct egress_flow *f = g->dial->flow;
	struct policy_question q = {
		.name = g->dial->name,
		.addr = a,
		.port = g->dial->port,
		.protocol = f->protocol,
		.method = g->dial->method,
		.path = g->dial->path,
		.program = flow_program(f),
	};
	struct policy_answer answer = {0};
	char text[ADDRESS_TEXT_MAX], why[160];
	bool is_ours = is_own(g->engine, a);

	if (policy_may_dial(f->box->policy, &q, a, &answer) && (answer.may_private || !is_ours))
		return true;
	/* What a person granted has no rule: public addresses only. */
	ask_grant(f, NULL, &answer);
	address_format(a, text);
	if (answer.needs == 0 && answer.action == POLICY_DENY) {
		(void)snprintf(why, sizeof(why), "it leads to %s, which is not allowed", text);
		fail(g, denial_kind_of(&answer), why);
		f->rule = answer.rule;
		return false;
	}
	if (address_kind(a) == ADDRESS_PUBLIC && !is_ours)
		return true;
	(void)snprintf(why, sizeof(why), "it leads to %s, a %s address", text,
		is_ours ? "host's own" : address_kind_name(address_kind(a)));
	fail(g, DENIAL_ADDRESS, why);
	return false;
}

/* ---- connecting ---- */

static void try_next(struct dialing *g);

static const char *connect_error(int code)
{
	switch (code) {
	case ECONNREFUSED: return "the connection was refused";
	case ETIMEDOUT: return "no answer in time";
	case ENETUNREACH:
	case EHOSTUNREACH: return "the host cannot be reached from here";
	case ECONNRESET: return "the connection was reset";
	default: return strerror(code);
	}
}

static void set_options(int fd)
{
	int one = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

static void chained(struct chain_wait *w, int take_fd, const char *why)
{
	struct dialing *g = (struct dialing *)((char *)w - offsetof(struct dialing, chain));

	if (take_fd < 0)
		fail(g, DENIAL_UPSTREAM, why);
	tell(g, take_fd);
}

static void connected(struct attempt *a)
{
	struct dialing *g = a->owner;
	struct egress_flow *f = g->dial->flow;
	struct err ignored;
	struct timespec now;
	int64_t us;
	int fd;

	(void)loop_watch_set(g->engine->loop, &a->watch, 0, &ignored);
	fd = TAKE_FD(a->watch.fd);
	set_options(fd);
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	us = (now.tv_sec - g->began.tv_sec) * 1000000 + (now.tv_nsec - g->began.tv_nsec) / 1000;
	account_latency(f, us > 0 ? (uint64_t)us : 0);
	if (g->is_chained) {
		struct chain_target t = {
			.name = g->dial->name, .addr = &f->addr, .port = g->dial->port};

		stop(g); /* the other attempts; the timer is the chain's own now */
		g->chain.done = chained;
		chain_start(g->engine->chain, &g->chain, fd, &t);
		return;
	}
	f->addr = a->addr;
	tell(g, fd);
}

static void attempt_failed(struct attempt *a, int code)
{
	struct dialing *g = a->owner;

	drop_attempt(a);
	fail(g, DENIAL_UPSTREAM, connect_error(code));
	try_next(g);
}

static void attempt_ready(struct loop_watch *w, uint32_t events)
{
	struct attempt *a = (struct attempt *)w;
	socklen_t n = sizeof(int);
	int code = 0;

	(void)events;
	if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0)
		code = errno;
	if (code != 0)
		attempt_failed(a, code);
	else
		connected(a);
}

/* 0, or errno. */
static int start_attempt(struct dialing *g, struct attempt *a, const struct address *addr)
{
	struct sockaddr_storage ss;
	socklen_t n = address_to_sockaddr(addr, g->port, &ss);
	struct err err;

	a->addr = *addr;
	a->watch.ready = attempt_ready;
	a->watch.fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (a->watch.fd < 0)
		return errno;
	if (connect(a->watch.fd, (struct sockaddr *)&ss, n) < 0 && errno != EINPROGRESS) {
		int code = errno;

		closep(&a->watch.fd);
		return code;
	}
	if (loop_watch_set(g->engine->loop, &a->watch, EPOLLOUT, &err) < 0) {
		closep(&a->watch.fd);
		return err.code;
	}
	return 0;
}

static size_t running(const struct dialing *g)
{
	size_t n = 0;

	for (size_t i = 0; i < ATTEMPTS; i++)
		n += g->attempts[i].watch.fd >= 0;
	return n;
}

static struct attempt *free_attempt(struct dialing *g)
{
	for (size_t i = 0; i < ATTEMPTS; i++)
		if (g->attempts[i].watch.fd < 0)
			return &g->attempts[i];
	return NULL;
}

static void set_timer(struct dialing *g)
{
	uint64_t now = loop_now_ms(g->engine->loop);
	uint64_t left = g->deadline_ms > now ? g->deadline_ms - now : 0;

	if (g->next < g->addrs_n && running(g) < ATTEMPTS && left > STAGGER_MS)
		left = STAGGER_MS;
	loop_timer_set(g->engine->loop, &g->timer, left);
}

/* One more address, if there is one; told later if that was the last hope. */
static void try_next(struct dialing *g)
{
	struct attempt *a = free_attempt(g);

	while (a && g->next < g->addrs_n) {
		const struct address *addr = &g->addrs[g->next++];
		int code;

		if (!g->is_chained && !may_dial(g, addr))
			continue;
		code = start_attempt(g, a, addr);
		if (code == 0) {
			set_timer(g);
			return;
		}
		fail(g, DENIAL_UPSTREAM, connect_error(code));
	}
	if (running(g) == 0)
		loop_defer(g->engine->loop, &g->work);
	else
		set_timer(g);
}

static void timer_fired(struct loop_timer *t)
{
	struct dialing *g = (struct dialing *)((char *)t - offsetof(struct dialing, timer));

	if (loop_now_ms(g->engine->loop) >= g->deadline_ms) {
		fail(g, DENIAL_UPSTREAM, connect_error(ETIMEDOUT));
		tell(g, -EBADF);
		return;
	}
	try_next(g);
}

static void begin(struct dialing *g)
{
	g->deadline_ms = loop_now_ms(g->engine->loop) + DIAL_MS;
	(void)clock_gettime(CLOCK_MONOTONIC, &g->began);
	try_next(g);
}

/* ---- looking up ---- */

static void resolved(struct resolve_wait *w, int code, const struct address *addrs, size_t n)
{
	struct dialing *g = (struct dialing *)((char *)w - offsetof(struct dialing, wait));

	if (code != 0) {
		fail(g, DENIAL_UPSTREAM,
			code == ENOENT         ? "there is no such name"
			: code == ETIMEDOUT    ? "the name server did not answer"
			: code == ECONNREFUSED ? "the name server cannot be reached"
					       : "the name could not be looked up");
		tell(g, -EBADF);
		return;
	}
	memcpy(g->addrs, addrs, n * sizeof(*addrs));
	g->addrs_n = n;
	begin(g);
}

static void dial_by_name(struct dialing *g, const char *name)
{
	g->wait.done = resolved;
	resolve_start(g->engine->resolver, &g->wait, name);
}

static void dial_chain(struct dialing *g)
{
	const struct chain *c = g->engine->chain;

	/* The other end of the proxy is not ours to judge, but a bare address is. */
	if (!g->dial->name && !may_dial(g, &g->dial->flow->addr)) {
		loop_defer(g->engine->loop, &g->work);
		return;
	}
	g->is_chained = true;
	g->port = chain_port(c);
	if (chain_addr(c, &g->addrs[0])) {
		g->addrs_n = 1;
		begin(g);
	} else {
		dial_by_name(g, chain_host(c));
	}
}

void dial_start(struct dial *d)
{
	struct egress *e = d->flow->box->engine;
	struct dialing *g = MEM_NEW(struct dialing);
	struct address addr;

	g->dial = d;
	d->impl = g;
	g->engine = e;
	g->port = d->port;
	g->timer.fire = timer_fired;
	g->work.run = work;
	for (size_t i = 0; i < ATTEMPTS; i++) {
		g->attempts[i].watch.fd = -EBADF;
		g->attempts[i].owner = g;
	}
	fail(g, DENIAL_UPSTREAM, "there is no address to connect to");
	if (e->chain && !chain_skips(e->chain, d->name, &d->flow->addr)) {
		dial_chain(g);
	} else if (!d->name) {
		g->addrs[0] = d->flow->addr;
		g->addrs_n = 1;
		begin(g);
	} else if (address_parse(d->name, strlen(d->name), &addr)) {
		fail(g, DENIAL_ADDRESS, "an address is no name");
		loop_defer(e->loop, &g->work);
	} else {
		dial_by_name(g, d->name);
	}
}
