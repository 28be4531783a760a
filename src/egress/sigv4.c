/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/sigv4.h"

#include "egress/vault_impl.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CANONICAL_MAX (4u * H1_HEAD_MAX)

static void to_hex(const unsigned char *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
	out[2 * n] = '\0';
}

void sigv4_hash(const void *p, size_t n, char out[SIGV4_HASH + 1])
{
	unsigned char hash[SHA256_DIGEST_LENGTH];

	(void)SHA256(p, n, hash);
	to_hex(hash, sizeof(hash), out);
}

/* ---- path ---- */

/*
 * S3 signs the key as it is; every other service the path without empty and dot segments, escaped
 * once more than it was sent.
 */
static int add_s3_path(struct buf *out, struct h1_text path)
{
	AUTO_FREE char *clear = malloc(path.n + 1);

	if (!clear)
		return -ENOMEM;
	return inject_escape(out, clear, inject_unescape(path.p, path.n, false, clear), "/");
}

static int add_path(struct buf *out, struct h1_text path)
{
	AUTO_FREE char *clean = malloc(path.n + 2);
	size_t n = 0, i = 0;
	bool ends_open = true; /* the last segment was empty or a dot: a slash remains */

	if (!clean)
		return -ENOMEM;
	while (i < path.n) {
		size_t start, len;

		while (i < path.n && path.p[i] == '/')
			i++;
		for (start = i; i < path.n && path.p[i] != '/';)
			i++;
		len = i - start;
		ends_open = true;
		if (len == 0 || (len == 1 && path.p[start] == '.'))
			continue;
		if (len == 2 && path.p[start] == '.' && path.p[start + 1] == '.') {
			while (n > 0 && clean[--n] != '/')
				;
			continue;
		}
		clean[n++] = '/';
		memcpy(clean + n, path.p + start, len);
		n += len;
		ends_open = false;
	}
	if (ends_open)
		clean[n++] = '/';
	return inject_escape(out, clean, n, "/");
}

/* ---- query ---- */

struct parameter {
	char *name, *value; /* escaped; owned: name */
};

static int by_name(const void *a, const void *b)
{
	const struct parameter *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->value, y->value);
}

/* "name" NUL "value" NUL, escaped one way whatever way they came. */
static int read_parameter(struct h1_text one, struct parameter *ret)
{
	AUTO_FREE char *clear = malloc(one.n + 1);
	const char *equals = memchr(one.p, '=', one.n);
	size_t name_n = equals ? (size_t)(equals - one.p) : one.n, n, at;
	struct buf b = {.cap = CANONICAL_MAX};
	int r;

	if (!clear)
		return -ENOMEM;
	n = inject_unescape(one.p, name_n, true, clear);
	r = inject_escape(&b, clear, n, "");
	if (r == 0)
		r = buf_add(&b, "", 1);
	at = buf_len(&b);
	n = equals ? inject_unescape(equals + 1, one.n - name_n - 1, true, clear) : 0;
	if (r == 0)
		r = inject_escape(&b, clear, n, "");
	if (r == 0)
		r = buf_add(&b, "", 1);
	if (r < 0) {
		buf_done(&b);
		return r;
	}
	ret->name = b.p;
	ret->value = b.p + at;
	return 0;
}

static int add_query(struct buf *out, struct h1_text query)
{
	struct parameter all[SIGV4_QUERY_MAX];
	size_t n = 0;
	int r = 0;

	while (r == 0 && query.n > 0) {
		const char *end = memchr(query.p, '&', query.n);
		struct h1_text one = {query.p, end ? (size_t)(end - query.p) : query.n};

		if (one.n > 0)
			r = n < SIGV4_QUERY_MAX ? read_parameter(one, &all[n]) : -E2BIG;
		n += one.n > 0 && r == 0;
		query.p += one.n + (end ? 1 : 0);
		query.n -= one.n + (end ? 1 : 0);
	}
	if (n > 0)
		qsort(all, n, sizeof(all[0]), by_name);
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = buf_addf(out, "%s%s=%s", i ? "&" : "", all[i].name, all[i].value);
		free(all[i].name);
	}
	return r;
}

/* ---- fields ---- */

static int compare_names(struct h1_text a, struct h1_text b)
{
	int order = strncasecmp(a.p, b.p, a.n < b.n ? a.n : b.n);

	return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* Indexes sorted by name, those of one name in the order they are sent. */
static void sort_fields(const struct sigv4_request *q, size_t order[H1_FIELDS_MAX])
{
	for (size_t i = 0; i < q->fields_n; i++) {
		size_t at = i;

		while (at > 0 &&
			compare_names(q->fields[i].name, q->fields[order[at - 1]].name) < 0) {
			order[at] = order[at - 1];
			at--;
		}
		order[at] = i;
	}
}

static int add_lower(struct buf *out, struct h1_text t)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < t.n; i++) {
		char c = (char)tolower((unsigned char)t.p[i]);

		r = buf_add(out, &c, 1);
	}
	return r;
}

/* Blanks in a row count as one. */
static int add_trimmed(struct buf *out, struct h1_text t)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < t.n; i++)
		if (t.p[i] != ' ' || i + 1 >= t.n || t.p[i + 1] != ' ')
			r = buf_add(out, t.p + i, 1);
	return r;
}

static bool is_repeated(const struct sigv4_request *q, const size_t *order, size_t i)
{
	return i > 0 && compare_names(q->fields[order[i]].name, q->fields[order[i - 1]].name) == 0;
}

static int add_signed_names(struct buf *out, const struct sigv4_request *q, const size_t *order)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < q->fields_n; i++) {
		if (is_repeated(q, order, i))
			continue;
		if (i > 0)
			r = buf_add(out, ";", 1);
		if (r == 0)
			r = add_lower(out, q->fields[order[i]].name);
	}
	return r;
}

static int add_fields(struct buf *out, const struct sigv4_request *q, const size_t *order)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < q->fields_n; i++) {
		const struct h1_field *f = &q->fields[order[i]];

		if (is_repeated(q, order, i)) {
			r = buf_add(out, ",", 1);
		} else {
			r = i > 0 ? buf_add(out, "\n", 1) : 0;
			if (r == 0)
				r = add_lower(out, f->name);
			if (r == 0)
				r = buf_add(out, ":", 1);
		}
		if (r == 0)
			r = add_trimmed(out, f->value);
	}
	return r < 0 ? r : buf_add(out, "\n\n", 2);
}

static int canonical(const struct sigv4_request *q, const size_t *order, struct buf *out)
{
	int r = buf_add(out, q->method.p, q->method.n);

	if (r == 0)
		r = buf_add(out, "\n", 1);
	if (r == 0)
		r = strcmp(q->service, "s3") == 0 ? add_s3_path(out, q->path)
						  : add_path(out, q->path);
	if (r == 0)
		r = buf_add(out, "\n", 1);
	if (r == 0)
		r = add_query(out, q->query);
	if (r == 0)
		r = buf_add(out, "\n", 1);
	if (r == 0)
		r = add_fields(out, q, order);
	if (r == 0)
		r = add_signed_names(out, q, order);
	return r < 0 ? r : buf_addf(out, "\n%s", q->payload);
}

/* ---- the signature ---- */

static void mac(unsigned char key[SHA256_DIGEST_LENGTH], const char *text)
{
	unsigned char out[SHA256_DIGEST_LENGTH];

	(void)HMAC(EVP_sha256(), key, SHA256_DIGEST_LENGTH, (const unsigned char *)text,
		strlen(text), out, NULL);
	memcpy(key, out, sizeof(out));
	OPENSSL_cleanse(out, sizeof(out));
}

static int sign(const struct sigv4_request *q, struct h1_text secret, const char *text,
	char out[SIGV4_HASH + 1])
{
	unsigned char first[4 + 256], key[SHA256_DIGEST_LENGTH];
	char day[9];

	if (secret.n > sizeof(first) - 4)
		return -E2BIG;
	memcpy(first, "AWS4", 4);
	memcpy(first + 4, secret.p, secret.n);
	memcpy(day, q->date, 8);
	day[8] = '\0';
	(void)HMAC(EVP_sha256(), first, (int)(secret.n + 4), (unsigned char *)day, 8, key, NULL);
	OPENSSL_cleanse(first, sizeof(first));
	mac(key, q->region);
	mac(key, q->service);
	mac(key, "aws4_request");
	mac(key, text);
	to_hex(key, sizeof(key), out);
	OPENSSL_cleanse(key, sizeof(key));
	return 0;
}

static int finish(const struct sigv4_request *q, const struct sigv4_key *key, const size_t *order,
	const struct buf *whole, struct buf *out)
{
	char hash[SIGV4_HASH + 1], signature[SIGV4_HASH + 1], text[512], scope[200];
	int r, n;

	sigv4_hash(buf_data(whole), buf_len(whole), hash);
	n = snprintf(
		scope, sizeof(scope), "%.8s/%s/%s/aws4_request", q->date, q->region, q->service);
	if (n < 0 || n >= (int)sizeof(scope))
		return -E2BIG;
	(void)snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", q->date, scope, hash);
	r = sign(q, key->secret, text, signature);
	if (r == 0)
		r = buf_addf(out,
			"AWS4-HMAC-SHA256 Credential=%.*s/%s, SignedHeaders=", (int)key->id.n,
			key->id.p, scope);
	if (r == 0)
		r = add_signed_names(out, q, order);
	return r < 0 ? r : buf_addf(out, ", Signature=%s", signature);
}

/* More than the canonical request can be. */
static size_t size_bound(const struct sigv4_request *q)
{
	size_t n = q->method.n + 3 * (q->path.n + q->query.n) + 2 * SIGV4_QUERY_MAX + 256;

	for (size_t i = 0; i < q->fields_n; i++)
		n += 2 * q->fields[i].name.n + q->fields[i].value.n + 8;
	return n;
}

int sigv4_sign(const struct sigv4_request *q, const struct sigv4_key *key, struct buf *out,
	struct err *err)
{
	struct buf whole = {.cap = CANONICAL_MAX};
	size_t order[H1_FIELDS_MAX];
	int r = q->fields_n <= H1_FIELDS_MAX ? 0 : -E2BIG;

	/* Grown once: a session token may be in it. */
	if (r == 0 && !buf_reserve(&whole, size_bound(q)))
		r = -ENOMEM;
	if (r == 0) {
		sort_fields(q, order);
		r = canonical(q, order, &whole);
	}
	if (r == 0)
		r = finish(q, key, order, &whole, out);
	buf_wipe(&whole);
	return r < 0 ? err_set(err, -r, "the request is too long to be signed") : 0;
}
