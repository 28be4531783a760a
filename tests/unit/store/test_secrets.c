/* SPDX-License-Identifier: Apache-2.0 */

#include "store_fixture.h"

static struct store_secret secret(const char *tenant, const char *name, int64_t version)
{
	struct store_secret r = {.version = version, .sealed = "\0sealed", .sealed_n = 7};

	(void)snprintf(r.tenant, sizeof(r.tenant), "%s", tenant);
	(void)snprintf(r.name, sizeof(r.name), "%s", name);
	return r;
}

static int put(struct fixture *f, const char *tenant, const char *name, int64_t version)
{
	struct store_secret r = secret(tenant, name, version);

	f->err = (struct err){0};
	return store_secret_put(f->s, &r, &f->err);
}

static int list(const struct store_secret *r, void *arg)
{
	size_t n = strlen(arg);

	(void)snprintf((char *)arg + n, 200 - n, "%s/%s@%d ", r->tenant, r->name, (int)r->version);
	return r->sealed_n == 7 && memcmp(r->sealed, "\0sealed", 7) == 0 ? 0 : -EINVAL;
}

static void versions_follow_each_other(void)
{
	struct fixture f;
	struct store_secret got;

	fixture_init(&f);
	CHECK_INT(put(&f, "acme", "KEY", 2), -ENOENT);
	CHECK_INT(put(&f, "acme", "KEY", 1), 0);
	CHECK_INT(put(&f, "acme", "KEY", 1), -EEXIST);
	CHECK_INT(put(&f, "acme", "KEY", 3), -ENOENT);
	CHECK_INT(put(&f, "acme", "KEY", 2), 0);
	CHECK_INT(put(&f, "acme", "KEY", 2), -ENOENT);
	fixture_reopen(&f);
	CHECK_INT(store_secret_get(f.s, "acme", "KEY", &got, &f.err), 0);
	CHECK(got.version == 2 && got.made_ms > 0 && got.changed_ms >= got.made_ms);
	CHECK_INT(put(&f, "acme", "KEY", 0), -EINVAL);
	fixture_done(&f);
}

static void a_secret_is_its_tenants(void)
{
	struct fixture f;
	struct store_secret got;
	char all[200] = "", own[200] = "";

	fixture_init(&f);
	CHECK_INT(put(&f, "acme", "KEY", 1), 0);
	CHECK_INT(put(&f, "zeta", "KEY", 1), 0);
	CHECK_INT(put(&f, "zeta", "ALSO", 1), 0);
	CHECK_INT(store_secret_each(f.s, NULL, list, all, &f.err), 0);
	CHECK_STR(all, "acme/KEY@1 zeta/ALSO@1 zeta/KEY@1 ");
	CHECK_INT(store_secret_remove(f.s, "acme", "ALSO", &f.err), -ENOENT);
	CHECK_INT(store_secret_remove(f.s, "zeta", "KEY", &f.err), 0);
	CHECK_INT(store_secret_get(f.s, "zeta", "KEY", &got, &f.err), -ENOENT);
	CHECK_INT(store_secret_each(f.s, "zeta", list, own, &f.err), 0);
	CHECK_STR(own, "zeta/ALSO@1 ");
	CHECK_INT(put(&f, "Not A Tenant", "KEY", 1), -EINVAL);
	fixture_done(&f);
}

static void there_is_a_most_per_tenant(void)
{
	struct fixture f;
	char name[16];

	fixture_init(&f);
	CHECK_INT(store_begin(f.s, &f.err), 0);
	for (int i = 0; i < STORE_SECRETS_PER_TENANT; i++) {
		(void)snprintf(name, sizeof(name), "k%d", i);
		CHECK_INT(put(&f, "acme", name, 1), 0);
	}
	CHECK_INT(store_commit(f.s, &f.err), 0);
	CHECK_INT(put(&f, "acme", "more", 1), -EDQUOT);
	CHECK_INT(put(&f, "acme", "k3", 2), 0);
	CHECK_INT(put(&f, "zeta", "more", 1), 0);
	fixture_done(&f);
}

int main(void)
{
	RUN(versions_follow_each_other);
	RUN(a_secret_is_its_tenants);
	RUN(there_is_a_most_per_tenant);
	return tap_done();
}
