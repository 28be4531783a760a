/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/filters - the query of a list request, read and applied. Pure.
 */
#include "base/err.h"
#include "core/sandbox.h"
#include "io/h1.h"

#include <jansson.h>

#define FILTERS_PAIRS_MAX 32
#define FILTERS_TEXT_MAX  2048

struct filters {
	json_t *metadata;         /* object of strings all of which must match, or NULL; owned */
	unsigned states;          /* bit set of enum sandbox_state */
	int64_t started_after_ms; /* unix, 0 = any */
	char template[160];       /* "" = any */
	size_t limit;             /* 1 … 100 */
	bool is_ascending;
	bool has_token;
	int64_t token_ms; /* the last one of the page before: its start, its id */
	char token_id[SANDBOX_ID_MAX];
};

/* -EINVAL names the parameter. filters_done() afterwards in any case. */
int filters_parse(struct h1_text query, struct filters *ret, struct err *err);
void filters_done(struct filters *f);

/* metadata: a JSON text of an object of strings. */
bool filters_match(const struct filters *f, enum sandbox_state state, int64_t started_ms,
	const char *template, const char *metadata);
/* Is (started_ms, id) behind the page before? */
bool filters_is_behind(const struct filters *f, int64_t started_ms, const char *id);

/* Where the next page starts, as text. */
void filters_token(int64_t started_ms, const char *id, char out[64]);
/* RFC 3339 to unix ms. False: it is not. */
bool filters_time(const char *text, int64_t *ret_ms);
/* A decimal parameter; 0 if absent, 1 if there. */
int filters_number(struct h1_text query, const char *name, uint64_t min, uint64_t max,
	uint64_t *ret, struct err *err);
/* A text parameter, decoded; 0 if absent, 1 if there. */
int filters_text(struct h1_text query, const char *name, char *out, size_t size, struct err *err);
