/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The connection to the egress role.
 *
 *   none --(connect)--> telling --(every sandbox told, SYNC answered)--> in step
 *     ^                    |                                                |
 *     '------(lost)--------+------------------------------------------------'
 *
 * A sandbox's `told` is the number of the connection it was told on. Telling stops while much is
 * queued and goes on when it has drained: policies are long, and sandboxes many.
 */
#include "api/egress.h"

#include "api/egress_impl.h"
#include "api/sandbox_impl.h"
#include "base/mem.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define RETRY_MIN_MS 20
#define RETRY_MAX_MS 2000
#define AGAIN_MS     1000 /* a box that egress could not take is told again */
#define POLL_MS      5000

static void pump(struct api_egress *g);

bool api_egress_is_up(const struct api *a)
{
	return a->egress && a->egress->link;
}

size_t api_egress_queued(const struct api *a)
{
	return api_egress_is_up(a) ? control_link_queued(a->egress->link) : 0;
}

static char *limits_of(const struct store_sandbox *row)
{
	return text_format("{\"cpus\":%.3f,\"disk_bytes\":%" PRId64 ",\"memory_bytes\":%" PRId64
			   ",\"processes\":%" PRId64 "}",
		(double)row->cpu_milli / 1000.0, row->disk_max, row->memory_max, row->pids_max);
}

static json_t *box_of(struct sandbox *sb)
{
	AUTO_FREE char *limits = limits_of(&sb->row);
	struct control_box b = {.id = sb->row.id,
		.owner = sb->row.tenant,
		.policy = sb->row.policy,
		.limits = limits,
		.expires_ms = (uint64_t)(sb->row.end_at_ms > 0 ? sb->row.end_at_ms : 0)};

	return control_box_json(&b);
}

static bool has_box(const struct sandbox *sb)
{
	return (sb->row.state == SANDBOX_RUNNING || sb->row.state == SANDBOX_PAUSED) &&
	       sb->row.policy && sb->row.policy[0];
}

/* By id: the sandbox may be gone when the answer comes. */
struct telling {
	struct api *api;
	char id[SANDBOX_ID_MAX];
};

static void box_answered(const struct control_message *m, void *arg)
{
	struct telling *t = arg;
	struct api_egress *g = t->api->egress;
	struct sandbox *sb = sandbox_any(t->api, t->id);

	/* Not there any more, or not yet: the warden's list decides what becomes of it. */
	if (m->err.code && m->err.code != ECONNRESET && sb && has_box(sb)) {
		if (m->err.code != ENOENT)
			api_log("warn", "", "sandbox %s has no road out: %s", t->id, m->err.msg);
		sb->told = 0;
		if (g->retry.slot == 0)
			loop_timer_set(t->api->loop, &g->retry, AGAIN_MS);
	}
	free(t);
}

static int tell_box(struct api_egress *g, struct sandbox *sb)
{
	struct telling *t = MEM_NEW(struct telling);
	struct err err = {0};
	int r;

	t->api = g->api;
	(void)snprintf(t->id, sizeof(t->id), "%s", sb->row.id);
	sb->told = g->connections;
	r = control_link_ask(g->link, CONTROL_BOX, box_of(sb), box_answered, t, &err);
	if (r < 0) {
		api_log("error", "", "sandbox %s: egress cannot be told: %s", sb->row.id, err.msg);
		free(t);
	}
	return r;
}

static void synced(const struct control_message *m, void *arg)
{
	struct api_egress *g = arg;

	if (m->err.code)
		return;
	api_asks_synced(g->api);
}

static void pump(struct api_egress *g)
{
	struct err err = {0};

	/* Before the sandboxes whose requests need them. */
	if (!g->link || !secrets_push(g->api, &g->secrets))
		return;
	for (struct sandbox *sb = g->api->sandboxes->first; g->link && sb; sb = sb->next) {
		if (control_link_queued(g->link) > CONN_HIGH)
			return; /* `drained` comes back here */
		if (sb->told != g->connections && has_box(sb))
			(void)tell_box(g, sb);
	}
	if (!g->link || g->is_synced)
		return;
	g->is_synced = true;
	(void)control_link_ask(g->link, CONTROL_SYNC, NULL, synced, g, &err);
}

/* ---- the connection ---- */

static void on_message(struct control_link *k, const struct control_message *m, void *arg)
{
	struct api_egress *g = arg;
	struct err err = {0};

	switch (m->op) {
	case CONTROL_DENIED: api_told_denied(g->api, m->body); break;
	case CONTROL_ALLOWED: api_told_allowed(g->api, m->body); break;
	case CONTROL_LOST: api_told_lost(g->api, m->body); break;
	case CONTROL_ASKED: api_asked(g->api, m->body); break;
	case CONTROL_ASK_OVER: api_ask_over(g->api, m->body); break;
	default:
		(void)err_set(&err, EOPNOTSUPP, "the api role answers no questions");
		if (m->number > 0)
			control_link_reply(k, m->op, m->number, &err, NULL);
	}
}

static void wait_and_retry(struct api_egress *g)
{
	loop_timer_set(g->api->loop, &g->retry, g->retry_ms);
	g->retry_ms = g->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : g->retry_ms * 2;
}

static void on_closed(struct control_link *k, const struct err *err, void *arg)
{
	struct api_egress *g = arg;

	(void)k;
	g->link = NULL;
	api_log("warn", "", "the egress role is gone%s%s; waiting for it to come back",
		err->code ? ": " : "", err->code ? err->msg : "");
	wait_and_retry(g);
}

static void on_drained(struct control_link *k, void *arg)
{
	(void)k;
	pump(arg);
}

static const struct control_link_events events = {
	.message = on_message,
	.closed = on_closed,
	.drained = on_drained,
};

static void connect_now(struct api_egress *g)
{
	struct err err = {0};
	int fd = warden_connect(g->path, SOCK_STREAM, &err);

	if (fd < 0 || control_link_create(g->api->loop, fd, &events, g, &g->link, &err) < 0) {
		g->link = NULL;
		wait_and_retry(g);
		return;
	}
	g->retry_ms = RETRY_MIN_MS;
	g->connections++;
	g->is_synced = false;
	g->secrets = (struct secrets_cursor){0};
	json_decref(g->asks);
	g->asks = json_object();
	pump(g);
}

static void retry_due(struct loop_timer *t)
{
	struct api_egress *g =
		(struct api_egress *)((char *)t - offsetof(struct api_egress, retry));

	if (g->link)
		pump(g);
	else
		connect_now(g);
}

static void totals_answered(const struct control_message *m, void *arg)
{
	struct api_egress *g = arg;

	if (!m->err.code)
		control_totals_get(m->body, &g->totals);
}

static void poll_due(struct loop_timer *t)
{
	struct api_egress *g = (struct api_egress *)((char *)t - offsetof(struct api_egress, poll));
	struct err err = {0};

	if (g->link)
		(void)control_link_ask(g->link, CONTROL_TOTALS, NULL, totals_answered, g, &err);
	loop_timer_set(g->api->loop, t, POLL_MS);
}

int api_egress_create(struct api *a, struct err *err)
{
	struct api_egress *g = MEM_NEW(struct api_egress);
	int r;

	a->egress = g;
	g->api = a;
	g->path = text_format("%s/run/egress.sock", a->config.state);
	g->told_end = &g->told;
	g->retry.fire = retry_due;
	g->retry_ms = RETRY_MIN_MS;
	g->poll.fire = poll_due;
	r = api_policies_create(a, err);
	if (r < 0)
		return r;
	loop_timer_set(a->loop, &g->retry, 0);
	loop_timer_set(a->loop, &g->poll, POLL_MS);
	return 0;
}

void api_egress_free(struct api *a)
{
	struct api_egress *g = a->egress;

	if (!g)
		return;
	api_told_settle(a);
	loop_timer_cancel(a->loop, &g->retry);
	loop_timer_cancel(a->loop, &g->poll);
	loop_timer_cancel(a->loop, &g->settle);
	if (g->link)
		control_link_close(TAKE_PTR(g->link));
	api_policies_free(a);
	json_decref(g->asks);
	free(g->path);
	free(g);
	a->egress = NULL;
}

/* ---- for the others ---- */

void api_egress_box(struct sandbox *sb)
{
	struct api_egress *g = sb->api->egress;

	sb->told = 0;
	if (g && g->link && has_box(sb))
		(void)tell_box(g, sb);
}

void api_egress_gone(struct sandbox *sb)
{
	struct api_egress *g = sb->api->egress;
	struct err err = {0};

	if (g && g->link && sb->told == g->connections)
		(void)control_link_ask(g->link, CONTROL_GONE, json_pack("{s:s}", "id", sb->row.id),
			NULL, NULL, &err);
	sb->told = 0;
}

void api_egress_info(struct sandbox *sb)
{
	struct api_egress *g = sb->api->egress;
	AUTO_FREE char *limits = limits_of(&sb->row);
	struct control_box b = {.id = sb->row.id,
		.limits = limits,
		.expires_ms = (uint64_t)(sb->row.end_at_ms > 0 ? sb->row.end_at_ms : 0)};
	struct err err = {0};

	if (g && g->link && sb->told == g->connections)
		(void)control_link_ask(
			g->link, CONTROL_INFO, control_box_json(&b), NULL, NULL, &err);
}

struct changing {
	void (*done)(int code, void *arg);
	void *arg;
	struct loop *loop;
	struct loop_task later; /* nobody to ask: answered behind the batch */
};

static void changed(const struct control_message *m, void *arg)
{
	struct changing *c = arg;
	int code = m->err.code;

	/* Without egress there are no connections; without the box neither. */
	c->done(code == ECONNRESET || code == ENOENT ? 0 : -code, c->arg);
	free(c);
}

static void changed_later(struct loop_task *t)
{
	struct changing *c = (struct changing *)((char *)t - offsetof(struct changing, later));

	c->done(0, c->arg);
	free(c);
}

void api_egress_policy(struct sandbox *sb, void (*done)(int code, void *arg), void *arg)
{
	struct api_egress *g = sb->api->egress;
	struct changing *c = MEM_NEW(struct changing);
	struct err err = {0};

	c->done = done;
	c->arg = arg;
	if (g && g->link &&
		control_link_ask(g->link, CONTROL_BOX, box_of(sb), changed, c, &err) >= 0) {
		sb->told = g->connections;
		return;
	}
	c->later.run = changed_later;
	loop_defer(sb->api->loop, &c->later);
}

int api_egress_ask(struct api *a, enum control_op op, json_t *take_body, control_answer_fn answer,
	void *arg, struct err *err)
{
	if (!a->egress || !a->egress->link) {
		json_decref(take_body);
		return err_set(err, ENOTCONN, "the egress role is not there; try again");
	}
	return control_link_ask(a->egress->link, op, take_body, answer, arg, err);
}

void api_egress_forget(struct api *a, const void *arg)
{
	if (a->egress && a->egress->link)
		control_link_forget(a->egress->link, arg);
}

/* ---- /metrics ---- */

static void put(struct buf *b, const char *name, const char *type, const char *help, uint64_t v)
{
	(void)buf_addf(
		b, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name, v);
}

void api_egress_metrics(struct api *a, struct buf *out)
{
	const struct api_egress *g = a->egress;
	const struct egress_totals *t = &g->totals;

	put(out, "bawn_egress_up", "gauge", "1 while the egress role is connected.",
		g->link != NULL);
	put(out, "bawn_egress_boxes", "gauge", "Sandboxes with a road out.", t->boxes);
	put(out, "bawn_egress_flows", "gauge", "Connections under way.", t->flows);
	(void)buf_addf(out,
		"# HELP bawn_egress_bytes_total Bytes relayed.\n"
		"# TYPE bawn_egress_bytes_total counter\n"
		"bawn_egress_bytes_total{direction=\"up\"} %" PRIu64 "\n"
		"bawn_egress_bytes_total{direction=\"down\"} %" PRIu64 "\n",
		t->bytes_up, t->bytes_down);
	put(out, "bawn_egress_connections_total", "counter", "Connections made for sandboxes.",
		t->connections);
	put(out, "bawn_egress_requests_total", "counter", "HTTP requests passed on.", t->requests);
	put(out, "bawn_egress_intercepted_total", "counter", "Connections looked into.",
		t->intercepted);
	put(out, "bawn_egress_lookups_total", "counter", "Names looked up.", t->lookups);
	put(out, "bawn_egress_certificates_total", "counter", "Leaf certificates made.", t->minted);
	put(out, "bawn_egress_asks_total", "counter", "Questions put to people.", t->asks);
	(void)buf_addf(out, "# HELP bawn_egress_denied_total Refusals, by kind.\n"
			    "# TYPE bawn_egress_denied_total counter\n");
	for (int i = 0; i < DENIAL_KIND_COUNT; i++)
		(void)buf_addf(out, "bawn_egress_denied_total{kind=\"%s\"} %" PRIu64 "\n",
			denial_kind_name((enum denial_kind)i), g->denied[i]);
	put(out, "bawn_egress_events_lost_total", "counter", "Reports dropped under load.",
		g->lost);
}
