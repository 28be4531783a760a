/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A connection whose kind is not known yet:
 *
 *   peeking --first bytes say what it is, or nobody speaks--> passed on, intercepted, refused
 *      |                                                        ^
 *      '--a person has to say--> asking --yes, no, time---------'
 *
 * 1. Nothing is read: bytes are peeked at, and whoever gets the connection reads them.
 * 2. Nothing is dialled or looked up in here.
 * 3. A surely denied connection is peeked at too, for a moment: to say no in its own language.
 */
#include "base/mem.h"
#include "egress/egress_impl.h"
#include "egress/hello.h"
#include "egress/names.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define FIRST_MS  10000 /* for the first bytes, all of them */
#define SERVER_MS 300   /* a client that may speak any protocol, and waits for the server */
#define DENIED_MS 2000  /* to see what language the refusal is to be in */
#define PEEKS_MAX 256   /* a hello in so many pieces is an attack */
#define LINE_CAP  8192  /* a first line longer than this is for the HTTP parser to refuse */

enum kind { KIND_MORE, KIND_TLS, KIND_BAD_TLS, KIND_HTTP, KIND_RAW };

struct pending {
	struct egress_flow flow; /* first */
	struct loop_watch watch;
	struct loop_timer timer;
	struct ask ask;
	bool is_asking, is_over, is_denied;
	bool may_raw; /* allowed whatever it speaks */
	unsigned peeks;
	struct hello hello;
	struct loop_task again; /* a new policy has an answer */
	struct loop_task bury;
};

static char peeked[64u << 10];

static struct loop *loop_of(const struct pending *p)
{
	return p->flow.box->engine->loop;
}

static bool is_internal(const struct pending *p)
{
	return strcmp(p->flow.name, EGRESS_INTERNAL) == 0;
}

/* ---- the end ---- */

static void bury(struct loop_task *t)
{
	struct pending *p = (struct pending *)((char *)t - offsetof(struct pending, bury));

	free(p);
}

/* The descriptor goes on, the rest ends here. */
static int hand_on(struct pending *p, struct flow_target *ret)
{
	struct err ignored;
	int fd;

	flow_retarget(&p->flow, ret);
	(void)loop_watch_set(loop_of(p), &p->watch, 0, &ignored);
	loop_timer_cancel(loop_of(p), &p->timer);
	ask_cancel(&p->ask);
	fd = TAKE_FD(p->watch.fd);
	p->is_over = true;
	flow_done(&p->flow);
	p->bury.run = bury;
	loop_defer(loop_of(p), &p->bury);
	return fd;
}

static void drop(struct pending *p)
{
	struct linger hard = {.l_onoff = 1};
	struct flow_target ignored;
	AUTO_FD int fd = hand_on(p, &ignored);

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static void cut(struct egress_flow *f)
{
	drop((struct pending *)f);
}

static void refuse(struct pending *p, enum denial_kind kind, const char *why)
{
	struct egress_box *b = p->flow.box;
	struct flow_target t;
	struct denial d;
	bool is_tls = p->flow.protocol == POLICY_HTTPS;
	int fd;

	denial_fill(&d, kind, &p->flow, NULL, NULL, why);
	fd = hand_on(p, &t);
	t.is_tls = is_tls && kind != DENIAL_MALFORMED;
	refuse_start(b, fd, &t, false, &d);
}

static void intercept(struct pending *p, bool is_tls)
{
	struct egress_box *b = p->flow.box;
	struct flow_target t;
	int fd;

	if (is_tls && !b->engine->mint) {
		refuse(p, DENIAL_PROTOCOL,
			"a rule wants to look inside, and there is no certificate authority");
		return;
	}
	fd = hand_on(p, &t);
	t.is_tls = is_tls;
	intercept_start(b, fd, &t);
}

static void pass(struct pending *p, const struct policy_answer *a)
{
	struct egress_box *b = p->flow.box;
	bool is_tls = p->flow.protocol == POLICY_HTTPS;
	struct flow_target t;
	int fd = hand_on(p, &t);

	t.is_tls = is_tls;
	pass_start(b, fd, &t, a);
}

/* ---- deciding ---- */

static bool is_denied(const struct policy_answer *a)
{
	return a->needs == 0 && a->action == POLICY_DENY;
}

/* Without a look inside. */
static bool is_fine(const struct policy_answer *a)
{
	return a->needs == 0 && a->action != POLICY_DENY;
}

static void decide_as(struct pending *p, unsigned protocol, struct policy_answer *ret)
{
	p->flow.protocol = protocol;
	flow_decide(&p->flow, NULL, NULL, ret);
	p->flow.rule = ret->rule;
}

static void ask_answered(struct ask *k, bool is_allowed)
{
	struct pending *p = (struct pending *)((char *)k - offsetof(struct pending, ask));
	struct policy_answer a;

	p->is_asking = false;
	flow_decide(&p->flow, NULL, NULL, &a);
	p->flow.rule = a.rule;
	if (!is_allowed)
		refuse(p, DENIAL_ASK, NULL);
	else if (is_denied(&a)) /* a new policy came in the same moment */
		refuse(p, denial_kind_of(&a), NULL);
	else if (p->flow.protocol == POLICY_HTTPS && (a.needs != 0 || a.must_intercept))
		intercept(p, true);
	else
		pass(p, &a);
}

static void ask(struct pending *p)
{
	struct denial what;
	struct err err;

	denial_fill(&what, DENIAL_ASK, &p->flow, NULL, NULL, NULL);
	p->ask.answered = ask_answered;
	if (ask_start(&p->ask, &p->flow, &what, &err) < 0) {
		refuse(p, DENIAL_LIMIT, "too many questions of this sandbox are open");
		return;
	}
	p->is_asking = true;
	loop_timer_cancel(loop_of(p), &p->timer);
	/* Whoever hangs up does not want it any more. */
	if (loop_watch_set(loop_of(p), &p->watch, EPOLLRDHUP, &err) < 0)
		drop(p);
}

/* Allowed or to be asked, without a look inside. */
static void go(struct pending *p, const struct policy_answer *a)
{
	if (a->action == POLICY_ASK)
		ask(p);
	else
		pass(p, a);
}

static bool try_raw(struct pending *p)
{
	struct policy_answer a;

	decide_as(p, POLICY_TCP, &a);
	if (!is_fine(&a))
		return false;
	go(p, &a);
	return true;
}

static void settle_raw(struct pending *p, const char *why)
{
	struct policy_answer web, a;

	if (try_raw(p))
		return;
	decide_as(p, POLICY_HTTPS, &web);
	decide_as(p, POLICY_TCP, &a);
	if (a.rule || a.by_floor || is_denied(&web))
		refuse(p, denial_kind_of(&a), NULL);
	else
		refuse(p, DENIAL_PROTOCOL, why); /* the name is fine, the language is not */
}

static bool name_agrees(struct pending *p)
{
	const struct hello *h = &p->hello;
	char why[2 * POLICY_NAME_MAX + 100];

	if (!p->flow.name[0])
		return true;
	if (!h->has_name) {
		refuse(p, DENIAL_PROTOCOL, "TLS without a server name");
		return false;
	}
	if (!h->is_bad_name && strcmp(h->name, p->flow.name) == 0)
		return true;
	(void)snprintf(why, sizeof(why), "the TLS server name is %s, the connection is to %s",
		h->is_bad_name ? "malformed" : h->name, p->flow.name);
	refuse(p, DENIAL_MISMATCH, why);
	return false;
}

static void settle_tls(struct pending *p)
{
	struct policy_answer a;

	decide_as(p, POLICY_HTTPS, &a);
	if (is_denied(&a)) {
		if (a.rule || a.by_floor || !try_raw(p)) {
			decide_as(p, POLICY_HTTPS, &a);
			refuse(p, denial_kind_of(&a), NULL);
		}
		return;
	}
	if (!name_agrees(p))
		return;
	if (a.needs != 0 || a.must_intercept)
		intercept(p, true);
	else if (p->hello.has_ech) /* the real name may be inside, where nobody can judge it */
		refuse(p, DENIAL_PROTOCOL, "an encrypted client hello hides the server name");
	else
		go(p, &a);
}

static void settle_http(struct pending *p)
{
	struct policy_answer a;

	decide_as(p, POLICY_HTTP, &a);
	if (is_denied(&a) && !a.rule && !a.by_floor && try_raw(p))
		return;
	intercept(p, false); /* each request is judged there; also one that is surely denied */
}

static void settle_internal(struct pending *p, enum kind kind)
{
	if (kind == KIND_HTTP && p->flow.port == 80) {
		intercept(p, false);
		return;
	}
	p->flow.protocol = kind == KIND_TLS ? POLICY_HTTPS : POLICY_TCP;
	refuse(p, DENIAL_PROTOCOL, "http://" EGRESS_INTERNAL "/ is plain HTTP on port 80");
}

static void settle(struct pending *p, enum kind kind)
{
	if (is_internal(p)) {
		settle_internal(p, kind);
	} else if (vault_scan_name(p->flow.name)) {
		p->flow.protocol = kind == KIND_TLS ? POLICY_HTTPS : 0;
		refuse(p, DENIAL_PLACEHOLDER, NULL);
	} else if (kind == KIND_TLS) {
		settle_tls(p);
	} else if (kind == KIND_HTTP) {
		settle_http(p);
	} else if (kind == KIND_BAD_TLS) {
		if (!try_raw(p)) {
			p->flow.protocol = POLICY_HTTPS;
			refuse(p, DENIAL_MALFORMED, "the TLS client hello is malformed");
		}
	} else {
		settle_raw(p, "neither TLS nor HTTP, and no tcp rule for it");
	}
}

/* ---- peeking ---- */

static bool is_token(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

/* METHOD SP target SP HTTP/x.y: anything else that starts with letters is some other protocol. */
static enum kind kind_of_text(const char *p, size_t n)
{
	const char *nl = memchr(p, '\n', n < LINE_CAP ? n : LINE_CAP);
	size_t line = nl ? (size_t)(nl - p) : n, word = 0;

	while (word < line && is_token(p[word]))
		word++;
	if (word == 0 || word > 32 || (word < line && p[word] != ' '))
		return KIND_RAW;
	if (!nl)
		return n < LINE_CAP ? KIND_MORE : KIND_HTTP;
	if (line > 0 && p[line - 1] == '\r')
		line--;
	if (line < word + 10 || memcmp(p + line - 9, " HTTP/", 6) != 0)
		return KIND_RAW;
	return KIND_HTTP;
}

static enum kind kind_of(struct pending *p, const char *bytes, size_t n)
{
	switch (hello_parse(bytes, n, &p->hello)) {
	case HELLO_OK: return KIND_TLS;
	case HELLO_BAD: return KIND_BAD_TLS;
	case HELLO_MORE: return n < sizeof(peeked) ? KIND_MORE : KIND_BAD_TLS;
	case HELLO_NONE:
	default: return kind_of_text(bytes, n);
	}
}

/* It has said too little and will not say more. */
static void silent(struct pending *p, bool has_bytes)
{
	if (is_internal(p)) {
		drop(p);
		return;
	}
	if (has_bytes)
		settle_raw(p, "it is no whole TLS hello and no HTTP request");
	else
		settle_raw(p, "it said nothing, and no tcp rule lets the server speak first");
}

static void peek(struct pending *p, uint32_t events)
{
	ssize_t n = recv(p->watch.fd, peeked, sizeof(peeked), MSG_PEEK | MSG_DONTWAIT);
	enum kind kind;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 || (n == 0 && !p->is_denied)) {
		drop(p);
		return;
	}
	kind = n > 0 ? kind_of(p, peeked, (size_t)n) : KIND_RAW;
	if (kind == KIND_MORE && ++p->peeks > PEEKS_MAX)
		kind = peeked[0] == 22 ? KIND_BAD_TLS : KIND_RAW;
	if (kind != KIND_MORE)
		settle(p, kind);
	else if (events & EPOLLRDHUP)
		silent(p, true);
}

static void ready(struct loop_watch *w, uint32_t events)
{
	struct pending *p = (struct pending *)((char *)w - offsetof(struct pending, watch));

	if (p->is_asking || events & EPOLLERR)
		drop(p);
	else
		peek(p, events);
}

static void timer_fired(struct loop_timer *t)
{
	struct pending *p = (struct pending *)((char *)t - offsetof(struct pending, timer));

	silent(p, p->peeks > 0);
}

/* ---- a new policy ---- */

static void again(struct loop_task *t)
{
	struct pending *p = (struct pending *)((char *)t - offsetof(struct pending, again));

	if (p->is_over)
		return;
	ask_cancel(&p->ask);
	p->is_asking = false;
	peek(p, 0);
}

static bool still_allowed(struct egress_flow *f)
{
	struct pending *p = (struct pending *)f;
	struct policy_answer a;

	f->rule = NULL; /* nothing has been decided, or it will be decided again */
	if (!p->is_asking)
		return true;
	flow_decide(f, NULL, NULL, &a);
	f->rule = a.rule;
	if (a.needs == 0 && a.action == POLICY_ASK)
		return true;
	p->again.run = again;
	loop_defer(loop_of(p), &p->again);
	return true;
}

/* ---- the beginning ---- */

static bool stands_for_nothing(const struct egress_flow *f)
{
	uint32_t number;

	return !f->name[0] && names_is_synthetic(&f->addr, &number);
}

/* True: it is over already. */
static bool decide_early(struct pending *p)
{
	struct policy_answer a;

	if (is_internal(p) || vault_scan_name(p->flow.name))
		return false;
	if (stands_for_nothing(&p->flow)) {
		refuse(p, DENIAL_NO_RULE,
			"this address stands for no name; look the name up again");
		return true;
	}
	decide_as(p, 0, &a);
	p->is_denied = is_denied(&a);
	if (is_fine(&a)) {
		p->flow.protocol = POLICY_TCP; /* whatever it is */
		go(p, &a);
		return true;
	}
	decide_as(p, POLICY_TCP, &a);
	p->may_raw = is_fine(&a);
	p->flow.protocol = 0;
	p->flow.rule = NULL;
	return false;
}

void flow_start(struct egress_box *b, int take_fd, const struct flow_target *t)
{
	struct pending *p = MEM_NEW(struct pending);
	struct err err;

	flow_aim(&p->flow, t);
	p->flow.cut = cut;
	p->flow.still_allowed = still_allowed;
	p->watch = (struct loop_watch){.fd = take_fd, .ready = ready};
	p->timer.fire = timer_fired;
	if (b->wants_program && !p->flow.program[0])
		(void)snprintf(p->flow.program, sizeof(p->flow.program), "?");
	flow_add(&p->flow, b);
	if (decide_early(p))
		return;
	/* By edges: what is peeked at stays in the socket. */
	if (loop_watch_set(b->engine->loop, &p->watch, EPOLLIN | EPOLLRDHUP | EPOLLET, &err) < 0) {
		drop(p);
		return;
	}
	loop_timer_set(b->engine->loop, &p->timer,
		p->may_raw     ? SERVER_MS
		: p->is_denied ? DENIED_MS
			       : FIRST_MS);
}
