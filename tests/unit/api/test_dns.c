/* SPDX-License-Identifier: Apache-2.0 */

#include "api/v1/dns.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

/* The answer to "a.example A, id 0x1234": a CNAME, then two addresses. */
static size_t answer(unsigned char *p)
{
	static const unsigned char records[] = {
		0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, 'b', 0xc0, 14,  /* CNAME b.example */
		0xc0, 39, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1,      /* A */
		1, 'b', 0xc0, 14, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 8, 8, 8, 8 /* A */
	};
	size_t n = dns_query("a.example", DNS_A, 0x1234, p);

	p[2] |= 0x80;
	p[7] = 3;
	memcpy(p + n, records, sizeof(records));
	return n + sizeof(records);
}

static uint32_t v4(const struct dns_found *f, size_t i)
{
	return ntohl(((const struct sockaddr_in *)&f->address[i])->sin_addr.s_addr);
}

static void addresses_are_taken_from_the_answer(void)
{
	unsigned char p[DNS_PACKET];
	struct dns_found f = {0};
	size_t n = answer(p);

	CHECK_INT(dns_parse(p, n, "A.Example", DNS_A, 0x1234, &f), 0);
	CHECK_INT(f.n, 2);
	CHECK_INT(v4(&f, 0), 0xc0000201);
	CHECK_INT(v4(&f, 1), 0x08080808);
}

static void answers_to_other_questions_are_not_taken(void)
{
	unsigned char p[DNS_PACKET];
	struct dns_found f = {0};
	size_t n = answer(p);

	CHECK_INT(dns_parse(p, n, "a.example", DNS_A, 0x1235, &f), -EPROTO);
	CHECK_INT(dns_parse(p, n, "b.example", DNS_A, 0x1234, &f), -EPROTO);
	CHECK_INT(dns_parse(p, n, "a.example", DNS_AAAA, 0x1234, &f), -EPROTO);
	p[2] &= 0x7f; /* a question, not an answer */
	CHECK_INT(dns_parse(p, n, "a.example", DNS_A, 0x1234, &f), -EPROTO);
	CHECK_INT(f.n, 0);
}

static void refusals_are_told_apart(void)
{
	unsigned char p[DNS_PACKET];
	struct dns_found f = {0};
	size_t n = answer(p);

	p[3] = 3;
	CHECK_INT(dns_parse(p, n, "a.example", DNS_A, 0x1234, &f), -ENOENT);
	p[3] = 2;
	CHECK_INT(dns_parse(p, n, "a.example", DNS_A, 0x1234, &f), -EIO);
}

/* Whatever is cut off or counted wrongly: an error, and no byte beyond is read (ASan). */
static void every_cut_is_an_error(void)
{
	unsigned char p[DNS_PACKET];
	size_t n = answer(p);

	for (size_t cut = 0; cut < n; cut++) {
		struct dns_found f = {0};
		unsigned char *exact = malloc(cut ? cut : 1);

		memcpy(exact, p, cut);
		CHECK_INT(dns_parse(exact, cut, "a.example", DNS_A, 0x1234, &f), -EPROTO);
		free(exact);
	}
}

static void names_are_checked(void)
{
	static const char long_label[] =
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b";

	CHECK(dns_is_name("hooks.example") && dns_is_name("a") && dns_is_name("x-1.b2.c3"));
	CHECK(!dns_is_name("") && !dns_is_name(".a") && !dns_is_name("a.") && !dns_is_name("a..b"));
	CHECK(!dns_is_name("1.2.3") && !dns_is_name("a.0x7f") && !dns_is_name("a b"));
	CHECK(!dns_is_name(long_label) && !dns_is_name("a_b.c") && !dns_is_name("a@b"));
}

static void files_of_the_system_are_read(void)
{
	struct sockaddr_storage servers[3];
	struct dns_found f = {0};

	CHECK_INT(dns_servers("# nameserver 9.9.9.9\nsearch x\nnameserver 192.0.2.53 # c\n"
			      "nameserver nonsense\nnameserver ::1\n nameserver 1.1.1.1\n"
			      "nameserver 2.2.2.2",
			  servers, 3),
		3);
	CHECK_INT(servers[0].ss_family, AF_INET);
	CHECK_INT(ntohs(((struct sockaddr_in *)&servers[0])->sin_port), 53);
	CHECK_INT(servers[1].ss_family, AF_INET6);
	CHECK_INT(dns_servers("", servers, 3), 0);
	dns_hosts("127.0.0.1 localhost\n# 1.1.1.1 hooks\n192.0.2.7\tother hooks # x\n"
		  "::2 HOOKS\nbad hooks\n",
		"hooks", &f);
	CHECK_INT(f.n, 2);
	CHECK_INT(v4(&f, 0), 0xc0000207);
	CHECK_INT(f.address[1].ss_family, AF_INET6);
}

int main(void)
{
	RUN(addresses_are_taken_from_the_answer);
	RUN(answers_to_other_questions_are_not_taken);
	RUN(refusals_are_told_apart);
	RUN(every_cut_is_an_error);
	RUN(names_are_checked);
	RUN(files_of_the_system_are_read);
	return tap_done();
}
