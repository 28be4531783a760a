/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/warden_connect - a connection to a unix socket of the state directory, however deep it lies.
 */
#include "base/own.h"
#include "run/warden.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int warden_connect(const char *path, int type, struct err *err)
{
	AUTO_FD int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	AUTO_FD int at = -EBADF;
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	if (fd < 0)
		return err_sys(err, "make a socket");
	if (strlen(path) < sizeof(to.sun_path)) {
		(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	} else {
		/* An address holds 107 bytes, a path may have 4095: by way of what it names. */
		at = open(path, O_PATH | O_CLOEXEC);
		if (at < 0)
			return err_sys(err, "open '%s'", path);
		(void)snprintf(to.sun_path, sizeof(to.sun_path), "/proc/self/fd/%d", at);
	}
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return err_sys(err, "connect to '%s'", path);
	return TAKE_FD(fd);
}
