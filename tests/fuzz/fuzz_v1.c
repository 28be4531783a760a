/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What strangers send to /v1 beyond plain HTTP: the bytes of a name server, a webhook's URL, the
 * body of an exec. The first byte chooses. Oracles: what is accepted can be used as it is.
 */
#include "api/v1/dns.h"
#include "api/v1/exec.h"
#include "api/v1/webhooks.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void dns(const uint8_t *p, size_t n)
{
	struct dns_found f = {0};
	/* The id is the packet's own, or nothing would ever match. */
	unsigned id = n >= 2 ? (unsigned)p[0] << 8 | p[1] : 0;

	(void)dns_parse(p, n, "a.example", n % 2 ? DNS_A : DNS_AAAA, id, &f);
	assert(f.n <= DNS_FOUND_MAX);
}

static void url(const char *text)
{
	struct webhook_url u;
	struct err err = {0};

	if (webhook_url_parse(text, &u, &err) < 0)
		return;
	/* Nothing in it may add a field or a request. */
	assert(u.path[0] == '/' && strpbrk(u.path, " \r\n") == NULL);
	assert(strpbrk(u.host, " \r\n/@") == NULL && u.port >= 1 && u.port <= 65535);
	assert(u.address.ss_family != 0 || dns_is_name(u.host));
	(void)webhook_is_private((const struct sockaddr *)&u.address);
}

static void exec_body(const char *p, size_t n)
{
	json_t *body = json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
	struct guest_start s = {0};
	struct err err = {0};
	char *kept = NULL;

	if (json_is_object(body) && exec_parse(body, &s, &kept, &err) == 0)
		assert(s.argv && s.argv[0] && s.env && s.cwd && s.user && s.tag && kept);
	guest_start_done(&s);
	free(kept);
	json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	switch (data[0]) {
	case 'd': dns(data + 1, size - 1); break;
	case 'u': url(text); break;
	case 'r': {
		struct sockaddr_storage servers[3];
		struct dns_found f = {0};

		(void)dns_servers(text, servers, 3);
		dns_hosts(text, "a.example", &f);
		break;
	}
	default: exec_body((const char *)data, size);
	}
	free(text);
	return 0;
}
