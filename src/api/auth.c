/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Who asks: API keys, and the cost of guessing them.
 *
 * A key is looked up by the SHA-256 of its text, in a cache that is dropped as a whole when
 * store_version() moves (somebody made or revoked a key). Unknown and revoked keys take the same
 * road and get the same answer. Failures are counted per address and answered 429 past
 * a limit; a good key is served whatever its address has done before, so that nobody can lock out
 * his neighbours behind the same proxy.
 */
#include "api/auth.h"
#include "base/mem.h"
#include "base/text.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define CACHE_SLOTS  1024 /* keys held; a full slot is overwritten */
#define PEER_SLOTS   1024 /* addresses remembered; the stalest of a few is overwritten */
#define PEER_PROBES  8
#define FAILURES_MAX 30   /* in a row, before 429 */
#define FORGIVE_MS   2000 /* one failure is forgotten in this time */

struct cached {
	unsigned char hash[SHA256_DIGEST_LENGTH];
	bool is_set;
	struct api_caller who;
};

struct peer {
	char name[64];        /* "" = free */
	uint64_t failures_ms; /* failures times FORGIVE_MS, as of `at_ms` */
	uint64_t at_ms;
};

struct api_keys {
	uint64_t version;    /* of the store the cache speaks of */
	uint64_t checked_ms; /* loop time at which that was looked at */
	uint64_t own;        /* store_keys_changed() then */
	struct cached cache[CACHE_SLOTS];
	struct peer peers[PEER_SLOTS];
};

struct api_keys *api_keys_create(void)
{
	return MEM_NEW(struct api_keys);
}

struct api_keys *api_keys_free(struct api_keys *k)
{
	free(k);
	return NULL;
}

static size_t peer_hash(const char *s)
{
	size_t h = 5381;

	while (*s)
		h = h * 33 ^ (unsigned char)*s++;
	return h;
}

static struct peer *peer_of(struct api_keys *k, const char *name)
{
	size_t at = peer_hash(name);
	struct peer *stalest = NULL;

	for (size_t i = 0; i < PEER_PROBES; i++) {
		struct peer *p = &k->peers[(at + i) % PEER_SLOTS];

		if (strcmp(p->name, name) == 0)
			return p;
		if (!stalest || p->at_ms < stalest->at_ms)
			stalest = p;
	}
	*stalest = (struct peer){0};
	(void)snprintf(stalest->name, sizeof(stalest->name), "%s", name);
	return stalest;
}

unsigned api_keys_failed(struct api_keys *k, const char *name, uint64_t now_ms)
{
	struct peer *p = peer_of(k, name);
	uint64_t past = now_ms - p->at_ms;

	p->failures_ms = p->failures_ms > past ? p->failures_ms - past : 0;
	p->at_ms = now_ms;
	if (p->failures_ms >= (uint64_t)FAILURES_MAX * FORGIVE_MS)
		return FORGIVE_MS / 1000;
	p->failures_ms += FORGIVE_MS;
	return 0;
}

static struct cached *slot_of(struct api_keys *k, const unsigned char *hash)
{
	return &k->cache[((size_t)hash[0] << 8 | hash[1]) % CACHE_SLOTS];
}

/*
 * Drop the cache if keys may have changed. To look for another process's doing costs system calls:
 * once in a millisecond. What we did ourselves counts from the next request on.
 */
static void refresh(struct api *a)
{
	uint64_t now_ms = loop_now_ms(a->loop), version;

	if (a->keys->checked_ms == now_ms && a->keys->own == store_keys_changed(a->store))
		return;
	a->keys->checked_ms = now_ms;
	a->keys->own = store_keys_changed(a->store);
	version = store_version(a->store);
	if (version == a->keys->version)
		return;
	memset(a->keys->cache, 0, sizeof(a->keys->cache));
	a->keys->version = version;
}

static int look_up(struct api *a, const char *text, struct api_caller *ret)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct store_key key = {0};
	struct cached *c;
	struct err err = {0};
	int r;

	refresh(a);
	SHA256((const unsigned char *)text, strlen(text), hash);
	c = slot_of(a->keys, hash);
	if (c->is_set && CRYPTO_memcmp(c->hash, hash, sizeof(hash)) == 0) {
		*ret = c->who;
		return 0;
	}
	r = store_key_find(a->store, text, &key, &err);
	if (r < 0)
		return r;
	(void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", key.tenant);
	(void)snprintf(ret->actor, sizeof(ret->actor), "key:%s", key.prefix);
	memcpy(c->hash, hash, sizeof(hash));
	c->who = *ret;
	c->is_set = true;
	store_key_done(&key);
	return 0;
}

uint64_t api_keys_version(struct api *a)
{
	refresh(a);
	return a->keys->version + a->keys->own;
}

static int is_same(const struct store_key *k, void *arg)
{
	const struct api_caller *who = arg;

	if (k->revoked_ms != 0 || strcmp(k->prefix, who->actor + strlen("key:")) != 0)
		return 0;
	return -EEXIST; /* enough seen */
}

bool api_caller_lives(struct api *a, const struct api_caller *who)
{
	struct api_caller copy = *who;
	struct err err = {0};

	if (!text_starts(who->actor, "key:"))
		return true;
	/* A store that cannot be read takes nothing away. */
	return store_key_list(a->store, who->tenant, is_same, &copy, &err) != 0;
}

/* The key's text as sent, or "" if there is none that could be one. */
static void presented(const struct http_request *r, char out[STORE_KEY_TEXT])
{
	const struct h1_field *f = h1_find(&r->head, "X-API-KEY");
	struct h1_text v = {0};

	out[0] = '\0';
	if (f) {
		v = f->value;
	} else if ((f = h1_find(&r->head, "Authorization")) != NULL && f->value.n > 7 &&
		   h1_is_nocase((struct h1_text){f->value.p, 7}, "Bearer ")) {
		v = (struct h1_text){f->value.p + 7, f->value.n - 7};
	}
	if (v.n == 0 || v.n >= STORE_KEY_TEXT)
		return;
	memcpy(out, v.p, v.n);
	out[v.n] = '\0';
}

/* A peer of the local socket needs no key if it could read our files anyway. */
static bool is_local_owner(const struct http_request *r, struct api_caller *ret)
{
	uint64_t uid;
	struct err err = {0};

	if (!text_starts(r->peer, API_LOCAL_PEER))
		return false;
	if (text_parse_u64(r->peer + strlen(API_LOCAL_PEER), "uid", 0, UINT32_MAX, &uid, &err) < 0)
		return false;
	if (uid != 0 && uid != geteuid())
		return false;
	(void)snprintf(ret->tenant, sizeof(ret->tenant), "default");
	(void)snprintf(ret->actor, sizeof(ret->actor), "uid:%u", (unsigned)uid);
	return true;
}

int api_authenticate(struct api *a, struct http_request *r, struct api_caller *ret)
{
	char text[STORE_KEY_TEXT], seconds[16];
	unsigned wait;
	int found;

	presented(r, text);
	if (!text[0] && is_local_owner(r, ret))
		return 0;
	found = text[0] ? look_up(a, text, ret) : -ENOENT;
	if (found == 0)
		return 0;
	if (found != -ENOENT) {
		http_field(r, "Retry-After", "1");
		api_reply_error(r, 503, "unavailable", NULL, "keys cannot be read now; try again");
		return 503;
	}
	wait = api_keys_failed(a->keys, r->peer, loop_now_ms(a->loop));
	if (wait > 0) {
		(void)snprintf(seconds, sizeof(seconds), "%u", wait);
		http_field(r, "Retry-After", seconds);
		api_reply_error(r, 429, "too_many_failures", "wait, then use a valid key",
			"too many requests without a valid key from this address");
		return 429;
	}
	api_reply_error(r, 401, "unauthenticated", "make a key with `bawn key create`",
		"a valid API key is needed, as X-API-KEY or Authorization: Bearer");
	return 401;
}
