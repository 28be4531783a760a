/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The box's name server. It never looks anything up: a name gets an address that stands for it,
 * also one that is denied, so that the connection that follows can be told why not. A name that
 * carries a placeholder gets nothing.
 */
#include "egress/dns_wire.h"
#include "egress/egress_impl.h"
#include "egress/names.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define TTL_S 60
#define TURN  64 /* datagrams of one box before others have their turn */

struct datagram {
	unsigned char bytes[DNS_MESSAGE_MAX];
	size_t n;
	struct sockaddr_storage from;
	/* Where it was sent to: what the answer is sent from. One of the two, or none. */
	struct in6_pktinfo to6;
	struct in_pktinfo to4;
	int to_family; /* AF_INET6, AF_INET, 0 */
};

union control {
	char space[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
	struct cmsghdr align;
};

static void take_control(struct datagram *d, struct msghdr *m)
{
	d->to_family = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO &&
			c->cmsg_len >= CMSG_LEN(sizeof(d->to6)) && d->from.ss_family == AF_INET6) {
			memcpy(&d->to6, CMSG_DATA(c), sizeof(d->to6));
			d->to_family = AF_INET6;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO &&
			   c->cmsg_len >= CMSG_LEN(sizeof(d->to4)) &&
			   d->from.ss_family == AF_INET) {
			memcpy(&d->to4, CMSG_DATA(c), sizeof(d->to4));
			d->to4.ipi_spec_dst = d->to4.ipi_addr;
			d->to_family = AF_INET;
		}
	}
}

static void put_control(const struct datagram *d, struct msghdr *m, union control *space)
{
	bool is6 = d->to_family == AF_INET6;
	size_t n = is6 ? sizeof(d->to6) : sizeof(d->to4);
	struct cmsghdr *c;

	if (d->to_family == 0)
		return;
	m->msg_control = space;
	m->msg_controllen = CMSG_SPACE(n);
	c = CMSG_FIRSTHDR(m);
	c->cmsg_level = is6 ? IPPROTO_IPV6 : IPPROTO_IP;
	c->cmsg_type = is6 ? IPV6_PKTINFO : IP_PKTINFO;
	c->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(c), is6 ? (const void *)&d->to6 : (const void *)&d->to4, n);
}

static ssize_t receive(int fd, struct datagram *d)
{
	struct iovec v = {d->bytes, sizeof(d->bytes)};
	union control space;
	struct msghdr m = {.msg_name = &d->from,
		.msg_namelen = sizeof(d->from),
		.msg_iov = &v,
		.msg_iovlen = 1,
		.msg_control = &space,
		.msg_controllen = sizeof(space)};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	d->n = n > 0 && !(m.msg_flags & MSG_TRUNC) ? (size_t)n : 0;
	if (n >= 0)
		take_control(d, &m);
	return n;
}

/* From the address that was asked: a resolver listens to no other. */
static void reply(int fd, struct datagram *d, unsigned char *bytes, size_t n)
{
	struct iovec v = {bytes, n};
	struct msghdr m = {.msg_name = &d->from,
		.msg_namelen = d->from.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							     : sizeof(struct sockaddr_in),
		.msg_iov = &v,
		.msg_iovlen = 1};
	union control space = {0};

	put_control(d, &m, &space);
	(void)sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL); /* lost: it asks again */
}

/* ---- what a name means ---- */

static void note(struct egress_box *b, const char *name, enum denial_kind kind,
	const struct policy_rule *rule)
{
	struct egress_flow f = {.box = b, .rule = rule};
	struct denial d;

	(void)snprintf(f.name, sizeof(f.name), "%s", name);
	denial_fill(&d, kind, &f, NULL, NULL, NULL);
	(void)snprintf(d.protocol, sizeof(d.protocol), "dns");
	violation_note(b, &d);
}

static void judge(struct egress_box *b, const char *name)
{
	struct egress_flow f = {.box = b};
	struct policy_answer a;

	(void)snprintf(f.name, sizeof(f.name), "%s", name);
	flow_decide(&f, NULL, NULL, &a);
	if (a.needs == 0 && a.action == POLICY_DENY && !ask_is_granted(b, name))
		note(b, name, denial_kind_of(&a), a.rule);
}

static bool is_localhost(const char *name)
{
	static const char word[] = "localhost";
	size_t n = strlen(name), m = sizeof(word) - 1;

	return n >= m && strcmp(name + n - m, word) == 0 && (n == m || name[n - m - 1] == '.');
}

static void local_address(uint8_t family, struct address *ret)
{
	*ret = (struct address){.family = family};
	if (family == 4) {
		ret->b[0] = 127;
		ret->b[3] = 1;
	} else {
		ret->b[15] = 1;
	}
}

static void address_of(struct egress_box *b, const char *name, uint8_t family, struct address *ret)
{
	if (is_localhost(name)) {
		local_address(family, ret);
	} else if (strcmp(name, EGRESS_INTERNAL) == 0) {
		names_address(NAMES_INTERNAL, family, ret);
	} else {
		judge(b, name);
		names_address(names_number(b->names, name), family, ret);
	}
}

static const char *name_of(struct egress_box *b, const char *reverse)
{
	struct address a;
	uint32_t number;

	if (!dns_wire_reverse(reverse, &a) || !names_is_synthetic(&a, &number))
		return NULL;
	return number == NAMES_INTERNAL ? EGRESS_INTERNAL : names_name(b->names, number);
}

static size_t answer(
	struct egress_box *b, const struct datagram *d, unsigned char out[DNS_MESSAGE_MAX])
{
	struct dns_query q;
	struct address a;
	const char *name;
	int code = dns_wire_parse(d->bytes, d->n, &q);

	if (code < 0)
		return 0;
	if (code != DNS_OK)
		return dns_wire_answer(d->bytes, &q, (enum dns_code)code, NULL, NULL, 0, out);
	if (!q.is_clean)
		return dns_wire_answer(d->bytes, &q, DNS_NXDOMAIN, NULL, NULL, 0, out);
	if (vault_scan_name(q.name)) {
		note(b, q.name, DENIAL_PLACEHOLDER, NULL);
		return dns_wire_answer(d->bytes, &q, DNS_REFUSED, NULL, NULL, 0, out);
	}
	if (q.type == DNS_A || q.type == DNS_AAAA) {
		address_of(b, q.name, q.type == DNS_A ? 4 : 6, &a);
		return dns_wire_answer(d->bytes, &q, DNS_OK, &a, NULL, TTL_S, out);
	}
	if (q.type == DNS_PTR) {
		name = name_of(b, q.name);
		return dns_wire_answer(
			d->bytes, &q, name ? DNS_OK : DNS_NXDOMAIN, NULL, name, TTL_S, out);
	}
	return dns_wire_answer(d->bytes, &q, DNS_OK, NULL, NULL, 0, out);
}

void stub_ready(struct egress_box *b)
{
	unsigned char out[DNS_MESSAGE_MAX];
	struct datagram d;

	for (int i = 0; i < TURN; i++) {
		size_t n;

		if (receive(b->dns.fd, &d) < 0)
			return;
		n = d.n > 0 ? answer(b, &d, out) : 0;
		if (n > 0)
			reply(b->dns.fd, &d, out, n);
	}
}
