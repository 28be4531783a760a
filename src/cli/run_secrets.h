/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/run_secrets - the caller's secrets that a run's policy binds: placeholders for the box.
 */
#include "core/policy.h"
#include "core/spec.h"

/*
 * Adds variables to *spec, but none that the caller sets. *ret_dir: where the role that serves the
 * road finds the sealed values, NULL if the run binds none that is set; the caller frees.
 */
int run_secrets_prepare(
	const struct policy *policy, struct spec *spec, char **ret_dir, struct err *err);
