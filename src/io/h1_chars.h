/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/h1_chars - the alphabets of RFC 9110, one bit each. For h1's own files.
 */
#include <stdbool.h>

enum { H1_TOKEN = 1, H1_VALUE = 2, H1_HOST = 4 };

extern const unsigned char h1_chars[256];

static inline bool h1_is_token_char(char c)
{
	return h1_chars[(unsigned char)c] & H1_TOKEN;
}

/* HTAB, SP, VCHAR, obs-text */
static inline bool h1_is_value_char(char c)
{
	return h1_chars[(unsigned char)c] & H1_VALUE;
}

/* Of a Host value: names, addresses, port. No userinfo, no lists. */
static inline bool h1_is_host_char(char c)
{
	return h1_chars[(unsigned char)c] & H1_HOST;
}
