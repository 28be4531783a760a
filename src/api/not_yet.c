/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/not_yet - what answers until its module is there; each definition goes when its own comes.
 */
#include "api/api.h"

const struct route v1_routes[] = {{NULL, NULL, NULL, 0, NULL}};

void gateway_handle(
	struct api *a, struct http_request *r, struct sandbox *sb, const char *id, unsigned port)
{
	(void)a;
	(void)sb;
	(void)id;
	(void)port;
	api_reply_error(r, 501, "not_implemented", NULL, "the gateway is not there yet");
}
