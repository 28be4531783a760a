/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request that an AWS SDK signed with the placeholder, signed again with the real key.
 *
 * The box has the placeholder as its key id and as its secret key; what it signs with them is
 * worth nothing. Kept of its signature is what it says about the request: region, service, which
 * fields are signed. The value in the vault is "KEY-ID:SECRET-KEY" or "KEY-ID:SECRET-KEY:TOKEN".
 */
#include "egress/sigv4.h"
#include "egress/vault_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"

/* What the SDK's Authorization says. */
struct claim {
	char region[64], service[64];
	struct h1_text names; /* "host;x-amz-date" */
};

struct signer {
	struct inject *in;
	struct claim claim;
	struct h1_field fields[H1_FIELDS_MAX];
	size_t fields_n;
	char date[SIGV4_DATE + 1];
	char payload[SIGV4_HASH + 1];
	bool has_date, has_payload; /* the box said them */
	struct h1_text id, secret, token;
};

static struct h1_text authorization_of(const struct h1_head *h)
{
	const struct h1_field *f = h1_find(h, "Authorization");

	return f ? f->value : (struct h1_text){NULL, 0};
}

static bool starts(struct h1_text t, const char *s)
{
	return t.n >= strlen(s) && strncasecmp(t.p, s, strlen(s)) == 0;
}

/* Ours if it holds our placeholder, or if there is none and the binding says region and service. */
struct inject_bound *inject_sigv4_bound(struct inject *in)
{
	struct h1_text value = authorization_of(in->head);

	for (size_t i = 0; i < in->bound_n; i++) {
		struct inject_bound *k = &in->bound[i];

		if (k->b->place != POLICY_SIGV4)
			continue;
		if (value.p && inject_find(value.p, value.n, k->placeholder))
			return k;
		if (!value.p && k->secret && strchr(k->b->field, '/'))
			return k;
	}
	return NULL;
}

bool inject_sigv4_drops(struct h1_text name)
{
	return h1_is_nocase(name, "Authorization") || h1_is_nocase(name, "X-Amz-Security-Token");
}

/* S3's words for a body whose hash the signature does not cover; no chunk of it is signed. */
static bool is_unsigned(struct h1_text t)
{
	return h1_is(t, "UNSIGNED-PAYLOAD") || h1_is(t, "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
}

static bool is_hash(struct h1_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (!isxdigit((unsigned char)t.p[i]))
			return false;
	return t.n == SIGV4_HASH;
}

bool inject_sigv4_wants_body(const struct h1_head *head)
{
	return !h1_find(head, "X-Amz-Content-Sha256");
}

/* ---- reading ---- */

/* The next piece up to one of `ends`; *t goes behind it. */
static struct h1_text cut(struct h1_text *t, const char *ends)
{
	struct h1_text one = {t->p, 0};

	while (one.n < t->n && !strchr(ends, t->p[one.n]))
		one.n++;
	t->p += one.n + (one.n < t->n);
	t->n -= one.n + (one.n < t->n);
	return one;
}

static bool copy_word(struct h1_text t, char out[64])
{
	if (t.n == 0 || t.n >= 64 || inject_has_placeholder(t.p, t.n))
		return false;
	for (size_t i = 0; i < t.n; i++)
		if (!isalnum((unsigned char)t.p[i]) && t.p[i] != '-' && t.p[i] != '_')
			return false;
	memcpy(out, t.p, t.n);
	out[t.n] = '\0';
	return true;
}

static int unsupported(struct inject *in, const char *why)
{
	(void)snprintf(in->what, VAULT_WHAT_MAX, "AWS signature");
	return err_set(in->err, EOPNOTSUPP, "this request cannot be signed again: %s", why);
}

/* "AWS4-HMAC-SHA256 Credential=ID/DAY/REGION/SERVICE/aws4_request, SignedHeaders=a;b, …" */
static int read_claim(struct signer *s, struct h1_text value)
{
	struct h1_text rest = value, scope;
	const char *at;

	if (!starts(value, ALGORITHM " "))
		return unsupported(s->in, "only " ALGORITHM " in the Authorization header is");
	at = inject_find(rest.p, rest.n, "Credential=");
	if (!at)
		return unsupported(s->in, "its Authorization names no credential");
	rest = (struct h1_text){at + 11, value.n - (size_t)(at + 11 - value.p)};
	scope = cut(&rest, ", ");
	(void)cut(&scope, "/"); /* the placeholder */
	(void)cut(&scope, "/"); /* the day: that of the date counts */
	if (!copy_word(cut(&scope, "/"), s->claim.region) ||
		!copy_word(cut(&scope, "/"), s->claim.service))
		return unsupported(s->in, "its credential has no region and service");
	at = inject_find(value.p, value.n, "SignedHeaders=");
	if (at) {
		rest = (struct h1_text){at + 14, value.n - (size_t)(at + 14 - value.p)};
		s->claim.names = cut(&rest, ", ");
	}
	return 0;
}

/* What the binding pins goes over what the box says. */
static int read_pin(struct signer *s, const char *field)
{
	struct h1_text rest = {field, strlen(field)};

	if (!*field)
		return 0;
	if (!copy_word(cut(&rest, "/"), s->claim.region) || !copy_word(rest, s->claim.service))
		return unsupported(s->in, "the rule's \"region/service\" is not two words");
	return 0;
}

static int read_key(struct signer *s, const struct inject_bound *k)
{
	struct h1_text rest;

	if (!k->secret)
		return inject_missing(s->in, k);
	rest = (struct h1_text){k->secret->value.p, k->secret->value.n};
	s->id = cut(&rest, ":");
	s->secret = cut(&rest, ":");
	s->token = rest;
	if (s->id.n == 0 || s->id.n > 256 || s->secret.n == 0)
		return unsupported(s->in, "the secret is not KEY-ID:SECRET-KEY[:TOKEN]");
	return 0;
}

static bool is_signed(const struct signer *s, struct h1_text name)
{
	struct h1_text rest = s->claim.names;

	if (starts(name, "x-amz-"))
		return true;
	while (rest.n > 0) {
		struct h1_text one = cut(&rest, ";");

		if (one.n == name.n && strncasecmp(one.p, name.p, name.n) == 0)
			return true;
	}
	return false;
}

static void add_signed(struct signer *s, const char *name, struct h1_text value)
{
	if (s->fields_n < H1_FIELDS_MAX)
		s->fields[s->fields_n++] = (struct h1_field){{name, strlen(name)}, value};
}

/* A binding changes this field: what goes out is not what stands in the head. */
static bool is_changed(const struct inject *in, struct h1_text name)
{
	for (size_t i = 0; i < in->bound_n; i++)
		if (in->bound[i].b->place == POLICY_HEADER &&
			h1_is_nocase(name, in->bound[i].b->field))
			return true;
	return false;
}

static bool is_date(struct h1_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (i == 8        ? t.p[i] != 'T'
			: i == 15 ? t.p[i] != 'Z'
				  : !isdigit((unsigned char)t.p[i]))
			return false;
	return t.n == SIGV4_DATE;
}

static int read_payload(struct signer *s, struct h1_text value)
{
	if (s->has_payload || (!is_hash(value) && !is_unsigned(value)))
		return unsupported(s->in, "every chunk of its body has a signature of its own; "
					  "switch that off in the "
					  "SDK (payload_signing_enabled = false)");
	(void)snprintf(s->payload, sizeof(s->payload), "%.*s", (int)value.n, value.p);
	s->has_payload = true;
	return 0;
}

/* Every field that was written and is to be signed. */
static int read_fields(struct signer *s)
{
	static const char *const hops[] = {"Host", "Connection", "Content-Length", "Expect", "TE",
		"Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade"};
	const struct h1_head *h = s->in->head;
	int r = 0;

	add_signed(s, "host", (struct h1_text){s->in->host, strlen(s->in->host)});
	for (size_t i = 0; r == 0 && i < h->fields_n; i++) {
		const struct h1_field *f = &h->fields[i];
		bool is_hop = false;

		for (size_t j = 0; j < sizeof(hops) / sizeof(hops[0]); j++)
			is_hop |= h1_is_nocase(f->name, hops[j]);
		if (is_hop || !is_signed(s, f->name) || inject_sigv4_drops(f->name) ||
			is_changed(s->in, f->name))
			continue;
		if (h1_is_nocase(f->name, "X-Amz-Content-Sha256"))
			r = read_payload(s, f->value);
		if (h1_is_nocase(f->name, "X-Amz-Date")) {
			if (s->has_date || !is_date(f->value))
				return unsupported(s->in, "its X-Amz-Date is no date");
			memcpy(s->date, f->value.p, SIGV4_DATE);
			s->has_date = true;
		}
		if (s->fields_n < H1_FIELDS_MAX - 4)
			s->fields[s->fields_n++] = *f;
	}
	return r;
}

/* ---- writing ---- */

static int add_own(struct signer *s)
{
	struct buf *out = s->in->out;
	int r = 0;

	if (!s->has_date) {
		time_t now = time(NULL);
		struct tm tm;

		if (!gmtime_r(&now, &tm) ||
			strftime(s->date, sizeof(s->date), "%Y%m%dT%H%M%SZ", &tm) != SIGV4_DATE)
			return unsupported(s->in, "the time is not known");
		add_signed(s, "x-amz-date", (struct h1_text){s->date, SIGV4_DATE});
		r = buf_addf(out, "X-Amz-Date: %s\r\n", s->date);
	}
	if (r == 0 && !s->has_payload) {
		if (!s->in->body)
			return unsupported(s->in, "its body is not known");
		sigv4_hash(s->in->body, s->in->body_n, s->payload);
		if (strcmp(s->claim.service, "s3") == 0) {
			add_signed(s, "x-amz-content-sha256",
				(struct h1_text){s->payload, SIGV4_HASH});
			r = buf_addf(out, "X-Amz-Content-Sha256: %s\r\n", s->payload);
		}
	}
	if (r == 0 && s->token.n > 0) {
		add_signed(s, "x-amz-security-token", s->token);
		r = buf_addf(out, "X-Amz-Security-Token: %.*s\r\n", (int)s->token.n, s->token.p);
	}
	return r;
}

int inject_sigv4(struct inject *in, struct inject_bound *k)
{
	struct signer s = {.in = in};
	struct h1_text value = authorization_of(in->head);
	struct sigv4_request q;
	struct sigv4_key key;
	int r = read_key(&s, k);

	if (r == 0 && value.p)
		r = read_claim(&s, value);
	if (r == 0)
		r = read_pin(&s, k->b->field);
	if (r == 0)
		r = read_fields(&s);
	if (r == 0)
		r = add_own(&s);
	if (r < 0)
		return r;
	k->is_done = true;
	q = (struct sigv4_request){.method = in->head->method,
		.path = in->path,
		.query = in->query,
		.fields = s.fields,
		.fields_n = s.fields_n,
		.payload = s.payload,
		.date = s.date,
		.region = s.claim.region,
		.service = s.claim.service};
	key = (struct sigv4_key){s.id, s.secret};
	r = buf_add(in->out, "Authorization: ", 15);
	if (r == 0)
		r = sigv4_sign(&q, &key, in->out, in->err);
	return r < 0 ? r : buf_add(in->out, "\r\n", 2);
}
