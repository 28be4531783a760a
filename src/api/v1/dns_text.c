/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The pure part of dns: questions and answers as bytes (RFC 1035), resolv.conf and hosts as text.
 */
#include "api/v1/dns.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool dns_is_name(const char *s)
{
	size_t n = strlen(s), label = 0, last = 0;

	if (n == 0 || n > 253)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '.') {
			if (label == 0)
				return false;
			label = 0;
			last = i + 1;
		} else if ((!isalnum((unsigned char)s[i]) && s[i] != '-') || ++label > 63) {
			return false;
		}
	}
	/* "1.2.3" and "0x7f.1" are numbers to others: what we check must be what they dial. */
	return label > 0 && isalpha((unsigned char)s[last]);
}

size_t dns_query(const char *name, unsigned type, unsigned id, unsigned char out[DNS_PACKET])
{
	const unsigned char head[12] = {
		(unsigned char)(id >> 8), (unsigned char)id, 0x01 /* recursion, please */, 0, 0, 1};
	size_t at = sizeof(head);

	memcpy(out, head, sizeof(head));
	while (*name) {
		size_t n = strcspn(name, ".");

		out[at++] = (unsigned char)n;
		memcpy(out + at, name, n);
		at += n;
		name += n + (name[n] == '.');
	}
	out[at++] = 0;
	out[at++] = (unsigned char)(type >> 8);
	out[at++] = (unsigned char)type;
	out[at++] = 0;
	out[at++] = 1; /* IN */
	return at;
}

static unsigned be16(const unsigned char *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* Behind the name at `at`; 0: malformed. A pointer ends it: where it leads is not our business. */
static size_t skip_name(const unsigned char *p, size_t n, size_t at)
{
	while (at < n) {
		if (p[at] == 0)
			return at + 1;
		if (p[at] >= 0xc0)
			return at + 2 <= n ? at + 2 : 0;
		if (p[at] > 63)
			return 0;
		at += p[at] + (size_t)1;
	}
	return 0;
}

static void add(struct dns_found *f, unsigned type, const unsigned char *p)
{
	struct sockaddr_storage *to;

	if (f->n >= DNS_FOUND_MAX)
		return;
	to = &f->address[f->n++];
	*to = (struct sockaddr_storage){0};
	if (type == DNS_A) {
		to->ss_family = AF_INET;
		memcpy(&((struct sockaddr_in *)to)->sin_addr, p, 4);
	} else {
		to->ss_family = AF_INET6;
		memcpy(&((struct sockaddr_in6 *)to)->sin6_addr, p, 16);
	}
}

/*
 * Addresses of any owner in the answer section count: the server followed the CNAMEs for us, and
 * a server that lies could as well lie about them.
 */
static int read_answers(
	const unsigned char *p, size_t n, size_t at, unsigned type, struct dns_found *ret)
{
	unsigned count = be16(p + 6);

	for (unsigned i = 0; i < count; i++) {
		unsigned got, class, size;

		at = skip_name(p, n, at);
		if (at == 0 || n - at < 10)
			return -EPROTO;
		got = be16(p + at);
		class = be16(p + at + 2);
		size = be16(p + at + 8);
		at += 10;
		if (n - at < size)
			return -EPROTO;
		if (got == type && class == 1 && size == (type == DNS_A ? 4u : 16u))
			add(ret, type, p + at);
		at += size;
	}
	return 0;
}

int dns_parse(const unsigned char *p, size_t n, const char *name, unsigned type, unsigned id,
	struct dns_found *ret)
{
	unsigned char asked[DNS_PACKET];
	size_t asked_n = dns_query(name, type, id, asked);

	if (n < asked_n || be16(p) != id || !(p[2] & 0x80) || be16(p + 4) != 1)
		return -EPROTO;
	/* Our own question back, but for the case of its letters. */
	for (size_t i = 12; i < asked_n; i++)
		if (tolower(p[i]) != tolower(asked[i]))
			return -EPROTO;
	switch (p[3] & 0x0f) {
	case 0: break;
	case 3: return -ENOENT;
	default: return -EIO;
	}
	return read_answers(p, n, asked_n, type, ret);
}

/* The next word of a line, cut at blanks and comments; false at its end. */
static bool next_word(const char **s, char *out, size_t size)
{
	size_t n;

	*s += strspn(*s, " \t\r");
	n = strcspn(*s, " \t\r\n#;");
	if (n == 0)
		return false;
	(void)snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), *s);
	*s += n;
	return true;
}

static const char *next_line(const char *s)
{
	s += strcspn(s, "\n");
	return *s ? s + 1 : s;
}

static bool parse_address(const char *s, struct sockaddr_storage *ret)
{
	*ret = (struct sockaddr_storage){0};
	if (inet_pton(AF_INET, s, &((struct sockaddr_in *)ret)->sin_addr) == 1)
		ret->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, s, &((struct sockaddr_in6 *)ret)->sin6_addr) == 1)
		ret->ss_family = AF_INET6;
	return ret->ss_family != 0;
}

size_t dns_servers(const char *text, struct sockaddr_storage *ret, size_t max)
{
	size_t n = 0;
	char word[64];

	for (; *text && n < max; text = next_line(text)) {
		const char *s = text;

		if (!next_word(&s, word, sizeof(word)) || strcmp(word, "nameserver") != 0 ||
			!next_word(&s, word, sizeof(word)) || !parse_address(word, &ret[n]))
			continue;
		if (ret[n].ss_family == AF_INET)
			((struct sockaddr_in *)&ret[n])->sin_port = htons(53);
		else
			((struct sockaddr_in6 *)&ret[n])->sin6_port = htons(53);
		n++;
	}
	return n;
}

void dns_hosts(const char *text, const char *name, struct dns_found *ret)
{
	char word[256];

	for (; *text; text = next_line(text)) {
		struct sockaddr_storage address;
		const char *s = text;

		if (!next_word(&s, word, sizeof(word)) || !parse_address(word, &address))
			continue;
		while (next_word(&s, word, sizeof(word)))
			if (strcasecmp(word, name) == 0 && ret->n < DNS_FOUND_MAX)
				ret->address[ret->n++] = address;
	}
}
