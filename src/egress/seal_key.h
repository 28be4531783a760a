/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/seal_key - where the key of egress/seal comes from.
 */
#include "egress/seal.h"

#define SEAL_KEY 32

/* The caller wipes it. */
int seal_key_find(const struct sealer_config *c, unsigned char key[SEAL_KEY], struct err *err);
