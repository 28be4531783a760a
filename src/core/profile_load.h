/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * core/profile_load - a profile with its parents, found by name.
 *
 * Parents are applied first, in order, then the profile itself: a field of the box that is given
 * again replaces the parent's, lists and network rules are added (deny wins in any order), of
 * two budgets the smaller limit counts. A parent reached on two ways counts once.
 *
 * A name is looked for as NAME.yaml in the user's, the operator's and the shipped directory; NAME@N
 * is an older version that was kept under that name. What has a slash or ends in .yaml is a file,
 * for a parent relative to the file that names it.
 */
#include "core/profile.h"

#define PROFILE_DEPTH_MAX 8

struct profile_places {      /* NULL = none such; borrowed */
	const char *user;    /* ~/.config/bawn/profiles */
	const char *site;    /* the operator's: /etc/bawn/profiles */
	const char *shipped; /* share/bawn/profiles */
};

/*
 * The text behind a name. `from`: the file of the profile that named it as a parent, or NULL.
 * *ret_file tells profiles apart and is named in errors. -ENOENT if there is none. The caller
 * frees both.
 */
typedef int (*profile_fetch_fn)(void *arg, const char *what, const char *from, char **ret_yaml,
	size_t *ret_size, char **ret_file, struct err *err);

/*
 * `s` as for profile_read(), or NULL if only the network matters. `source->file` is not used.
 * ret->policy is finished and holds the parents' rules. -ELOOP: its own ancestor, or too deep.
 */
int profile_compose(const char *what, profile_fetch_fn fetch, void *arg,
	const struct profile_source *source, struct spec *s, struct profile *ret, struct err *err);

/* The same from files; ret->files has their absolute paths. */
int profile_load(const char *what, const struct profile_places *places,
	const struct profile_source *source, struct spec *s, struct profile *ret, struct err *err);

/* The places of this process; profile_places_done() frees them. `home` NULL: no user's. */
void profile_places_find(const char *home, struct profile_places *ret);
void profile_places_done(struct profile_places *p);

/*
 * A new policy of the given one and a floor (or none), finished. The caller unrefs. `name` NULL:
 * as p.
 */
int policy_with_floor(const struct policy *p, const struct policy *floor, const char *name,
	struct policy **ret, struct err *err);
/* The operator's floor from a file; -ENOENT if there is none there. */
int profile_load_floor(const char *file, struct policy **ret, struct err *err);
#define PROFILE_FLOOR_FILE "/etc/bawn/floor.yaml"
