/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/v1/dns - the address of a webhook's receiver, asked of the system's name servers over UDP.
 *
 * Only for webhooks: what a sandbox asks for is looked up by egress alone. The answer is a
 * stranger's bytes: parsed by pure functions, fuzzed. One question per socket, from a port the
 * kernel chose, with a random id; the socket is connected, so that only the server asked answers.
 */
#include "io/loop.h"

#include <stdbool.h>
#include <sys/socket.h>

#define DNS_FOUND_MAX 8
#define DNS_PACKET    512

enum { DNS_A = 1, DNS_AAAA = 28 };

struct dns_found {
	struct sockaddr_storage address[DNS_FOUND_MAX]; /* port 0 */
	size_t n;
};

/* Letters, digits, '-' and '.'; labels of 1 to 63, 253 in all; the last one no number. */
bool dns_is_name(const char *s);
/* The question; its length. `name` is one. */
size_t dns_query(const char *name, unsigned type, unsigned id, unsigned char out[DNS_PACKET]);
/* Adds what the answer has. -EPROTO: malformed, or to another question; -ENOENT: no such name. */
int dns_parse(const unsigned char *p, size_t n, const char *name, unsigned type, unsigned id,
	struct dns_found *ret);
/* The name servers in the text of resolv.conf, port 53; how many, at most max. */
size_t dns_servers(const char *text, struct sockaddr_storage *ret, size_t max);
/* The name in the text of /etc/hosts. */
void dns_hosts(const char *text, const char *name, struct dns_found *ret);

struct dns_ask;
/* code 0 and at least one address, or -errno. From the loop, exactly once. */
typedef void (*dns_done_fn)(int code, const struct dns_found *found, void *arg);
int dns_ask(struct loop *l, const char *name, dns_done_fn done, void *arg, struct dns_ask **ret,
	struct err *err);
/* No callback follows. */
void dns_cancel(struct dns_ask *q);
