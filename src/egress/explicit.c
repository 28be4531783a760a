/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Clients that know of a proxy: CONNECT, absolute-form HTTP and SOCKS5 at one address, told apart
 * by the first byte. What they name is judged like what others connect to.
 *
 *   sniffing --'C'ONNECT host:port--> answered 200 --> flow
 *      |------GET http://host/------> intercept (the head stays in the socket)
 *      '------5--> greeted --(login)--> requested --> answered --> flow
 */
#include "base/mem.h"
#include "base/text.h"
#include "egress/egress_impl.h"
#include "egress/socks.h"
#include "io/h1.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define HEAD_MS   10000
#define PEEKS_MAX 256

enum step { SNIFF, LOGIN, REQUEST };

struct sniffed {
	struct egress_flow flow; /* first */
	struct loop_watch watch;
	struct loop_timer timer;
	struct loop_task bury;
	enum step step;
	unsigned peeks;
	bool is_over;
};

static char peeked[H1_HEAD_MAX + 4];

static struct loop *loop_of(const struct sniffed *s)
{
	return s->flow.box->engine->loop;
}

/* ---- the end ---- */

static void bury(struct loop_task *t)
{
	struct sniffed *s = (struct sniffed *)((char *)t - offsetof(struct sniffed, bury));

	free(s);
}

static int hand_on(struct sniffed *s, struct flow_target *ret)
{
	struct err ignored;
	int fd;

	flow_retarget(&s->flow, ret);
	(void)loop_watch_set(loop_of(s), &s->watch, 0, &ignored);
	loop_timer_cancel(loop_of(s), &s->timer);
	fd = TAKE_FD(s->watch.fd);
	s->is_over = true;
	flow_done(&s->flow);
	s->bury.run = bury;
	loop_defer(loop_of(s), &s->bury);
	return fd;
}

static void drop(struct sniffed *s)
{
	struct linger hard = {.l_onoff = 1};
	struct flow_target ignored;
	AUTO_FD int fd = hand_on(s, &ignored);

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static void cut(struct egress_flow *f)
{
	drop((struct sniffed *)f);
}

/* Nothing is decided in here that could change. */
static bool still_allowed(struct egress_flow *f)
{
	f->rule = NULL;
	return true;
}

static void refuse(struct sniffed *s, enum denial_kind kind, bool is_http, const char *why)
{
	struct egress_box *b = s->flow.box;
	struct flow_target t;
	struct denial d;
	int fd;

	denial_fill(&d, kind, &s->flow, NULL, NULL, why);
	fd = hand_on(s, &t);
	refuse_start(b, fd, &t, is_http, &d);
}

/* ---- what they named ---- */

/* "host:port", "[::1]:443"; a name becomes clean, an address an address. */
static bool aim(struct sniffed *s, const char *p, size_t n)
{
	struct egress_flow *f = &s->flow;
	const char *colon = memrchr(p, ':', n);
	size_t host_n = colon ? (size_t)(colon - p) : 0;
	struct err ignored;
	uint64_t port;
	char digits[8];

	if (!colon || n - host_n - 1 >= sizeof(digits))
		return false;
	memcpy(digits, colon + 1, n - host_n - 1);
	digits[n - host_n - 1] = '\0';
	if (text_parse_u64(digits, "port", 1, 65535, &port, &ignored) < 0)
		return false;
	f->port = (uint16_t)port;
	f->name[0] = '\0';
	f->addr = (struct address){0};
	if (host_n > 2 && p[0] == '[' && p[host_n - 1] == ']')
		return address_parse(p + 1, host_n - 2, &f->addr) && f->addr.family != 0;
	if (address_parse(p, host_n, &f->addr))
		return true;
	return policy_clean_name(p, host_n, f->name) >= 0;
}

/* A synthetic address is the name it stands for, also when it is written out. */
static void unmask(struct sniffed *s)
{
	struct flow_target t;

	flow_retarget(&s->flow, &t);
	target_unmask(s->flow.box, &t);
	(void)snprintf(s->flow.name, sizeof(s->flow.name), "%s", t.name);
	s->flow.addr = t.addr;
}

/* Surely denied, and better said here: what follows will hardly be something we can answer in. */
static bool is_refused_here(struct sniffed *s, enum denial_kind *ret)
{
	struct policy_answer a;
	uint16_t port = s->flow.port;

	if (strcmp(s->flow.name, EGRESS_INTERNAL) == 0)
		return false;
	flow_decide(&s->flow, NULL, NULL, &a);
	if (a.needs != 0 || a.action != POLICY_DENY)
		return false;
	if (port == 80 || port == 8080)
		return false;
	if (s->flow.box->engine->mint && (port == 443 || port == 8443))
		return false;
	s->flow.rule = a.rule;
	*ret = denial_kind_of(&a);
	return true;
}

/* Small, on a socket that nothing was written to: all of it or none. */
static bool say(struct sniffed *s, const void *p, size_t n)
{
	if (send(s->watch.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n)
		return true;
	drop(s);
	return false;
}

/* What was peeked at and is used up. */
static bool eat(struct sniffed *s, size_t n)
{
	if (recv(s->watch.fd, peeked, n, MSG_DONTWAIT) == (ssize_t)n)
		return true;
	drop(s);
	return false;
}

static void go_on(struct sniffed *s)
{
	struct egress_box *b = s->flow.box;
	struct flow_target t;
	int fd = hand_on(s, &t);

	flow_start(b, fd, &t);
}

/* ---- HTTP ---- */

static void take_connect(struct sniffed *s, const struct h1_head *h, size_t head_n)
{
	static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	enum denial_kind kind;

	if (h->framing != H1_NO_BODY || !aim(s, h->target.p, h->target.n)) {
		refuse(s, DENIAL_MALFORMED, true, "CONNECT wants HOST:PORT and no body");
		return;
	}
	unmask(s);
	if (!eat(s, head_n))
		return;
	if (is_refused_here(s, &kind))
		refuse(s, kind, true, NULL);
	else if (say(s, yes, sizeof(yes) - 1))
		go_on(s);
}

static void take_absolute(struct sniffed *s, const struct h1_head *h)
{
	static const char scheme[] = "http://";
	size_t skip = sizeof(scheme) - 1;
	struct egress_box *b = s->flow.box;
	struct flow_target t;
	char authority[POLICY_NAME_MAX + 16];
	size_t n = 0;
	int fd;

	if (h->target.n <= skip || strncasecmp(h->target.p, scheme, skip) != 0) {
		refuse(s, DENIAL_MALFORMED, true,
			"this is a proxy: it wants CONNECT or an http:// address");
		return;
	}
	while (skip + n < h->target.n && !strchr("/?#", h->target.p[skip + n]))
		n++;
	if (n < sizeof(authority) - 4) {
		memcpy(authority, h->target.p + skip, n);
		if (!memchr(authority, ':', n) || authority[n - 1] == ']') {
			memcpy(authority + n, ":80", 3);
			n += 3;
		}
	}
	if (n >= sizeof(authority) || !aim(s, authority, n)) {
		refuse(s, DENIAL_MALFORMED, true, "the host of the address is malformed");
		return;
	}
	unmask(s);
	fd = hand_on(s, &t);
	t.is_proxy = true;
	intercept_start(b, fd, &t);
}

/* True: decided, one way or the other. */
static bool sniff_http(struct sniffed *s, size_t n)
{
	struct h1_head h;
	size_t scan = 0, end = h1_head_end(peeked, n, &scan);

	if (end == 0 && n < H1_HEAD_MAX)
		return false;
	if (end == 0 || end == (size_t)-1 || h1_parse_request(peeked, end, &h) != 0)
		refuse(s, DENIAL_MALFORMED, true, "the request is malformed");
	else if (h1_is(h.method, "CONNECT"))
		take_connect(s, &h, end);
	else
		take_absolute(s, &h);
	return true;
}

/* ---- SOCKS5 ---- */

static bool bad_socks(struct sniffed *s)
{
	refuse(s, DENIAL_MALFORMED, false, "the SOCKS request is malformed");
	return true;
}

static void refuse_socks(struct sniffed *s, enum socks_code code, enum denial_kind kind)
{
	unsigned char reply[SOCKS_REPLY_LEN];
	struct flow_target ignored;
	struct denial d;
	int fd;

	socks_reply(code, reply);
	denial_fill(&d, kind, &s->flow, NULL, NULL, NULL);
	violation_note(s->flow.box, &d);
	if (!say(s, reply, sizeof(reply)))
		return;
	/* A reset could overtake the reply. */
	(void)shutdown(s->watch.fd, SHUT_WR);
	fd = hand_on(s, &ignored);
	closep(&fd);
}

static bool sniff_greeting(struct sniffed *s, size_t n)
{
	enum socks_method method;
	ssize_t used = socks_greeting(peeked, n, &method);
	char reply[2] = {5, 0};

	if (used <= 0)
		return used < 0 ? bad_socks(s) : false;
	if (method == SOCKS_NO_METHOD)
		return bad_socks(s);
	reply[1] = (char)method;
	if (eat(s, (size_t)used) && say(s, reply, 2))
		s->step = method == SOCKS_LOGIN ? LOGIN : REQUEST;
	return true;
}

static bool sniff_login(struct sniffed *s, size_t n)
{
	ssize_t used = socks_login(peeked, n);

	if (used <= 0)
		return used < 0 ? bad_socks(s) : false;
	/* Who it is is known by the socket: any user will do. */
	if (eat(s, (size_t)used) && say(s, "\1\0", 2))
		s->step = REQUEST;
	return true;
}

static bool sniff_request(struct sniffed *s, size_t n)
{
	struct socks_request r = {0};
	ssize_t used = socks_request(peeked, n, &r);
	unsigned char reply[SOCKS_REPLY_LEN];
	enum denial_kind kind;

	if (used <= 0)
		return used < 0 ? bad_socks(s) : false;
	if (!eat(s, (size_t)used))
		return true;
	(void)snprintf(s->flow.name, sizeof(s->flow.name), "%s", r.name);
	s->flow.addr = r.addr;
	s->flow.port = r.port;
	unmask(s);
	if (r.code != SOCKS_OK) {
		refuse_socks(s, r.code, DENIAL_PROTOCOL);
	} else if (is_refused_here(s, &kind)) {
		refuse_socks(s, SOCKS_NOT_ALLOWED, kind);
	} else {
		socks_reply(SOCKS_OK, reply);
		if (say(s, reply, sizeof(reply)))
			go_on(s);
	}
	return true;
}

/* ---- sniffing ---- */

static bool sniff(struct sniffed *s, size_t n)
{
	if (s->step == LOGIN)
		return sniff_login(s, n);
	if (s->step == REQUEST)
		return sniff_request(s, n);
	if (peeked[0] == 5)
		return sniff_greeting(s, n);
	if (peeked[0] >= 'A' && peeked[0] <= 'Z')
		return sniff_http(s, n);
	refuse(s, DENIAL_MALFORMED, false, "neither HTTP nor SOCKS5");
	return true;
}

static void ready(struct loop_watch *w, uint32_t events)
{
	struct sniffed *s = (struct sniffed *)((char *)w - offsetof(struct sniffed, watch));

	while (!s->is_over) {
		ssize_t n = recv(s->watch.fd, peeked, H1_HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0 || ++s->peeks > PEEKS_MAX) {
			drop(s);
			return;
		}
		if (!sniff(s, (size_t)n)) { /* wait for more, if there can be more */
			if (events & EPOLLRDHUP)
				drop(s);
			return;
		}
	}
}

static void timer_fired(struct loop_timer *t)
{
	drop((struct sniffed *)((char *)t - offsetof(struct sniffed, timer)));
}

void explicit_start(struct egress_box *b, int take_fd, const struct flow_target *t)
{
	struct sniffed *s = MEM_NEW(struct sniffed);
	struct err err;

	flow_aim(&s->flow, t);
	s->flow.cut = cut;
	s->flow.still_allowed = still_allowed;
	s->watch = (struct loop_watch){.fd = take_fd, .ready = ready};
	s->timer.fire = timer_fired;
	flow_add(&s->flow, b);
	loop_timer_set(b->engine->loop, &s->timer, HEAD_MS);
	if (loop_watch_set(b->engine->loop, &s->watch, EPOLLIN | EPOLLRDHUP | EPOLLET, &err) < 0)
		drop(s);
}
