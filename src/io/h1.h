/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/h1 - the one HTTP/1.1 parser: heads, body framing, field rewriting. Pure, no I/O, fuzzed.
 *
 * Strict: a message that two parsers could read in two ways is refused (bare LF,
 * obs-fold, spaces before the colon, two Hosts, two Content-Lengths even if equal,
 * length with Transfer-Encoding, anything but exactly `chunked`, control bytes).
 * The API, the gateway and later egress all decide by this parser.
 */
#include "io/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define H1_HEAD_MAX   65536
#define H1_FIELDS_MAX 100

struct h1_text { /* into the head's bytes; not NUL-terminated */
	const char *p;
	size_t n;
};

struct h1_field {
	struct h1_text name, value; /* value without surrounding blanks */
};

enum h1_framing {
	H1_NO_BODY,
	H1_LENGTH,
	H1_CHUNKED,
	H1_UNTIL_CLOSE, /* responses only */
};

struct h1_head {
	struct h1_text method, target; /* requests */
	int status;                    /* responses */
	int minor;                     /* HTTP/1.<minor>: 0 or 1 */
	struct h1_field fields[H1_FIELDS_MAX];
	size_t fields_n;
	enum h1_framing framing;
	uint64_t length; /* H1_LENGTH */
	bool keep_alive;
	bool expects_continue;
	bool wants_upgrade; /* Connection: upgrade and Upgrade: present */
};

/*
 * Where the head in b[0..n) ends: the offset behind the blank line; 0 = more bytes
 * are needed; (size_t)-1 = refuse now. *scan starts at 0 and makes many small reads O(n).
 */
size_t h1_head_end(const char *b, size_t n, size_t *scan);

/* 0, or the status to refuse with (400, 414, 417, 431, 501, 505). `b` must outlive *ret. */
int h1_parse_request(const char *b, size_t n, struct h1_head *ret);
/* `method` is that of the request it answers. 0, or 502. */
int h1_parse_response(const char *b, size_t n, struct h1_text method, struct h1_head *ret);

/* By name, case-insensitive; NULL if absent. A repeated field: the first. */
const struct h1_field *h1_find(const struct h1_head *h, const char *name);
bool h1_is(struct h1_text t, const char *s); /* exactly */
bool h1_is_nocase(struct h1_text t, const char *s);
/* True if the comma-separated list in `value` has the token, case-insensitive. */
bool h1_has_token(struct h1_text value, const char *token);

/* Undoes the framing of a body, bytes in, payload out. */
struct h1_body {
	enum h1_framing framing;
	uint64_t left; /* of the length or of the current chunk */
	uint8_t state; /* chunked: where in the grammar */
	uint8_t digits;
	uint16_t line_n; /* bytes of extension or trailer so far */
	bool is_done;
	struct buf
		*trailers; /* if not NULL: gets their lines, each with its CRLF; set after init */
};

void h1_body_init(struct h1_body *b, const struct h1_head *h);
/*
 * Look at in[0..n): returns how many bytes were used (0 <= used <= n) and points *out at the
 * payload among them (maybe 0 bytes); call again with the rest. b->is_done at the end: bytes
 * beyond belong to the next message. < 0: malformed.
 */
ssize_t h1_body_feed(struct h1_body *b, const char *in, size_t n, const char **out, size_t *out_n);

/* Field name/value that may be sent: token, and no control bytes. */
bool h1_is_name(const char *s, size_t n);
bool h1_is_value(const char *s, size_t n);

/*
 * Percent-decode n bytes (and '+' as a space if `is_query`) into out, NUL-terminated.
 * -EINVAL: bad escape, or NUL inside; -ENAMETOOLONG. Returns the length.
 */
ssize_t h1_unescape(const char *s, size_t n, bool is_query, char *out, size_t out_size);

/* The raw value of `name` in a query string (without '?'); false if absent. First wins. */
bool h1_query(struct h1_text query, const char *name, struct h1_text *ret);

const char *h1_reason(int status);
