/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/vault - credentials in clear, for as long as they are needed, and nowhere else.
 *
 * Values live in pages of their own (guards around them, MADV_DONTDUMP, MADV_WIPEONFORK, locked if allowed), zeroed when they go. A box knows
 * only the placeholder: "bawn-ph-" and 40 hex digits, derived from the installation's key, the owner
 * and the name, so that it stays the same across restarts and says nothing of the value.
 */
#include "base/err.h"
#include "base/own.h"
#include "core/policy.h"
#include "io/buf.h"
#include "io/h1.h"

#include <stdbool.h>
#include <stddef.h>

#define VAULT_PREFIX      "bawn-ph-"
#define VAULT_PLACEHOLDER 48 /* bytes, without NUL */
#define VAULT_VALUE_MAX   16384
#define VAULT_SECRETS_MAX 4096

struct vault;
struct vault_secret;

/* `seed`: 32 bytes that placeholders are derived from. */
int vault_create(const unsigned char seed[32], struct vault **ret, struct err *err);
struct vault *vault_free(struct vault *v);
DEFINE_AUTO(struct vault *, vault_free)

/* Set or replace (rotation is live: the next request has the new one). `owner`: tenant, or "". `value` is wiped by the caller. */
int vault_set(struct vault *v, const char *owner, const char *name, const void *value, size_t n,
	struct err *err);
void vault_forget(struct vault *v, const char *owner, const char *name);
const struct vault_secret *vault_find(const struct vault *v, const char *owner, const char *name);
void vault_placeholder(const struct vault *v, const char *owner, const char *name,
	char out[VAULT_PLACEHOLDER + 1]);

/* Looks for placeholders in a stream, also across pieces and inside Basic credentials. */
struct vault_scan {
	char tail[VAULT_PLACEHOLDER];
	size_t tail_n;
};
/* True as soon as VAULT_PREFIX and a digit behind it are seen (any placeholder, ours or not). */
bool vault_scan_feed(struct vault_scan *s, const void *p, size_t n);
bool vault_scan_name(const char *dns_name); /* in any form a name can carry it */

/*
 * One request that `rule` allowed. Writes to *out the request line and the fields, changed where a binding
 * of the rule says so, without the final blank line and without framing fields (Content-Length, Transfer-Encoding, Connection and
 * what it names, Proxy-*); the caller adds those. A placeholder that stands where no binding of the
 * rule puts it: -EPERM, *what says where ("header X", "path", "query"). -ENOKEY: a secret that is
 * not there (revoked). Never writes a value anywhere but *out, which the caller must wipe (buf_wipe).
 */
int vault_inject_head(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const struct h1_head *head, const char *host,
	struct buf *out, char what[64], struct err *err);
/* True if a binding of the rule changes the body: then collect it (VAULT_BODY_MAX), rewrite, and send with its new length. */
#define VAULT_BODY_MAX (1u << 20)
bool vault_wants_body(const struct policy *policy, const struct policy_rule *rule);
int vault_inject_body(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const char *body, size_t n, struct buf *out, char what[64],
	struct err *err);
/* SigV4 needs the hash of the whole body before the head goes out: same path as vault_wants_body(). */
int vault_sign(const struct vault *v, const char *owner, const struct policy *policy,
	const struct policy_rule *rule, const struct h1_head *head, const char *host,
	const char *body, size_t n, struct buf *out, char what[64], struct err *err);

void buf_wipe(struct buf *b); /* zero, then buf_done() */
