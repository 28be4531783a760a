/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/diagnosis_impl - private to the diagnosis_*.c files.
 *
 * The fix_… functions write the command that repairs one thing; `out` has
 * DIAGNOSIS_FIX_SIZE bytes and becomes "" when no command does.
 */
#include "core/diagnosis.h"

/* True if the try was made and worked. */
bool diagnosis_works(const struct probe *p, enum probe_item item);
/* "works", "not tried", "EPERM: clone". */
void diagnosis_say(const struct probe *p, enum probe_item item, char *out, size_t size);

void fix_try(const struct probe *p, enum probe_item item, char *out);
void fix_landlock(const struct probe *p, char *out);
void fix_ids(const struct probe *p, char *out);
void fix_controller(const struct probe *p, enum cgroup_controller c, char *out);
void fix_sysctl(const struct probe *p, enum probe_sysctl s, const char *value, char *out);

void diagnosis_facts(const struct probe *p, struct diagnosis *d);
void diagnosis_walls(const struct probe *p, struct diagnosis *d);
void diagnosis_tiers(const struct probe *p, struct diagnosis *d);
