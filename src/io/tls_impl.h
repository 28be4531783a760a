/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/tls_impl - what conn needs of TLS, as functions, so that conn links no TLS library.
 *
 * Only io/conn and io/tls include this.
 */
#include "io/tls.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tls_ops {
	/* One side of one connection over a non-blocking socket, which stays the caller's. */
	int (*open)(struct tls *t, int fd, bool is_server, const char *peer, void **ret,
		struct err *err);
	/*
	 * Bytes moved; 0 is the peer's end of data (read only); -EAGAIN with the EPOLL* event
	 * to wait for in *want; else -errno, and why() says more. The handshake happens in here.
	 */
	ssize_t (*read)(void *session, void *p, size_t n, uint32_t *want);
	ssize_t (*write)(void *session, const void *p, size_t n, uint32_t *want);
	const char *(*why)(void *session);
	void (*shutdown)(void *session); /* say that we send no more */
	void (*close)(void *session);
};

struct tls {
	const struct tls_ops *ops;
};
