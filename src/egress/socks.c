/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/socks.h"

#include <errno.h>
#include <string.h>

enum { VERSION = 5, LOGIN_VERSION = 1, CONNECT = 1, IPV4 = 1, NAME = 3, IPV6 = 4 };

ssize_t socks_greeting(const void *bytes, size_t n, enum socks_method *ret)
{
	const unsigned char *p = bytes;

	if (n > 0 && p[0] != VERSION)
		return -EPROTO;
	if (n < 2)
		return 0;
	if (p[1] == 0)
		return -EPROTO;
	if (n < 2u + p[1])
		return 0;
	*ret = SOCKS_NO_METHOD;
	if (memchr(p + 2, SOCKS_NO_LOGIN, p[1]))
		*ret = SOCKS_NO_LOGIN;
	else if (memchr(p + 2, SOCKS_LOGIN, p[1]))
		*ret = SOCKS_LOGIN;
	return 2 + p[1];
}

ssize_t socks_login(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	size_t at;

	if (n > 0 && p[0] != LOGIN_VERSION)
		return -EPROTO;
	if (n < 2 || n < 3u + p[1])
		return 0;
	at = 2u + p[1];
	return n < at + 1 + p[at] ? 0 : (ssize_t)(at + 1 + p[at]);
}

static void take_name(struct socks_request *ret, const char *p, size_t n)
{
	/* Some clients send an address as text. */
	if (address_parse(p, n, &ret->addr))
		return;
	if (policy_clean_name(p, n, ret->name) < 0) {
		ret->name[0] = '\0';
		ret->code = SOCKS_BAD_ADDRESS;
	}
}

static void take_addr(struct socks_request *ret, const unsigned char *p, uint8_t family)
{
	struct sockaddr_storage ss = {0};
	struct address a = {.family = family};
	uint16_t port;

	memcpy(a.b, p, family == 4 ? 4 : 16);
	/* There and back, so that a mapped IPv4 address is the one it holds. */
	(void)address_to_sockaddr(&a, 0, &ss);
	if (!address_from_sockaddr(&ss, &ret->addr, &port))
		ret->code = SOCKS_BAD_ADDRESS;
}

ssize_t socks_request(const void *bytes, size_t n, struct socks_request *ret)
{
	const unsigned char *p = bytes;
	size_t addr_n, whole;

	if ((n > 0 && p[0] != VERSION) || (n > 2 && p[2] != 0))
		return -EPROTO;
	if (n < 5)
		return 0;
	if (p[3] == IPV4)
		addr_n = 4;
	else if (p[3] == IPV6)
		addr_n = 16;
	else if (p[3] == NAME)
		addr_n = 1u + p[4];
	else
		return -EPROTO;
	whole = 4 + addr_n + 2;
	if (n < whole)
		return 0;
	*ret = (struct socks_request){.code = p[1] == CONNECT ? SOCKS_OK : SOCKS_BAD_COMMAND};
	ret->port = (uint16_t)(p[whole - 2] << 8 | p[whole - 1]);
	if (p[3] == NAME)
		take_name(ret, (const char *)p + 5, p[4]);
	else
		take_addr(ret, p + 4, p[3] == IPV4 ? 4 : 6);
	if (ret->port == 0 && ret->code == SOCKS_OK)
		ret->code = SOCKS_BAD_ADDRESS;
	return (ssize_t)whole;
}

void socks_reply(enum socks_code code, unsigned char out[SOCKS_REPLY_LEN])
{
	memset(out, 0, SOCKS_REPLY_LEN);
	out[0] = VERSION;
	out[1] = (unsigned char)code;
	out[3] = IPV4;
}
