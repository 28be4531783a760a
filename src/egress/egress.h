/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress - the only road out: accepts what boxes connect to, decides, dials, relays, explains.
 *
 * One engine per process: the server's `egress` role, or a child of `bawn run`. A box is a pair of
 * sockets that live in its network namespace (sys/road): identity is the socket a connection
 * arrives on. It keeps no state on disk; whoever owns it (the api role, `bawn run`) says which
 * boxes there are and what each may do, and says it again after a restart. Unprivileged, single-
 * threaded, one loop.
 */
#include "base/err.h"
#include "base/own.h"
#include "core/denial.h"
#include "core/policy.h"
#include "io/loop.h"

#include <stdint.h>

#define EGRESS_ID_MAX    32
#define EGRESS_BOXES_MAX 4096
#define EGRESS_FLOWS_MAX 16384 /* connections in all, and 3/8 of RLIMIT_NOFILE */
#define EGRESS_BOX_FLOWS 2048  /* of one box; then accept waits */
#define EGRESS_NAMES_MAX                                                                           \
	16384 /* synthetic addresses of one box; then the oldest without a connection goes */
#define EGRESS_VIOLATIONS 256  /* kept per box */
#define EGRESS_ASKS_MAX   64   /* open per box */
#define EGRESS_DESTS_MAX  1024 /* destinations counted by name per box; the rest together */

struct egress;

enum egress_ask_verdict { EGRESS_ASK_DENY, EGRESS_ASK_ONCE, EGRESS_ASK_BOX };

struct egress_ask {
	char id[24]; /* unique in the engine's life */
	char box[EGRESS_ID_MAX];
	struct denial what;  /* what is wanted: name, port, protocol, method, path, rule, reason */
	char note[512];      /* what the agent said about it (bawn.internal), or "" */
	uint64_t expires_ms; /* unix */
};

struct egress_usage {                   /* of one destination of one box, since the box was added */
	char name[POLICY_NAME_MAX + 1]; /* "" = all the ones past the cap */
	uint16_t port;
	uint64_t bytes_up, bytes_down, requests, connections, denied;
	uint64_t latency_us, latency_n; /* connect, or request to first byte: sum and number */
};

struct egress_events { /* all from the loop */
	void (*denied)(const char *box, const struct denial *d, void *arg);
	void (*asked)(const struct egress_ask *ask, void *arg);
	/* An ask is over without an answer of ours: timed out, or the connection went away. */
	void (*ask_over)(const char *id, void *arg);
	/*
	 * What was allowed, once per connection or request: for the audit trail. `d->rule` is what
	 * allowed it.
	 */
	void (*allowed)(
		const char *box, const struct denial *d, uint64_t up, uint64_t down, void *arg);
};

struct egress_config { /* borrowed for the engine's life */
	/* Key and certificate of the installation, made if missing; NULL: no intercept. */
	const char *ca_dir;
	const char *resolvers;   /* "10.0.0.2,[::1]:5353"; NULL: those of /etc/resolv.conf */
	const char *upstream_ca; /* PEM file instead of the system's store; NULL */
	/* "http://user:pass@host:port", "socks5://…"; NULL: dial directly. */
	const char *upstream_proxy;
	const char *no_proxy; /* "*.corp.example,10.0.0.0/8": dialled directly all the same; NULL */
	/* Our own listeners and the host's addresses: never dialled unless a rule names them. */
	struct address_net *own;
	size_t own_n;
};

int egress_create(struct loop *l, const struct egress_config *c, const struct egress_events *events,
	void *arg, struct egress **ret, struct err *err);
struct egress *egress_free(struct egress *e);
DEFINE_AUTO(struct egress *, egress_free)

struct egress_box_info {         /* what http://bawn.internal/ tells; copied */
	const char *limits_json; /* an object, or NULL */
	uint64_t expires_ms;     /* unix; 0 = never */
};

/*
 * Takes both descriptors, also on failure. `owner`: whose secrets it may use (tenant, or "").
 * -EEXIST, -EMFILE. The policy is referenced.
 */
int egress_box_add(struct egress *e, const char *id, const char *owner, int take_tcp, int take_dns,
	struct policy *policy, struct err *err);
/* A new generation, for everything: what is no longer allowed is cut before this returns. */
int egress_box_policy(struct egress *e, const char *id, struct policy *policy, struct err *err);
int egress_box_info(
	struct egress *e, const char *id, const struct egress_box_info *info, struct err *err);
void egress_box_remove(struct egress *e, const char *id);

/* Where the owner puts credentials. */
struct vault *egress_vault(struct egress *e);

/* -ENOENT: over already. */
int egress_answer(
	struct egress *e, const char *ask_id, enum egress_ask_verdict verdict, struct err *err);

/* Up to max destinations of a box; returns how many there are. */
size_t egress_box_usage(
	const struct egress *e, const char *id, struct egress_usage *ret, size_t max);
struct egress_totals {
	uint64_t boxes, flows, bytes_up, bytes_down, requests, connections, denied, asks;
	uint64_t minted, lookups, intercepted;
};
void egress_totals(const struct egress *e, struct egress_totals *ret);
