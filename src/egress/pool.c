/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/pool.h"

#include "base/mem.h"

#define POOL_SHARE 4 /* idle ones of all boxes: one for so many flows the engine may have */

struct pool {
	TAILQ_HEAD(upstreams, upstream) idle; /* the latest first */
	size_t n;
	struct loop *loop;
	struct loop_timer timer; /* the oldest has been idle too long then */
};

static size_t idle_n; /* of all boxes: they hold descriptors that flows may want */

struct upstream *upstream_create(const struct egress_flow *f, bool is_tls, struct conn *take_conn)
{
	struct upstream *u = MEM_NEW(struct upstream);

	u->conn = take_conn;
	memcpy(u->name, f->name, sizeof(u->name));
	u->addr = f->addr;
	u->port = f->port;
	u->is_tls = is_tls;
	u->box = f->box;
	u->generation = f->box->generation;
	return u;
}

static void end_run(struct loop_task *t)
{
	free((char *)t - offsetof(struct upstream, end));
}

void upstream_drop(struct upstream *u)
{
	if (!u)
		return;
	if (u->conn)
		conn_abort(u->conn);
	u->conn = NULL;
	u->end.run = end_run;
	loop_defer(u->box->engine->loop, &u->end);
}

void upstream_end(struct upstream *u)
{
	if (u->conn)
		conn_finish(u->conn);
	u->conn = NULL;
	upstream_drop(u);
}

/* ---- idle ---- */

static void unlink_idle(struct pool *p, struct upstream *u)
{
	TAILQ_REMOVE(&p->idle, u, link);
	p->n--;
	idle_n--;
}

static void drop_idle(struct upstream *u)
{
	unlink_idle(u->box->pool, u);
	upstream_drop(u);
}

static size_t idle_read(struct conn *c, const char *p, size_t n, void *arg)
{
	(void)c;
	(void)p;
	/* An answer to nothing: who knows whose it would become. */
	drop_idle(arg);
	return n;
}

static void idle_closed(struct conn *c, const struct err *err, void *arg)
{
	struct upstream *u = arg;

	(void)c;
	(void)err;
	u->conn = NULL;
	drop_idle(u);
}

static const struct conn_events idle_events = {.read = idle_read, .closed = idle_closed};

static void expire(struct loop_timer *t)
{
	struct pool *p = (struct pool *)((char *)t - offsetof(struct pool, timer));
	uint64_t now = loop_now_ms(p->loop);
	struct upstream *u;

	while ((u = TAILQ_LAST(&p->idle, upstreams)) && now - u->idle_ms >= POOL_IDLE_MS)
		drop_idle(u);
	if (u)
		loop_timer_set(p->loop, &p->timer, u->idle_ms + POOL_IDLE_MS - now);
}

static struct pool *pool_of(struct egress_box *b)
{
	struct pool *p = b->pool;

	if (p)
		return p;
	p = MEM_NEW(struct pool);
	p->loop = b->engine->loop;
	p->timer.fire = expire;
	TAILQ_INIT(&p->idle);
	b->pool = p;
	return p;
}

void pool_put(struct upstream *u)
{
	struct egress_box *b = u->box;
	struct pool *p = pool_of(b);

	if (b->is_gone || u->generation != b->generation ||
		idle_n >= b->engine->flows_max / POOL_SHARE) {
		upstream_drop(u);
		return;
	}
	if (p->n == POOL_BOX_MAX)
		drop_idle(TAILQ_LAST(&p->idle, upstreams));
	u->is_reused = true;
	u->idle_ms = loop_now_ms(p->loop);
	TAILQ_INSERT_HEAD(&p->idle, u, link);
	p->n++;
	idle_n++;
	if (p->timer.slot == 0)
		loop_timer_set(p->loop, &p->timer, POOL_IDLE_MS);
	conn_set_events(u->conn, &idle_events, u);
}

static bool is_for(const struct upstream *u, const struct egress_flow *f, bool is_tls)
{
	return u->is_tls == is_tls && u->port == f->port && u->generation == f->box->generation &&
	       strcmp(u->name, f->name) == 0 && (f->name[0] || address_equal(&u->addr, &f->addr));
}

struct upstream *pool_take(const struct egress_flow *f, bool is_tls, uint64_t max_idle_ms)
{
	struct pool *p = f->box->pool;
	struct upstream *u = p ? TAILQ_FIRST(&p->idle) : NULL;

	while (u && !is_for(u, f, is_tls))
		u = TAILQ_NEXT(u, link);
	if (!u || loop_now_ms(p->loop) - u->idle_ms > max_idle_ms)
		return NULL; /* the others are older still */
	unlink_idle(p, u);
	return u;
}

struct pool *pool_free(struct pool *p)
{
	struct upstream *u;

	if (!p)
		return NULL;
	while ((u = TAILQ_FIRST(&p->idle))) {
		unlink_idle(p, u);
		upstream_drop(u);
	}
	loop_timer_cancel(p->loop, &p->timer);
	free(p);
	return NULL;
}
