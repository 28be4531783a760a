/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/notify.h"

#include "base/own.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

static struct {
	struct sockaddr_un address;
	socklen_t size; /* 0: nobody to tell */
} manager;

void notify_init(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path ? strlen(path) : 0;

	if (n > 1 && n < sizeof(manager.address.sun_path) && (path[0] == '/' || path[0] == '@')) {
		manager.address.sun_family = AF_UNIX;
		memcpy(manager.address.sun_path, path, n);
		if (path[0] == '@')
			manager.address.sun_path[0] = '\0'; /* an abstract name */
		manager.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	}
	(void)unsetenv("NOTIFY_SOCKET");
}

void notify_send(const char *state)
{
	AUTO_FD int fd = -EBADF;

	if (manager.size == 0)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, state, strlen(state), MSG_NOSIGNAL,
			(const struct sockaddr *)&manager.address, manager.size);
}

void notify_reloading(void)
{
	struct timespec now = {0};
	char text[80];

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	(void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		(uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
	notify_send(text);
}
