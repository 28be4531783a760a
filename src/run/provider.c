/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/provider - the tiers by name.
 */
#include "run/provider.h"

#include <string.h>

static const struct provider *const providers[] = {&provider_process};

const struct provider *provider_find(const char *tier)
{
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
		if (strcmp(providers[i]->tier, tier) == 0)
			return providers[i];
	return NULL;
}
