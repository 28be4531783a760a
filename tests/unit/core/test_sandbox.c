/* SPDX-License-Identifier: Apache-2.0 */

#include "core/sandbox.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

static void every_state_and_reason_has_a_name_of_its_own(void)
{
	for (int i = 0; i < SANDBOX_STATE_COUNT; i++)
		CHECK_INT(sandbox_state_parse(sandbox_state_name((enum sandbox_state)i)), i);
	for (int i = 0; i < SANDBOX_REASON_COUNT; i++)
		CHECK_INT(sandbox_reason_parse(sandbox_reason_name((enum sandbox_reason)i)), i);
	CHECK_INT(sandbox_state_parse("Running"), -EINVAL);
	CHECK_INT(sandbox_reason_parse("bored"), -EINVAL);
}

/* I5: nothing leaves ENDED and FAILED. */
static void final_states_are_final(void)
{
	for (int to = 0; to < SANDBOX_STATE_COUNT; to++) {
		CHECK(!sandbox_may(SANDBOX_ENDED, (enum sandbox_state)to));
		CHECK(!sandbox_may(SANDBOX_FAILED, (enum sandbox_state)to));
	}
}

static void transitions_are_those_of_the_diagram(void)
{
	static const char *const allowed[] = {"creating running", "creating failed",
		"running paused", "running ending", "running failed", "paused running",
		"paused ending", "paused failed", "ending ended"};
	size_t n = 0;

	for (int a = 0; a < SANDBOX_STATE_COUNT; a++) {
		for (int b = 0; b < SANDBOX_STATE_COUNT; b++) {
			char pair[40];
			bool is_listed = false;

			(void)snprintf(pair, sizeof(pair), "%s %s",
				sandbox_state_name((enum sandbox_state)a),
				sandbox_state_name((enum sandbox_state)b));
			for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
				is_listed |= strcmp(allowed[i], pair) == 0;
			if (!CHECK(sandbox_may((enum sandbox_state)a, (enum sandbox_state)b) ==
				    is_listed))
				tap_print("# %s\n", pair);
			n += is_listed;
		}
	}
	CHECK_INT(n, sizeof(allowed) / sizeof(allowed[0]));
	CHECK(!sandbox_may(SANDBOX_STATE_COUNT, SANDBOX_RUNNING));
	CHECK(!sandbox_may(SANDBOX_RUNNING, SANDBOX_STATE_COUNT));
}

/* I3: by chance alone never; here only that they are well-formed and spread over the letters. */
static void ids_are_letters_and_digits_and_differ(void)
{
	char last[SANDBOX_ID_MAX] = "";
	unsigned seen[256] = {0};
	struct err err = {0};

	for (int i = 0; i < 500; i++) {
		char id[SANDBOX_ID_MAX];

		CHECK_INT(sandbox_new_id(id, &err), 0);
		CHECK(sandbox_is_id(id));
		CHECK(strcmp(id, last) != 0);
		for (const char *p = id + 1; *p; p++)
			seen[(unsigned char)*p]++;
		(void)snprintf(last, sizeof(last), "%s", id);
	}
	for (const char *p = "abcdefghijklmnopqrstuvwxyz0123456789"; *p; p++)
		CHECK(seen[(unsigned char)*p] > 100);
}

static void what_is_not_an_id_is_refused(void)
{
	CHECK(sandbox_is_id("iabcdefghij0123456789"));
	CHECK(!sandbox_is_id(""));
	CHECK(!sandbox_is_id("i"));
	CHECK(!sandbox_is_id("xabcdefghij0123456789"));
	CHECK(!sandbox_is_id("iabcdefghij012345678"));
	CHECK(!sandbox_is_id("iabcdefghij01234567890"));
	CHECK(!sandbox_is_id("iabcdefghij012345678-"));
	CHECK(!sandbox_is_id("iABCDEFGHIJ0123456789"));
}

static void random_hex_has_its_length(void)
{
	char a[129], b[129];
	struct err err = {0};

	for (unsigned n = 0; n <= 64; n++) {
		CHECK_INT(sandbox_random_hex(a, n, &err), 0);
		CHECK_INT(strlen(a), 2 * n);
		CHECK_INT(strspn(a, "0123456789abcdef"), 2 * n);
	}
	CHECK_INT(sandbox_random_hex(b, 64, &err), 0);
	CHECK(strcmp(a, b) != 0);
}

int main(void)
{
	RUN(every_state_and_reason_has_a_name_of_its_own);
	RUN(final_states_are_final);
	RUN(transitions_are_those_of_the_diagram);
	RUN(ids_are_letters_and_digits_and_differ);
	RUN(what_is_not_an_id_is_refused);
	RUN(random_hex_has_its_length);
	return tap_done();
}
