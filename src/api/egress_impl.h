/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What egress*.c share. */
#include "api/egress.h"
#include "api/v1/secrets.h"

struct told_entry { /* a refusal on its way to the store */
	char sandbox[SANDBOX_ID_MAX];
	char *what, *record;
	int64_t at_ms, count;
	struct told_entry *next;
};

struct api_egress {
	struct api *api;
	char *path;
	struct control_link *link; /* NULL: not connected */
	uint64_t connections;
	bool is_synced;
	struct secrets_cursor secrets; /* how far it was told of them */
	struct loop_timer retry;
	uint64_t retry_ms;
	struct loop_timer poll; /* of the totals */
	struct egress_totals totals;

	struct told_entry *told, **told_end;
	size_t told_n;
	struct loop_timer settle;
	uint64_t denied[DENIAL_KIND_COUNT];
	uint64_t lost;

	json_t *asks; /* set of "sandbox/engine id" that egress told on this connection */

	struct policy *fallback, *floor; /* the server's default profile; NULL floor: none */
};
