/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/dns_wire.h"

#include "base/err.h"
#include "base/text.h"

#include <string.h>

#define HEADER   12
#define CLASS_IN 1
#define TYPE_OPT 41
#define WIRE_MAX 255 /* bytes of a name */
#define EDNS_N   11

enum { FLAG_ANSWER = 0x8000, FLAG_OPCODE = 0x7800, FLAG_RD = 0x0100, FLAG_RA = 0x0080 };

static uint16_t get16(const unsigned char *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(unsigned char *p, unsigned v)
{
	p[0] = (unsigned char)(v >> 8);
	p[1] = (unsigned char)v;
}

static void put32(unsigned char *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v & 0xffff);
}

/*
 * The labels from p on as text with dots, not clean if a byte is no letter of a name. Returns the
 * bytes used with the final 0, or 0 if malformed.
 */
static size_t read_name(const unsigned char *p, size_t n, char out[WIRE_MAX + 1], size_t *ret_n)
{
	size_t at = 0, len = 0;

	for (;;) {
		size_t label;

		if (at >= n || at >= WIRE_MAX)
			return 0;
		label = p[at++];
		if (label == 0)
			break;
		if (label > 63 || label > n - at || at + label >= WIRE_MAX)
			return 0;
		if (len > 0)
			out[len++] = '.';
		memcpy(out + len, p + at, label);
		/* A dot inside a label must not look like one between labels. */
		for (size_t i = 0; i < label; i++)
			if (out[len + i] == '.' || out[len + i] == '\0')
				out[len + i] = '\x01';
		len += label;
		at += label;
	}
	out[len] = '\0';
	*ret_n = len;
	return at;
}

/* An OPT record right behind the question, as every resolver puts it. */
static bool has_opt(const unsigned char *p, size_t n)
{
	return n >= EDNS_N && p[0] == 0 && get16(p + 1) == TYPE_OPT;
}

int dns_wire_parse(const void *bytes, size_t n, struct dns_query *ret)
{
	const unsigned char *p = bytes;
	char name[WIRE_MAX + 1];
	size_t name_n, used;

	*ret = (struct dns_query){0};
	if (n < HEADER || get16(p + 2) & FLAG_ANSWER)
		return -1;
	ret->id = get16(p);
	ret->flags = get16(p + 2);
	if (ret->flags & FLAG_OPCODE)
		return DNS_NOTIMP;
	if (get16(p + 4) != 1 || get16(p + 6) != 0)
		return DNS_FORMERR;
	used = read_name(p + HEADER, n - HEADER, name, &name_n);
	if (used == 0 || n - HEADER - used < 4)
		return DNS_FORMERR;
	ret->type = get16(p + HEADER + used);
	ret->klass = get16(p + HEADER + used + 2);
	ret->question_n = used + 4;
	ret->has_edns = get16(p + 10) > 0 &&
			has_opt(p + HEADER + ret->question_n, n - HEADER - ret->question_n);
	ret->is_clean = name_n > 0 && policy_clean_name(name, name_n, ret->name) >= 0;
	if (!ret->is_clean)
		ret->name[0] = '\0';
	return ret->klass == CLASS_IN ? DNS_OK : DNS_REFUSED;
}

static size_t put_name(unsigned char *out, const char *name)
{
	size_t at = 0;

	while (*name) {
		size_t n = strcspn(name, ".");

		out[at++] = (unsigned char)n;
		memcpy(out + at, name, n);
		at += n;
		name += n + (name[n] == '.');
	}
	out[at++] = 0;
	return at;
}

static size_t put_record(unsigned char *out, unsigned type, uint32_t ttl_s,
	const struct address *addr, const char *name)
{
	size_t n;

	put16(out, 0xc000 | HEADER); /* the question's name */
	put16(out + 2, type);
	put16(out + 4, CLASS_IN);
	put32(out + 6, ttl_s);
	if (addr) {
		n = addr->family == 4 ? 4 : 16;
		memcpy(out + 12, addr->b, n);
	} else {
		n = put_name(out + 12, name);
	}
	put16(out + 10, (unsigned)n);
	return 12 + n;
}

size_t dns_wire_answer(const void *bytes, const struct dns_query *q, enum dns_code code,
	const struct address *addr, const char *name, uint32_t ttl_s,
	unsigned char out[DNS_MESSAGE_MAX])
{
	const unsigned char *p = bytes;
	bool has_record = addr || name;
	size_t n = HEADER;

	memset(out, 0, HEADER);
	put16(out, q->id);
	put16(out + 2, FLAG_ANSWER | FLAG_RA | (q->flags & FLAG_RD) |
			       (code == DNS_NOTIMP ? q->flags & FLAG_OPCODE : 0) | code);
	if (q->question_n > 0) {
		put16(out + 4, 1);
		memcpy(out + n, p + HEADER, q->question_n);
		n += q->question_n;
	}
	if (has_record) {
		unsigned type = name ? DNS_PTR : addr->family == 4 ? DNS_A : DNS_AAAA;

		put16(out + 6, 1);
		n += put_record(out + n, type, ttl_s, addr, name);
	}
	if (q->has_edns) {
		put16(out + 10, 1);
		memset(out + n, 0, EDNS_N);
		put16(out + n + 1, TYPE_OPT);
		put16(out + n + 3, DNS_MESSAGE_MAX);
		n += EDNS_N;
	}
	return n;
}

/* ---- reverse names ---- */

static bool reverse4(const char *s, struct address *ret)
{
	*ret = (struct address){.family = 4};
	for (int i = 3; i >= 0; i--) {
		uint64_t v;

		if (*s < '0' || *s > '9' || text_scan_u64(&s, &v) < 0 || v > 255 || *s != '.')
			return false;
		ret->b[i] = (uint8_t)v;
		s++;
	}
	return strcmp(s, "in-addr.arpa") == 0;
}

static int nibble(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *p = c ? strchr(digits, c) : NULL;

	return p ? (int)(p - digits) : -1;
}

static bool reverse6(const char *s, struct address *ret)
{
	*ret = (struct address){.family = 6};
	for (int i = 31; i >= 0; i--) {
		int v = nibble(s[0]);

		if (v < 0 || s[1] != '.')
			return false;
		ret->b[i / 2] |= (uint8_t)(i % 2 ? v : v << 4);
		s += 2;
	}
	return strcmp(s, "ip6.arpa") == 0;
}

bool dns_wire_reverse(const char *name, struct address *ret)
{
	return reverse4(name, ret) || reverse6(name, ret);
}
