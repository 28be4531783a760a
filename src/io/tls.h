/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/tls - TLS contexts for conn: server certificates, client verification. OpenSSL.
 *
 * Only the API role and clients link this; privileged programs never do.
 */
#include "base/err.h"
#include "base/own.h"

#include <stdbool.h>

struct tls; /* a context; shared by its connections */

/* TLS 1.2+, ALPN http/1.1. PEM files: certificate chain, private key. */
int tls_server(const char *cert_file, const char *key_file, struct tls **ret, struct err *err);
/*
 * A server whose certificate is chosen for each connection: `choose` is told the name that the
 * client asked for (NULL: none; else a stranger's bytes) and conn_create()'s `peer`, and puts
 * certificate and key on the session. False: the handshake fails. Tickets resume sessions of
 * this context alone.
 */
struct ssl_st;
typedef bool (*tls_choose_fn)(struct ssl_st *ssl, const char *asked, const char *peer, void *arg);
int tls_server_choosing(tls_choose_fn choose, void *arg, struct tls **ret, struct err *err);
/* Verifies the peer against the system's store, or ca_file if not NULL. */
int tls_client(const char *ca_file, struct tls **ret, struct err *err);
struct tls *tls_free(struct tls *t);
DEFINE_AUTO(struct tls *, tls_free)
