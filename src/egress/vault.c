/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/vault.h"

#include "base/mem.h"
#include "base/text.h"
#include "egress/vault_impl.h"

#include <string.h>

#define BUCKETS 1024

struct vault {
	struct vault_secret *buckets[BUCKETS];
	size_t n;
	uint64_t round;
};

int vault_create(struct vault **ret, struct err *err)
{
	(void)err;
	*ret = MEM_NEW(struct vault);
	return 0;
}

static struct vault_secret *secret_free(struct vault_secret *s)
{
	guard_done(&s->value);
	free(s);
	return NULL;
}

struct vault *vault_free(struct vault *v)
{
	for (size_t i = 0; v && i < BUCKETS; i++) {
		while (v->buckets[i]) {
			struct vault_secret *s = v->buckets[i];

			v->buckets[i] = s->next;
			(void)secret_free(s);
		}
	}
	free(v);
	return NULL;
}

/* FNV-1a; names are the operator's and the tenants' own, and there is a cap. */
static size_t bucket_of(const char *owner, const char *name)
{
	uint32_t h = 2166136261u;

	for (const char *p = owner; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	h *= 16777619u;
	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	return h % BUCKETS;
}

/* The link that leads to it, or to NULL at the end of its bucket. */
static struct vault_secret **find_link(struct vault *v, const char *owner, const char *name)
{
	struct vault_secret **link = &v->buckets[bucket_of(owner, name)];

	while (*link && (strcmp((*link)->owner, owner) != 0 || strcmp((*link)->name, name) != 0))
		link = &(*link)->next;
	return link;
}

const struct vault_secret *vault_find(const struct vault *v, const char *owner, const char *name)
{
	const struct vault_secret *s = v->buckets[bucket_of(owner, name)];

	while (s && (strcmp(s->owner, owner) != 0 || strcmp(s->name, name) != 0))
		s = s->next;
	return s;
}

const char *vault_value(const struct vault_secret *s, size_t *ret_n)
{
	*ret_n = s->value.n;
	return s->value.p;
}

static int check(const char *owner, const char *name, const char *value, size_t n, struct err *err)
{
	char quoted[100];

	if (!placeholder_is_name(name) || strlen(owner) >= 64)
		return err_set(err, EINVAL, "'%s' is no name of a secret",
			text_quote(name, quoted, sizeof(quoted)));
	if (n == 0)
		return err_set(err, EINVAL, "secret '%s': the value is empty", name);
	if (n > VAULT_VALUE_MAX)
		return err_set(err, EINVAL, "secret '%s': the value is longer than %d bytes", name,
			VAULT_VALUE_MAX);
	if (!h1_is_value(value, n) || value[0] == ' ' || value[0] == '\t' || value[n - 1] == ' ' ||
		value[n - 1] == '\t')
		return err_set(err, EINVAL,
			"secret '%s': the value has control bytes, or blanks around it; no request "
			"could carry it",
			name);
	return 0;
}

int vault_set(struct vault *v, const char *owner, const char *name, const void *value, size_t n,
	struct err *err)
{
	struct vault_secret **link, *s;
	struct guard fresh = {0};
	int r = check(owner, name, value, n, err);

	if (r < 0)
		return r;
	link = find_link(v, owner, name);
	if (!*link && v->n >= VAULT_SECRETS_MAX)
		return err_set(err, EMFILE, "vault: %d secrets are the most", VAULT_SECRETS_MAX);
	r = guard_set(&fresh, value, n, err);
	if (r < 0)
		return r;
	s = *link;
	if (!s) {
		s = *link = MEM_NEW(struct vault_secret);
		(void)snprintf(s->owner, sizeof(s->owner), "%s", owner);
		(void)snprintf(s->name, sizeof(s->name), "%s", name);
		v->n++;
	}
	guard_done(&s->value);
	s->value = fresh;
	s->round = v->round;
	return 0;
}

void vault_forget(struct vault *v, const char *owner, const char *name)
{
	struct vault_secret **link = find_link(v, owner, name), *s = *link;

	if (!s)
		return;
	*link = s->next;
	(void)secret_free(s);
	v->n--;
}

void vault_begin(struct vault *v)
{
	v->round++;
}

void vault_sweep(struct vault *v)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		struct vault_secret **link = &v->buckets[i];

		while (*link) {
			struct vault_secret *s = *link;

			if (s->round == v->round) {
				link = &s->next;
				continue;
			}
			*link = s->next;
			(void)secret_free(s);
			v->n--;
		}
	}
}

void buf_wipe(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->size);
	buf_done(b);
}
