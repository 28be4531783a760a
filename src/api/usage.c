/* SPDX-License-Identifier: Apache-2.0 */

#include "api/usage.h"

#include "api/sandbox_impl.h"
#include "base/mem.h"

#define GUEST_MS 2000 /* a guest that has not said by then does not know */
#define TURN_MS  250  /* the sampler's step: a twentieth of all sandboxes each time */

struct usage_sampler {
	struct api *api;
	struct loop_timer timer;
	unsigned turn;
};

/*
 * A question under way: to the warden, then, if somebody waits and the warden could not measure all
 * of it (no cgroups), to the guest. The sandbox is looked up again when the warden's answer comes;
 * the guest's link tells us when it goes.
 */
struct question {
	struct api *api;
	char id[SANDBOX_ID_MAX];
	void (*done)(struct sandbox *sb, void *arg);
	void *arg;
	struct provider_usage usage; /* what the warden knew */
	struct sandbox *sb;          /* while the guest is asked */
	struct mux_channel channel;
	struct loop_timer patience;
};

struct usage_ring *usage_ring_free(struct usage_ring *r)
{
	free(r);
	return NULL;
}

static double percent(const struct sandbox *sb, const struct usage_sample *before, uint64_t cpu_us,
	uint64_t passed_ms)
{
	double cpus = sb->row.cpu_milli > 0 ? (double)sb->row.cpu_milli / 1000 : 1;

	if (!before || passed_ms == 0 || cpu_us < before->cpu_us)
		return 0;
	return (double)(cpu_us - before->cpu_us) / 10 / (double)passed_ms / cpus;
}

static void add_sample(struct sandbox *sb, const struct provider_usage *u)
{
	struct usage_ring *r = sb->usage;
	uint64_t now_ms = loop_now_ms(sb->api->loop);
	struct usage_sample *before = NULL, s;

	if (!r)
		r = sb->usage = MEM_NEW(struct usage_ring);
	if (r->n > 0)
		before = &r->samples[(r->at + USAGE_SAMPLES - 1) % USAGE_SAMPLES];
	s = (struct usage_sample){
		.at_ms = api_now_unix_ms(),
		.cpu_us = u->cpu_us,
		.memory = u->memory,
		.disk = u->disk,
		.has_memory = u->has_memory,
		.has_disk = u->has_disk,
	};
	s.cpu_percent = percent(sb, before, u->cpu_us, now_ms - r->last_ms);
	r->samples[r->at] = s;
	r->at = (r->at + 1) % USAGE_SAMPLES;
	r->n += r->n < USAGE_SAMPLES;
	r->last_ms = now_ms;
}

static void finish(struct question *q, struct sandbox *sb)
{
	if (q->sb) {
		loop_timer_cancel(q->api->loop, &q->patience);
		sandbox_guest_cancel(q->sb, q);
		mux_drop(&q->channel);
	}
	if (sb && (q->usage.has_cpu || q->usage.has_memory || q->usage.has_disk))
		add_sample(sb, &q->usage);
	if (q->done)
		q->done(sb, q->arg);
	free(q);
}

static uint64_t at_most(uint64_t v, uint64_t max)
{
	return v < max ? v : max;
}

static void guest_said(struct mux_channel *c, uint16_t kind, struct frame_reader *body)
{
	struct question *q = c->arg;
	struct guest_usage u = {0};

	if (kind == MSG_USAGE && guest_usage_get(body, &u) && frame_ok(body)) {
		if (!q->usage.has_cpu)
			q->usage.cpu_us = at_most(u.cpu_us, INT64_MAX);
		if (!q->usage.has_memory)
			q->usage.memory = at_most(u.mem_used, INT64_MAX);
		if (!q->usage.has_disk)
			q->usage.disk = at_most(u.disk_used, INT64_MAX);
		q->usage.has_cpu = q->usage.has_memory = q->usage.has_disk = true;
	}
	guest_usage_done(&u);
	finish(q, q->sb);
}

static void guest_sent(struct mux_channel *c, uint8_t stream, const char *p, size_t n)
{
	(void)c, (void)stream, (void)p, (void)n;
}

static void guest_ended(struct mux_channel *c, int code, const char *why)
{
	struct question *q = c->arg;

	(void)code, (void)why;
	finish(q, q->sb);
}

static void guest_closed(struct mux_channel *c, int code)
{
	struct question *q = c->arg;

	finish(q, code == 0 ? q->sb : sandbox_by_id(q->api, q->id));
}

static const struct mux_events guest_events = {
	.message = guest_said,
	.data = guest_sent,
	.ended = guest_ended,
	.closed = guest_closed,
};

static void no_patience(struct loop_timer *t)
{
	struct question *q = (struct question *)((char *)t - offsetof(struct question, patience));

	finish(q, q->sb);
}

static void linked(struct sandbox *sb, int code, void *arg)
{
	struct question *q = arg;
	struct frame_writer w = {0};
	struct err err = {0};

	if (code < 0 ||
		mux_open(sb->guest, &q->channel, GUEST_USAGE, &w, &guest_events, q, &err) < 0)
		finish(q, sandbox_by_id(q->api, q->id));
	else
		mux_end(&q->channel, 0, NULL);
}

static void answered(const struct warden_message *m, void *arg)
{
	struct question *q = arg;
	struct sandbox *sb = sandbox_by_id(q->api, q->id);

	if (m->code == 0)
		q->usage = m->usage;
	if (!sb || !q->done || (q->usage.has_cpu && q->usage.has_memory && q->usage.has_disk)) {
		finish(q, sb);
		return;
	}
	q->sb = sb;
	q->patience.fire = no_patience;
	loop_timer_set(q->api->loop, &q->patience, GUEST_MS);
	sandbox_guest(sb, linked, q);
}

void usage_take(struct sandbox *sb, void (*done)(struct sandbox *sb, void *arg), void *arg)
{
	struct warden_message m = {.op = WARDEN_USAGE};
	struct question *q = MEM_NEW(struct question);
	struct err err = {0};

	q->api = sb->api;
	q->done = done;
	q->arg = arg;
	(void)snprintf(q->id, sizeof(q->id), "%s", sb->row.id);
	(void)snprintf(m.id, sizeof(m.id), "%s", sb->row.id);
	if (warden_ask(sb->api->warden, &m, answered, q, &err) == 0)
		return;
	free(q);
	if (done)
		done(sb, arg);
}

int usage_each(
	const struct sandbox *sb, int (*each)(const struct usage_sample *s, void *arg), void *arg)
{
	const struct usage_ring *r = sb->usage;
	int got = 0;

	for (unsigned i = 0; r && i < r->n && got >= 0; i++)
		got = each(&r->samples[(r->at + USAGE_SAMPLES - r->n + i) % USAGE_SAMPLES], arg);
	return got < 0 ? got : 0;
}

static unsigned turn_of(const struct sandbox *sb)
{
	unsigned h = 0;

	for (const char *p = sb->row.id; *p; p++)
		h = h * 31 + (unsigned char)*p;
	return h;
}

static void take_turn(struct loop_timer *t)
{
	struct usage_sampler *u =
		(struct usage_sampler *)((char *)t - offsetof(struct usage_sampler, timer));
	unsigned turns = USAGE_PERIOD_MS / TURN_MS;

	for (struct sandbox *sb = u->api->sandboxes->first; sb; sb = sb->next)
		/* By its id, not its place: the list moves while we go round. */
		if (sb->row.state == SANDBOX_RUNNING && turn_of(sb) % turns == u->turn)
			usage_take(sb, NULL, NULL);
	u->turn = (u->turn + 1) % turns;
	loop_timer_set(u->api->loop, &u->timer, TURN_MS);
}

void usage_start(struct api *a)
{
	struct usage_sampler *u = MEM_NEW(struct usage_sampler);

	u->api = a;
	u->timer.fire = take_turn;
	a->sandboxes->sampler = u;
	loop_timer_set(a->loop, &u->timer, TURN_MS);
}

void usage_stop(struct api *a)
{
	if (!a->sandboxes->sampler)
		return;
	loop_timer_cancel(a->loop, &a->sandboxes->sampler->timer);
	free(a->sandboxes->sampler);
	a->sandboxes->sampler = NULL;
}
