/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/sigv4 - AWS Signature Version 4 of a request. Pure but for OpenSSL's hashes.
 */
#include "base/err.h"
#include "io/buf.h"
#include "io/h1.h"

#include <stdbool.h>

#define SIGV4_DATE      16 /* "20150830T123600Z", without NUL */
#define SIGV4_HASH      64 /* hex digits */
#define SIGV4_QUERY_MAX 256

struct sigv4_request {
	struct h1_text method, path, query; /* as they are sent; query without '?' */
	/* Those to be signed, in the order they are sent; "host" and "x-amz-date" among them. */
	const struct h1_field *fields;
	size_t fields_n;
	const char *payload; /* hex hash of the body, or one of S3's words */
	const char *date, *region, *service;
};

struct sigv4_key {
	struct h1_text id, secret;
};

/*
 * Append the value of Authorization to *out. The canonical request, which holds the session token
 * if that is among the fields, is wiped. -E2BIG: more parameters or fields than fit.
 */
int sigv4_sign(const struct sigv4_request *r, const struct sigv4_key *key, struct buf *out,
	struct err *err);

/* SHA-256 as hex. */
void sigv4_hash(const void *p, size_t n, char out[SIGV4_HASH + 1]);
