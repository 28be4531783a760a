/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/signature.h"

#include "api/e2b/base64.h"
#include "base/text.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

/* One decoded field of the query. *ret_has says whether it was there. */
static bool field(struct h1_text query, const char *name, char *out, size_t size, bool *ret_has)
{
	struct h1_text raw;

	out[0] = '\0';
	*ret_has = h1_query(query, name, &raw);
	return !*ret_has || h1_unescape(raw.p, raw.n, true, out, size) >= 0;
}

static bool expiration(struct h1_text query, struct signature_claim *c)
{
	struct err err = {0};
	char text[24];
	uint64_t n;

	if (!field(query, "signature_expiration", text, sizeof(text), &c->has_expiration))
		return false;
	if (!c->has_expiration)
		return true;
	if (text_parse_u64(text, "signature_expiration", 0, INT64_MAX, &n, &err) < 0)
		return false;
	c->expires = (int64_t)n;
	return true;
}

bool signature_claim_get(struct h1_text query, struct signature_claim *ret)
{
	bool has_user;

	ret->expires = 0;
	return field(query, "path", ret->path, sizeof(ret->path), &ret->has_path) &&
	       field(query, "username", ret->user, sizeof(ret->user), &has_user) &&
	       field(query, "signature", ret->signature, sizeof(ret->signature),
		       &ret->has_signature) &&
	       expiration(query, ret);
}

void signature_make(const struct signature_claim *c, const char *operation, const char *token,
	char ret[SIGNATURE_TEXT])
{
	char base64[BASE64_SIZE(32) + 1];
	unsigned char digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	char expires[24] = "";
	unsigned n = 0;
	int ok;

	if (c->has_expiration)
		(void)snprintf(expires, sizeof(expires), ":%" PRId64, c->expires);
	/* Fails only for want of memory; then nothing may match. */
	ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
	     EVP_DigestUpdate(md, c->path, strlen(c->path)) == 1 &&
	     EVP_DigestUpdate(md, ":", 1) == 1 &&
	     EVP_DigestUpdate(md, operation, strlen(operation)) == 1 &&
	     EVP_DigestUpdate(md, ":", 1) == 1 &&
	     EVP_DigestUpdate(md, c->user, strlen(c->user)) == 1 &&
	     EVP_DigestUpdate(md, ":", 1) == 1 && EVP_DigestUpdate(md, token, strlen(token)) == 1 &&
	     EVP_DigestUpdate(md, expires, strlen(expires)) == 1 &&
	     EVP_DigestFinal_ex(md, digest, &n) == 1 && n == 32;
	EVP_MD_CTX_free(md);
	if (!ok)
		abort();
	base64[base64_encode(base64, digest, 32)] = '\0';
	base64[43] = '\0'; /* without the padding */
	(void)snprintf(ret, SIGNATURE_TEXT, "v1_%s", base64);
}

bool signature_matches(const struct signature_claim *c, const char *operation, const char *token)
{
	char want[SIGNATURE_TEXT];
	size_t n = strlen(c->signature);

	signature_make(c, operation, token, want);
	return n == strlen(want) && CRYPTO_memcmp(want, c->signature, n) == 0;
}

bool signature_token_is(const char *token, struct h1_text said)
{
	size_t n = strlen(token);

	return n > 0 && said.n == n && CRYPTO_memcmp(token, said.p, n) == 0;
}
