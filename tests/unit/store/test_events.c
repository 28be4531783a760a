/* SPDX-License-Identifier: Apache-2.0 */

#include "store_fixture.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

struct seen {
	char text[400];
};

static int note(const struct store_event *e, void *arg)
{
	struct seen *seen = arg;
	size_t n = strlen(seen->text);

	(void)snprintf(seen->text + n, sizeof(seen->text) - n, "%lld:%s/%s/%s ",
		(long long)e->number, e->tenant, e->action, e->sandbox);
	return 0;
}

static void append(struct fixture *f, const char *tenant, const char *action, const char *sandbox)
{
	struct store_event e = {.tenant = tenant,
		.actor = "key:e2b_00000000",
		.action = action,
		.sandbox = sandbox,
		.outcome = "ok",
		.detail = "{}"};

	CHECK_INT(store_event_append(f->s, &e, &f->err), 0);
	CHECK(e.number > 0 && e.at_ms > 0);
}

static void events_are_read_by_tenant_sandbox_and_number(void)
{
	static const struct {
		const char *tenant, *sandbox;
		int64_t after;
		size_t n;
		const char *want;
	} cases[] = {
		{NULL, NULL, 0, 10, "1:a/x/i1 2:b/y/i2 3:a/z/i3 4:a/w/i1 "},
		{"a", NULL, 0, 10, "1:a/x/i1 3:a/z/i3 4:a/w/i1 "},
		{"a", NULL, 1, 1, "3:a/z/i3 "},
		{NULL, "i1", 0, 10, "1:a/x/i1 4:a/w/i1 "},
		{"b", "i1", 0, 10, ""},
		{"a", "i1", 1, 10, "4:a/w/i1 "},
		{NULL, NULL, 4, 10, ""},
		{NULL, NULL, 0, 0, ""},
	};
	struct fixture f;

	fixture_init(&f);
	append(&f, "a", "x", "i1");
	append(&f, "b", "y", "i2");
	append(&f, "a", "z", "i3");
	append(&f, "a", "w", "i1");
	CHECK_INT(store_event_last(f.s), 4);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct seen seen = {0};

		CHECK_INT(store_event_each(f.s, cases[i].tenant, cases[i].sandbox, cases[i].after,
				  cases[i].n, note, &seen, &f.err),
			0);
		CHECK_STR(seen.text, cases[i].want);
	}
	fixture_done(&f);
}

static void an_event_of_nobody_can_be_told_too(void)
{
	struct fixture f;
	struct store_event e = {.tenant = "", .actor = "system", .action = "server.start"};

	fixture_init(&f);
	CHECK_INT(store_event_append(f.s, &e, &f.err), 0);
	fixture_done(&f);
}

static void the_oldest_go_above_the_cap_and_numbers_go_on(void)
{
	struct fixture f;
	struct seen seen = {0};
	AUTO_FREE char *path = NULL;
	sqlite3 *db = NULL;

	fixture_init(&f);
	append(&f, "a", "old", "");
	append(&f, "a", "young", "");
	path = text_format("%s/bawn.db", f.dir);
	CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db,
			  "UPDATE sqlite_sequence SET seq = 1000447 WHERE name = 'events';"
			  "UPDATE events SET number = 449 WHERE number = 2",
			  NULL, NULL, NULL),
		SQLITE_OK);
	CHECK_INT(sqlite3_close(db), SQLITE_OK);
	append(&f, "a", "pruner", ""); /* 1,000,448 is a multiple of 1,024 */
	CHECK_INT(store_event_each(f.s, "a", NULL, 0, 10, note, &seen, &f.err), 0);
	CHECK_STR(seen.text, "449:a/young/ 1000448:a/pruner/ ");
	CHECK_INT(store_event_last(f.s), 1000448);
	fixture_done(&f);
}

static void a_detail_has_a_cap(void)
{
	struct fixture f;
	AUTO_FREE char *huge = calloc(1, 70000);
	struct store_event e = {.tenant = "a", .action = "x", .detail = huge};

	fixture_init(&f);
	(void)memset(huge, 'x', 69999);
	CHECK_INT(store_event_append(f.s, &e, &f.err), -E2BIG);
	CHECK_INT(store_event_last(f.s), 0);
	fixture_done(&f);
}

static void a_late_event_waits_for_the_next_transaction_and_keeps_its_place(void)
{
	struct store_event e = {.tenant = "a", .actor = "x", .action = "late", .outcome = "ok"};
	struct fixture f;
	struct seen seen = {0};

	fixture_init(&f);
	CHECK_INT(store_event_later(f.s, &e, &f.err), 0);
	CHECK_INT(store_begin(f.s, &f.err), 0);
	append(&f, "a", "lost", "i1");
	store_rollback(f.s); /* takes the other one back, not the late one */
	CHECK_INT(store_event_later(f.s, &e, &f.err), 0);
	append(&f, "a", "next", "i1");
	CHECK_INT(store_event_later(f.s, &e, &f.err), 0);
	CHECK_INT(store_event_last(f.s), 4); /* a reader sees it */
	CHECK_INT(store_event_each(f.s, "a", NULL, 0, 10, note, &seen, &f.err), 0);
	CHECK(strstr(seen.text, "late") && strstr(seen.text, "next") && !strstr(seen.text, "lost"));
	CHECK(strstr(seen.text, "late") < strstr(seen.text, "next"));
	CHECK_INT(store_settle(f.s, &f.err), 0);
	CHECK_INT(store_event_last(f.s), 4);
	fixture_done(&f);
}

static void many_late_events_do_not_pile_up(void)
{
	struct store_event e = {.tenant = "a", .actor = "x", .action = "late", .outcome = "ok"};
	struct fixture f;

	fixture_init(&f);
	for (int i = 0; i < 1000; i++)
		CHECK_INT(store_event_later(f.s, &e, &f.err), 0);
	CHECK_INT(store_event_last(f.s), 1000);
	fixture_done(&f);
}

/* Clients start commands on a full disk too. */
static void late_events_that_cannot_be_written_do_not_pile_up(void)
{
	struct store_event e = {.tenant = "a", .actor = "x", .action = "late", .outcome = "ok"};
	struct rlimit was, none;
	struct fixture f;
	int lost = 0;

	fixture_init(&f);
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &was), 0);
	none = (struct rlimit){0, was.rlim_max};
	(void)signal(SIGXFSZ, SIG_IGN);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &none), 0);
	for (int i = 0; i < 400; i++)
		lost += store_event_later(f.s, &e, &f.err) < 0;
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &was), 0);
	CHECK(lost >= 400 - 256);
	CHECK_INT(store_settle(f.s, &f.err), 0);
	CHECK_INT(store_event_last(f.s), 256);
	fixture_done(&f);
}

int main(void)
{
	RUN(events_are_read_by_tenant_sandbox_and_number);
	RUN(an_event_of_nobody_can_be_told_too);
	RUN(a_late_event_waits_for_the_next_transaction_and_keeps_its_place);
	RUN(many_late_events_do_not_pile_up);
	RUN(late_events_that_cannot_be_written_do_not_pile_up);
	RUN(the_oldest_go_above_the_cap_and_numbers_go_on);
	RUN(a_detail_has_a_cap);
	return tap_done();
}
