/* SPDX-License-Identifier: Apache-2.0 */

/*
 * tests/tools/idle_guest - stands in for the guest: answers a connection on descriptor 3
 * with who it is, one line, and lives until it is told "exit" or killed. "eat N" takes N MiB.
 */
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
			if (strncmp(line, "eat ", 4) == 0)
				eat(2048);
		}
		(void)close(fd);
	}
}
