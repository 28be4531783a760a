/* SPDX-License-Identifier: Apache-2.0 */

/*
 * tests/tools/idle_guest - stands in for the guest: answers a connection on descriptor 3
 * with who it is, one line, and lives until it is told "exit" or killed. "eat N" takes N MiB;
 * "dial" connects to 192.0.2.1 port 443 and says how that went.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void eat(long mib)
{
	for (long i = 0; i < mib; i++) {
		char *p = malloc(1 << 20);

		if (p)
			memset(p, 1, 1 << 20);
	}
}

static void dial(int to)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(443)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(0xc0000201);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		(void)dprintf(to, "refused %d\n", errno);
	else
		(void)dprintf(to, "connected\n");
	(void)close(fd);
}

int main(void)
{
	for (;;) {
		struct pollfd p = {.fd = 3, .events = POLLIN};
		char line[64] = "";
		int fd;

		(void)poll(&p, 1, -1);
		/* cppcheck-suppress nullPointer ; nobody asks who calls */
		fd = accept4(3, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		(void)dprintf(fd, "pid %d uid %d ppid %d\n", getpid(), getuid(), getppid());
		if (read(fd, line, sizeof(line) - 1) > 0) {
			if (strncmp(line, "exit", 4) == 0)
				return 0;
			if (strncmp(line, "dial", 4) == 0)
				dial(fd);
			if (strncmp(line, "eat ", 4) == 0)
				eat(2048);
		}
		(void)close(fd);
	}
}
