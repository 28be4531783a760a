/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/keys - tenants and their API keys. A key is stored as its SHA-256 alone.
 *
 * 160 random bits need no salt and no slow hash: there is no dictionary to try. A candidate is
 * found by the first bytes of its hash and proved by a compare that takes the same time
 * wherever the hashes differ.
 */
#include "base/mem.h"
#include "base/text.h"
#include "store/store_impl.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define KEY_BYTES    20
#define KEY_NAME_MAX 128
#define USED_EVERY   60000 /* ms: "last used" is for people, not worth a write per request */

#define COLUMNS "id, tenant, name, prefix, made_ms, used_ms, revoked_ms"

static void read_key(struct statement *t, struct store_key *ret)
{
	ret->id = column_int(t);
	ret->tenant = column_text(t);
	ret->name = column_text(t);
	column_copy(t, ret->prefix, sizeof(ret->prefix));
	ret->made_ms = column_int(t);
	ret->used_ms = column_int(t);
	ret->revoked_ms = column_int(t);
}

void store_key_done(struct store_key *k)
{
	free(TAKE_PTR(k->tenant));
	free(TAKE_PTR(k->name));
}

bool store_is_tenant(const char *s)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char inside[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
	size_t n = strnlen(s, 64);

	return n >= 1 && n < 64 && strspn(s, inside) == n && strchr(ends, s[0]) &&
	       strchr(ends, s[n - 1]);
}

int store_tenant_need(struct store *s, const char *tenant, struct err *err)
{
	static const char sql[] = "INSERT INTO tenants VALUES (?, ?) ON CONFLICT DO NOTHING";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	char quoted[100];
	int r;

	if (!store_is_tenant(tenant))
		return err_set(err, EINVAL,
			"tenant '%s': 1 to 63 of a-z, 0-9, and inside also '-', '_', '.'",
			text_quote(tenant, quoted, sizeof(quoted)));
	bind_text(&t, tenant);
	bind_int(&t, store_now_ms());
	r = statement_run(&t, err);
	return r < 0 ? r : 0;
}

static void hash_key(const char *text, unsigned char ret[SHA256_DIGEST_LENGTH], int64_t *ret_bucket)
{
	(void)SHA256((const unsigned char *)text, strlen(text), ret);
	*ret_bucket = (int64_t)ret[0] << 24 | ret[1] << 16 | ret[2] << 8 | ret[3];
}

static int insert(struct store *s, const char *tenant, const char *name, const char *text,
	struct store_key *ret, struct err *err)
{
	static const char sql[] = "INSERT INTO keys (tenant, name, prefix, bucket, hash, made_ms, "
				  "used_ms, revoked_ms)"
				  " VALUES (?, ?, ?, ?, ?, ?, 0, 0)";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct store_key k = {.made_ms = store_now_ms()};
	int64_t bucket;
	int r;

	hash_key(text, hash, &bucket);
	(void)snprintf(k.prefix, sizeof(k.prefix), "%.12s", text);
	bind_text(&t, tenant);
	bind_text(&t, name);
	bind_text(&t, k.prefix);
	bind_int(&t, bucket);
	bind_blob(&t, hash, sizeof(hash));
	bind_int(&t, k.made_ms);
	r = statement_run(&t, err);
	if (r < 0)
		return r;
	k.id = sqlite3_last_insert_rowid(s->db);
	k.tenant = mem_strdup(tenant);
	k.name = mem_strdup(name);
	*ret = k;
	return 0;
}

int store_key_create(struct store *s, const char *tenant, const char *name,
	char ret_text[STORE_KEY_TEXT], struct store_key *ret, struct err *err)
{
	char text[STORE_KEY_TEXT] = "e2b_";
	bool is_mine = false;
	int r;

	if (strlen(name) > KEY_NAME_MAX)
		return err_set(err, EINVAL, "key name: at most %d bytes", KEY_NAME_MAX);
	r = sandbox_random_hex(text + 4, KEY_BYTES, err);
	if (r == 0)
		r = store_tx_begin(s, &is_mine, err);
	if (r < 0)
		return r;
	r = store_tenant_need(s, tenant, err);
	if (r == 0)
		r = insert(s, tenant, name, text, ret, err);
	if (r < 0)
		return store_tx_end(s, is_mine, r, err);
	r = store_tx_end(s, is_mine, r, err);
	if (r < 0) {
		store_key_done(ret);
		return r;
	}
	s->keys_changed++;
	(void)snprintf(ret_text, STORE_KEY_TEXT, "%s", text);
	OPENSSL_cleanse(text, sizeof(text));
	return 0;
}

static void note_used(struct store *s, struct store_key *k)
{
	static const char sql[] = "UPDATE keys SET used_ms = ? WHERE id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	struct err ignored = {0};
	int64_t now = store_now_ms();

	if (now - k->used_ms < USED_EVERY && now >= k->used_ms)
		return;
	bind_int(&t, now);
	bind_int(&t, k->id);
	/* On a full disk a good key still opens: nobody could delete anything otherwise. */
	if (statement_run(&t, &ignored) > 0)
		k->used_ms = now;
}

int store_key_find(struct store *s, const char *text, struct store_key *ret, struct err *err)
{
	static const char sql[] =
		"SELECT hash, " COLUMNS " FROM keys WHERE bucket = ? AND revoked_ms = 0";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	unsigned char hash[SHA256_DIGEST_LENGTH];
	int64_t bucket;
	int r;

	hash_key(text, hash, &bucket);
	bind_int(&t, bucket);
	while ((r = statement_step(&t, err)) > 0) {
		size_t n;
		const void *p = column_blob(&t, &n);

		if (n == sizeof(hash) && CRYPTO_memcmp(p, hash, n) == 0) {
			read_key(&t, ret);
			statement_donep(&t);
			note_used(s, ret);
			return 0;
		}
	}
	return r < 0 ? r : err_set(err, ENOENT, "no such key");
}

int store_key_list(struct store *s, const char *tenant,
	int (*each)(const struct store_key *k, void *arg), void *arg, struct err *err)
{
	static const char sql[] =
		"SELECT " COLUMNS " FROM keys WHERE ?1 = '' OR tenant = ?1 ORDER BY id";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	int r;

	bind_text(&t, tenant);
	while ((r = statement_step(&t, err)) > 0) {
		struct store_key k;

		read_key(&t, &k);
		r = each(&k, arg);
		store_key_done(&k);
		if (r < 0)
			return err->code ? r : err_set(err, -r, "stopped");
	}
	return r;
}

static int find_one(struct store *s, const char *tenant, const char *which, struct store_key *ret,
	struct err *err)
{
	static const char sql[] =
		"SELECT " COLUMNS " FROM keys WHERE revoked_ms = 0 AND (?1 = '' OR tenant = ?1)"
		" AND (CAST(id AS TEXT) = ?2 OR prefix = ?2 OR name = ?2) LIMIT 2";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	char quoted[160];
	int r;

	bind_text(&t, tenant);
	bind_text(&t, which);
	(void)text_quote(which, quoted, sizeof(quoted));
	r = *which ? statement_step(&t, err) : 0;
	if (r == 0)
		return err_set(err, ENOENT, "no key '%s'", quoted);
	if (r < 0)
		return r;
	read_key(&t, ret);
	r = statement_step(&t, err);
	if (r == 0)
		return 0;
	store_key_done(ret);
	return r < 0 ? r : err_set(err, ENOTUNIQ, "several keys are '%s': use the id", quoted);
}

int store_key_revoke(struct store *s, const char *tenant, const char *which, struct store_key *ret,
	struct err *err)
{
	static const char sql[] = "UPDATE keys SET revoked_ms = ? WHERE id = ?";
	AUTO_STATEMENT struct statement t = statement(s, sql);
	struct store_key k = {0};
	bool is_mine = false;
	int r = store_tx_begin(s, &is_mine, err);

	if (r < 0)
		return r;
	r = find_one(s, tenant, which, &k, err);
	if (r == 0) {
		k.revoked_ms = store_now_ms();
		bind_int(&t, k.revoked_ms);
		bind_int(&t, k.id);
		r = statement_run(&t, err);
	}
	r = store_tx_end(s, is_mine, r < 0 ? r : 0, err);
	if (r < 0) {
		store_key_done(&k);
		return r;
	}
	s->keys_changed++;
	*ret = k;
	return 0;
}
