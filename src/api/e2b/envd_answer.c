/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/envd_answer - how the data plane answers: plain, unary, streaming.
 */
#include "api/e2b/envd.h"
#include "api/e2b/json_text.h"

#include <stdarg.h>
#include <string.h>

int envd_status(int code)
{
	switch (code) {
	case ENOENT: return 404;
	case EISDIR:
	case ENOTDIR:
	case EINVAL:
	case ENAMETOOLONG:
	case ELOOP:
	case EEXIST: return 400;
	case EKEYREJECTED: return 401;
	case EACCES:
	case EPERM:
	case EROFS: return 403;
	case ENOSPC:
	case EDQUOT: return 507;
	case E2BIG: return 413;
	case EMFILE:
	case EAGAIN: return 429;
	case ETIMEDOUT: return 504;
	case ECONNRESET: return 502;
	default: return 500;
	}
}

void envd_plain_error(struct http_request *r, int status, const char *message)
{
	AUTO_BUF struct buf b = {0};

	(void)buf_addf(&b, "{\"code\":%d,\"message\":", status);
	(void)json_text_add(&b, message);
	(void)buf_add(&b, "}\n", 2);
	http_reply(r, status, "application/json; charset=utf-8", buf_data(&b), buf_len(&b));
}

void envd_dead(struct http_request *r, const char *id)
{
	AUTO_BUF struct buf b = {0};

	(void)buf_add(&b, "{\"sandboxId\":", 13);
	(void)json_text_add(&b, id);
	(void)buf_addf(&b, ",\"message\":\"The sandbox was not found\",\"code\":502}");
	http_reply(r, 502, "application/json", buf_data(&b), buf_len(&b));
}

void envd_reply(struct envd_call *c, const char *json, size_t n)
{
	struct http_request *r = c->r;

	envd_call_end(c);
	if (r)
		http_reply(r, 200, "application/json", json, n);
}

static void fail_unary(struct envd_call *c, enum connect_code code, const char *message)
{
	AUTO_BUF struct buf b = {0};
	struct http_request *r = c->r;

	envd_call_end(c);
	(void)connect_error_add(&b, code, message);
	if (r)
		http_reply(r, connect_status(code), "application/json", buf_data(&b), buf_len(&b));
}

static void fail(struct envd_call *c, enum connect_code code, int status, const char *message)
{
	struct http_request *r = c->r;

	if (c->is_over)
		return;
	if (c->dialect == ENVD_STREAM) {
		envd_stream_end(c, code, message);
	} else if (r && r->status != 0) {
		envd_call_end(c);
		http_abort(r);
	} else if (c->dialect == ENVD_UNARY) {
		fail_unary(c, code, message);
	} else {
		envd_call_end(c);
		if (r)
			envd_plain_error(r, status, message);
	}
}

void envd_fail(struct envd_call *c, enum connect_code code, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	fail(c, code, code == CONNECT_UNAVAILABLE ? 502 : connect_status(code), message);
}

void envd_fail_errno(struct envd_call *c, int code, const char *why)
{
	char message[1024];

	/* A user nobody knows: upstream's words. */
	if (code == EKEYREJECTED && c->dialect == ENVD_PLAIN)
		(void)snprintf(message, sizeof(message),
			"error looking up user '%s': user: unknown user %s", c->user, c->user);
	else if (code == EKEYREJECTED)
		(void)snprintf(message, sizeof(message), "invalid username: '%s'", c->user);
	else
		(void)snprintf(message, sizeof(message), "%s", why[0] ? why : strerror(code));
	fail(c, connect_code_of(code), envd_status(code), message);
}

/* ---- streams ---- */

void envd_stream_begin(struct envd_call *c)
{
	if (c->r->status == 0)
		http_begin(c->r, 200, "application/connect+json", -1);
}

void envd_stream_message(struct envd_call *c, const char *json, size_t n)
{
	AUTO_BUF struct buf b = {.cap = CONNECT_HEADER + n};
	char *p = buf_reserve(&b, CONNECT_HEADER + n);

	if (!p)
		abort();
	connect_frame_header(p, 0, (uint32_t)n);
	memcpy(p + CONNECT_HEADER, json, n);
	http_write(c->r, p, CONNECT_HEADER + n);
}

void envd_stream_end(struct envd_call *c, enum connect_code code, const char *message)
{
	struct http_request *r = c->r;
	AUTO_BUF struct buf b = {0};
	char header[CONNECT_HEADER];

	envd_call_end(c);
	if (!r)
		return;
	if (code == CONNECT_OK) {
		(void)buf_add(&b, "{}", 2);
	} else {
		(void)buf_add(&b, "{\"error\":", 9);
		(void)connect_error_add(&b, code, message);
		(void)buf_add(&b, "}", 1);
	}
	if (r->status == 0)
		http_begin(r, 200, "application/connect+json", -1);
	connect_frame_header(header, CONNECT_END, (uint32_t)buf_len(&b));
	http_write(r, header, sizeof(header));
	http_write(r, buf_data(&b), buf_len(&b));
	http_end(r);
}
