/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * egress/chain - through the upstream proxy of a corporate network: HTTP CONNECT or SOCKS5.
 *
 * Names go to it as they are: it looks them up. The caller connects to it; this speaks the few
 * bytes that follow, and takes none that come behind them.
 */
#include "base/err.h"
#include "base/own.h"
#include "core/address.h"
#include "io/buf.h"
#include "io/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct chain;

struct chain_target {
	const char *name; /* NULL: addr */
	const struct address *addr;
	uint16_t port;
};

/* "http://user:pass@host:port", "socks5://…". -EINVAL; the message never has the password. */
int chain_create(
	struct loop *l, const char *url, const char *no_proxy, struct chain **ret, struct err *err);
struct chain *chain_free(struct chain *c);
DEFINE_AUTO(struct chain *, chain_free)

bool chain_addr(const struct chain *c, struct address *ret); /* false: chain_host() is a name */
const char *chain_host(const struct chain *c);
uint16_t chain_port(const struct chain *c);
/* True if no_proxy names it: then dial directly. */
bool chain_skips(const struct chain *c, const char *name, const struct address *addr);

struct chain_wait { /* embedded in who waits */
	/* From the loop, once. fd < 0: why. */
	void (*done)(struct chain_wait *w, int take_fd, const char *why);
	const struct chain *chain; /* NULL: not waiting */
	struct loop_watch watch;
	struct loop_timer timer;
	struct buf out;
	unsigned step;
	char request[300]; /* SOCKS5: the request behind the greeting */
	size_t request_n;
};

void chain_start(
	const struct chain *c, struct chain_wait *w, int take_fd, const struct chain_target *t);
void chain_cancel(struct chain_wait *w); /* fine if it is not waiting */
