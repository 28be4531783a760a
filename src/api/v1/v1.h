/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/v1 - our own dialect: what its files share.
 *
 * A handler that answers at once needs nothing of this. One that reads a body or asks a guest
 * keeps its request in a struct ask, which also is r->state: ask_new() in the handler, then
 * ask_json() or ask_guest(), and in the end exactly one answer, after which the ask is gone.
 * A client that goes away first takes the ask with it.
 */
#include "api/sandbox.h"

#define V1_BODY_MAX (512u << 10)

struct ask {
	struct api *api;
	struct http_request *r; /* NULL: answered, or the client went */
	struct api_caller who;
	char params[2][160];

	/* ask_json() */
	void (*with_body)(struct ask *k, json_t *body);

	/* ask_guest() */
	struct sandbox *sb; /* while waiting for its link; NULL otherwise */
	struct mux_channel ch;
	struct loop_timer patience; /* gives a silent guest up */
	uint16_t kind;
	struct frame_writer body;
	/* A message of the guest; false: malformed, or too much. */
	bool (*message)(struct ask *k, uint16_t kind, struct frame_reader *b);
	/* err is NULL if all went well. Answers; the ask is freed afterwards. */
	void (*done)(struct ask *k, const struct err *err);

	json_t *answer;    /* made on the way; owned */
	size_t size;       /* of it, for a cap */
	struct buf data;   /* to be sent behind the request, by ask_guest_data() */
	bool is_too_large; /* said by `message` when it returns false for that reason */
	bool is_finishing;
};

/* A request that will be answered later. */
struct ask *ask_new(struct api *a, struct http_request *r, const struct route_match *m);
/* Read the body as a JSON object, then `with_body`; a bad one is answered here. */
void ask_json(struct ask *k, void (*with_body)(struct ask *k, json_t *body));
/*
 * One question to the guest of sb; k->body holds its fields. k->message may be NULL where the
 * answer is MSG_OK alone. What k->data holds is sent as DATA.
 */
void ask_guest(struct ask *k, struct sandbox *sb, uint16_t kind,
	bool (*message)(struct ask *k, uint16_t kind, struct frame_reader *b),
	void (*done)(struct ask *k, const struct err *err));
/* The ask ends here: forget it and return the request, to be answered by the caller. */
struct http_request *ask_take(struct ask *k);
/* The usual ends. */
void ask_reply(struct ask *k, int status, json_t *take_body);
void ask_fail(struct ask *k, const struct err *err);
/* A `done` that answers k->answer with 200, or 204 if there is none. */
void ask_answer(struct ask *k, const struct err *err);

/* The caller's running sandbox that the path names; NULL: 404 was answered. */
struct sandbox *v1_sandbox(
	struct api *a, struct http_request *r, const struct api_caller *who, const char *which);

/* The same of an ask, by its first parameter; NULL: answered, and the ask is gone. */
struct sandbox *ask_sandbox(struct ask *k);

/* ---- fields of a body (fields.c): -EINVAL names the field ---- */
/* No field but those of `names` (NULL-terminated). */
int v1_fields(json_t *body, const char *const *names, struct err *err);
/* Absent or null leaves *ret as it is. */
int v1_get_u64(json_t *o, const char *name, uint64_t max, uint64_t *ret, struct err *err);
int v1_get_bool(json_t *o, const char *name, bool *ret, struct err *err);
int v1_get_string(json_t *o, const char *name, size_t max, const char **ret, struct err *err);
/* An object whose values are strings; borrowed. */
int v1_get_strings(json_t *o, const char *name, json_t **ret, struct err *err);
int v1_get_object(json_t *o, const char *name, json_t **ret, struct err *err);

/* A query parameter, unescaped; `fallback` if absent. false: too long or malformed. */
bool v1_query(const struct http_request *r, const char *name, const char *fallback, char *out,
	size_t size);
int v1_query_u64(const struct http_request *r, const char *name, uint64_t max, uint64_t *ret,
	struct err *err);
/* What the client would rather have: the first of `types` that Accept names; 0 if none. */
size_t v1_accepts(const struct http_request *r, const char *const *types);

/* ---- shapes (shape.c) ---- */
json_t *v1_time(int64_t unix_ms); /* RFC 3339; null for 0 */
json_t *v1_text(const char *s);   /* bytes that are not UTF-8 become '?' */
json_t *v1_sandbox_json(const struct store_sandbox *row, bool with_secrets);
json_t *v1_entry_json(const struct guest_entry *e);
json_t *v1_event_json(const struct store_event *e);
/* A row of this tenant, live or ended; -ENOENT. */
int v1_row(struct api *a, const struct api_caller *who, const char *which,
	struct store_sandbox *ret, struct err *err);

/* ---- what runs beside requests (v1.c): watches of execs, followers of events, webhooks ---- */
struct api_v1 {
	struct api *api;
	struct run *runs;           /* exec.c: every exec somebody watches */
	struct follower *followers; /* events.c */
	struct loop_timer tick;
	uint64_t rescan_ms; /* loop time of the next look for execs without a watch; 0 = none */
	size_t rescan_skip; /* open execs to pass over next time: they had their turn */
	int64_t seen;       /* number of the last event told to followers */
	struct webhooks *webhooks;
	size_t held; /* bytes of output kept for answers that wait, of all runs */
};
void v1_rescan_in(struct api *a, uint64_t delay_ms);
/* Called by v1.c on its tick. */
void v1_exec_rescan(struct api *a);
void v1_events_tick(struct api *a);
void v1_execs_free(struct api *a);
void v1_events_free(struct api *a);
int v1_webhooks_create(struct api *a, struct err *err);
void v1_webhooks_tick(struct api *a);
void v1_webhooks_free(struct api *a);

/* network.c: fields of the network part, ours and E2B's. */
int v1_network_check(json_t *network, struct err *err);

/* ---- handlers, by file ---- */
#define V1_HANDLER(name)                                                                           \
	void v1_##name(struct api *a, struct http_request *r, const struct route_match *m);
V1_HANDLER(capabilities)
V1_HANDLER(whoami)
V1_HANDLER(sandbox_create)
V1_HANDLER(sandbox_list)
V1_HANDLER(sandbox_get)
V1_HANDLER(sandbox_delete)
V1_HANDLER(sandbox_timeout)
V1_HANDLER(sandbox_labels)
V1_HANDLER(sandbox_walls)
V1_HANDLER(sandbox_explain)
V1_HANDLER(sandbox_recover)
V1_HANDLER(sandbox_metrics)
V1_HANDLER(sandbox_logs)
V1_HANDLER(sandbox_violations)
V1_HANDLER(network_get)
V1_HANDLER(network_change)
V1_HANDLER(ask_list)
V1_HANDLER(ask_get)
V1_HANDLER(ask_answer)
V1_HANDLER(profile_list)
V1_HANDLER(profile_get)
V1_HANDLER(profile_put)
V1_HANDLER(exec_start)
V1_HANDLER(exec_list)
V1_HANDLER(exec_get)
V1_HANDLER(exec_output)
V1_HANDLER(exec_input)
V1_HANDLER(exec_signal)
V1_HANDLER(exec_resize)
V1_HANDLER(file_get)
V1_HANDLER(file_put)
V1_HANDLER(file_remove)
V1_HANDLER(file_list)
V1_HANDLER(file_stat)
V1_HANDLER(file_move)
V1_HANDLER(file_mkdir)
V1_HANDLER(port_get)
V1_HANDLER(events)
V1_HANDLER(webhook_list)
V1_HANDLER(webhook_create)
V1_HANDLER(webhook_get)
V1_HANDLER(webhook_change)
V1_HANDLER(webhook_remove)
V1_HANDLER(secret_list)
V1_HANDLER(secret_get)
V1_HANDLER(secret_put)
V1_HANDLER(secret_remove)
V1_HANDLER(key_list)
V1_HANDLER(key_create)
V1_HANDLER(key_revoke)
#undef V1_HANDLER
