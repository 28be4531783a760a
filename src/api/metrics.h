/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/metrics - what the role counts, as Prometheus reads it. Numbers only: no id, no tenant.
 */
#include "api/api.h"

struct api_counters *metrics_create(void);
struct api_counters *metrics_free(struct api_counters *c);

void metrics_request(struct api *a, const struct http_request *r); /* its answer is complete */
void metrics_created(struct api *a, uint64_t took_ms);
void metrics_failed(struct api *a); /* a create */
void metrics_killed(struct api *a, enum sandbox_reason reason);
void metrics_link(struct api *a, int change);
void metrics_store_error(struct api *a);

/* GET /metrics */
void metrics_handle(struct api *a, struct http_request *r, const struct route_match *m);
