/* SPDX-License-Identifier: Apache-2.0 */

/* Streams into rings, rings to readers: invariants 2 and 4 of proc.h. */
#include "guest/proc.h"

#include "base/mem.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#define TURN_MAX (256u << 10) /* bytes of one stream per turn: others want theirs too */

/* --- readers --- */

static void send_lost(struct proc_reader *r, int stream, uint64_t to)
{
	struct frame_writer w = {0};

	frame_put_u8(&w, (uint8_t)stream);
	frame_put_u64(&w, r->at[stream]);
	frame_put_u64(&w, to);
	mux_message(&r->ch, MSG_LOST, &w);
	buf_done(&w.buf);
	r->at[stream] = to;
}

static void send_started(struct proc_reader *r)
{
	struct guest_started v = {.pid = (uint32_t)r->proc->pid, .is_new = r->is_new};
	struct frame_writer w = {0};

	memcpy(v.offset, r->at, sizeof(v.offset));
	guest_started_put(&w, &v);
	mux_message(&r->ch, MSG_STARTED, &w);
	buf_done(&w.buf);
	r->is_told = true;
}

static void detach(struct proc_reader *r)
{
	struct proc *p = r->proc;

	if (!p)
		return;
	for (struct proc_reader **at = &p->readers; *at; at = &(*at)->next) {
		if (*at == r) {
			*at = r->next;
			break;
		}
	}
	r->proc = NULL;
	proc_update_streams(p); /* nobody else may be holding it back now */
}

/* False: it cannot take more now. */
static bool send_stream(struct proc_reader *r, int stream)
{
	struct ring *ring = &r->proc->out[stream].ring;

	if (r->at[stream] < ring_start(ring))
		send_lost(r, stream, ring_start(ring));
	while (r->at[stream] < ring->end) {
		size_t n, sent;
		const char *p = ring_piece(ring, r->at[stream], &n);

		sent = mux_data(&r->ch, (uint8_t)stream, p, n);
		r->at[stream] += sent;
		if (sent < n)
			return false;
	}
	return true;
}

static void send_exit(struct proc_reader *r)
{
	struct frame_writer w = {0};

	guest_exit_put(&w, &r->proc->exit);
	mux_message(&r->ch, MSG_EXIT, &w);
	buf_done(&w.buf);
	mux_end(&r->ch, 0, NULL);
}

/* Everything this reader may have now. True: it got its exit and is to be detached. */
static bool pump(struct proc_reader *r)
{
	bool has_all = true;

	if (!r->is_told) {
		if (r->proc->state == PROC_STARTING)
			return false;
		send_started(r);
	}
	for (int i = 0; i < PROC_STREAMS; i++)
		has_all = send_stream(r, i) && has_all;
	if (!has_all || r->proc->state != PROC_ENDED)
		return false;
	send_exit(r);
	return true;
}

static void reader_writable(struct mux_channel *c)
{
	struct proc_reader *r = c->arg;

	if (!r->proc)
		return;
	if (pump(r))
		detach(r);
	else
		proc_update_streams(r->proc);
}

static void reader_ended(struct mux_channel *c, int code, const char *why)
{
	struct proc_reader *r = c->arg;

	(void)why;
	if (code == 0) /* it only has nothing to say */
		return;
	detach(r);
	mux_end(c, 0, NULL);
}

static void reader_closed(struct mux_channel *c, int code)
{
	struct proc_reader *r = c->arg;

	(void)code;
	detach(r);
	free(r);
}

static const struct mux_events reader_calls = {
	.writable = reader_writable,
	.ended = reader_ended,
	.closed = reader_closed,
};

int proc_attach(struct request *q, struct proc *p, const struct guest_attach *how, bool is_new,
	struct err *err)
{
	struct proc_reader *r;

	for (int i = 0; i < PROC_STREAMS; i++)
		if (how->from == GUEST_FROM_OFFSET && how->offset[i] > p->out[i].ring.end)
			return err_set(err, EINVAL, "the offset lies behind the end of the output");
	r = MEM_NEW(struct proc_reader);
	for (int i = 0; i < PROC_STREAMS; i++) {
		if (how->from == GUEST_FROM_NOW)
			r->at[i] = p->out[i].ring.end;
		else if (how->from == GUEST_FROM_OFFSET)
			r->at[i] = how->offset[i];
	}
	r->is_new = is_new;
	r->proc = p;
	r->next = p->readers;
	p->readers = r;
	mux_accept(q->mux, q->id, &r->ch, &reader_calls, r);
	if (pump(r))
		detach(r);
	return 0;
}

void proc_tell_readers(struct proc *p)
{
	struct proc_reader *next;

	for (struct proc_reader *r = p->readers; r; r = next) {
		next = r->next;
		if (pump(r))
			detach(r);
	}
}

void proc_fail_readers(struct proc *p, const struct err *err)
{
	while (p->readers) {
		struct proc_reader *r = p->readers;

		p->readers = r->next;
		r->proc = NULL;
		mux_end(&r->ch, err->code, err->msg);
	}
}

/* --- streams --- */

/* The oldest byte that must stay: what some reader has not been sent. */
static uint64_t keep_from(const struct proc *p, int stream)
{
	uint64_t from = p->out[stream].ring.end;

	for (const struct proc_reader *r = p->readers; r; r = r->next)
		if (r->at[stream] < from)
			from = r->at[stream];
	return from;
}

/* Bytes read, 0 at the end, -EAGAIN: nothing there, or no room. */
static ssize_t read_once(struct proc_stream *s, size_t most)
{
	int stream = (int)(s - s->proc->out);
	size_t room;
	char *at = ring_space(&s->ring, keep_from(s->proc, stream), &room);
	ssize_t n;

	if (!at)
		return -ENOBUFS;
	do
		n = read(s->watch.fd, at, room < most ? room : most);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		/* A terminal whose last user is gone says EIO. */
		return errno == EAGAIN ? -EAGAIN : 0;
	ring_commit(&s->ring, (size_t)n);
	return n;
}

static void read_stream(struct proc_stream *s)
{
	struct proc *p = s->proc;
	size_t got = 0;
	ssize_t n = 1;

	while (n > 0 && got < TURN_MAX) {
		n = read_once(s, TURN_MAX - got);
		if (n > 0)
			got += (size_t)n;
		/* A full ring may have been emptied to the readers: then there is room again. */
		if (n == -ENOBUFS && got > 0) {
			proc_tell_readers(p);
			got = TURN_MAX;
		}
	}
	if (got > 0)
		guest_active(p->g);
	if (n == 0)
		proc_stream_close(s);
	proc_tell_readers(p);
	proc_update_streams(p);
	proc_check_end(p);
}

static void stream_ready(struct loop_watch *w, uint32_t events)
{
	(void)events;
	read_stream(OWNER_OF(w, struct proc_stream, watch));
}

void proc_stream_open(struct proc *p, int stream, int take_fd)
{
	struct proc_stream *s = &p->out[stream];
	struct err err;

	s->watch.fd = take_fd;
	s->watch.ready = stream_ready;
	if (loop_watch_set(p->g->loop, &s->watch, EPOLLIN, &err) < 0)
		proc_stream_close(s);
}

void proc_stream_close(struct proc_stream *s)
{
	struct err err;

	if (s->watch.fd < 0)
		return;
	(void)loop_watch_set(s->proc->g->loop, &s->watch, 0, &err);
	closep(&s->watch.fd);
}

void proc_update_streams(struct proc *p)
{
	struct err err;

	for (int i = 0; i < PROC_STREAMS; i++) {
		struct proc_stream *s = &p->out[i];
		bool is_full = s->ring.size >= GUEST_RING ||
			       p->g->ring_bytes >= GUEST_RINGS_MAX - GUEST_RING;
		bool has_room = !is_full || s->ring.size == 0 || s->ring.len < s->ring.size ||
				keep_from(p, i) > ring_start(&s->ring);

		if (s->watch.fd < 0)
			continue;
		if (loop_watch_set(p->g->loop, &s->watch, has_room ? EPOLLIN : 0, &err) < 0)
			proc_stream_close(s);
	}
}

void proc_drain_streams(struct proc *p)
{
	for (int i = 0; i < PROC_STREAMS; i++) {
		size_t got = 0;

		/* A pipe holds 64 KiB, or 1 MiB if somebody asked for it: more came later. */
		while (p->out[i].watch.fd >= 0 && got < GUEST_RING) {
			ssize_t n = read_once(&p->out[i], GUEST_RING);

			if (n <= 0)
				break;
			got += (size_t)n;
		}
		proc_stream_close(&p->out[i]);
	}
}
