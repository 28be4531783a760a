/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/mint_impl - the parts of mint: files, and the Java form of a list of certificates.
 */
#include "base/err.h"
#include "io/buf.h"

#include <openssl/x509.h>

/* The authority's key and certificate, made if <dir>/ca.key is missing. The caller frees both. */
int mint_authority(const char *dir, EVP_PKEY **ret_key, X509 **ret_cert, struct err *err);
/* Bring <dir>/public up to date. */
int mint_publish(const char *dir, const char *roots, X509 *authority, struct err *err);

/*
 * A Java key store (JKS, version 2) of trusted certificates. The same list gives the same
 * bytes. Aliases are "bawn" for the first and "root-<n>" for the others. Pure.
 */
int jks_write(X509 *const *certs, size_t n, struct buf *out, struct err *err);
