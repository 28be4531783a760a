/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One connection is in one of three states:
 *
 *   open --conn_finish()--> finishing --sent, peer done or 1 s--> dead
 *     \---------- eof, failure, conn_abort() --------------------^
 *
 * 1. A dead connection has no descriptor and no watch; its memory goes in `work`, after the batch.
 * 2. Callbacks come from ready() and work() only, never from inside a call of the owner.
 * 3. What epoll waits for is decided in one place, set_interest().
 * 4. Small writes are held until the end of the batch, so that an answer made of
 *    pieces is one packet; large ones go out at once and are not copied.
 */
#include "io/conn.h"

#include "base/mem.h"
#include "io/tls_impl.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SCRATCH        (256u << 10)
#define DIRECT         (16u << 10) /* a write this long is worth a system call of its own */
#define FLUSH_AT       (64u << 10)
#define WRITE_MAX      (64u << 20) /* in one call, on top of CONN_QUEUE */
#define DRAIN_MS       1000
#define FLUSH_STALL_MS 30000
#define FLUSH_STEP     (64u << 10) /* finishing: what a peer has to take in that time */

struct conn {
	struct loop_watch watch;
	struct loop_task work;
	struct loop_timer linger; /* finishing: give up then */
	struct loop *loop;
	int fd;
	int family;
	const struct tls_ops *tls;
	void *session; /* of tls; owned */
	uint32_t tls_want;
	const struct conn_events *events;
	void *arg;
	struct buf in;    /* offered and not taken */
	struct buf out;   /* not yet taken by the kernel */
	int failed;       /* errno to be told by work(); 0 = none */
	const char *what; /* was attempted */
	size_t window;    /* CONN_HIGH, or less */
	bool is_dead, is_finishing, is_paused;
	bool is_blocked; /* the kernel's buffer is full: wait for EPOLLOUT */
	bool is_high;    /* the owner owes a drained() */
	bool want_offer;
	bool has_hup, at_eof, eof_told;
	bool has_shutdown;
	size_t flush_at; /* finishing: what was queued when linger was set */
};

static unsigned finishing_n; /* nobody's any more, and still with a descriptor */

static struct conn *of_watch(struct loop_watch *w)
{
	return (struct conn *)((char *)w - offsetof(struct conn, watch));
}

static struct conn *of_work(struct loop_task *t)
{
	return (struct conn *)((char *)t - offsetof(struct conn, work));
}

static struct conn *of_linger(struct loop_timer *t)
{
	return (struct conn *)((char *)t - offsetof(struct conn, linger));
}

/* ---- the end ---- */

static void set_dead(struct conn *c)
{
	struct err ignored;

	if (c->is_dead)
		return;
	c->is_dead = true;
	finishing_n -= c->is_finishing;
	loop_timer_cancel(c->loop, &c->linger);
	(void)loop_watch_set(c->loop, &c->watch, 0, &ignored);
	if (c->session)
		c->tls->close(c->session);
	c->session = NULL;
	closep(&c->fd);
	loop_defer(c->loop, &c->work);
}

static void tell_closed(struct conn *c, int code, const char *what)
{
	struct err why = {0};

	if (c->is_dead)
		return;
	if (code != 0) {
		const char *more = c->session && code == EPROTO ? c->tls->why(c->session) : "";

		(void)err_set(&why, code, "%s: %s", what, *more ? more : strerror(code));
	}
	set_dead(c);
	if (c->events)
		c->events->closed(c, &why, c->arg);
	c->events = NULL;
}

static void fail_later(struct conn *c, int code, const char *what)
{
	if (c->failed == 0) {
		c->failed = code;
		c->what = what;
	}
	loop_defer(c->loop, &c->work);
}

static void set_interest(struct conn *c)
{
	struct err err;
	uint32_t mask = EPOLLHUP; /* always told anyway; keeps the watch registered */

	if (c->is_dead)
		return;
	if (c->is_finishing)
		mask |= c->has_shutdown ? EPOLLIN | EPOLLRDHUP : 0;
	else if (!c->is_paused && !c->at_eof && buf_len(&c->in) < c->window)
		mask |= EPOLLIN | EPOLLRDHUP;
	else if (!c->has_hup && !c->at_eof)
		mask |= EPOLLRDHUP;
	if (c->is_blocked)
		mask |= EPOLLOUT;
	if (!c->has_shutdown)
		mask |= c->tls_want;
	if (loop_watch_set(c->loop, &c->watch, mask, &err) < 0)
		fail_later(c, err.code, "watch the connection");
}

/* ---- writing ---- */

/* out, then p[0..n), as far as the kernel takes them. Returns how many bytes of p, or -errno. */
static ssize_t send_plain(struct conn *c, const char *p, size_t n)
{
	size_t done = 0;

	while (buf_len(&c->out) + (n - done) > 0) {
		size_t queued = buf_len(&c->out);
		struct iovec v[2];
		struct msghdr m = {.msg_iov = v};
		ssize_t r;

		if (queued > 0) {
			v[m.msg_iovlen].iov_base = c->out.p + c->out.at;
			v[m.msg_iovlen++].iov_len = queued;
		}
		if (n > done) {
			v[m.msg_iovlen].iov_base = (char *)(uintptr_t)(p + done);
			v[m.msg_iovlen++].iov_len = n - done;
		}
		r = sendmsg(c->fd, &m, MSG_NOSIGNAL);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN) {
			c->is_blocked = true;
			break;
		}
		if (r < 0)
			return -errno;
		buf_eat(&c->out, (size_t)r < queued ? (size_t)r : queued);
		if ((size_t)r > queued)
			done += (size_t)r - queued;
	}
	return (ssize_t)done;
}

static ssize_t send_tls(struct conn *c, const char *p, size_t n)
{
	size_t done = 0;

	c->tls_want &= (uint32_t)~EPOLLOUT;
	while (buf_len(&c->out) + (n - done) > 0) {
		bool is_queued = buf_len(&c->out) > 0;
		const char *from = is_queued ? buf_data(&c->out) : p + done;
		size_t len = is_queued ? buf_len(&c->out) : n - done;
		uint32_t want = 0;
		ssize_t r = c->tls->write(c->session, from, len, &want);

		if (r == -EAGAIN) {
			c->tls_want |= want;
			c->is_blocked = want == EPOLLOUT;
			break;
		}
		if (r < 0)
			return r;
		if (is_queued)
			buf_eat(&c->out, (size_t)r);
		else
			done += (size_t)r;
	}
	return (ssize_t)done;
}

static ssize_t send_some(struct conn *c, const char *p, size_t n)
{
	c->is_blocked = false;
	return c->session ? send_tls(c, p, n) : send_plain(c, p, n);
}

void conn_write(struct conn *c, const void *data, size_t n)
{
	const char *p = data;
	size_t queued = buf_len(&c->out);

	if (c->is_dead || c->is_finishing || c->failed != 0 || n == 0)
		return;
	if (queued > CONN_QUEUE) {
		fail_later(c, ENOBUFS, "the peer does not read");
		return;
	}
	if (!c->is_blocked && (n >= DIRECT || queued + n >= FLUSH_AT)) {
		ssize_t r = send_some(c, p, n);

		if (r < 0) {
			fail_later(c, (int)-r, "write");
			return;
		}
		p += r;
		n -= (size_t)r;
		if (c->is_blocked || c->tls_want)
			set_interest(c);
	}
	if (buf_add(&c->out, p, n) < 0)
		fail_later(c, ENOBUFS, "queue the output");
	if (buf_len(&c->out) > c->window)
		c->is_high = true;
	loop_defer(c->loop, &c->work);
}

size_t conn_queued(const struct conn *c)
{
	return buf_len(&c->out);
}

bool conn_is_broken(const struct conn *c)
{
	struct pollfd p = {.fd = c->fd};

	return c->is_dead || (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)));
}

/* False: the connection died. */
static bool flush(struct conn *c)
{
	ssize_t r = buf_len(&c->out) > 0 ? send_some(c, "", 0) : 0;

	if (r < 0) {
		tell_closed(c, (int)-r, "write");
		return false;
	}
	return true;
}

static void tell_drained(struct conn *c)
{
	if (c->is_dead || !c->is_high || buf_len(&c->out) >= c->window / 4)
		return;
	c->is_high = false;
	if (c->events && c->events->drained)
		c->events->drained(c, c->arg);
}

/* ---- reading ---- */

/* Shared by all connections: what is read is handed on before anybody reads again. */
static char scratch[SCRATCH];

static ssize_t fill(struct conn *c)
{
	size_t n = 0, most = c->window < sizeof(scratch) ? c->window : sizeof(scratch);
	ssize_t r;

	if (!c->session) {
		do
			r = read(c->fd, scratch, most);
		while (r < 0 && errno == EINTR);
		return r < 0 ? -errno : r;
	}
	c->tls_want = 0;
	/* A record is 16 KiB at most: several at a time, as for a plain connection. */
	while (n < most) {
		uint32_t want = 0;

		r = c->tls->read(c->session, scratch + n, most - n, &want);
		if (r > 0) {
			n += (size_t)r;
			continue;
		}
		c->tls_want |= r == -EAGAIN ? want & EPOLLOUT : 0;
		return n > 0 ? (ssize_t)n : r; /* an end or a failure comes again */
	}
	c->want_offer = true; /* epoll does not see what is left inside the library */
	loop_defer(c->loop, &c->work);
	return (ssize_t)n;
}

/* Offer n bytes: those kept and (p != NULL) new ones behind them. */
static void offer(struct conn *c, const char *p, size_t n)
{
	const struct conn_events *owner;
	size_t taken;

	if (p && buf_len(&c->in) > 0) {
		if (buf_add(&c->in, p, n) < 0) {
			tell_closed(c, ENOBUFS, "keep the input");
			return;
		}
		p = NULL;
	}
	if (!p) {
		n = buf_len(&c->in);
		taken = c->events->read(c, buf_data(&c->in), n, c->arg);
		buf_eat(&c->in, taken < n ? taken : n);
		return;
	}
	owner = c->events;
	taken = owner->read(c, p, n, c->arg);
	if (taken >= n || c->is_dead)
		return;
	if (buf_add(&c->in, p + taken, n - taken) < 0)
		tell_closed(c, ENOBUFS, "keep the input");
	else if (c->events && c->events != owner)
		conn_resume(c); /* the rest is the new owner's */
}

static void tell_eof(struct conn *c)
{
	if (!c->events || c->is_dead || !c->at_eof || c->eof_told || c->is_paused)
		return;
	c->eof_told = true;
	if (!c->events->eof || !c->events->eof(c, c->arg))
		tell_closed(c, 0, "");
}

static void read_some(struct conn *c)
{
	ssize_t n = fill(c);

	if (n == -EAGAIN)
		return;
	if (n < 0) {
		tell_closed(c, (int)-n, "read");
		return;
	}
	if (n == 0)
		c->at_eof = true;
	else
		offer(c, scratch, (size_t)n);
	tell_eof(c);
}

/* Reading may have ended the handshake that our output waits for. */
static void flush_after_read(struct conn *c)
{
	if (c->session && !c->is_blocked && !c->is_finishing && buf_len(&c->out) > 0)
		(void)flush(c);
}

static bool can_read(const struct conn *c)
{
	return !c->is_dead && !c->is_finishing && !c->is_paused && !c->at_eof &&
	       buf_len(&c->in) < c->window;
}

/* ---- finishing ---- */

static void linger_fire(struct loop_timer *t)
{
	set_dead(of_linger(t));
}

/* Send, then FIN, then read until the peer's FIN: a close with unread input would send a reset
 * that may overtake our last bytes. */
static void finish_some(struct conn *c)
{
	ssize_t n;

	if (buf_len(&c->out) > 0 && send_some(c, "", 0) < 0) {
		set_dead(c);
		return;
	}
	if (buf_len(&c->out) > 0) {
		/* A byte now and then is not reading. */
		if (c->linger.slot == 0 || buf_len(&c->out) + FLUSH_STEP <= c->flush_at) {
			c->flush_at = buf_len(&c->out);
			loop_timer_set(c->loop, &c->linger, FLUSH_STALL_MS);
		}
		set_interest(c);
		return;
	}
	if (!c->has_shutdown) {
		c->has_shutdown = true;
		if (c->session)
			c->tls->shutdown(c->session);
		if (c->at_eof || shutdown(c->fd, SHUT_WR) < 0) {
			set_dead(c);
			return;
		}
		loop_timer_set(c->loop, &c->linger, DRAIN_MS);
	}
	n = read(c->fd, scratch, sizeof(scratch));
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		set_dead(c);
	else
		set_interest(c);
}

void conn_finish(struct conn *c)
{
	if (c->is_dead || c->is_finishing)
		return;
	c->is_finishing = true;
	finishing_n++;
	c->events = NULL;
	if (c->failed != 0) {
		set_dead(c);
		return;
	}
	buf_done(&c->in);
	loop_defer(c->loop, &c->work);
}

unsigned conn_finishing(void)
{
	return finishing_n;
}

void conn_abort(struct conn *c)
{
	struct linger now = {.l_onoff = 1};

	if (c->is_dead)
		return;
	c->events = NULL;
	if (c->family != AF_UNIX)
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	set_dead(c);
}

/* ---- events ---- */

static void ready(struct loop_watch *w, uint32_t events)
{
	struct conn *c = of_watch(w);
	const uint32_t broken = EPOLLHUP | EPOLLERR;

	if (c->is_finishing) {
		finish_some(c);
		return;
	}
	/* A server that answers and hangs up before it has read all: its answer is still here. */
	if (events & broken && buf_len(&c->out) > 0 && can_read(c))
		read_some(c);
	if (c->is_dead || c->is_finishing)
		return;
	if ((events & (EPOLLOUT | broken) || c->tls_want) && buf_len(&c->out) > 0 && !flush(c))
		return;
	if (events & EPOLLRDHUP)
		c->has_hup = true;
	if (can_read(c)) {
		if (events & (EPOLLIN | EPOLLRDHUP | broken) || c->session)
			read_some(c);
		flush_after_read(c);
	} else if (events & broken) {
		/* Nobody hears us any more. What it sent last is lost with it. */
		tell_closed(c, ECONNRESET, "the peer is gone");
	}
	tell_drained(c);
	set_interest(c);
}

static void work(struct loop_task *t)
{
	struct conn *c = of_work(t);

	if (c->is_dead) {
		buf_done(&c->in);
		buf_done(&c->out);
		free(c);
		return;
	}
	if (c->is_finishing) {
		finish_some(c);
		return;
	}
	if (c->failed != 0) {
		if (can_read(c))
			read_some(c); /* what the peer said before it went */
		if (!c->is_finishing)
			tell_closed(c, c->failed, c->what);
		return;
	}
	if (!c->is_blocked && !flush(c))
		return;
	tell_drained(c);
	if (c->want_offer && !c->is_paused && !c->is_dead && !c->is_finishing) {
		c->want_offer = false;
		if (buf_len(&c->in) > 0)
			offer(c, NULL, 0);
		tell_eof(c);
		if (c->session && can_read(c))
			read_some(c);
		flush_after_read(c);
	}
	set_interest(c);
}

void conn_pause(struct conn *c)
{
	c->is_paused = true;
	set_interest(c);
}

void conn_resume(struct conn *c)
{
	c->is_paused = false;
	c->want_offer = true;
	loop_defer(c->loop, &c->work);
}

size_t conn_kept(const struct conn *c)
{
	return buf_len(&c->in);
}

void conn_set_window(struct conn *c, size_t bytes)
{
	c->window = bytes < 4096 ? 4096 : bytes < CONN_HIGH ? bytes : CONN_HIGH;
}

void conn_set_secret(struct conn *c)
{
	c->out.is_secret = true;
}

void conn_set_events(struct conn *c, const struct conn_events *events, void *arg)
{
	c->events = events;
	c->arg = arg;
	/* Otherwise there is nothing to offer, and the next event comes by itself. */
	if (c->is_paused || buf_len(&c->in) > 0 || c->at_eof)
		conn_resume(c);
}

/* ---- the beginning ---- */

static void set_options(int fd)
{
	/* A peer that vanished without a word is noticed within about two minutes. */
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 60},
		{IPPROTO_TCP, TCP_KEEPINTVL, 10},
		{IPPROTO_TCP, TCP_KEEPCNT, 6},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, 120000},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			sizeof(options[i].value)); /* better, not needed */
}

static int family_of(int fd)
{
	int family = 0;
	socklen_t n = sizeof(family);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &n) < 0)
		return AF_UNSPEC;
	return family;
}

int conn_create(struct loop *l, int take_fd, struct tls *tls, bool is_server, const char *peer,
	const struct conn_events *events, void *arg, struct conn **ret, struct err *err)
{
	AUTO_FD int fd = take_fd;
	struct conn *c;
	int flags = fcntl(fd, F_GETFL), r;
	void *session = NULL;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(err, "set a connection to non-blocking");
	if (tls) {
		r = tls->ops->open(tls, fd, is_server, peer, &session, err);
		if (r < 0)
			return r;
	}
	c = MEM_NEW(struct conn);
	c->loop = l;
	c->family = family_of(fd);
	c->tls = tls ? tls->ops : NULL;
	c->session = session;
	c->events = events;
	c->arg = arg;
	c->window = CONN_HIGH;
	c->in.cap = CONN_HIGH + SCRATCH;
	c->out.cap = CONN_QUEUE + WRITE_MAX;
	c->work.run = work;
	c->linger.fire = linger_fire;
	c->watch.ready = ready;
	c->watch.fd = fd;
	if (c->family == AF_INET || c->family == AF_INET6)
		set_options(fd);
	r = loop_watch_set(l, &c->watch, EPOLLHUP | EPOLLIN | EPOLLRDHUP, err);
	if (r < 0) {
		if (session)
			tls->ops->close(session);
		free(c);
		return r;
	}
	c->fd = TAKE_FD(fd);
	if (session && !is_server)
		conn_resume(c); /* the client's side speaks first */
	*ret = c;
	return 0;
}

bool conn_peer_uid(const struct conn *c, unsigned *ret_uid)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (c->is_dead || c->family != AF_UNIX ||
		getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return false;
	*ret_uid = cred.uid;
	return true;
}

void conn_give_back(void)
{
	/* Whole pages inside it only; they read as zero when they are touched again. */
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)scratch + page - 1) & ~(page - 1);
	uintptr_t to = ((uintptr_t)scratch + sizeof(scratch)) & ~(page - 1);

	(void)madvise((char *)scratch + (from - (uintptr_t)scratch), to - from, MADV_DONTNEED);
}
