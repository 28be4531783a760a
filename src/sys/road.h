/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/road - the way out of a network namespace that has no way out.
 *
 * Every address becomes local to `lo`, a packet filter hands each new TCP connection (but those to
 * the loopback addresses) to one listening socket, and datagrams to port 53 of any address to
 * another. Both sockets belong to the namespace for ever, whoever holds them: given to a process
 * outside, it accepts the box's connections there, and getsockname() on one is where the box
 * wanted to go. Any other datagram is refused at once (nobody listens), and so is everything when
 * nobody holds the sockets. Nothing in the box takes part.
 *
 * Connections to 127.0.0.1:ROAD_PORT and [::1]:ROAD_PORT arrive at the same listener: explicit
 * proxies.
 * Raw netlink, no allocation; needs CAP_NET_ADMIN over the namespace.
 */
#include "base/err.h"

#define ROAD_PORT 979

struct road {
	int tcp_fd; /* listening, dual stack where the kernel has IPv6 */
	int dns_fd; /* datagrams to port 53, with IP_PKTINFO and IPV6_RECVPKTINFO set */
};

/* In the calling thread's network namespace; lo must be up. Close-on-exec, non-blocking. */
int road_make(struct road *ret, struct err *err);
/*
 * The sockets again, in the network namespace of the process held by `pidfd`, when their holder
 * has died; the rest of the road is still there. Forks a child that enters the namespaces: whoever
 * calls must be allowed to look into that process (a user may not into pid 1 of a box).
 */
int road_remake(int pidfd, struct road *ret, struct err *err);
