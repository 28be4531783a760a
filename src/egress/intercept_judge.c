/* SPDX-License-Identifier: Apache-2.0 */

/* Between a request's head and its server: the policy, a person, the budget, the vault. */
#include "base/mem.h"
#include "egress/intercept_impl.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/* Allowed by a person's word, not by a rule: there is nothing to put in. */
static const struct policy_rule no_rule = {.id = (char *)(uintptr_t) ""};

/* ---- a person ---- */

static void answered(struct ask *a, bool is_allowed)
{
	struct intercept *ic = (struct intercept *)((char *)a - offsetof(struct intercept, ask));

	if (!is_allowed) {
		ic_deny(ic, DENIAL_ASK, 0, NULL);
		return;
	}
	ic->is_approved = true;
	ic->phase = IC_HEAD; /* the same head again */
	ic_wait(ic, IC_HEAD_MS);
	conn_resume(ic->client);
}

static size_t ask(struct intercept *ic, size_t n)
{
	struct denial what;
	struct err err;

	denial_fill(&what, DENIAL_ASK, &ic->flow, ic->req.method, ic->req.path, NULL);
	ic->ask.answered = answered;
	if (ask_start(&ic->ask, &ic->flow, &what, &err) < 0) {
		ic_deny(ic, DENIAL_ASK, 0, "too many questions are open already");
		return n;
	}
	ic->phase = IC_ASK;
	loop_timer_cancel(ic_loop(ic), &ic->timer);
	return 0;
}

/* ---- the vault ---- */

/* What the server is to see as Host: as the client said it, or else as we know it. */
static void host_text(const struct intercept *ic, const struct h1_head *h, char *out, size_t size)
{
	const struct h1_field *f = h1_find(h, "host");
	const struct egress_flow *w = &ic->flow;
	char addr[ADDRESS_TEXT_MAX] = "";
	bool is_default = w->port == (ic->is_tls ? 443 : 80), is_v6 = false;

	if (f && f->value.n > 0) {
		(void)snprintf(out, size, "%.*s", (int)f->value.n, f->value.p);
		return;
	}
	if (!w->name[0]) {
		address_format(&w->addr, addr);
		is_v6 = w->addr.family == 6;
	}
	if (is_default)
		(void)snprintf(
			out, size, "%s%s%s%s", is_v6 ? "[" : "", w->name, addr, is_v6 ? "]" : "");
	else
		(void)snprintf(out, size, "%s%s%s%s:%u", is_v6 ? "[" : "", w->name, addr,
			is_v6 ? "]" : "", w->port);
}

static void vault_says_no(struct intercept *ic, int r, const struct err *err)
{
	ic->req.keep_alive = false;
	if (r == -E2BIG)
		ic_deny(ic, DENIAL_LIMIT, 431, err->msg);
	else
		ic_deny(ic, DENIAL_PLACEHOLDER, 0, err->msg);
}

/*
 * Compression would hide from us what we look for: placeholders in a WebSocket, credentials in an
 * answer. Where there is nothing to look for, it is the client's business.
 */
static bool hides(const struct intercept *ic, struct h1_text field)
{
	const struct policy_rule *rule = ic->flow.rule;

	if (ic->req.is_websocket && h1_is_nocase(field, "sec-websocket-extensions"))
		return ic->flow.box->policy->bindings_n > 0;
	return rule && rule->bindings_n > 0 && h1_is_nocase(field, "accept-encoding");
}

static void drop_compression(const struct intercept *ic, struct h1_head *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->fields_n; i++)
		if (!hides(ic, h->fields[i].name))
			h->fields[n++] = h->fields[i];
	h->fields_n = n;
}

/* Basic credentials travel as one text. */
static void watch_basic(struct echo *e, const char *user, const char *value, size_t n)
{
	struct buf clear = {.is_secret = true, .cap = 2 * VAULT_VALUE_MAX};
	struct buf coded = {.is_secret = true, .cap = 4 * VAULT_VALUE_MAX};
	char *to = buf_reserve(&coded, 4 * ((n + strlen(user)) / 3 + 2));

	if (to && buf_addf(&clear, "%s:", user) == 0 && buf_add(&clear, value, n) == 0) {
		int len = EVP_EncodeBlock((unsigned char *)to,
			(const unsigned char *)buf_data(&clear), (int)buf_len(&clear));

		buf_commit(&coded, (size_t)len);
		echo_add(e, buf_data(&coded), buf_len(&coded));
	}
	buf_done(&clear);
	buf_done(&coded);
}

/* What the rule put in must not come back. A key that signs is never sent. */
static void watch_values(struct intercept *ic, const struct policy_rule *rule)
{
	const struct egress_box *b = ic->flow.box;

	for (size_t i = 0; i < rule->bindings_n; i++) {
		const struct policy_binding *k = &b->policy->bindings[rule->bindings[i]];
		const struct vault_secret *s = vault_find(b->engine->vault, b->owner, k->secret);
		size_t n = 0;
		const char *value = s ? vault_value(s, &n) : NULL;

		if (!value || k->place == POLICY_SIGV4)
			continue;
		echo_add(&ic->req.echo, value, n);
		if (k->place == POLICY_BASIC)
			watch_basic(&ic->req.echo, k->field, value, n);
	}
}

/* Make req.out. False: it was answered. */
static bool write_head(struct intercept *ic, struct h1_head *h, bool is_collected)
{
	struct egress_flow *f = &ic->flow;
	struct egress_box *b = f->box;
	struct ic_request *q = &ic->req;
	const struct policy_rule *rule = f->rule ? f->rule : &no_rule;
	const struct h1_field *te = h1_find(h, "te");
	struct heads_framing framing = {.framing = h->framing,
		.length = h->length,
		.has_length = h1_find(h, "content-length") != NULL,
		.expects_continue = q->expects_continue,
		.is_websocket = q->is_websocket,
		.wants_trailers = te && h1_has_token(te->value, "trailers")};
	char host[512], what[VAULT_WHAT_MAX];
	struct err err = {0};
	int r;

	host_text(ic, h, host, sizeof(host));
	drop_compression(ic, h);
	q->out = (struct buf){.cap = 4 * H1_HEAD_MAX, .is_secret = true};
	if (is_collected) {
		framing.framing = buf_len(&q->body) > 0 ? H1_LENGTH : H1_NO_BODY;
		framing.length = buf_len(&q->body);
		framing.expects_continue = false;
		framing.has_length |= h->framing == H1_CHUNKED;
		r = vault_sign(b->engine->vault, b->owner, b->policy, rule, h, host,
			buf_data(&q->body), buf_len(&q->body), &q->out, what, &err);
	} else {
		r = vault_inject_head(
			b->engine->vault, b->owner, b->policy, rule, h, host, &q->out, what, &err);
	}
	if (r == 0)
		r = heads_end_request(&framing, &q->out);
	if (r < 0) {
		vault_says_no(ic, r, &err);
		return false;
	}
	watch_values(ic, rule);
	return true;
}

void ic_collected(struct intercept *ic)
{
	static struct h1_head h;
	struct ic_request *q = &ic->req;
	struct egress_box *b = ic->flow.box;
	struct buf body = {.cap = 2 * VAULT_BODY_MAX, .is_secret = true};
	char what[VAULT_WHAT_MAX];
	struct err err = {0};
	int r;

	if (h1_parse_request(buf_data(&q->raw), buf_len(&q->raw), &h) != 0) {
		ic_abort(ic); /* it was parsed before */
		return;
	}
	if (q->is_inside) {
		ic_inside(ic, &h);
		return;
	}
	r = vault_inject_body(b->engine->vault, b->owner, b->policy,
		ic->flow.rule ? ic->flow.rule : &no_rule, buf_data(&q->body), buf_len(&q->body),
		&body, what, &err);
	if (r < 0) {
		buf_wipe(&body);
		vault_says_no(ic, r, &err);
		return;
	}
	buf_wipe(&q->body);
	q->body = body;
	if (!account_bytes(&ic->flow, buf_len(&q->body), 0)) {
		ic_deny(ic, DENIAL_BUDGET, 0, NULL);
		return;
	}
	if (write_head(ic, &h, true))
		ic_connect(ic);
}

static void collect(struct intercept *ic, const char *raw, size_t n)
{
	struct ic_request *q = &ic->req;

	q->raw = (struct buf){.cap = H1_HEAD_MAX, .is_secret = true};
	if (buf_add(&q->raw, raw, n) < 0) {
		ic_abort(ic);
		return;
	}
	ic->phase = IC_COLLECT;
	ic_moved(ic);
	ic_wait(ic, IC_COLLECT_MS);
	if (q->expects_continue)
		conn_write(ic->client, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	q->expects_continue = false;
	if (q->up.is_done)
		ic_collected(ic);
}

/* ---- all of it ---- */

static size_t allowed(struct intercept *ic, const struct h1_head *head, const char *raw, size_t n)
{
	struct egress_flow *f = &ic->flow;
	struct h1_head *h =
		(struct h1_head *)(uintptr_t)head; /* ic_take_head()'s own: ours to change */

	if (!account_request(f) || !account_bytes(f, n, 0)) {
		ic_deny(ic, DENIAL_BUDGET, 0, NULL);
		return n;
	}
	if (vault_wants_body(f->box->policy, f->rule ? f->rule : &no_rule, h))
		collect(ic, raw, n);
	else if (write_head(ic, h, false))
		ic_connect(ic);
	return n;
}

size_t ic_judge(struct intercept *ic, const struct h1_head *h, const char *raw, size_t n)
{
	struct egress_flow *f = &ic->flow;
	struct policy_answer a;

	if (strcmp(f->name, EGRESS_INTERNAL) == 0) {
		ic->req.is_inside = true;
		collect(ic, raw, n);
		return n;
	}
	/* Of a name nothing is known but where the connection at hand leads, if there is one. */
	if (ic->up)
		f->addr = ic->up->addr;
	else if (f->name[0])
		f->addr.family = 0;
	ic_decide(ic, &a);
	f->rule = a.rule;
	if (a.needs == POLICY_NEEDS_ADDRESS && !ic->up) {
		if (ic->lookups++ == IC_LOOKUPS) {
			ic_deny(ic, DENIAL_UPSTREAM, 502,
				"the server closes its connections at once");
			return n;
		}
		ic->is_lookup = true;
		ic_connect(ic);
		return 0;
	}
	if (a.needs != 0 || a.action == POLICY_DENY) {
		ic_deny(ic, denial_kind_of(&a), 0, NULL);
		return n;
	}
	if (a.action == POLICY_ASK && !ic->is_approved)
		return ask(ic, n);
	return allowed(ic, h, raw, n);
}
