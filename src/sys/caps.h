/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/caps - capability sets of the calling thread, by raw system calls, without allocation.
 *
 * A set is a mask with bit n for capability n. Order in a child that gives up
 * privilege: caps_bound, change of ids, caps_set. Knows no policy.
 */
#include "base/err.h"

#include <stdint.h>

/*
 * Drop everything not in `keep` from the bounding set and clear the ambient set.
 * -EPERM without CAP_SETPCAP if anything has to be dropped.
 */
int caps_bound(uint64_t keep, struct err *err);
/* Set effective and permitted to `mask`, inheritable to 0. -EPERM if mask would add anything. */
int caps_set(uint64_t mask, struct err *err);
/* The effective set; 0 if it cannot be read. */
uint64_t caps_effective(void);
/* Highest capability number of this kernel. */
int caps_last(void);
