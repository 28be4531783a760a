/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Boxes: the two sockets of each, accepting, and the list of its flows. A box past its share of
 * connections is not accepted from until one of them ends: the others do not notice.
 */
#include "base/mem.h"
#include "egress/egress_impl.h"
#include "egress/names.h"
#include "sys/road.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ACCEPT_TURN 32  /* connections of one box before others have their turn */
#define RETRY_MS    100 /* descriptors or flows were short */

struct egress_box *box_find(const struct egress *e, const char *id)
{
	struct egress_box *b;

	for (b = TAILQ_FIRST(&e->boxes); b; b = TAILQ_NEXT(b, link)) {
		if (strcmp(b->id, id) == 0)
			return b;
	}
	return NULL;
}

/* ---- accepting ---- */

static void watch_tcp(struct egress_box *b, bool want)
{
	struct err err;

	if (loop_watch_set(b->engine->loop, &b->tcp, want ? EPOLLIN : 0, &err) < 0)
		loop_timer_set(b->engine->loop, &b->retry, RETRY_MS);
}

static void pause_tcp(struct egress_box *b)
{
	watch_tcp(b, false);
	loop_timer_set(b->engine->loop, &b->retry, RETRY_MS);
}

static void retry(struct loop_timer *t)
{
	struct egress_box *b =
		(struct egress_box *)((char *)t - offsetof(struct egress_box, retry));

	watch_tcp(b, b->flows_n < EGRESS_BOX_FLOWS);
}

/* What the box connected to is the address of our own end. */
static bool aim(
	struct egress_box *b, int fd, const struct sockaddr_storage *peer, struct flow_target *t)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);
	uint32_t number;

	*t = (struct flow_target){0};
	if (getsockname(fd, (struct sockaddr *)&ss, &n) < 0 ||
		!address_from_sockaddr(&ss, &t->addr, &t->port))
		return false;
	if (!address_from_sockaddr(peer, &t->peer, &t->peer_port))
		return false;
	if (names_is_synthetic(&t->addr, &number))
		target_unmask(b, t);
	return true;
}

void target_unmask(struct egress_box *b, struct flow_target *t)
{
	const char *name;
	uint32_t number;

	if (!names_is_synthetic(&t->addr, &number))
		return;
	name = number == NAMES_INTERNAL ? EGRESS_INTERNAL : names_name(b->names, number);
	if (!name)
		return; /* stands for nothing: a bare address that no rule may name */
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	t->addr = (struct address){0};
}

static void take(struct egress_box *b, int take_fd, const struct sockaddr_storage *peer)
{
	struct flow_target t;

	if (!aim(b, take_fd, peer, &t)) {
		(void)close(take_fd);
		return;
	}
	if (t.port == ROAD_PORT && address_kind(&t.addr) == ADDRESS_LOOPBACK)
		explicit_start(b, take_fd, &t);
	else
		flow_start(b, take_fd, &t);
}

static void tcp_ready(struct loop_watch *w, uint32_t events)
{
	struct egress_box *b = (struct egress_box *)((char *)w - offsetof(struct egress_box, tcp));
	struct egress *e = b->engine;

	(void)events;
	for (int i = 0; i < ACCEPT_TURN; i++) {
		struct sockaddr_storage peer;
		socklen_t n = sizeof(peer);
		int fd;

		if (b->flows_n >= EGRESS_BOX_FLOWS) {
			watch_tcp(b, false);
			return;
		}
		if (e->flows_n >= e->flows_max) {
			pause_tcp(b);
			return;
		}
		fd = accept4(b->tcp.fd, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			take(b, fd, &peer);
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR && errno != ECONNABORTED) {
			pause_tcp(b);
			return;
		}
	}
}

static void dns_ready(struct loop_watch *w, uint32_t events)
{
	struct egress_box *b = (struct egress_box *)((char *)w - offsetof(struct egress_box, dns));

	(void)events;
	stub_ready(b);
}

/* ---- flows ---- */

void flow_aim(struct egress_flow *f, const struct flow_target *t)
{
	(void)snprintf(f->name, sizeof(f->name), "%s", t->name);
	(void)snprintf(f->program, sizeof(f->program), "%s", t->program);
	f->addr = t->addr;
	f->port = t->port;
	f->peer = t->peer;
	f->peer_port = t->peer_port;
}

void flow_retarget(const struct egress_flow *f, struct flow_target *ret)
{
	*ret = (struct flow_target){
		.addr = f->addr, .port = f->port, .peer = f->peer, .peer_port = f->peer_port};
	(void)snprintf(ret->name, sizeof(ret->name), "%s", f->name);
	(void)snprintf(ret->program, sizeof(ret->program), "%s", f->program);
}

void flow_add(struct egress_flow *f, struct egress_box *b)
{
	f->box = b;
	f->held = f->name[0] ? names_hold(b->names, f->name) : NULL;
	TAILQ_INSERT_TAIL(&b->flows, f, link);
	b->flows_n++;
	b->engine->flows_n++;
	if (f->protocol != 0) {
		account_usage(f)->connections++;
		b->engine->totals.connections++;
	}
}

void flow_done(struct egress_flow *f)
{
	struct egress_box *b = f->box;

	names_drop(f->held);
	f->held = NULL;
	TAILQ_REMOVE(&b->flows, f, link);
	b->flows_n--;
	b->engine->flows_n--;
	if (!b->is_gone && b->tcp.mask == 0 && b->retry.slot == 0 && b->flows_n < EGRESS_BOX_FLOWS)
		watch_tcp(b, true);
}

/*
 * Where a name leads is not known before it is dialled, and dial.c judges that. Until then the
 * answer is that for an ordinary address: whichever of these the rules do not deny.
 */
static const struct address somewhere[] = {
	{4, {93, 184, 215, 14}},
	{4, {9, 9, 9, 9}},
	{6, {0x26, 0x20, 0, 0xfe, [15] = 0xfe}},
};

static void decide_somewhere(
	const struct policy *p, struct policy_question *q, struct policy_answer *ret)
{
	for (size_t i = 0; i < sizeof(somewhere) / sizeof(somewhere[0]); i++) {
		q->addr = &somewhere[i];
		policy_decide(p, q, ret);
		if (ret->needs || ret->action != POLICY_DENY)
			return;
	}
}

void flow_decide(const struct egress_flow *f, const char *method, const char *path,
	struct policy_answer *ret)
{
	struct policy_question q = {
		.name = f->name[0] ? f->name : NULL,
		.addr = f->addr.family ? &f->addr : NULL,
		.port = f->port,
		.protocol = f->protocol,
		.method = method,
		.path = path,
		.program = flow_program(f),
	};

	policy_decide(f->box->policy, &q, ret);
	if (ret->needs == POLICY_NEEDS_ADDRESS)
		decide_somewhere(f->box->policy, &q, ret);
	ask_grant(f, method, ret);
}

/* ---- coming and going ---- */

static bool wants_program(const struct policy *p)
{
	for (size_t i = 0; i < p->rules_n; i++)
		if (p->rules[i].programs.n > 0)
			return true;
	for (size_t i = 0; i < p->floor_n; i++)
		if (p->floor[i].programs.n > 0)
			return true;
	return false;
}

static int watch_box(struct egress_box *b, struct err *err)
{
	int r;

	b->tcp.ready = tcp_ready;
	b->dns.ready = dns_ready;
	b->retry.fire = retry;
	for (int i = 0; i < 2; i++) {
		int fd = i == 0 ? b->tcp.fd : b->dns.fd;

		if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
			return err_sys(err, "the sockets of the road");
	}
	r = loop_watch_set(b->engine->loop, &b->tcp, EPOLLIN, err);
	if (r < 0)
		return r;
	return loop_watch_set(b->engine->loop, &b->dns, EPOLLIN, err);
}

static void bury(struct loop_task *t)
{
	struct egress_box *b = (struct egress_box *)((char *)t - offsetof(struct egress_box, bury));

	b->names = names_free(b->names);
	b->policy = policy_unref(b->policy);
	free(b->budgets);
	free(b->violations);
	free(b->dests);
	free(b->standing);
	buf_done(&b->limits_json);
	free(b);
}

static void end_box(struct egress_box *b)
{
	struct egress *e = b->engine;
	struct egress_flow *f;
	struct err ignored;

	b->is_gone = true;
	(void)loop_watch_set(e->loop, &b->tcp, 0, &ignored);
	(void)loop_watch_set(e->loop, &b->dns, 0, &ignored);
	loop_timer_cancel(e->loop, &b->retry);
	while ((f = TAILQ_FIRST(&b->flows)) != NULL)
		f->cut(f); /* takes itself off the list */
	ask_forget_box(b);
	b->pool = pool_free(b->pool);
	closep(&b->tcp.fd);
	closep(&b->dns.fd);
	b->bury.run = bury;
	loop_defer(e->loop, &b->bury);
}

int egress_box_add(struct egress *e, const char *id, const char *owner, int take_tcp, int take_dns,
	struct policy *policy, struct err *err)
{
	AUTO_FD int tcp = take_tcp, dns = take_dns;
	struct egress_box *b;
	int r;

	if (strlen(id) >= sizeof(b->id) || strlen(owner) >= sizeof(b->owner))
		return err_set(err, EINVAL, "the id of a sandbox or of its owner is too long");
	if (box_find(e, id))
		return err_set(err, EEXIST, "sandbox '%s' has a road already", id);
	if (e->boxes_n >= EGRESS_BOXES_MAX)
		return err_set(err, EMFILE, "%d sandboxes have a road", EGRESS_BOXES_MAX);
	b = MEM_NEW(struct egress_box);
	b->engine = e;
	(void)snprintf(b->id, sizeof(b->id), "%s", id);
	(void)snprintf(b->owner, sizeof(b->owner), "%s", owner);
	b->tcp.fd = TAKE_FD(tcp);
	b->dns.fd = TAKE_FD(dns);
	b->policy = policy_ref(policy);
	b->wants_program = wants_program(policy);
	b->names = names_create(EGRESS_NAMES_MAX);
	b->limits_json.cap = 64u << 10;
	TAILQ_INIT(&b->flows);
	TAILQ_INIT(&b->asks);
	r = watch_box(b, err);
	if (r < 0) {
		end_box(b);
		return r;
	}
	TAILQ_INSERT_TAIL(&e->boxes, b, link);
	e->boxes_n++;
	return 0;
}

void egress_box_remove(struct egress *e, const char *id)
{
	struct egress_box *b = box_find(e, id);

	if (!b)
		return;
	TAILQ_REMOVE(&e->boxes, b, link);
	e->boxes_n--;
	end_box(b);
}

/* ---- a new generation ---- */

static bool is_still_allowed(struct egress_flow *f)
{
	struct policy_answer a;

	if (f->still_allowed)
		return f->still_allowed(f);
	flow_decide(f, NULL, NULL, &a);
	f->rule = a.rule;
	return a.needs != 0 || a.action != POLICY_DENY;
}

static void cut_by_policy(struct egress_flow *f)
{
	struct policy_answer a;
	struct denial d;

	flow_decide(f, NULL, NULL, &a);
	f->rule = a.rule;
	denial_fill(&d, denial_kind_of(&a), f, NULL, NULL,
		"a new policy no longer allows it; the connection was cut");
	violation_note(f->box, &d);
	f->cut(f);
}

int egress_box_policy(struct egress *e, const char *id, struct policy *policy, struct err *err)
{
	struct egress_box *b = box_find(e, id);
	struct policy *old;
	struct egress_flow *f, *next;

	if (!b)
		return err_set(err, ENOENT, "no sandbox '%s'", id);
	old = b->policy;
	b->policy = policy_ref(policy);
	b->wants_program = wants_program(policy);
	b->generation++;
	b->pool = pool_free(b->pool);
	for (f = TAILQ_FIRST(&b->flows); f; f = next) {
		next = TAILQ_NEXT(f, link);
		if (!is_still_allowed(f))
			cut_by_policy(f);
	}
	(void)policy_unref(old); /* flows no longer point into it */
	return 0;
}

int egress_box_info(
	struct egress *e, const char *id, const struct egress_box_info *info, struct err *err)
{
	struct egress_box *b = box_find(e, id);

	if (!b)
		return err_set(err, ENOENT, "no sandbox '%s'", id);
	buf_done(&b->limits_json);
	b->limits_json = (struct buf){.cap = 64u << 10};
	if (info->limits_json &&
		buf_add(&b->limits_json, info->limits_json, strlen(info->limits_json)) < 0)
		return err_set(err, E2BIG, "the limits of sandbox '%s' are too long", id);
	b->expires_ms = info->expires_ms;
	return 0;
}
