/* SPDX-License-Identifier: Apache-2.0 */

#include "base/mem.h"
#include "egress/chain.h"
#include "egress/egress_impl.h"
#include "egress/mint.h"
#include "egress/pipes.h"
#include "egress/resolve.h"

#include <sys/random.h>
#include <sys/resource.h>

/* A flow is two descriptors, and at times those of a pipe. */
static size_t most_flows(void)
{
	struct rlimit l;
	size_t n = EGRESS_FLOWS_MAX;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur / 8 * 3 < n)
		n = (size_t)(l.rlim_cur / 8 * 3);
	return n > 16 ? n : 16;
}

static int open_tls(struct egress *e, struct err *err)
{
	int r;

	if (!e->config.ca_dir)
		return 0;
	r = mint_open(e->config.ca_dir, e->config.upstream_ca, &e->mint, err);
	if (r < 0)
		return r;
	return tls_client(e->config.upstream_ca, &e->upstream_tls, err);
}

int egress_create(struct loop *l, const struct egress_config *c, const struct egress_events *events,
	void *arg, struct egress **ret, struct err *err)
{
	AUTO(egress_free) struct egress *e = MEM_NEW(struct egress);
	int r;

	e->loop = l;
	e->config = *c;
	e->events = *events;
	e->arg = arg;
	e->flows_max = most_flows();
	TAILQ_INIT(&e->boxes);
	/* Ids of asks must not be those of a life before. */
	if (getrandom(&e->ask_prefix, sizeof(e->ask_prefix), 0) != (ssize_t)sizeof(e->ask_prefix))
		return err_sys(err, "getrandom");
	e->pipes = pipes_create();
	r = vault_create(&e->vault, err);
	if (r >= 0)
		r = open_tls(e, err);
	if (r >= 0)
		r = resolver_create(l, c->resolvers, &e->resolver, err);
	if (r >= 0 && c->upstream_proxy)
		r = chain_create(l, c->upstream_proxy, c->no_proxy, &e->chain, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(e);
	return 0;
}

static void bury(struct loop_task *t)
{
	struct egress *e = (struct egress *)((char *)t - offsetof(struct egress, bury));

	e->resolver = resolver_free(e->resolver);
	e->chain = chain_free(e->chain);
	e->mint = mint_free(e->mint);
	e->upstream_tls = tls_free(e->upstream_tls);
	e->vault = vault_free(e->vault);
	e->pipes = pipes_free(e->pipes);
	free(e);
}

struct egress *egress_free(struct egress *e)
{
	struct egress_box *b;

	if (!e)
		return NULL;
	while ((b = TAILQ_FIRST(&e->boxes)) != NULL)
		egress_box_remove(e, b->id);
	e->bury.run = bury;
	/* What the boxes put off still looks at the engine: it goes behind them. */
	loop_defer(e->loop, &e->bury);
	return NULL;
}

struct vault *egress_vault(struct egress *e)
{
	return e->vault;
}
