/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * base/sha256 - SHA-256 (FIPS 180-4), for the identity of a text.
 *
 * Ours, so that the program with privilege links no cryptographic library for a digest. Not
 * for secrets: nothing here is constant-time or wiped.
 */
#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define SHA256_HEX  65 /* with the NUL */

struct sha256 {
	uint32_t state[8];
	uint64_t total; /* bytes taken so far */
	unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, unsigned char out[SHA256_SIZE]);

/* The digest of one text, in lower-case hex. */
void sha256_hex(const void *p, size_t n, char out[SHA256_HEX]);
