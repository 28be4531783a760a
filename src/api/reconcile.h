/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/reconcile - what to do about a row and a box that should be one thing. Pure; see I1…I7 in
 * core/sandbox.h, and api/reconcile.c for who acts on it.
 */
#include "store/store.h"

enum reconcile_action {
	RECONCILE_KEEP, /* they agree */
	RECONCILE_UP,   /* it came up while nobody listened: RUNNING, and tell who waits */
	RECONCILE_ASK,  /* it never came up and somebody still waits: ask for it again */
	RECONCILE_STOP, /* destroy the box; then the row ends, if there is one that has not */
	RECONCILE_FAIL, /* the row alone: it never came up */
	RECONCILE_END,  /* the row alone: it was lost */
};

/*
 * `row` NULL: the store has never heard of it. `is_wanted`: a client waits for this creation.
 * `boot_id`: of this boot. *ret_reason is why it ends, where it ends.
 */
enum reconcile_action reconcile_decide(const struct store_sandbox *row, bool has_box,
	bool is_wanted, const char *boot_id, enum sandbox_reason *ret_reason);
