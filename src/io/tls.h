/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/tls - TLS contexts for conn: server certificates, client verification. OpenSSL.
 *
 * Only the API role and clients link this; privileged programs never do.
 */
#include "base/err.h"
#include "base/own.h"

struct tls; /* a context; shared by its connections */

/* TLS 1.2+, ALPN http/1.1. PEM files: certificate chain, private key. */
int tls_server(const char *cert_file, const char *key_file, struct tls **ret, struct err *err);
/* Verifies the peer against the system's store, or ca_file if not NULL. */
int tls_client(const char *ca_file, struct tls **ret, struct err *err);
struct tls *tls_free(struct tls *t);
DEFINE_AUTO(struct tls *, tls_free)
