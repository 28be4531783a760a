/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/network - the network part of a create or update: checked here, enforced by egress.
 */
#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/* Every field of the right type, addresses that are addresses. -EINVAL names the field. */
int network_check(json_t *network, struct err *err);
/* "10.0.0.0/8", "1.1.1.1", "2001:db8::/32" */
bool network_is_address(const char *s);
