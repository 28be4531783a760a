/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/http_impl - what http's own files share: http.c (server, listeners, connections),
 * http_read.c (heads and bodies in), http_answer.c (answers out).
 *
 *   waiting --head--> request --answer complete, body read--> waiting
 *      |                 |------answer complete, body not----> draining --> waiting
 *      |                 |------broke off, or no keep-alive--> closed
 *      '-----------------------------------------------------> closed
 *
 * 1. At most one request of a connection is live; later ones wait in conn as bytes.
 * 2. A request leaves its connection exactly once: http_complete(), http_break_off() or
 *    http_abort(). From then on calls with it do nothing; its memory goes after the batch.
 * 3. A closed http_conn has no conn; its memory goes after the batch.
 */
#include "io/http.h"

#define HTTP_DRAIN_MAX (1u << 20) /* of an upload that was answered early */
#define HTTP_TURN      64         /* pipelined requests served before others get their turn */

enum body_mode { BODY_UNDECIDED, BODY_COLLECT, BODY_STREAM };

struct request {
	struct http_request pub; /* first: pub.head is not cleared, the rest is */
	struct http_conn *owner; /* NULL: over */
	struct request *next;    /* in the graveyard */

	enum body_mode mode;
	bool is_paused;
	bool is_patient;    /* no deadline between the bytes of the body */
	bool has_continued; /* 100 was sent */
	size_t cap;         /* BODY_COLLECT */
	struct buf collected;
	void (*done)(struct http_request *r, const char *body, size_t n, void *arg);
	const struct http_sink *sink;
	void *arg; /* of done or sink */

	struct buf fields; /* extra ones of the answer, as they are sent */
	bool is_streaming; /* begun by http_begin() */
	bool is_chunked, is_bodyless;
	bool will_close;
	bool has_length;
	uint64_t left; /* of the announced length */
	void (*drained)(struct http_request *r);

	char bytes[]; /* the head */
};

struct http_conn {
	struct http_server *server;
	struct http_listener *listener;
	struct conn *conn; /* NULL: closed */
	struct request *request;
	struct h1_body body; /* of the request, or of the last one if draining */
	struct loop_timer timer;
	uint64_t deadline_ms; /* 0 = none */
	size_t scan;
	size_t to_drop; /* draining: so many bytes more */
	bool is_draining, in_head, in_read, has_eof, is_upgraded;
	bool has_served; /* a request, at least */
	char peer[64];
	struct http_conn *next, **prev; /* of the server; then next in the graveyard */
};

struct http_listener {
	struct http_server *server;
	struct loop_watch watch;
	struct loop_timer retry; /* out of descriptors: listen again then */
	int fd;
	struct tls *tls;
	unsigned conns_n;
	struct http_listener *next;
};

struct http_times { /* ms; fixed but for the tests, which cannot wait so long */
	unsigned head, body, keep_alive, drain;
};

struct http_server {
	struct loop *loop;
	struct http_times times;
	http_handler_fn handler;
	void *arg;
	void (*log)(const struct http_request *r, void *arg);
	struct http_listener *listeners;
	struct http_conn *conns;
	unsigned conns_n, conns_max;
	bool is_draining, is_freed;
	void (*drained)(void *arg);
	void *drained_arg;

	struct loop_task reaper; /* frees what is in the graveyard, and the server if is_freed */
	struct request *dead_requests;
	struct http_conn *dead_conns;

	uint64_t serial; /* for request ids */
	uint32_t id_prefix;
	int64_t date_s;
	char date[32];
};

static inline struct request *http_request_impl(struct http_request *r)
{
	return (struct request *)r;
}

extern const struct conn_events http_conn_events;

/* 0 = no deadline. */
void http_set_deadline(struct http_conn *hc, uint64_t delay_ms);
/* Forget the connection (finished, aborted or handed on by the caller). */
void http_conn_close(struct http_conn *hc);
/* Close politely, with what is queued. */
void http_conn_finish(struct http_conn *hc);

/* The answer is all queued: on to the next request, or to the end. */
void http_complete(struct request *rq);
/* It can no longer be answered: tells sink, gone and log. The connection stays the caller's. */
void http_break_off(struct request *rq);
/* A refusal by the server itself: a small JSON body. */
void http_refuse(struct request *rq, int status, const char *message);
/* The same where there is no request to speak of; closes. */
void http_refuse_conn(struct http_conn *hc, int status, const char *message);
/* To the graveyard. */
void http_bury(struct http_server *s, struct request *rq);
