/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/socks - the client's side of SOCKS5 (RFC 1928), read. Pure, fuzzed.
 */
#include "core/address.h"
#include "core/policy.h"

#include <stdint.h>
#include <sys/types.h>

#define SOCKS_GREETING_MAX (2 + 255)
#define SOCKS_LOGIN_MAX    (3 + 2 * 255)
#define SOCKS_REQUEST_MAX  (4 + 256 + 2)

enum socks_code {
	SOCKS_OK = 0,
	SOCKS_FAILED = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_BAD_COMMAND = 7,
	SOCKS_BAD_ADDRESS = 8,
};
enum socks_method { SOCKS_NO_LOGIN = 0, SOCKS_LOGIN = 2, SOCKS_NO_METHOD = 0xff };

/* All three: > 0 bytes used, 0 more are needed, < 0 malformed. */

/* The method to choose: none at all if the client has it, else user and password (any). */
ssize_t socks_greeting(const void *p, size_t n, enum socks_method *ret);
ssize_t socks_login(const void *p, size_t n);

struct socks_request {
	enum socks_code code;           /* else: what to refuse it with */
	char name[POLICY_NAME_MAX + 1]; /* "": addr */
	struct address addr;
	uint16_t port;
};
ssize_t socks_request(const void *p, size_t n, struct socks_request *ret);

#define SOCKS_REPLY_LEN 10
void socks_reply(enum socks_code code, unsigned char out[SOCKS_REPLY_LEN]);
