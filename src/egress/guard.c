/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/guard.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int guard_set(struct guard *g, const void *p, size_t n, struct err *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t inner = (n + page - 1) / page * page;
	char *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return err_sys(err, "map memory for secrets");
	if (mprotect(map + page, inner, PROT_READ | PROT_WRITE) < 0 ||
		madvise(map + page, inner, MADV_DONTDUMP) < 0 ||
		madvise(map + page, inner, MADV_WIPEONFORK) < 0) {
		int r = err_sys(err, "protect memory of secrets");

		(void)munmap(map, inner + 2 * page);
		return r;
	}
	(void)mlock(map + page, inner); /* a wish: the limit may be small */
	*g = (struct guard){
		.p = map + page + inner - n, .n = n, .map = map, .map_n = inner + 2 * page};
	memcpy(g->p, p, n);
	return 0;
}

void guard_done(struct guard *g)
{
	if (!g->map)
		return;
	explicit_bzero(g->p, g->n);
	(void)munmap(g->map, g->map_n);
	*g = (struct guard){0};
}

static void free_zeroed(void *p)
{
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

void guard_json(void)
{
	json_set_alloc_funcs(malloc, free_zeroed);
}
