/* SPDX-License-Identifier: Apache-2.0 */

#include "io/mux.h"

#include "base/mem.h"

#include <string.h>

#define BUCKETS       64           /* of the channel table: a guest's connections are many */
#define DATA_FRAME    (64u << 10)  /* bytes per DATA frame: others' frames get in between */
#define GIVE_BACK     (256u << 10) /* consumed bytes that are worth a CREDIT frame */
#define SMALL_FRAME   1024         /* header and payload in one write up to here */
#define WHY_MAX       500
#define ERRNO_HIGHEST 4095

struct mux {
	struct loop *loop;
	struct conn *conn; /* NULL once closed */
	const struct mux_owner *owner;
	void *arg;
	struct mux_channel *table[BUCKETS]; /* by id; chained by next */
	struct mux_channel *over;           /* ended by both, `closed` not yet called */
	struct mux_channel *cursor;         /* the next to visit in a walk over the table */
	size_t count;
	size_t turn;          /* bucket that gets the queue's room first, next time */
	uint32_t next_id;     /* of ours */
	uint32_t last_theirs; /* highest they opened: ids only grow, so none is used twice */
	uint32_t opening;     /* inside `opened`, not yet settled; 0 = none */
	bool is_closed;
	struct loop_task reap; /* calls `closed` of what is over; frees a closed mux */
};

static void close_all(struct mux *m, const struct err *why);

/* --- the table --- */

static struct mux_channel **bucket(struct mux *m, uint32_t id)
{
	return &m->table[(id >> 1) % BUCKETS];
}

static struct mux_channel *find(struct mux *m, uint32_t id)
{
	for (struct mux_channel *c = *bucket(m, id); c; c = c->next)
		if (c->id == id)
			return c;
	return NULL;
}

static void unlink_from(struct mux_channel **list, struct mux_channel *c)
{
	while (*list && *list != c)
		list = &(*list)->next;
	if (*list)
		*list = c->next;
}

static void take_out(struct mux *m, struct mux_channel *c)
{
	if (m->cursor == c)
		m->cursor = c->next;
	unlink_from(bucket(m, c->id), c);
	c->next = NULL;
	m->count--;
}

static void put_in(struct mux *m, uint32_t id, struct mux_channel *c,
	const struct mux_events *events, void *arg)
{
	*c = (struct mux_channel){
		.mux = m,
		.id = id,
		.arg = arg,
		.events = events,
		.may_send = MUX_CREDIT,
		.may_come = MUX_CREDIT,
		.next = *bucket(m, id),
	};
	*bucket(m, id) = c;
	m->count++;
}

/* Both sides are done: the id is free of meaning, the owner hears of it after the batch. */
static void check_over(struct mux_channel *c)
{
	struct mux *m = c->mux;

	if (c->is_over || !c->has_ended || !c->was_ended)
		return;
	take_out(m, c);
	c->is_over = true;
	c->next = m->over;
	m->over = c;
	loop_defer(m->loop, &m->reap);
}

/* --- sending --- */

static void send_frame(
	struct mux *m, uint8_t type, uint8_t flags, uint32_t id, const void *p, size_t n)
{
	char bytes[SMALL_FRAME];

	if (!m->conn)
		return;
	frame_header(bytes, (uint32_t)n, type, flags, id);
	if (n <= sizeof(bytes) - FRAME_HEADER) {
		if (n > 0)
			memcpy(bytes + FRAME_HEADER, p, n);
		conn_write(m->conn, bytes, FRAME_HEADER + n);
		return;
	}
	conn_write(m->conn, bytes, FRAME_HEADER);
	conn_write(m->conn, p, n);
}

/* OPEN and MESSAGE: a kind, then the body. */
static int send_kind(
	struct mux *m, uint8_t type, uint32_t id, uint16_t kind, const struct frame_writer *body)
{
	struct frame_writer w = {.buf.cap = FRAME_PAYLOAD_MAX};

	if (body && body->failed)
		return -E2BIG;
	frame_put_u16(&w, kind);
	if (body && buf_len(&body->buf) > 0 &&
		buf_add(&w.buf, buf_data(&body->buf), buf_len(&body->buf)) < 0)
		w.failed = true;
	if (!w.failed)
		send_frame(m, type, 0, id, buf_data(&w.buf), buf_len(&w.buf));
	buf_done(&w.buf);
	return w.failed ? -E2BIG : 0;
}

static void send_end(struct mux *m, uint32_t id, int code, const char *why)
{
	struct frame_writer w = {0};
	size_t n = why ? strlen(why) : 0;

	frame_put_u32(&w, (uint32_t)code);
	frame_put_bytes(&w, why, n < WHY_MAX ? n : WHY_MAX);
	if (!w.failed)
		send_frame(m, FRAME_END, 0, id, buf_data(&w.buf), buf_len(&w.buf));
	buf_done(&w.buf);
}

static void send_credit(struct mux_channel *c)
{
	struct frame_writer w = {0};

	frame_put_u32(&w, c->eaten);
	if (!w.failed) {
		c->may_come += c->eaten;
		c->eaten = 0;
		send_frame(c->mux, FRAME_CREDIT, 0, c->id, buf_data(&w.buf), buf_len(&w.buf));
	}
	buf_done(&w.buf);
}

/* --- receiving --- */

static void violated(struct mux *m, const char *rule)
{
	struct err why = {0};

	(void)err_set(&why, EPROTO, "guest protocol: %s", rule);
	close_all(m, &why);
}

static void got_open(struct mux *m, const struct frame *f, struct frame_reader *r)
{
	uint16_t kind = frame_get_u16(r);

	if (r->failed || f->channel == 0 || (f->channel & 1) == (m->next_id & 1) ||
		f->channel <= m->last_theirs) {
		violated(m, "malformed open");
		return;
	}
	m->last_theirs = f->channel;
	if (m->count >= MUX_CHANNELS_MAX) {
		send_end(m, f->channel, EMFILE, "too many channels are open");
		return;
	}
	m->opening = f->channel;
	if (m->owner->opened)
		m->owner->opened(m, f->channel, kind, r, m->arg);
	if (m->opening != 0 && !m->is_closed)
		mux_refuse(m, f->channel, EPROTO, "refused");
}

static void got_data(struct mux_channel *c, const struct frame *f)
{
	if (c->was_ended || f->length > c->may_come) {
		violated(c->mux, "data without credit");
		return;
	}
	c->may_come -= f->length;
	if (f->length == 0)
		return;
	if (c->events->data)
		c->events->data(c, f->flags, f->payload, f->length);
	else
		mux_consumed(c, f->length);
}

static void got_credit(struct mux_channel *c, struct frame_reader *r)
{
	uint32_t more = frame_get_u32(r);

	/* What we sent comes back, no more: so the sum never exceeds the first grant. */
	if (!frame_ok(r) || more > MUX_CREDIT - c->may_send) {
		violated(c->mux, "malformed credit");
		return;
	}
	c->may_send += more;
	if (!c->has_ended && c->events->writable)
		c->events->writable(c);
}

static void got_end(struct mux_channel *c, struct frame_reader *r)
{
	uint32_t code = frame_get_u32(r);
	AUTO_FREE char *why = frame_get_string(r, WHY_MAX);

	if (!frame_ok(r) || code > ERRNO_HIGHEST || (c->was_ended && code == 0)) {
		violated(c->mux, "malformed end");
		return;
	}
	c->was_ended = true;
	if (!c->events->ended)
		mux_end(c, 0, NULL);
	else {
		struct mux *m = c->mux;
		uint32_t id = c->id;

		c->events->ended(c, (int)code, why);
		/* The callback may have dropped it, or freed it with the whole connection. */
		if (m->is_closed || find(m, id) != c)
			return;
	}
	if (c->mux)
		check_over(c);
}

static void got_frame(struct mux *m, const struct frame *f)
{
	struct frame_reader r = {.p = f->payload, .n = f->length};
	bool is_ours = (f->channel & 1) == (m->next_id & 1);
	struct mux_channel *c;

	if (f->type == FRAME_OPEN) {
		got_open(m, f, &r);
		return;
	}
	if (f->channel == 0 || (is_ours ? f->channel >= m->next_id : f->channel > m->last_theirs)) {
		violated(m, "a channel that was never opened");
		return;
	}
	c = find(m, f->channel);
	if (!c) /* was dropped or refused while this was under way */
		return;
	switch (f->type) {
	case FRAME_MESSAGE: {
		uint16_t kind = frame_get_u16(&r);

		if (r.failed || c->was_ended)
			violated(m, "malformed message");
		else if (c->events->message)
			c->events->message(c, kind, &r);
		return;
	}
	case FRAME_DATA: got_data(c, f); return;
	case FRAME_CREDIT: got_credit(c, &r); return;
	default: got_end(c, &r);
	}
}

static size_t conn_read(struct conn *conn, const char *p, size_t n, void *arg)
{
	struct mux *m = arg;
	size_t used = 0;

	(void)conn;
	while (used < n) {
		struct frame f;
		ssize_t r = frame_parse(p + used, n - used, &f);

		if (r < 0)
			violated(m, "malformed frame");
		if (r == 0)
			break;
		if (r > 0) {
			used += (size_t)r;
			got_frame(m, &f);
		}
		if (m->is_closed)
			return n;
	}
	return used;
}

static void conn_drained(struct conn *conn, void *arg)
{
	struct mux *m = arg;

	(void)conn;
	/* Another bucket first each time: one busy channel must not take all of the room. */
	m->turn++;
	for (size_t i = 0; i < BUCKETS && !m->is_closed; i++) {
		m->cursor = m->table[(m->turn + i) % BUCKETS];
		while (m->cursor && !m->is_closed) {
			struct mux_channel *c = m->cursor;

			m->cursor = c->next;
			if (!c->has_ended && c->events->writable)
				c->events->writable(c);
		}
	}
	m->cursor = NULL;
}

static bool conn_eof(struct conn *conn, void *arg)
{
	(void)conn, (void)arg;
	return false;
}

static void conn_closed(struct conn *conn, const struct err *err, void *arg)
{
	struct mux *m = arg;

	(void)conn;
	m->conn = NULL;
	close_all(m, err);
}

static const struct conn_events conn_calls = {
	.read = conn_read,
	.eof = conn_eof,
	.drained = conn_drained,
	.closed = conn_closed,
};

/* --- life --- */

static void reap(struct loop_task *t)
{
	struct mux *m = (struct mux *)((char *)t - offsetof(struct mux, reap));
	bool is_closed = m->is_closed; /* if only now, by a callback, this task runs once more */

	while (m->over) {
		struct mux_channel *c = m->over;

		m->over = c->next;
		c->mux = NULL;
		c->next = NULL;
		c->events->closed(c, 0);
	}
	if (is_closed)
		free(m);
}

static void close_all(struct mux *m, const struct err *why)
{
	if (m->is_closed)
		return;
	m->is_closed = true;
	m->cursor = NULL;
	if (m->conn)
		conn_abort(TAKE_PTR(m->conn));
	for (size_t i = 0; i < BUCKETS; i++) {
		while (m->table[i]) {
			struct mux_channel *c = m->table[i];

			take_out(m, c);
			c->mux = NULL;
			c->events->closed(c, ECONNRESET);
		}
	}
	/* What was over stays for reap(): its owners may be further up the stack. */
	if (m->owner->closed)
		m->owner->closed(m, why, m->arg);
	loop_defer(m->loop, &m->reap);
}

int mux_create(struct loop *l, int take_fd, bool is_client, const struct mux_owner *owner,
	void *arg, struct mux **ret, struct err *err)
{
	struct mux *m = MEM_NEW(struct mux);
	int r;

	m->loop = l;
	m->owner = owner;
	m->arg = arg;
	m->next_id = is_client ? 1 : 2;
	m->reap.run = reap;
	r = conn_create(l, take_fd, NULL, !is_client, NULL, &conn_calls, m, &m->conn, err);
	if (r < 0) {
		free(m);
		return r;
	}
	*ret = m;
	return 0;
}

void mux_close(struct mux *m)
{
	struct err why = {0};

	close_all(m, &why);
}

size_t mux_queued(const struct mux *m)
{
	return m->conn ? conn_queued(m->conn) : 0;
}

size_t mux_channels(const struct mux *m)
{
	return m->count;
}

bool mux_has_room(const struct mux *m)
{
	/* "More than", as conn counts it: `drained` is promised only above the mark. */
	return mux_queued(m) <= CONN_HIGH;
}

int mux_open(struct mux *m, struct mux_channel *c, uint16_t kind, const struct frame_writer *body,
	const struct mux_events *events, void *arg, struct err *err)
{
	uint32_t id = m->next_id;

	if (m->is_closed)
		return err_set(err, ECONNRESET, "the connection to the guest is gone");
	if (m->count >= MUX_CHANNELS_MAX)
		return err_set(err, EMFILE, "more than %d requests at once", MUX_CHANNELS_MAX);
	if (id > UINT32_MAX - 2)
		return err_set(err, ECONNRESET, "the connection to the guest is used up");
	if (send_kind(m, FRAME_OPEN, id, kind, body) < 0)
		return err_set(
			err, E2BIG, "the request is longer than %u bytes", FRAME_PAYLOAD_MAX);
	m->next_id += 2;
	put_in(m, id, c, events, arg);
	return 0;
}

void mux_accept(struct mux *m, uint32_t id, struct mux_channel *c, const struct mux_events *events,
	void *arg)
{
	m->opening = 0;
	put_in(m, id, c, events, arg);
}

void mux_reply(struct mux *m, uint32_t id, uint16_t kind, const struct frame_writer *body)
{
	m->opening = 0;
	if (send_kind(m, FRAME_MESSAGE, id, kind, body) < 0)
		send_end(m, id, E2BIG, "the answer is longer than a frame");
	else
		send_end(m, id, 0, NULL);
}

void mux_refuse(struct mux *m, uint32_t id, int code, const char *why)
{
	m->opening = 0;
	send_end(m, id, code, why);
}

void mux_message(struct mux_channel *c, uint16_t kind, const struct frame_writer *body)
{
	if (!c->mux || c->has_ended)
		return;
	if (send_kind(c->mux, FRAME_MESSAGE, c->id, kind, body) < 0)
		mux_end(c, E2BIG, "the message is longer than a frame");
}

size_t mux_data(struct mux_channel *c, uint8_t stream, const void *p, size_t n)
{
	size_t sent = 0;

	if (!c->mux || c->has_ended)
		return 0;
	if (n > c->may_send)
		n = c->may_send;
	while (sent < n && mux_has_room(c->mux)) {
		size_t part = n - sent < DATA_FRAME ? n - sent : DATA_FRAME;

		send_frame(c->mux, FRAME_DATA, stream, c->id, (const char *)p + sent, part);
		sent += part;
		c->may_send -= (uint32_t)part;
	}
	return sent;
}

void mux_consumed(struct mux_channel *c, size_t n)
{
	if (!c->mux || c->is_over)
		return;
	c->eaten += (uint32_t)n;
	/* Nobody waits for credit of a side that is done. */
	if (c->eaten >= GIVE_BACK && !c->was_ended)
		send_credit(c);
}

void mux_end(struct mux_channel *c, int code, const char *why)
{
	if (!c->mux || c->has_ended)
		return;
	c->has_ended = true;
	send_end(c->mux, c->id, code, why);
	check_over(c);
}

void mux_drop(struct mux_channel *c)
{
	struct mux *m = c->mux;

	if (!m)
		return;
	if (c->is_over)
		unlink_from(&m->over, c);
	else {
		/* Also after our END: without it the other side would keep sending, or stall. */
		send_end(m, c->id, ECANCELED, "not wanted any more");
		take_out(m, c);
	}
	c->mux = NULL;
	c->next = NULL;
}
