/* SPDX-License-Identifier: Apache-2.0 */

#include "store_fixture.h"

#include <fcntl.h>

static void a_key_is_found_by_its_text_alone(void)
{
	struct fixture f;
	struct store_key made, found;
	char text[STORE_KEY_TEXT];

	fixture_init(&f);
	CHECK_INT(store_key_create(f.s, "acme", "laptop", text, &made, &f.err), 0);
	CHECK_INT(strlen(text), 44);
	CHECK(text_starts(text, "e2b_"));
	CHECK_INT(strspn(text + 4, "0123456789abcdef"), 40);
	CHECK_INT(store_key_find(f.s, text, &found, &f.err), 0);
	CHECK_INT(found.id, made.id);
	CHECK_STR(found.tenant, "acme");
	CHECK_STR(found.name, "laptop");
	CHECK(found.made_ms > 0 && found.used_ms >= found.made_ms && found.revoked_ms == 0);
	CHECK_INT(strlen(found.prefix), 12);
	CHECK(strncmp(found.prefix, text, 12) == 0);
	store_key_done(&found);
	CHECK_INT(store_key_find(f.s, made.prefix, &found, &f.err), -ENOENT);
	text[43] = text[43] == 'a' ? 'b' : 'a';
	CHECK_INT(store_key_find(f.s, text, &found, &f.err), -ENOENT);
	CHECK_INT(store_key_find(f.s, "", &found, &f.err), -ENOENT);
	store_key_done(&made);
	fixture_done(&f);
}

static bool file_has(const char *path, const char *needle, size_t n)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	static char bytes[4 << 20];
	ssize_t got = read(fd, bytes, sizeof(bytes));

	CHECK(got > 0 && (size_t)got < sizeof(bytes));
	return memmem(bytes, (size_t)got, needle, n) != NULL;
}

static void the_text_of_a_key_is_nowhere_in_the_files(void)
{
	struct fixture f;
	struct store_key k;
	char text[STORE_KEY_TEXT];
	AUTO_FREE char *db = NULL;
	AUTO_FREE char *wal = NULL;

	fixture_init(&f);
	db = text_format("%s/bawn.db", f.dir);
	wal = text_format("%s/bawn.db-wal", f.dir);
	CHECK_INT(store_key_create(f.s, "acme", "x", text, &k, &f.err), 0);
	CHECK(file_has(wal, k.prefix, 12)); /* what lists show is there: the search works */
	CHECK(!file_has(wal, text, 13));
	CHECK(!file_has(wal, text + 12, 16));
	store_key_done(&k);
	f.s = store_close(f.s);
	CHECK(!file_has(db, text, 13));
	CHECK(!file_has(db, text + 12, 16));
	fixture_done(&f);
}

static void a_revoked_key_is_unknown(void)
{
	struct fixture f;
	struct store_key k, gone;
	char text[STORE_KEY_TEXT];

	fixture_init(&f);
	CHECK_INT(store_key_create(f.s, "acme", "ci", text, &k, &f.err), 0);
	CHECK_INT(store_key_revoke(f.s, "other", "ci", &gone, &f.err), -ENOENT);
	CHECK_INT(store_key_revoke(f.s, "acme", "", &gone, &f.err), -ENOENT);
	CHECK_INT(store_key_revoke(f.s, "acme", "ci", &gone, &f.err), 0);
	CHECK_INT(gone.id, k.id);
	CHECK(gone.revoked_ms > 0);
	store_key_done(&gone);
	CHECK_INT(store_key_find(f.s, text, &gone, &f.err), -ENOENT);
	CHECK_INT(store_key_revoke(f.s, NULL, "ci", &gone, &f.err), -ENOENT);
	store_key_done(&k);
	fixture_done(&f);
}

static void a_name_that_two_keys_have_revokes_neither(void)
{
	struct fixture f;
	struct store_key a, b, found;
	char text_a[STORE_KEY_TEXT], text_b[STORE_KEY_TEXT], id[24];

	fixture_init(&f);
	CHECK_INT(store_key_create(f.s, "acme", "ci", text_a, &a, &f.err), 0);
	CHECK_INT(store_key_create(f.s, "zeta", "ci", text_b, &b, &f.err), 0);
	CHECK_INT(store_key_revoke(f.s, NULL, "ci", &found, &f.err), -ENOTUNIQ);
	(void)snprintf(id, sizeof(id), "%lld", (long long)a.id);
	CHECK_INT(store_key_revoke(f.s, NULL, id, &found, &f.err), 0);
	store_key_done(&found);
	CHECK_INT(store_key_find(f.s, text_a, &found, &f.err), -ENOENT);
	CHECK_INT(store_key_find(f.s, text_b, &found, &f.err), 0);
	store_key_done(&found);
	CHECK_INT(store_key_revoke(f.s, NULL, b.prefix, &found, &f.err), 0);
	store_key_done(&found);
	store_key_done(&a);
	store_key_done(&b);
	fixture_done(&f);
}

static int add_id(const struct store_key *k, void *arg)
{
	*(int64_t *)arg += k->id;
	return 0;
}

static int stop(const struct store_key *k, void *arg)
{
	(void)k;
	(void)arg;
	return -ECANCELED;
}

static void a_list_shows_one_tenant_or_all(void)
{
	struct fixture f;
	struct store_key k;
	char text[STORE_KEY_TEXT];
	int64_t sum = 0;

	fixture_init(&f);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(store_key_create(f.s, i < 2 ? "acme" : "zeta", "", text, &k, &f.err), 0);
		store_key_done(&k);
	}
	CHECK_INT(store_key_list(f.s, "acme", add_id, &sum, &f.err), 0);
	CHECK_INT(sum, 1 + 2);
	sum = 0;
	CHECK_INT(store_key_list(f.s, NULL, add_id, &sum, &f.err), 0);
	CHECK_INT(sum, 1 + 2 + 3);
	CHECK_INT(store_key_list(f.s, NULL, stop, NULL, &f.err), -ECANCELED);
	fixture_done(&f);
}

static void tenants_have_plain_names(void)
{
	static const char *const bad[] = {"", "-a", "a-", "A", "a b", "a/b", "..", "a'b", "ä",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	struct fixture f;
	struct store_key k;
	char text[STORE_KEY_TEXT] = "untouched";

	fixture_init(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(!store_is_tenant(bad[i]));
		CHECK_INT(store_key_create(f.s, bad[i], "", text, &k, &f.err), -EINVAL);
	}
	CHECK_STR(text, "untouched");
	CHECK(store_is_tenant("a") && store_is_tenant("team-a.b_c9"));
	fixture_done(&f);
}

int main(void)
{
	RUN(a_key_is_found_by_its_text_alone);
	RUN(the_text_of_a_key_is_nowhere_in_the_files);
	RUN(a_revoked_key_is_unknown);
	RUN(a_name_that_two_keys_have_revokes_neither);
	RUN(a_list_shows_one_tenant_or_all);
	RUN(tenants_have_plain_names);
	return tap_done();
}
