/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/seal.h"

#include "base/mem.h"
#include "egress/guard.h"
#include "egress/seal_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <string.h>

#define FORMAT 1
#define NONCE  12
#define TAG    16

struct sealer {
	struct guard key;
};

int sealer_open(const struct sealer_config *c, struct sealer **ret, struct err *err)
{
	unsigned char key[SEAL_KEY];
	struct sealer *s;
	int r = seal_key_find(c, key, err);

	if (r < 0)
		return r;
	s = MEM_NEW(struct sealer);
	r = guard_set(&s->key, key, sizeof(key), err);
	OPENSSL_cleanse(key, sizeof(key));
	if (r < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct sealer *sealer_free(struct sealer *s)
{
	if (s)
		guard_done(&s->key);
	free(s);
	return NULL;
}

/* Whose, which and which version: with the NULs, so that no two are written alike. */
static int add_context(EVP_CIPHER_CTX *ctx, const char *owner, const char *name, uint64_t version,
	int (*update)(EVP_CIPHER_CTX *, unsigned char *, int *, const unsigned char *, int))
{
	static const char about[] = "bawn secret 1";
	unsigned char number[8];
	int n = 0;

	for (int i = 0; i < 8; i++)
		number[i] = (unsigned char)(version >> (56 - 8 * i));
	return update(ctx, NULL, &n, (const unsigned char *)about, (int)sizeof(about)) == 1 &&
	       update(ctx, NULL, &n, (const unsigned char *)owner, (int)strlen(owner) + 1) == 1 &&
	       update(ctx, NULL, &n, (const unsigned char *)name, (int)strlen(name) + 1) == 1 &&
	       update(ctx, NULL, &n, number, sizeof(number)) == 1;
}

int sealer_seal(const struct sealer *s, const char *owner, const char *name, uint64_t version,
	const void *value, size_t n, struct buf *out, struct err *err)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	unsigned char *p = (unsigned char *)buf_reserve(out, n + SEAL_OVERHEAD);
	int got = 0, end = 0;
	bool is_ok = ctx && p && RAND_bytes(p + 1, NONCE) == 1;

	if (is_ok) {
		p[0] = FORMAT;
		is_ok = EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL,
				(const unsigned char *)s->key.p, p + 1) == 1 &&
			add_context(ctx, owner, name, version, EVP_EncryptUpdate) &&
			EVP_EncryptUpdate(ctx, p + 1 + NONCE, &got, value, (int)n) == 1 &&
			EVP_EncryptFinal_ex(ctx, p + 1 + NONCE + got, &end) == 1 &&
			EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, p + 1 + NONCE + n) == 1;
	}
	EVP_CIPHER_CTX_free(ctx);
	if (!is_ok || (size_t)got + (size_t)end != n)
		return err_set(err, EIO, "secret '%s': cannot be sealed", name);
	buf_commit(out, n + SEAL_OVERHEAD);
	return 0;
}

int sealer_unseal(const struct sealer *s, const char *owner, const char *name, uint64_t version,
	const void *sealed, size_t n, struct buf *out, struct err *err)
{
	const unsigned char *p = sealed;
	size_t value_n = n >= SEAL_OVERHEAD ? n - SEAL_OVERHEAD : 0;
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	unsigned char tag[TAG], *to = NULL;
	int got = 0, end = 0;
	bool is_ok = ctx && n >= SEAL_OVERHEAD && p[0] == FORMAT;

	out->is_secret = true;
	if (is_ok) {
		memcpy(tag, p + n - TAG, TAG);
		to = (unsigned char *)buf_reserve(out, value_n + 1);
		is_ok = to &&
			EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL,
				(const unsigned char *)s->key.p, p + 1) == 1 &&
			add_context(ctx, owner, name, version, EVP_DecryptUpdate) &&
			EVP_DecryptUpdate(ctx, to, &got, p + 1 + NONCE, (int)value_n) == 1 &&
			EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1 &&
			EVP_DecryptFinal_ex(ctx, to + got, &end) == 1;
	}
	EVP_CIPHER_CTX_free(ctx);
	if (!is_ok) {
		/* What was decrypted before the tag was seen to be wrong is nobody's to read. */
		if (to)
			OPENSSL_cleanse(to, value_n);
		return err_set(err, EBADMSG,
			"secret '%s' cannot be opened: sealed under another key, or changed", name);
	}
	buf_commit(out, value_n);
	return 0;
}
