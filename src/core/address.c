/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/address - one table says which blocks are not public; the smallest that holds an address
 * decides. The blocks are those of the IANA special-purpose registries and the clouds' metadata
 * services. Allocates nothing.
 */
#include "core/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum inner { /* where a tunnel's address carries an IPv4 one */
	INNER_NONE,
	INNER_LAST,   /* the last four bytes */
	INNER_6TO4,   /* bytes 2 to 5 */
	INNER_TEREDO, /* server in bytes 4 to 7, client in the last four, inverted */
};

struct block {
	uint8_t b[16];
	uint8_t bits;
	enum address_kind kind;
	enum inner inner;
};

/* Longer prefixes first: the first that fits is the smallest. */
static const struct block blocks4[] = {
	{{100, 100, 100, 200}, 32, ADDRESS_METADATA, INNER_NONE}, /* Alibaba */
	{{168, 63, 129, 16}, 32, ADDRESS_METADATA, INNER_NONE},   /* Azure */
	{{169, 254, 169, 254}, 32, ADDRESS_METADATA, INNER_NONE},
	{{169, 254, 170, 2}, 32, ADDRESS_METADATA, INNER_NONE},  /* AWS ECS credentials */
	{{169, 254, 170, 23}, 32, ADDRESS_METADATA, INNER_NONE}, /* AWS EKS credentials */
	{{192, 0, 0, 192}, 32, ADDRESS_METADATA, INNER_NONE},    /* Oracle, classic */
	{{192, 0, 0, 0}, 24, ADDRESS_RESERVED, INNER_NONE},
	{{192, 0, 2, 0}, 24, ADDRESS_RESERVED, INNER_NONE},
	{{192, 88, 99, 0}, 24, ADDRESS_RESERVED, INNER_NONE},
	{{198, 51, 100, 0}, 24, ADDRESS_RESERVED, INNER_NONE},
	{{203, 0, 113, 0}, 24, ADDRESS_RESERVED, INNER_NONE},
	{{169, 254}, 16, ADDRESS_LINK_LOCAL, INNER_NONE},
	{{192, 168}, 16, ADDRESS_PRIVATE, INNER_NONE},
	{{198, 18}, 15, ADDRESS_RESERVED, INNER_NONE},
	{{172, 16}, 12, ADDRESS_PRIVATE, INNER_NONE},
	{{100, 64}, 10, ADDRESS_PRIVATE, INNER_NONE},
	{{0}, 8, ADDRESS_UNSPECIFIED, INNER_NONE},
	{{10}, 8, ADDRESS_PRIVATE, INNER_NONE},
	{{127}, 8, ADDRESS_LOOPBACK, INNER_NONE},
	{{224}, 4, ADDRESS_MULTICAST, INNER_NONE},
	{{240}, 4, ADDRESS_RESERVED, INNER_NONE},
};

static const struct block blocks6[] = {
	{{0}, 128, ADDRESS_UNSPECIFIED, INNER_NONE},
	{{[15] = 1}, 128, ADDRESS_LOOPBACK, INNER_NONE},
	{{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54}, 128, ADDRESS_METADATA, INNER_NONE}, /* AWS */
	{{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128, ADDRESS_METADATA, INNER_NONE}, /* GCP */
	{{0}, 96, ADDRESS_TUNNEL, INNER_NONE}, /* IPv4-compatible: nothing public uses it */
	{{[8] = 0xff, 0xff}, 96, ADDRESS_TUNNEL, INNER_LAST},             /* RFC 2765 */
	{{0x00, 0x64, 0xff, 0x9b}, 96, ADDRESS_TUNNEL, INNER_LAST},       /* NAT64 */
	{{0x01, 0x00}, 64, ADDRESS_RESERVED, INNER_NONE},                 /* discard only */
	{{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48, ADDRESS_TUNNEL, INNER_NONE}, /* local NAT64 */
	{{0x20, 0x01, 0, 0}, 32, ADDRESS_TUNNEL, INNER_TEREDO},
	{{0x20, 0x01, 0x0d, 0xb8}, 32, ADDRESS_RESERVED, INNER_NONE},
	{{0x20, 0x01}, 23, ADDRESS_RESERVED, INNER_NONE},
	{{0x3f, 0xff}, 20, ADDRESS_RESERVED, INNER_NONE},
	{{0x20, 0x02}, 16, ADDRESS_TUNNEL, INNER_6TO4},
	{{0xfe, 0x80}, 10, ADDRESS_LINK_LOCAL, INNER_NONE},
	{{0xfe, 0xc0}, 10, ADDRESS_PRIVATE, INNER_NONE}, /* site-local */
	{{0xff}, 8, ADDRESS_MULTICAST, INNER_NONE},
	{{0xfc}, 7, ADDRESS_PRIVATE, INNER_NONE},
	{{0x20}, 3, ADDRESS_PUBLIC, INNER_NONE}, /* the one block that is handed out */
	{{0}, 0, ADDRESS_RESERVED, INNER_NONE},
};

static bool has_prefix(const uint8_t *a, const uint8_t *base, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return memcmp(a, base, whole) == 0 &&
	       (rest == 0 || ((a[whole] ^ base[whole]) >> (8 - rest)) == 0);
}

static const struct block *block_of(const struct address *a)
{
	const struct block *table = a->family == 4 ? blocks4 : blocks6;
	size_t n = a->family == 4 ? sizeof(blocks4) / sizeof(blocks4[0])
				  : sizeof(blocks6) / sizeof(blocks6[0]);

	for (size_t i = 0; i < n; i++) {
		if (has_prefix(a->b, table[i].b, table[i].bits))
			return &table[i];
	}
	return NULL;
}

static struct address inner4(const uint8_t *b, uint8_t flip)
{
	struct address a = {.family = 4};

	for (int i = 0; i < 4; i++)
		a.b[i] = b[i] ^ flip;
	return a;
}

/* A tunnel is as public as what stands at its ends. */
static bool is_public_tunnel(const struct address *a, enum inner inner)
{
	struct address one, two;

	switch (inner) {
	case INNER_NONE: return false;
	case INNER_LAST: one = two = inner4(a->b + 12, 0); break;
	case INNER_6TO4: one = two = inner4(a->b + 2, 0); break;
	case INNER_TEREDO:
		one = inner4(a->b + 4, 0);
		two = inner4(a->b + 12, 0xff);
		break;
	default: return false;
	}
	return !block_of(&one) && !block_of(&two);
}

enum address_kind address_kind(const struct address *a)
{
	const struct block *b;

	if (a->family != 4 && a->family != 6)
		return ADDRESS_UNSPECIFIED;
	b = block_of(a);
	if (!b || (b->kind == ADDRESS_TUNNEL && is_public_tunnel(a, b->inner)))
		return ADDRESS_PUBLIC;
	return b->kind;
}

const char *address_kind_name(enum address_kind k)
{
	switch (k) {
	case ADDRESS_PUBLIC: return "public";
	case ADDRESS_PRIVATE: return "private";
	case ADDRESS_LOOPBACK: return "loopback";
	case ADDRESS_LINK_LOCAL: return "link-local";
	case ADDRESS_METADATA: return "metadata";
	case ADDRESS_MULTICAST: return "multicast";
	case ADDRESS_UNSPECIFIED: return "unspecified";
	case ADDRESS_TUNNEL: return "tunnel";
	case ADDRESS_RESERVED: return "reserved";
	}
	return "unknown";
}

static void from_v6(const uint8_t raw[16], struct address *ret)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	*ret = (struct address){.family = 6};
	if (memcmp(raw, mapped, sizeof(mapped)) == 0) {
		ret->family = 4;
		memcpy(ret->b, raw + 12, 4);
		return;
	}
	memcpy(ret->b, raw, 16);
}

bool address_parse(const char *s, size_t n, struct address *ret)
{
	char text[INET6_ADDRSTRLEN];
	uint8_t raw[16];

	if (n == 0 || n >= sizeof(text) || memchr(s, '\0', n))
		return false;
	memcpy(text, s, n);
	text[n] = '\0';
	/* inet_pton() takes neither leading zeroes, hex, short forms nor a zone: what we want. */
	if (!strchr(text, ':')) {
		if (inet_pton(AF_INET, text, raw) != 1)
			return false;
		*ret = (struct address){.family = 4};
		memcpy(ret->b, raw, 4);
		return true;
	}
	if (inet_pton(AF_INET6, text, raw) != 1)
		return false;
	from_v6(raw, ret);
	return true;
}

bool address_from_sockaddr(
	const struct sockaddr_storage *ss, struct address *ret, uint16_t *ret_port)
{
	if (ss->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)ss;

		*ret = (struct address){.family = 4};
		memcpy(ret->b, &in->sin_addr, 4);
		*ret_port = ntohs(in->sin_port);
		return true;
	}
	if (ss->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;

		from_v6(in6->sin6_addr.s6_addr, ret);
		*ret_port = ntohs(in6->sin6_port);
		return true;
	}
	return false;
}

socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *ret)
{
	*ret = (struct sockaddr_storage){0};
	if (a->family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)ret;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->b, 4);
		return sizeof(*in);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		memcpy(&in6->sin6_addr, a->b, 16);
		return sizeof(*in6);
	}
}

void address_format(const struct address *a, char out[ADDRESS_TEXT_MAX])
{
	if (a->family == 0 ||
		!inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->b, out, ADDRESS_TEXT_MAX))
		(void)snprintf(out, ADDRESS_TEXT_MAX, "none");
}

bool address_equal(const struct address *a, const struct address *b)
{
	return a->family == b->family &&
	       (a->family == 0 || memcmp(a->b, b->b, a->family == 4 ? 4 : 16) == 0);
}

static bool parse_bits(const char *s, size_t n, unsigned max, unsigned *ret)
{
	unsigned v = 0;

	if (n == 0 || n > 3 || (n > 1 && s[0] == '0'))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	*ret = v;
	return v <= max;
}

bool address_net_parse(const char *s, size_t n, struct address_net *ret)
{
	const char *slash = memchr(s, '/', n);
	size_t len = slash ? (size_t)(slash - s) : n;
	struct address_net net = {0};
	bool is_six = memchr(s, ':', len) != NULL;
	unsigned bits = is_six ? 128 : 32;

	if (!address_parse(s, len, &net.base) ||
		(slash && !parse_bits(slash + 1, n - len - 1, bits, &bits)))
		return false;
	if (is_six && net.base.family == 4) {
		if (bits < 96) /* more than the mapped addresses: would mean two families */
			return false;
		bits -= 96;
	}
	net.bits = (uint8_t)bits;
	for (unsigned i = bits; i < (net.base.family == 4 ? 32u : 128u); i++) {
		if (net.base.b[i / 8] & (0x80u >> (i % 8)))
			return false;
	}
	*ret = net;
	return true;
}

bool address_in(const struct address *a, const struct address_net *net)
{
	return a->family == net->base.family && a->family != 0 &&
	       has_prefix(a->b, net->base.b, net->bits);
}

bool address_net_names(const struct address_net *net, const struct address *a)
{
	const struct block *b;

	if (!address_in(a, net))
		return false;
	if (address_kind(a) == ADDRESS_PUBLIC)
		return true;
	b = block_of(a);
	/* What a tunnel leads to is seen only in the whole address. */
	return net->bits >= (b->kind == ADDRESS_TUNNEL ? 128 : b->bits == 0 ? 8 : b->bits);
}
