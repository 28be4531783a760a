/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/v1/secrets - what the rest of the api role needs of secrets.
 */
#include "api/api.h"

struct secrets_cursor { /* zero to start */
	char tenant[64], name[64];
	bool is_done;
};

/*
 * Tell the egress role of every secret, sealed, as far as the connection takes them; true: all of
 * them. Call again when it has drained.
 */
bool secrets_push(struct api *a, struct secrets_cursor *at);

/* The variables with placeholders that a sandbox of this policy finds; none that it has already. */
void secrets_env(struct api *a, const char *tenant, const char *policy, json_t *env);
