/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/policy - what a sandbox may reach: rules, and the one function that decides. Pure.
 *
 * Deny wins over ask, ask over allow (but for what a person approved); no match is deny. The floor
 * is a list of the operator's own: what it does not allow is denied whatever the rules say, and its
 * denials cannot be undone.
 * Facts become known one after the other (name, then port, then protocol, then method and path); a
 * decision made on fewer facts says what it still needs to know, and a sure one stays as it is
 * whatever is learnt later.
 *
 * Doubt goes against the box: a path that servers read in more than one way (dot segments, encoded
 * or not) matches no allow rule that has paths, and every deny rule that has some.
 *
 * A policy is immutable once made, and shared by reference count (single-threaded).
 */
#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "core/address.h"

#include <stdbool.h>
#include <stdint.h>

#define POLICY_RULES_MAX      1024 /* in all, floor included */
#define POLICY_HOSTS_MAX      256  /* per rule; the same for ports, methods, paths, programs */
#define POLICY_BINDINGS_MAX   64
#define POLICY_NAME_MAX       253    /* bytes of a host name */
#define POLICY_ASK_TIMEOUT_MS 120000 /* default */
#define POLICY_ASK_MAX_MS     86400000

enum policy_action { POLICY_DENY, POLICY_ALLOW, POLICY_ASK };

/*
 * As bits. A rule without any means https, http and ws; a deny rule without any, everything.
 * In a rule, https covers WebSockets inside TLS too (what passes unseen cannot be told apart);
 * ws alone means nothing but WebSockets, and beside https, without http, only those inside TLS;
 * tcp covers whatever is spoken on its ports.
 */
enum policy_protocol {
	POLICY_HTTPS = 1u << 0,
	POLICY_HTTP = 1u << 1,
	POLICY_WS = 1u << 2,  /* a WebSocket, over either */
	POLICY_TCP = 1u << 3, /* anything, without a look inside */
};
#define POLICY_ANY_PROTOCOL (POLICY_HTTPS | POLICY_HTTP | POLICY_WS | POLICY_TCP)

enum policy_host_kind {
	POLICY_HOST_EXACT,  /* "pypi.org" */
	POLICY_HOST_SUFFIX, /* "*.example.com": one label or more in front; not itself */
	POLICY_HOST_ANY,    /* "*": every name; in a deny rule bare addresses too */
	/*
	 * "10.1.0.0/16", "::1". Allow: bare addresses, and where a name that another host allows
	 * may lead if that is not public. Deny: also every name that leads there. Ask: bare
	 * addresses. What is not public must be named on purpose (address_net_names).
	 */
	POLICY_HOST_NET,
};

struct policy_host {
	enum policy_host_kind kind;
	char *name; /* lower case, A-labels; without "*."; as written for POLICY_HOST_NET */
	struct address_net net;
};

struct policy_ports {
	uint16_t first, last;
};

struct policy_budget { /* 0 = no such limit */
	uint64_t bytes_up, bytes_down, requests;
	uint64_t per_ms; /* refilled so often; 0 = for the sandbox's whole life */
};

enum policy_place { POLICY_HEADER, POLICY_BASIC, POLICY_QUERY, POLICY_JSON, POLICY_SIGV4 };

/* Where a credential goes. Applies to requests that the rule naming it has allowed. */
struct policy_binding {
	char *secret; /* its name in the vault */
	enum policy_place place;
	/* Header, user of basic auth, query parameter, JSON pointer; sigv4: "region/service", "" */
	char *field;
	char *format;      /* "Bearer {}": what stands around it; NULL = "{}" */
	char *env;         /* the box gets the placeholder in this variable; NULL = none */
	char *file;        /* … or in this file, by `format`-less text; NULL = none */
	struct strv hosts; /* as written in the rule it came from, for the record */
};

struct policy_rule {
	char *id;     /* "packages/npm", "packages/3": profile, then name or number; in errors */
	char *reason; /* shown to the agent; NULL = none */
	enum policy_action action;
	unsigned protocols;
	struct policy_host *hosts;
	size_t hosts_n;
	/* None: those of the protocols (443, 80), tcp needs some; of a deny rule: all. */
	struct policy_ports *ports;
	size_t ports_n;
	struct strv methods;  /* upper case; none = any */
	struct strv paths;    /* globs: * within a segment, ** across; none = any */
	struct strv programs; /* absolute globs; none = any */
	struct policy_budget budget;
	size_t *bindings; /* indexes into policy.bindings */
	size_t bindings_n;
	bool is_approved;    /* an allow that a person gave for good: wins over ask */
	bool must_intercept; /* bindings, a budget of requests: only to be done inside TLS */
};

struct policy {
	unsigned refs;
	char *name;                        /* "packages", "packages+git-read", "run" */
	char digest[65];                   /* SHA-256 of the canonical JSON, hex */
	struct policy_rule *rules, *floor; /* floor_n == 0: no floor */
	size_t rules_n, floor_n;
	struct policy_binding *bindings;
	size_t bindings_n;
	struct policy_budget budget; /* over everything */
	uint64_t ask_timeout_ms;     /* default 120 s */
};

struct policy *policy_ref(struct policy *p);
struct policy *policy_unref(struct policy *p);
DEFINE_AUTO(struct policy *, policy_unref)

struct policy_question {
	const char *name; /* as policy_clean_name() gives it; NULL = a bare address */
	/* The bare address, or where the name led (dialling); NULL = unknown. */
	const struct address *addr;
	uint16_t port; /* 0 = unknown */
	/*
	 * One of enum policy_protocol; 0 = unknown. A WebSocket upgrade is POLICY_WS together with
	 * what carries it: POLICY_HTTPS | POLICY_WS.
	 */
	unsigned protocol;
	const char *method, *path; /* NULL = unknown; path without query, as sent */
	const char *program;       /* NULL = unknown; "" = not to be found: fits no allow rule's */
};

enum policy_needs {
	POLICY_NEEDS_PORT = 1u << 0,
	POLICY_NEEDS_PROTOCOL = 1u << 1,
	POLICY_NEEDS_REQUEST = 1u << 2, /* method and path: intercept if it is TLS */
	POLICY_NEEDS_PROGRAM = 1u << 3,
	/*
	 * Look the name up, then ask again with addr. Never together with another need, and only
	 * when all else says yes: no name is looked up in vain.
	 */
	POLICY_NEEDS_ADDRESS = 1u << 4,
};

struct policy_answer {
	enum policy_action action; /* if needs == 0 */
	unsigned needs;            /* != 0: not sure yet */
	bool must_intercept;       /* allowed, and credentials or limits want to look inside */
	bool may_private;          /* a rule names the address (or its net): not only public ones */
	const struct policy_rule *rule; /* that decided; NULL = no rule matched */
	bool by_floor;                  /* the floor denied */
};

/* Whatever is unknown in *q is taken as "could be either way". */
void policy_decide(
	const struct policy *p, const struct policy_question *q, struct policy_answer *ret);

/*
 * For what nothing allows: the rule that would, had the request another method or path, or come
 * from another program. NULL if there is none.
 */
const struct policy_rule *policy_near(const struct policy *p, const struct policy_question *q);

/*
 * The last gate before connect(): may *a be dialled for *q, whose other facts are known and were
 * not denied? False with ret->action POLICY_DENY: a rule or the floor denies this address. False
 * otherwise: the address is not public and no rule names it (DENIAL_ADDRESS).
 */
bool policy_may_dial(const struct policy *p, const struct policy_question *q,
	const struct address *a, struct policy_answer *ret);

/*
 * Canonical JSON: keys sorted, no blanks, integers only; the digest is over these bytes. Reading
 * it back gives the same policy; -EINVAL names the field. The floor is part of it. The caller
 * frees.
 */
char *policy_to_json(const struct policy *p);
int policy_from_json(const char *json, size_t n, struct policy **ret, struct err *err);

/*
 * Name as rules have it: lower case, no final dot, LDH labels (and _), 253 bytes, 63 each.
 * -EINVAL otherwise, and for every way to write an address (also decimal, octal, hex, short).
 */
int policy_clean_name(const char *s, size_t n, char out[POLICY_NAME_MAX + 1]);
/* Glob over a path: "*" within a segment, "**" across, "?" one byte; "%2f" is no slash. */
bool policy_path_matches(const char *glob, const char *path);
