/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/signature - signed file URLs: who holds the token may read or write one path.
 *
 * "v1_" and the unpadded base64 of SHA-256("<path>:<operation>:<user>:<token>[:<expiration>]"), the
 * path and the user raw as in the query. Pure but for the clock the caller passes in.
 */
#include "io/http.h"

#include <stdbool.h>
#include <stdint.h>

#define SIGNATURE_TEXT 48 /* "v1_", 43 characters, NUL; rounded */

/* What a signed URL says, percent-decoded. */
struct signature_claim {
	char path[4097];    /* "" if there was none */
	char user[257];     /* "" if there was none: the default user */
	char signature[65]; /* "" if there was none */
	int64_t expires;    /* unix seconds */
	bool has_path;      /* the query has a path, maybe empty */
	bool has_signature; /* and the others alike */
	bool has_expiration;
};

/* From the query of a /files request. False: a field is malformed or too long. */
bool signature_claim_get(struct h1_text query, struct signature_claim *ret);

/* The signature the claim should have; operation is "read" or "write". */
void signature_make(const struct signature_claim *c, const char *operation, const char *token,
	char ret[SIGNATURE_TEXT]);

/* Constant-time in the texts: does the claim carry the signature of this token? */
bool signature_matches(const struct signature_claim *c, const char *operation, const char *token);

/* Constant-time comparison of a secret with what a client sent. */
bool signature_token_is(const char *token, struct h1_text said);
