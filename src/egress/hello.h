/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/hello - what a TLS client says first: the server name, and what it hides. Pure, fuzzed.
 *
 * Reads a ClientHello cut into any number of records. Only what egress decides by is looked at;
 * but all lengths must add up, since the other side will read the same bytes.
 */
#include "core/policy.h"

#include <stdbool.h>
#include <stddef.h>

#define HELLO_MAX 16384 /* bytes of the message; more is refused */

enum hello_result {
	HELLO_OK,
	HELLO_MORE, /* so far, so good */
	HELLO_BAD,  /* it starts as TLS and is not */
	HELLO_NONE, /* something else */
};

struct hello {
	char name[POLICY_NAME_MAX + 1]; /* as rules have it; "" = none */
	bool has_name;
	bool is_bad_name; /* one that no rule can speak of: an address, odd bytes, two names */
	bool has_ech;     /* encrypted hello, or the grease that looks like it */
};

enum hello_result hello_parse(const void *p, size_t n, struct hello *ret);
