/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz core/profile: any bytes give a spec or an error that says where, never a crash or a leak.
 * What was accepted must also pass, or be refused by, the gate without harm; and its network
 * policy must come back from its own JSON.
 */
#include "core/profile.h"

#include "base/own.h"
#include "core/policy_build.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_policy(struct policy *p)
{
	AUTO(policy_unref) struct policy *again = NULL;
	AUTO_FREE char *json = NULL;
	struct err err = {0};

	policy_finish(p);
	json = policy_to_json(p);
	assert(policy_from_json(json, strlen(json), &again, &err) == 0);
	assert(strcmp(p->digest, again->digest) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct profile_source source = {
		.file = "profile.yaml", .cwd = "/work", .home = "/home/user"};
	struct profile p = {0};
	struct err err = {0};
	struct spec s;

	spec_init(&s);
	if (profile_read((const char *)data, size, &source, &s, &p, &err) < 0) {
		assert(err.code != 0 && strncmp(err.msg, "profile.yaml:", 13) == 0);
	} else {
		assert(s.profile != NULL);
		check_policy(p.policy);
		(void)strv_add(&s.argv, "true", &err);
		(void)spec_validate(&s, &err);
	}
	profile_done(&p);
	spec_done(&s);
	return 0;
}
