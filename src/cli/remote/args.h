/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/remote/args - options of the verbs that talk to a server: one table per verb.
 *
 * --server, --key, --state, --json and --help belong to every verb and are not in its table.
 */
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

#define EXIT_TIMEOUT 124
#define EXIT_BAWN    125

enum arg_kind {
	ARG_FLAG, /* to: bool */
	ARG_TEXT, /* to: const char *, borrowed from argv */
	ARG_LIST, /* to: struct strv */
};

struct arg {
	const char *name;  /* with its dashes */
	char letter;       /* "-n" too; 0 = none */
	const char *value; /* what it takes, for the help; NULL for a flag */
	const char *help;
	enum arg_kind kind;
	void *to;
};

/* What every verb has. */
struct args {
	const char *server, *key, *state;
	bool want_json;
	bool want_help; /* printed; the verb returns 0 */
	char **rest;    /* the words that are no options, and all behind "--"; borrowed */
	int rest_n;
	bool has_dashes; /* "--" was there */
};

struct args_verb {
	const char *name;
	const char *usage; /* "SANDBOX -- CMD [ARG...]" */
	const char *about; /* a paragraph */
	const struct arg *table;
	size_t table_n;
	int min, max;          /* words that are no options */
	bool stops_at_command; /* options end at the word behind the sandbox */
};

/* < 0: err says why, in words for people. */
int args_parse(const struct args_verb *v, int argc, char **argv, struct args *ret, struct err *err);

/* "bawn: VERB: message" on stderr; returns EXIT_BAWN. */
int args_fail(const char *verb, const struct err *err);
