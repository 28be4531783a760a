/* SPDX-License-Identifier: Apache-2.0 */

#include "io/conn.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

struct side {
	struct conn *conn;
	struct buf got;
	size_t take;           /* at most so many bytes per offer; 0 = all */
	bool keeps_open;       /* after the peer's end of file */
	bool aborts, finishes; /* in the read callback */
	int eofs, drained, closed;
	bool in_call; /* of ours into conn: no callback may come */
	struct err why;
};

static size_t on_read(struct conn *c, const char *p, size_t n, void *arg)
{
	struct side *s = arg;
	size_t n_take = s->take > 0 && s->take < n ? s->take : n;

	CHECK(c == s->conn && !s->in_call && s->closed == 0);
	CHECK_INT(buf_add(&s->got, p, n_take), 0);
	if (s->aborts)
		conn_abort(c);
	if (s->finishes)
		conn_finish(c);
	return n_take;
}

static bool on_eof(struct conn *c, void *arg)
{
	struct side *s = arg;

	(void)c;
	CHECK(!s->in_call);
	s->eofs++;
	return s->keeps_open;
}

static void on_drained(struct conn *c, void *arg)
{
	struct side *s = arg;

	CHECK(!s->in_call && conn_queued(c) < CONN_LOW);
	s->drained++;
}

static void on_closed(struct conn *c, const struct err *err, void *arg)
{
	struct side *s = arg;

	CHECK(!s->in_call);
	conn_write(c, "x", 1); /* all of these do nothing any more */
	conn_resume(c);
	conn_abort(c);
	s->closed++;
	s->why = *err;
}

static const struct conn_events events = {on_read, on_eof, on_drained, on_closed};

static struct loop *loop;

static void turn(void)
{
	struct err err;

	for (int i = 0; i < 6; i++)
		(void)loop_once(loop, 1, &err);
}

/* One side of ours; the other end is a plain non-blocking descriptor. */
static int make(struct side *s)
{
	struct err err = {0};
	int sv[2];

	*s = (struct side){.got.cap = 64u << 20};
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	CHECK(fcntl(sv[1], F_SETFL, O_NONBLOCK) == 0);
	if (!loop)
		CHECK_INT(loop_create(&loop, &err), 0);
	CHECK_INT(conn_create(loop, sv[0], NULL, true, NULL, &events, s, &s->conn, &err), 0);
	return sv[1];
}

static void put(struct side *s, const void *p, size_t n)
{
	s->in_call = true;
	conn_write(s->conn, p, n);
	s->in_call = false;
}

static void done(struct side *s, int fd)
{
	(void)close(fd);
	turn();
	if (s->closed == 0)
		conn_abort(s->conn);
	turn();
	buf_done(&s->got);
	loop = loop_free(loop);
}

static bool has(const struct side *s, const char *text)
{
	return buf_len(&s->got) == strlen(text) &&
	       memcmp(buf_data(&s->got), text, strlen(text)) == 0;
}

static void small_writes_leave_as_one(void)
{
	struct side s;
	int fd = make(&s);
	char text[100];

	put(&s, "a", 1);
	put(&s, "b", 1);
	put(&s, "c", 1);
	CHECK_INT(recv(fd, text, sizeof(text), 0), -1); /* held until the batch is over */
	CHECK_INT(conn_queued(s.conn), 3);
	turn();
	CHECK_INT(recv(fd, text, sizeof(text), 0), 3);
	CHECK_INT(conn_queued(s.conn), 0);
	done(&s, fd);
	CHECK(s.closed == 1 && s.why.code == 0 && s.eofs == 1);
}

static void order_survives_large_and_small(void)
{
	static char large[1 << 20], back[1 << 20];
	struct side s;
	int fd = make(&s);
	size_t n = 0;

	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)(i * 7 >> 3);
	put(&s, large, 5);
	put(&s, large + 5, 400000);
	put(&s, large + 400005, 3);
	put(&s, large + 400008, sizeof(large) - 400008);
	for (int i = 0; i < 1000 && n < sizeof(back); i++) {
		ssize_t r = recv(fd, back + n, sizeof(back) - n, 0);

		n += r > 0 ? (size_t)r : 0;
		turn();
	}
	CHECK(n == sizeof(back) && memcmp(large, back, n) == 0);
	CHECK_INT(s.drained, 1);
	done(&s, fd);
}

static void what_is_not_taken_is_offered_again(void)
{
	struct side s;
	int fd = make(&s);

	s.take = 2;
	CHECK_INT(send(fd, "abcdef", 6, 0), 6);
	turn();
	CHECK(has(&s, "ab") && conn_kept(s.conn) == 4);
	CHECK_INT(send(fd, "gh", 2, 0), 2);
	turn();
	CHECK(has(&s, "abcd") && conn_kept(s.conn) == 4);
	s.in_call = true;
	conn_resume(s.conn);
	s.in_call = false;
	turn();
	CHECK(has(&s, "abcdef"));
	s.take = 0;
	conn_resume(s.conn);
	turn();
	CHECK(has(&s, "abcdefgh") && conn_kept(s.conn) == 0);
	done(&s, fd);
}

static void reader_that_takes_nothing_stops_the_sender(void)
{
	static char block[65536];
	struct side s;
	int fd = make(&s);
	size_t sent = 0;

	s.take = 1;
	for (int quiet = 0; quiet < 3;) {
		ssize_t r = send(fd, block, sizeof(block), MSG_NOSIGNAL);

		quiet = r > 0 ? 0 : quiet + 1;
		sent += r > 0 ? (size_t)r : 0;
		turn();
	}
	CHECK(conn_kept(s.conn) <= 2 * CONN_HIGH && sent < 8u << 20);
	s.take = 0;
	conn_resume(s.conn);
	turn();
	CHECK_INT(buf_len(&s.got), sent);
	done(&s, fd);
}

static void a_small_window_reads_and_queues_less(void)
{
	struct side s;
	int fd = make(&s);
	static char block[300000];
	ssize_t n = 1;

	conn_set_window(s.conn, 8192);
	s.take = 1;
	while (n > 0) { /* as much as the kernel holds */
		n = send(fd, block, 65536, MSG_NOSIGNAL);
		turn();
	}
	CHECK(conn_kept(s.conn) >= 8191 && conn_kept(s.conn) < 3 * 8192);
	put(&s, block, sizeof(block));
	CHECK(conn_queued(s.conn) > 8192);
	while ((n = recv(fd, block, sizeof(block), 0)) > 0 || conn_queued(s.conn) > 0)
		turn();
	CHECK_INT(s.drained, 1);
	done(&s, fd);
}

static void pause_holds_and_a_lost_peer_is_noticed(void)
{
	struct side s;
	int fd = make(&s);

	conn_pause(s.conn);
	CHECK_INT(send(fd, "abc", 3, 0), 3);
	turn();
	CHECK_INT(buf_len(&s.got), 0);
	(void)shutdown(fd, SHUT_WR);
	turn();
	CHECK(s.eofs == 0 && s.closed == 0); /* it may still be listening */
	conn_resume(s.conn);
	turn();
	CHECK(has(&s, "abc") && s.eofs == 1 && s.closed == 1 && s.why.code == 0);
	done(&s, fd);

	fd = make(&s);
	conn_pause(s.conn);
	turn();
	(void)close(fd);
	turn();
	CHECK(s.closed == 1 && s.why.code == ECONNRESET);
	turn();
	loop = loop_free(loop);
}

static void half_close_leaves_the_other_half(void)
{
	struct side s;
	int fd = make(&s);
	char text[10];

	s.keeps_open = true;
	CHECK_INT(send(fd, "abc", 3, 0), 3);
	(void)shutdown(fd, SHUT_WR);
	turn();
	CHECK(has(&s, "abc") && s.eofs == 1 && s.closed == 0);
	put(&s, "late", 4);
	turn();
	CHECK_INT(recv(fd, text, sizeof(text), 0), 4);
	conn_finish(s.conn);
	turn();
	CHECK_INT(recv(fd, text, sizeof(text), 0), 0);
	CHECK(s.closed == 0); /* finished by us: no callback */
	(void)close(fd);
	turn();
	buf_done(&s.got);
	loop = loop_free(loop);
}

static void finish_sends_all_before_it_ends(void)
{
	static char large[2 << 20], some[65536];
	struct side s;
	int fd = make(&s);
	size_t n = 0;
	ssize_t r = -1;

	put(&s, large, sizeof(large));
	conn_finish(s.conn);
	put(&s, "late", 4);
	for (int i = 0; i < 2000 && r != 0; i++) {
		r = recv(fd, some, sizeof(some), 0);
		n += r > 0 ? (size_t)r : 0;
		turn();
	}
	CHECK_INT(n, sizeof(large));
	CHECK_INT(s.closed, 0);
	(void)close(fd);
	turn();
	buf_done(&s.got);
	loop = loop_free(loop);
}

static void peer_that_never_reads_ends_the_connection(void)
{
	static char block[65536];
	struct side s;
	int fd = make(&s);

	for (int i = 0; i < 200; i++)
		put(&s, block, sizeof(block));
	CHECK(conn_queued(s.conn) <= CONN_QUEUE + 2 * sizeof(block) && s.closed == 0);
	turn();
	CHECK(s.closed == 1 && s.why.code == ENOBUFS);
	done(&s, fd);
}

static void ending_inside_a_callback_is_fine(void)
{
	struct side s;
	int fd = make(&s);
	char text[10];

	s.aborts = true;
	CHECK_INT(send(fd, "abc", 3, 0), 3);
	turn();
	CHECK(s.closed == 0 && recv(fd, text, sizeof(text), 0) == 0);
	(void)close(fd);
	buf_done(&s.got);
	fd = make(&s);
	s.finishes = true;
	s.take = 1;
	CHECK_INT(send(fd, "abc", 3, 0), 3);
	(void)shutdown(fd, SHUT_WR);
	turn();
	CHECK(s.closed == 0 && s.eofs == 0 && recv(fd, text, sizeof(text), 0) == 0);
	(void)close(fd);
	turn();
	buf_done(&s.got);
	loop = loop_free(loop);
}

static void unix_peers_have_a_uid(void)
{
	struct side s;
	int fd = make(&s);
	unsigned uid = 12345;

	CHECK(conn_peer_uid(s.conn, &uid));
	CHECK_INT(uid, getuid());
	done(&s, fd);
}

int main(void)
{
	RUN(small_writes_leave_as_one);
	RUN(order_survives_large_and_small);
	RUN(what_is_not_taken_is_offered_again);
	RUN(reader_that_takes_nothing_stops_the_sender);
	RUN(a_small_window_reads_and_queues_less);
	RUN(pause_holds_and_a_lost_peer_is_noticed);
	RUN(half_close_leaves_the_other_half);
	RUN(finish_sends_all_before_it_ends);
	RUN(peer_that_never_reads_ends_the_connection);
	RUN(ending_inside_a_callback_is_fine);
	RUN(unix_peers_have_a_uid);
	return tap_done();
}
