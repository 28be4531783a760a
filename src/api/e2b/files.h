/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/files - what GET and POST /files share: who may, which path, which user.
 */
#include "api/e2b/envd.h"
#include "api/e2b/signature.h"

/*
 * The request's query, checked: by the token in a header, or by a signature for this operation
 * ("read", "write"). False: answered (400, 401).
 */
bool files_authorize(struct http_request *r, const struct sandbox *sb, const char *operation,
	struct signature_claim *ret);

/* A Range field: one range of bytes; anything else is passed over, as HTTP lets us. Pure. */
struct files_range {
	bool is_suffix;    /* the last `from` bytes */
	uint64_t from, to; /* to inclusive; UINT64_MAX: to the end */
};
bool files_range_get(struct h1_text value, struct files_range *ret);
