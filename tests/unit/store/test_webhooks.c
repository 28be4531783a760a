/* SPDX-License-Identifier: Apache-2.0 */

#include "store_fixture.h"

static struct store_webhook hook(const char *tenant)
{
	return (struct store_webhook){
		.tenant = strdup(tenant),
		.url = strdup("https://hooks.example/a"),
		.secret = strdup("s3cret"),
		.actions = strdup("sandbox.*"),
		.next = 7,
	};
}

static int copy(const struct store_webhook *w, void *arg)
{
	struct store_webhook *ret = arg;

	store_webhook_done(ret);
	*ret = *w;
	ret->tenant = strdup(w->tenant);
	ret->url = strdup(w->url);
	ret->secret = strdup(w->secret);
	ret->actions = strdup(w->actions);
	return 0;
}

static void a_webhook_is_made_changed_and_removed_by_its_tenant(void)
{
	struct fixture f;
	struct store_webhook w = hook("acme"), got = {0};

	fixture_init(&f);
	CHECK_INT(store_webhook_create(f.s, &w, &f.err), 0);
	CHECK(w.id > 0);
	w.next = 9;
	w.failures = 3;
	w.retry_at_ms = 1234;
	w.is_off = true;
	CHECK_INT(store_webhook_update(f.s, &w, &f.err), 0);
	CHECK_INT(store_webhook_each(f.s, "acme", copy, &got, &f.err), 0);
	CHECK_STR(got.url, "https://hooks.example/a");
	CHECK_STR(got.secret, "s3cret");
	CHECK_STR(got.actions, "sandbox.*");
	CHECK(got.next == 9 && got.failures == 3 && got.retry_at_ms == 1234 && got.is_off);
	store_webhook_done(&got);
	/* A delivery that ends now knows another URL and nothing of its being off. */
	got = (struct store_webhook){.id = w.id, .next = 10, .tenant = w.tenant, .url = w.secret};
	CHECK_INT(store_webhook_progress(f.s, &got, &f.err), 0);
	got = (struct store_webhook){0};
	CHECK_INT(store_webhook_each(f.s, "acme", copy, &got, &f.err), 0);
	CHECK_STR(got.url, "https://hooks.example/a");
	CHECK_STR(got.secret, "s3cret");
	CHECK(got.next == 10 && got.failures == 0 && got.retry_at_ms == 0 && got.is_off);
	store_webhook_done(&got);
	CHECK_INT(store_webhook_remove(f.s, "zeta", w.id, &f.err), -ENOENT);
	CHECK_INT(store_webhook_remove(f.s, "acme", w.id, &f.err), 0);
	CHECK_INT(store_webhook_update(f.s, &w, &f.err), -ENOENT);
	CHECK_INT(store_webhook_progress(f.s, &w, &f.err), -ENOENT);
	CHECK_INT(store_webhook_each(f.s, NULL, copy, &got, &f.err), 0);
	CHECK(got.tenant == NULL);
	store_webhook_done(&w);
	fixture_done(&f);
}

static void a_tenant_has_so_many_and_no_more(void)
{
	struct fixture f;
	struct store_webhook w = hook("acme"), other = hook("zeta");

	fixture_init(&f);
	for (int i = 0; i < 32; i++)
		CHECK_INT(store_webhook_create(f.s, &w, &f.err), 0);
	CHECK_INT(store_webhook_create(f.s, &w, &f.err), -EDQUOT);
	CHECK_INT(store_webhook_create(f.s, &other, &f.err), 0);
	store_webhook_done(&w);
	store_webhook_done(&other);
	fixture_done(&f);
}

int main(void)
{
	RUN(a_webhook_is_made_changed_and_removed_by_its_tenant);
	RUN(a_tenant_has_so_many_and_no_more);
	return tap_done();
}
