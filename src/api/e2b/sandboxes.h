/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/sandboxes - the handlers of the E2B control plane; the table is in routes.c.
 */
#include "api/api.h"

#define E2B_HANDLER(name)                                                                          \
	void name(struct api *a, struct http_request *r, const struct route_match *m)

E2B_HANDLER(e2b_create); /* POST /sandboxes */
E2B_HANDLER(e2b_create_v2);
E2B_HANDLER(e2b_connect); /* POST /sandboxes/{id}/connect */
E2B_HANDLER(e2b_connect_v2);
E2B_HANDLER(e2b_get);
E2B_HANDLER(e2b_kill);
E2B_HANDLER(e2b_timeout);
E2B_HANDLER(e2b_refresh);
E2B_HANDLER(e2b_network); /* PUT /sandboxes/{id}/network */
E2B_HANDLER(e2b_list);    /* list.c */
E2B_HANDLER(e2b_list_v2);
E2B_HANDLER(e2b_metrics); /* telemetry.c */
E2B_HANDLER(e2b_metrics_many);
E2B_HANDLER(e2b_logs);
E2B_HANDLER(e2b_logs_v2);
E2B_HANDLER(e2b_template_alias); /* templates.c */
E2B_HANDLER(e2b_later_sandbox);  /* 404, or 501: comes with its own issue */
E2B_HANDLER(e2b_later);          /* 501 */

#undef E2B_HANDLER
