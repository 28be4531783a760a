/* SPDX-License-Identifier: Apache-2.0 */

/* GUEST_READ: a regular file, or a range of it, as fast as the client takes it. */
#include "guest/files.h"

#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <sys/stat.h>

struct reading {
	struct mux_channel ch;
	struct guest *g;
	int fd;        /* owned */
	uint64_t at;   /* next byte to send */
	uint64_t left; /* bytes still wanted; ~0: to the end */
};

static void finish(struct reading *r, int code, const char *why)
{
	closep(&r->fd);
	mux_end(&r->ch, code, why);
}

static void pump(struct reading *r)
{
	char *scratch = guest_scratch(r->g);
	struct err err = {0};

	while (r->fd >= 0 && r->ch.may_send > 0 && mux_has_room(r->ch.mux)) {
		size_t want = GUEST_SCRATCH;
		ssize_t n;

		if (want > r->ch.may_send)
			want = r->ch.may_send;
		if (want > r->left)
			want = (size_t)r->left;
		n = want > 0 ? pread(r->fd, scratch, want, (off_t)r->at) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			(void)err_sys(&err, "read");
			finish(r, err.code, err.msg);
		} else if (n == 0) {
			finish(r, 0, NULL);
		} else {
			(void)mux_data(&r->ch, GUEST_BYTES, scratch, (size_t)n);
			r->at += (uint64_t)n;
			if (r->left != UINT64_MAX)
				r->left -= (uint64_t)n;
		}
	}
	guest_active(r->g);
}

static void writable(struct mux_channel *c)
{
	pump(c->arg);
}

static void ended(struct mux_channel *c, int code, const char *why)
{
	struct reading *r = c->arg;

	(void)why;
	if (code != 0)
		finish(r, 0, NULL);
}

static void closed(struct mux_channel *c, int code)
{
	struct reading *r = c->arg;

	(void)code;
	closep(&r->fd);
	free(r);
}

static const struct mux_events calls = {.writable = writable, .ended = ended, .closed = closed};

static int open_regular(const char *path, int *ret, struct err *err)
{
	/* Non-blocking: a FIFO without a writer must not hold up everybody. */
	AUTO_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	char quoted[256];
	struct stat st;

	(void)text_quote(path, quoted, sizeof(quoted));
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? err_set(err, ENOENT, "path '%s' does not exist", quoted)
			       : err_sys(err, "open '%s'", quoted);
	if (fstat(fd, &st) < 0)
		return err_sys(err, "look at '%s'", quoted);
	if (S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "path '%s' is a directory", quoted);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "path '%s' is not a regular file", quoted);
	*ret = TAKE_FD(fd);
	return 0;
}

void read_request(struct request *q, struct frame_reader *body)
{
	AUTO_FD int fd = -EBADF;
	struct where w;
	struct err err = {0};
	struct frame_writer entry = {0};
	struct reading *reading;
	int r = where_get(q->g, body, &w, &err);
	uint64_t from = frame_get_u64(body), length = frame_get_u64(body);

	if (r >= 0 && (!frame_ok(body) || from > INT64_MAX))
		r = err_set(&err, EPROTO, "the request is malformed");
	if (r >= 0)
		r = open_regular(w.path, &fd, &err);
	if (r >= 0)
		r = entry_write(&w.accounts, w.path, &entry, &err);
	if (r < 0) {
		request_fail(q, &err);
	} else {
		reading = MEM_NEW(struct reading);
		reading->g = q->g;
		reading->fd = TAKE_FD(fd);
		reading->at = from;
		reading->left = length;
		mux_accept(q->mux, q->id, &reading->ch, &calls, reading);
		mux_message(&reading->ch, MSG_ENTRY, &entry);
		pump(reading);
	}
	buf_done(&entry.buf);
	where_done(&w);
}
