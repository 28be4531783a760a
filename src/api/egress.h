/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/egress - what the api role tells the egress role, and what it hears from it.
 *
 *   egress.c         the connection: comes back for ever; then every running sandbox is told again
 *   egress_policy.c  from a profile, a request's network part and the operator's floor to a policy
 *   egress_told.c    refusals and traffic: into the store, into events, into counters
 *   egress_ask.c     questions for people, and their answers
 *
 * The row is the truth and comes first; egress follows. While it is away nothing leaves a
 * sandbox: its connections wait until there is somebody to accept them.
 */
#include "api/sandbox.h"
#include "egress/control_link.h"

struct api_egress;

int api_egress_create(struct api *a, struct err *err);
void api_egress_free(struct api *a);
bool api_egress_is_up(const struct api *a);

/* It is up, or changed: tell now, or on the next connection. */
void api_egress_box(struct sandbox *sb);
void api_egress_gone(struct sandbox *sb);
/* When it ends has changed. */
void api_egress_info(struct sandbox *sb);

/*
 * Its new policy is in the row: `done` when nothing that it forbids is left open. Exactly one
 * call, never from inside; if egress went away meanwhile, so did all connections, and that is as
 * good.
 */
void api_egress_policy(struct sandbox *sb, void (*done)(int code, void *arg), void *arg);

/* Any other question; -ENOTCONN while there is no egress. */
int api_egress_ask(struct api *a, enum control_op op, json_t *take_body, control_answer_fn answer,
	void *arg, struct err *err);
size_t api_egress_queued(const struct api *a); /* bytes not yet taken */
void api_egress_forget(struct api *a, const void *arg);

/* ---- egress_policy.c ---- */
struct policy_wish {
	const char *profile; /* "name", "name@3"; NULL or "": the server's default */
	json_t *network;     /* E2B's object, or ours (allow, deny); or NULL */
	bool is_closed;      /* E2B's allow_internet_access: false */
	const char *tenant;
};
int api_policies_create(struct api *a, struct err *err);
void api_policies_free(struct api *a);
/* The policy that holds, floor included. -ENOENT: no such profile; -EINVAL names the field. */
int api_policy_make(
	struct api *a, const struct policy_wish *w, struct policy **ret, struct err *err);
/* One profile as it is, without the floor: of the tenant, else of the server. */
int api_policy_profile(
	struct api *a, const char *tenant, const char *which, struct policy **ret, struct err *err);

/* ---- egress_told.c ---- */
void api_told_denied(struct api *a, const json_t *body);
void api_told_allowed(struct api *a, const json_t *body);
void api_told_lost(struct api *a, const json_t *body);
/* Write what waits; before anybody reads violations. */
void api_told_settle(struct api *a);
/* The refusals of a sandbox between two times (0: any), as JSON, oldest first. */
json_t *api_told_list(struct api *a, const char *sandbox, int64_t from_ms, int64_t to_ms);

/* ---- egress_ask.c ---- */
void api_asked(struct api *a, const json_t *body);
void api_ask_over(struct api *a, const json_t *body);
/* Egress told all the asks it has: those of the store it did not tell are over. */
void api_asks_synced(struct api *a);

enum ask_scope { ASK_ONCE, ASK_SANDBOX, ASK_ALWAYS };
int api_ask_scope_parse(const char *s);
/*
 * A person has answered: durable with its event, then told. -ENOENT: no such ask of this tenant;
 * -EALREADY: over. `done` exactly once behind a success.
 */
int api_ask_answer(struct api *a, const struct api_caller *who, const char *id, bool is_allowed,
	enum ask_scope scope, void (*done)(int code, void *arg), void *arg, struct err *err);
json_t *api_ask_json(const struct store_ask *k);

/* What the counters of /metrics say of it. */
void api_egress_metrics(struct api *a, struct buf *out);
