/* SPDX-License-Identifier: Apache-2.0 */

/*
 * egress/dns_wire on hostile bytes: an answer fits, repeats the question, and is itself no query.
 */
#include "egress/dns_wire.h"
#include "egress/servers.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char longest[] =
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
		"aaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	unsigned char out[DNS_MESSAGE_MAX];
	struct address six = {.family = 6}, ignored;
	struct dns_query q, again;
	char servers[SERVERS_TEXT];
	int code = dns_wire_parse(data, size, &q);
	size_t n;

	servers_parse((const char *)data, size, servers);
	assert(strlen(servers) < sizeof(servers));
	if (code < 0)
		return 0;
	assert(q.question_n == 0 || 12 + q.question_n <= size);
	assert(strlen(q.name) <= POLICY_NAME_MAX);
	n = dns_wire_answer(data, &q, code == DNS_OK ? DNS_OK : (enum dns_code)code,
		code == DNS_OK ? &six : NULL, NULL, 60, out);
	assert(n >= 12 && n <= sizeof(out));
	assert(memcmp(out + 12, data + 12, q.question_n) == 0);
	assert(dns_wire_parse(out, n, &again) == -1);
	if (code == DNS_OK) {
		n = dns_wire_answer(data, &q, DNS_OK, NULL, longest, 60, out);
		assert(n <= sizeof(out));
	}
	(void)dns_wire_reverse(q.name, &ignored);
	return 0;
}
