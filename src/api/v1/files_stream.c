/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bytes of files: GET streams one out, PUT streams one in. Neither is ever held here: a slow
 * client slows the guest down, a slow guest the client.
 */
#include "api/v1/files.h"
#include "base/mem.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

struct transfer {
	struct api *api;
	struct http_request *r; /* NULL: gone or answered */
	struct api_caller who;
	struct sandbox *sb; /* while waiting for its link */
	struct stream cut;
	struct mux_channel ch;
	uint16_t kind; /* GUEST_READ or GUEST_WRITE */
	struct frame_writer request;

	/* GET */
	bool has_begun;
	bool has_range;
	uint64_t from, length; /* of the range */
	size_t owed;
	uint64_t left; /* announced and not yet sent; ~0: chunked */

	/* PUT */
	struct buf in; /* came before the guest could take it */
	bool is_paused, is_whole;
	json_t *entry; /* of the written file */
};

#define IN_HIGH (256u << 10)

static void transfer_free(struct transfer *t)
{
	if (t->sb)
		sandbox_guest_cancel(t->sb, t);
	sandbox_stream_remove(&t->cut);
	mux_drop(&t->ch);
	buf_done(&t->request.buf);
	buf_done(&t->in);
	json_decref(t->entry);
	free(t);
}

static struct http_request *take_request(struct transfer *t)
{
	struct http_request *r = TAKE_PTR(t->r);

	if (r) {
		r->state = NULL;
		r->gone = NULL;
	}
	return r;
}

static void client_gone(struct http_request *r)
{
	struct transfer *t = r->state;

	t->r = NULL;
	transfer_free(t); /* drops the channel: an unfinished write leaves the old file */
}

static void client_cut(struct stream *s)
{
	struct transfer *t = (struct transfer *)((char *)s - offsetof(struct transfer, cut));
	struct http_request *r = take_request(t);

	if (t->has_begun)
		http_abort(r);
	else
		api_reply_error(r, 410, "sandbox_ended", "GET the sandbox for the reason",
			"the sandbox ended meanwhile");
	transfer_free(t);
}

static void fail(struct transfer *t, int code, const char *why)
{
	struct http_request *r = take_request(t);
	struct err err = {0};
	char quoted[300];

	(void)err_set(&err, code, "%s",
		why && *why ? text_quote(why, quoted, sizeof(quoted)) : strerrordesc_np(code));
	if (t->has_begun)
		http_abort(r); /* the length was promised: only a broken answer tells the truth */
	else
		api_reply_err(r, &err);
	transfer_free(t);
}

static struct transfer *transfer_new(struct api *a, struct http_request *r,
	const struct route_match *m, struct sandbox *sb, uint16_t kind)
{
	struct transfer *t = MEM_NEW(struct transfer);

	t->api = a;
	t->r = r;
	t->who = m->caller;
	t->kind = kind;
	r->state = t;
	r->gone = client_gone;
	t->cut.cut = client_cut;
	sandbox_stream_add(sb, &t->cut);
	return t;
}

/* ---- GET ---- */

/* "bytes=A-B", "bytes=A-", one range; anything else is the whole file, as RFC 9110 allows. */
static bool parse_range(const struct http_request *r, uint64_t *from, uint64_t *length)
{
	const struct h1_field *f = h1_find(&r->head, "Range");
	char text[64];
	const char *s = text + 6;
	uint64_t last = UINT64_MAX;

	if (!f || f->value.n >= sizeof(text))
		return false;
	(void)snprintf(text, sizeof(text), "%.*s", (int)f->value.n, f->value.p);
	if (!text_starts(text, "bytes=") || *s < '0' || *s > '9' || text_scan_u64(&s, from) < 0 ||
		*s++ != '-')
		return false;
	if (*s && (*s < '0' || *s > '9' || text_scan_u64(&s, &last) < 0 || *s || last < *from))
		return false;
	*length = last == UINT64_MAX ? UINT64_MAX : last - *from + 1;
	return true;
}

static void read_begin(struct transfer *t, const struct guest_entry *e)
{
	uint64_t size = e->size, n = size;
	char text[80];

	if (e->type != GUEST_FILE) {
		fail(t, e->type == GUEST_DIR ? EISDIR : EINVAL, "not a regular file");
		return;
	}
	if (t->has_range && t->from >= size) {
		struct http_request *r = take_request(t);

		(void)snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
		http_field(r, "Content-Range", text);
		api_reply_error(r, 416, "range", NULL, "the file has %" PRIu64 " bytes", size);
		transfer_free(t);
		return;
	}
	if (t->has_range) {
		n = t->length < size - t->from ? t->length : size - t->from;
		(void)snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
			t->from, t->from + n - 1, size);
		http_field(t->r, "Content-Range", text);
	}
	http_field(t->r, "Accept-Ranges", "bytes");
	t->has_begun = true;
	/* Files of /proc say 0 and have more: only their end tells their length. */
	t->left = size == 0 ? UINT64_MAX : n;
	http_begin(t->r, t->has_range ? 206 : 200, "application/octet-stream",
		size == 0 ? -1 : (int64_t)n);
}

static void read_message(struct mux_channel *ch, uint16_t kind, struct frame_reader *b)
{
	struct transfer *t = ch->arg;
	struct guest_entry e = {0};

	if (kind == MSG_ENTRY && !t->has_begun && guest_entry_get(b, &e) && frame_ok(b) &&
		e.size <= INT64_MAX)
		read_begin(t, &e);
	else
		fail(t, EPROTO, "the sandbox sent something that cannot be");
	guest_entry_done(&e);
}

static void read_data(struct mux_channel *ch, uint8_t stream, const char *p, size_t n)
{
	struct transfer *t = ch->arg;

	(void)stream;
	if (!t->has_begun) {
		fail(t, EPROTO, "the sandbox sent something that cannot be");
		return;
	}
	/* A file that grew meanwhile: what was promised, no more. */
	if (t->left != UINT64_MAX) {
		size_t take = n < t->left ? n : (size_t)t->left;

		t->left -= take;
		http_write(t->r, p, take);
	} else {
		http_write(t->r, p, n);
	}
	if (http_queued(t->r) > CONN_HIGH)
		t->owed += n;
	else
		mux_consumed(ch, n);
}

static void read_drained(struct http_request *r)
{
	struct transfer *t = r->state;

	if (t && t->owed > 0)
		mux_consumed(&t->ch, TAKE_(t->owed, 0));
}

static void read_ended(struct mux_channel *ch, int code, const char *why)
{
	struct transfer *t = ch->arg;
	struct http_request *r;

	if (code != 0 || !t->has_begun) {
		fail(t, code ? code : EPROTO, why);
		return;
	}
	r = take_request(t);
	if (t->left != 0 && t->left != UINT64_MAX)
		http_abort(r); /* it shrank */
	else
		http_end(r);
	transfer_free(t);
}

static void either_closed(struct mux_channel *ch, int code)
{
	fail(ch->arg, code ? code : ECONNRESET, "the link to the sandbox was lost");
}

static const struct mux_events read_events = {
	.message = read_message,
	.data = read_data,
	.ended = read_ended,
	.closed = either_closed,
};

/* ---- PUT ---- */

static void push(struct mux_channel *ch)
{
	struct transfer *t = ch->arg;
	size_t n = 1;

	while (n > 0 && buf_len(&t->in) > 0) {
		n = mux_data(ch, GUEST_BYTES, buf_data(&t->in), buf_len(&t->in));
		buf_eat(&t->in, n);
	}
	if (t->is_paused && buf_len(&t->in) < IN_HIGH / 2) {
		t->is_paused = false;
		http_resume_body(t->r);
	}
	if (t->is_whole && buf_len(&t->in) == 0 && !ch->has_ended)
		mux_end(ch, 0, NULL);
}

static void write_message(struct mux_channel *ch, uint16_t kind, struct frame_reader *b)
{
	struct transfer *t = ch->arg;
	struct guest_entry e = {0};

	if (kind == MSG_ENTRY && !t->entry && guest_entry_get(b, &e) && frame_ok(b))
		t->entry = v1_entry_json(&e);
	else
		fail(t, EPROTO, "the sandbox sent something that cannot be");
	guest_entry_done(&e);
}

static void write_ended(struct mux_channel *ch, int code, const char *why)
{
	struct transfer *t = ch->arg;
	struct http_request *r;

	if (code != 0 || !t->entry) {
		fail(t, code ? code : EPROTO, why);
		return;
	}
	if (t->cut.sb)
		sandbox_event(t->cut.sb, t->who.actor, "file.write", "ok",
			json_pack("{s:O*}", "path", json_object_get(t->entry, "path")));
	r = take_request(t);
	api_reply_json(r, 200, TAKE_PTR(t->entry));
	transfer_free(t);
}

static const struct mux_events write_events = {
	.message = write_message,
	.writable = push,
	.ended = write_ended,
	.closed = either_closed,
};

static void body_data(struct http_request *r, const char *p, size_t n, void *arg)
{
	struct transfer *t = r->state;
	size_t sent = 0;

	(void)arg;
	if (!t) /* answered already: the rest is dropped by the HTTP layer */
		return;
	if (t->ch.mux && buf_len(&t->in) == 0)
		sent = mux_data(&t->ch, GUEST_BYTES, p, n);
	if (sent < n && buf_add(&t->in, p + sent, n - sent) < 0) {
		fail(t, ENOMEM, NULL);
		return;
	}
	if (buf_len(&t->in) >= IN_HIGH && !t->is_paused) {
		t->is_paused = true;
		http_pause_body(r);
	}
}

static void body_end(struct http_request *r, bool is_whole, void *arg)
{
	struct transfer *t = r->state;

	(void)arg;
	if (!t || !is_whole) /* broke off: client_gone() follows and drops the channel */
		return;
	t->is_whole = true;
	if (t->ch.mux)
		push(&t->ch);
}

static const struct http_sink sink = {.data = body_data, .end = body_end};

/* ---- both ---- */

static void linked(struct sandbox *sb, int code, void *arg)
{
	struct transfer *t = arg;
	struct err err = {0};
	bool is_read = t->kind == GUEST_READ;

	t->sb = NULL;
	if (code == 0)
		code = mux_open(sb->guest, &t->ch, t->kind, &t->request,
			is_read ? &read_events : &write_events, t, &err);
	if (code < 0) {
		fail(t, -code, err.code ? err.msg : "the sandbox cannot be reached");
		return;
	}
	if (is_read)
		mux_end(&t->ch, 0, NULL);
	else
		push(&t->ch);
}

void v1_file_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct sandbox *sb = v1_sandbox(a, r, &m->caller, m->params[0]);
	struct v1_file_target target;
	struct transfer *t;
	struct err err = {0};

	if (!sb)
		return;
	if (v1_file_target(r, &target, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	t = transfer_new(a, r, m, sb, GUEST_READ);
	t->length = UINT64_MAX;
	t->has_range = parse_range(r, &t->from, &t->length);
	frame_put_string(&t->request, target.user);
	frame_put_string(&t->request, target.path);
	frame_put_u64(&t->request, t->has_range ? t->from : 0);
	frame_put_u64(&t->request, t->has_range ? t->length : UINT64_MAX);
	http_set_drained(r, read_drained);
	t->sb = sb;
	sandbox_guest(sb, linked, t);
}

static int read_mode(const struct http_request *r, uint32_t *ret, struct err *err)
{
	char text[8];

	if (!v1_query(r, "mode", "", text, sizeof(text)) ||
		strspn(text, "01234567") != strlen(text) || strlen(text) > 4)
		return err_set(err, EINVAL, "'mode' must be octal, like 644");
	*ret = 0;
	for (const char *p = text; *p; p++)
		*ret = *ret << 3 | (uint32_t)(*p - '0');
	return 0;
}

void v1_file_put(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct sandbox *sb = v1_sandbox(a, r, &m->caller, m->params[0]);
	struct v1_file_target target;
	struct guest_write w = {.user = target.user, .path = target.path};
	struct transfer *t;
	struct err err = {0};

	if (!sb)
		return;
	if (v1_file_target(r, &target, &err) < 0 || read_mode(r, &w.mode, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	t = transfer_new(a, r, m, sb, GUEST_WRITE);
	t->in.cap = 1u << 20;
	guest_write_put(&t->request, &w);
	t->sb = sb;
	http_stream_body(r, &sink, NULL);
	if (r->state == t)
		sandbox_guest(sb, linked, t);
}
