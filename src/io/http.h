/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/http - the server side of HTTP/1.1 over conn: requests to a handler, answers back.
 *
 * Every request is routed by itself; requests on one connection are served in order, the next
 * one starts when the answer to the last is complete. An http_request lives from the handler's
 * call until its answer is complete, or until its `gone` callback returns, whichever is first.
 * Whoever answers later than in the handler sets `gone`, and forgets the request there; calls
 * made inside `gone` do nothing. `gone` also comes when http_collect() refuses the body (413, 400,
 * 408), perhaps before it returns; `done` is not called then.
 *
 *   handler(r)                    the head is there: look at r->head, then exactly one of
 *     http_reply(r, …)            a whole answer, now or later
 *     http_collect(r, cap, done)  the body first, whole (413 past cap, 400 if malformed: by
 *                                 itself); calls `done` at once if there is no body
 *     http_stream_body(r, sink)   the body as it comes, with backpressure
 *     http_begin(r, …)            an answer that streams: http_write()…, http_end()
 *     http_upgrade(r)             101 was queued by the caller: raw bytes from here on
 *
 * Deadlines: 10 s for a head, 120 s idle between body bytes, 650 s keep-alive, none on an
 * answer that streams. Caps: H1_HEAD_MAX; connections per listener and per server.
 */
#include "io/conn.h"
#include "io/h1.h"

#include <stdbool.h>
#include <stdint.h>

#define HTTP_CONNS_MAX          20000 /* per server, and 3/4 of RLIMIT_NOFILE; then they wait */
#define HTTP_LISTENER_CONNS_MAX 16384

struct http_server;
struct http_request;

typedef void (*http_handler_fn)(struct http_request *r, void *arg);

struct http_sink {
	/* Payload bytes; all are taken. Call http_pause_body(r) to get no more for now. */
	void (*data)(struct http_request *r, const char *p, size_t n, void *arg);
	/* is_whole false: it broke off (client gone or malformed); `gone` follows. */
	void (*end)(struct http_request *r, bool is_whole, void *arg);
};

struct http_request {
	struct h1_head head;  /* points into memory owned by the request */
	struct h1_text path;  /* target before '?', still percent-encoded */
	struct h1_text query; /* behind '?', may be empty */
	struct h1_text host;  /* Host without port; empty if none */
	char id[24];          /* request id for logs and errors */
	char peer[64];        /* address for logs and rate limits; "unix:<uid>" */
	uint64_t started_ms;
	int status; /* of the answer; 0 = not begun */
	bool is_tls;
	/* For the handler: per-request state, and what to do if the client goes away first. */
	void *state;
	void (*gone)(struct http_request *r);
};

int http_server_create(struct loop *l, http_handler_fn handler, void *arg, struct http_server **ret,
	struct err *err);
struct http_server *http_server_free(struct http_server *s);
DEFINE_AUTO(struct http_server *, http_server_free)

/* Serve what connects to this listening socket (TCP or unix). Takes the descriptor. */
int http_listen(struct http_server *s, int take_fd, struct tls *tls, struct err *err);
/* Stop accepting; finish what is running; then call `done`. */
void http_drain(struct http_server *s, void (*done)(void *arg), void *arg);
/* Called when an answer is complete or broke off, for access logs and counters. */
void http_set_log(struct http_server *s, void (*log)(const struct http_request *r, void *arg));

void http_collect(struct http_request *r, size_t cap,
	void (*done)(struct http_request *r, const char *body, size_t n, void *arg), void *arg);
void http_stream_body(struct http_request *r, const struct http_sink *sink, void *arg);
/* The body is a conversation: it may be quiet for as long as it likes (TCP notices the dead). */
void http_patient_body(struct http_request *r);
void http_pause_body(struct http_request *r);
void http_resume_body(struct http_request *r);
/* An answer given before the body ended is fine: up to a MiB of the rest is read and dropped. */

/* Extra answer fields; call before http_reply() or http_begin(). Bad bytes are refused (assert). */
void http_field(struct http_request *r, const char *name, const char *value);
void http_field_text(struct http_request *r, struct h1_text name, struct h1_text value);
void http_reply(struct http_request *r, int status, const char *type, const void *body, size_t n);
/* length < 0: chunked (HTTP/1.0: until close). type may be NULL. */
void http_begin(struct http_request *r, int status, const char *type, int64_t length);
void http_write(struct http_request *r, const void *p, size_t n);
/* The client has gone, whether or not `gone` was called yet: asked before what cannot be undone. */
bool http_is_broken(const struct http_request *r);
size_t http_queued(const struct http_request *r); /* stop writing above CONN_HIGH */
/* Called each time the queue drained; arg is r->state's owner's business. */
void http_set_drained(struct http_request *r, void (*drained)(struct http_request *r));
void http_end(struct http_request *r);
/* Break off: the client sees an incomplete answer (RST). */
void http_abort(struct http_request *r);
/* After a 101 was sent with http_begin(101)/http_field(): the connection becomes the caller's. */
struct conn *http_upgrade(struct http_request *r, const struct conn_events *events, void *arg);
