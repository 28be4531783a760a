/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/heads - HTTP heads on their way through: whom a request is for, what is sent on. Pure.
 *
 * What belongs to one connection stays on it, framing is made anew, and a path that two programs
 * could read as two places is refused before anybody decides by it.
 */
#include "core/denial.h"
#include "io/buf.h"
#include "io/h1.h"

struct heads_goal {
	char name[POLICY_NAME_MAX + 1]; /* lower case; "" = a bare address */
	struct address addr;
	uint16_t port; /* 0 = not said */
};

/* "host", "host:port", "1.2.3.4:80", "[::1]:80". False: none of these. */
bool heads_authority(struct h1_text t, struct heads_goal *ret);

/*
 * True if a Host field, or the authority of an absolute-form target, means `own`. No port said:
 * any.
 */
bool heads_is_for(struct h1_text authority, const struct heads_goal *own);

struct heads_target {
	struct h1_text authority; /* n == 0: not in absolute-form */
	bool is_https;            /* its scheme */
	struct h1_text origin;    /* "/path?query", or "*" */
	struct h1_text path;      /* of it, without query */
};
/* False: neither origin-form, nor absolute-form of http or https, nor the "*" of OPTIONS. */
bool heads_target(const struct h1_head *h, struct heads_target *ret);

/*
 * The path as most servers understand it: escapes of unreserved characters undone, runs of slashes
 * as one. *ret is NULL if that is the path as sent; else the caller frees. -EINVAL: dot
 * segments in any spelling, or a NUL.
 */
int heads_plain_path(struct h1_text path, char **ret);

/* The client prefers JSON to text in an answer of ours. */
bool heads_wants_json(const struct h1_head *h);

/* Whether a request asks for a WebSocket. */
bool heads_is_websocket(const struct h1_head *h);

struct heads_framing { /* what follows a request's head */
	enum h1_framing framing;
	uint64_t length;
	bool has_length;       /* the client said one, maybe 0 */
	bool expects_continue; /* pass that on */
	bool is_websocket;
	bool wants_trailers;
};
/* Framing and connection fields and the blank line, behind the fields of vault_inject_head(). */
int heads_end_request(const struct heads_framing *f, struct buf *out);

struct heads_client { /* whom an answer goes to */
	int minor;    /* of its HTTP/1.<minor> */
	bool is_head; /* method HEAD */
	bool closes;  /* the connection ends behind this answer */
};
/*
 * The head in raw[0..n), parsed as *h, for the client. *ret_chunked: its body is to be sent in
 * chunks. A final answer whose body ends with the connection, for a client that knows no
 * chunks: c->closes must be set.
 */
int heads_answer(const struct h1_head *h, const char *raw, size_t n, const struct heads_client *c,
	struct buf *out, bool *ret_chunked);
/* An interim answer, 101 among them. */
int heads_interim(const struct h1_head *h, const char *raw, size_t n, struct buf *out);

/* Trailers that may be passed on, of lines from h1_body.trailers. */
int heads_trailers(const struct buf *lines, struct buf *out);

/* A whole answer of ours. `status` 0: that of the kind. */
int heads_denial(const struct denial *d, int status, bool is_json, const struct heads_client *c,
	struct buf *out);
int heads_reply(int status, const char *type, const char *body, size_t n,
	const struct heads_client *c, struct buf *out);
