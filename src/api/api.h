/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api - the unprivileged role: HTTP in, store, warden and guests behind it.
 *
 * One struct api per process, made by api_create() and handed to everybody. All of it runs on
 * one loop. The live sandboxes are held in memory (struct sandbox, api/sandbox.h), each with
 * its row and its link to the guest; memory is rebuilt from the store and the warden at start.
 */
#include "io/http.h"
#include "run/warden.h"
#include "store/store.h"

#include <jansson.h>

struct profile_places;
struct sandbox;
struct route_match;

struct api_config {
	const char *state;  /* directory */
	const char *domain; /* what the E2B `domain` field says; NULL: the address of the request */
	uint64_t ttl_default_ms, ttl_max_ms;                            /* 300 s; 24 h */
	uint64_t memory_max, disk_max, pids_max, cpu_milli, open_files; /* per sandbox defaults */
	unsigned sandboxes_max; /* running at once, all tenants */
	bool kill_on_exit;
	/* What a sandbox may reach unless it says, and what none may go beyond: canonical JSON.
	 * NULL: nothing; no floor. */
	const char *policy, *floor;
	const struct profile_places *places; /* of profiles that requests may name; NULL: none */
	bool webhooks_private; /* webhooks may go to addresses of this machine and its network */
	/* Each answer that is complete or broke off, for the access log; or NULL. */
	void (*access)(const struct http_request *r);
};

struct api {
	struct loop *loop;
	struct store *store;
	struct warden_client *warden;
	struct http_server *http;
	struct api_config config;
	struct api_sandboxes *sandboxes; /* api/sandbox.c */
	struct api_keys *keys;           /* api/auth.c: cache of keys, failures per address */
	struct api_counters *counters;   /* api/metrics.c */
	struct api_v1 *v1;               /* api/v1/v1.c: watches, followers, webhooks */
	struct api_egress *egress;       /* api/egress.c */
	struct http_server *local;       /* <state>/run/api.sock: uid 0 and our own need no key */
	bool is_ready; /* reconciled: requests are served; before: 503, Retry-After 1 */
	char boot_id[40];
};

/*
 * Open the store, look for the warden, make the HTTP servers. The caller then gives listening
 * sockets to a->http (and the local one to a->local) by http_listen() and runs the loop.
 * `c` and what it points to must outlive the api.
 */
int api_create(struct loop *l, const struct api_config *c, struct api **ret, struct err *err);
/* Everything but the loop. Sandboxes stay. */
struct api *api_free(struct api *a);
DEFINE_AUTO(struct api *, api_free)
/* Stop accepting, finish what is short, cut streams, with kill_on_exit end every sandbox; then
 * `done`. */
void api_drain(struct api *a, void (*done)(void *arg), void *arg);

/* The role's log: set once by the program; NULL: nowhere. `request` is an id, or "". */
extern void (*api_log_to)(const char *level, const char *request, const char *text);
void api_log(const char *level, const char *request, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Who asks. Filled by api_authenticate() from X-API-KEY or Authorization: Bearer. */
struct api_caller {
	char tenant[64];
	char actor[32]; /* "key:<prefix>" for events */
};

/* 0, or the status that was already answered (401, 429 with Retry-After). */
int api_authenticate(struct api *a, struct http_request *r, struct api_caller *ret);

/* ---- routes: one table per dialect; unknown path 404, wrong method 405 with Allow ---- */
struct route {
	const char *method;
	const char *pattern; /* "/sandboxes/{id}/timeout": {…} matches one segment */
	void (*handle)(struct api *a, struct http_request *r, const struct route_match *m);
	unsigned flags;      /* ROUTE_* */
	const char *summary; /* for OpenAPI's check */
};
enum { ROUTE_PUBLIC = 1u << 0 /* no key needed */ };

#define ROUTE_PARAMS_MAX 4
/* Valid during the handler's call: copy what an answer given later needs. */
struct route_match {
	const struct route *route;
	struct api_caller caller;           /* unless ROUTE_PUBLIC */
	char params[ROUTE_PARAMS_MAX][160]; /* percent-decoded */
	size_t params_n;
};

extern const struct route own_routes[]; /* api/server.c */
extern const struct route e2b_routes[]; /* api/e2b/routes.c, ends with method NULL */
extern const struct route v1_routes[];  /* api/v1/routes.c */

/* api/v1/v1.c: what runs beside its requests; before the store is closed. */
int v1_create(struct api *a, struct err *err);
void v1_free(struct api *a);

/*
 * Find the route of a path in a table. 0: *ret is filled, but for the caller. 404: no such path.
 * 405: other methods only, added to `allow` as "GET, POST". 400: a bad escape. Pure.
 */
int route_find(const struct route *table, struct h1_text method, struct h1_text path,
	struct route_match *ret, char *allow, size_t allow_size);

/* docs/openapi.json, by tools/embed; not NUL-terminated. */
extern const char openapi_blob[];
extern const uint64_t openapi_blob_size;

/* ---- answers (api/answer.c) ---- */
/* Takes the reference. */
void api_reply_json(struct http_request *r, int status, json_t *take_body);
/* E2B: {"code": status, "message": …}; /v1: {"error": {code, message, next, request_id}}.
 * `code` is our stable word ("not_found", "disk_full"); `next` what to do, or NULL. The dialect is
 * chosen by the request's path. */
void api_reply_error(struct http_request *r, int status, const char *code, const char *next,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* From an errno of a lower layer: the one table errno -> status and code. 5xx hide internals. */
void api_reply_err(struct http_request *r, const struct err *err);
int api_status(int code);       /* positive errno -> HTTP status */
const char *api_code(int code); /* positive errno -> "not_found" … */
/* Collect the body and parse it as a JSON object (an empty body is {}), then `done` with a
 * borrowed object; 400 and 413 are answered here, and then r->gone is called, so that what
 * r->state holds is released on every way out. */
void api_read_json(struct http_request *r, size_t cap,
	void (*done)(struct http_request *r, json_t *body, void *arg), void *arg);
/* RFC 3339 with milliseconds, UTC. */
const char *api_time(int64_t unix_ms, char out[32]);
int64_t api_now_unix_ms(void);

/* ---- the one way in (api/server.c): data plane, dialects, 404 ---- */
void api_handle(struct http_request *r, void *api);
/* Digits only, 1…65535. Pure, as the next two. */
bool api_parse_port(struct h1_text t, unsigned *ret);
/* A copy in lower case, for looking up and showing; false if it cannot be an id. */
bool api_parse_id(struct h1_text t, char ret[SANDBOX_ID_MAX]);
/* "<port>-<id>.<anything>": the id in lower case. */
bool api_host_split(struct h1_text host, unsigned *ret_port, char ret_id[SANDBOX_ID_MAX]);

/* ---- data plane (api/e2b/envd.c) and gateway (api/gateway/proxy.c) ----
 * sb is NULL if the id is unknown or not running: answer 502 as the reference says. */
void envd_handle(struct api *a, struct http_request *r, struct sandbox *sb, const char *id);
void gateway_handle(
	struct api *a, struct http_request *r, struct sandbox *sb, const char *id, unsigned port);
