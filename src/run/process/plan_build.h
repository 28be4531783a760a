/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/plan_build - what the files that build a plan share among themselves.
 */
#include "run/process/plan.h"

/* Append an operation; past the cap it is counted and dropped, and plan_build refuses. */
struct op *plan_add(struct plan *p, enum op_kind kind, enum op_side side, enum wall wall);
int plan_slot(struct plan *p);

int plan_add_filesystem(struct plan *p, const struct spec *s, const struct plan_facts *f,
	const struct host_view *v, struct err *err);
int plan_add_command(struct plan *p, const struct spec *s, const struct plan_facts *f,
	const struct host_view *v, bool want_explain, struct err *err);
