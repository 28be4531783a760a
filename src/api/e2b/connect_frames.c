/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/connect_frames.h"

#include "api/e2b/json_text.h"

static const struct {
	const char *name;
	int status;
} codes[] = {
	[CONNECT_OK] = {"ok", 200},
	[CONNECT_CANCELED] = {"canceled", 499},
	[CONNECT_UNKNOWN] = {"unknown", 500},
	[CONNECT_INVALID_ARGUMENT] = {"invalid_argument", 400},
	[CONNECT_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
	[CONNECT_NOT_FOUND] = {"not_found", 404},
	[CONNECT_ALREADY_EXISTS] = {"already_exists", 409},
	[CONNECT_PERMISSION_DENIED] = {"permission_denied", 403},
	[CONNECT_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
	[CONNECT_FAILED_PRECONDITION] = {"failed_precondition", 400},
	[CONNECT_ABORTED] = {"aborted", 409},
	[CONNECT_OUT_OF_RANGE] = {"out_of_range", 400},
	[CONNECT_UNIMPLEMENTED] = {"unimplemented", 501},
	[CONNECT_INTERNAL] = {"internal", 500},
	[CONNECT_UNAVAILABLE] = {"unavailable", 503},
	[CONNECT_DATA_LOSS] = {"data_loss", 500},
	[CONNECT_UNAUTHENTICATED] = {"unauthenticated", 401},
};
_Static_assert(sizeof(codes) / sizeof(codes[0]) == CONNECT_CODE_COUNT, "a row per code");

const char *connect_code_name(enum connect_code c)
{
	return codes[c].name;
}

int connect_status(enum connect_code c)
{
	return codes[c].status;
}

enum connect_code connect_code_of(int code)
{
	switch (code) {
	case ENOENT:
	case ESRCH: return CONNECT_NOT_FOUND;
	case EEXIST: return CONNECT_ALREADY_EXISTS;
	case EINVAL:
	case ENOTDIR:
	case EISDIR:
	case ENAMETOOLONG:
	case EILSEQ: return CONNECT_INVALID_ARGUMENT;
	case ELOOP:
	case EBUSY:
	case ENOTEMPTY: return CONNECT_FAILED_PRECONDITION;
	case EACCES:
	case EPERM:
	case EROFS: return CONNECT_PERMISSION_DENIED;
	case EKEYREJECTED: return CONNECT_UNAUTHENTICATED;
	case ENOSPC:
	case EDQUOT:
	case E2BIG:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case EAGAIN: return CONNECT_RESOURCE_EXHAUSTED;
	case ETIMEDOUT: return CONNECT_DEADLINE_EXCEEDED;
	case ECONNRESET:
	case ECONNREFUSED:
	case ECONNABORTED:
	case ENOTCONN:
	case EPIPE: return CONNECT_UNAVAILABLE;
	default: return CONNECT_INTERNAL;
	}
}

ssize_t connect_frame_parse(const char *p, size_t n, size_t cap, struct connect_frame *ret)
{
	const unsigned char *b = (const unsigned char *)p;
	uint32_t length;

	if (n >= 1 && (b[0] & ~CONNECT_END) != 0)
		return -EPROTO;
	if (n < CONNECT_HEADER)
		return 0;
	length = (uint32_t)b[1] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 8 | b[4];
	if (length > cap)
		return -E2BIG;
	if (n - CONNECT_HEADER < length)
		return 0;
	*ret = (struct connect_frame){.flags = b[0], .n = length, .p = p + CONNECT_HEADER};
	return (ssize_t)(CONNECT_HEADER + length);
}

void connect_frame_header(char out[CONNECT_HEADER], uint8_t flags, uint32_t n)
{
	out[0] = (char)flags;
	out[1] = (char)(n >> 24);
	out[2] = (char)(n >> 16);
	out[3] = (char)(n >> 8);
	out[4] = (char)n;
}

int connect_error_add(struct buf *b, enum connect_code code, const char *message)
{
	int r = buf_addf(b, "{\"code\":\"%s\",\"message\":", connect_code_name(code));

	if (r >= 0)
		r = json_text_add(b, message);
	return r < 0 ? r : buf_add(b, "}", 1);
}
