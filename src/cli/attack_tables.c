/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_tables - all attacks as one list, in the order they are shown.
 */
#include "cli/attack.h"

#include <assert.h>

static const struct attack_table *const tables[] = {&attack_table_fs, &attack_table_mounts,
	&attack_table_proc, &attack_table_kernel, &attack_table_sockets, &attack_table_neighbours,
	&attack_table_init, &attack_table_network, &attack_table_road, &attack_table_resources,
	&attack_table_storage, &attack_table_terminal};

size_t attack_count(void)
{
	size_t n = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		n += tables[i]->n;
	assert(n <= ATTACKS_MAX);
	return n;
}

const struct attack *attack_at(size_t index)
{
	size_t i = 0;

	while (index >= tables[i]->n)
		index -= tables[i++]->n;
	return &tables[i]->v[index];
}
