/* SPDX-License-Identifier: Apache-2.0 */

#include "api/metrics.h"

#include "api/egress.h"
#include "api/sandbox_impl.h"
#include "base/mem.h"

#include <inttypes.h>

enum route_class { CLASS_E2B, CLASS_V1, CLASS_DATA, CLASS_OWN, CLASS_COUNT };

static const char *const class_names[CLASS_COUNT] = {"e2b", "v1", "data", "own"};

#define STATUS_MAX 600

static const uint64_t bounds_ms[] = {5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10000};
#define BOUNDS_N (sizeof(bounds_ms) / sizeof(bounds_ms[0]))

struct api_counters {
	uint64_t requests[CLASS_COUNT][STATUS_MAX]; /* [0]: broken off before a status */
	uint64_t created, failed, store_errors;
	uint64_t killed[SANDBOX_REASON_COUNT];
	uint64_t took[BOUNDS_N + 1]; /* creates per bucket; the last is +Inf */
	uint64_t took_ms;            /* of all creates */
	int64_t links;
};

struct api_counters *metrics_create(void)
{
	return MEM_NEW(struct api_counters);
}

struct api_counters *metrics_free(struct api_counters *c)
{
	free(c);
	return NULL;
}

static bool path_is(const struct http_request *r, const char *s)
{
	return h1_is(r->path, s);
}

static enum route_class class_of(const struct http_request *r)
{
	char id[SANDBOX_ID_MAX];
	unsigned port;

	if (h1_find(&r->head, "E2b-Sandbox-Id") || api_host_split(r->host, &port, id))
		return CLASS_DATA;
	if (path_is(r, "/health") || path_is(r, "/metrics") || path_is(r, "/openapi.json"))
		return CLASS_OWN;
	if (r->path.n >= 4 && memcmp(r->path.p, "/v1/", 4) == 0)
		return CLASS_V1;
	return CLASS_E2B;
}

void metrics_request(struct api *a, const struct http_request *r)
{
	int status = r->status >= 0 && r->status < STATUS_MAX ? r->status : 0;

	a->counters->requests[class_of(r)][status]++;
}

void metrics_created(struct api *a, uint64_t took_ms)
{
	size_t i = 0;

	while (i < BOUNDS_N && took_ms > bounds_ms[i])
		i++;
	a->counters->took[i]++;
	a->counters->took_ms += took_ms;
	a->counters->created++;
}

void metrics_failed(struct api *a)
{
	a->counters->failed++;
}

void metrics_killed(struct api *a, enum sandbox_reason reason)
{
	a->counters->killed[reason]++;
}

void metrics_link(struct api *a, int change)
{
	a->counters->links += change;
}

void metrics_store_error(struct api *a)
{
	a->counters->store_errors++;
}

static void put_requests(struct buf *b, const struct api_counters *c)
{
	(void)buf_addf(b, "# HELP bawn_requests_total Answers by route class and status.\n"
			  "# TYPE bawn_requests_total counter\n");
	for (int k = 0; k < CLASS_COUNT; k++)
		for (int s = 0; s < STATUS_MAX; s++)
			if (c->requests[k][s] > 0)
				(void)buf_addf(b,
					"bawn_requests_total{class=\"%s\",status=\"%d\"} %" PRIu64
					"\n",
					class_names[k], s, c->requests[k][s]);
}

static void put_one(struct buf *b, const char *name, const char *type, const char *help, int64_t v)
{
	(void)buf_addf(
		b, "# HELP %s %s\n# TYPE %s %s\n%s %" PRId64 "\n", name, help, name, type, name, v);
}

static void put_kills(struct buf *b, const struct api_counters *c)
{
	(void)buf_addf(b, "# HELP bawn_sandboxes_ended_total Sandboxes ended, by reason.\n"
			  "# TYPE bawn_sandboxes_ended_total counter\n");
	for (int i = 1; i < SANDBOX_REASON_COUNT; i++)
		(void)buf_addf(b, "bawn_sandboxes_ended_total{reason=\"%s\"} %" PRIu64 "\n",
			sandbox_reason_name((enum sandbox_reason)i), c->killed[i]);
}

static void put_latency(struct buf *b, const struct api_counters *c)
{
	uint64_t sum = 0;

	(void)buf_addf(b, "# HELP bawn_create_seconds From the request to a running sandbox.\n"
			  "# TYPE bawn_create_seconds histogram\n");
	for (size_t i = 0; i < BOUNDS_N; i++) {
		sum += c->took[i];
		(void)buf_addf(b, "bawn_create_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
			(double)bounds_ms[i] / 1000, sum);
	}
	sum += c->took[BOUNDS_N];
	(void)buf_addf(b,
		"bawn_create_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n"
		"bawn_create_seconds_sum %.3f\nbawn_create_seconds_count %" PRIu64 "\n",
		sum, (double)c->took_ms / 1000, sum);
}

static int64_t count_running(struct api *a)
{
	int64_t n = 0;

	for (struct sandbox *sb = a->sandboxes->first; sb; sb = sb->next)
		n += sb->row.state == SANDBOX_RUNNING;
	return n;
}

void metrics_handle(struct api *a, struct http_request *r, const struct route_match *m)
{
	const struct api_counters *c = a->counters;
	AUTO_BUF struct buf b = {0};

	(void)m;
	put_requests(&b, c);
	put_one(&b, "bawn_sandboxes_created_total", "counter", "Sandboxes that came up.",
		(int64_t)c->created);
	put_one(&b, "bawn_sandboxes_failed_total", "counter", "Sandboxes that did not come up.",
		(int64_t)c->failed);
	put_kills(&b, c);
	put_latency(&b, c);
	put_one(&b, "bawn_sandboxes_running", "gauge", "Sandboxes running now.", count_running(a));
	put_one(&b, "bawn_guest_links", "gauge", "Open connections to guests.", c->links);
	put_one(&b, "bawn_store_errors_total", "counter", "Writes the store refused.",
		(int64_t)c->store_errors);
	api_egress_metrics(a, &b);
	put_one(&b, "bawn_ready", "gauge", "1 once the store and the kernel agree.", a->is_ready);
	http_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", buf_data(&b), buf_len(&b));
}
