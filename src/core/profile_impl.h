/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/profile_impl - the reader of profiles, and the tables of fields that drive it.
 *
 * libyaml gives events; a table of fields says what may follow. Our recursion is as deep as the
 * tables (four maps), however deep the input nests, because the first event that does not fit
 * ends the reading.
 */
#include "core/policy_build.h"
#include "core/profile.h"

#include <yaml.h>

struct reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the current one; owned */
	const struct profile_source *source;
	struct spec *spec;
	struct profile *profile;
	struct policy *network;    /* being filled; owned; NULL before its section */
	struct policy_draft draft; /* the rule being read */
	char *rule_name;           /* of it; owned, or NULL */
	size_t rules_n;            /* read so far */
};

/* Take one scalar: of a list or a field, then `key` is the field; of a free map, its key. */
typedef int (*take_fn)(struct reader *r, const char *key, const char *value, struct err *err);
/* Around one map of a list, or around a map. */
typedef int (*turn_fn)(struct reader *r, struct err *err);

enum field_kind {
	FIELD_SCALAR,
	FIELD_LIST,     /* of scalars */
	FIELD_MAP,      /* with the fields of `fields` */
	FIELD_FREE_MAP, /* scalar to scalar, any key */
	FIELD_MAPS,     /* a list of maps, each with the fields of `fields` */
};

struct field {
	const char *name;
	enum field_kind kind;
	take_fn take;
	const struct field *fields; /* FIELD_MAP, FIELD_MAPS: ended by an entry without a name */
	turn_fn begin, end;         /* of each map; or NULL */
};

#define SCALAR(n, t)                                                                               \
	{                                                                                          \
		.name = n, .kind = FIELD_SCALAR, .take = t                                         \
	}
#define LIST(n, t)                                                                                 \
	{                                                                                          \
		.name = n, .kind = FIELD_LIST, .take = t                                           \
	}
#define FREE_MAP(n, t)                                                                             \
	{                                                                                          \
		.name = n, .kind = FIELD_FREE_MAP, .take = t                                       \
	}
#define MAP(n, f, b, e)                                                                            \
	{                                                                                          \
		.name = n, .kind = FIELD_MAP, .fields = f, .begin = b, .end = e                    \
	}
#define MAPS(n, f, b, e)                                                                           \
	{                                                                                          \
		.name = n, .kind = FIELD_MAPS, .fields = f, .begin = b, .end = e                   \
	}

#define FIELDS_MAX 32 /* of one map: a bit each, to notice repeats */

/* Reads the whole text by this table. */
int profile_reader_run(
	struct reader *r, const char *yaml, size_t size, const struct field *top, struct err *err);

int profile_take_bool(const char *value, bool *ret, struct err *err);
/* Letters, digits, '.', '_' and '-'; replaces *field. */
int profile_take_word(char **field, const char *key, const char *value, struct err *err);

extern const struct field profile_top_fields[];     /* profile.c */
extern const struct field profile_network_fields[]; /* profile_network.c */
int profile_network_begin(struct reader *r, struct err *err);
