/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/names.h"

#include "base/mem.h"

#include <assert.h>
#include <sys/queue.h>
#include <sys/random.h>

#define FIRST   2
#define NUMBERS 131071 /* 198.18.0.0/15 without its last address, the box's own (sys/road) */

struct name_entry {
	uint32_t number, refs;
	struct name_entry *next_name, *next_number; /* in their buckets */
	TAILQ_ENTRY(name_entry) link;               /* by use, the oldest first */
	char name[];
};

struct name_map {
	size_t max, n, buckets_n; /* buckets_n is a power of two */
	uint64_t key;
	uint32_t next;
	struct name_entry **by_name, **by_number;
	TAILQ_HEAD(name_entry_list, name_entry) used;
};

static const uint8_t prefix6[12] = {0xfd, 0xba, 0x3a, 0x11, 0xed, 0x00};

struct name_map *names_create(size_t max)
{
	struct name_map *m = MEM_NEW(struct name_map);

	m->max = max;
	m->next = FIRST;
	TAILQ_INIT(&m->used);
	if (getrandom(&m->key, sizeof(m->key), 0) != (ssize_t)sizeof(m->key))
		m->key = (uint64_t)(uintptr_t)m; /* cannot fail after boot */
	return m;
}

struct name_map *names_free(struct name_map *m)
{
	struct name_entry *e;

	if (!m)
		return NULL;
	while ((e = TAILQ_FIRST(&m->used)) != NULL) {
		TAILQ_REMOVE(&m->used, e, link);
		free(e);
	}
	free((void *)m->by_name);
	free((void *)m->by_number);
	free(m);
	return NULL;
}

static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0x9e3779b97f4a7c15u;
	h ^= h >> 29;
	return h;
}

static size_t name_bucket(const struct name_map *m, const char *name)
{
	uint64_t h = m->key;

	for (const char *p = name; *p; p++)
		h = mix(h + (unsigned char)*p);
	return (size_t)mix(h ^ m->key) & (m->buckets_n - 1);
}

static size_t number_bucket(const struct name_map *m, uint32_t number)
{
	return number & (m->buckets_n - 1);
}

static struct name_entry *find_name(const struct name_map *m, const char *name)
{
	struct name_entry *e = m->buckets_n > 0 ? m->by_name[name_bucket(m, name)] : NULL;

	while (e && strcmp(e->name, name) != 0)
		e = e->next_name;
	return e;
}

static struct name_entry *find_number(const struct name_map *m, uint32_t number)
{
	struct name_entry *e = m->buckets_n > 0 ? m->by_number[number_bucket(m, number)] : NULL;

	while (e && e->number != number)
		e = e->next_number;
	return e;
}

static void chain_in(struct name_map *m, struct name_entry *e)
{
	size_t a = name_bucket(m, e->name), b = number_bucket(m, e->number);

	e->next_name = m->by_name[a];
	m->by_name[a] = e;
	e->next_number = m->by_number[b];
	m->by_number[b] = e;
}

static void chain_out(struct name_map *m, struct name_entry *e)
{
	struct name_entry **at = &m->by_name[name_bucket(m, e->name)];

	while (*at != e)
		at = &(*at)->next_name;
	*at = e->next_name;
	at = &m->by_number[number_bucket(m, e->number)];
	while (*at != e)
		at = &(*at)->next_number;
	*at = e->next_number;
}

static void grow(struct name_map *m)
{
	struct name_entry *e;
	size_t n = m->buckets_n > 0 ? m->buckets_n * 2 : 32;

	free((void *)m->by_name);
	free((void *)m->by_number);
	m->by_name = mem_must(calloc(n, sizeof(struct name_entry *)));
	m->by_number = mem_must(calloc(n, sizeof(struct name_entry *)));
	m->buckets_n = n;
	for (e = TAILQ_FIRST(&m->used); e; e = TAILQ_NEXT(e, link)) {
		chain_in(m, e);
	}
}

static void touch(struct name_map *m, struct name_entry *e)
{
	TAILQ_REMOVE(&m->used, e, link);
	TAILQ_INSERT_TAIL(&m->used, e, link);
}

static void make_room(struct name_map *m)
{
	struct name_entry *e;

	for (e = TAILQ_FIRST(&m->used); e; e = TAILQ_NEXT(e, link)) {
		if (e->refs == 0)
			break;
	}
	if (!e)
		return; /* there are fewer connections than names: does not happen */
	chain_out(m, e);
	TAILQ_REMOVE(&m->used, e, link);
	free(e);
	m->n--;
}

static uint32_t next_number(struct name_map *m)
{
	uint32_t number;

	do {
		number = m->next;
		m->next = m->next + 1 < NUMBERS ? m->next + 1 : FIRST;
	} while (find_number(m, number));
	return number;
}

uint32_t names_number(struct name_map *m, const char *name)
{
	struct name_entry *e = find_name(m, name);
	size_t n = strlen(name);

	if (e) {
		touch(m, e);
		return e->number;
	}
	assert(n <= POLICY_NAME_MAX);
	if (m->n >= m->max)
		make_room(m);
	if (m->n >= m->buckets_n)
		grow(m);
	e = mem_must(calloc(1, sizeof(*e) + n + 1));
	memcpy(e->name, name, n);
	e->number = next_number(m);
	TAILQ_INSERT_TAIL(&m->used, e, link);
	chain_in(m, e);
	m->n++;
	return e->number;
}

const char *names_name(struct name_map *m, uint32_t number)
{
	struct name_entry *e = find_number(m, number);

	if (!e)
		return NULL;
	touch(m, e);
	return e->name;
}

struct name_entry *names_hold(struct name_map *m, const char *name)
{
	struct name_entry *e = find_name(m, name);

	if (e)
		e->refs++;
	return e;
}

void names_drop(struct name_entry *e)
{
	if (e)
		e->refs--;
}

void names_address(uint32_t number, uint8_t family, struct address *ret)
{
	*ret = (struct address){.family = family};
	if (family == 4) {
		ret->b[0] = 198;
		ret->b[1] = (uint8_t)(18 + (number >> 16));
		ret->b[2] = (uint8_t)(number >> 8);
		ret->b[3] = (uint8_t)number;
		return;
	}
	memcpy(ret->b, prefix6, sizeof(prefix6));
	for (unsigned i = 0; i < 4; i++)
		ret->b[12 + i] = (uint8_t)(number >> (24 - 8 * i));
}

bool names_is_synthetic(const struct address *a, uint32_t *ret_number)
{
	if (a->family == 4 && a->b[0] == 198 && (a->b[1] & 0xfe) == 18) {
		*ret_number = (uint32_t)(a->b[1] & 1) << 16 | (uint32_t)a->b[2] << 8 | a->b[3];
		return true;
	}
	if (a->family == 6 && memcmp(a->b, prefix6, sizeof(prefix6)) == 0) {
		*ret_number = (uint32_t)a->b[12] << 24 | (uint32_t)a->b[13] << 16 |
			      (uint32_t)a->b[14] << 8 | a->b[15];
		return true;
	}
	return false;
}
