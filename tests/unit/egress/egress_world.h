/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * tests/unit/egress/egress_world - an engine with one box, and an internet of our own.
 *
 * The test moves into a network namespace where `lo` has a few public-looking addresses: servers
 * and the name server are sockets of the test there. The box is a child in a namespace of its own
 * with a road; it opens sockets for the test, which uses them as a program in the box would.
 * Everything runs on one loop; each wait turns it.
 */
#include "base/own.h"
#include "core/policy_build.h"
#include "egress/dns_wire.h"
#include "egress/egress_impl.h"
#include "sys/net.h"
#include "sys/process.h"
#include "sys/road.h"
#include "sys/sock.h"
#include "sys/userns.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORLD_SERVER "93.184.216.34"
#define WORLD_OTHER  "93.184.216.35"
#define WORLD_LAN    "10.1.2.3"
#define WORLD_DNS    "93.184.216.53"
#define BOX          "box1"

struct world_call { /* what the box's child is asked for */
	char addr[64];
	uint16_t port;
	int type;
};

struct world_name { /* what the name server says; NULL name ends the table */
	const char *name;
	const char *addrs[4];
	enum { DNS_SAYS, DNS_SAYS_NO, DNS_SILENT, DNS_GARBAGE, DNS_EMPTY, DNS_OTHER_ID } how;
	const char *cname; /* in front of the addresses */
	const char *then;  /* the address from the second look-up on (rebinding) */
};

struct world {
	struct loop *loop;
	struct egress *engine;
	struct egress_config config;
	int child_fd;
	pid_t child;
	struct road road;
	struct loop_watch dns;
	const struct world_name *names;
	unsigned questions;
	char asked_name[256]; /* the last one */
	/* What the engine told. */
	struct denial denied;
	unsigned denied_n, allowed_n, asked_n, over_n;
	struct denial allowed;
	uint64_t allowed_up, allowed_down;
	struct egress_ask ask;
};

static struct world world;
static struct err world_err;

/* ---- the machine ---- */

static inline int world_add_addr(const char *addr, int i)
{
	AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = {0};
	struct sockaddr_in *a = (struct sockaddr_in *)&r.ifr_addr;

	(void)snprintf(r.ifr_name, sizeof(r.ifr_name), "lo:%d", i);
	a->sin_family = AF_INET;
	(void)inet_pton(AF_INET, addr, &a->sin_addr);
	return ioctl(fd, SIOCSIFADDR, &r);
}

/* Once per program. */
static inline bool world_enter(void)
{
	static const char *const addrs[] = {WORLD_SERVER, WORLD_OTHER, WORLD_LAN, WORLD_DNS};
	struct userns_map map = {
		.uid = {{0, geteuid(), 1}}, .gid = {{0, getegid(), 1}}, .uid_n = 1, .gid_n = 1};

	(void)signal(SIGPIPE, SIG_IGN);
	if (!CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) ||
		!CHECK(userns_write(getpid(), &map, &world_err) >= 0) ||
		!CHECK(net_loopback_up(&world_err) >= 0))
		return false;
	for (int i = 0; i < 4; i++)
		if (!CHECK(world_add_addr(addrs[i], i + 1) == 0))
			return false;
	return true;
}

static inline socklen_t world_addr(const char *text, uint16_t port, struct sockaddr_storage *ret)
{
	struct address a;

	if (!address_parse(text, strlen(text), &a))
		return 0;
	return address_to_sockaddr(&a, port, ret);
}

/* ---- the box ---- */

static inline int world_open(const struct world_call *c)
{
	struct sockaddr_storage a = {0};
	socklen_t n = world_addr(c->addr, c->port, &a);
	AUTO_FD int fd = socket(a.ss_family, c->type | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, n) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static inline void world_child(int fd)
{
	struct road road;
	struct world_call c;
	size_t none = 0;
	int fds[2];

	if (net_loopback_up(&world_err) < 0 || road_make(&road, &world_err) < 0)
		_exit(1);
	fds[0] = road.tcp_fd;
	fds[1] = road.dns_fd;
	if (sock_send(fd, "r", 1, fds, 2, &world_err) < 0)
		_exit(2);
	closep(&road.tcp_fd);
	closep(&road.dns_fd);
	while (sock_receive(fd, &c, sizeof(c), NULL, &none, &world_err) == (ssize_t)sizeof(c)) {
		AUTO_FD int opened = world_open(&c);
		int code = opened < 0 ? -opened : 0;

		if (sock_send(fd, &code, sizeof(code), &opened, code ? 0 : 1, &world_err) < 0)
			break;
	}
	_exit(0);
}

static inline bool world_make_box(void)
{
	int pair[2], fds[2] = {-EBADF, -EBADF}, pidfd = -EBADF;
	size_t n = 2;
	char byte;

	if (!CHECK(sock_pair(pair, &world_err) >= 0))
		return false;
	world.child = process_clone(CLONE_NEWUSER | CLONE_NEWNET, -EBADF, &pidfd, &world_err);
	if (world.child == 0) {
		closep(&pair[0]);
		world_child(pair[1]);
	}
	closep(&pidfd);
	closep(&pair[1]);
	world.child_fd = pair[0];
	if (!CHECK(sock_receive(pair[0], &byte, 1, fds, &n, &world_err) == 1) || !CHECK(n == 2))
		return false;
	world.road = (struct road){fds[0], fds[1]};
	return true;
}

/* A connected socket of the box, non-blocking; or -errno. */
static inline int box_open(const char *addr, uint16_t port, int type)
{
	struct world_call c = {.port = port, .type = type};
	int code = EIO, fd = -EBADF;
	size_t n = 1;

	(void)snprintf(c.addr, sizeof(c.addr), "%s", addr);
	if (sock_send(world.child_fd, &c, sizeof(c), NULL, 0, &world_err) < 0 ||
		sock_receive(world.child_fd, &code, sizeof(code), &fd, &n, &world_err) < 0 || code)
		return -code;
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* ---- waiting ---- */

static inline void turn(void)
{
	(void)loop_once(world.loop, 5, &world_err);
}

#define WAIT_FOR(cond)                                                                             \
	({                                                                                         \
		bool wait_met_ = false;                                                            \
		for (int wait_i_ = 0; wait_i_ < 800 && !(wait_met_ = (cond)); wait_i_++)           \
			turn();                                                                    \
		wait_met_;                                                                         \
	})

/* n bytes, or as many as came before the end; -errno of a failure (reset). */
static inline ssize_t read_all(int fd, char *p, size_t n)
{
	size_t got = 0;

	for (int i = 0; i < 2000 && got < n; i++) {
		ssize_t r = read(fd, p + got, n - got);

		if (r == 0)
			break;
		if (r < 0 && errno != EAGAIN)
			return -errno;
		if (r > 0)
			got += (size_t)r;
		else
			turn();
	}
	return (ssize_t)got;
}

static inline bool says(int fd, const char *want)
{
	char got[512] = "";
	ssize_t n = read_all(fd, got, strlen(want));

	return CHECK(n == (ssize_t)strlen(want)) && CHECK_STR(got, want);
}

static inline bool say(int fd, const void *p, size_t n)
{
	return CHECK(write(fd, p, n) == (ssize_t)n);
}

/* Reads what is there until the end: 0 an orderly one, ECONNRESET, or EAGAIN: still open. */
static inline int end_of(int fd)
{
	char p[4096];

	for (int i = 0; i < 800; i++) {
		ssize_t n = read(fd, p, sizeof(p));

		if (n == 0)
			return 0;
		if (n < 0 && errno != EAGAIN)
			return errno;
		turn();
	}
	return EAGAIN;
}

/* Refusals of a kind so far: the owner is not told of each. */
static inline uint64_t world_count(enum denial_kind kind)
{
	const struct egress_box *b = box_find(world.engine, BOX);
	uint64_t n = 0;

	for (size_t i = 0; b && i < b->violations_n; i++)
		n += b->violations[i].d.kind == kind ? b->violations[i].d.count : 0;
	return n;
}

/* ---- servers ---- */

static inline int serve(const char *addr, uint16_t port)
{
	struct sockaddr_storage a = {0};
	socklen_t n = world_addr(addr, port, &a);
	int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!CHECK(bind(fd, (struct sockaddr *)&a, n) == 0) || !CHECK(listen(fd, 64) == 0))
		closep(&fd);
	return fd;
}

/* Whoever waits, or -1. */
static inline int came(int server)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);

	return accept4(server, (struct sockaddr *)&a, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static inline int accepted(int server)
{
	int fd = -1;

	(void)WAIT_FOR((fd = came(server)) >= 0);
	return fd;
}

/* ---- the name server ---- */

/* It lives for a second. */
static inline size_t world_record(unsigned char *out, unsigned type, const void *data, size_t n)
{
	static const unsigned char head[] = {0xc0, 12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0};

	memcpy(out, head, sizeof(head));
	out[3] = (unsigned char)type;
	out[11] = (unsigned char)n;
	memcpy(out + 12, data, n);
	return 12 + n;
}

static inline size_t world_cname(unsigned char *out, const char *name)
{
	unsigned char wire[256];
	size_t n = 0;

	while (*name) {
		size_t label = strcspn(name, ".");

		wire[n++] = (unsigned char)label;
		memcpy(wire + n, name, label);
		n += label;
		name += label + (name[label] == '.');
	}
	wire[n++] = 0;
	return world_record(out, 5, wire, n);
}

static inline size_t world_answer(const struct world_name *w, const struct dns_query *q,
	const unsigned char *in, unsigned char out[DNS_MESSAGE_MAX])
{
	bool is_no = !w || w->how == DNS_SAYS_NO;
	size_t n = dns_wire_answer(in, q, is_no ? DNS_NXDOMAIN : DNS_OK, NULL, NULL, 0, out);
	unsigned count = 0;

	if (is_no || w->how == DNS_EMPTY)
		return n;
	if (w->how == DNS_OTHER_ID)
		out[0] ^= 0x55;
	n = 12 + q->question_n; /* no EDNS: the records come next */
	out[11] = 0;
	if (w->cname) {
		n += world_cname(out + n, w->cname);
		count++;
	}
	for (size_t i = 0; i < 4 && w->addrs[i]; i++) {
		const char *text = w->then && world.questions > 2 ? w->then : w->addrs[i];
		struct address a;

		if (!address_parse(text, strlen(text), &a) || (a.family == 4) != (q->type == DNS_A))
			continue;
		n += world_record(out + n, q->type, a.b, a.family == 4 ? 4 : 16);
		if (w->cname) /* of the name in the first record, not of the question */
			out[n - (a.family == 4 ? 16 : 28) + 1] =
				(unsigned char)(12 + q->question_n + 12);
		count++;
	}
	out[7] = (unsigned char)count;
	return n;
}

static inline void world_dns_ready(struct loop_watch *w, uint32_t events)
{
	unsigned char in[DNS_MESSAGE_MAX], out[DNS_MESSAGE_MAX];
	struct sockaddr_storage from;
	socklen_t from_n = sizeof(from);
	ssize_t n = recvfrom(w->fd, in, sizeof(in), 0, (struct sockaddr *)&from, &from_n);
	const struct world_name *say_what = world.names;
	struct dns_query q;
	size_t out_n;

	(void)events;
	if (n <= 0 || dns_wire_parse(in, (size_t)n, &q) != DNS_OK)
		return;
	world.questions++;
	(void)snprintf(world.asked_name, sizeof(world.asked_name), "%s", q.name);
	while (say_what && say_what->name && strcmp(say_what->name, q.name) != 0)
		say_what++;
	if (say_what && !say_what->name)
		say_what = NULL;
	if (say_what && say_what->how == DNS_SILENT)
		return;
	out_n = world_answer(say_what, &q, in, out);
	if (say_what && say_what->how == DNS_GARBAGE)
		memset(out + 12, 0xc0, out_n - 12);
	(void)sendto(w->fd, out, out_n, 0, (struct sockaddr *)&from, from_n);
}

static inline bool world_serve_dns(void)
{
	struct sockaddr_storage a = {0};
	socklen_t n = world_addr(WORLD_DNS, 53, &a);

	world.dns.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	world.dns.ready = world_dns_ready;
	return CHECK(bind(world.dns.fd, (struct sockaddr *)&a, n) == 0) &&
	       CHECK(loop_watch_set(world.loop, &world.dns, EPOLLIN, &world_err) >= 0);
}

/* ---- policies ---- */

/*
 * One rule per text: "allow tcp api.test 80,443 path=/x method=GET"; action, protocols with '+'
 * ("-" for the usual ones), host, ports ("-" for the usual ones), then options.
 */
static inline bool world_rule(struct policy *p, const char *id, const char *text)
{
	struct policy_draft d = {0};
	struct policy_rule *r = &d.rule;
	AUTO_FREE char *copy = strdup(text);
	char *rest = copy, *word;
	bool is_fine = true;

	is_fine &= policy_rule_action(r, strsep(&rest, " "), &world_err) >= 0;
	for (char *list = strsep(&rest, " "); list && strcmp(list, "-") != 0;)
		is_fine &= policy_rule_protocol(r, strsep(&list, "+"), &world_err) >= 0;
	is_fine &= policy_rule_host(r, strsep(&rest, " "), &world_err) >= 0;
	for (char *list = strsep(&rest, " "); list && strcmp(list, "-") != 0;)
		is_fine &= policy_rule_port(r, strsep(&list, ","), &world_err) >= 0;
	while ((word = strsep(&rest, " ")) != NULL) {
		if (strncmp(word, "path=", 5) == 0)
			is_fine &= policy_rule_path(r, word + 5, &world_err) >= 0;
		else if (strncmp(word, "method=", 7) == 0)
			is_fine &= policy_rule_method(r, word + 7, &world_err) >= 0;
		else if (strncmp(word, "up=", 3) == 0)
			is_fine &= text_parse_u64(word + 3, "up", 0, UINT64_MAX,
					   &r->budget.bytes_up, &world_err) >= 0;
		else if (strncmp(word, "down=", 5) == 0)
			is_fine &= text_parse_u64(word + 5, "down", 0, UINT64_MAX,
					   &r->budget.bytes_down, &world_err) >= 0;
		else
			is_fine = false;
	}
	return CHECK(is_fine) && CHECK(policy_add_rule(p, POLICY_RULES, id, &d, &world_err) >= 0);
}

static inline struct policy *world_policy(const char *const *rules)
{
	struct policy *p = policy_create("test");
	char id[16];

	for (int i = 0; rules && rules[i]; i++) {
		(void)snprintf(id, sizeof(id), "t/%d", i + 1);
		if (!world_rule(p, id, rules[i]))
			tap_print("# %s: %s\n", rules[i], world_err.msg);
	}
	p->ask_timeout_ms = p->ask_timeout_ms ? p->ask_timeout_ms : 120000;
	policy_finish(p);
	return p;
}

static inline void world_set_policy(const char *const *rules)
{
	struct policy *p = world_policy(rules);

	CHECK_INT(egress_box_policy(world.engine, BOX, p, &world_err), 0);
	(void)policy_unref(p);
}
#define POLICY(...) world_set_policy((const char *const[]){__VA_ARGS__, NULL})

/* ---- beginning and end ---- */

static inline void world_denied(const char *box, const struct denial *d, void *arg)
{
	(void)arg;
	CHECK_STR(box, BOX);
	world.denied = *d;
	world.denied_n++;
}

static inline void world_asked(const struct egress_ask *ask, void *arg)
{
	(void)arg;
	world.ask = *ask;
	world.asked_n++;
}

static inline void world_over(const char *id, void *arg)
{
	(void)id;
	(void)arg;
	world.over_n++;
}

static inline void world_allowed(
	const char *box, const struct denial *d, uint64_t up, uint64_t down, void *arg)
{
	(void)box;
	(void)arg;
	world.allowed = *d;
	world.allowed_n++;
	world.allowed_up = up;
	world.allowed_down = down;
}

static const struct egress_events world_events = {
	world_denied, world_asked, world_over, world_allowed};

/* An engine, a box that may do nothing, and the name server. world.config is set before. */
static inline bool world_begin(void)
{
	struct policy *p = world_policy(NULL);
	bool is_fine;

	world.config.resolvers = world.config.resolvers ? world.config.resolvers : WORLD_DNS;
	world.dns.fd = -EBADF;
	is_fine = CHECK(loop_create(&world.loop, &world_err) >= 0) &&
		  CHECK(egress_create(world.loop, &world.config, &world_events, NULL, &world.engine,
				&world_err) >= 0) &&
		  world_make_box() && world_serve_dns() &&
		  CHECK(egress_box_add(world.engine, BOX, "", world.road.tcp_fd, world.road.dns_fd,
				p, &world_err) >= 0);
	if (!is_fine)
		tap_print("# %s\n", world_err.msg);
	(void)policy_unref(p);
	return is_fine;
}

static inline void world_end(void)
{
	int status;

	egress_box_remove(world.engine, BOX);
	world.engine = egress_free(world.engine);
	(void)loop_watch_set(world.loop, &world.dns, 0, &world_err);
	closep(&world.dns.fd);
	closep(&world.child_fd);
	CHECK(waitpid(world.child, &status, 0) == world.child);
	CHECK(WAIT_FOR(conn_finishing() == 0));
	world.loop = loop_free(world.loop);
	memset(&world, 0, sizeof(world));
}

/* ---- as a program in the box ---- */

/* The address the stub gives a name, as text; "" if none. */
static inline const char *box_lookup(const char *name, unsigned type)
{
	static char text[ADDRESS_TEXT_MAX];
	AUTO_FD int fd = box_open("8.8.8.8", 53, SOCK_DGRAM);
	unsigned char q[DNS_MESSAGE_MAX] = {0x12, 0x34, 1, 0, 0, 1}, a[DNS_MESSAGE_MAX];
	struct address addr = {.family = type == DNS_A ? 4 : 6};
	size_t n = 12, len = type == DNS_A ? 4 : 16;
	ssize_t got = -1;

	for (const char *p = name; *p;) {
		size_t label = strcspn(p, ".");

		q[n++] = (unsigned char)label;
		memcpy(q + n, p, label);
		n += label;
		p += label + (p[label] == '.');
	}
	n += 1;
	q[n + 1] = (unsigned char)type;
	q[n + 3] = 1;
	n += 4;
	text[0] = '\0';
	if (!CHECK(fd >= 0) || !CHECK(write(fd, q, n) == (ssize_t)n))
		return text;
	(void)WAIT_FOR((got = read(fd, a, sizeof(a))) > 0);
	if (!CHECK(got >= (ssize_t)n) || !CHECK(a[0] == 0x12 && a[1] == 0x34))
		return text;
	if (a[7] != 1 || (size_t)got < n + 12 + len)
		return text;
	memcpy(addr.b, a + n + 12, len);
	address_format(&addr, text);
	return text;
}

static inline int box_connect(const char *name, uint16_t port)
{
	struct address ignored;

	if (address_parse(name, strlen(name), &ignored))
		return box_open(name, port, SOCK_STREAM);
	return box_open(box_lookup(name, DNS_A), port, SOCK_STREAM);
}
