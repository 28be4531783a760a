/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/remote/client - the command line's way to a server: HTTP/1.1 requests on one loop.
 *
 * Every request has a connection of its own. client_call() waits for a whole answer;
 * client_start() streams both ways. The server is found by --server, $BAWN_SERVER,
 * $E2B_API_URL, else the socket <state>/run/api.sock, where the server's own user and root
 * need no key.
 */
#include "cli/remote/args.h"
#include "io/conn.h"
#include "io/h1.h"

#include <jansson.h>

struct client;

int client_open(const struct args *a, struct client **ret, struct err *err);
struct client *client_close(struct client *c);
DEFINE_AUTO(struct client *, client_close)

struct loop *client_loop(struct client *c);
/* "http://127.0.0.1:7070"; for a socket file the first address of the server behind it. */
const char *client_url(struct client *c);

/* What the answer to a request is handed to. Any of them may be NULL but `end`. */
struct client_events {
	void (*head)(void *arg, int status, const struct h1_head *head);
	void (*data)(void *arg, const char *p, size_t n);
	void (*drained)(void *arg); /* more of the request's body may be written */
	/* Once; err->code 0: the answer is whole. The stream is gone when this returns. */
	void (*end)(void *arg, const struct err *err);
};

struct client_request {
	const char *method, *path;
	const char *const *fields; /* "Name: value", ended by NULL; or NULL */
	const char *type;          /* of the body, or NULL */
	const void *body;          /* whole; or NULL */
	size_t body_n;
	bool is_streaming; /* the body follows by client_write(), client_finish() */
};

struct client_stream;
int client_start(struct client *c, const struct client_request *r, const struct client_events *e,
	void *arg, struct client_stream **ret, struct err *err);
void client_write(struct client_stream *s, const void *p, size_t n); /* one chunk */
size_t client_queued(const struct client_stream *s);
void client_finish(struct client_stream *s); /* of the body */
void client_pause(struct client_stream *s);
void client_resume(struct client_stream *s);
/* Break off; no event follows. */
void client_drop(struct client_stream *s);

/*
 * Ask and wait. An answer that is not 2xx is an error with the server's own sentence; *ret_status
 * (may be NULL) tells which. *ret (may be NULL): the JSON of the answer, NULL if it had none.
 */
int client_call(struct client *c, const struct client_request *r, int *ret_status, json_t **ret,
	struct err *err);
/* The same with a JSON body, or none. Takes the reference. */
int client_json(struct client *c, const char *method, const char *path, json_t *take_body,
	json_t **ret, struct err *err);

/* Set err from the body of an answer that is an error. Returns < 0. */
int client_refused(int status, const char *body, size_t n, struct err *err);

/* A text of the server's, cut and made safe for a terminal. Returns out. */
const char *client_clean(const char *s, char *out, size_t size);

/* A connection to the server that is not ours to speak on: for forwarding. */
int client_connect(struct client *c, const struct conn_events *events, void *arg, struct conn **ret,
	struct err *err);

/* Percent-encode for a path segment or a query value; the caller frees. */
char *client_escape(const char *s);

/* ---- one sandbox ---- */
struct client_box {
	char *id;
	char *name; /* "" */
	char *token;
	char fields_id[80], fields_port[40], fields_token[120]; /* "E2b-Sandbox-Id: …" */
	json_t *detail;                                         /* of GET /v1/sandboxes/{id} */
};
/* By name, id or unique prefix; one that ended by its id. */
int client_box_find(struct client *c, const char *which, struct client_box *ret, struct err *err);
/* The same; -ESRCH if it does not run. */
int client_box_live(struct client *c, const char *which, struct client_box *ret, struct err *err);
void client_box_done(struct client_box *b);
/* The fields that lead to its data plane, and one more ("" = none); fills out[5]. */
void client_box_fields(const struct client_box *b, const char *more, const char *out[6]);
/* A unary RPC on its data plane, as `user` (NULL = the default one). */
int client_box_rpc(struct client *c, const struct client_box *b, const char *method,
	json_t *take_body, json_t **ret, struct err *err);
