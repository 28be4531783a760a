/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/policy_e2b - what the network fields of an E2B create or update mean as a policy. Pure.
 *
 * There, the internet is open unless said otherwise, and what is allowed wins over what is denied.
 * Here: nothing said, or access allowed, is the server's own default; "no access", or denying
 * 0.0.0.0/0 or ::/0, starts from nothing; each entry of allow_out is then an allow rule (names:
 * web protocols; addresses: anything), each of deny_out a deny rule without what allow_out takes
 * out of it. The floor bounds all of it. Stricter than there: a name that is allowed but leads to
 * a denied address is denied, and so are private addresses that no entry names.
 */
#include "core/policy.h"

struct policy_e2b {
	bool no_internet; /* allow_internet_access: false */
	struct strv allow_out, deny_out;
	const uint16_t *https_ports; /* beside 443 and 80 */
	size_t https_ports_n;
};

/* `fallback`: the server's default profile. `floor` may be NULL. -EINVAL names the entry. */
int policy_from_e2b(const struct policy_e2b *e, const struct policy *fallback,
	const struct policy *floor, struct policy **ret, struct err *err);
