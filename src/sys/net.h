/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* sys/net - the network namespace we are in. */
#include "base/err.h"

/* Bring `lo` up; needs CAP_NET_ADMIN over this network namespace. */
int net_loopback_up(struct err *err);
