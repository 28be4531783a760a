/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/resolve - names to addresses, for what a policy has allowed already. c-ares on our loop.
 *
 * No file decides but our own reading of /etc/resolv.conf (or a given list of servers): no hosts
 * file, no search list, no environment. Each look-up has a channel of its own, and so a source port
 * of its own. Answers are kept as long as they say, within RESOLVE_TTL_MIN and _MAX; that a name
 * does not exist is kept shortly. The same name asked for by several is asked once.
 */
#include "base/err.h"
#include "base/own.h"
#include "core/address.h"
#include "io/loop.h"

#include <stdint.h>
#include <sys/queue.h>

#define RESOLVE_ADDRS_MAX 16
#define RESOLVE_TTL_MIN   1   /* s */
#define RESOLVE_TTL_MAX   300 /* s */
#define RESOLVE_CACHE_MAX 4096
#define RESOLVE_AT_ONCE   256 /* look-ups under way; more wait their turn */
#define RESOLVE_MS        8000

struct resolver;
struct lookup; /* of one name, for everyone who waits for it */

struct resolve_wait { /* embedded in who asks */
	/* From the loop; code 0, or errno: ENOENT no such name, ETIMEDOUT, EPROTO bad answer, … */
	void (*done)(struct resolve_wait *w, int code, const struct address *addrs, size_t n);
	struct lookup *lookup; /* NULL: not waiting */
	TAILQ_ENTRY(resolve_wait) link;
};

/* `servers`: "10.0.0.2,[::1]:5353", or NULL for those of /etc/resolv.conf. -EINVAL. */
int resolver_create(struct loop *l, const char *servers, struct resolver **ret, struct err *err);
struct resolver *resolver_free(struct resolver *r); /* nobody may be waiting any more */
DEFINE_AUTO(struct resolver *, resolver_free)

void resolve_start(struct resolver *r, struct resolve_wait *w, const char *name);
void resolve_cancel(struct resolve_wait *w);         /* fine if it is not waiting */
uint64_t resolver_lookups(const struct resolver *r); /* that were sent out */
