/* SPDX-License-Identifier: Apache-2.0 */

/*
 * io/mux against a peer that sends anything: both roles, channels that echo, drop and end inside
 * their callbacks. Nobody hears from a channel twice after its end, and no credit is exceeded.
 */
#include "io/mux.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHANNELS 16

struct ear {
	struct mux_channel ch;
	bool is_used, is_closed;
	size_t came;
};

struct world {
	struct ear ears[CHANNELS];
	bool is_closed;
};

static void message(struct mux_channel *c, uint16_t kind, struct frame_reader *body)
{
	struct ear *e = c->arg;

	assert(!e->is_closed);
	(void)body;
	if (kind == 1)
		mux_message(c, 2, NULL);
	if (kind == 2)
		mux_end(c, 5, "enough");
	if (kind == 3) {
		mux_drop(c);
		e->is_closed = true;
	}
	if (kind == 4)
		mux_close(c->mux);
}

static void data_came(struct mux_channel *c, uint8_t stream, const char *p, size_t n)
{
	struct ear *e = c->arg;

	assert(!e->is_closed);
	e->came += n;
	assert(stream == 9 || e->came <= MUX_CREDIT);
	if (stream == 9) {
		e->came -= n;
		mux_consumed(c, n);
	}
	(void)mux_data(c, stream, p, n);
}

static void ended(struct mux_channel *c, int code, const char *why)
{
	assert(!((struct ear *)c->arg)->is_closed && code >= 0 && why);
	if (code == 7)
		mux_end(c, 0, NULL);
}

static void closed(struct mux_channel *c, int code)
{
	struct ear *e = c->arg;

	assert(!e->is_closed && !c->mux && (code == 0 || code == ECONNRESET));
	e->is_closed = true;
}

static const struct mux_events calls = {.message = message,
	.data = data_came,
	.ended = ended,
	.closed = closed};

static void opened(struct mux *m, uint32_t id, uint16_t kind, struct frame_reader *body, void *arg)
{
	struct world *w = arg;

	(void)body;
	if (kind == 1) {
		mux_reply(m, id, 1, NULL);
		return;
	}
	for (size_t i = 0; i < CHANNELS; i++) {
		if (w->ears[i].is_used)
			continue;
		w->ears[i].is_used = true;
		mux_accept(m, id, &w->ears[i].ch, &calls, &w->ears[i]);
		return;
	}
}

static void mux_gone(struct mux *m, const struct err *why, void *arg)
{
	struct world *w = arg;

	(void)m, (void)why;
	assert(!w->is_closed);
	w->is_closed = true;
}

static const struct mux_owner owner = {opened, mux_gone};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = {0};
	struct loop *loop;
	struct mux *m;
	struct err err;
	char sink[4096];
	int fds[2];

	if (size < 2)
		return 0;
	assert(loop_create(&loop, &err) == 0);
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	assert(mux_create(loop, fds[0], data[0] & 1, &owner, &w, &m, &err) == 0);
	if (data[0] & 1) {
		w.ears[0].is_used = true;
		assert(mux_open(m, &w.ears[0].ch, 9, NULL, &calls, &w.ears[0], &err) == 0);
	}
	for (size_t at = 1; at < size && !w.is_closed;) {
		size_t part = size - at < data[0] ? size - at : (data[0] ? data[0] : 1);
		ssize_t n = send(fds[1], data + at, part, MSG_NOSIGNAL);

		(void)loop_once(loop, 0, &err);
		if (n > 0)
			at += (size_t)n;
		while (read(fds[1], sink, sizeof(sink)) > 0)
			;
	}
	(void)close(fds[1]);
	for (int i = 0; i < 5; i++)
		(void)loop_once(loop, 0, &err);
	if (!w.is_closed)
		mux_close(m);
	assert(loop_free(loop) == NULL);
	for (size_t i = 0; i < CHANNELS; i++)
		assert(!w.ears[i].is_used || w.ears[i].is_closed);
	return 0;
}
