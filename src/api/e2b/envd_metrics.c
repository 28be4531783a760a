/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/envd_metrics - GET /metrics of a sandbox: asked twice, a moment apart, because a share
 * of the processors is a difference.
 */
#include "api/e2b/envd.h"

#include <inttypes.h>

#define MOMENT_MS 100

struct metrics {
	struct envd_call call;
	struct loop_timer again;
	struct guest_usage first;
	uint64_t first_ms;
	bool has_first;
};

static struct metrics *of(struct envd_call *c)
{
	return (struct metrics *)c;
}

static void ask(struct envd_call *c)
{
	struct frame_writer w = {0};

	(void)envd_ask(c, GUEST_USAGE, &w, ENVD_ASK_ONLY);
}

static void again(struct loop_timer *t)
{
	envd_call_link(&((struct metrics *)((char *)t - offsetof(struct metrics, again)))->call);
}

static void answer(struct metrics *m, const struct guest_usage *u)
{
	uint64_t us = (loop_now_ms(m->call.api->loop) - m->first_ms) * 1000;
	uint64_t used = u->cpu_us > m->first.cpu_us ? u->cpu_us - m->first.cpu_us : 0;
	double share = us > 0 ? 100.0 * (double)used / (double)us : 0;
	double most = 100.0 * u->cpu_count;
	char json[512];
	int n;

	n = snprintf(json, sizeof(json),
		"{\"ts\":%" PRId64 ",\"cpu_count\":%u,\"cpu_used_pct\":%.2f,\"mem_total\":%" PRIu64
		",\"mem_used\":%" PRIu64 ",\"mem_cache\":%" PRIu64 ",\"mem_total_mib\":%" PRIu64
		",\"mem_used_mib\":%" PRIu64 ",\"disk_used\":%" PRIu64 ",\"disk_total\":%" PRIu64
		"}\n",
		api_now_unix_ms() / 1000, u->cpu_count, share < most ? share : most, u->mem_total,
		u->mem_used, u->mem_cache, u->mem_total >> 20, u->mem_used >> 20, u->disk_used,
		u->disk_total);
	envd_reply(&m->call, json, (size_t)n);
}

static void message(struct envd_call *c, uint16_t kind, struct frame_reader *body)
{
	struct metrics *m = of(c);
	struct guest_usage u = {0};

	if (kind != MSG_USAGE || !guest_usage_get(body, &u)) {
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
		return;
	}
	if (m->has_first) {
		answer(m, &u);
		return;
	}
	m->has_first = true;
	m->first = u;
	m->first_ms = loop_now_ms(c->api->loop);
	mux_drop(&c->channel);
	loop_timer_set(c->api->loop, &m->again, MOMENT_MS);
}

static void ended(struct envd_call *c, int code, const char *why)
{
	if (code != 0)
		envd_fail_errno(c, code, why);
	else
		envd_fail(c, CONNECT_INTERNAL, "the guest gave no answer");
}

static void release(struct envd_call *c)
{
	loop_timer_cancel(c->api->loop, &of(c)->again);
}

void envd_metrics(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct metrics),
		.linked = ask,
		.message = message,
		.ended = ended,
		.release = release,
	};
	struct metrics *m = (struct metrics *)envd_call_start(a, r, sb, ENVD_PLAIN, &ops);

	m->again.fire = again;
	http_field(r, "Cache-Control", "no-store");
	envd_call_link(&m->call);
}
