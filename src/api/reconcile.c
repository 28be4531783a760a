/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The store against the kernel: at start, whenever the warden was lost, and once a minute.
 *
 * The warden's list is the truth about what runs. A list says nothing about what changed after
 * it was asked for, nor about what a question is under way for: those are left alone and
 * judged by the next list. What was decided is done through the same functions as ever, so each
 * change has its intent, its transaction and its event.
 */
#include "api/reconcile.h"

#include "api/sandbox_impl.h"
#include "base/mem.h"

#include <string.h>

#define AUDIT_MS (60 * 1000)
#define KEEP_MS  (24 * 3600 * 1000LL) /* rows of what has ended are shown so long */

struct reconcile {
	uint64_t asked_ms; /* loop time: what came later is not in the list */
	unsigned boxes, strays;
};

enum reconcile_action reconcile_decide(const struct store_sandbox *row, bool has_box,
	bool is_wanted, const char *boot_id, enum sandbox_reason *ret_reason)
{
	*ret_reason = SANDBOX_NO_REASON;
	if (!row)
		return has_box ? RECONCILE_STOP : RECONCILE_KEEP;
	switch (row->state) {
	case SANDBOX_CREATING:
		if (is_wanted)
			return has_box ? RECONCILE_UP : RECONCILE_ASK;
		*ret_reason = SANDBOX_NOT_ANSWERED;
		return has_box ? RECONCILE_STOP : RECONCILE_FAIL;
	case SANDBOX_RUNNING:
	case SANDBOX_PAUSED:
		if (has_box)
			return RECONCILE_KEEP;
		*ret_reason = strcmp(row->boot_id, boot_id) != 0 ? SANDBOX_HOST_REBOOT
								 : SANDBOX_GUEST_GONE;
		return RECONCILE_END;
	case SANDBOX_ENDING: *ret_reason = row->reason; return RECONCILE_STOP;
	default: return has_box ? RECONCILE_STOP : RECONCILE_KEEP;
	}
}

static void stray_stopped(const struct warden_message *m, void *arg)
{
	(void)arg;
	if (m->code < 0 && m->code != -ECONNRESET)
		api_log("error", "", "a sandbox without a row does not end: %s", m->err.msg);
}

static void stop_stray(struct api *a, const char *id)
{
	struct warden_message m = {.op = WARDEN_STOP};
	struct err err = {0};

	(void)snprintf(m.id, sizeof(m.id), "%.*s", (int)sizeof(m.id) - 1, id);
	api_log("warn", "", "sandbox %s is in no row: it is ended", m.id);
	(void)warden_ask(a->warden, &m, stray_stopped, a, &err);
}

static bool may_judge(const struct sandbox *sb, const struct reconcile *rec)
{
	return !sb->is_asked && sb->since_ms < rec->asked_ms;
}

static void got_box(struct api *a, const struct warden_message *m)
{
	struct reconcile *rec = a->sandboxes->reconcile;
	struct sandbox *sb = sandbox_any(a, m->id);
	enum sandbox_reason reason;

	rec->boxes++;
	if (!sb) {
		rec->strays++;
		stop_stray(a, m->id);
		return;
	}
	sb->seen_ms = rec->asked_ms;
	/* The walls are in this message alone: the rest is done when the list is complete. */
	if (may_judge(sb, rec) && reconcile_decide(&sb->row, true, sb->mades != NULL, a->boot_id,
					  &reason) == RECONCILE_UP)
		sandbox_is_up(sb, m);
}

static void judge(struct sandbox *sb, const struct reconcile *rec)
{
	struct err err = {0};
	enum sandbox_reason reason;

	switch (reconcile_decide(&sb->row, sb->seen_ms == rec->asked_ms, sb->mades != NULL,
		sb->api->boot_id, &reason)) {
	case RECONCILE_ASK: sandbox_ask_start(sb); break;
	case RECONCILE_STOP: sandbox_ask_stop(sb); break;
	case RECONCILE_FAIL:
		(void)err_set(&err, ECONNRESET,
			"the server was restarted before its create was answered");
		sandbox_is_failed(sb, reason, &err);
		break;
	case RECONCILE_END:
		api_log("warn", "", "sandbox %s is not there any more: %s", sb->row.id,
			sandbox_reason_name(reason));
		sandbox_kill(sb, "system", reason, NULL, NULL);
		break;
	case RECONCILE_KEEP:
		/* Found again after a restart: its time goes on. */
		if (sb->since_ms == 0)
			sandbox_arm(sb);
		break;
	case RECONCILE_UP: break;
	}
}

static void list_done(struct api *a)
{
	struct api_sandboxes *all = a->sandboxes;
	struct reconcile *rec = TAKE_PTR(all->reconcile);
	struct err err = {0};

	for (struct sandbox *sb = all->first, *next; sb; sb = next) {
		next = sb->next;
		if (may_judge(sb, rec))
			judge(sb, rec);
	}
	if (!a->is_ready)
		api_log("info", "", "ready: %u sandboxes, %u boxes, %u of them strays", all->live,
			rec->boxes, rec->strays);
	a->is_ready = true;
	free(rec);
	if (store_sandbox_prune(a->store, api_now_unix_ms() - KEEP_MS, &err) < 0)
		api_log("error", "", "old rows stay: %s", err.msg);
	sandbox_audit_in(a, AUDIT_MS);
}

static void listed(const struct warden_message *m, void *arg)
{
	struct api *a = arg;

	if (m->op == WARDEN_BOX) {
		got_box(a, m);
		return;
	}
	if (m->code == 0) {
		list_done(a);
		return;
	}
	/* Lost, or refused: asked again on the next connection, or by the audit. */
	free(a->sandboxes->reconcile);
	a->sandboxes->reconcile = NULL;
	if (m->code != -ECONNRESET)
		sandbox_audit_in(a, AUDIT_MS);
}

void sandbox_reconcile(struct api *a)
{
	struct warden_message m = {.op = WARDEN_LIST};
	struct err err = {0};

	if (a->sandboxes->reconcile)
		return;
	a->sandboxes->reconcile = MEM_NEW(struct reconcile);
	a->sandboxes->reconcile->asked_ms = loop_now_ms(a->loop);
	if (warden_ask(a->warden, &m, listed, a, &err) < 0) {
		free(a->sandboxes->reconcile);
		a->sandboxes->reconcile = NULL;
	}
}

static void audit_due(struct loop_timer *t)
{
	struct api_sandboxes *all =
		(struct api_sandboxes *)((char *)t - offsetof(struct api_sandboxes, audit));

	sandbox_reconcile(all->api);
}

void sandbox_audit_in(struct api *a, uint64_t delay_ms)
{
	struct loop_timer *t = &a->sandboxes->audit;

	t->fire = audit_due;
	if (t->slot == 0 || t->due_ms > loop_now_ms(a->loop) + delay_ms)
		loop_timer_set(a->loop, t, delay_ms);
}
