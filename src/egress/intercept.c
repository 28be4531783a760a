/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The box's side of an intercepted connection: its life, its time limits, and who gets its
 * bytes.
 */
#include "base/mem.h"
#include "egress/intercept_impl.h"
#include "egress/mint.h"

struct loop *ic_loop(const struct intercept *ic)
{
	return ic->flow.box->engine->loop;
}

static struct intercept *of_flow(struct egress_flow *f)
{
	return (struct intercept *)f; /* its first member */
}

/* ---- the end ---- */

static void end_run(struct loop_task *t)
{
	struct intercept *ic = (struct intercept *)((char *)t - offsetof(struct intercept, end));

	free(ic->refusal);
	free(ic);
}

void ic_gone(struct intercept *ic)
{
	if (ic->phase == IC_GONE)
		return;
	ic->phase = IC_GONE;
	ic->client = NULL;
	loop_timer_cancel(ic_loop(ic), &ic->timer);
	dial_cancel(&ic->dial);
	ask_cancel(&ic->ask);
	upstream_drop(TAKE_PTR(ic->up));
	ic_request_done(&ic->req);
	ic->end.run = end_run;
	loop_defer(ic_loop(ic), &ic->end);
	flow_done(&ic->flow);
}

void ic_abort(struct intercept *ic)
{
	if (ic->client)
		conn_abort(ic->client);
	ic_gone(ic);
}

static void cut(struct egress_flow *f)
{
	ic_abort(of_flow(f));
}

static bool still_allowed(struct egress_flow *f)
{
	struct intercept *ic = of_flow(f);
	struct policy_answer a;

	if (ic->phase == IC_REFUSE || ic->req.is_inside)
		return true;
	if (ic->phase == IC_HEAD && !ic->req.path) {
		/* Between two requests: the next one is decided when it comes. */
		f->rule = NULL;
		flow_decide(f, NULL, NULL, &a);
		return a.needs != 0 || a.action != POLICY_DENY;
	}
	ic_decide(ic, &a);
	f->rule = a.rule;
	if (a.needs != 0)
		return (a.needs & ~(unsigned)POLICY_NEEDS_ADDRESS) == 0;
	return a.action == POLICY_ALLOW ||
	       (a.action == POLICY_ASK && (ic->is_approved || ic->phase == IC_ASK));
}

/* ---- time ---- */

void ic_wait(struct intercept *ic, uint64_t ms)
{
	loop_timer_set(ic_loop(ic), &ic->timer, ms);
}

void ic_moved(struct intercept *ic)
{
	ic->moved_ms = loop_now_ms(ic_loop(ic));
}

/* No byte of an answer yet. */
static void answer_late(struct intercept *ic, uint64_t quiet)
{
	if (conn_queued(ic->up->conn) > 0 && !ic->req.has_sent_body && quiet >= IC_SHAKE_MS)
		ic_deny(ic, DENIAL_UPSTREAM, 504,
			"the server did not end its TLS handshake in time");
	else if (quiet >= IC_ANSWER_MS)
		ic_deny(ic, DENIAL_UPSTREAM, 504, "the server did not answer in time");
	else
		ic_wait(ic, IC_ANSWER_MS - quiet);
}

static void late(struct loop_timer *t)
{
	struct intercept *ic = (struct intercept *)((char *)t - offsetof(struct intercept, timer));
	uint64_t quiet = loop_now_ms(ic_loop(ic)) - ic->moved_ms;

	switch (ic->phase) {
	case IC_FLOW:
		if (!ic->req.has_byte)
			answer_late(ic, quiet);
		else if (!ic->req.is_answered)
			ic_deny(ic, DENIAL_UPSTREAM, 504, "the server's answer came too slowly");
		else if (quiet >= IC_STALL_MS)
			ic_abort(ic);
		else
			ic_wait(ic, IC_STALL_MS - quiet);
		break;
	case IC_RAW:
		if (quiet >= IC_STALL_MS)
			ic_abort(ic);
		else
			ic_wait(ic, IC_STALL_MS - quiet);
		break;
	case IC_COLLECT:
		if (quiet < IC_COLLECT_MS)
			ic_wait(ic, IC_COLLECT_MS - quiet);
		else
			ic_abort(ic);
		break;
	default: /* a head that does not come, or does not end */
		if (ic->client)
			conn_finish(ic->client);
		ic_gone(ic);
	}
}

void ic_next(struct intercept *ic)
{
	struct conn *c = ic->client;

	if (ic->req.client.closes || (ic->is_client_at_eof && conn_kept(c) == 0)) {
		conn_finish(c);
		ic_gone(ic);
		return;
	}
	ic_request_done(&ic->req);
	ic->phase = IC_HEAD;
	ic->is_approved = false;
	ic->lookups = 0;
	ic->flow.protocol = ic->is_tls ? POLICY_HTTPS : POLICY_HTTP;
	ic->flow.rule = NULL;
	ic->scan = 0;
	ic_wait(ic, ic->is_client_at_eof ? IC_LAST_MS : IC_KEEP_MS);
	conn_set_window(c, IC_HEAD_WINDOW);
	conn_resume(c); /* what was sent ahead */
}

/* ---- the client's bytes ---- */

static size_t take_some(struct intercept *ic, const char *p, size_t n)
{
	switch (ic->phase) {
	case IC_HEAD:
	case IC_REFUSE: return ic_take_head(ic, p, n);
	case IC_COLLECT: return ic_take_body(ic, p, n);
	case IC_FLOW: return ic->req.up.is_done || ic->is_up_blocked ? 0 : ic_take_body(ic, p, n);
	case IC_RAW: return ic->is_up_blocked ? 0 : ic_raw_up(ic, p, n);
	default: return 0;
	}
}

static size_t client_read(struct conn *c, const char *p, size_t n, void *arg)
{
	struct intercept *ic = arg;
	size_t used = 0;

	(void)c;
	while (used < n) {
		size_t k = take_some(ic, p + used, n - used);

		if (k == 0)
			break;
		used += k;
	}
	return used;
}

/* True: it still hears us. */
static bool client_eof(struct conn *c, void *arg)
{
	struct intercept *ic = arg;

	(void)c;
	ic->is_client_at_eof = true;
	/* A request that is here as a whole gets its answer; who asks a person has to wait. */
	return ic->phase == IC_FLOW || ic->phase == IC_DIAL ? ic->req.up.is_done : false;
}

static void client_drained(struct conn *c, void *arg)
{
	struct intercept *ic = arg;

	(void)c;
	if (!ic->is_down_blocked || !ic->up)
		return;
	ic->is_down_blocked = false;
	conn_resume(ic->up->conn);
}

static void client_closed(struct conn *c, const struct err *err, void *arg)
{
	struct intercept *ic = arg;

	(void)c;
	ic->client = NULL;
	if (ic->phase == IC_RAW && err->code == 0 && ic->up)
		upstream_end(TAKE_PTR(ic->up));
	ic_gone(ic);
}

static const struct conn_events client_events = {
	.read = client_read,
	.eof = client_eof,
	.drained = client_drained,
	.closed = client_closed,
};

/* ---- the beginning ---- */

static struct intercept *start(
	struct egress_box *b, int take_fd, const struct flow_target *t, enum ic_phase phase)
{
	AUTO_FD int fd = take_fd;
	struct egress *e = b->engine;
	struct intercept *ic;
	struct heads_goal own;
	char peer[POLICY_NAME_MAX + 1];
	struct err err;

	if (t->is_tls && !e->mint)
		return NULL; /* closed: there is nothing we could say */
	ic = MEM_NEW(struct intercept);
	flow_aim(&ic->flow, t);
	ic->flow.box = b;
	own = ic_goal(ic);
	if (own.name[0])
		memcpy(peer, own.name, sizeof(peer));
	else
		address_format(&own.addr, peer);
	if (conn_create(e->loop, TAKE_FD(fd), t->is_tls ? mint_server(e->mint) : NULL, true, peer,
		    &client_events, ic, &ic->client, &err) < 0) {
		free(ic);
		return NULL;
	}
	ic->phase = phase;
	ic->is_tls = t->is_tls;
	ic->is_proxy = t->is_proxy && !t->is_tls;
	ic->timer.fire = late;
	ic->flow.protocol = t->is_tls ? POLICY_HTTPS : POLICY_HTTP;
	ic->flow.cut = cut;
	ic->flow.still_allowed = still_allowed;
	flow_add(&ic->flow, b);
	conn_set_window(ic->client, IC_HEAD_WINDOW);
	ic_wait(ic, IC_HEAD_MS);
	return ic;
}

void intercept_start(struct egress_box *b, int take_fd, const struct flow_target *t)
{
	if (start(b, take_fd, t, IC_HEAD))
		b->engine->totals.intercepted++;
	if (b->engine->mint)
		b->engine->totals.minted = mint_count(b->engine->mint);
}

void intercept_refuse(
	struct egress_box *b, int take_fd, const struct flow_target *t, const struct denial *d)
{
	struct intercept *ic = start(b, take_fd, t, IC_REFUSE);

	if (!ic)
		return;
	ic->refusal = MEM_NEW(struct denial);
	*ic->refusal = *d;
}
