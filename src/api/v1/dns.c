/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asking: hosts first, then each name server in turn, for A and then AAAA, twice round.
 */
#include "api/v1/dns.h"

#include "base/mem.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#define SERVERS_MAX 3
#define TRY_MS      2000
#define ROUNDS      2
#define FILE_MAX    65536

struct dns_ask {
	struct loop *loop;
	char name[256];
	dns_done_fn done;
	void *arg;
	struct dns_found found;
	struct sockaddr_storage servers[SERVERS_MAX];
	size_t servers_n;
	unsigned tries; /* questions sent for this type */
	unsigned type;
	uint16_t id;
	struct loop_watch watch; /* fd is owned; -1: none */
	struct loop_timer timer;
	struct loop_task to_free;
};

static void send_next(struct dns_ask *q);

static void close_socket(struct dns_ask *q)
{
	struct err ignored = {0};

	if (q->watch.fd < 0)
		return;
	(void)loop_watch_set(q->loop, &q->watch, 0, &ignored);
	(void)close(q->watch.fd);
	q->watch.fd = -1;
}

static void free_later(struct loop_task *t)
{
	free((char *)t - offsetof(struct dns_ask, to_free));
}

void dns_cancel(struct dns_ask *q)
{
	q->done = NULL;
	close_socket(q);
	loop_timer_cancel(q->loop, &q->timer);
	q->to_free.run = free_later;
	loop_defer(q->loop, &q->to_free);
}

static void finish(struct dns_ask *q, int code)
{
	dns_done_fn done = q->done;

	if (done)
		done(code, &q->found, q->arg);
	dns_cancel(q);
}

/* One type is settled: an address is enough; without one the other type is asked for. */
static void settled(struct dns_ask *q, int code)
{
	close_socket(q);
	if (q->found.n > 0) {
		finish(q, 0);
	} else if (q->type == DNS_A && code != -ETIMEDOUT) {
		q->type = DNS_AAAA;
		q->tries = 0;
		send_next(q);
	} else {
		finish(q, code < 0 ? code : -ENOENT);
	}
}

static void got_packet(struct loop_watch *w, uint32_t events)
{
	struct dns_ask *q = (struct dns_ask *)((char *)w - offsetof(struct dns_ask, watch));
	unsigned char p[DNS_PACKET];
	ssize_t n = recv(w->fd, p, sizeof(p), MSG_DONTWAIT);
	int code;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) { /* refused: the next one */
		send_next(q);
		return;
	}
	code = dns_parse(p, (size_t)n, q->name, q->type, q->id, &q->found);
	if (code == -EPROTO)
		return; /* not our answer: that may still come */
	if (code == -EIO)
		send_next(q);
	else
		settled(q, code);
}

static int open_socket(struct dns_ask *q, const struct sockaddr_storage *to)
{
	unsigned char p[DNS_PACKET];
	struct err ignored = {0};
	size_t n;

	close_socket(q);
	if (getrandom(&q->id, sizeof(q->id), 0) != (ssize_t)sizeof(q->id))
		return -EIO;
	n = dns_query(q->name, q->type, q->id, p);
	q->watch.fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (q->watch.fd < 0)
		return -errno;
	if (connect(q->watch.fd, (const struct sockaddr *)to, sizeof(*to)) < 0 ||
		send(q->watch.fd, p, n, MSG_NOSIGNAL) != (ssize_t)n)
		return -EIO;
	return loop_watch_set(q->loop, &q->watch, EPOLLIN, &ignored);
}

static void send_next(struct dns_ask *q)
{
	while (q->tries < ROUNDS * q->servers_n) {
		const struct sockaddr_storage *to = &q->servers[q->tries++ % q->servers_n];

		if (open_socket(q, to) >= 0) {
			loop_timer_set(q->loop, &q->timer, TRY_MS);
			return;
		}
	}
	settled(q, -ETIMEDOUT);
}

static void timer_due(struct loop_timer *t)
{
	struct dns_ask *q = (struct dns_ask *)((char *)t - offsetof(struct dns_ask, timer));

	if (q->found.n > 0)
		finish(q, 0);
	else
		send_next(q);
}

/* What fits; "" if it cannot be read. */
static void read_text(const char *path, char *out, size_t size)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = '\0';
}

int dns_ask(struct loop *l, const char *name, dns_done_fn done, void *arg, struct dns_ask **ret,
	struct err *err)
{
	AUTO_FREE char *text = mem_must(calloc(1, FILE_MAX));
	struct dns_ask *q;

	if (!dns_is_name(name))
		return err_set(err, EINVAL, "'%.80s' is no host name", name);
	q = MEM_NEW(struct dns_ask);
	q->loop = l;
	(void)snprintf(q->name, sizeof(q->name), "%s", name);
	q->done = done;
	q->arg = arg;
	q->type = DNS_A;
	q->watch.fd = -1;
	q->watch.ready = got_packet;
	q->timer.fire = timer_due;
	read_text("/etc/hosts", text, FILE_MAX);
	dns_hosts(text, name, &q->found);
	read_text("/etc/resolv.conf", text, FILE_MAX);
	q->servers_n = dns_servers(text, q->servers, SERVERS_MAX);
	/* From the loop, whatever is known already: callers need not expect it earlier. */
	loop_timer_set(l, &q->timer, 0);
	*ret = q;
	return 0;
}
