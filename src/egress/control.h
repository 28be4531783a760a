/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/control - what the owner of boxes (the api role, `bawn run`) and the egress role say to
 * each other.
 *
 * A unix stream socket; each message is four bytes of length (little endian) and a JSON object:
 *
 *   question   {"op": …, "n": 7, "body": {…}}
 *   answer     {"op": …, "n": 7, "code": 0, "error": "…", "body": {…}}   code: errno
 *   event      {"op": …, "n": 0, "body": {…}}                            from egress, unasked
 *
 * The owner knows everything and says it again on each new connection: the boxes, then
 * CONTROL_SYNC, by which every box not named since is gone. Until then egress goes on with what
 * it has. Events wait while nobody reads, but for a bound: the oldest go, and CONTROL_LOST says
 * how many. Both programs link this. Pure: no I/O; what the other side sent is checked field by
 * field.
 */
#include "base/err.h"
#include "egress/egress.h"
#include "io/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define CONTROL_MAX    (1u << 20) /* bytes of one message */
#define CONTROL_HEADER 4

enum control_op {
	CONTROL_BOX,  /* control_box: this box is there; known already: as POLICY and INFO. Answered
			   when it has its road */
	CONTROL_SYNC, /* {}: those were all */
	CONTROL_GONE, /* {id}: cut everything; its last events come before the answer */
	CONTROL_POLICY, /* {id, policy}: answered when all that is no longer allowed is cut */
	CONTROL_INFO,   /* {id, limits, expires_ms} */
	CONTROL_ANSWER, /* {ask, verdict}: ENOENT: over already */
	CONTROL_USAGE,  /* {id}: answer {usage: […]} */
	CONTROL_TOTALS, /* {}: answer {totals: {…}} */
	CONTROL_SEAL, /* {owner, name, version, value}: answer {sealed}; value and sealed in hex */
	CONTROL_SECRET, /* {owner, name, version, sealed}: open it and use it from now on */
	CONTROL_FORGET, /* {owner, name} */
	/* Events. */
	CONTROL_DENIED,   /* {id, denial} */
	CONTROL_ASKED,    /* control_ask_json() */
	CONTROL_ASK_OVER, /* {ask}: nobody answered in time, or the asker went away */
	CONTROL_ALLOWED,  /* {id, denial, up, down}: denial.count of a kind come as one */
	CONTROL_LOST,     /* {events}: so many were dropped */
	CONTROL_OP_COUNT,
};

const char *control_op_name(enum control_op op);

struct control_message {
	enum control_op op;
	uint64_t number; /* 0: an event */
	bool is_answer;
	struct err err; /* of an answer; code 0: it was done */
	json_t *body;   /* an object; owned */
};
void control_message_done(struct control_message *m);

/*
 * The first message of what was read. 1: *ret is filled, *ret_used bytes are done with; 0: more
 * bytes are needed; -EBADMSG, -E2BIG: the other side is not what it should be, hang up.
 */
int control_next(
	const char *p, size_t n, size_t *ret_used, struct control_message *ret, struct err *err);

/* Append one message. The body's reference is taken (NULL: {}). -E2BIG: nothing was added. */
int control_ask(
	struct buf *out, enum control_op op, uint64_t number, json_t *take_body, struct err *err);
/* why NULL: fine. */
int control_reply(struct buf *out, enum control_op op, uint64_t number, const struct err *why,
	json_t *take_body, struct err *err);
int control_event(struct buf *out, enum control_op op, json_t *take_body, struct err *err);

/* ---- bodies; what _get() gives is borrowed from the body; -EBADMSG names the field ---- */

struct control_box {
	const char *id, *owner;
	const char *policy;  /* policy_to_json() */
	const char *limits;  /* a JSON object as text, for bawn.internal; or NULL */
	uint64_t expires_ms; /* unix; 0 = never */
	bool want_allowed;   /* also tell what was allowed, request by request */
};
json_t *control_box_json(const struct control_box *b);
/* Whatever is there of it: POLICY and INFO have some of the fields. */
int control_box_get(const json_t *body, struct control_box *ret, struct err *err);

json_t *control_denial_json(const char *id, const struct denial *d);
int control_denial_get(
	const json_t *body, const char **ret_id, struct denial *ret, struct err *err);

json_t *control_allowed_json(const char *id, const struct denial *d, uint64_t up, uint64_t down);
int control_allowed_get(const json_t *body, const char **ret_id, struct denial *ret,
	uint64_t *ret_up, uint64_t *ret_down, struct err *err);

json_t *control_ask_json(const struct egress_ask *a);
int control_ask_get(const json_t *body, struct egress_ask *ret, struct err *err);

json_t *control_usage_json(const struct egress_usage *u, size_t n);
/* One entry of {usage: […]}; false: it is not one. */
bool control_usage_get(const json_t *entry, struct egress_usage *ret);

json_t *control_totals_json(const struct egress_totals *t);
void control_totals_get(const json_t *body, struct egress_totals *ret);

/* "deny", "once", "box"; -1: none of them. */
const char *control_verdict_name(enum egress_ask_verdict v);
int control_verdict_parse(const char *s);

/* A string field that must be there; -EBADMSG. */
int control_string(const json_t *body, const char *name, const char **ret, struct err *err);
