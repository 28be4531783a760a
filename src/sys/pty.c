/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/pty.h"

#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

int pty_open(const char *dir, int *ret_master, int *ret_slave, struct err *err)
{
	AUTO_FD int master = -EBADF;
	char path[128];
	int unlock = 0, slave;

	(void)snprintf(path, sizeof(path), "%s/ptmx", dir);
	master = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0)
		return err_sys(err, "open '%s'", path);
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_sys(err, "unlock the terminal");
	/* By descriptor, not by name: the name could be somebody else's devpts. */
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_sys(err, "open the terminal's other end");
	*ret_master = TAKE_FD(master);
	*ret_slave = slave;
	return 0;
}

void pty_copy_size(int from, int to)
{
	struct winsize size;

	/*
	 * A terminal without a size (a pipe end, a serial line) leaves the default: nothing to
	 * report.
	 */
	if (ioctl(from, TIOCGWINSZ, &size) == 0)
		(void)ioctl(to, TIOCSWINSZ, &size);
}

void pty_copy_settings(int from, int to)
{
	struct termios t;

	if (tcgetattr(from, &t) == 0)
		(void)tcsetattr(to, TCSANOW, &t);
}

int pty_raw(int fd, struct termios *ret_saved, struct err *err)
{
	struct termios t;

	if (tcgetattr(fd, &t) < 0)
		return err_sys(err, "read terminal settings");
	*ret_saved = t;
	cfmakeraw(&t);
	if (tcsetattr(fd, TCSADRAIN, &t) < 0)
		return err_sys(err, "set the terminal raw");
	return 0;
}

void pty_restore(int fd, const struct termios *saved)
{
	/* The terminal may be gone (hang-up): nothing is left to restore then. */
	(void)tcsetattr(fd, TCSADRAIN, saved);
}
