/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz core/profile: any bytes give a spec or an error that says where, never a crash or a leak.
 * What was accepted must also pass, or be refused by, the gate without harm.
 */
#include "core/profile.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct profile_source source = {
		.file = "profile.yaml", .cwd = "/work", .home = "/home/user"};
	struct err err = {0};
	struct spec s;

	spec_init(&s);
	if (profile_parse((const char *)data, size, &source, &s, &err) < 0) {
		assert(err.code != 0 && strncmp(err.msg, "profile.yaml:", 13) == 0);
	} else {
		assert(s.profile != NULL);
		(void)strv_add(&s.argv, "true", &err);
		(void)spec_validate(&s, &err);
	}
	spec_done(&s);
	return 0;
}
