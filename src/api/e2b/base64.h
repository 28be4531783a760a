/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/base64 - RFC 4648, standard alphabet. Pure, fuzzed through fuzz_connect.
 *
 * The encoder writes into room the caller has, so that a process's output goes into its frame
 * without a copy in between.
 */
#include <stddef.h>
#include <sys/types.h>

/* Bytes the encoding of n bytes takes, padding included, without a NUL. */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)

/* Writes BASE64_SIZE(n) bytes, no NUL. Returns that number. */
size_t base64_encode(char *out, const void *in, size_t n);

/*
 * Decodes n characters into out, which has room for n / 4 * 3 + 3 bytes and may be the input
 * itself. Padding may be missing. Returns the length; -EINVAL for anything else.
 */
ssize_t base64_decode(void *out, const char *in, size_t n);
