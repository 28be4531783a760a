/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/run_network - what a run asked for of the network, and the policy that it makes. Pure.
 */
#include "base/err.h"
#include "base/text.h"
#include "core/policy.h"

struct run_network {             /* all owned */
	struct strv allow, deny; /* as written after --allow and --deny */
	char *resolver;          /* "10.0.0.2,[::1]:5353"; NULL: the system's */
	char *upstream_ca;       /* PEM file, absolute; NULL: the system's store */
	char *upstream_proxy;    /* URL, perhaps with a password; NULL: none */
	char *no_proxy;          /* NULL: none */
	struct policy *profile;  /* of --profile; NULL: it says nothing of the network */
	struct policy *floor;    /* the operator's, or of --floor; NULL: none */
	bool is_none, is_allow;  /* --net was given */
};
void run_network_done(struct run_network *n);

/* Anything said that wants a road out? -EINVAL if it contradicts itself. */
int run_network_wanted(const struct run_network *n, struct err *err);

/*
 * The profile's rules, then one for each --allow and --deny, in order, as "run/allow-1" and so on;
 * all of it on the floor.
 * A word is HOST, HOST:PORT or tcp:HOST:PORT; HOST is a name, "*.suffix", "*", an address or
 * a network; PORT may be "FIRST-LAST". -EINVAL names the word.
 */
int run_network_policy(const struct run_network *n, struct policy **ret, struct err *err);
