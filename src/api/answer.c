/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Answers in both dialects, and the one table from errno to HTTP status.
 *
 * What a lower layer says about a 5xx stays in the log, under the request's id: it may name
 * paths and addresses of the host.
 */
#include "api/api.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void (*api_log_to)(const char *level, const char *request, const char *text);

void api_log(const char *level, const char *request, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!api_log_to)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	api_log_to(level, request, text);
}

static const struct verdict {
	int code; /* errno */
	int status;
	const char *word;
	const char *sentence; /* instead of the layer's own words; NULL: those may be shown */
} verdicts[] = {
	{ENOENT, 404, "not_found", NULL},
	{ESRCH, 404, "not_found", NULL},
	{EEXIST, 409, "conflict", NULL},
	{ENOTUNIQ, 409, "ambiguous", NULL},
	{EPIPE, 409, "closed", NULL},
	{EINVAL, 400, "invalid", NULL},
	{ENOTDIR, 400, "not_a_directory", NULL},
	{EISDIR, 400, "is_a_directory", NULL},
	{ENAMETOOLONG, 400, "name_too_long", NULL},
	{ELOOP, 400, "too_many_links", NULL},
	{E2BIG, 413, "too_large", NULL},
	{EKEYREJECTED, 401, "unknown_user", NULL},
	{EACCES, 403, "denied", NULL},
	{EPERM, 403, "denied", NULL},
	{EDQUOT, 429, "quota", NULL},
	{EBUSY, 429, "busy", NULL},
	{EMFILE, 429, "too_many", NULL},
	{EAGAIN, 429, "too_many", NULL},
	{ENOSYS, 501, "not_implemented", NULL},
	{EOPNOTSUPP, 501, "not_implemented", NULL},
	{ECONNREFUSED, 502, "port_closed", NULL},
	{ENOTCONN, 503, "unavailable", "the server is starting a part of itself again; try again"},
	{ECONNRESET, 503, "unavailable", "the connection to the sandbox was lost; try again"},
	{ETIMEDOUT, 504, "timeout", NULL},
	{ENOSPC, 507, "disk_full", NULL},
};

static const struct verdict *verdict_of(int code)
{
	static const struct verdict other = {0, 500, "internal", "internal error"};

	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		if (verdicts[i].code == code)
			return &verdicts[i];
	return &other;
}

int api_status(int code)
{
	return verdict_of(code)->status;
}

const char *api_code(int code)
{
	return verdict_of(code)->word;
}

void api_reply_json(struct http_request *r, int status, json_t *take_body)
{
	AUTO_FREE char *text = take_body ? json_dumps(take_body, JSON_COMPACT) : NULL;

	json_decref(take_body);
	if (!text) {
		static const char sorry[] = "{\"code\":500,\"message\":\"out of memory\"}";

		http_reply(r, 500, "application/json", sorry, sizeof(sorry) - 1);
		return;
	}
	http_reply(r, status, "application/json", text, strlen(text));
}

/* The text as a JSON string, whatever bytes somebody put into it. */
static json_t *safe_string(char *text)
{
	json_t *s = json_string(text);

	if (s)
		return s;
	for (char *p = text; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return json_string(text);
}

static bool is_ours(const struct http_request *r)
{
	return r->path.n >= 3 && memcmp(r->path.p, "/v1", 3) == 0 &&
	       (r->path.n == 3 || r->path.p[3] == '/');
}

void api_reply_error(struct http_request *r, int status, const char *code, const char *next,
	const char *fmt, ...)
{
	char text[700];
	json_t *body, *message;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	message = safe_string(text);
	if (is_ours(r))
		body = json_pack("{s:{s:s, s:o, s:s*, s:s}}", "error", "code", code, "message",
			message, "next", next, "request_id", r->id);
	else
		body = json_pack("{s:i, s:o}", "code", status, "message", message);
	api_reply_json(r, status, body);
}

void api_reply_err(struct http_request *r, const struct err *err)
{
	const struct verdict *v = verdict_of(err->code);

	if (v->status >= 500 && v->status != 501 && v->status != 507)
		api_log("error", r->id, "%s", err->msg);
	if (v->status == 503)
		http_field(r, "Retry-After", "1");
	if (v->status == 500)
		api_reply_error(r, 500, v->word, "look for the request id in the server's log",
			"internal error (request %s)", r->id);
	else
		api_reply_error(
			r, v->status, v->word, NULL, "%s", v->sentence ? v->sentence : err->msg);
}

/* While the body comes, the request's state is ours; the handler's own is put back afterwards. */
struct json_read {
	void (*done)(struct http_request *r, json_t *body, void *arg);
	void *arg;
	void *state;
	void (*gone)(struct http_request *r);
};

static void give_back(struct http_request *r, struct json_read *take_j)
{
	r->state = take_j->state;
	r->gone = take_j->gone;
	free(take_j);
}

static void read_gone(struct http_request *r)
{
	give_back(r, r->state);
	if (r->gone)
		r->gone(r);
}

static void read_done(struct http_request *r, const char *body, size_t n, void *arg)
{
	struct json_read *j = arg;
	void (*done)(struct http_request *, json_t *, void *) = j->done;
	void *done_arg = j->arg;
	json_error_t bad = {0};
	json_t *v;

	give_back(r, j);
	while (n > 0 && strchr(" \t\r\n", *body) && *body)
		body++, n--;
	v = n > 0 ? json_loadb(body, n, JSON_REJECT_DUPLICATES, &bad) : json_object();
	if (json_is_object(v)) {
		done(r, v, done_arg);
		json_decref(v);
		return;
	}
	if (r->gone)
		r->gone(r);
	r->gone = NULL;
	if (v)
		api_reply_error(
			r, 400, "invalid_json", NULL, "the body must be a JSON object: {…}");
	else
		api_reply_error(r, 400, "invalid_json", NULL,
			"the body is not JSON: line %d, column %d: %s", bad.line, bad.column,
			bad.text);
	json_decref(v);
}

void api_read_json(struct http_request *r, size_t cap,
	void (*done)(struct http_request *r, json_t *body, void *arg), void *arg)
{
	struct json_read *j = MEM_NEW(struct json_read);

	j->done = done;
	j->arg = arg;
	j->state = r->state;
	j->gone = r->gone;
	r->state = j;
	r->gone = read_gone;
	http_collect(r, cap, read_done, j);
}

static char *put_digits(char *out, unsigned v, int n, char after)
{
	for (int i = n - 1; i >= 0; i--, v /= 10)
		out[i] = (char)('0' + v % 10);
	out[n] = after;
	return out + n + 1;
}

/* By hand: strftime() looks for the time zone's file at each call. */
const char *api_time(int64_t unix_ms, char out[32])
{
	time_t s = (time_t)(unix_ms / 1000);
	struct tm tm = {0};
	char *p = out;

	(void)gmtime_r(&s, &tm);
	p = put_digits(p, (unsigned)tm.tm_year + 1900, 4, '-');
	p = put_digits(p, (unsigned)tm.tm_mon + 1, 2, '-');
	p = put_digits(p, (unsigned)tm.tm_mday, 2, 'T');
	p = put_digits(p, (unsigned)tm.tm_hour, 2, ':');
	p = put_digits(p, (unsigned)tm.tm_min, 2, ':');
	p = put_digits(p, (unsigned)tm.tm_sec, 2, '.');
	p = put_digits(p, (unsigned)(unix_ms % 1000), 3, 'Z');
	*p = '\0';
	return out;
}

int64_t api_now_unix_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
