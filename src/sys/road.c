/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/road - routes, filter and sockets of the only way out.
 *
 * Runs in: pid 1 of a box before anything of the tenant does; the warden (the sockets again, after
 * it was killed).
 *
 * The filter is two rules in one table of the box's own, in the words of nft(8):
 *
 *   table inet bawn { chain road { type filter hook prerouting priority mangle;
 *     tcp flags & (fin|syn|rst|ack) == syn ip  daddr != 127.0.0.0/8 tproxy ip  to :979
 *     tcp flags & (fin|syn|rst|ack) == syn ip6 daddr != ::1         tproxy ip6 to :979 } }
 *
 * Only the first packet of a connection is steered: the others find its socket by themselves.
 * A socket that was not made here cannot be chosen, whatever it is bound to: tproxy takes only
 * transparent ones, and making one needs CAP_NET_ADMIN over the box's network.
 */
#include "sys/road.h"

#include "base/own.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <arpa/inet.h>
#include <assert.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define BACKLOG  1024 /* connections that wait while their acceptor is started again */
#define LOOPBACK 1    /* the index of `lo` in every network namespace */
#define DNS_PORT 53
#define TABLE    "bawn"
#define CHAIN    "road"

/* Netlink messages, one behind the other. */
struct batch {
	union {
		unsigned char bytes[2048];
		struct nlmsghdr align;
	};
	size_t n;
	size_t message; /* where the last one begins */
};

static void *grow(struct batch *b, size_t n)
{
	void *p = b->bytes + b->n;
	size_t room = NLMSG_ALIGN(n);

	assert(b->n + room <= sizeof(b->bytes)); /* what we put in is fixed */
	memset(p, 0, room);
	b->n += room;
	return p;
}

static struct nlmsghdr *message(struct batch *b)
{
	return (struct nlmsghdr *)(void *)(b->bytes + b->message);
}

static void begin(struct batch *b, uint16_t type, uint16_t flags, const void *head, size_t head_n)
{
	struct nlmsghdr *h;

	b->message = b->n;
	h = grow(b, sizeof(*h));
	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	memcpy(grow(b, head_n), head, head_n);
	h->nlmsg_len = (uint32_t)(b->n - b->message);
}

static void put(struct batch *b, uint16_t type, const void *data, size_t n)
{
	struct nlattr *a = grow(b, sizeof(*a));

	a->nla_type = type;
	a->nla_len = (uint16_t)(sizeof(*a) + n);
	memcpy(grow(b, n), data, n);
	message(b)->nlmsg_len = (uint32_t)(b->n - b->message);
}

static void put_text(struct batch *b, uint16_t type, const char *text)
{
	put(b, type, text, strlen(text) + 1);
}

static void put_number(struct batch *b, uint16_t type, uint32_t n)
{
	uint32_t be = htonl(n);

	put(b, type, &be, sizeof(be));
}

static size_t open_nest(struct batch *b, uint16_t type)
{
	size_t at = b->n;

	put(b, type | NLA_F_NESTED, "", 0);
	return at;
}

static void close_nest(struct batch *b, size_t at)
{
	struct nlattr *a = (struct nlattr *)(void *)(b->bytes + at);

	a->nla_len = (uint16_t)(b->n - at);
}

static void begin_nft(struct batch *b, uint16_t type, uint16_t flags)
{
	struct nfgenmsg head = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};

	begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &head, sizeof(head));
}

static void mark(struct batch *b, uint16_t type)
{
	struct nfgenmsg head = {.nfgen_family = AF_UNSPEC,
		.version = NFNETLINK_V0,
		.res_id = htons(NFNL_SUBSYS_NFTABLES)};

	begin(b, type, 0, &head, sizeof(head));
}

struct expression {
	size_t element, data;
};

static struct expression open_expression(struct batch *b, const char *name)
{
	struct expression e = {.element = open_nest(b, NFTA_LIST_ELEM)};

	put_text(b, NFTA_EXPR_NAME, name);
	e.data = open_nest(b, NFTA_EXPR_DATA);
	return e;
}

static void close_expression(struct batch *b, struct expression e)
{
	close_nest(b, e.data);
	close_nest(b, e.element);
}

static void put_value(struct batch *b, uint16_t type, const void *value, size_t n)
{
	size_t at = open_nest(b, type);

	put(b, NFTA_DATA_VALUE, value, n);
	close_nest(b, at);
}

static void compare(struct batch *b, enum nft_cmp_ops op, const void *value, size_t n)
{
	struct expression e = open_expression(b, "cmp");

	put_number(b, NFTA_CMP_SREG, NFT_REG_1);
	put_number(b, NFTA_CMP_OP, (uint32_t)op);
	put_value(b, NFTA_CMP_DATA, value, n);
	close_expression(b, e);
}

static void load_meta(struct batch *b, enum nft_meta_keys key, uint8_t wanted)
{
	struct expression e = open_expression(b, "meta");

	put_number(b, NFTA_META_KEY, (uint32_t)key);
	put_number(b, NFTA_META_DREG, NFT_REG_1);
	close_expression(b, e);
	compare(b, NFT_CMP_EQ, &wanted, 1);
}

static void load_payload(
	struct batch *b, enum nft_payload_bases base, uint32_t offset, uint32_t length)
{
	struct expression e = open_expression(b, "payload");

	put_number(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	put_number(b, NFTA_PAYLOAD_BASE, (uint32_t)base);
	put_number(b, NFTA_PAYLOAD_OFFSET, offset);
	put_number(b, NFTA_PAYLOAD_LEN, length);
	close_expression(b, e);
}

static void mask(struct batch *b, const void *bits, size_t n)
{
	static const unsigned char zero[16];
	struct expression e = open_expression(b, "bitwise");

	put_number(b, NFTA_BITWISE_SREG, NFT_REG_1);
	put_number(b, NFTA_BITWISE_DREG, NFT_REG_1);
	put_number(b, NFTA_BITWISE_LEN, (uint32_t)n);
	put_value(b, NFTA_BITWISE_MASK, bits, n);
	put_value(b, NFTA_BITWISE_XOR, zero, n);
	close_expression(b, e);
}

static void steer(struct batch *b, uint8_t family)
{
	struct expression e = open_expression(b, "immediate");
	uint16_t port = htons(ROAD_PORT);

	put_number(b, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	put_value(b, NFTA_IMMEDIATE_DATA, &port, sizeof(port));
	close_expression(b, e);
	e = open_expression(b, "tproxy");
	put_number(b, NFTA_TPROXY_FAMILY, family);
	put_number(b, NFTA_TPROXY_REG_PORT, NFT_REG_1);
	close_expression(b, e);
}

static void add_rule(struct batch *b, uint8_t family, uint16_t flags)
{
	static const uint8_t flags_mask = 0x17 /* fin, syn, rst, ack */, syn = 0x02;
	static const uint8_t net[] = {127, 0, 0, 0}, net_mask[] = {255, 0, 0, 0};
	size_t at;

	begin_nft(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags);
	put_text(b, NFTA_RULE_TABLE, TABLE);
	put_text(b, NFTA_RULE_CHAIN, CHAIN);
	at = open_nest(b, NFTA_RULE_EXPRESSIONS);
	load_meta(b, NFT_META_L4PROTO, IPPROTO_TCP);
	load_payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1);
	mask(b, &flags_mask, 1);
	compare(b, NFT_CMP_EQ, &syn, 1);
	load_meta(b, NFT_META_NFPROTO, family);
	if (family == NFPROTO_IPV4) {
		load_payload(b, NFT_PAYLOAD_NETWORK_HEADER, 16, 4);
		mask(b, net_mask, sizeof(net_mask));
		compare(b, NFT_CMP_NEQ, net, sizeof(net));
	} else {
		load_payload(b, NFT_PAYLOAD_NETWORK_HEADER, 24, 16);
		compare(b, NFT_CMP_NEQ, &in6addr_loopback, sizeof(in6addr_loopback));
	}
	steer(b, family);
	close_nest(b, at);
	message(b)->nlmsg_len = (uint32_t)(b->n - b->message);
}

static void add_table_and_chain(struct batch *b)
{
	size_t at;

	begin_nft(b, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	put_text(b, NFTA_TABLE_NAME, TABLE);
	begin_nft(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	put_text(b, NFTA_CHAIN_TABLE, TABLE);
	put_text(b, NFTA_CHAIN_NAME, CHAIN);
	at = open_nest(b, NFTA_CHAIN_HOOK);
	put_number(b, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	put_number(b, NFTA_HOOK_PRIORITY, (uint32_t)-150);
	close_nest(b, at);
	put_text(b, NFTA_CHAIN_TYPE, "filter");
	message(b)->nlmsg_len = (uint32_t)(b->n - b->message);
}

/* IPv6 switched off for `lo`: then nothing in the box has such an address at all. */
static bool is_fine(uint32_t seq, int error)
{
	return seq == AF_INET6 && (error == -EACCES || error == -EOPNOTSUPP);
}

/* The kernel answers before send() returns: all there is to hear is in the queue. */
static int hear(int fd)
{
	union {
		char bytes[4096];
		struct nlmsghdr align;
	} answer;

	for (;;) {
		ssize_t got = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
		size_t left = got > 0 ? (size_t)got : 0;

		if (got < 0)
			return errno == EAGAIN ? 0 : -errno;
		for (struct nlmsghdr *h = &answer.align; NLMSG_OK(h, left);
			h = NLMSG_NEXT(h, left)) {
			const struct nlmsgerr *e = NLMSG_DATA(h);

			if (h->nlmsg_type == NLMSG_ERROR && e->error != 0 &&
				!is_fine(h->nlmsg_seq, e->error))
				return e->error;
		}
	}
}

static int talk(int protocol, const struct batch *b)
{
	AUTO_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	if (fd < 0 || send(fd, b->bytes, b->n, 0) < 0)
		return -errno;
	return hear(fd);
}

static void add_route(struct batch *b, uint8_t family)
{
	struct rtmsg head = {
		.rtm_family = family,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_HOST,
		.rtm_type = RTN_LOCAL,
	};
	uint32_t device = LOOPBACK;

	begin(b, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
	message(b)->nlmsg_seq = family;
	put(b, RTA_OIF, &device, sizeof(device));
}

/*
 * An address besides the loopback's own: without one, getaddrinfo() with AI_ADDRCONFIG takes the
 * family for missing and finds no name at all. No name is ever given this one.
 */
static void add_address(struct batch *b, uint8_t family, const void *address, size_t n)
{
	struct ifaddrmsg head = {
		.ifa_family = family,
		.ifa_prefixlen = (uint8_t)(n * 8),
		.ifa_scope = RT_SCOPE_HOST,
		.ifa_index = LOOPBACK,
	};

	begin(b, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
	message(b)->nlmsg_seq = family;
	put(b, IFA_LOCAL, address, n);
	put(b, IFA_ADDRESS, address, n);
}

static int make_routes(bool has_ipv6, struct err *err)
{
	static const uint8_t own4[] = {198, 19, 255, 255};
	static const uint8_t own6[16] = {0xfd, 0xba, 0x3a, 0x11, 0xed, 0, 0xff, 0xff, [15] = 1};
	struct batch b = {.n = 0};
	int r;

	add_route(&b, AF_INET);
	add_address(&b, AF_INET, own4, sizeof(own4));
	if (has_ipv6) {
		add_route(&b, AF_INET6);
		add_address(&b, AF_INET6, own6, sizeof(own6));
	}
	r = talk(NETLINK_ROUTE, &b);
	return r < 0 ? err_set(err, -r, "road: make every address local: %s", strerrordesc_np(-r))
		     : 0;
}

static int make_filter(bool has_ipv6, struct err *err)
{
	struct batch b = {.n = 0};
	int r;

	mark(&b, NFNL_MSG_BATCH_BEGIN);
	add_table_and_chain(&b);
	add_rule(&b, NFPROTO_IPV4, has_ipv6 ? 0 : NLM_F_ACK);
	if (has_ipv6)
		add_rule(&b, NFPROTO_IPV6, NLM_F_ACK);
	mark(&b, NFNL_MSG_BATCH_END);
	r = talk(NETLINK_NETFILTER, &b);
	if (r >= 0)
		return 0;
	(void)err_set(err, -r, "road: steer connections: %s", strerrordesc_np(-r));
	return err_hint(err, "the kernel needs nf_tables and nft_tproxy (modprobe nft_tproxy)");
}

static int set_flag(int fd, int level, int name)
{
	int one = 1;

	return setsockopt(fd, level, name, &one, sizeof(one));
}

/*
 * Transparent: may be chosen by the filter, and may answer from any address. Bound to all
 * addresses without SO_REUSEPORT, so that nobody in the box can have the port beside us.
 */
static int open_socket(bool has_ipv6, int type, uint16_t port)
{
	AUTO_FD int fd =
		socket(has_ipv6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
	int zero = 0, r;

	if (fd < 0 || set_flag(fd, SOL_IP, IP_TRANSPARENT) < 0)
		return -errno;
	if (has_ipv6 && (set_flag(fd, SOL_IPV6, IPV6_TRANSPARENT) < 0 ||
				setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) < 0))
		return -errno;
	/* A connection to the port itself may outlive the one who accepted it. Datagrams do not. */
	if (type == SOCK_STREAM && set_flag(fd, SOL_SOCKET, SO_REUSEADDR) < 0)
		return -errno;
	if (type == SOCK_DGRAM &&
		(set_flag(fd, SOL_IP, IP_PKTINFO) < 0 ||
			(has_ipv6 && set_flag(fd, SOL_IPV6, IPV6_RECVPKTINFO) < 0)))
		return -errno;
	r = has_ipv6 ? bind(fd, (struct sockaddr *)&six, sizeof(six))
		     : bind(fd, (struct sockaddr *)&four, sizeof(four));
	if (r < 0 || (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
		return -errno;
	return TAKE_FD(fd);
}

static int make_sockets(bool has_ipv6, struct road *ret, struct err *err)
{
	AUTO_FD int tcp = open_socket(has_ipv6, SOCK_STREAM, ROAD_PORT), dns = -EBADF;

	if (tcp < 0)
		return err_set(
			err, -tcp, "road: listen on port %d: %s", ROAD_PORT, strerrordesc_np(-tcp));
	dns = open_socket(has_ipv6, SOCK_DGRAM, DNS_PORT);
	if (dns < 0)
		return err_set(err, -dns, "road: open port %d for names: %s", DNS_PORT,
			strerrordesc_np(-dns));
	ret->tcp_fd = TAKE_FD(tcp);
	ret->dns_fd = TAKE_FD(dns);
	return 0;
}

static bool kernel_has_ipv6(void)
{
	AUTO_FD int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0;
}

int road_make(struct road *ret, struct err *err)
{
	bool has_ipv6 = kernel_has_ipv6();
	int r = make_routes(has_ipv6, err);

	if (r >= 0)
		r = make_filter(has_ipv6, err);
	return r < 0 ? r : make_sockets(has_ipv6, ret, err);
}

static int enter_and_make(int pidfd, struct road *ret, struct err *err)
{
	/* The user namespace first, and both at once: its owner is who may enter the other. */
	if (setns(pidfd, CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return err_sys(err, "road: enter the sandbox's network");
	return make_sockets(kernel_has_ipv6(), ret, err);
}

static _Noreturn void remake_in_child(int pidfd, int sock)
{
	struct road road = {-EBADF, -EBADF};
	struct err err = {0}, ignored;
	int r = enter_and_make(pidfd, &road, &err);
	int fds[2] = {road.tcp_fd, road.dns_fd};

	r = sock_send(sock, &err, sizeof(err), fds, r < 0 ? 0 : 2, &ignored);
	_exit(r < 0 ? 1 : 0);
}

int road_remake(int pidfd, struct road *ret, struct err *err)
{
	AUTO_FD int ours = -EBADF, theirs = -EBADF, child_fd = -EBADF;
	int pair[2], fds[2] = {-EBADF, -EBADF}, status;
	struct err why = {0};
	size_t fds_n = 2;
	ssize_t n;
	pid_t pid;
	int r = sock_pair(pair, err);

	if (r < 0)
		return r;
	ours = pair[0];
	theirs = pair[1];
	pid = process_clone(0, -EBADF, &child_fd, err);
	if (pid < 0)
		return pid;
	if (pid == 0)
		remake_in_child(pidfd, theirs);
	closep(&theirs);
	n = sock_receive(ours, &why, sizeof(why), fds, &fds_n, err);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n == (ssize_t)sizeof(why) && why.code == 0 && fds_n == 2) {
		ret->tcp_fd = fds[0];
		ret->dns_fd = fds[1];
		return 0;
	}
	closep(&fds[0]);
	closep(&fds[1]);
	if (n == (ssize_t)sizeof(why) && why.code != 0) {
		*err = why;
		return -why.code;
	}
	return n < 0 ? (int)n : err_set(err, ECHILD, "road: the helper died");
}
