/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/mint - the installation's certificate authority, and leaf certificates under it.
 *
 * The key is made on first use (P-256, 10 years), stands in <dir>/ca.key (0600) and never leaves this process. Beside it,
 * for boxes to read: ca.pem, bundle.pem (the system's roots and ours), cacerts.jks (for Java).
 */
#include "base/err.h"
#include "base/own.h"
#include "io/tls.h"

struct mint;

int mint_open(const char *dir, struct mint **ret, struct err *err);
struct mint *mint_free(struct mint *m);
DEFINE_AUTO(struct mint *, mint_free)

/*
 * A server context whose leaf is for the name in the ClientHello, or `name` if it has none (a bare address: as IP SAN);
 * ALPN http/1.1 only. Leaves are cached (LRU, 1024). The context belongs to the mint.
 */
struct tls *mint_server(struct mint *m);
