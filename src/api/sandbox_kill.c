/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a sandbox ends: ENDING is durable (I2), what clients read breaks off, the guest's link is
 * closed, the warden kills and removes everything, the row is ENDED.
 */
#include "api/egress.h"
#include "api/metrics.h"
#include "api/sandbox_impl.h"
#include "base/mem.h"

#include <string.h>

#define AGAIN_MS 5000 /* between two tries to end what would not end */

static void add_wait(struct sandbox *sb, void (*done)(int code, void *arg), void *arg)
{
	struct sandbox_gone_wait *w;

	if (!done)
		return;
	w = MEM_NEW(struct sandbox_gone_wait);
	w->done = done;
	w->arg = arg;
	w->next = sb->gones;
	sb->gones = w;
}

void sandbox_tell_gone(struct sandbox *sb, int code)
{
	struct sandbox_gone_wait *w;

	while ((w = sb->gones)) {
		sb->gones = w->next;
		w->done(code, w->arg);
		free(w);
	}
}

void sandbox_cut_streams(struct sandbox *sb)
{
	struct stream *s;

	while ((s = sb->streams)) {
		sandbox_stream_remove(s);
		s->cut(s);
	}
}

void sandbox_kill(struct sandbox *sb, const char *actor, enum sandbox_reason reason,
	void (*done)(int code, void *arg), void *arg)
{
	struct err err = {0};
	int r;

	if (sb->row.state == SANDBOX_ENDING) {
		add_wait(sb, done, arg);
		return;
	}
	r = sandbox_move(sb, SANDBOX_ENDING, reason, "", actor, NULL, &err);
	if (r < 0) {
		api_log("error", "", "sandbox %s cannot be ended: %s", sb->row.id, err.msg);
		if (done)
			done(r, arg);
		return;
	}
	add_wait(sb, done, arg);
	metrics_killed(sb->api, reason);
	loop_timer_cancel(sb->api->loop, &sb->deadline);
	sandbox_cut_streams(sb);
	sandbox_link_close(sb);
	api_egress_gone(sb);
	sandbox_ask_stop(sb);
}

/* It is gone from the kernel: say so in the row. */
static int settle(struct sandbox *sb, struct err *err)
{
	struct err why = {0};

	if (sb->row.state == SANDBOX_ENDING)
		return sandbox_move(sb, SANDBOX_ENDED, sb->row.reason, "", "system", NULL, err);
	(void)err_set(&why, ECONNRESET, "the server was restarted before its create was answered");
	return sandbox_move(sb, SANDBOX_FAILED, SANDBOX_NOT_ANSWERED, why.msg, "system", NULL, err);
}

static void stopped(const struct warden_message *m, void *arg)
{
	struct sandbox *sb = arg;
	struct err err = {0};
	int r = m->code;

	sb->is_asked = false;
	if (r == -ECONNRESET) {
		sandbox_audit_in(sb->api, 0);
		return;
	}
	if (r < 0)
		err = m->err;
	else
		r = settle(sb, &err);
	if (r < 0) {
		api_log("error", "", "sandbox %s does not end: %s", sb->row.id, err.msg);
		sandbox_tell_gone(sb, r);
		sandbox_audit_in(sb->api, AGAIN_MS);
		return;
	}
	sb->is_gone_due = true;
	sandbox_tell_later(sb);
}

void sandbox_ask_stop(struct sandbox *sb)
{
	struct warden_message m = {.op = WARDEN_STOP};
	struct err err = {0};

	(void)snprintf(m.id, sizeof(m.id), "%s", sb->row.id);
	/* Nobody there to ask: reconcile comes back here once there is. */
	if (warden_ask(sb->api->warden, &m, stopped, sb, &err) < 0)
		return;
	sb->is_asked = true;
}
