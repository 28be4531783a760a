/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What ends by time: TTL, idleness, and a creation no warden took up.
 *
 * Goes by CLOCK_MONOTONIC, which no wall clock moves and which stands still while a laptop sleeps;
 * the deadline is in the row, so a restart changes nothing. After a reboot the clock starts anew,
 * but then no sandbox is left: reconcile ends their rows by boot id.
 */
#include "api/egress.h"
#include "api/sandbox_impl.h"

#define CREATE_MS 15000 /* nobody waits longer for a warden */
#define AGAIN_MS  5000  /* the store could not take the intent: try again */

static uint64_t until(uint64_t due_ms, uint64_t now_ms)
{
	return due_ms > now_ms ? due_ms - now_ms : 0;
}

/* The first thing that can come, as ms from now; UINT64_MAX: nothing. */
static uint64_t next_in(const struct sandbox *sb, uint64_t now_ms, enum sandbox_reason *ret_reason)
{
	uint64_t in = UINT64_MAX;

	if (sb->row.deadline_ms > 0) {
		in = until((uint64_t)sb->row.deadline_ms, now_ms);
		*ret_reason = SANDBOX_TTL;
	}
	if (sb->row.idle_ms > 0) {
		uint64_t from = sb->busy > 0 ? now_ms : sb->used_ms;
		uint64_t idle_in = until(from + (uint64_t)sb->row.idle_ms, now_ms);

		if (idle_in < in) {
			in = idle_in;
			*ret_reason = SANDBOX_IDLE;
		}
	}
	return in;
}

static void give_up_creating(struct sandbox *sb)
{
	struct err err = {0};

	if (sb->is_asked)
		return;
	(void)err_set(&err, ENOTCONN, "no warden took it up within %d s", CREATE_MS / 1000);
	sandbox_is_failed(sb, SANDBOX_NOT_MADE, &err);
}

static void due(struct loop_timer *t)
{
	struct sandbox *sb = (struct sandbox *)((char *)t - offsetof(struct sandbox, deadline));
	enum sandbox_reason reason = SANDBOX_NO_REASON;

	if (sb->row.state == SANDBOX_CREATING) {
		give_up_creating(sb);
		return;
	}
	if (sb->row.state != SANDBOX_RUNNING && sb->row.state != SANDBOX_PAUSED)
		return;
	if (next_in(sb, loop_now_ms(sb->api->loop), &reason) > 0) {
		sandbox_arm(sb);
		return;
	}
	sandbox_kill(sb, "system", reason, NULL, NULL);
	if (sb->row.state == SANDBOX_RUNNING || sb->row.state == SANDBOX_PAUSED)
		loop_timer_set(sb->api->loop, &sb->deadline, AGAIN_MS);
}

void sandbox_arm(struct sandbox *sb)
{
	enum sandbox_reason reason;
	uint64_t in;

	sb->deadline.fire = due;
	if (sb->row.state == SANDBOX_CREATING)
		in = CREATE_MS;
	else
		in = next_in(sb, loop_now_ms(sb->api->loop), &reason);
	if (in == UINT64_MAX)
		loop_timer_cancel(sb->api->loop, &sb->deadline);
	else
		loop_timer_set(sb->api->loop, &sb->deadline, in);
}

int64_t sandbox_end_at(const struct sandbox *sb)
{
	if (sb->row.deadline_ms == 0)
		return 0;
	return api_now_unix_ms() + sb->row.deadline_ms - (int64_t)loop_now_ms(sb->api->loop);
}

int sandbox_set_timeout(struct sandbox *sb, const char *actor, uint64_t timeout_ms,
	bool only_extend, struct err *err)
{
	struct api *a = sb->api;
	int64_t deadline = (int64_t)(loop_now_ms(a->loop) + timeout_ms);
	int64_t end_at = api_now_unix_ms() + (int64_t)timeout_ms;
	int r;

	if (timeout_ms == 0 || timeout_ms > a->config.ttl_max_ms)
		return err_set(err, EINVAL, "timeout must be between 1 and %llu seconds",
			(unsigned long long)(a->config.ttl_max_ms / 1000));
	if (only_extend && deadline <= sb->row.deadline_ms)
		return 0;
	r = store_begin(a->store, err);
	if (r < 0)
		return r;
	r = store_sandbox_set_deadline(a->store, sb->row.id, end_at, deadline, err);
	if (r == 0) {
		struct store_event e = {
			.tenant = sb->row.tenant,
			.actor = actor,
			.action = "sandbox.timeout",
			.sandbox = sb->row.id,
			.outcome = "ok",
			.detail = "",
		};

		r = store_event_append(a->store, &e, err);
	}
	if (r < 0) {
		store_rollback(a->store);
		return r;
	}
	r = store_commit(a->store, err);
	if (r < 0)
		return r;
	sb->row.deadline_ms = deadline;
	sb->row.end_at_ms = end_at;
	sandbox_arm(sb);
	api_egress_info(sb);
	return 0;
}
