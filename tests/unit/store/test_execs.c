/* SPDX-License-Identifier: Apache-2.0 */

#include "store_fixture.h"

static void sandbox(struct fixture *f, const char *id)
{
	struct store_sandbox r = fixture_row(id, "acme");

	CHECK_INT(store_sandbox_insert(f->s, &r, &f->err), 0);
	free(r.tenant);
}

static void an_exec_goes_from_intent_to_exit(void)
{
	struct fixture f;
	char request[] = "{\"argv\":[\"true\"]}";
	struct store_exec e = {.id = "e1", .sandbox = "i1", .request = request}, got;

	fixture_init(&f);
	sandbox(&f, "i1");
	CHECK_INT(store_exec_insert(f.s, &e, &f.err), 0);
	CHECK_INT(store_exec_get(f.s, "i1", "e1", &got, &f.err), 0);
	CHECK_STR(got.request, request);
	CHECK(got.pid == 0 && !got.has_ended && got.made_ms > 0);
	got.pid = 42;
	CHECK_INT(store_exec_update(f.s, &got, &f.err), 0);
	got.has_ended = true;
	got.exit_code = -1;
	got.signal = 9;
	got.is_timed_out = true;
	CHECK_INT(store_exec_update(f.s, &got, &f.err), 0);
	store_exec_done(&got);
	fixture_reopen(&f);
	CHECK_INT(store_exec_get(f.s, "i1", "e1", &got, &f.err), 0);
	CHECK(got.pid == 42 && got.has_ended && got.exit_code == -1 && got.signal == 9);
	CHECK(got.is_timed_out);
	store_exec_done(&got);
	fixture_done(&f);
}

static void an_id_is_one_exec_per_sandbox(void)
{
	struct fixture f;
	struct store_exec e = {.id = "e1", .sandbox = "i1"};

	fixture_init(&f);
	sandbox(&f, "i1");
	sandbox(&f, "i2");
	CHECK_INT(store_exec_insert(f.s, &e, &f.err), 0);
	CHECK_INT(store_exec_insert(f.s, &e, &f.err), -EEXIST);
	(void)snprintf(e.sandbox, sizeof(e.sandbox), "i2");
	CHECK_INT(store_exec_insert(f.s, &e, &f.err), 0);
	(void)snprintf(e.sandbox, sizeof(e.sandbox), "i3");
	CHECK_INT(store_exec_insert(f.s, &e, &f.err), -ENOENT);
	CHECK_INT(store_exec_update(f.s, &e, &f.err), -ENOENT);
	fixture_done(&f);
}

static void ended_execs_are_kept_up_to_a_cap(void)
{
	struct fixture f;
	struct store_exec e = {.sandbox = "i1", .has_ended = true}, got;

	fixture_init(&f);
	sandbox(&f, "i1");
	CHECK_INT(store_begin(f.s, &f.err), 0);
	(void)snprintf(e.id, sizeof(e.id), "running");
	e.has_ended = false;
	CHECK_INT(store_exec_insert(f.s, &e, &f.err), 0);
	e.has_ended = true;
	for (int i = 2; i <= 4608; i++) {
		(void)snprintf(e.id, sizeof(e.id), "e%d", i);
		CHECK_INT(store_exec_insert(f.s, &e, &f.err), 0);
	}
	CHECK_INT(store_commit(f.s, &f.err), 0);
	CHECK_INT(store_exec_get(f.s, "i1", "e2", &got, &f.err), -ENOENT);
	CHECK_INT(store_exec_get(f.s, "i1", "e512", &got, &f.err), -ENOENT);
	CHECK_INT(store_exec_get(f.s, "i1", "e513", &got, &f.err), 0);
	store_exec_done(&got);
	CHECK_INT(store_exec_get(f.s, "i1", "running", &got, &f.err), 0);
	store_exec_done(&got);
	fixture_done(&f);
}

int main(void)
{
	RUN(an_exec_goes_from_intent_to_exit);
	RUN(an_id_is_one_exec_per_sandbox);
	RUN(ended_execs_are_kept_up_to_a_cap);
	return tap_done();
}
