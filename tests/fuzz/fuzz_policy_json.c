/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz core/policy_json and policy_decide: any bytes give a policy or an error that names the
 * field. A policy comes back from its own JSON byte for byte, and its decisions keep their promise:
 * sure stays sure, all known is sure.
 */
#include "core/policy.h"

#include "base/own.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decide(const struct policy *p)
{
	static const char *const names[] = {"a.test", "x.b.test", NULL};
	struct address addr = {.family = 4, .b = {10, 1, 2, 3}};
	struct policy_question q = {0};
	struct policy_answer early, late;

	for (size_t i = 0; i < 3; i++) {
		q = (struct policy_question){.name = names[i], .addr = names[i] ? NULL : &addr};
		policy_decide(p, &q, &early);
		q.port = 443;
		q.protocol = POLICY_HTTPS;
		q.method = "GET";
		q.path = "/pub/%2e/x";
		q.program = "/usr/bin/curl";
		q.addr = &addr;
		policy_decide(p, &q, &late);
		assert(late.needs == 0);
		assert(early.needs || early.action == late.action);
		assert(late.action != POLICY_DENY || !late.must_intercept);
		assert(late.action == POLICY_DENY || late.rule);
		(void)policy_near(p, &q);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(policy_unref) struct policy *p = NULL;
	AUTO(policy_unref) struct policy *again = NULL;
	AUTO_FREE char *json = NULL, *second = NULL;
	struct err err = {0};

	if (policy_from_json((const char *)data, size, &p, &err) < 0) {
		assert(err.code != 0 && strncmp(err.msg, "policy: ", 8) == 0);
		return 0;
	}
	json = policy_to_json(p);
	assert(policy_from_json(json, strlen(json), &again, &err) == 0);
	second = policy_to_json(again);
	assert(strcmp(json, second) == 0 && strcmp(p->digest, again->digest) == 0);
	decide(p);
	return 0;
}
