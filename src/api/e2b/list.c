/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GET /sandboxes and /v2/sandboxes: the caller's own, filtered, by start time, in pages.
 *
 * A page's token is the start and id of its last entry, so sandboxes that come and go between two
 * pages make none appear twice or vanish.
 */
#include "api/e2b/filters.h"
#include "api/e2b/sandboxes.h"
#include "api/e2b/shape.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define LIST_MAX (1u << 30) /* bytes; what bounds it is the number of sandboxes, 64 KiB each */

struct listing {
	struct filters filters;
	struct sandbox **found;
	size_t n, size;
	size_t running; /* of the tenant, whatever the filters say */
};

static int look(struct sandbox *sb, void *arg)
{
	struct listing *l = arg;

	l->running += sb->row.state == SANDBOX_RUNNING;
	if (!filters_match(&l->filters, sb->row.state, sb->row.started_ms, sb->row.template,
		    sb->row.metadata) ||
		!filters_is_behind(&l->filters, sb->row.started_ms, sb->row.id))
		return 0;
	if (l->n == l->size) {
		/* Bounded by the sandboxes this server holds. */
		l->size = l->size ? 2 * l->size : 64;
		l->found = mem_must(reallocarray(l->found, l->size, sizeof(*l->found)));
	}
	l->found[l->n++] = sb;
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	const struct store_sandbox *x = &(*(struct sandbox *const *)a)->row;
	const struct store_sandbox *y = &(*(struct sandbox *const *)b)->row;

	if (x->started_ms != y->started_ms)
		return x->started_ms < y->started_ms ? 1 : -1;
	return strcmp(y->id, x->id);
}

static int oldest_first(const void *a, const void *b)
{
	return newest_first(b, a);
}

static void reply(struct http_request *r, struct listing *l, size_t limit)
{
	AUTO_BUF struct buf list = {.cap = LIST_MAX};
	size_t n = l->n < limit ? l->n : limit;
	char text[64];

	if (l->n > 0)
		qsort(l->found, l->n, sizeof(*l->found),
			l->filters.is_ascending ? oldest_first : newest_first);
	(void)buf_add(&list, "[", 1);
	for (size_t i = 0; i < n; i++) {
		(void)buf_add(&list, ",", i > 0);
		shape_listed(&list, l->found[i]);
	}
	(void)buf_add(&list, "]", 1);
	if (n > 0 && n < l->n) {
		filters_token(l->found[n - 1]->row.started_ms, l->found[n - 1]->row.id, text);
		http_field(r, "X-Next-Token", text);
	}
	(void)snprintf(text, sizeof(text), "%zu", l->running);
	http_field(r, "X-Total-Running", text);
	http_reply(r, 200, "application/json", buf_data(&list), buf_len(&list));
}

static void list(struct api *a, struct http_request *r, const struct route_match *m, bool is_v2)
{
	struct listing l = {0};
	struct err err = {0};

	if (filters_parse(r->query, &l.filters, &err) < 0) {
		filters_done(&l.filters);
		api_reply_err(r, &err);
		return;
	}
	if (!is_v2) {
		l.filters.states = 1u << SANDBOX_RUNNING;
		l.filters.has_token = false;
	}
	(void)sandbox_each(a, m->caller.tenant, look, &l);
	reply(r, &l, is_v2 ? l.filters.limit : SIZE_MAX);
	filters_done(&l.filters);
	free(l.found);
}

void e2b_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	list(a, r, m, false);
}

void e2b_list_v2(struct api *a, struct http_request *r, const struct route_match *m)
{
	list(a, r, m, true);
}
