/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What runs beside the requests of /v1, on one timer: followers of events, watches of execs that
 * lost theirs, webhooks.
 */
#include "api/v1/v1.h"
#include "base/mem.h"

#define FAST_MS 100  /* somebody follows events */
#define SLOW_MS 1000 /* nobody does */

static void tick(struct loop_timer *t)
{
	struct api_v1 *v = (struct api_v1 *)((char *)t - offsetof(struct api_v1, tick));
	struct api *a = v->api;

	loop_timer_set(a->loop, t, v->followers ? FAST_MS : SLOW_MS);
	/* Before rows and kernel agree there is nothing true to watch. */
	if (!a->is_ready)
		return;
	if (v->rescan_ms && loop_now_ms(a->loop) >= v->rescan_ms) {
		v->rescan_ms = 0;
		v1_exec_rescan(a);
	}
	v1_events_tick(a);
	v1_webhooks_tick(a);
}

void v1_rescan_in(struct api *a, uint64_t delay_ms)
{
	uint64_t at = loop_now_ms(a->loop) + delay_ms;

	if (a->v1->rescan_ms == 0 || a->v1->rescan_ms > at)
		a->v1->rescan_ms = at;
}

int v1_create(struct api *a, struct err *err)
{
	a->v1 = MEM_NEW(struct api_v1);
	a->v1->api = a;
	a->v1->tick.fire = tick;
	v1_rescan_in(a, 1);
	loop_timer_set(a->loop, &a->v1->tick, FAST_MS);
	return v1_webhooks_create(a, err);
}

void v1_free(struct api *a)
{
	if (!a->v1)
		return;
	loop_timer_cancel(a->loop, &a->v1->tick);
	v1_execs_free(a);
	v1_events_free(a);
	v1_webhooks_free(a);
	free(a->v1);
	a->v1 = NULL;
}
