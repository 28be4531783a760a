/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_terminal - group terminal: type for the user, or take the terminal over.
 *
 * The ioctls are tried on a pseudo terminal that the attack opened itself and made its
 * controlling one, which is where the kernel would allow them.
 */
#include "cli/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

/* A terminal of our own; the child has no controlling one, so the slave becomes it. */
static int own_terminal(struct attack_report *r)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	char path[64];
	int slave;

	if (master < 0 || unlockpt(master) < 0 || ptsname_r(master, path, sizeof(path)) != 0) {
		(void)attack_absent(r, "no pseudo terminal: %s", strerror(errno));
		return -1;
	}
	slave = open(path, O_RDWR | O_CLOEXEC);
	if (slave < 0)
		(void)attack_absent(r, "open %s: %s", path, strerror(errno));
	return slave;
}

/* request | arg[0], so that bits can be added which the kernel does not look at. */
static int own_ioctl(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	int fd = own_terminal(r);
	char byte[16] = {6}; /* TIOCLINUX: report the shift state, harmless */
	int number = (int)a->arg[1];
	void *data = a->arg[2] ? (void *)&number : (void *)byte;

	(void)c;
	if (fd < 0)
		return r->verdict;
	return attack_reached(r, syscall(SYS_ioctl, fd, a->arg[0], data), a->path);
}

static bool is_callers(const struct attack_ctx *c, int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_dev == c->tty_dev &&
	       st.st_ino == c->tty_ino;
}

static int callers_terminal(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	if (!isatty(STDIN_FILENO))
		return attack_absent(r, "stdin is not a terminal");
	for (int fd = 0; fd < 3; fd++)
		if (is_callers(c, fd))
			return attack_broke(r, "descriptor %d is the caller's own terminal", fd);
	errno = ENOENT;
	return attack_refused(r, "stdin is a terminal of the box's own");
}

static int terminal_by_path(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = open(c->tty_path, O_RDWR | O_NOCTTY | O_CLOEXEC);

	(void)a;
	if (fd < 0)
		return attack_refused(r, "open %s", c->tty_path);
	if (is_callers(c, fd))
		return attack_broke(r, "opened the caller's terminal %s", c->tty_path);
	errno = ENOENT;
	return attack_refused(r, "%s is the box's own", c->tty_path);
}

static int consoles(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const char *const paths[] = {"/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/vcs",
		"/dev/vcsa1", "/dev/input/event0", "/dev/fb0"};

	(void)a;
	(void)c;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (access(paths[i], F_OK) == 0)
			return attack_broke(r, "%s is there", paths[i]);
	return attack_refused(r, "/dev/tty0, ttyS0, vcs, input, fb0");
}

#define ON_OWN .wall = WALL_SECCOMP, .flags = ATTACK_CONTROL, .try = own_ioctl, .call = "ioctl"

static const struct attack table[] = {
	{.name = "terminal/tiocsti-CVE-2017-5226",
		ON_OWN,
		.success = "commands are typed into the caller's shell",
		.path = "ioctl(TIOCSTI)",
		.arg = {TIOCSTI}},
	{.name = "terminal/tiocsti-high-bits-CVE-2019-10063",
		ON_OWN,
		.success =
			"the same, with bits set that the filter compares and the kernel ignores",
		.path = "ioctl(TIOCSTI + 2^32)",
		.arg = {TIOCSTI | (uintptr_t)1 << 32}},
	{.name = "terminal/tioclinux-CVE-2023-28100",
		ON_OWN,
		.success = "text is copied and pasted on the virtual console",
		.path = "ioctl(TIOCLINUX)",
		.arg = {TIOCLINUX}},
	{.name = "terminal/line-discipline-CVE-2023-6546",
		ON_OWN,
		.success = "a modem driver is loaded as line discipline and reached",
		.path = "ioctl(TIOCSETD)",
		.arg = {TIOCSETD, 1000, 1}},
	{.name = "terminal/callers-terminal",
		.wall = WALL_TTY,
		.success = "the box holds the caller's own terminal",
		.try = callers_terminal,
		.flags = ATTACK_CONTROL | ATTACK_TTY},
	{.name = "terminal/callers-terminal-by-path",
		.wall = WALL_DEV,
		.success = "the caller's terminal is opened by its name",
		.try = terminal_by_path,
		.flags = ATTACK_CONTROL | ATTACK_TTY},
	{.name = "terminal/consoles",
		.wall = WALL_DEV,
		.success = "the machine's consoles and keyboards are read",
		.try = consoles,
		.flags = ATTACK_AS_ROOT,
		.expect = {ENOENT}},
	{.name = "terminal/vhangup",
		.wall = WALL_SECCOMP,
		.success = "a terminal is taken from everybody who has it",
		.try = attack_try_call,
		.call = "vhangup",
		.nr = SYS_vhangup,
		.flags = ATTACK_CONTROL | ATTACK_AS_ROOT},
};

const struct attack_table attack_table_terminal = {table, sizeof(table) / sizeof(table[0])};
