/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/egress_impl - what the files of this directory share.
 *
 *   accept (box.c) -> flow.c: peek, find name and protocol, decide
 *        |-- pass.c       dial, relay bytes (splice)
 *        |-- intercept*.c TLS ended here or plain HTTP: each request decided by itself
 *        |-- explicit.c   CONNECT, absolute-form HTTP, SOCKS5; then as above with what they named
 *        |-- inside.c     http://bawn.internal/
 *        '-- refuse.c     403 where it is HTTP (also inside TLS), else a reset
 *   datagram (box.c) -> stub.c: names to synthetic addresses, never a look-up
 *   dial.c: resolve once (resolve.c), judge every address, connect to that very one
 *
 * Rules: a flow belongs to one box and one generation of its policy; all that waits (ask, dial)
 * holds the flow and is told when it is cut. Nothing a box or an upstream sends is trusted or
 * unbounded.
 */
#include "egress/egress.h"
#include "egress/vault.h"
#include "io/conn.h"

#include <string.h>
#include <sys/queue.h>

#define EGRESS_INTERNAL "bawn.internal"

struct resolver; /* resolve.h: names to addresses */
struct chain;    /* chain.h: the upstream proxy */
struct pipes;    /* pipes.h: those not in use */
struct mint;     /* mint.h */
struct pool;     /* pool.c: idle upstream connections, per box */
struct name_map; /* names.c: synthetic addresses of a box */

struct egress {
	struct loop *loop;
	struct egress_config config;
	struct egress_events events;
	void *arg;
	struct resolver *resolver;
	struct chain *chain; /* NULL: dial directly */
	struct pipes *pipes;
	struct loop_task bury;
	struct mint *mint; /* NULL: no CA, no intercept */
	struct tls *upstream_tls;
	struct vault *vault;
	TAILQ_HEAD(egress_box_list, egress_box) boxes;
	size_t boxes_n, flows_n, flows_max;
	struct egress_totals totals;
	uint64_t serial, ask_prefix; /* of asks; the prefix differs in each life */
};

struct egress_flow; /* below */
struct ask;
struct name_entry;

/* What a person allowed for the rest of the box's life. */
struct standing_yes {
	char name[POLICY_NAME_MAX + 1];
	uint16_t port;
	char protocol[8], method[16], path[256];
	/* Asked for in words: name and port, any protocol, and methods as a list. No path. */
	bool is_grant;
};

struct budget_state { /* of one rule, or of the whole policy; kept across generations by rule id */
	char rule[96];
	uint64_t bytes_up, bytes_down, requests;
	uint64_t since_ms; /* monotonic */
};

struct violation_record {
	struct denial d;
	uint64_t told_ms; /* monotonic: when the owner was last told */
};

struct egress_box {
	struct egress *engine;
	char id[EGRESS_ID_MAX];
	char owner[64];
	struct policy *policy;
	uint64_t generation;
	struct loop_watch tcp, dns;
	struct loop_timer retry; /* accept again: descriptors were short */
	struct loop_task bury;
	struct name_map *names;
	struct pool *pool; /* made by intercept when first needed; box.c frees it */
	TAILQ_HEAD(egress_flow_list, egress_flow) flows;
	size_t flows_n;
	struct budget_state *budgets;
	size_t budgets_n;
	struct violation_record *violations; /* EGRESS_VIOLATIONS at most, identical ones counted */
	size_t violations_n;
	struct egress_usage *dests;
	size_t dests_n;
	TAILQ_HEAD(ask_list, ask) asks;
	size_t asks_n;
	struct standing_yes *standing;
	size_t standing_n;
	struct buf limits_json;
	uint64_t expires_ms;
	bool is_gone;
	bool wants_program; /* a rule of the policy names programs */
	TAILQ_ENTRY(egress_box) link;
};

/* The part every kind of connection has; embedded first in its own struct. */
struct egress_flow {
	struct egress_box *box;
	/* What it is about, as far as known. */
	char name[POLICY_NAME_MAX + 1]; /* "" = a bare address */
	struct address addr;            /* bare address, or the one dialled */
	uint16_t port;
	unsigned protocol;
	const struct policy_rule *rule; /* that allowed it; of the box's current policy, or NULL */
	struct address peer;            /* the box's end, to find the program */
	uint16_t peer_port;
	char program[256]; /* "" = not looked up, "?" = nobody knows */
	uint64_t up, down;
	size_t dest;             /* where in box->dests it was last; kept by account.c */
	struct name_entry *held; /* keeps the name's synthetic address; kept by flow_add() */
	/* Stop at once: called on cut, on the box's end and at shutdown; must call flow_done(). */
	void (*cut)(struct egress_flow *f);
	/*
	 * Is it still allowed under the box's policy of now? NULL: flow_decide() with what is known
	 * here. An intercepted connection asks for the request under way. Sets f->rule.
	 */
	bool (*still_allowed)(struct egress_flow *f);
	TAILQ_ENTRY(egress_flow) link;
};

/* box.c */
void flow_add(struct egress_flow *f, struct egress_box *b);
/* Counts it, frees its place. The owner frees the memory by loop_defer(). */
void flow_done(struct egress_flow *f);
/*
 * With what is known of f, plus method and path (NULL = unknown). Never POLICY_NEEDS_ADDRESS: the
 * address is judged when it is dialled.
 */
void flow_decide(const struct egress_flow *f, const char *method, const char *path,
	struct policy_answer *ret);
/* name, addr, port, peer of a target into a zeroed flow. */
struct flow_target;
void flow_aim(struct egress_flow *f, const struct flow_target *t);
/* The other way round; is_tls and is_proxy are the caller's to know. */
void flow_retarget(const struct egress_flow *f, struct flow_target *ret);
/* A synthetic address becomes the name it stands for. */
void target_unmask(struct egress_box *b, struct flow_target *t);
/* For policy_question.program. */
static inline const char *flow_program(const struct egress_flow *f)
{
	if (!f->program[0])
		return NULL;
	return strcmp(f->program, "?") == 0 ? "" : f->program;
}
struct egress_box *box_find(const struct egress *e, const char *id); /* or NULL */

/* flow.c: a connection was accepted, or a proxy's client named its target. */
void flow_start(struct egress_box *b, int take_fd, const struct flow_target *t);
/* explicit.c: a connection to the proxy's own address. */
void explicit_start(struct egress_box *b, int take_fd, const struct flow_target *t);
/* stub.c: datagrams are waiting. */
void stub_ready(struct egress_box *b);

/* account.c */
/* Charge and check; false: the rule's or the policy's budget is used up (DENIAL_BUDGET). */
bool account_bytes(struct egress_flow *f, uint64_t up, uint64_t down);
bool account_request(struct egress_flow *f); /* also one new connection passed through */
void account_latency(struct egress_flow *f, uint64_t us);
/* How many bytes the budgets still give to one direction; UINT64_MAX: no limit. */
uint64_t account_left(struct egress_flow *f, bool is_up);
/* Tells the owner what went through: once per connection passed on, or per request. */
void account_allowed(
	struct egress_flow *f, const char *method, const char *path, uint64_t up, uint64_t down);
/* Index into b->dests, made if there is none; past the cap that of the rest. */
size_t account_dest(struct egress_box *b, const char *name, uint16_t port);
/* The state of one budget as of now, or NULL if it limits nothing. `rule` "" is the policy's. */
struct budget_state *account_budget(
	struct egress_box *b, const struct policy_budget *g, const char *rule);
/* Of the flow's destination; never NULL. */
struct egress_usage *account_usage(struct egress_flow *f);
/* Fill a denial from the flow; `why` NULL: the rule's reason or the kind's sentence. */
void denial_fill(struct denial *d, enum denial_kind kind, const struct egress_flow *f,
	const char *method, const char *path, const char *why);
/* Record, count, tell the owner. */
void violation_note(struct egress_box *b, const struct denial *d);

/* ask.c: hold until somebody answers. */
struct ask {
	struct egress_ask pub;
	struct egress_box *box;
	struct loop_timer timer;
	/* Called exactly once, from the loop, unless cancelled. */
	void (*answered)(struct ask *a, bool is_allowed);
	TAILQ_ENTRY(ask) link;
};
/*
 * Embedded in the asker. -EMFILE past the cap: deny. A standing yes for this box answers, from the
 * loop.
 */
int ask_start(struct ask *a, struct egress_flow *f, const struct denial *what, struct err *err);
void ask_cancel(struct ask *a); /* fine if it is over */
/* A request in words (bawn.internal): nobody waits. `id` is "" if it was granted before. */
int ask_note(struct egress_box *b, const struct denial *what, const char *note, char id[24],
	struct err *err);
/* A grant turns "no rule" into a yes; never a rule's no, never the floor's. */
void ask_grant(const struct egress_flow *f, const char *method, struct policy_answer *a);
bool ask_is_granted(const struct egress_box *b, const char *name); /* for some port */
void ask_forget_box(struct egress_box *b);

/* dial.c: look up, judge, connect; also through the upstream proxy. */
struct dial {
	struct egress_flow *flow;
	const char *name; /* of the flow, or NULL: flow->addr */
	uint16_t port;
	const char *method, *path; /* of the request it is for; NULL: passed on without a look */
	/*
	 * From the loop only. fd >= 0 is the caller's, connected; flow->addr is where. Else kind
	 * and why.
	 */
	void (*done)(struct dial *d, int fd, enum denial_kind kind, const char *why);
	void *impl;
};
void dial_start(struct dial *d);
void dial_cancel(struct dial *d);

/*
 * Where a flow goes once its name, port and protocol are known; who gets it takes the descriptor
 * and the flow's place.
 */
struct flow_target {
	char name[POLICY_NAME_MAX + 1];
	struct address addr;
	uint16_t port;
	struct address peer;
	uint16_t peer_port;
	char program[256]; /* as in the flow */
	bool is_tls;
	bool is_proxy; /* plain HTTP that came by absolute-form: each request names its own host */
};
/* pass.c: the bytes still unread in the socket are the first to be relayed. */
void pass_start(struct egress_box *b, int take_fd, const struct flow_target *t,
	const struct policy_answer *why);
/* intercept.c: is_tls: a ClientHello is waiting in the socket; else an HTTP head is. */
void intercept_start(struct egress_box *b, int take_fd, const struct flow_target *t);
/* End the handshake if is_tls, read one head, answer it with the denial, close. Records nothing. */
void intercept_refuse(
	struct egress_box *b, int take_fd, const struct flow_target *t, const struct denial *d);
/* pool.c: made by intercept, ended with the box. NULL is fine; returns NULL. */
struct pool *pool_free(struct pool *p);
/* refuse.c: is_http or is_tls: tell it by a 403; else reset. Records the violation itself. */
void refuse_start(struct egress_box *b, int take_fd, const struct flow_target *t, bool is_http,
	const struct denial *d);
/* refuse.c: a whole HTTP/1.1 answer. `accept` is the request's field, or NULL; close is said. */
void refuse_format(
	const struct denial *d, const char *accept, size_t accept_n, bool is_head, struct buf *out);
/* inside.c: answer one request for bawn.internal (any path); the caller owns the connection. */
struct inside_answer {
	int status;
	const char *type;
	struct buf body;
};
void inside_answer(struct egress_flow *f, const char *method, const char *path, const char *body,
	size_t body_n, const char *accept, struct inside_answer *ret);
