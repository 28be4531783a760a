/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The end of the role: no new connections, answers under way are finished, streams are cut; with
 * --kill-on-exit every sandbox ends too, also one whose creation was under way.
 */
#include "api/sandbox_impl.h"
#include "base/mem.h"

#define AGAIN_MS 50 /* between two looks at what is still there */

struct draining {
	struct api *api;
	unsigned left; /* servers and sandboxes that are not done */
	void (*done)(void *arg);
	void *arg;
	struct loop_timer again;
};

static void one_done(void *arg)
{
	struct draining *d = arg;

	if (--d->left > 0)
		return;
	/* One was being made when we looked, or would not end. The caller has a deadline. */
	if (d->api->config.kill_on_exit && d->api->sandboxes->live > 0) {
		loop_timer_set(d->api->loop, &d->again, AGAIN_MS);
		return;
	}
	d->done(d->arg);
	free(d);
}

static void one_ended(int code, void *arg)
{
	(void)code;
	one_done(arg);
}

static void end_all(struct draining *d)
{
	struct api *a = d->api;

	for (struct sandbox *sb = a->sandboxes->first, *next; sb; sb = next) {
		next = sb->next;
		sandbox_cut_streams(sb);
		if (!a->config.kill_on_exit || sb->row.state == SANDBOX_CREATING)
			continue;
		d->left++;
		sandbox_kill(sb, "system", SANDBOX_SHUTDOWN, one_ended, d);
	}
}

static void look_again(struct loop_timer *t)
{
	struct draining *d = (struct draining *)((char *)t - offsetof(struct draining, again));

	d->left = 1;
	end_all(d);
	one_done(d);
}

void api_drain(struct api *a, void (*done)(void *arg), void *arg)
{
	struct draining *d = MEM_NEW(struct draining);

	/* One for us, so that nothing is done before all was begun. */
	*d = (struct draining){.api = a, .left = 3, .done = done, .arg = arg};
	d->again.fire = look_again;
	http_drain(a->http, one_done, d);
	http_drain(a->local, one_done, d);
	end_all(d);
	one_done(d);
}
