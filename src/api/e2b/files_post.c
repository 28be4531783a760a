/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/files_post - POST /files: files into a sandbox, as a form or as raw bytes, maybe gzipped.
 *
 *   body --(inflate)--> bytes --(multipart)--> parts --> one GUEST_WRITE channel after the other
 *
 * Each stage takes what the next one has room for; what it leaves waits in a buffer, and while
 * anything waits no more of the body is read. So an upload of any size holds a few hundred
 * kilobytes here. The guest writes beside the target and renames: a failure leaves the old file.
 *
 * A file's state:  NONE --open--> OPEN --all sent, END--> CLOSING --entry, END--> NONE
 */
#include "api/e2b/files.h"
#include "api/e2b/json_text.h"
#include "api/e2b/multipart.h"
#include "base/mem.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

#define INFLATE_STEP     (64u << 10)
#define INFLATE_TURN     32 /* steps before others get their turn */
#define UPLOAD_FILES_MAX 1000
#define METADATA_MAX     4096 /* all keys and values of a file: what ext4 can hold */
#define METADATA_KEY_MAX 246  /* of an xattr's 255, less "user.e2b." */

enum file_state { FILE_NONE, FILE_OPEN, FILE_CLOSING };

struct upload {
	struct envd_call call;
	struct signature_claim claim;
	struct multipart form;
	bool is_form;
	bool is_part_ours; /* the part we are in is a file */
	bool is_gzip;
	bool has_more;    /* zlib holds output that did not fit its last step */
	bool is_inflated; /* the gzip stream stands at the end of a member */
	bool is_whole;    /* the body was read to its end */
	bool is_paused;
	struct loop_timer turn; /* more to inflate, after the others */
	enum file_state state;
	bool has_entry; /* CLOSING: the guest named what it wrote */
	z_stream z;
	uint64_t inflated; /* bytes so far */
	struct buf in;     /* of the body, not yet looked at */
	struct buf plain;  /* inflated, not yet looked at */
	struct buf hold;   /* of the file, not yet taken by the guest */
	struct buf out;    /* the answer so far */
	struct strv paths; /* as given, to refuse the same one twice */
	char **metadata;   /* "key", "value", …; owned */
	size_t files;
};

static struct upload *of(struct envd_call *c)
{
	return (struct upload *)c;
}

static void pump(struct upload *u);

/* ---- one file ---- */

static bool is_new_path(struct upload *u, const char *path)
{
	struct err err = {0};

	if (strv_has(&u->paths, path)) {
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT,
			"you cannot upload multiple files to the same path '%s' in one upload "
			"request, only the first specified file was uploaded",
			path);
		return false;
	}
	if (u->paths.n >= UPLOAD_FILES_MAX || strv_add(&u->paths, path, &err) < 0) {
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT, "more than %d files in one request",
			UPLOAD_FILES_MAX);
		return false;
	}
	return true;
}

static void open_file(struct upload *u, const char *path)
{
	struct guest_write write = {.user = u->call.user, .metadata = u->metadata};
	struct frame_writer w = {0};

	if (!is_new_path(u, path))
		return;
	memcpy(&write.path, &path, sizeof(path)); /* only read; the codec's struct has no const */
	guest_write_put(&w, &write);
	u->has_entry = false;
	if (envd_ask(&u->call, GUEST_WRITE, &w, ENVD_ASK_AND_SEND) == 0)
		u->state = FILE_OPEN;
}

/* Send what the guest takes. True: nothing is left. */
static bool flush(struct upload *u)
{
	while (buf_len(&u->hold) > 0) {
		size_t n = mux_data(
			&u->call.channel, GUEST_BYTES, buf_data(&u->hold), buf_len(&u->hold));

		if (n == 0)
			return false;
		buf_eat(&u->hold, n);
	}
	return true;
}

static void write_file(struct upload *u, const char *p, size_t n)
{
	size_t sent = 0, now;

	while (sent < n && (now = mux_data(&u->call.channel, GUEST_BYTES, p + sent, n - sent)) > 0)
		sent += now;
	if (sent < n && buf_add(&u->hold, p + sent, n - sent) < 0)
		envd_fail(&u->call, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
}

static void close_file(struct upload *u)
{
	u->state = FILE_CLOSING;
	mux_end(&u->call.channel, 0, NULL);
	envd_call_deadline(&u->call, ENVD_PATIENCE_MS);
}

static void message(struct envd_call *c, uint16_t kind, struct frame_reader *body)
{
	struct upload *u = of(c);
	struct guest_entry e = {0};
	bool ok = kind == MSG_ENTRY && u->state == FILE_CLOSING && !u->has_entry &&
		  guest_entry_get(body, &e) &&
		  buf_addf(&u->out, "%s{\"path\":", u->files > 0 ? "," : "") >= 0 &&
		  json_text_add(&u->out, e.path) >= 0 && buf_add(&u->out, ",\"name\":", 8) >= 0 &&
		  json_text_add(&u->out, e.name) >= 0 &&
		  buf_add(&u->out, ",\"type\":\"file\"", 14) >= 0 &&
		  envd_metadata_add(&u->out, e.metadata) >= 0 && buf_add(&u->out, "}", 1) >= 0;

	guest_entry_done(&e);
	u->has_entry = true;
	u->files++;
	loop_timer_cancel(c->api->loop, &c->deadline); /* it answers */
	if (!ok)
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
}

static void refused(struct upload *u, int code, const char *why)
{
	const char *path = u->paths.n > 0 ? u->paths.v[u->paths.n - 1] : "";

	if (code == ENOSPC || code == EDQUOT)
		envd_fail_errno(&u->call, code, "not enough disk space available");
	else if (code == EISDIR)
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT, "path is a directory: %s", path);
	else
		envd_fail_errno(&u->call, code, why);
}

static void ended(struct envd_call *c, int code, const char *why)
{
	struct upload *u = of(c);

	if (code != 0) {
		refused(u, code, why);
		return;
	}
	if (u->state != FILE_CLOSING || !u->has_entry) {
		envd_fail(c, CONNECT_INTERNAL, "the guest gave no answer");
		return;
	}
	mux_drop(&c->channel);
	u->state = FILE_NONE;
	pump(u);
}

static void writable(struct envd_call *c)
{
	pump(of(c));
}

/* ---- the stages ---- */

/* Nothing may be passed on now: the guest has no room, or is finishing a file. */
static bool is_blocked(const struct upload *u)
{
	return u->call.is_over || buf_len(&u->hold) > 0 || u->state == FILE_CLOSING;
}

static void part_begins(struct upload *u)
{
	u->is_part_ours = strcmp(u->form.name, "file") == 0;
	if (!u->is_part_ours)
		return;
	if (u->claim.has_path)
		open_file(u, u->claim.path);
	else if (u->form.has_filename)
		open_file(u, u->form.filename);
	else
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT,
			"error getting multipart custom part file name: filename not found in "
			"Content-Disposition header");
}

/* Takes what it can of p[0..n); returns how much. */
static size_t take_form(struct upload *u, const char *p, size_t n)
{
	size_t at = 0;

	while (at < n && !is_blocked(u)) {
		struct multipart_event e;
		ssize_t used = multipart_next(&u->form, p + at, n - at, &e);

		if (used < 0) {
			envd_fail(&u->call, CONNECT_INVALID_ARGUMENT,
				"error reading form: the multipart body is malformed");
			break;
		}
		at += (size_t)used;
		if (e.kind == MULTIPART_PART)
			part_begins(u);
		else if (e.kind == MULTIPART_DATA && u->is_part_ours)
			write_file(u, e.p, e.n);
		else if (e.kind == MULTIPART_PART_END && u->is_part_ours)
			close_file(u);
	}
	return at;
}

static size_t take_plain(struct upload *u, const char *p, size_t n)
{
	if (is_blocked(u))
		return 0;
	if (u->is_form)
		return take_form(u, p, n);
	write_file(u, p, n);
	return n;
}

/* One step of inflating from u->in. False: it cannot go on now. */
static bool inflate_step(struct upload *u)
{
	const char *next = buf_data(&u->in);
	uint64_t disk = (uint64_t)u->call.sb->row.disk_max;
	static char room[INFLATE_STEP];
	size_t n, used;
	int r;

	if (buf_len(&u->in) == 0 && !u->has_more)
		return false;
	memcpy(&u->z.next_in, &next, sizeof(next)); /* only read; zlib's struct has no const */
	u->z.avail_in = (uInt)buf_len(&u->in);
	u->z.next_out = (Bytef *)room;
	u->z.avail_out = sizeof(room);
	r = inflate(&u->z, Z_NO_FLUSH);
	buf_eat(&u->in, buf_len(&u->in) - u->z.avail_in);
	n = sizeof(room) - u->z.avail_out;
	u->inflated += n;
	u->has_more = r == Z_OK && u->z.avail_out == 0;
	u->is_inflated = r == Z_STREAM_END;
	if (r == Z_STREAM_END)
		r = inflateReset(&u->z); /* another member may follow */
	if (r != Z_OK && r != Z_BUF_ERROR) {
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT,
			"error decompressing request body: gzip: invalid data");
		return false;
	}
	/* However small it came, it does not fit. */
	if (disk > 0 && u->inflated > disk) {
		refused(u, ENOSPC, "");
		return false;
	}
	used = take_plain(u, room, n);
	if (!u->call.is_over && used < n && buf_add(&u->plain, room + used, n - used) < 0)
		envd_fail(&u->call, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	return !u->call.is_over;
}

static void finish(struct upload *u)
{
	struct buf out;

	if (u->is_gzip && !u->is_inflated) {
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT,
			"error decompressing request body: unexpected EOF");
		return;
	}
	if (u->state == FILE_OPEN && !u->is_form) {
		close_file(u);
		return;
	}
	if (u->is_form && !u->form.is_done) {
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT, "error reading form: unexpected EOF");
		return;
	}
	out = u->out;
	u->out = (struct buf){0};
	(void)buf_add(&out, "]", 1);
	envd_reply(&u->call, buf_data(&out), buf_len(&out));
	buf_done(&out);
}

/* Move what waits in a buffer one stage on. True: the buffer is empty. */
static bool drain(struct upload *u, struct buf *from)
{
	while (buf_len(from) > 0 && !is_blocked(u))
		buf_eat(from, take_plain(u, buf_data(from), buf_len(from)));
	return !u->call.is_over && buf_len(from) == 0;
}

/* A few kilobytes can become gigabytes: not all of it at once. */
static void inflate_some(struct upload *u)
{
	int n = 0;

	while (!is_blocked(u) && buf_len(&u->plain) == 0) {
		if (n++ == INFLATE_TURN) {
			loop_timer_set(u->call.api->loop, &u->turn, 0);
			return;
		}
		if (!inflate_step(u))
			return;
	}
}

static void turn_due(struct loop_timer *t)
{
	pump((struct upload *)((char *)t - offsetof(struct upload, turn)));
}

/* As far as it goes; then read on, wait, or answer. */
static void pump(struct upload *u)
{
	bool is_empty = false;

	if (u->call.is_over || !flush(u))
		return;
	if (drain(u, &u->plain) && !is_blocked(u)) {
		if (u->is_gzip)
			inflate_some(u);
		else
			(void)drain(u, &u->in);
		is_empty = !u->call.is_over && buf_len(&u->plain) == 0 && buf_len(&u->in) == 0 &&
			   !u->has_more;
	}
	if (is_blocked(u) || !is_empty)
		return;
	if (u->is_whole) {
		finish(u);
	} else if (u->is_paused) {
		u->is_paused = false;
		loop_timer_cancel(u->call.api->loop, &u->call.deadline);
		http_resume_body(u->call.r);
	}
}

/* ---- the body ---- */

static void body_data(struct http_request *r, const char *p, size_t n, void *arg)
{
	struct upload *u = arg;
	size_t used = 0;

	(void)r;
	if (u->call.is_over)
		return;
	/* The usual way: straight through, without a copy. */
	if (!u->is_gzip && buf_len(&u->in) == 0)
		used = take_plain(u, p, n);
	if (u->call.is_over)
		return;
	if (used < n && buf_add(&u->in, p + used, n - used) < 0) {
		envd_fail(&u->call, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (u->is_gzip)
		pump(u);
	if (!u->call.is_over && !u->is_paused &&
		(is_blocked(u) || u->has_more || buf_len(&u->in) > 0 || buf_len(&u->plain) > 0)) {
		u->is_paused = true;
		envd_call_deadline(&u->call, ENVD_PATIENCE_MS); /* the guest takes nothing */
		http_pause_body(r);
	}
}

static void body_end(struct http_request *r, bool is_whole, void *arg)
{
	struct upload *u = arg;

	(void)r;
	if (u->call.is_over || !is_whole)
		return;
	u->is_whole = true;
	pump(u);
}

static void linked(struct envd_call *c)
{
	static const struct http_sink sink = {.data = body_data, .end = body_end};
	struct upload *u = of(c);

	if (!u->is_form)
		open_file(u, u->claim.path);
	if (!c->is_over)
		http_stream_body(c->r, &sink, u);
}

static void release(struct envd_call *c)
{
	struct upload *u = of(c);

	loop_timer_cancel(c->api->loop, &u->turn);
	if (u->is_gzip)
		(void)inflateEnd(&u->z);
	multipart_done(&u->form);
	buf_done(&u->in);
	buf_done(&u->plain);
	buf_done(&u->hold);
	buf_done(&u->out);
	strv_done(&u->paths);
	frame_free_strings(u->metadata);
}

/* ---- the head ---- */

/* X-Metadata-<key>: <value>; NULL is fine. A sentence if they cannot be kept. */
static const char *get_metadata(const struct http_request *r, char ***ret)
{
	static const char prefix[] = "x-metadata-";
	size_t total = 0, n = 0;
	char **v = mem_must(calloc(2 * r->head.fields_n + 1, sizeof(*v)));

	*ret = v;
	for (size_t i = 0; i < r->head.fields_n; i++) {
		const struct h1_field *f = &r->head.fields[i];
		size_t key_n = f->name.n - (sizeof(prefix) - 1);

		if (f->name.n < sizeof(prefix) ||
			strncasecmp(f->name.p, prefix, sizeof(prefix) - 1) != 0)
			continue;
		total += 9 + key_n + f->value.n;
		if (key_n > METADATA_KEY_MAX)
			return "invalid metadata: a key is longer than 246 bytes";
		if (total > METADATA_MAX)
			return "invalid metadata: total metadata size exceeds 4096 bytes";
		for (size_t k = 0; k < f->value.n; k++)
			if ((unsigned char)f->value.p[k] < 0x20 ||
				(unsigned char)f->value.p[k] > 0x7e)
				return "invalid metadata: a value contains a byte that is not "
				       "printable ASCII";
		v[n] = mem_must(strndup(f->name.p + sizeof(prefix) - 1, key_n));
		for (char *p = v[n]; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p - 'A' + 'a');
		n++;
		v[n++] = mem_must(strndup(f->value.p, f->value.n));
	}
	return NULL;
}

/* What the body is; false: answered. */
static bool get_kind(struct upload *u)
{
	const struct h1_field *type = h1_find(&u->call.r->head, "content-type");
	const struct h1_field *coding = h1_find(&u->call.r->head, "content-encoding");

	if (coding && h1_is_nocase(coding->value, "gzip")) {
		if (inflateInit2(&u->z, 16 + MAX_WBITS) != Z_OK)
			abort();
		u->is_gzip = true;
	} else if (coding && !h1_is_nocase(coding->value, "identity") && coding->value.n > 0) {
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT,
			"error decompressing request body: unsupported Content-Encoding: %.*s, "
			"supported: [gzip]",
			(int)(coding->value.n < 64 ? coding->value.n : 64), coding->value.p);
		return false;
	}
	if (type && type->value.n >= 24 &&
		strncasecmp(type->value.p, "application/octet-stream", 24) == 0) {
		if (u->claim.has_path)
			return true;
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT,
			"path query parameter is required for raw body upload");
		return false;
	}
	u->is_form = type && multipart_init(&u->form, type->value);
	if (!u->is_form)
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT,
			"unsupported content type: %.*s, expected multipart/form-data or "
			"application/octet-stream",
			type ? (int)(type->value.n < 128 ? type->value.n : 128) : 0,
			type ? type->value.p : "");
	return u->is_form;
}

void envd_files_post(struct api *a, struct http_request *r, struct sandbox *sb)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct upload),
		.linked = linked,
		.message = message,
		.writable = writable,
		.ended = ended,
		.release = release,
	};
	struct signature_claim claim;
	const char *why;
	struct upload *u;

	if (!files_authorize(r, sb, "write", &claim))
		return;
	u = (struct upload *)envd_call_start(a, r, sb, ENVD_PLAIN, &ops);
	u->claim = claim;
	u->turn.fire = turn_due;
	u->out.cap = 2u << 20;
	(void)buf_add(&u->out, "[", 1);
	(void)snprintf(u->call.user, sizeof(u->call.user), "%s", claim.user);
	why = get_metadata(r, &u->metadata);
	if (why)
		envd_fail(&u->call, CONNECT_INVALID_ARGUMENT, "%s", why);
	else if (get_kind(u))
		envd_call_link(&u->call);
}
