/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/auth - the cache of keys and the count of failures per address. See api_authenticate().
 */
#include "api/api.h"

#define API_LOCAL_PEER "local:" /* before the uid, in `peer` of what came by the local socket */

struct api_keys *api_keys_create(void);
struct api_keys *api_keys_free(struct api_keys *k);

/* Count a failure of this address. 0, or the seconds it has to wait: it had too many. */
unsigned api_keys_failed(struct api_keys *k, const char *peer, uint64_t now_ms);

/* For answers that go on: is the key they were allowed by still good? One look at the store. */
bool api_caller_lives(struct api *a, const struct api_caller *who);
/* A number that moves when keys may have changed. */
uint64_t api_keys_version(struct api *a);
