/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the owner says. Its bytes are checked as any stranger's are: the api role reads tenants'
 * bytes, and one that was taken over must not take this one over too.
 */
#include "base/mem.h"
#include "base/text.h"
#include "daemon/egress_impl.h"
#include "daemon/log.h"
#include "egress/vault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define USAGE_MAX EGRESS_DESTS_MAX

/* ---- boxes ---- */

struct role_box *role_box_find(struct egress_role *e, const char *id)
{
	struct role_box *b;

	for (b = TAILQ_FIRST(&e->boxes); b; b = TAILQ_NEXT(b, link)) {
		if (strcmp(b->id, id) == 0)
			return b;
	}
	return NULL;
}

static void box_free(struct egress_role *e, struct role_box *b)
{
	TAILQ_REMOVE(&e->boxes, b, link);
	b->policy = policy_unref(b->policy);
	free(b->limits);
	free(b);
}

void role_boxes_free(struct egress_role *e)
{
	while (!TAILQ_EMPTY(&e->boxes))
		box_free(e, TAILQ_FIRST(&e->boxes));
}

static void box_remove(struct egress_role *e, struct role_box *b)
{
	if (b->has_road)
		egress_box_remove(e->engine, b->id);
	box_free(e, b);
}

static int read_policy(const struct control_box *c, struct policy **ret, struct err *err)
{
	if (!c->policy)
		return err_set(err, EBADMSG, "control: 'policy' is no string");
	return policy_from_json(c->policy, strlen(c->policy), ret, err);
}

static int set_info(struct egress_role *e, const char *id, const char *limits, uint64_t expires_ms,
	struct err *err)
{
	return egress_box_info(e->engine, id,
		&(struct egress_box_info){.limits_json = limits, .expires_ms = expires_ms}, err);
}

/* A box that is there: what is new about it. */
static int box_change(struct egress_role *e, struct role_box *b, const struct control_box *c,
	struct policy *policy, struct err *err)
{
	int r = egress_box_policy(e->engine, b->id, policy, err);

	return r < 0 ? r : set_info(e, b->id, c->limits, c->expires_ms, err);
}

static struct role_box *box_new(struct egress_role *e, const struct control_box *c)
{
	struct role_box *b = MEM_NEW(struct role_box);

	(void)snprintf(b->id, sizeof(b->id), "%s", c->id);
	(void)snprintf(b->owner, sizeof(b->owner), "%s", c->owner);
	TAILQ_INSERT_TAIL(&e->boxes, b, link);
	return b;
}

/* Answered when its road is there. A second BOX meanwhile takes the place of the first. */
static void box_wait(struct egress_role *e, struct role_box *b, const struct control_box *c,
	struct policy *take_policy, uint64_t number)
{
	bool is_new = b->policy == NULL;

	b->policy = policy_unref(b->policy);
	b->policy = take_policy;
	free(b->limits);
	b->limits = c->limits ? mem_strdup(c->limits) : NULL;
	b->expires_ms = c->expires_ms;
	b->number = number;
	if (is_new)
		role_road_want(e, b);
}

static void op_box(struct egress_role *e, const struct control_message *m)
{
	AUTO(policy_unref) struct policy *policy = NULL;
	struct control_box c;
	struct role_box *b;
	struct err err = {0};
	int r = control_box_get(m->body, &c, &err);

	if (r >= 0 && strlen(c.owner) >= sizeof(b->owner))
		r = err_set(&err, EBADMSG, "control: 'owner' is too long");
	if (r >= 0)
		r = read_policy(&c, &policy, &err);
	if (r >= 0)
		r = role_secrets_load(e, policy, &err);
	if (r < 0) {
		control_link_reply(e->owner, m->op, m->number, &err, NULL);
		return;
	}
	b = role_box_find(e, c.id);
	if (!b)
		b = box_new(e, &c);
	b->seen = e->connections;
	b->want_allowed = c.want_allowed;
	if (!b->has_road) {
		box_wait(e, b, &c, TAKE_PTR(policy), m->number);
		return;
	}
	r = box_change(e, b, &c, policy, &err);
	control_link_reply(e->owner, m->op, m->number, r < 0 ? &err : NULL, NULL);
}

void role_box_road(struct egress_role *e, struct role_box *b, int take_tcp, int take_dns,
	const struct err *why)
{
	AUTO_FREE char *limits = TAKE_PTR(b->limits);
	AUTO(policy_unref) struct policy *policy = TAKE_PTR(b->policy);
	uint64_t number = b->number;
	struct err err = {0};
	int r = take_tcp < 0 ? -EIO : 0;

	b->number = 0;
	if (r < 0)
		err = *why;
	else
		r = egress_box_add(e->engine, b->id, b->owner, take_tcp, take_dns, policy, &err);
	if (r >= 0) {
		b->has_road = true;
		r = set_info(e, b->id, limits, b->expires_ms, &err);
	}
	if (r < 0)
		role_log(ROLE_LOG_WARN, "no-road", "sandbox", b->id, "error", err.msg);
	/* Numbers are of one connection: another owner asks by itself. */
	if (number > 0 && e->owner && b->seen == e->connections)
		control_link_reply(e->owner, CONTROL_BOX, number, r < 0 ? &err : NULL, NULL);
	if (!b->has_road)
		box_free(e, b);
}

static void op_sync(struct egress_role *e, const struct control_message *m)
{
	struct role_box *b = TAILQ_FIRST(&e->boxes), *next;

	for (; b; b = next) {
		next = TAILQ_NEXT(b, link);
		if (b->seen != e->connections)
			box_remove(e, b);
	}
	vault_sweep(egress_vault(e->engine));
	control_link_reply(e->owner, m->op, m->number, NULL, NULL);
}

static struct role_box *named(struct egress_role *e, const struct control_message *m,
	struct control_box *c, struct err *err)
{
	struct role_box *b = control_box_get(m->body, c, err) < 0 ? NULL : role_box_find(e, c->id);

	if (!b && !err->code)
		(void)err_set(err, ENOENT, "no box '%s'", c->id);
	return b;
}

static void op_gone(struct egress_role *e, const struct control_message *m)
{
	struct control_box c;
	struct err err = {0};
	struct role_box *b = named(e, m, &c, &err);

	if (b)
		box_remove(e, b);
	role_events_flush(e->events);
	control_link_reply(e->owner, m->op, m->number, err.code == EBADMSG ? &err : NULL, NULL);
}

static void op_policy(struct egress_role *e, const struct control_message *m)
{
	AUTO(policy_unref) struct policy *policy = NULL;
	struct control_box c;
	struct err err = {0};
	struct role_box *b = named(e, m, &c, &err);
	int r = b ? read_policy(&c, &policy, &err) : -ENOENT;

	if (r >= 0 && b->has_road) {
		r = egress_box_policy(e->engine, b->id, policy, &err);
	} else if (r >= 0) {
		b->policy = policy_unref(b->policy);
		b->policy = TAKE_PTR(policy);
	}
	control_link_reply(e->owner, m->op, m->number, r < 0 ? &err : NULL, NULL);
}

static void op_info(struct egress_role *e, const struct control_message *m)
{
	struct control_box c;
	struct err err = {0};
	struct role_box *b = named(e, m, &c, &err);
	int r = b ? 0 : -ENOENT;

	if (r >= 0 && b->has_road) {
		r = set_info(e, b->id, c.limits, c.expires_ms, &err);
	} else if (r >= 0) {
		free(b->limits);
		b->limits = c.limits ? mem_strdup(c.limits) : NULL;
		b->expires_ms = c.expires_ms;
	}
	control_link_reply(e->owner, m->op, m->number, r < 0 ? &err : NULL, NULL);
}

/* ---- the rest ---- */

static void op_answer(struct egress_role *e, const struct control_message *m)
{
	const char *id = NULL, *word = NULL;
	struct err err = {0};
	int verdict = -1, r = control_string(m->body, "ask", &id, &err);

	if (r >= 0)
		r = control_string(m->body, "verdict", &word, &err);
	if (r >= 0) {
		verdict = control_verdict_parse(word);
		if (verdict < 0)
			r = err_set(&err, EBADMSG, "control: 'verdict' is none");
	}
	if (r >= 0) {
		(void)role_events_answered(e->events, id);
		r = egress_answer(e->engine, id, (enum egress_ask_verdict)verdict, &err);
	}
	control_link_reply(e->owner, m->op, m->number, r < 0 ? &err : NULL, NULL);
}

static void op_usage(struct egress_role *e, const struct control_message *m)
{
	AUTO_FREE struct egress_usage *all = calloc(USAGE_MAX, sizeof(*all));
	struct control_box c;
	struct err err = {0};
	const struct role_box *b = named(e, m, &c, &err);
	size_t n;

	if (!b || !all) {
		control_link_reply(e->owner, m->op, m->number, &err, NULL);
		return;
	}
	n = egress_box_usage(e->engine, b->id, all, USAGE_MAX);
	control_link_reply(e->owner, m->op, m->number, NULL,
		control_usage_json(all, n < USAGE_MAX ? n : USAGE_MAX));
}

static void op_totals(struct egress_role *e, const struct control_message *m)
{
	struct egress_totals t = {0};

	egress_totals(e->engine, &t);
	control_link_reply(e->owner, m->op, m->number, NULL, control_totals_json(&t));
}

static void op_seal(struct egress_role *e, const struct control_message *m)
{
	struct err err = {0};
	json_t *body = role_seal(e, m->body, &err);

	control_link_reply(e->owner, m->op, m->number, body ? NULL : &err, body);
}

static void op_secret(struct egress_role *e, const struct control_message *m)
{
	struct err err = {0};
	int r = role_secret(e, m->body, &err);

	control_link_reply(e->owner, m->op, m->number, r < 0 ? &err : NULL, NULL);
}

static void op_forget(struct egress_role *e, const struct control_message *m)
{
	const char *owner = NULL, *name = NULL;
	struct err err = {0};
	int r = control_string(m->body, "owner", &owner, &err);

	if (r >= 0)
		r = control_string(m->body, "name", &name, &err);
	if (r >= 0)
		vault_forget(egress_vault(e->engine), owner, name);
	control_link_reply(e->owner, m->op, m->number, r < 0 ? &err : NULL, NULL);
}

static void op_unknown(struct egress_role *e, const struct control_message *m)
{
	struct err err = {0};

	(void)err_set(&err, EOPNOTSUPP, "control: nothing to do for '%s'", control_op_name(m->op));
	if (m->number > 0)
		control_link_reply(e->owner, m->op, m->number, &err, NULL);
}

static void on_message(struct control_link *k, const struct control_message *m, void *arg)
{
	struct egress_role *e = arg;

	if (k != e->owner)
		return;
	switch (m->op) {
	case CONTROL_BOX: op_box(e, m); break;
	case CONTROL_SYNC: op_sync(e, m); break;
	case CONTROL_GONE: op_gone(e, m); break;
	case CONTROL_POLICY: op_policy(e, m); break;
	case CONTROL_INFO: op_info(e, m); break;
	case CONTROL_ANSWER: op_answer(e, m); break;
	case CONTROL_USAGE: op_usage(e, m); break;
	case CONTROL_TOTALS: op_totals(e, m); break;
	case CONTROL_SEAL: op_seal(e, m); break;
	case CONTROL_SECRET: op_secret(e, m); break;
	case CONTROL_FORGET: op_forget(e, m); break;
	default: op_unknown(e, m); break;
	}
}

static void on_closed(struct control_link *k, const struct err *err, void *arg)
{
	struct egress_role *e = arg;

	if (err->code)
		role_log(ROLE_LOG_WARN, "owner-lost", "error", err->msg);
	if (k != e->owner)
		return;
	e->owner = NULL;
	/* One run: it is over, whatever happened to bawn. A server: its api role comes again. */
	if (e->is_run)
		loop_stop(e->loop, 0);
}

static void on_drained(struct control_link *k, void *arg)
{
	struct egress_role *e = arg;

	if (k == e->owner)
		role_events_flush(e->events);
}

static const struct control_link_events link_events = {
	.message = on_message,
	.closed = on_closed,
	.drained = on_drained,
};

int role_owner_set(struct egress_role *e, int take_fd, struct err *err)
{
	struct control_link *old = TAKE_PTR(e->owner);

	/* Two owners at once: the newer one is the one that lives. */
	if (old)
		control_link_close(old);
	e->connections++;
	vault_begin(egress_vault(e->engine));
	if (control_link_create(e->loop, take_fd, &link_events, e, &e->owner, err) < 0)
		return -err->code;
	role_events_connected(e->events);
	return 0;
}
