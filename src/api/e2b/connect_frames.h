/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/connect_frames - the Connect protocol's codes and stream frames. Pure, fuzzed.
 *
 * A frame is one byte of flags, four bytes of length, big endian, and a JSON text. The last one of
 * an answer has CONNECT_END and says {} or {"error":{…}}.
 */
#include "io/buf.h"

#include <stdint.h>
#include <sys/types.h>

#define CONNECT_HEADER 5

enum connect_flags { CONNECT_COMPRESSED = 1u << 0, CONNECT_END = 1u << 1 };

enum connect_code {
	CONNECT_OK,
	CONNECT_CANCELED,
	CONNECT_UNKNOWN,
	CONNECT_INVALID_ARGUMENT,
	CONNECT_DEADLINE_EXCEEDED,
	CONNECT_NOT_FOUND,
	CONNECT_ALREADY_EXISTS,
	CONNECT_PERMISSION_DENIED,
	CONNECT_RESOURCE_EXHAUSTED,
	CONNECT_FAILED_PRECONDITION,
	CONNECT_ABORTED,
	CONNECT_OUT_OF_RANGE,
	CONNECT_UNIMPLEMENTED,
	CONNECT_INTERNAL,
	CONNECT_UNAVAILABLE,
	CONNECT_DATA_LOSS,
	CONNECT_UNAUTHENTICATED,
	CONNECT_CODE_COUNT
};

const char *connect_code_name(enum connect_code c); /* "not_found" */
int connect_status(enum connect_code c);            /* HTTP status of a unary error */
enum connect_code connect_code_of(int code);        /* from a positive errno of the guest */

struct connect_frame {
	uint8_t flags;
	uint32_t n;
	const char *p; /* into the input */
};

/*
 * > 0: bytes used by one whole frame; 0: more needed. -EPROTO: flags nobody asked for (compressed
 * messages among them); -E2BIG: longer than cap.
 */
ssize_t connect_frame_parse(const char *p, size_t n, size_t cap, struct connect_frame *ret);
void connect_frame_header(char out[CONNECT_HEADER], uint8_t flags, uint32_t n);

/* {"code":"…","message":"…"}, as a unary answer and inside an end frame have it. */
int connect_error_add(struct buf *b, enum connect_code code, const char *message);
