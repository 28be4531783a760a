/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/diagnosis - what the facts of a machine mean for walls and tiers, and what to do.
 *
 * Pure: sys/probe measures, this judges, so that a machine we do not have (Ubuntu's
 * AppArmor, a Kubernetes pod) is a struct in a test. Every fix is a command
 * that can be pasted, for the user who ran us.
 */
#include "core/wall.h"
#include "sys/probe.h"

#include <stdbool.h>
#include <stddef.h>

enum diagnosis_status {
	DIAGNOSIS_OK,
	DIAGNOSIS_WEAK,    /* works, but something weaker stands in or is not there */
	DIAGNOSIS_MISSING, /* a wall or tier needs it */
	DIAGNOSIS_INFO,    /* neither good nor bad */
};

#define DIAGNOSIS_FACTS_MAX 80
#define DIAGNOSIS_TIERS     3
#define DIAGNOSIS_FIX_SIZE  420

struct diagnosis_fact {
	const char *group;
	const char *name; /* stable, for scripts */
	char value[160];
	enum diagnosis_status status;
	char detail[200];             /* what it means; "" = nothing to add */
	char fix[DIAGNOSIS_FIX_SIZE]; /* "" = nothing to fix, or nothing that can be */
};

struct diagnosis_wall {
	enum diagnosis_status status;
	bool is_required;    /* by default, in `bawn run` */
	bool is_available;   /* WEAK counts */
	char mechanism[160]; /* what builds it here, or why nothing can */
	char fix[DIAGNOSIS_FIX_SIZE];
};

struct diagnosis_tier {
	const char *name; /* "process", "gvisor", "microvm" */
	enum diagnosis_status status;
	bool is_available; /* this machine could */
	char why[280];
	char fix[DIAGNOSIS_FIX_SIZE];
};

struct diagnosis {
	struct diagnosis_fact facts[DIAGNOSIS_FACTS_MAX]; /* in order of groups */
	size_t facts_n;
	struct diagnosis_wall walls[WALL_COUNT];
	struct diagnosis_tier tiers[DIAGNOSIS_TIERS];
	bool is_ok; /* the process tier can be built with all walls required by default */
};

void diagnosis_make(const struct probe *p, struct diagnosis *ret);

/* "ok", "weak", "missing", "info" */
const char *diagnosis_status_name(enum diagnosis_status s);
