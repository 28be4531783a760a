/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/profile_load - parents first, then the profile; each once. The text comes from a function,
 * so that a file, a database and a fuzzer compose by the same rules.
 */
#include "core/profile_load.h"

#include "base/mem.h"
#include "core/policy_build.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct composer {
	profile_fetch_fn fetch;
	void *arg;
	const struct profile_source *source;
	struct spec *spec;
	struct policy *policy; /* what all of them say, so far; owned */
	struct strv done;      /* files applied */
	struct strv above;     /* files whose parents are being applied */
	bool has_network;
};

static int chain_error(const struct composer *c, const char *file, struct err *err)
{
	char chain[300] = "";
	size_t n = 0;

	for (size_t i = 0; i < c->above.n && n < sizeof(chain); i++) {
		int k = snprintf(chain + n, sizeof(chain) - n, "%s -> ", c->above.v[i]);

		n += k > 0 ? (size_t)k : 0;
	}
	if (c->above.n >= PROFILE_DEPTH_MAX)
		return err_set(err, ELOOP, "parents are nested more than %d deep: %s%s",
			PROFILE_DEPTH_MAX, chain, file);
	return err_set(err, ELOOP, "a profile is its own parent: %s%s", chain, file);
}

static int apply(struct composer *c, const char *what, const char *from, struct profile *ret,
	struct err *err);

static int apply_parents(
	struct composer *c, const struct strv *parents, const char *file, struct err *err)
{
	int q = strv_add(&c->above, file, err);

	for (size_t i = 0; q >= 0 && i < parents->n; i++) {
		struct profile parent = {0};

		q = apply(c, parents->v[i], file, &parent, err);
		profile_done(&parent);
	}
	/* Taken off again; the list stays NULL-terminated. */
	free(c->above.v[--c->above.n]);
	c->above.v[c->above.n] = NULL;
	return q;
}

/* The parents' names, before anything is applied. */
static int read_parents(const char *yaml, size_t size, const struct profile_source *source,
	struct strv *ret, struct err *err)
{
	struct profile p = {0};
	struct spec scratch;
	int q;

	spec_init(&scratch);
	q = profile_read(yaml, size, source, &scratch, &p, err);
	if (q >= 0) {
		*ret = p.parents;
		p.parents = (struct strv){0};
	}
	profile_done(&p);
	spec_done(&scratch);
	return q;
}

/* As a person would call it: from where they stand. */
static const char *shown(const struct composer *c, const char *file, char *out, size_t size)
{
	size_t n = c->source->cwd ? strlen(c->source->cwd) : 0;

	if (n > 1 && strncmp(file, c->source->cwd, n) == 0 && file[n] == '/')
		file += n + 1;
	return text_quote(file, out, size);
}

static int apply_text(struct composer *c, const char *yaml, size_t size, const char *file,
	struct profile *ret, struct err *err)
{
	struct profile_source source = *c->source;
	struct strv parents = {0};
	char quoted[200];
	int q;

	source.file = shown(c, file, quoted, sizeof(quoted));
	q = read_parents(yaml, size, &source, &parents, err);
	if (q >= 0)
		q = apply_parents(c, &parents, file, err);
	strv_done(&parents);
	if (q >= 0)
		q = profile_read(yaml, size, &source, c->spec, ret, err);
	if (q < 0)
		return q;
	if (policy_append(c->policy, ret->policy, err) < 0)
		return err_wrap(err, "%s", source.file);
	c->has_network |= ret->has_network;
	return strv_add(&c->done, file, err);
}

static int apply(struct composer *c, const char *what, const char *from, struct profile *ret,
	struct err *err)
{
	AUTO_FREE char *yaml = NULL, *file = NULL;
	char quoted[200];
	size_t size = 0;
	int q = c->fetch(c->arg, what, from, &yaml, &size, &file, err);

	if (q < 0 && from)
		(void)err_wrap(err, "%s: parents", shown(c, from, quoted, sizeof(quoted)));
	if (q < 0)
		return q;
	if (strv_has(&c->above, file) || c->above.n >= PROFILE_DEPTH_MAX)
		return chain_error(c, file, err);
	if (strv_has(&c->done, file))
		return 0;
	return apply_text(c, yaml, size, file, ret, err);
}

int profile_compose(const char *what, profile_fetch_fn fetch, void *arg,
	const struct profile_source *source, struct spec *s, struct profile *ret, struct err *err)
{
	struct composer c = {.fetch = fetch, .arg = arg, .source = source, .spec = s};
	struct profile p = {0};
	struct spec scratch;
	int q;

	if (!s) {
		spec_init(&scratch);
		c.spec = &scratch;
	}
	c.policy = policy_create("");
	q = apply(&c, what, NULL, &p, err);
	if (q >= 0) {
		free(c.policy->name);
		c.policy->name = mem_strdup(p.name ? p.name : what);
		policy_finish(c.policy);
		(void)policy_unref(p.policy);
		p.policy = TAKE_PTR(c.policy);
		p.has_network = c.has_network;
		p.files = c.done;
		c.done = (struct strv){0};
		*ret = p;
	} else {
		profile_done(&p);
	}
	c.policy = policy_unref(c.policy);
	strv_done(&c.done);
	strv_done(&c.above);
	if (!s)
		spec_done(&scratch);
	return q < 0 ? q : 0;
}

int policy_with_floor(const struct policy *p, const struct policy *floor, const char *name,
	struct policy **ret, struct err *err)
{
	AUTO(policy_unref) struct policy *sum = policy_create(name ? name : p->name);

	if (policy_append(sum, p, err) < 0)
		return -err->code;
	if (floor && policy_set_floor(sum, floor, err) < 0)
		return err_wrap(err, "floor");
	policy_finish(sum);
	*ret = TAKE_PTR(sum);
	return 0;
}
