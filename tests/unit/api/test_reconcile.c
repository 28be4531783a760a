/* SPDX-License-Identifier: Apache-2.0 */

/* The decisions, by the numbered invariants of core/sandbox.h. */
#include "api/reconcile.h"
#include "tap.h"

#define BOOT "00000000-0000-0000-0000-000000000001"

static enum sandbox_reason reason;

static enum reconcile_action decide(enum sandbox_state state, bool has_box, bool is_wanted)
{
	struct store_sandbox row = {.state = state, .reason = SANDBOX_TTL, .boot_id = BOOT};

	return reconcile_decide(&row, has_box, is_wanted, BOOT, &reason);
}

/* I1: nothing but the warden's word makes a row RUNNING; who waits for it is told. */
static void only_a_box_makes_a_creation_run(void)
{
	CHECK(decide(SANDBOX_CREATING, true, true) == RECONCILE_UP);
	CHECK(decide(SANDBOX_CREATING, false, true) == RECONCILE_ASK);
}

/* I2: an intent to end is carried out, however often it takes. */
static void an_intent_to_end_is_carried_out(void)
{
	CHECK(decide(SANDBOX_ENDING, true, false) == RECONCILE_STOP);
	CHECK(reason == SANDBOX_TTL);
	CHECK(decide(SANDBOX_ENDING, false, false) == RECONCILE_STOP);
	CHECK(reason == SANDBOX_TTL);
}

/* I4 */
static void what_runs_on_both_sides_stays(void)
{
	CHECK(decide(SANDBOX_RUNNING, true, false) == RECONCILE_KEEP);
	CHECK(decide(SANDBOX_PAUSED, true, false) == RECONCILE_KEEP);
}

static void what_is_only_in_the_kernel_is_destroyed(void)
{
	CHECK(reconcile_decide(NULL, true, false, BOOT, &reason) == RECONCILE_STOP);
	CHECK(reconcile_decide(NULL, false, false, BOOT, &reason) == RECONCILE_KEEP);
}

static void what_is_only_in_the_store_ends_with_a_reason(void)
{
	struct store_sandbox old = {.state = SANDBOX_RUNNING, .boot_id = "another"};

	CHECK(decide(SANDBOX_RUNNING, false, false) == RECONCILE_END);
	CHECK(reason == SANDBOX_GUEST_GONE);
	CHECK(decide(SANDBOX_PAUSED, false, false) == RECONCILE_END);
	CHECK(reason == SANDBOX_GUEST_GONE);
	CHECK(reconcile_decide(&old, false, false, BOOT, &reason) == RECONCILE_END);
	CHECK(reason == SANDBOX_HOST_REBOOT);
}

/* I5 */
static void what_has_ended_stays_ended(void)
{
	CHECK(decide(SANDBOX_ENDED, false, false) == RECONCILE_KEEP);
	CHECK(decide(SANDBOX_FAILED, false, true) == RECONCILE_KEEP);
	CHECK(decide(SANDBOX_ENDED, true, false) == RECONCILE_STOP);
	CHECK(decide(SANDBOX_FAILED, true, true) == RECONCILE_STOP);
}

/* I6 */
static void a_create_nobody_waits_for_is_undone(void)
{
	CHECK(decide(SANDBOX_CREATING, true, false) == RECONCILE_STOP);
	CHECK(reason == SANDBOX_NOT_ANSWERED);
	CHECK(decide(SANDBOX_CREATING, false, false) == RECONCILE_FAIL);
	CHECK(reason == SANDBOX_NOT_ANSWERED);
}

int main(void)
{
	RUN(only_a_box_makes_a_creation_run);
	RUN(an_intent_to_end_is_carried_out);
	RUN(what_runs_on_both_sides_stays);
	RUN(what_is_only_in_the_kernel_is_destroyed);
	RUN(what_is_only_in_the_store_ends_with_a_reason);
	RUN(what_has_ended_stays_ended);
	RUN(a_create_nobody_waits_for_is_undone);
	return tap_done();
}
