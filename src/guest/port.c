/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GUEST_PORT: a connection to a port inside, bytes both ways, each end's FIN passed on.
 *
 * 127.0.0.1 first, then ::1: a server that listens on one of them only is found.
 */
#include "guest/guest.h"

#include "base/mem.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

struct relay {
	struct mux_channel ch;
	struct guest *g;
	struct loop_watch watch; /* the socket; owned */
	struct loop_task dig;
	struct buf out; /* for the server, not yet taken */
	uint16_t port;
	bool is_v6;
	bool is_connected;
	bool at_eof;    /* the server sent FIN */
	bool want_fin;  /* the client did */
	bool has_fin;   /* and it was passed on */
	bool is_orphan; /* the channel is over; only `out` is still to be sent */
};

static void close_socket(struct relay *r)
{
	struct err err;

	if (r->watch.fd < 0)
		return;
	(void)loop_watch_set(r->g->loop, &r->watch, 0, &err);
	closep(&r->watch.fd);
}

static void give_up_out(struct relay *r)
{
	r->g->relay_bytes -= buf_len(&r->out);
	buf_done(&r->out);
}

static void fail(struct relay *r, int code, const char *why)
{
	close_socket(r);
	give_up_out(r);
	mux_end(&r->ch, code, why);
}

static void set_interest(struct relay *r)
{
	struct err err;
	uint32_t mask = 0;

	if (r->watch.fd < 0)
		return;
	if (!r->is_connected || buf_len(&r->out) > 0)
		mask |= EPOLLOUT;
	if (r->is_connected && !r->at_eof && r->ch.mux && r->ch.may_send > 0 &&
		mux_has_room(r->ch.mux))
		mask |= EPOLLIN;
	/* Without one of them the watch is off: else a reset connection would spin. */
	if (loop_watch_set(r->g->loop, &r->watch, mask, &err) < 0)
		fail(r, err.code, err.msg);
}

static void check_over(struct relay *r)
{
	if (r->at_eof && r->has_fin)
		close_socket(r); /* both directions are done; the channel ends by itself */
	else
		set_interest(r);
}

static void flush(struct relay *r)
{
	while (buf_len(&r->out) > 0) {
		ssize_t n = send(r->watch.fd, buf_data(&r->out), buf_len(&r->out), MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			fail(r, ECONNRESET, "the server inside closed the connection");
			return;
		}
		buf_eat(&r->out, (size_t)n);
		r->g->relay_bytes -= (size_t)n;
		mux_consumed(&r->ch, (size_t)n);
	}
	if (r->want_fin && !r->has_fin) {
		r->has_fin = true;
		(void)shutdown(r->watch.fd, SHUT_WR);
	}
}

static void pull(struct relay *r)
{
	char *scratch = guest_scratch(r->g);

	while (!r->at_eof && r->ch.may_send > 0 && mux_has_room(r->ch.mux)) {
		size_t want = r->ch.may_send < GUEST_SCRATCH ? r->ch.may_send : GUEST_SCRATCH;
		ssize_t n = recv(r->watch.fd, scratch, want, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			fail(r, ECONNRESET, "the server inside reset the connection");
			return;
		}
		guest_active(r->g);
		if (n > 0) {
			(void)mux_data(&r->ch, GUEST_BYTES, scratch, (size_t)n);
			continue;
		}
		r->at_eof = true;
		mux_end(&r->ch, 0, NULL);
	}
}

static int dial(struct relay *r);

static void connected(struct relay *r)
{
	int code = 0, one = 1;
	socklen_t n = sizeof(code);

	if (getsockopt(r->watch.fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0)
		code = errno;
	if (code != 0 && !r->is_v6) {
		close_socket(r);
		r->is_v6 = true;
		code = -dial(r);
		if (code == 0)
			return;
	}
	if (code != 0) {
		fail(r, ECONNREFUSED, "nothing listens on the port");
		return;
	}
	(void)setsockopt(r->watch.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	r->is_connected = true;
	mux_message(&r->ch, MSG_OK, NULL);
	flush(r);
	check_over(r);
}

static void bury(struct relay *r)
{
	close_socket(r);
	loop_defer(r->g->loop, &r->dig);
}

static void ready(struct loop_watch *w, uint32_t events)
{
	struct relay *r = OWNER_OF(w, struct relay, watch);

	if (!r->is_connected) {
		connected(r);
		return;
	}
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		flush(r);
	if (r->is_orphan) {
		if (buf_len(&r->out) == 0)
			bury(r);
		return;
	}
	if (r->watch.fd >= 0 && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		pull(r);
	if (r->watch.fd >= 0)
		check_over(r);
}

/* Start connecting to the port at the next address. Returns 0 or -errno. */
static int dial(struct relay *r)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons(r->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(r->port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	AUTO_FD int fd = socket(
		r->is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct err err;
	int done;

	if (fd < 0)
		return -errno;
	done = r->is_v6 ? connect(fd, (struct sockaddr *)&v6, sizeof(v6))
			: connect(fd, (struct sockaddr *)&v4, sizeof(v4));
	if (done < 0 && errno != EINPROGRESS)
		return -errno;
	r->watch.fd = TAKE_FD(fd);
	if (loop_watch_set(r->g->loop, &r->watch, EPOLLOUT, &err) < 0) {
		closep(&r->watch.fd);
		return -err.code;
	}
	return 0;
}

static void data(struct mux_channel *c, uint8_t stream, const char *p, size_t n)
{
	struct relay *r = c->arg;

	(void)stream;
	if (r->watch.fd < 0)
		return;
	guest_active(r->g);
	r->out.cap = MUX_CREDIT;
	if (r->g->relay_bytes + n > GUEST_RELAY_MAX || buf_add(&r->out, p, n) < 0) {
		fail(r, EAGAIN, "too much waits for servers that do not read");
		return;
	}
	r->g->relay_bytes += n;
	if (r->is_connected) {
		flush(r);
		set_interest(r);
	}
}

static void writable(struct mux_channel *c)
{
	set_interest(c->arg);
}

static void ended(struct mux_channel *c, int code, const char *why)
{
	struct relay *r = c->arg;

	(void)why;
	if (code != 0 || r->watch.fd < 0) {
		fail(r, 0, NULL);
		return;
	}
	r->want_fin = true;
	if (r->is_connected)
		flush(r);
	if (r->watch.fd >= 0 && r->is_connected)
		check_over(r);
}

static void dig(struct loop_task *t)
{
	struct relay *r = OWNER_OF(t, struct relay, dig);

	give_up_out(r);
	free(r);
}

static void closed(struct mux_channel *c, int code)
{
	struct relay *r = c->arg;

	/* Both said END, but the server may not have taken all of it yet. */
	r->is_orphan = true;
	if (code != 0 || r->watch.fd < 0 || buf_len(&r->out) == 0)
		bury(r);
}

static const struct mux_events calls = {.data = data,
	.writable = writable,
	.ended = ended,
	.closed = closed};

void port_request(struct request *q, struct frame_reader *body)
{
	struct relay *r;
	uint16_t port = frame_get_u16(body);
	int code;

	if (!frame_ok(body) || port == 0) {
		request_malformed(q);
		return;
	}
	r = MEM_NEW(struct relay);
	r->g = q->g;
	r->port = port;
	r->watch.fd = -EBADF;
	r->watch.ready = ready;
	r->dig.run = dig;
	code = dial(r);
	if (code < 0) {
		r->is_v6 = true;
		code = dial(r);
	}
	if (code < 0) {
		free(r);
		mux_refuse(q->mux, q->id, ECONNREFUSED, "nothing listens on the port");
		return;
	}
	mux_accept(q->mux, q->id, &r->ch, &calls, r);
}
