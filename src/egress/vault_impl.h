/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/vault_impl - what the vault's files share: the secret itself, and one request's bindings.
 */
#include "egress/guard.h"
#include "egress/vault.h"

struct vault_secret {
	char owner[64];
	char name[PLACEHOLDER_NAME_MAX + 1];
	struct guard value;
	uint64_t round;            /* in which it was set last */
	struct vault_secret *next; /* of its bucket */
};

/* A binding of the rule that allowed the request, and what stands behind it. */
struct inject_bound {
	const struct policy_binding *b;
	const struct vault_secret *secret; /* NULL: not there */
	char placeholder[PLACEHOLDER_LEN + 1];
	const char *before; /* of the format; not NUL-terminated */
	size_t before_n;
	const char *after;
	bool is_done; /* the value stands in its place */
};

struct inject {
	const struct h1_head *head;
	const char *host;
	const char *body; /* known to the end; NULL if it is not */
	size_t body_n;
	struct h1_text path, query; /* of the target */
	struct inject_bound bound[POLICY_BINDINGS_MAX];
	size_t bound_n;
	struct buf *out;
	char *what; /* VAULT_WHAT_MAX */
	struct err *err;
};

/* inject.c */
void inject_bind(struct inject *in, const struct vault *v, const char *owner,
	const struct policy *policy, const struct policy_rule *rule);
/* A placeholder anywhere in it, also inside Basic credentials. */
bool inject_has_placeholder(const char *p, size_t n);
/* Record -EPERM: one stands at `where` ("header X"). */
int inject_misplaced(struct inject *in, const char *where);
/* Record -ENOKEY. */
int inject_missing(struct inject *in, const struct inject_bound *b);

/* inject_text.c */
/* Standard or URL alphabet, padding optional; the length, or -1. `out` holds n bytes. */
ssize_t inject_base64(const char *s, size_t n, char *out);
/* Escape what is not unreserved (RFC 3986); `keep` more bytes stay ("/"). */
int inject_escape(struct buf *out, const char *p, size_t n, const char *keep);
/* Undo it, leniently: a bad escape stays as it is. `out` holds n bytes; '+' is a blank if so. */
size_t inject_unescape(const char *p, size_t n, bool is_form, char *out);
const char *inject_find(const char *p, size_t n, const char *needle); /* or NULL */

/*
 * inject_sigv4.c: does this request get a signature of ours? Then the fields that sigv4_drops()
 * names are not written, and inject_sigv4() adds its own behind all others.
 */
struct inject_bound *inject_sigv4_bound(struct inject *in);
bool inject_sigv4_drops(struct h1_text name);
int inject_sigv4(struct inject *in, struct inject_bound *b);
/* The hash of the body is not in the head. */
bool inject_sigv4_wants_body(const struct h1_head *head);
