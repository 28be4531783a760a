/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/mint - the installation's certificate authority, and leaf certificates under it.
 *
 * The key is made on first use (P-256, 10 years) and stands with its certificate in
 * <dir>/ca.key (0600); it never leaves this process. For boxes to read, in <dir>/public:
 * ca.pem, bundle.pem (the roots that upstream servers are verified by, and ours), cacerts.jks
 * (the same for Java, "changeit").
 */
#include "base/err.h"
#include "base/own.h"
#include "io/tls.h"

#include <stdint.h>

struct mint;

/*
 * `roots`: PEM file of the authorities that upstream servers are verified by; NULL: the
 * system's. Several processes may open the same directory at once, also for the first time.
 * Blocks (files).
 */
int mint_open(const char *dir, const char *roots, struct mint **ret, struct err *err);
struct mint *mint_free(struct mint *m);
DEFINE_AUTO(struct mint *, mint_free)

/*
 * A server context whose leaf is for the name in the ClientHello, or for conn_create()'s `peer`
 * if there is none (a bare address: as IP SAN); ALPN http/1.1 only. Leaves are cached (LRU,
 * 1024). The context belongs to the mint.
 */
struct tls *mint_server(struct mint *m);
/* Leaves made so far. */
uint64_t mint_count(const struct mint *m);
