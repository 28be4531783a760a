/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The pure part of webhooks: where to, whether it may be, what is wanted, the signature.
 *
 * A host is an address or a name; whatever it leads to is judged at each delivery, and that very
 * address is dialled.
 */
#include "api/v1/webhooks.h"

#include "api/v1/dns.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

static int parse_host(const char **s, struct webhook_url *u, struct err *err)
{
	bool is_v6 = **s == '[';
	size_t n = is_v6 ? strcspn(*s + 1, "]") : strcspn(*s, ":/?#");
	struct sockaddr_in *v4 = (struct sockaddr_in *)&u->address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&u->address;

	if (n == 0 || n >= sizeof(u->host) || (is_v6 && (*s)[n + 1] != ']'))
		return err_set(err, EINVAL, "url: the host is malformed");
	(void)snprintf(u->host, sizeof(u->host), "%.*s", (int)n, *s + is_v6);
	*s += n + (is_v6 ? 2 : 0);
	if (!is_v6 && inet_pton(AF_INET, u->host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		return 0;
	}
	if (is_v6 && inet_pton(AF_INET6, u->host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		return 0;
	}
	if (!is_v6 && dns_is_name(u->host))
		return 0;
	return err_set(err, EINVAL, "url: the host is neither an address nor a name");
}

void webhook_set_port(struct sockaddr_storage *address, unsigned port)
{
	if (address->ss_family == AF_INET)
		((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
	else if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
}

static int parse_port(const char **s, struct webhook_url *u, struct err *err)
{
	uint64_t port = u->is_https ? 443 : 80;

	if (**s == ':') {
		++*s;
		if (text_scan_u64(s, &port) < 0 || port < 1 || port > 65535)
			return err_set(err, EINVAL, "url: the port is malformed");
	}
	u->port = (unsigned)port;
	webhook_set_port(&u->address, u->port);
	return 0;
}

int webhook_url_parse(const char *text, struct webhook_url *ret, struct err *err)
{
	const char *s = text;
	int r;

	*ret = (struct webhook_url){0};
	if (strlen(text) >= WEBHOOK_URL_MAX)
		return err_set(err, EINVAL, "url: longer than %d bytes", WEBHOOK_URL_MAX - 1);
	for (const char *p = text; *p; p++)
		if (*p <= 0x20 || *p >= 0x7f)
			return err_set(err, EINVAL, "url: holds a byte that must be escaped");
	if (text_starts(s, "https://"))
		ret->is_https = true;
	else if (!text_starts(s, "http://"))
		return err_set(err, EINVAL, "url: must start with https:// or http://");
	s += ret->is_https ? 8 : 7;
	r = parse_host(&s, ret, err);
	if (r == 0)
		r = parse_port(&s, ret, err);
	if (r < 0)
		return r;
	if (*s && *s != '/' && *s != '?')
		return err_set(err, EINVAL, "url: something stands behind the host");
	if (strchr(s, '#'))
		return err_set(err, EINVAL, "url: a fragment is not sent");
	(void)snprintf(ret->path, sizeof(ret->path), "%s%s", *s == '/' ? "" : "/", s);
	return 0;
}

static bool is_private_v4(uint32_t a)
{
	static const struct {
		uint32_t net;
		int bits;
	} nets[] = {
		{0x00000000, 8},  /* this network */
		{0x0a000000, 8},  /* private */
		{0x64400000, 10}, /* carrier's NAT */
		{0x7f000000, 8},  /* loopback */
		{0xa9fe0000, 16}, /* link-local: metadata services */
		{0xac100000, 12}, /* private */
		{0xc0000000, 24}, /* protocol assignments */
		{0xc0a80000, 16}, /* private */
		{0xc6120000, 15}, /* benchmarks; our own synthetic names */
		{0xe0000000, 3},  /* multicast, reserved, broadcast */
	};

	for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++)
		if ((a ^ nets[i].net) >> (32 - nets[i].bits) == 0)
			return true;
	return false;
}

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool webhook_is_private(const struct sockaddr *address)
{
	const unsigned char *p;

	if (address->sa_family == AF_INET)
		return is_private_v4(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
	if (address->sa_family != AF_INET6)
		return true;
	p = ((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr;
	/* Public is 2000::/3; in it, forms that carry an IPv4 address are judged by that. */
	if (p[0] == 0x20 && p[1] == 0x02)
		return is_private_v4(be32(p + 2));
	if (be32(p) == 0x20010000 || be32(p) == 0x20010db8)
		return true; /* Teredo hides its address; documentation is nobody */
	return (p[0] & 0xe0) != 0x20;
}

bool webhook_matches(const char *globs, const char *action)
{
	while (*globs) {
		size_t n = strcspn(globs, ",");
		char one[80];

		if (n < sizeof(one)) {
			(void)snprintf(one, sizeof(one), "%.*s", (int)n, globs);
			if (fnmatch(one, action, 0) == 0)
				return true;
		}
		globs += n + (globs[n] == ',');
	}
	return false;
}

void webhook_sign(const char *secret, int64_t unix_s, const char *body, char out[65])
{
	AUTO_FREE char *text = text_format("%" PRId64 ".%s", unix_s, body);
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	(void)HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)text,
		strlen(text), mac, &n);
	for (unsigned i = 0; i < n && i < 32; i++)
		(void)snprintf(out + (size_t)2 * i, 3, "%02x", mac[i]);
}
