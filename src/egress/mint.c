/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Leaf certificates: one key for all of them, made at start and never written; a leaf per name,
 * kept while it is used. What is in a hello is a stranger's: a name becomes a certificate only
 * in the form that rules have.
 */
#include "egress/mint.h"

#include "base/mem.h"
#include "core/address.h"
#include "core/policy.h"
#include "egress/mint_impl.h"

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/queue.h>
#include <time.h>

#define LEAVES_MAX   1024
#define LEAF_BUCKETS 512 /* a power of two */
#define LEAF_DAYS    7
#define LEAF_RENEW_S (3 * 86400) /* made anew past this age */

enum { EXT_CONSTRAINTS, EXT_USAGE, EXT_EXTENDED, EXT_AUTHORITY, EXT_N };

struct leaf {
	char name[POLICY_NAME_MAX + 1];
	X509 *cert;
	time_t made;
	TAILQ_ENTRY(leaf) used; /* the latest first */
	LIST_ENTRY(leaf) bucket;
};

struct mint {
	EVP_PKEY *key; /* of the authority */
	X509 *cert;
	EVP_PKEY *leaf_key;
	X509_EXTENSION *ext[EXT_N]; /* the same in every leaf */
	struct tls *server;
	TAILQ_HEAD(leaf_list, leaf) used;
	LIST_HEAD(leaf_bucket, leaf) buckets[LEAF_BUCKETS];
	size_t leaves_n;
	uint64_t made;
};

/* ---- one leaf ---- */

/* The name as the certificate has it: an address, or a host name. */
static GENERAL_NAME *general_name(const char *name)
{
	GENERAL_NAME *g = GENERAL_NAME_new();
	struct address a;
	bool is_address = address_parse(name, strlen(name), &a);
	ASN1_STRING *s = ASN1_STRING_type_new(is_address ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
	int ok = 0;

	if (g && s)
		ok = is_address ? ASN1_STRING_set(s, a.b, a.family == 4 ? 4 : 16)
				: ASN1_STRING_set(s, name, -1);
	if (!ok) {
		ASN1_STRING_free(s);
		GENERAL_NAME_free(g);
		return NULL;
	}
	GENERAL_NAME_set0_value(g, is_address ? GEN_IPADD : GEN_DNS, s);
	return g;
}

static bool add_name(X509 *c, const char *name)
{
	GENERAL_NAMES *all = GENERAL_NAMES_new();
	GENERAL_NAME *g = general_name(name);
	bool ok = all && g && sk_GENERAL_NAME_push(all, g) > 0;

	if (!ok)
		GENERAL_NAME_free(g);
	/* Critical: the subject is empty, since a common name holds no more than 64 bytes. */
	ok = ok && X509_add1_ext_i2d(c, NID_subject_alt_name, all, 1, X509V3_ADD_DEFAULT) == 1;
	GENERAL_NAMES_free(all);
	return ok;
}

static X509 *make_leaf(struct mint *m, const char *name)
{
	X509 *c = X509_new();
	unsigned char serial[16];
	bool ok = c && RAND_bytes(serial, sizeof(serial)) == 1;

	if (ok) {
		serial[0] = (serial[0] & 0x3f) | 0x40;
		/* A day back: the box's clock may be behind. */
		ok = X509_set_version(c, 2) == 1 &&
		     ASN1_STRING_set(X509_get_serialNumber(c), serial, sizeof(serial)) == 1 &&
		     X509_gmtime_adj(X509_getm_notBefore(c), -86400) != NULL &&
		     X509_gmtime_adj(X509_getm_notAfter(c), LEAF_DAYS * 86400L) != NULL &&
		     X509_set_issuer_name(c, X509_get_subject_name(m->cert)) == 1 &&
		     X509_set_pubkey(c, m->leaf_key) == 1 && add_name(c, name);
	}
	for (size_t i = 0; ok && i < EXT_N; i++)
		ok = X509_add_ext(c, m->ext[i], -1) == 1;
	ok = ok && X509_sign(c, m->key, EVP_sha256()) > 0;
	ERR_clear_error();
	if (ok)
		return c;
	X509_free(c);
	return NULL;
}

/* ---- the cache ---- */

static size_t bucket_of(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h & (LEAF_BUCKETS - 1);
}

static void drop_leaf(struct mint *m, struct leaf *l)
{
	TAILQ_REMOVE(&m->used, l, used);
	LIST_REMOVE(l, bucket);
	m->leaves_n--;
	X509_free(l->cert);
	free(l);
}

static struct leaf *find_leaf(struct mint *m, const char *name)
{
	struct leaf *l = LIST_FIRST(&m->buckets[bucket_of(name)]);

	while (l && strcmp(l->name, name) != 0)
		l = LIST_NEXT(l, bucket);
	if (l && time(NULL) - l->made > LEAF_RENEW_S) {
		drop_leaf(m, l);
		return NULL;
	}
	return l;
}

static X509 *leaf_for(struct mint *m, const char *name)
{
	struct leaf *l = find_leaf(m, name);

	if (l) {
		TAILQ_REMOVE(&m->used, l, used);
		TAILQ_INSERT_HEAD(&m->used, l, used);
		return l->cert;
	}
	if (m->leaves_n == LEAVES_MAX)
		drop_leaf(m, TAILQ_LAST(&m->used, leaf_list));
	l = MEM_NEW(struct leaf);
	l->cert = make_leaf(m, name);
	if (!l->cert) {
		free(l);
		return NULL;
	}
	memcpy(l->name, name, strlen(name) + 1); /* policy_clean_name() bounds it */
	l->made = time(NULL);
	TAILQ_INSERT_HEAD(&m->used, l, used);
	LIST_INSERT_HEAD(&m->buckets[bucket_of(name)], l, bucket);
	m->leaves_n++;
	m->made++;
	return l->cert;
}

/* False: neither a host name nor an address. */
static bool clean(const char *s, char out[POLICY_NAME_MAX + 1])
{
	size_t n = s ? strlen(s) : 0;
	struct address a;

	if (n == 0)
		return false;
	if (address_parse(s, n, &a)) {
		address_format(&a, out);
		return true;
	}
	return policy_clean_name(s, n, out) == 0;
}

static bool choose(SSL *ssl, const char *asked, const char *peer, void *arg)
{
	struct mint *m = arg;
	char name[POLICY_NAME_MAX + 1];
	X509 *cert;

	if (!clean(asked, name) && (asked || !clean(peer, name)))
		return false;
	cert = leaf_for(m, name);
	return cert && SSL_use_certificate(ssl, cert) == 1 &&
	       SSL_use_PrivateKey(ssl, m->leaf_key) == 1;
}

/* ---- the mint ---- */

static int make_extensions(struct mint *m, struct err *err)
{
	static const struct {
		int nid;
		const char *value;
	} list[EXT_N] = {
		[EXT_CONSTRAINTS] = {NID_basic_constraints, "critical,CA:FALSE"},
		[EXT_USAGE] = {NID_key_usage, "critical,digitalSignature"},
		[EXT_EXTENDED] = {NID_ext_key_usage, "serverAuth"},
		[EXT_AUTHORITY] = {NID_authority_key_identifier, "keyid:always"},
	};
	X509V3_CTX ctx;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, m->cert, NULL, NULL, NULL, 0);
	for (size_t i = 0; i < EXT_N; i++) {
		m->ext[i] = X509V3_EXT_conf_nid(NULL, &ctx, list[i].nid, list[i].value);
		if (!m->ext[i])
			return err_set(err, EIO, "make the extensions of certificates");
	}
	return 0;
}

int mint_open(const char *dir, const char *roots, struct mint **ret, struct err *err)
{
	AUTO(mint_free) struct mint *m = MEM_NEW(struct mint);
	int r;

	TAILQ_INIT(&m->used);
	r = mint_authority(dir, &m->key, &m->cert, err);
	if (r == 0)
		r = mint_publish(dir, roots, m->cert, err);
	if (r == 0)
		r = make_extensions(m, err);
	if (r < 0)
		return r;
	m->leaf_key = EVP_EC_gen("P-256");
	if (!m->leaf_key)
		return err_set(err, EIO, "make a key for certificates");
	r = tls_server_choosing(choose, m, &m->server, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(m);
	return 0;
}

struct mint *mint_free(struct mint *m)
{
	struct leaf *l;

	if (!m)
		return NULL;
	while ((l = TAILQ_FIRST(&m->used)))
		drop_leaf(m, l);
	for (size_t i = 0; i < EXT_N; i++)
		X509_EXTENSION_free(m->ext[i]);
	(void)tls_free(m->server);
	EVP_PKEY_free(m->leaf_key);
	EVP_PKEY_free(m->key);
	X509_free(m->cert);
	free(m);
	return NULL;
}

struct tls *mint_server(struct mint *m)
{
	return m->server;
}

uint64_t mint_count(const struct mint *m)
{
	return m->made;
}
