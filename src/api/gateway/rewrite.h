/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/gateway/rewrite - heads on their way through the gateway. Pure.
 *
 * What belongs to one connection stays on it, framing is made anew, and our own secrets never
 * reach the code in a sandbox.
 */
#include "io/http.h"

/*
 * The head to send to a port inside, for a request as it came: HTTP/1.1, one request per
 * connection, the body framed as `framing` says. -E2BIG, -ENOMEM.
 */
int rewrite_request(const struct http_request *r, unsigned port, struct buf *out);

/* True if this field of an answer from inside is passed on by rewrite_answer(). */
bool rewrite_is_kept(const struct h1_head *h, const struct h1_field *f);
/* Pass the fields of an answer on to the client, with http_field_text(). */
void rewrite_answer(const struct h1_head *h, struct http_request *r);
