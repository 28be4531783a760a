/* SPDX-License-Identifier: Apache-2.0 */

#include "store_fixture.h"

static void put(struct fixture *f, const char *id, const char *tenant, const char *name)
{
	struct store_sandbox r = fixture_row(id, tenant);
	AUTO_FREE char *own_name = strdup(name);

	r.name = own_name;
	CHECK_INT(store_sandbox_insert(f->s, &r, &f->err), 0);
	free(r.tenant);
}

static void go(struct fixture *f, const char *id, enum sandbox_state state, int want)
{
	CHECK_INT(store_sandbox_set_state(f->s, id, state, SANDBOX_NO_REASON, "", &f->err), want);
}

static void a_row_comes_back_as_it_was_put(void)
{
	struct fixture f;
	struct store_sandbox r;

	fixture_init(&f);
	put(&f, "iaaaaaaaaaaaaaaaaaaaa", "acme", "web");
	fixture_reopen(&f);
	CHECK_INT(store_sandbox_get(f.s, "iaaaaaaaaaaaaaaaaaaaa", &r, &f.err), 0);
	CHECK_STR(r.tenant, "acme");
	CHECK_STR(r.name, "web");
	CHECK_STR(r.template, "base");
	CHECK_INT(r.state, SANDBOX_CREATING);
	CHECK_INT(r.reason, SANDBOX_NO_REASON);
	CHECK_STR(r.message, "");
	CHECK_STR(r.spec, "{\"a\":1}");
	CHECK_STR(r.metadata, "{\"k\":\"v\"}");
	CHECK_STR(r.walls, "");
	CHECK_STR(r.idempotency, "");
	CHECK_STR(r.token, "aa");
	CHECK_STR(r.traffic_token, "");
	CHECK_STR(r.boot_id, "11111111-2222-3333-4444-555555555555");
	CHECK_INT(r.made_ms, 1000);
	CHECK_INT(r.end_at_ms, 2000);
	CHECK_INT(r.deadline_ms, 77);
	CHECK_INT(r.idle_ms, 5);
	CHECK(r.cpu_milli == 2000 && r.memory_max == 512 && r.disk_max == 1024 && r.pids_max == 64);
	store_sandbox_done(&r);
	CHECK_INT(store_sandbox_get(f.s, "inone", &r, &f.err), -ENOENT);
	fixture_done(&f);
}

/* I3 */
static void an_id_is_never_given_twice(void)
{
	struct fixture f;
	struct store_sandbox r = fixture_row("i1", "zeta");

	fixture_init(&f);
	put(&f, "i1", "acme", "");
	CHECK_INT(store_sandbox_insert(f.s, &r, &f.err), -EEXIST);
	free(r.tenant);
	fixture_done(&f);
}

/* I5, and the diagram */
static void forbidden_transitions_change_nothing(void)
{
	struct fixture f;
	struct store_sandbox r;

	fixture_init(&f);
	put(&f, "i1", "acme", "");
	go(&f, "i1", SANDBOX_ENDED, -EINVAL);
	go(&f, "i1", SANDBOX_PAUSED, -EINVAL);
	go(&f, "i1", SANDBOX_RUNNING, 0);
	go(&f, "i1", SANDBOX_RUNNING, -EINVAL);
	CHECK_INT(store_sandbox_set_state(f.s, "i1", SANDBOX_ENDING, SANDBOX_TTL, "up", &f.err), 0);
	go(&f, "i1", SANDBOX_RUNNING, -EINVAL);
	CHECK_INT(store_sandbox_get(f.s, "i1", &r, &f.err), 0);
	CHECK_INT(r.state, SANDBOX_ENDING);
	CHECK_INT(r.reason, SANDBOX_TTL);
	CHECK_STR(r.message, "up");
	CHECK(r.started_ms > 0);
	CHECK_INT(r.ended_ms, 0);
	store_sandbox_done(&r);
	CHECK_INT(store_sandbox_set_state(f.s, "i1", SANDBOX_ENDED, SANDBOX_TTL, "up", &f.err), 0);
	for (int i = 0; i < SANDBOX_STATE_COUNT; i++)
		go(&f, "i1", (enum sandbox_state)i, -EINVAL);
	CHECK_INT(store_sandbox_get(f.s, "i1", &r, &f.err), 0);
	CHECK(r.ended_ms >= r.started_ms);
	store_sandbox_done(&r);
	go(&f, "i2", SANDBOX_RUNNING, -ENOENT);
	fixture_done(&f);
}

/* I7: row and event are one transaction, or neither is there. */
static void a_transition_and_its_event_are_one(void)
{
	struct fixture f;
	struct store_event e = {.tenant = "acme", .action = "sandbox.start", .sandbox = "i1"};
	struct store_sandbox r;

	fixture_init(&f);
	put(&f, "i1", "acme", "");
	CHECK_INT(store_begin(f.s, &f.err), 0);
	go(&f, "i1", SANDBOX_RUNNING, 0);
	CHECK_INT(store_event_append(f.s, &e, &f.err), 0);
	store_rollback(f.s);
	CHECK_INT(store_event_last(f.s), 0);
	CHECK_INT(store_sandbox_get(f.s, "i1", &r, &f.err), 0);
	CHECK_INT(r.state, SANDBOX_CREATING);
	store_sandbox_done(&r);
	fixture_done(&f);
}

static void a_name_is_free_again_after_the_end(void)
{
	struct fixture f;
	struct store_sandbox r = fixture_row("i2", "acme");
	AUTO_FREE char *name = strdup("web");

	fixture_init(&f);
	put(&f, "i1", "acme", "web");
	put(&f, "i3", "zeta", "web");
	r.name = name;
	CHECK_INT(store_sandbox_insert(f.s, &r, &f.err), -EEXIST);
	go(&f, "i1", SANDBOX_FAILED, 0);
	CHECK_INT(store_sandbox_insert(f.s, &r, &f.err), 0);
	free(r.tenant);
	fixture_done(&f);
}

static void an_idempotency_key_belongs_to_its_tenant(void)
{
	struct fixture f;
	struct store_sandbox r = fixture_row("i1", "acme"), got;
	AUTO_FREE char *key = strdup("k-1");

	fixture_init(&f);
	r.idempotency = key;
	CHECK_INT(store_sandbox_insert(f.s, &r, &f.err), 0);
	CHECK_INT(store_sandbox_by_key(f.s, "acme", "k-1", &got, &f.err), 0);
	CHECK_STR(got.id, "i1");
	store_sandbox_done(&got);
	CHECK_INT(store_sandbox_by_key(f.s, "zeta", "k-1", &got, &f.err), -ENOENT);
	CHECK_INT(store_sandbox_by_key(f.s, "acme", "", &got, &f.err), -ENOENT);
	(void)snprintf(r.id, sizeof(r.id), "i2");
	CHECK_INT(store_sandbox_insert(f.s, &r, &f.err), -EEXIST);
	free(r.tenant);
	fixture_done(&f);
}

static void single_fields_change_alone(void)
{
	struct fixture f;
	struct store_sandbox r;
	AUTO_FREE char *huge = calloc(1, 300000);

	fixture_init(&f);
	put(&f, "i1", "acme", "");
	CHECK_INT(store_sandbox_set_walls(f.s, "i1", "{\"w\":1}", &f.err), 0);
	CHECK_INT(store_sandbox_set_spec(f.s, "i1", "{\"s\":1}", &f.err), 0);
	CHECK_INT(store_sandbox_set_metadata(f.s, "i1", "{\"m\":\"1\"}", &f.err), 0);
	CHECK_INT(store_sandbox_set_deadline(f.s, "i1", 9, 8, &f.err), 0);
	CHECK_INT(store_sandbox_set_walls(f.s, "i2", "", &f.err), -ENOENT);
	CHECK_INT(store_sandbox_set_deadline(f.s, "i2", 9, 8, &f.err), -ENOENT);
	(void)memset(huge, 'x', 299999);
	CHECK_INT(store_sandbox_set_metadata(f.s, "i1", huge, &f.err), -E2BIG);
	CHECK_INT(store_sandbox_get(f.s, "i1", &r, &f.err), 0);
	CHECK_STR(r.walls, "{\"w\":1}");
	CHECK_STR(r.spec, "{\"s\":1}");
	CHECK_STR(r.metadata, "{\"m\":\"1\"}");
	CHECK(r.end_at_ms == 9 && r.deadline_ms == 8);
	store_sandbox_done(&r);
	fixture_done(&f);
}

struct seen {
	struct store *s;
	char ids[200];
	bool is_nested;
};

static int note(const struct store_sandbox *r, void *arg)
{
	struct seen *seen = arg;
	size_t n = strlen(seen->ids);

	(void)snprintf(seen->ids + n, sizeof(seen->ids) - n, "%s ", r->id);
	if (seen->is_nested) {
		struct seen inner = {.s = seen->s};
		struct err err = {0};

		/* The same statement is in use: the second one must not disturb the first. */
		CHECK_INT(store_sandbox_each(seen->s, 1u << SANDBOX_FAILED, note, &inner, &err), 0);
		CHECK_STR(inner.ids, "i2 ");
	}
	return 0;
}

static void rows_are_listed_by_state_also_inside_a_list(void)
{
	struct fixture f;
	struct seen seen = {0};

	fixture_init(&f);
	put(&f, "i1", "acme", "");
	put(&f, "i2", "acme", "");
	put(&f, "i3", "zeta", "");
	go(&f, "i2", SANDBOX_FAILED, 0);
	go(&f, "i3", SANDBOX_RUNNING, 0);
	seen.s = f.s;
	seen.is_nested = true;
	CHECK_INT(store_sandbox_each(
			  f.s, 1u << SANDBOX_CREATING | 1u << SANDBOX_RUNNING, note, &seen, &f.err),
		0);
	CHECK_STR(seen.ids, "i1 i3 ");
	fixture_done(&f);
}

static void old_ended_rows_go_with_their_execs(void)
{
	struct fixture f;
	struct store_exec e = {.id = "e1", .sandbox = "i1"};
	struct store_sandbox r;

	fixture_init(&f);
	put(&f, "i1", "acme", "");
	put(&f, "i2", "acme", "");
	CHECK_INT(store_exec_insert(f.s, &e, &f.err), 0);
	go(&f, "i1", SANDBOX_FAILED, 0);
	CHECK_INT(store_sandbox_prune(f.s, 1000, &f.err), 0);
	CHECK_INT(store_sandbox_prune(f.s, INT64_MAX, &f.err), 1);
	CHECK_INT(store_sandbox_get(f.s, "i1", &r, &f.err), -ENOENT);
	CHECK_INT(store_exec_get(f.s, "i1", "e1", &e, &f.err), -ENOENT);
	CHECK_INT(store_sandbox_get(f.s, "i2", &r, &f.err), 0);
	store_sandbox_done(&r);
	fixture_done(&f);
}

int main(void)
{
	RUN(a_row_comes_back_as_it_was_put);
	RUN(an_id_is_never_given_twice);
	RUN(forbidden_transitions_change_nothing);
	RUN(a_transition_and_its_event_are_one);
	RUN(a_name_is_free_again_after_the_end);
	RUN(an_idempotency_key_belongs_to_its_tenant);
	RUN(single_fields_change_alone);
	RUN(rows_are_listed_by_state_also_inside_a_list);
	RUN(old_ended_rows_go_with_their_execs);
	return tap_done();
}
