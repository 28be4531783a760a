/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* sys/net - the network namespace we are in. */
#include "base/err.h"

#include <stdint.h>

/* Bring `lo` up; needs CAP_NET_ADMIN over this network namespace. */
int net_loopback_up(struct err *err);

/* How many interfaces are up, `lo` included. Tunnels a kernel gives to every namespace are down. */
int net_links_up(uint32_t *ret, struct err *err);
