/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/dns_wire - the few DNS messages the stub reads and writes. Pure, fuzzed.
 *
 * Reads one question; a compressed name in a question is malformed, so there is nothing to loop
 * in. Writes an answer of at most one record behind the question as it came (resolvers compare
 * the spelling).
 */
#include "core/address.h"
#include "core/policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_MESSAGE_MAX 1232 /* we answer in far less */

enum dns_type { DNS_A = 1, DNS_PTR = 12, DNS_AAAA = 28, DNS_ANY = 255 };
enum dns_code { DNS_OK = 0, DNS_FORMERR = 1, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

struct dns_query {
	uint16_t id, flags;
	uint16_t type, klass;
	char name[POLICY_NAME_MAX + 1]; /* lower case, no final dot; "" is the root or not clean */
	bool is_clean;                  /* a name that a policy can speak of */
	size_t question_n;              /* bytes of the question section; 0 = none to repeat */
	bool has_edns;
};

/*
 * DNS_OK; or the code to refuse with, then only id, flags and question_n are set; or -1: no query
 * at all (an answer, too short): say nothing.
 */
int dns_wire_parse(const void *p, size_t n, struct dns_query *ret);

/*
 * The answer to the query in q, whose bytes were p: no record if `addr` and `name` are NULL, else A
 * or AAAA, or PTR. Returns its length.
 */
size_t dns_wire_answer(const void *p, const struct dns_query *q, enum dns_code code,
	const struct address *addr, const char *name, uint32_t ttl_s,
	unsigned char out[DNS_MESSAGE_MAX]);

/* The address in "4.3.2.1.in-addr.arpa" or "….ip6.arpa"; false if it is none. */
bool dns_wire_reverse(const char *name, struct address *ret);
