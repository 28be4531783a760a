/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The JKS format, which no specification describes but every Java reads:
 *
 *   u32 0xfeedfeed, u32 version 2, u32 number of entries
 *   per entry: u32 2 (trusted certificate), text alias, u64 ms of creation, text "X.509",
 *              u32 length, DER
 *   SHA-1 over the password in UTF-16BE, "Mighty Aphrodite", and all of the above
 *
 * All big-endian; a text is u16 length and bytes. The digest keeps nothing secret: everybody
 * knows the password.
 */
#include "base/mem.h"
#include "egress/mint_impl.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <time.h>

#define JKS_MAGIC   0xfeedfeedu
#define JKS_VERSION 2
#define JKS_TRUSTED 2

static int put(struct buf *out, uint64_t v, unsigned bytes)
{
	unsigned char b[8];

	for (unsigned i = 0; i < bytes; i++)
		b[i] = (unsigned char)(v >> (8 * (bytes - 1 - i)));
	return buf_add(out, b, bytes);
}

static int put_text(struct buf *out, const char *s)
{
	size_t n = strlen(s);
	int r = put(out, n, 2);

	return r == 0 ? buf_add(out, s, n) : r;
}

/* Its own first day, so that nothing but the list decides the bytes. */
static uint64_t created_ms(const X509 *cert)
{
	struct tm tm = {0};

	if (ASN1_TIME_to_tm(X509_get0_notBefore(cert), &tm) != 1)
		return 0;
	return (uint64_t)timegm(&tm) * 1000;
}

static int put_entry(struct buf *out, X509 *cert, const char *alias)
{
	unsigned char *der = NULL;
	int n = i2d_X509(cert, &der), r;

	if (n < 0)
		return -EINVAL;
	r = put(out, JKS_TRUSTED, 4);
	if (r == 0)
		r = put_text(out, alias);
	if (r == 0)
		r = put(out, created_ms(cert), 8);
	if (r == 0)
		r = put_text(out, "X.509");
	if (r == 0)
		r = put(out, (uint64_t)n, 4);
	if (r == 0)
		r = buf_add(out, der, (size_t)n);
	OPENSSL_free(der);
	return r;
}

static int put_digest(struct buf *out)
{
	static const unsigned char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0t"
					    "Mighty Aphrodite";
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	EVP_MD_CTX *md = mem_must(EVP_MD_CTX_new());
	bool ok = EVP_DigestInit_ex(md, EVP_sha1(), NULL) == 1 &&
		  EVP_DigestUpdate(md, salt, sizeof(salt) - 1) == 1 &&
		  EVP_DigestUpdate(md, buf_data(out), buf_len(out)) == 1 &&
		  EVP_DigestFinal_ex(md, digest, &n) == 1;

	EVP_MD_CTX_free(md);
	return ok ? buf_add(out, digest, n) : -EINVAL;
}

int jks_write(X509 *const *certs, size_t n, struct buf *out, struct err *err)
{
	int r = put(out, JKS_MAGIC, 4);

	if (r == 0)
		r = put(out, JKS_VERSION, 4);
	if (r == 0)
		r = put(out, n, 4);
	for (size_t i = 0; r == 0 && i < n; i++) {
		char alias[32];

		(void)snprintf(alias, sizeof(alias), i == 0 ? "bawn" : "root-%zu", i);
		r = put_entry(out, certs[i], alias);
	}
	if (r == 0)
		r = put_digest(out);
	return r < 0 ? err_set(err, -r, "write a Java key store") : 0;
}
