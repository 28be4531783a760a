/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/vault - credentials in clear, for as long as they are needed, and nowhere else.
 *
 * Values live in pages of their own (guards around them, MADV_DONTDUMP, MADV_WIPEONFORK, locked if
 * allowed), zeroed when they go. A box knows only the placeholder (core/placeholder.h). Order of
 * use, for each request that a rule allowed:
 *
 *   vault_wants_body()?  no: vault_inject_head(), then the body as it comes, past vault_scan_feed()
 *                       yes: collect the body, vault_inject_body(), then vault_sign()
 *
 * No I/O, single-threaded.
 */
#include "base/err.h"
#include "base/own.h"
#include "core/placeholder.h"
#include "core/policy.h"
#include "io/buf.h"
#include "io/h1.h"

#include <stdbool.h>
#include <stddef.h>

#define VAULT_VALUE_MAX   16384
#define VAULT_SECRETS_MAX 4096
#define VAULT_BODY_MAX    (1u << 20)
#define VAULT_WHAT_MAX    64

struct vault;
struct vault_secret;

int vault_create(struct vault **ret, struct err *err);
struct vault *vault_free(struct vault *v);
DEFINE_AUTO(struct vault *, vault_free)

/*
 * Set or replace: rotation is live, the next request has the new one. `owner`: tenant, or "". The
 * caller wipes `value`. -EINVAL: empty, too long, or with a byte no header can carry (control
 * bytes); -EMFILE past VAULT_SECRETS_MAX.
 */
int vault_set(struct vault *v, const char *owner, const char *name, const void *value, size_t n,
	struct err *err);
/* Revoke: the value is zeroed before this returns. */
void vault_forget(struct vault *v, const char *owner, const char *name);
/* The owner says everything again: what it has not set between these two is forgotten. */
void vault_begin(struct vault *v);
void vault_sweep(struct vault *v);
const struct vault_secret *vault_find(const struct vault *v, const char *owner, const char *name);
/* The bytes; in the vault's pages, valid until the secret is set again or forgotten. */
const char *vault_value(const struct vault_secret *s, size_t *ret_n);

/* Looks for placeholders in a stream, also across pieces. Zero it to start. */
struct vault_scan {
	size_t matched; /* bytes of the prefix that the last piece ended with */
};
/*
 * True as soon as PLACEHOLDER_PREFIX and a digit behind it are seen, in either case (any
 * placeholder, ours or not): nothing of this piece may go on. What has gone on before holds at most
 * the prefix, so nothing needs to be held back.
 */
bool vault_scan_feed(struct vault_scan *s, const void *p, size_t n);
/* In any form a name can carry it: any case, cut by dots, as hex or base32 of itself. */
bool vault_scan_name(const char *dns_name);

/*
 * One request that `rule` allowed. Writes to *out the request line (in origin form), "Host: <host>"
 * and the other fields, changed where a binding of the rule says so, without the final blank line
 * and without framing fields (Content-Length, Transfer-Encoding, Connection and what it names,
 * Keep-Alive, TE, Trailer, Upgrade, Expect, Proxy-*); the caller adds those that are needed.
 *
 * -EPERM: a placeholder stands where no binding of the rule puts it; `what` says where ("header
 * X", "path", "query", "body"). -ENOKEY: the placeholder is of a secret that is not there (never
 * set, or revoked). -EOPNOTSUPP: a signature we cannot make again. In each case err->msg is a
 * sentence for the agent and holds no value. -E2BIG past *out's cap.
 *
 * Never writes a value anywhere but *out, which the caller must wipe (buf_wipe). *out must be
 * empty; it is grown once, before a value is in it.
 */
int vault_inject_head(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const struct h1_head *head, const char *host,
	struct buf *out, char what[VAULT_WHAT_MAX], struct err *err);

/*
 * True if a binding of the rule changes this request's body, or needs its hash before the head goes
 * out: then collect it (VAULT_BODY_MAX; 413 past it), rewrite, and send with its new length.
 */
bool vault_wants_body(
	const struct policy *policy, const struct policy_rule *rule, const struct h1_head *head);
/* *out: the body to send, also if nothing was changed. The same errors. */
int vault_inject_body(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const char *body, size_t n, struct buf *out,
	char what[VAULT_WHAT_MAX], struct err *err);
/* vault_inject_head() where the body that will be sent is known. */
int vault_sign(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const struct h1_head *head, const char *host,
	const char *body, size_t n, struct buf *out, char what[VAULT_WHAT_MAX], struct err *err);

void buf_wipe(struct buf *b); /* zero, then buf_done() */
