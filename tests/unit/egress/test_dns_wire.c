/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/dns_wire.h"

#include "tap.h"

#include <string.h>

static const unsigned char header[12] = {0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
static unsigned char message[1500];
static size_t message_n;
static struct dns_query q;

static void make(const void *name, size_t name_n, unsigned type)
{
	memcpy(message, header, 12);
	memcpy(message + 12, name, name_n);
	message_n = 12 + name_n;
	memcpy(message + message_n, (unsigned char[4]){0, (unsigned char)type, 0, 1}, 4);
	message_n += 4;
}
#define NAME(s) (s), sizeof(s) /* with its final 0 */

static int parse(void)
{
	return dns_wire_parse(message, message_n, &q);
}

static void a_question_is_read(void)
{
	make(NAME("\3WwW\4test"), DNS_AAAA);
	CHECK_INT(parse(), DNS_OK);
	CHECK_STR(q.name, "www.test");
	CHECK_INT(q.type, DNS_AAAA);
	CHECK_INT(q.id, 0xabcd);
	CHECK(q.is_clean && !q.has_edns);
	for (size_t n = 0; n < message_n; n++)
		CHECK(dns_wire_parse(message, n, &q) != DNS_OK);
}

static void an_answer_repeats_the_question_as_it_was_spelled(void)
{
	struct address a = {4, {198, 18, 0, 7}};
	unsigned char out[DNS_MESSAGE_MAX];
	size_t n;

	make(NAME("\3WwW\4test"), DNS_A);
	CHECK_INT(parse(), DNS_OK);
	n = dns_wire_answer(message, &q, DNS_OK, &a, NULL, 60, out);
	CHECK_INT(n, message_n + 16);
	CHECK(memcmp(out + 12, message + 12, message_n - 12) == 0);
	CHECK(memcmp(out + n - 16, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\0\7", 16) == 0);
	CHECK(out[2] & 0x80 && out[7] == 1);
}

static void edns_is_answered_with_edns(void)
{
	unsigned char out[DNS_MESSAGE_MAX];

	make(NAME("\3www\4test"), DNS_A);
	memcpy(message + message_n, "\0\0\x29\4\xd0\0\0\0\0\0\0", 11);
	message_n += 11;
	message[11] = 1;
	CHECK_INT(parse(), DNS_OK);
	CHECK(q.has_edns);
	CHECK_INT(dns_wire_answer(message, &q, DNS_OK, NULL, NULL, 0, out), message_n);
	CHECK_INT(out[11], 1);
}

static void a_name_is_not_compressed_not_endless_and_not_forged(void)
{
	unsigned char longest[300];

	make(NAME("\3www\xc0\x0c"), DNS_A); /* points at itself */
	CHECK_INT(parse(), DNS_FORMERR);
	make("\xc0\x0c", 2, DNS_A);
	CHECK_INT(parse(), DNS_FORMERR);
	make("\x41", 1, DNS_A); /* a label of 65 */
	CHECK_INT(parse(), DNS_FORMERR);
	for (size_t i = 0; i < sizeof(longest); i++)
		longest[i] = i % 2 ? 'a' : 1;
	make(longest, sizeof(longest), DNS_A);
	CHECK_INT(parse(), DNS_FORMERR);
	/* A dot inside a label is no dot between labels. */
	make(NAME("\x08www.test"), DNS_A);
	CHECK_INT(parse(), DNS_OK);
	CHECK(!q.is_clean);
	make(NAME("\4a\0.b"), DNS_A);
	CHECK_INT(parse(), DNS_OK);
	CHECK(!q.is_clean);
	make("", 1, DNS_A); /* the root */
	CHECK_INT(parse(), DNS_OK);
	CHECK(!q.is_clean);
}

static void what_is_no_query_gets_no_answer(void)
{
	make(NAME("\3www\4test"), DNS_A);
	message[2] |= 0x80;
	CHECK_INT(parse(), -1);
	message[2] = 0x28; /* an update */
	CHECK_INT(parse(), DNS_NOTIMP);
	message[2] = 1;
	message[5] = 2;
	CHECK_INT(parse(), DNS_FORMERR);
	make(NAME("\3www\4test"), DNS_A);
	message[message_n - 1] = 3; /* CHAOS */
	CHECK_INT(parse(), DNS_REFUSED);
}

static void reverse_names_are_addresses(void)
{
	struct address a;

	CHECK(dns_wire_reverse("7.0.18.198.in-addr.arpa", &a));
	CHECK(a.family == 4 && memcmp(a.b, "\xc6\x12\0\7", 4) == 0);
	CHECK(dns_wire_reverse("7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.e.1.1.a.3.a.b.d.f."
			       "ip6.arpa",
		&a));
	CHECK(a.family == 6 && a.b[0] == 0xfd && a.b[1] == 0xba && a.b[15] == 7);
	CHECK(!dns_wire_reverse("256.0.18.198.in-addr.arpa", &a));
	CHECK(!dns_wire_reverse("0.18.198.in-addr.arpa", &a));
	CHECK(!dns_wire_reverse("in-addr.arpa", &a));
	CHECK(!dns_wire_reverse("g.ip6.arpa", &a));
}

int main(void)
{
	RUN(a_question_is_read);
	RUN(an_answer_repeats_the_question_as_it_was_spelled);
	RUN(edns_is_answered_with_edns);
	RUN(a_name_is_not_compressed_not_endless_and_not_forged);
	RUN(what_is_no_query_gets_no_answer);
	RUN(reverse_names_are_addresses);
	return tap_done();
}
