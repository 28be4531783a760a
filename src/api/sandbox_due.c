/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/sandbox_due - who waits for a sandbox is told once its row is on the disk; many at once.
 *
 * A sync takes as long as a start does, and blocks the loop. So those of one turn share it: the
 * more there is to do, the fewer syncs there are for each.
 */
#include "api/api.h"
#include "api/metrics.h"
#include "api/sandbox_impl.h"

#include <stddef.h>

static void tell_one(struct sandbox *sb, const struct err *why)
{
	bool is_up_due = sb->is_up_due, is_gone_due = sb->is_gone_due;

	sb->is_up_due = sb->is_gone_due = false;
	if (is_up_due && why->code) {
		/* Not durable is not running. Reconcile destroys what nobody waits for. */
		sandbox_tell_up(sb, why);
		sandbox_audit_in(sb->api, 5000);
	} else if (is_up_due) {
		sandbox_tell_up(sb, NULL);
	}
	if (is_gone_due) {
		sandbox_tell_gone(sb, -why->code);
		sandbox_remove(sb);
	}
}

static void sync_all(struct loop_task *t)
{
	struct api_sandboxes *all =
		(struct api_sandboxes *)((char *)t - offsetof(struct api_sandboxes, sync));
	struct sandbox *sb = all->due;
	struct err err = {0};

	all->due = NULL; /* what is told of may lead to more */
	if (store_sync(all->api->store, &err) < 0) {
		metrics_store_error(all->api);
		api_log("error", "", "%s", err.msg);
	}
	while (sb) {
		struct sandbox *next = sb->due_next;

		sb->due_next = NULL;
		tell_one(sb, &err);
		sb = next;
	}
}

void sandbox_tell_later(struct sandbox *sb)
{
	struct api_sandboxes *all = sb->api->sandboxes;
	struct sandbox **last = &all->due;

	for (; *last; last = &(*last)->due_next)
		if (*last == sb)
			return; /* both, in one turn */
	*last = sb;
	all->sync.run = sync_all;
	loop_defer(sb->api->loop, &all->sync);
}
