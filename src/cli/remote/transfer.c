/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/remote/transfer.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE       (128u << 10)
#define REFUSAL_MAX 65536
#define SHOW_MS     100

struct run {
	struct transfer *t;
	const char *name;
	int fd;
	struct client_stream *stream; /* NULL: over */
	struct loop_timer feed;       /* upload: read and send the next pieces */
	int status;
	struct buf refusal;
	struct err err;
	bool is_done, is_fed;
	uint64_t shown_ms;
};

static uint64_t now_ms(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void count(struct run *r, size_t n)
{
	uint64_t now;
	char quoted[64];

	r->t->bytes += n;
	if (r->t->is_quiet)
		return;
	now = now_ms();
	if (now - r->shown_ms < SHOW_MS)
		return;
	r->shown_ms = now;
	(void)fprintf(stderr, "\r\033[K%10.1f MB  %s", (double)r->t->bytes / 1e6,
		text_quote(r->name, quoted, sizeof(quoted)));
}

void transfer_done(const struct transfer *t)
{
	if (!t->is_quiet)
		(void)fprintf(stderr, "\r\033[K");
}

static void fail(struct run *r, int code, const char *what)
{
	if (r->err.code == 0)
		(void)err_set(&r->err, code, "%s: %s", what, strerrordesc_np(code));
	r->is_done = true;
}

static void on_head(void *arg, int status, const struct h1_head *head)
{
	struct run *r = arg;

	(void)head;
	r->status = status;
}

static void get_data(void *arg, const char *p, size_t n)
{
	struct run *r = arg;

	if (r->status != 200) {
		(void)buf_add(&r->refusal, p, n);
		return;
	}
	count(r, n);
	while (n > 0 && !r->is_done) {
		ssize_t k = write(r->fd, p, n);

		if (k < 0 && errno != EINTR && errno != EAGAIN)
			fail(r, errno, "write");
		if (k > 0) {
			p += k;
			n -= (size_t)k;
		}
	}
}

static void put_data(void *arg, const char *p, size_t n)
{
	struct run *r = arg;

	(void)buf_add(&r->refusal, p, n);
}

static void on_end(void *arg, const struct err *err)
{
	struct run *r = arg;

	r->stream = NULL;
	if (r->is_done)
		return;
	if (err->code)
		r->err = *err;
	else if (r->status != 200)
		(void)client_refused(
			r->status, buf_data(&r->refusal), buf_len(&r->refusal), &r->err);
	r->is_done = true;
}

/* Send until the queue is full; the rest when it has drained. */
static void feed(struct run *r)
{
	while (r->stream && !r->is_done && !r->is_fed && client_queued(r->stream) < CONN_HIGH) {
		char piece[PIECE];
		ssize_t n = read(r->fd, piece, sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			fail(r, errno, "read");
			return;
		}
		if (n == 0) {
			r->is_fed = true;
			client_finish(r->stream);
			return;
		}
		client_write(r->stream, piece, (size_t)n);
		count(r, (size_t)n);
	}
	/* An answer may come while we send: let the loop look between rounds. */
	if (r->stream && !r->is_done && !r->is_fed && client_queued(r->stream) < CONN_HIGH)
		loop_timer_set(client_loop(r->t->client), &r->feed, 0);
}

static void put_drained(void *arg)
{
	feed(arg);
}

static void feed_again(struct loop_timer *t)
{
	feed((struct run *)((char *)t - offsetof(struct run, feed)));
}

static char *files_path(const struct transfer *t, const char *remote)
{
	AUTO_FREE char *path = client_escape(remote);
	AUTO_FREE char *user = t->user ? client_escape(t->user) : NULL;

	return text_format("/files?path=%s%s%s", path, user ? "&username=" : "", user ? user : "");
}

static int wait(struct run *r, struct err *err)
{
	int q = 0;

	while (q >= 0 && !r->is_done)
		q = loop_once(client_loop(r->t->client), -1, err);
	loop_timer_cancel(client_loop(r->t->client), &r->feed);
	if (r->stream)
		client_drop(r->stream);
	buf_done(&r->refusal);
	if (q >= 0 && r->err.code) {
		*err = r->err;
		q = -err->code;
	}
	if (q >= 0)
		r->t->files++;
	return q < 0 ? q : 0;
}

int transfer_get(struct transfer *t, const char *remote, int fd, struct err *err)
{
	static const struct client_events events = {on_head, get_data, NULL, on_end};
	AUTO_FREE char *path = files_path(t, remote);
	const char *fields[6];
	struct run r = {.t = t, .name = remote, .fd = fd, .refusal = {.cap = REFUSAL_MAX}};
	struct client_request q = {.method = "GET", .path = path, .fields = fields};
	int k;

	client_box_fields(t->box, NULL, fields);
	k = client_start(t->client, &q, &events, &r, &r.stream, err);
	return k < 0 ? k : wait(&r, err);
}

int transfer_put(struct transfer *t, int fd, const char *remote, struct err *err)
{
	static const struct client_events events = {on_head, put_data, put_drained, on_end};
	AUTO_FREE char *path = files_path(t, remote);
	const char *fields[6];
	struct run r = {.t = t,
		.name = remote,
		.fd = fd,
		.refusal = {.cap = REFUSAL_MAX},
		.feed = {.fire = feed_again}};
	struct client_request q = {.method = "POST",
		.path = path,
		.fields = fields,
		.type = "application/octet-stream",
		.is_streaming = true};
	int k;

	client_box_fields(t->box, NULL, fields);
	k = client_start(t->client, &q, &events, &r, &r.stream, err);
	if (k < 0)
		return k;
	feed(&r);
	return wait(&r, err);
}
