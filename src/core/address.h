/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/address - IP addresses and networks: reading, writing, and which may be dialled unasked.
 *
 * An IPv4-mapped (::ffff:0:0/96) address is the IPv4 address it holds, everywhere. Pure.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_MAX 48

struct address {
	uint8_t family; /* 4, 6; 0 = none */
	uint8_t b[16];  /* network order; IPv4 in the first four */
};

struct address_net {
	struct address base;
	uint8_t bits;
};

/* Why an address is not dialled unless a rule names it; ADDRESS_PUBLIC may be. */
enum address_kind {
	ADDRESS_PUBLIC,
	ADDRESS_PRIVATE, /* RFC 1918, ULA, carrier-grade NAT, site-local */
	ADDRESS_LOOPBACK,
	ADDRESS_LINK_LOCAL, /* 169.254/16, fe80::/10 */
	ADDRESS_METADATA,   /* 169.254.169.254, fd00:ec2::254, 168.63.129.16, … */
	ADDRESS_MULTICAST,
	ADDRESS_UNSPECIFIED, /* 0.0.0.0/8, :: */
	ADDRESS_TUNNEL,   /* NAT64, 6to4, Teredo, IPv4-compatible around one that is not public */
	ADDRESS_RESERVED, /* documentation, benchmarking (also our synthetic ones), 240/4, … */
};

/* Strict: dotted quad of four decimal numbers, or RFC 4291 text without a zone. */
bool address_parse(const char *s, size_t n, struct address *ret);
bool address_from_sockaddr(
	const struct sockaddr_storage *ss, struct address *ret, uint16_t *ret_port);
socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *ret);
void address_format(const struct address *a, char out[ADDRESS_TEXT_MAX]);
bool address_equal(const struct address *a, const struct address *b);

/* "10.0.0.0/8", "fd00::/8", or a single address; bits below the prefix must be 0. */
bool address_net_parse(const char *s, size_t n, struct address_net *ret);
bool address_in(const struct address *a, const struct address_net *net);
/*
 * Does the net name the address on purpose? As address_in(), but for one that is not public the
 * net must lie within the block that makes it so: 10.0.0.0/8 names 10.1.2.3, 0.0.0.0/0 does not,
 * and a metadata service or a tunnel's end is named by itself only.
 */
bool address_net_names(const struct address_net *net, const struct address *a);

enum address_kind address_kind(const struct address *a);
const char *address_kind_name(enum address_kind k); /* "private", "loopback", … */
