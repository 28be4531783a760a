/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/names - addresses that stand for names, for one box.
 *
 * A name gets a number the first time it is asked for; the number is an address of
 * 198.18.0.0/15 and of fdba:3a11:ed00::/96. Nothing is looked up. Numbers go round, so that one
 * that was given up is not met again soon. Full: the name unused for longest goes, but never one
 * with a connection. The hash is keyed: a box cannot choose names that make its map slow.
 */
#include "base/own.h"
#include "core/address.h"
#include "core/policy.h"

#define NAMES_INTERNAL 1 /* 198.18.0.1, bawn.internal */

struct name_map;
struct name_entry;

struct name_map *names_create(size_t max);
struct name_map *names_free(struct name_map *m);
DEFINE_AUTO(struct name_map *, names_free)

/* The number of a clean name; made if there is none. */
uint32_t names_number(struct name_map *m, const char *name);
/* The name behind a number, used just now; NULL: none. Valid until the next names_number(). */
const char *names_name(struct name_map *m, uint32_t number);

/* While held its number stays. NULL: the name has none. */
struct name_entry *names_hold(struct name_map *m, const char *name);
void names_drop(struct name_entry *e);

void names_address(uint32_t number, uint8_t family, struct address *ret);
/* True if it is one of ours, whether it stands for a name or not. */
bool names_is_synthetic(const struct address *a, uint32_t *ret_number);
