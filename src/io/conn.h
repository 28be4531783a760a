/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/conn - one stream connection: descriptor, optional TLS, output queue, backpressure.
 *
 *   conn_create(loop, fd, tls_or_NULL, peer_name, &callbacks, arg)
 *   read(conn, p, n)   bytes came; returns how many were taken: the rest is kept and offered again
 *                      by conn_resume() or with the next bytes; CONN_HIGH kept: no more is read
 *   drained(conn)      the queue fell below CONN_LOW after having been above CONN_HIGH
 *   closed(conn, err)  end of file or failure; the connection is dead when this returns
 *
 * Small writes go out together at the end of the loop's batch, large ones at once; what the kernel
 * does not take is queued up to a cap, and past it the connection is dead (a peer that never
 * reads). Callbacks come from the loop only, never from inside a call made here. Knows no protocol.
 */
#include "io/buf.h"
#include "io/loop.h"
#include "io/tls.h"

#include <stdbool.h>
#include <sys/types.h>

#define CONN_HIGH  (256u << 10) /* stop producing above this many queued bytes */
#define CONN_LOW   (64u << 10)  /* go on below this */
#define CONN_QUEUE (4u << 20)   /* dead above this */

struct conn;

struct conn_events {
	size_t (*read)(struct conn *c, const char *p, size_t n, void *arg);
	/*
	 * The peer shut down its sending side; what it sent before was offered. Return true to keep
	 * writing (half-close), false for closed() with code 0. NULL is false.
	 */
	bool (*eof)(struct conn *c, void *arg);
	void (*drained)(struct conn *c, void *arg);
	/* err->code 0: orderly. Called once; never from inside conn_write() or conn_create(). */
	void (*closed)(struct conn *c, const struct err *err, void *arg);
};

/*
 * Takes fd, also on failure. is_server: which side of the TLS handshake. For a TLS client
 * `peer` is the name to verify; a server hands it to tls_choose_fn. Sets O_NONBLOCK,
 * TCP_NODELAY and keep-alive where they apply.
 */
int conn_create(struct loop *l, int take_fd, struct tls *tls, bool is_server, const char *peer,
	const struct conn_events *events, void *arg, struct conn **ret, struct err *err);

/*
 * Take CONN_HIGH for this connection down to `bytes` (4 KiB at least): no more is read at once,
 * kept, or queued before the owner is to stop; drained() comes below a quarter of it.
 */
void conn_set_window(struct conn *c, size_t bytes);
/* What is sent holds secrets: its copies here are zeroed. */
void conn_set_secret(struct conn *c);

/* Another owner: later events go there, also what was kept; reads if paused. */
void conn_set_events(struct conn *c, const struct conn_events *events, void *arg);

void conn_write(struct conn *c, const void *p, size_t n);
size_t conn_queued(const struct conn *c); /* bytes not yet taken by the kernel */
/* The peer has broken it off, as far as the kernel knows: closed() may be about to say so. */
bool conn_is_broken(const struct conn *c);

/* Stop and resume reading (backpressure); a vanished peer is still noticed. */
void conn_pause(struct conn *c);
void conn_resume(struct conn *c);       /* also offers what was kept, after the current batch */
size_t conn_kept(const struct conn *c); /* bytes offered and not taken */

/* Send what is queued, then close politely (FIN, drains unread input for up to a second). No
 * callback follows. */
void conn_finish(struct conn *c);
/* How many are at that, in this process: each still holds its descriptor. */
unsigned conn_finishing(void);
/* Close at once: RST for TCP. No callback follows. */
void conn_abort(struct conn *c);

/* Credentials of the peer of a unix socket; false for others. */
bool conn_peer_uid(const struct conn *c, unsigned *ret_uid);

/* Nothing happens for a while: give the memory that all connections share back to the kernel. */
void conn_give_back(void);
