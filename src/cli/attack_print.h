/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/attack_print - the results of `bawn attack`, for people and for programs.
 */
#include "cli/attack.h"

struct attack_options {
	enum spec_root root;
	bool as_json, want_list, want_help;
	struct strv only;  /* globs over names */
	struct strv walls; /* NAME=LEVEL */
};

/* One place for each attack of the table. */
struct attack_entry {
	bool is_chosen;
	const char *why_not; /* chosen, but not offered here; or NULL */
	struct attack_outcome outcome;
};

struct attack_board {
	struct attack_entry entry[ATTACKS_MAX];
};

int attack_print_help(void);
/* Names, walls and meanings; nothing is run. Returns 0. */
int attack_print_list(const struct attack_board *b, bool as_json);
/* On a terminal: which attack was judged last. */
void attack_print_progress(const struct attack_board *b, size_t index);
/* All results; returns 0 if all held, else 1. */
int attack_print_board(const struct attack_board *b, bool as_json);
