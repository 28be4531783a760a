/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/denial - one refusal of the network road, told the same way everywhere. Pure.
 *
 * The same facts make the 403 inside the box, the violation record, the line in a command's
 * result and the answer of explain.
 */
#include "base/err.h"
#include "core/policy.h"

#include <stdint.h>

#define DENIAL_TEXT_MAX 1024

/* Stable words; docs/egress.md lists them. */
enum denial_kind {
	DENIAL_NO_RULE,  /* "no_rule": nothing allows it */
	DENIAL_RULE,     /* "rule": a deny rule */
	DENIAL_FLOOR,    /* "floor": the operator's floor */
	DENIAL_ADDRESS,  /* "address": the name leads to a private, metadata, … address */
	DENIAL_MISMATCH, /* "mismatch": server name or Host is not the name that was connected to */
	DENIAL_PROTOCOL, /* "protocol": not the protocol the rule allows; ECH; no name */
	DENIAL_BUDGET,   /* "budget": used up */
	DENIAL_PLACEHOLDER, /* "placeholder": a credential's placeholder where it does not belong */
	DENIAL_ASK,         /* "ask": a person said no, or nobody answered in time */
	DENIAL_MALFORMED,   /* "malformed": smuggling, bad framing, bad hello */
	/* "upstream": no such name, no answer, bad certificate (502, not a violation) */
	DENIAL_UPSTREAM,
	DENIAL_LIMIT, /* "limit": too many connections of this sandbox */
	DENIAL_KIND_COUNT,
};

struct denial {
	enum denial_kind kind;
	char name[POLICY_NAME_MAX + 1]; /* or the address as text */
	uint16_t port;
	char protocol[8];           /* "https", "http", "tcp", "ws", "dns", "" */
	char method[16], path[256]; /* cut; never a query, never a body */
	char rule[96];              /* id, or "" */
	char reason[256];           /* of the rule, or what went wrong */
	char instead[256];          /* what the agent may do */
	uint64_t at_ms;             /* unix */
	uint64_t count;             /* identical ones are counted */
};

const char *denial_kind_name(enum denial_kind k);
/* The kind a decision makes; of one that denies. */
enum denial_kind denial_kind_of(const struct policy_answer *a);
/*
 * For DENIAL_NO_RULE: what a rule for the same host does allow, as the reason, if there is one and
 * none was given. Before denial_explain().
 */
void denial_near(struct denial *d, const struct policy *p, const struct policy_question *q);
/* Fill in what is still empty of `reason` (the kind's sentence) and `instead`. */
void denial_explain(struct denial *d);
int denial_status(enum denial_kind k); /* 403, 421, 429, 502, … */
/* One line for people: "GET https://pypi.org/x refused by rule packages/3: read-only; …". */
void denial_text(const struct denial *d, char out[DENIAL_TEXT_MAX]);
/*
 * {"error":{"code":"egress_denied","kind":…,"message":…,"host":…,"port":…,"protocol":…,"method":…,
 * "path":…,"rule":…,"reason":…,"next_steps":[…]}}; what is not known is left out. The caller frees.
 */
char *denial_json(const struct denial *d);
/* The same object without the envelope, with "at_ms" and "count", for events and lists. */
char *denial_record_json(const struct denial *d);
int denial_from_json(const char *json, size_t n, struct denial *ret, struct err *err);
