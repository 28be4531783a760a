/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/pool - connections to servers, kept for the next request of the same box.
 *
 * Never shared between boxes, nor across generations of a policy: what one was let through to
 * says nothing about another. A byte that comes while nobody asked closes the connection.
 */
#include "egress/egress_impl.h"

#define POOL_BOX_MAX 64    /* idle, of one box */
#define POOL_IDLE_MS 30000 /* then closed */
/* Servers end idle connections after a few seconds; what cannot be sent twice waits less. */
#define POOL_FRESH_MS 3000

struct upstream {
	struct conn *conn; /* NULL: dead */
	char name[POLICY_NAME_MAX + 1];
	struct address addr; /* if name is "" */
	uint16_t port;
	bool is_tls;
	bool is_reused;
	uint64_t generation; /* of the policy it was dialled under */
	struct egress_box *box;
	uint64_t idle_ms; /* since when */
	struct loop_task end;
	TAILQ_ENTRY(upstream) link;
};

/*
 * The latest idle connection for the flow, at most `max_idle_ms` unused, or NULL. The caller
 * sets its events.
 */
struct upstream *pool_take(const struct egress_flow *f, bool is_tls, uint64_t max_idle_ms);
/* Keep it for the next one: nothing is unread or unsent on it. */
void pool_put(struct upstream *u);

struct upstream *upstream_create(const struct egress_flow *f, bool is_tls, struct conn *take_conn);
/* Close politely and free after the batch: everything was said. */
void upstream_end(struct upstream *u);
/* Close at once and free after the batch. NULL is fine. */
void upstream_drop(struct upstream *u);
