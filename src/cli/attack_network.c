/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_network - group network: any road out, and the network's controls.
 *
 * Nothing is sent to an address outside of the machine: connect() on a datagram
 * socket only asks the kernel for a route. ENETUNREACH means there is none.
 */
#include "cli/attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* Connect to a numeric address; the socket, or -errno. TCP waits at most two seconds. */
static int dial(int type, const char *address, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool is_v6 = strchr(address, ':') != NULL;
	const struct sockaddr *sa = is_v6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in;
	socklen_t len = is_v6 ? sizeof(in6) : sizeof(in);
	struct pollfd p = {.events = POLLOUT};
	AUTO_FD int fd = -EBADF;
	int on = 1, error = 0;
	socklen_t error_len = sizeof(error);

	if (inet_pton(is_v6 ? AF_INET6 : AF_INET, address,
		    is_v6 ? (void *)&in6.sin6_addr : (void *)&in.sin_addr) != 1)
		return -EINVAL;
	fd = socket(sa->sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	if (connect(fd, sa, len) == 0)
		return TAKE_FD(fd);
	if (errno != EINPROGRESS)
		return -errno;
	p.fd = fd;
	if (poll(&p, 1, 2000) != 1)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) < 0)
		return -errno;
	return error ? -error : TAKE_FD(fd);
}

/* The victim's service on the host's loopback answers with the secret. */
static int ask_host(const struct attack_ctx *c, int type, const char *address, uint16_t port,
	struct attack_report *r)
{
	AUTO_FD int fd = dial(type, address, port);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char bytes[64] = "";
	ssize_t n;

	if (port == 0) {
		errno = EAFNOSUPPORT;
		return attack_refused(r, "the host has no %s", address);
	}
	if (fd < 0) {
		errno = -fd;
		return attack_refused(r, "connect to %s", address);
	}
	if (send(fd, "who", 3, MSG_NOSIGNAL) < 0)
		return attack_refused(r, "send to %s", address);
	if (poll(&p, 1, 2000) != 1) {
		errno = ETIMEDOUT;
		return attack_refused(r, "no answer from %s", address);
	}
	n = recv(fd, bytes, sizeof(bytes) - 1, 0);
	if (n < 0)
		return attack_refused(r, "answer from %s", address);
	if (!strstr(bytes, c->secret)) {
		errno = ECONNREFUSED;
		return attack_refused(r, "%s answers, but is not the host", address);
	}
	return attack_broke(r, "the host's service at %s answered", address);
}

static int loopback_tcp(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return ask_host(c, SOCK_STREAM, "127.0.0.1", c->tcp_port, r);
}

static int loopback_tcp6(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return ask_host(c, SOCK_STREAM, "::1", c->tcp6_port, r);
}

static int loopback_udp(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return ask_host(c, SOCK_DGRAM, "127.0.0.1", c->udp_port, r);
}

/* 0.0.0.0 means "this machine" to connect(), which address filters forget. */
static int zero_address(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return ask_host(c, SOCK_STREAM, "0.0.0.0", c->tcp_port, r);
}

static int route_to(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = dial(SOCK_DGRAM, a->path, 80);

	(void)c;
	if (fd >= 0)
		return attack_broke(r, "there is a route to %s", a->path);
	errno = -fd;
	return attack_refused(r, "route to %s", a->path);
}

/* What names carry out: a question to a resolver of the host, and to public ones. */
static int dns(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const char *const resolvers[] = {"8.8.8.8", "1.1.1.1", "2001:4860:4860::8888"};

	(void)a;
	for (size_t i = 0; i < sizeof(resolvers) / sizeof(resolvers[0]); i++) {
		AUTO_FD int fd = dial(SOCK_DGRAM, resolvers[i], 53);

		if (fd >= 0)
			return attack_broke(r, "there is a route to the resolver %s", resolvers[i]);
	}
	return ask_host(c, SOCK_DGRAM, "127.0.0.1", c->udp_port, r);
}

/* Ask the kernel for all interfaces; true if one is not lo. */
static int other_interface(char *name, size_t name_size)
{
	struct if_nameindex *list = if_nameindex();
	int found = 0;

	if (!list)
		return -errno;
	for (struct if_nameindex *i = list; i->if_index != 0; i++) {
		if (strcmp(i->if_name, "lo") == 0)
			continue;
		(void)snprintf(name, name_size, "%s", i->if_name);
		found = 1;
	}
	if_freenameindex(list);
	return found;
}

static int interfaces(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char name[IF_NAMESIZE + 1] = "", here[64] = "";
	int found = other_interface(name, sizeof(name));

	(void)a;
	if (found > 0)
		return attack_broke(r, "interface '%s' is there", name);
	if (readlink("/proc/self/ns/net", here, sizeof(here) - 1) > 0 &&
		strcmp(here, c->net_ns) == 0)
		return attack_broke(r, "the network namespace is the host's");
	errno = found < 0 ? -found : ENODEV;
	return attack_refused(r, "interfaces besides lo");
}

/* The box's own lo: harmless to change, and nobody without CAP_NET_ADMIN may. */
static int reconfigure(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_name = "lo"};

	(void)a;
	(void)c;
	if (fd < 0 || ioctl(fd, SIOCGIFMTU, &ifr) < 0)
		return attack_refused(r, "SIOCGIFMTU");
	/* The same value again: allowed or not is all we ask. */
	if (ioctl(fd, SIOCSIFMTU, &ifr) < 0)
		return attack_refused(r, "SIOCSIFMTU on lo");
	return attack_broke(r, "changed an interface");
}

/* Add a route over netlink, the way a box would give itself a way out. */
static int add_route(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct {
		struct nlmsghdr h;
		struct rtmsg m;
	} ask = {.h = {.nlmsg_len = sizeof(ask),
			 .nlmsg_type = RTM_NEWROUTE,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.m = {.rtm_family = AF_INET, .rtm_dst_len = 99}};
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char rest[256];
	} answer;
	AUTO_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	(void)a;
	(void)c;
	if (fd < 0)
		return attack_refused(r, "netlink socket");
	if (send(fd, &ask, sizeof(ask), 0) < 0)
		return attack_refused(r, "netlink send");
	if (recv(fd, &answer, sizeof(answer), 0) < (ssize_t)sizeof(answer.h) + 4)
		return attack_absent(r, "netlink answer");
	/* A prefix of 99 bits is refused late, after the permission. */
	errno = -answer.e.error;
	return attack_reached(r, answer.e.error == 0 ? 0 : -1, "netlink(RTM_NEWROUTE)");
}

#define ROUTE(address)                                                                             \
	.wall = WALL_NET, .try = route_to, .path = (address),                                      \
	.expect = {ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, EACCES}
#define RAW(family, type, protocol)                                                                \
	.wall = WALL_SECCOMP, .try = attack_try_call, .call = "socket", .nr = SYS_socket,          \
	.flags = ATTACK_CONTROL, .control_ns = CLONE_NEWNET,                                       \
	.arg = {(family), (type) | SOCK_CLOEXEC, (protocol)}

static const struct attack table[] = {
	{.name = "network/host-loopback-tcp",
		.wall = WALL_NET,
		.success = "a service on the host's 127.0.0.1 is reached",
		.try = loopback_tcp,
		.flags = ATTACK_CONTROL},
	{.name = "network/host-loopback-tcp6",
		.wall = WALL_NET,
		.success = "a service on the host's ::1 is reached",
		.try = loopback_tcp6,
		.expect = {ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL, EACCES, EAFNOSUPPORT}},
	{.name = "network/host-loopback-udp",
		.wall = WALL_NET,
		.success = "a datagram service on the host's 127.0.0.1 is reached",
		.try = loopback_udp,
		.flags = ATTACK_CONTROL},
	{.name = "network/host-by-zero-address",
		.wall = WALL_NET,
		.success = "the host is reached as 0.0.0.0",
		.try = zero_address,
		.flags = ATTACK_CONTROL},
	{.name = "network/road-host-loopback-tcp",
		.wall = WALL_NET,
		.success = "a service on the host's 127.0.0.1 is reached by the road",
		.try = loopback_tcp,
		.flags = ATTACK_CONTROL | ATTACK_ROAD},
	{.name = "network/road-host-loopback-udp",
		.wall = WALL_NET,
		.success = "a datagram service on the host's 127.0.0.1 is reached by the road",
		.try = loopback_udp,
		.flags = ATTACK_CONTROL | ATTACK_ROAD},
	{.name = "network/road-host-by-zero-address",
		.wall = WALL_NET,
		.success = "the host is reached as 0.0.0.0 by the road",
		.try = zero_address,
		.flags = ATTACK_CONTROL | ATTACK_ROAD},
	{.name = "network/metadata-address",
		ROUTE("169.254.169.254"),
		.success = "the cloud's metadata service gives out credentials"},
	{.name = "network/metadata-address-ipv6",
		ROUTE("fd00:ec2::254"),
		.success = "the cloud's metadata service gives out credentials over IPv6"},
	{.name = "network/link-local-address",
		ROUTE("169.254.1.1"),
		.success = "machines on the same wire are reached"},
	{.name = "network/private-address-10",
		ROUTE("10.0.0.1"),
		.success = "the private network is reached"},
	{.name = "network/private-address-192-168",
		ROUTE("192.168.0.1"),
		.success = "the private network is reached"},
	{.name = "network/docker-bridge-address",
		ROUTE("172.17.0.1"),
		.success = "the host is reached through a container bridge"},
	{.name = "network/public-address",
		ROUTE("93.184.216.34"),
		.success = "the internet is reached"},
	{.name = "network/public-address-ipv6",
		ROUTE("2606:2800:220:1::1"),
		.success = "the internet is reached over IPv6"},
	{.name = "network/broadcast",
		ROUTE("255.255.255.255"),
		.success = "every machine on the wire is reached"},
	{.name = "network/multicast",
		ROUTE("224.0.0.251"),
		.success = "services announce themselves to the box"},
	{.name = "network/dns",
		.wall = WALL_NET,
		.success = "names are looked up, and carry data out",
		.try = dns,
		.flags = ATTACK_CONTROL},
	{.name = "network/host-interfaces",
		.wall = WALL_NET,
		.success = "an interface besides lo is there",
		.try = interfaces,
		.flags = ATTACK_CONTROL},
	{.name = "network/raw-socket",
		RAW(AF_INET, SOCK_RAW, IPPROTO_ICMP),
		.success = "packets are forged"},
	{.name = "network/raw-socket-ipv6",
		RAW(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6),
		.success = "packets are forged over IPv6"},
	{.name = "network/packet-socket-CVE-2020-14386",
		RAW(AF_PACKET, SOCK_RAW, 0x300),
		.success = "all traffic is seen, and the ring buffer code reached"},
	{.name = "network/packet-socket-old-type",
		RAW(AF_INET, SOCK_PACKET, 0x300),
		.success = "the same by the type that Linux 2.0 had"},
	{.name = "network/reconfigure-interface",
		.wall = WALL_CAPS,
		.success = "root of the box changes interfaces",
		.try = reconfigure,
		.flags = ATTACK_CONTROL | ATTACK_AS_ROOT,
		.control_ns = CLONE_NEWNET},
	{.name = "network/netlink-route",
		.wall = WALL_CAPS,
		.success = "root of the box gives itself a route",
		.try = add_route,
		.flags = ATTACK_CONTROL | ATTACK_AS_ROOT,
		.control_ns = CLONE_NEWNET},
	{.name = "network/tun-device",
		.wall = WALL_DEV,
		.success = "the box makes itself an interface",
		.try = attack_try_open,
		.path = "/dev/net/tun",
		.open_flags = O_RDWR,
		.flags = ATTACK_AS_ROOT,
		.expect = {ENOENT}},
};

const struct attack_table attack_table_network = {table, sizeof(table) / sizeof(table[0])};
