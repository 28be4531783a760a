/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/call - one request to the E2B control plane while it is answered, and its helpers.
 *
 * A call lives on the heap from its handler until its answer. While the body is read, a client
 * that goes away frees it; once something was asked of others (call_busy) it only loses its
 * request, and who answers frees it with call_free().
 */
#include "api/sandbox.h"

struct e2b_call {
	struct api *api;
	struct http_request *r; /* NULL: the client has gone */
	struct api_caller who;
	char id[SANDBOX_ID_MAX]; /* of the path; "" if it has none */
	bool is_v2;
	bool is_busy;
};

/* Takes the request over. */
struct e2b_call *call_create(
	struct api *a, struct http_request *r, const struct route_match *m, bool is_v2);
struct e2b_call *call_free(struct e2b_call *c);
void call_busy(struct e2b_call *c);

/* Answer, if the client is still there, and free the call. */
void call_reply(struct e2b_call *c, int status, json_t *take_body); /* NULL: no body */
void call_reply_err(struct e2b_call *c, const struct err *err);

/* The caller's live sandbox of exactly this id; else NULL, whether it is another's or nobody's. */
struct sandbox *e2b_find(struct api *a, const char *tenant, const char *id);
/* The 404 for it. */
void e2b_not_found(struct http_request *r, const char *id);

/* ---- fields of a body: absent and null are 0 and leave *ret alone; 1 if it was there ---- */
int field_string(json_t *body, const char *name, const char **ret, struct err *err);
int field_bool(json_t *body, const char *name, bool *ret, struct err *err);
int field_integer(json_t *body, const char *name, int64_t *ret, struct err *err);
int field_object(json_t *body, const char *name, json_t **ret, struct err *err);
/* An array of strings. */
int field_strings(json_t *body, const char *name, json_t **ret, struct err *err);
/* Seconds of life, as ms: 1 … the server's most. */
int field_timeout(struct api *a, json_t *body, const char *name, uint64_t *ret_ms, struct err *err);
