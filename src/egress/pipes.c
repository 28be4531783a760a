/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/pipes.h"

#include "base/mem.h"

#include <fcntl.h>

#define KEEP 16 /* empty ones, open and ready */

struct pipes {
	struct pipe_pair kept[KEEP];
	size_t kept_n, lent_n;
};

struct pipes *pipes_create(void)
{
	return MEM_NEW(struct pipes);
}

static void close_pair(struct pipe_pair *pair)
{
	closep(&pair->in);
	closep(&pair->out);
}

struct pipes *pipes_free(struct pipes *p)
{
	if (!p)
		return NULL;
	while (p->kept_n > 0)
		close_pair(&p->kept[--p->kept_n]);
	free(p);
	return NULL;
}

bool pipes_take(struct pipes *p, struct pipe_pair *ret)
{
	int fds[2];

	if (p->lent_n >= PIPES_MAX)
		return false;
	if (p->kept_n > 0) {
		*ret = p->kept[--p->kept_n];
	} else {
		if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
			return false;
		*ret = (struct pipe_pair){.in = fds[1], .out = fds[0]};
		(void)fcntl(ret->in, F_SETPIPE_SZ, PIPES_SIZE); /* past a user's share: smaller */
	}
	p->lent_n++;
	return true;
}

void pipes_give(struct pipes *p, struct pipe_pair *pair)
{
	if (pair->in < 0)
		return;
	p->lent_n--;
	if (pair->n > 0 || p->kept_n >= KEEP)
		close_pair(pair);
	else
		p->kept[p->kept_n++] = *pair;
	*pair = PIPE_NONE;
}
