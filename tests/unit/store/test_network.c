/* SPDX-License-Identifier: Apache-2.0 */

/*
 * store/violations, asks, profiles: what a sandbox was refused, what people were asked, what
 * tenants keep.
 */
#include "store_fixture.h"

#include <inttypes.h>
#include <string.h>

static void add_sandbox(struct fixture *f, const char *id, const char *tenant)
{
	struct store_sandbox row = fixture_row(id, tenant);

	CHECK_INT(store_sandbox_insert(f->s, &row, &f->err), 0);
	free(row.tenant);
}

struct seen {
	int n;
	struct store_violation last;
	char what[64];
};

static int see(const struct store_violation *v, void *arg)
{
	struct seen *s = arg;

	s->n++;
	s->last = *v;
	(void)snprintf(s->what, sizeof(s->what), "%s", v->what);
	return 0;
}

static void note(struct fixture *f, const char *sandbox, const char *what, int64_t at_ms)
{
	struct store_violation v = {.what = what, .record = "{}", .last_ms = at_ms, .count = 2};

	CHECK_INT(store_violation_note(f->s, sandbox, &v, &f->err), 0);
}

static void identical_violations_are_one_row_with_its_last_times(void)
{
	struct fixture f;
	struct seen s = {0};

	fixture_init(&f);
	add_sandbox(&f, "ione", "acme");
	for (int64_t i = 0; i < 20; i++)
		note(&f, "ione", "a", INT64_C(1763482345000) + i);
	CHECK(store_violation_each(f.s, "ione", see, &s, &f.err) >= 0);
	CHECK_INT(s.n, 1);
	CHECK_INT(s.last.count, 40);
	CHECK_INT(s.last.first_ms, INT64_C(1763482345000));
	CHECK_INT(s.last.last_ms, INT64_C(1763482345019));
	CHECK_INT(s.last.times[0], INT64_C(1763482345019));
	CHECK_INT(s.last.times[STORE_VIOLATION_TIMES - 1], INT64_C(1763482345004));
	fixture_done(&f);
}

static void a_sandbox_keeps_its_newest_violations(void)
{
	struct fixture f;
	struct seen s = {0};

	fixture_init(&f);
	add_sandbox(&f, "ione", "acme");
	add_sandbox(&f, "itwo", "acme");
	note(&f, "itwo", "other", 1);
	for (int i = 0; i < STORE_VIOLATIONS + 5; i++) {
		char what[32];

		(void)snprintf(what, sizeof(what), "w%d", i);
		note(&f, "ione", what, 1000 + i);
	}
	CHECK(store_violation_each(f.s, "ione", see, &s, &f.err) >= 0);
	CHECK_INT(s.n, STORE_VIOLATIONS);
	CHECK_STR(s.what, "w260");
	s = (struct seen){0};
	CHECK(store_violation_each(f.s, "itwo", see, &s, &f.err) >= 0);
	CHECK_INT(s.n, 1);
	/* Of a sandbox nobody knows: nothing to keep it with. */
	note(&f, "inone", "x", 1);
	fixture_done(&f);
}

static int count_ask(const struct store_ask *a, void *arg)
{
	(void)a;
	(*(int *)arg)++;
	return 0;
}

static void an_ask_is_answered_once_and_is_its_tenants(void)
{
	char tenant[] = "acme", record[] = "{}", note_text[] = "please";
	struct store_ask a = {.id = "k1",
		.sandbox = "ione",
		.tenant = tenant,
		.engine = "e-1",
		.record = record,
		.note = note_text,
		.expires_ms = 99};
	struct store_ask got = {0};
	struct fixture f;
	int n = 0;

	fixture_init(&f);
	add_sandbox(&f, "ione", "acme");
	CHECK_INT(store_ask_insert(f.s, &a, &f.err), 0);
	CHECK_INT(store_ask_get(f.s, "other", "k1", &got, &f.err), -ENOENT);
	CHECK_INT(store_ask_by_engine(f.s, "ione", "e-1", 98, &got, &f.err), -ENOENT);
	CHECK_INT(store_ask_by_engine(f.s, "ione", "e-1", 99, &got, &f.err), 0);
	CHECK_STR(got.id, "k1");
	CHECK_STR(got.note, "please");
	store_ask_done(&got);
	CHECK(store_ask_each(f.s, "acme", "open", 10, count_ask, &n, &f.err) >= 0);
	CHECK_INT(n, 1);
	CHECK_INT(store_ask_answer(f.s, "k1", "allowed", "once", "key:x", &f.err), 0);
	CHECK_INT(store_ask_answer(f.s, "k1", "denied", "", "key:y", &f.err), -EALREADY);
	CHECK_INT(store_ask_expire(f.s, NULL, NULL, &f.err), 0);
	CHECK_INT(store_ask_get(f.s, "acme", "k1", &got, &f.err), 0);
	CHECK_STR(got.state, "allowed");
	CHECK_STR(got.actor, "key:x");
	store_ask_done(&got);
	fixture_done(&f);
}

static void profiles_keep_every_version(void)
{
	char tenant[] = "acme", name[] = "mine", one[] = "{\"a\":1}", two[] = "{\"a\":2}";
	struct store_profile p = {.tenant = tenant, .name = name, .digest = "d1", .policy = one};
	struct store_profile got = {0};
	struct fixture f;

	fixture_init(&f);
	CHECK_INT(store_profile_put(f.s, &p, &f.err), 0);
	CHECK_INT(p.version, 1);
	CHECK_INT(store_profile_put(f.s, &p, &f.err), 0);
	CHECK_INT(p.version, 1);
	p.policy = two;
	(void)snprintf(p.digest, sizeof(p.digest), "d2");
	CHECK_INT(store_profile_put(f.s, &p, &f.err), 0);
	CHECK_INT(p.version, 2);
	CHECK_INT(store_profile_get(f.s, "acme", "mine", 0, &got, &f.err), 0);
	CHECK_STR(got.policy, "{\"a\":2}");
	store_profile_done(&got);
	CHECK_INT(store_profile_get(f.s, "acme", "mine", 1, &got, &f.err), 0);
	CHECK_STR(got.policy, "{\"a\":1}");
	store_profile_done(&got);
	CHECK_INT(store_profile_get(f.s, "other", "mine", 0, &got, &f.err), -ENOENT);
	fixture_done(&f);
}

static void a_policy_is_kept_with_its_sandbox(void)
{
	struct store_sandbox got = {0};
	struct fixture f;

	fixture_init(&f);
	add_sandbox(&f, "ione", "acme");
	CHECK_INT(
		store_sandbox_set_policy(f.s, "ione", "{\"s\":1}", "packages", "{\"p\":1}", &f.err),
		0);
	fixture_reopen(&f);
	CHECK_INT(store_sandbox_get(f.s, "ione", &got, &f.err), 0);
	CHECK_STR(got.profile, "packages");
	CHECK_STR(got.policy, "{\"p\":1}");
	CHECK_STR(got.spec, "{\"s\":1}");
	store_sandbox_done(&got);
	fixture_done(&f);
}

int main(void)
{
	RUN(identical_violations_are_one_row_with_its_last_times);
	RUN(a_sandbox_keeps_its_newest_violations);
	RUN(an_ask_is_answered_once_and_is_its_tenants);
	RUN(profiles_keep_every_version);
	RUN(a_policy_is_kept_with_its_sandbox);
	return tap_done();
}
