/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/intercept_impl - one connection of a box whose requests are looked at one by one.
 *
 *   HEAD --head--> decided --> COLLECT (the vault wants the body) --whole--> DIAL or FLOW
 *    ^  ^            |-------> ASK --yes--> HEAD (the same head again)
 *    |  |            |-------> DIAL --> FLOW, or HEAD (the same head, now with an address)
 *    |  '---denied---'-------> FLOW (a connection was in the pool)
 *    '-----answered----------- FLOW --101--> RAW
 *
 *   REFUSE: the next head is answered with a denial that was decided before.
 *
 * 1. A head that has to wait is left unread in the connection and read again: nothing is kept of it
 *    but what the flow knows.
 * 2. `up` is set from the moment a server is connected until the answer is complete.
 * 3. A byte of a body is in one queue at a time, each of them bounded by WINDOW: whoever is
 *    fast waits.
 * 4. In GONE only the memory is left; every callback ends there at once.
 */
#include "egress/echo.h"
#include "egress/egress_impl.h"
#include "egress/heads.h"
#include "egress/pool.h"

#define IC_WINDOW      (64u << 10) /* queued towards either side before the other waits */
#define IC_HEAD_WINDOW (16u << 10) /* while nothing but a head is expected */
#define IC_HEAD_MS     10000       /* for a whole head, the handshake included */
#define IC_KEEP_MS     75000       /* between requests */
#define IC_LAST_MS     1000        /* the client sends no more than what is here */
#define IC_COLLECT_MS  60000       /* without a byte of a body that is wanted whole */
#define IC_SHAKE_MS    15000       /* for the server's handshake */
#define IC_ANSWER_MS   600000      /* for the first byte of an answer: models think */
#define IC_ANSWER_HEAD 30000       /* from there to the end of its head */
#define IC_STALL_MS    600000      /* nothing moves */
#define IC_INTERIMS    16          /* 1xx before a final answer */
#define IC_LOOKUPS     3           /* connections for one head, to learn the address */
#define IC_INSIDE_BODY (64u << 10)

enum ic_phase { IC_HEAD, IC_ASK, IC_COLLECT, IC_DIAL, IC_FLOW, IC_RAW, IC_REFUSE, IC_GONE };

struct ic_request { /* the one under way */
	char method[40];
	char *path;  /* as sent, without query; owned */
	char *plain; /* as servers may read it, if that differs; owned */
	struct heads_client client;
	bool is_json; /* a denial is to be JSON */
	bool keep_alive;
	bool is_websocket, is_inside;
	bool expects_continue;

	struct h1_body up; /* as it comes from the box */
	struct buf up_trailers;
	struct vault_scan scan;
	struct buf raw;  /* COLLECT: its head, as it came */
	struct buf body; /* COLLECT: what came; then what is sent */
	struct buf out;  /* head to be sent; kept while it may have to be sent again */
	bool has_sent_body;
	bool is_second_try;

	bool is_answered; /* a final head went to the box */
	bool has_byte;    /* of an answer */
	bool up_goes_on;  /* the server keeps the connection */
	struct h1_body down;
	bool is_down_chunked; /* as it goes to the box */
	struct buf down_trailers;
	struct echo echo; /* what the box must not learn from the answer */
	unsigned interims;
	uint64_t sent_us;        /* monotonic */
	uint64_t up_at, down_at; /* of the flow, when it began */
};

struct ws_walk { /* where in the frames of a WebSocket */
	uint8_t head[14];
	unsigned head_n, head_size; /* size 0: not known yet */
	uint64_t left;              /* of the payload */
	uint64_t at;                /* in the payload: picks the mask's byte */
	uint8_t mask[4];
};

struct intercept {
	struct egress_flow flow; /* first */
	enum ic_phase phase;
	struct conn *client; /* NULL: finished or dead */
	bool is_tls, is_proxy;
	bool is_approved; /* the head that is offered again was allowed by a person */
	bool is_lookup;   /* DIAL: only to learn the address */
	bool is_client_at_eof;
	bool is_up_blocked;   /* the client is paused until the server takes more */
	bool is_down_blocked; /* the other way round */
	unsigned lookups;     /* for the head that is offered again */
	size_t scan, up_scan; /* of h1_head_end() */
	struct ic_request req;
	struct upstream *up;
	struct ask ask;
	struct dial dial;
	struct denial *refusal; /* REFUSE; owned */
	struct ws_walk ws;
	struct loop_timer timer;
	uint64_t moved_ms;
	struct loop_task end;
};

/* intercept.c */
void ic_gone(struct intercept *ic);              /* the client is finished or dead */
void ic_wait(struct intercept *ic, uint64_t ms); /* for what the phase waits for */
void ic_moved(struct intercept *ic);             /* something came or went */
void ic_next(struct intercept *ic);              /* the answer is complete: next head, or the end */
void ic_abort(struct intercept *ic);             /* nothing can be told any more */
struct loop *ic_loop(const struct intercept *ic);

/* intercept_request.c: each returns how many bytes it took; 0: wait. */
size_t ic_take_head(struct intercept *ic, const char *p, size_t n);
size_t ic_take_body(struct intercept *ic, const char *p, size_t n);
/* A decision under the policy of now about the request under way. */
void ic_decide(struct intercept *ic, struct policy_answer *ret);
void ic_request_done(struct ic_request *q);
struct heads_goal ic_goal(const struct intercept *ic);

/* intercept_judge.c: between decision and server: person, budget, vault. */
size_t ic_judge(struct intercept *ic, const struct h1_head *h, const char *raw, size_t n);
void ic_collected(struct intercept *ic);

/* intercept_answer.c: our own words to the client. */
/* `status` 0: that of the kind; `why` NULL: the rule's or the kind's words. Records it. */
void ic_deny(struct intercept *ic, enum denial_kind kind, int status, const char *why);
/* Without recording it. */
void ic_tell(struct intercept *ic, const struct denial *d, int status);
void ic_inside(struct intercept *ic, const struct h1_head *h);

/* intercept_upstream.c */
void ic_connect(struct intercept *ic); /* a connection, then req.out goes out; or is_lookup */
extern const struct conn_events ic_up_events;

/* Bytes of an answer, past the echo watch, into *ret. False: it was answered, or broken off. */
bool ic_unheard(struct intercept *ic, const char *p, size_t n, struct buf *ret);

/* intercept_ws.c */
void ic_raw_begin(struct intercept *ic);
size_t ic_raw_up(struct intercept *ic, const char *p, size_t n);
size_t ic_raw_down(struct intercept *ic, const char *p, size_t n);
/* ws_scan.c: true as soon as a placeholder is in the payload of a frame; walks over the rest. */
bool ws_scan(struct ws_walk *w, struct vault_scan *scan, const char *p, size_t n);
