/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One look-up is in one of these states:
 *
 *   queued --a place is free--> sent --answer, failure, time--> known --its time is over--> gone
 *
 * 1. `lookups` holds every one, by name; those that are known are the cache.
 * 2. Only a sent one has a channel. c-ares calls back from inside its own functions, so the channel
 *    is destroyed by a task, never there.
 * 3. Waiters are told by that task, or for a known one by a task of their own: never from inside
 *    resolve_start().
 */
#include "egress/resolve.h"

#include "base/mem.h"
#include "core/policy.h"
#include "egress/servers.h"

#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>

#define SOCKETS_MAX  8 /* of one look-up: A and AAAA, over UDP and TCP, to a few servers */
#define TRY_MS       1500
#define TRIES        2
#define FAILED_S     2
#define NOT_THERE_S  5
#define BUCKETS      1024
#define NAME_MAX_LEN POLICY_NAME_MAX

enum state { QUEUED, SENT, KNOWN };

struct dns_socket {
	struct loop_watch watch;
	struct lookup *owner;
};

struct lookup {
	struct resolver *owner;
	char name[NAME_MAX_LEN + 1];
	enum state state;
	ares_channel channel;
	struct dns_socket sockets[SOCKETS_MAX];
	struct loop_timer timer; /* sent: c-ares wants to be called; */
	uint64_t deadline_ms;    /* … but not past this */
	struct loop_task work;   /* tell, destroy */
	bool is_answered;        /* the channel can go */
	bool is_dead;            /* forgotten; its task frees it */
	int code;
	struct address addrs[RESOLVE_ADDRS_MAX];
	size_t addrs_n;
	uint64_t until_ms; /* known: for so long */
	TAILQ_HEAD(resolve_wait_list, resolve_wait) waiters;
	struct lookup *next;      /* in its bucket */
	TAILQ_ENTRY(lookup) link; /* queued: in turn; known: by use */
};

struct resolver {
	struct loop *loop;
	struct servers servers;
	struct lookup *buckets[BUCKETS];
	TAILQ_HEAD(lookup_list, lookup) queue, known;
	size_t sent_n, known_n;
	uint64_t total;
};

static void sent_more(struct resolver *r);

static size_t bucket(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return (h ^ h >> 16) % BUCKETS;
}

/* ---- the end of a look-up ---- */

static void forget(struct lookup *k)
{
	struct resolver *r = k->owner;
	struct lookup **at = &r->buckets[bucket(k->name)];

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	if (k->state == KNOWN) {
		TAILQ_REMOVE(&r->known, k, link);
		r->known_n--;
	} else if (k->state == QUEUED) {
		TAILQ_REMOVE(&r->queue, k, link);
	}
	k->is_dead = true;
	if (!k->work.is_queued)
		free(k);
}

static void unwatch_all(struct lookup *k)
{
	struct err ignored;

	for (size_t i = 0; i < SOCKETS_MAX; i++)
		(void)loop_watch_set(k->owner->loop, &k->sockets[i].watch, 0, &ignored);
}

/* The channel's own callbacks run inside ares_destroy(): they find is_answered set. */
static void close_channel(struct lookup *k)
{
	if (k->state != SENT)
		return;
	k->is_answered = true;
	loop_timer_cancel(k->owner->loop, &k->timer);
	ares_destroy(k->channel);
	k->channel = NULL;
	unwatch_all(k);
	k->owner->sent_n--;
}

static void tell(struct lookup *k)
{
	struct resolve_wait *w;
	struct address addrs[RESOLVE_ADDRS_MAX];
	size_t n = k->addrs_n;

	memcpy(addrs, k->addrs, sizeof(addrs));
	while ((w = TAILQ_FIRST(&k->waiters)) != NULL) {
		TAILQ_REMOVE(&k->waiters, w, link);
		w->lookup = NULL;
		w->done(w, k->code, addrs, n);
	}
}

static void make_known(struct lookup *k)
{
	struct resolver *r = k->owner;

	k->state = KNOWN;
	TAILQ_INSERT_TAIL(&r->known, k, link);
	r->known_n++;
	while (r->known_n > RESOLVE_CACHE_MAX) {
		struct lookup *oldest = TAILQ_FIRST(&r->known);

		if (oldest == k || !TAILQ_EMPTY(&oldest->waiters))
			break;
		forget(oldest);
	}
}

static void work(struct loop_task *t)
{
	struct lookup *k = (struct lookup *)((char *)t - offsetof(struct lookup, work));
	struct resolver *r = k->owner;

	if (k->is_dead) {
		free(k);
		return;
	}
	if (k->state == SENT) {
		close_channel(k);
		make_known(k);
	}
	tell(k);
	sent_more(r);
}

static void finish(struct lookup *k, int code, uint64_t keep_s)
{
	if (k->is_answered)
		return;
	k->is_answered = true;
	k->code = code;
	k->until_ms = loop_now_ms(k->owner->loop) + keep_s * 1000;
	loop_defer(k->owner->loop, &k->work);
}

/* ---- answers ---- */

static bool has_addr(const struct lookup *k, const struct address *a)
{
	for (size_t i = 0; i < k->addrs_n; i++)
		if (address_equal(&k->addrs[i], a))
			return true;
	return false;
}

/* IPv6 and IPv4 by turns, as the answers had them. */
static uint64_t take_addrs(struct lookup *k, const struct ares_addrinfo *info)
{
	const struct ares_addrinfo_node *at[2] = {info->nodes, info->nodes};
	static const int family[2] = {AF_INET6, AF_INET};
	uint64_t ttl = RESOLVE_TTL_MAX;

	for (unsigned turn = 0; (at[0] || at[1]) && k->addrs_n < RESOLVE_ADDRS_MAX; turn ^= 1) {
		const struct ares_addrinfo_node *n = at[turn];
		struct sockaddr_storage ss = {0};
		struct address a;
		uint16_t port;

		while (n && n->ai_family != family[turn])
			n = n->ai_next;
		at[turn] = n ? n->ai_next : NULL;
		if (!n || n->ai_addrlen > (ares_socklen_t)sizeof(ss))
			continue;
		memcpy(&ss, n->ai_addr, (size_t)n->ai_addrlen);
		if (!address_from_sockaddr(&ss, &a, &port) || has_addr(k, &a))
			continue;
		k->addrs[k->addrs_n++] = a;
		if (n->ai_ttl >= 0 && (uint64_t)n->ai_ttl < ttl)
			ttl = (uint64_t)n->ai_ttl;
	}
	return ttl < RESOLVE_TTL_MIN ? RESOLVE_TTL_MIN : ttl;
}

static int code_of(int status)
{
	switch (status) {
	case ARES_ENOTFOUND:
	case ARES_ENODATA: return ENOENT;
	case ARES_ETIMEOUT: return ETIMEDOUT;
	case ARES_ECONNREFUSED: return ECONNREFUSED;
	case ARES_EBADRESP:
	case ARES_EBADNAME:
	case ARES_EFORMERR: return EPROTO;
	default: return EHOSTUNREACH;
	}
}

static void answered(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct lookup *k = arg;

	(void)timeouts;
	if (k->is_answered) { /* we gave it up */
		if (info)
			ares_freeaddrinfo(info);
		return;
	}
	if (status == ARES_SUCCESS && info) {
		uint64_t ttl = take_addrs(k, info);

		finish(k, k->addrs_n > 0 ? 0 : ENOENT, k->addrs_n > 0 ? ttl : NOT_THERE_S);
	} else {
		finish(k, code_of(status),
			status == ARES_ENOTFOUND || status == ARES_ENODATA ? NOT_THERE_S
									   : FAILED_S);
	}
	if (info)
		ares_freeaddrinfo(info);
}

/* ---- c-ares on the loop ---- */

static void set_timer(struct lookup *k)
{
	uint64_t now = loop_now_ms(k->owner->loop);
	uint64_t left = k->deadline_ms > now ? k->deadline_ms - now : 0;
	struct timeval tv;

	if (k->is_answered)
		return;
	if (ares_timeout(k->channel, NULL, &tv)) {
		uint64_t ms = (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1;

		if (ms < left)
			left = ms;
	}
	loop_timer_set(k->owner->loop, &k->timer, left);
}

static void timer_fired(struct loop_timer *t)
{
	struct lookup *k = (struct lookup *)((char *)t - offsetof(struct lookup, timer));

	if (loop_now_ms(k->owner->loop) >= k->deadline_ms) {
		finish(k, ETIMEDOUT, FAILED_S);
		return;
	}
	ares_process_fd(k->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(k);
}

static void socket_ready(struct loop_watch *w, uint32_t events)
{
	struct dns_socket *s = (struct dns_socket *)w;
	struct lookup *k = s->owner;
	bool can_read = events & (EPOLLIN | EPOLLHUP | EPOLLERR);

	if (k->is_answered)
		return;
	ares_process_fd(k->channel, can_read ? w->fd : ARES_SOCKET_BAD,
		events & EPOLLOUT ? w->fd : ARES_SOCKET_BAD);
	set_timer(k);
}

static struct dns_socket *socket_of(struct lookup *k, int fd)
{
	struct dns_socket *empty = NULL;

	for (size_t i = 0; i < SOCKETS_MAX; i++) {
		if (k->sockets[i].watch.mask != 0 && k->sockets[i].watch.fd == fd)
			return &k->sockets[i];
		if (k->sockets[i].watch.mask == 0 && !empty)
			empty = &k->sockets[i];
	}
	return empty;
}

static void socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct lookup *k = arg;
	struct dns_socket *s = socket_of(k, fd);
	struct err ignored;

	if (!s)
		return; /* more sockets than a look-up can need: it will time out */
	s->owner = k;
	s->watch.ready = socket_ready;
	if (s->watch.mask == 0)
		s->watch.fd = fd;
	(void)loop_watch_set(k->owner->loop, &s->watch,
		(readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0), &ignored);
}

static int open_channel(struct lookup *k, const char *servers)
{
	/* c-ares wants these writable. */
	char lookups[] = "b", resolv_conf[] = "/dev/null";
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TRY_MS,
		.tries = TRIES,
		.ndots = 0,
		.lookups = lookups,
		.resolvconf_path = resolv_conf,
		.sock_state_cb = socket_state,
		.sock_state_cb_data = k,
	};
	int r = ares_init_options(&k->channel, &o,
		ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
			ARES_OPT_LOOKUPS | ARES_OPT_RESOLVCONF | ARES_OPT_SOCK_STATE_CB);

	if (r != ARES_SUCCESS)
		return -EHOSTUNREACH;
	if (ares_set_servers_ports_csv(k->channel, servers) == ARES_SUCCESS)
		return 0;
	ares_destroy(k->channel);
	k->channel = NULL;
	return -EHOSTUNREACH;
}

static void send_lookup(struct lookup *k)
{
	struct resolver *r = k->owner;
	struct ares_addrinfo_hints hints = {
		.ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	const char *servers = servers_now(&r->servers, loop_now_ms(r->loop));

	k->deadline_ms = loop_now_ms(r->loop) + RESOLVE_MS;
	k->timer.fire = timer_fired;
	if (!*servers || open_channel(k, servers) < 0) {
		TAILQ_REMOVE(&r->queue, k, link);
		make_known(k);
		finish(k, EHOSTUNREACH, 1);
		return;
	}
	TAILQ_REMOVE(&r->queue, k, link);
	k->state = SENT;
	r->sent_n++;
	r->total++;
	ares_getaddrinfo(k->channel, k->name, NULL, &hints, answered, k);
	set_timer(k);
}

static void sent_more(struct resolver *r)
{
	struct lookup *k;

	while (r->sent_n < RESOLVE_AT_ONCE && (k = TAILQ_FIRST(&r->queue)) != NULL)
		send_lookup(k);
}

/* ---- asking ---- */

static struct lookup *find(struct resolver *r, const char *name)
{
	struct lookup *k = r->buckets[bucket(name)];

	while (k && strcmp(k->name, name) != 0)
		k = k->next;
	if (!k || k->state != KNOWN)
		return k;
	if (loop_now_ms(r->loop) < k->until_ms || k->work.is_queued) {
		TAILQ_REMOVE(&r->known, k, link);
		TAILQ_INSERT_TAIL(&r->known, k, link);
		return k;
	}
	forget(k);
	return NULL;
}

void resolve_start(struct resolver *r, struct resolve_wait *w, const char *name)
{
	struct lookup *k = find(r, name);

	if (!k) {
		k = MEM_NEW(struct lookup);
		k->owner = r;
		k->work.run = work;
		(void)snprintf(k->name, sizeof(k->name), "%s", name);
		TAILQ_INIT(&k->waiters);
		k->next = r->buckets[bucket(name)];
		r->buckets[bucket(name)] = k;
		TAILQ_INSERT_TAIL(&r->queue, k, link);
	}
	w->lookup = k;
	TAILQ_INSERT_TAIL(&k->waiters, w, link);
	if (k->state == KNOWN)
		loop_defer(r->loop, &k->work);
	else
		sent_more(r);
}

void resolve_cancel(struct resolve_wait *w)
{
	if (!w->lookup)
		return;
	TAILQ_REMOVE(&w->lookup->waiters, w, link);
	w->lookup = NULL; /* the answer is still of use to the next who asks */
}

/* ---- the whole ---- */

int resolver_create(struct loop *l, const char *servers, struct resolver **ret, struct err *err)
{
	struct resolver *r;

	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
		return err_set(err, ENOMEM, "start c-ares");
	r = MEM_NEW(struct resolver);
	r->loop = l;
	TAILQ_INIT(&r->queue);
	TAILQ_INIT(&r->known);
	if (servers_init(&r->servers, servers, err) < 0) {
		free(r);
		return -err->code;
	}
	*ret = r;
	return 0;
}

struct resolver *resolver_free(struct resolver *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < BUCKETS; i++)
		while (r->buckets[i]) {
			struct lookup *k = r->buckets[i];

			close_channel(k);
			forget(k);
		}
	ares_library_cleanup();
	free(r);
	return NULL;
}

uint64_t resolver_lookups(const struct resolver *r)
{
	return r->total;
}
