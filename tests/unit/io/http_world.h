/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A server on loopback and its clients, in one process and one loop. */
#include "io/http.h"
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

struct world {
	struct loop *loop;
	struct http_server *server;
	uint16_t port;
};

static inline struct world world_make(http_handler_fn handler, struct tls *tls)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct world w = {0};
	struct err err = {0};

	CHECK(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 64) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	w.port = ntohs(a.sin_port);
	CHECK(loop_create(&w.loop, &err) == 0);
	CHECK(http_server_create(w.loop, handler, NULL, &w.server, &err) == 0);
	CHECK(http_listen(w.server, fd, tls, &err) == 0);
	return w;
}

/* Until nothing happens any more. */
static inline void world_turn(struct world *w)
{
	struct err err;

	for (int i = 0; i < 8; i++)
		(void)loop_once(w->loop, 1, &err);
}

static inline void world_done(struct world *w)
{
	w->server = http_server_free(w->server);
	world_turn(w); /* connections that only wait for their peer's FIN */
	w->loop = loop_free(w->loop);
}

static inline int world_connect(struct world *w)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(w->port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	return fd;
}

static inline void world_send(struct world *w, int fd, const char *text)
{
	CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	world_turn(w);
}

/* What has come by now, NUL-terminated; -1 at the end of file, -errno - 1000 on failure, if nothing
 * came. */
static inline ssize_t world_receive(struct world *w, int fd, char *out, size_t size)
{
	size_t n = 0;
	ssize_t r = 1;

	for (int quiet = 0; quiet < 3 && n + 1 < size;) {
		r = recv(fd, out + n, size - 1 - n, 0);
		if (r <= 0 && !(r < 0 && errno == EAGAIN))
			break;
		quiet = r > 0 ? 0 : quiet + 1;
		n += r > 0 ? (size_t)r : 0;
		world_turn(w);
	}
	out[n] = '\0';
	if (n == 0 && r == 0)
		return -1;
	if (n == 0 && r < 0 && errno != EAGAIN)
		return -errno - 1000;
	return (ssize_t)n;
}
