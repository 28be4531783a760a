/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/files_get - GET /files: one file, whole or a range of it.
 *
 * The guest says the size, then sends the bytes; a file that changes meanwhile cannot make the
 * answer longer than announced, and a shorter one breaks off. The type is always
 * application/octet-stream with nosniff: a sandbox's HTML must not run on the API's origin.
 */
#include "api/e2b/files.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

struct download {
	struct envd_call call;
	struct signature_claim claim;
	struct files_range range;
	bool has_range;
	bool is_sizing; /* the channel asks only for the size: a suffix needs it first */
	uint64_t left;  /* bytes still to be sent */
	size_t held;    /* bytes written whose credit we keep back */
};

static struct download *of(struct envd_call *c)
{
	return (struct download *)c;
}

static void drained(struct http_request *r)
{
	struct envd_call *c = r->state;

	if (c && !c->is_over)
		envd_unhold(c, &of(c)->held);
}

static void ask(struct download *d)
{
	struct frame_writer w = {0};
	uint64_t from = 0, length = UINT64_MAX;

	if (d->has_range && !d->is_sizing) {
		from = d->range.from;
		length = d->range.to == UINT64_MAX ? UINT64_MAX : d->range.to - from + 1;
	}
	frame_put_string(&w, d->call.user);
	frame_put_string(&w, d->claim.path);
	if (!d->is_sizing) {
		frame_put_u64(&w, from);
		frame_put_u64(&w, length);
	}
	if (envd_ask(&d->call, d->is_sizing ? GUEST_STAT : GUEST_READ, &w, ENVD_ASK_ONLY) == 0)
		envd_call_deadline(&d->call, ENVD_PATIENCE_MS);
}

/* ---- the head ---- */

/* inline; filename=… as RFC 6266 has it: quoted if it is plain, else percent-encoded UTF-8. */
static void put_disposition(struct http_request *r, const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_.~ ()+,=@#!$&^{}";
	AUTO_BUF struct buf b = {0};

	if (strspn(name, plain) == strlen(name)) {
		(void)buf_addf(&b, "inline; filename=\"%s\"", name);
	} else {
		(void)buf_addf(&b, "inline; filename*=utf-8''");
		for (const char *p = name; *p; p++) {
			if (strchr("-_.~", *p) || (*p >= 'a' && *p <= 'z') ||
				(*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))
				(void)buf_add(&b, p, 1);
			else
				(void)buf_addf(&b, "%%%02X", (unsigned char)*p);
		}
	}
	if (buf_add(&b, "", 1) >= 0)
		http_field(r, "Content-Disposition", buf_data(&b));
}

static void put_modified(struct http_request *r, uint64_t mtime_ns)
{
	time_t seconds = (time_t)(mtime_ns / 1000000000u);
	char text[64];
	struct tm tm;

	if (seconds > 0 && gmtime_r(&seconds, &tm) && tm.tm_year < 8100 &&
		strftime(text, sizeof(text), "%a, %d %b %Y %T GMT", &tm) > 0)
		http_field(r, "Last-Modified", text);
}

/* 416: nothing of the range is there. */
static void refuse_range(struct download *d, uint64_t size)
{
	struct http_request *r = d->call.r;
	char text[48];

	(void)snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
	http_field(r, "Content-Range", text);
	envd_call_end(&d->call);
	envd_plain_error(r, 416, "the range is outside of the file");
}

static void begin(struct download *d, const struct guest_entry *e)
{
	uint64_t from = d->has_range ? d->range.from : 0;
	struct http_request *r = d->call.r;
	char text[96];

	if (d->has_range && from >= e->size) {
		refuse_range(d, e->size);
		return;
	}
	d->left = e->size - from;
	if (d->has_range && d->range.to != UINT64_MAX && d->range.to - from + 1 < d->left)
		d->left = d->range.to - from + 1;
	if (d->has_range) {
		(void)snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
			from + d->left - 1, e->size);
		http_field(r, "Content-Range", text);
	}
	put_disposition(r, e->name);
	put_modified(r, e->mtime_ns);
	http_field(r, "Accept-Ranges", "bytes");
	http_field(r, "X-Content-Type-Options", "nosniff");
	/* From here on the client sets the pace. */
	loop_timer_cancel(d->call.api->loop, &d->call.deadline);
	http_set_drained(r, drained);
	http_begin(r, d->has_range ? 206 : 200, "application/octet-stream", (int64_t)d->left);
}

/* The size is known: the suffix becomes a range, and the bytes are asked for. */
static void sized(struct download *d, const struct guest_entry *e)
{
	uint64_t n = d->range.from < e->size ? d->range.from : e->size;

	if (n == 0) {
		refuse_range(d, e->size);
		return;
	}
	d->range = (struct files_range){.from = e->size - n, .to = e->size - 1};
	d->is_sizing = false;
	mux_drop(&d->call.channel);
	ask(d);
}

static void message(struct envd_call *c, uint16_t kind, struct frame_reader *body)
{
	struct download *d = of(c);
	struct guest_entry e = {0};

	if (kind != MSG_ENTRY || c->r->status != 0 || !guest_entry_get(body, &e) ||
		e.size > INT64_MAX)
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
	else if (d->is_sizing)
		sized(d, &e);
	else
		begin(d, &e);
	guest_entry_done(&e);
}

/* ---- the bytes ---- */

static void data(struct envd_call *c, uint8_t stream, const char *p, size_t n)
{
	struct download *d = of(c);

	(void)stream;
	if (c->r->status == 0) {
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
		return;
	}
	if (!envd_hold(c, n, &d->held))
		return;
	if (n > d->left)
		n = (size_t)d->left; /* it grew */
	d->left -= n;
	http_write(c->r, p, n);
	envd_unhold(c, &d->held);
}

static void ended(struct envd_call *c, int code, const char *why)
{
	struct http_request *r = c->r;
	const char *path = of(c)->claim.path;

	if (code == ENOENT && r->status == 0) {
		envd_fail(c, CONNECT_NOT_FOUND, "path '%s' does not exist", path);
	} else if (code == EISDIR && r->status == 0) {
		envd_fail(c, CONNECT_INVALID_ARGUMENT, "path '%s' is a directory", path);
	} else if (code != 0) {
		envd_fail_errno(c, code, why);
	} else if (r->status == 0) {
		if (!of(c)->is_sizing)
			envd_fail(c, CONNECT_INTERNAL, "the guest gave no answer");
	} else {
		envd_call_end(c);
		http_end(r); /* breaks off if something is missing */
	}
}

static void linked(struct envd_call *c)
{
	ask(of(c));
}

void envd_files_get(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct download),
		.linked = linked,
		.message = message,
		.data = data,
		.ended = ended,
	};
	const struct h1_field *range = h1_find(&r->head, "range");
	struct signature_claim claim;
	struct download *d;

	if (!files_authorize(r, sb, "read", &claim))
		return;
	d = (struct download *)envd_call_start(a, r, sb, ENVD_PLAIN, &ops);
	d->claim = claim;
	(void)snprintf(d->call.user, sizeof(d->call.user), "%s", claim.user);
	/* We keep no validators: a range that depends on one is the whole file. */
	if (range && !h1_find(&r->head, "if-range"))
		d->has_range = files_range_get(range->value, &d->range);
	d->is_sizing = d->has_range && d->range.is_suffix;
	envd_call_link(&d->call);
}
