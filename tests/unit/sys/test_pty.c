/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/pty, in a devpts of each case's own: the host's may refuse an ordinary user, and what is
 * tested is the box's. As any user.
 */
#include "sys/pty.h"

#include "in_userns.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

static struct err err;

/* A pair in a fresh devpts on /tmp. */
static int fresh_pair(int *ret_master, int *ret_slave)
{
	static const char *const options[] = {
		"newinstance", NULL, "mode", "0620", "ptmxmode", "0666", NULL};
	AUTO_FD int fs = mount_kernel_fs("devpts", options, MOUNT_NOSUID | MOUNT_NOEXEC, &err);
	AUTO_FD int target = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fs < 0 || mount_attach(fs, target, &err) < 0)
		return -err.code;
	return pty_open("/tmp", ret_master, ret_slave, &err);
}

static int bytes_in_child(void)
{
	AUTO_FD int master = -EBADF, slave = -EBADF;
	char buf[16] = "";

	NEED(fresh_pair(&master, &slave) == 0);
	NEED(isatty(master) && isatty(slave));
	NEED(fcntl(master, F_GETFD) == FD_CLOEXEC && fcntl(slave, F_GETFD) == FD_CLOEXEC);
	NEED(write(slave, "hi\n", 3) == 3);
	NEED(read(master, buf, sizeof(buf)) == 4 && memcmp(buf, "hi\r\n", 4) == 0);
	NEED(write(master, "ho\n", 3) == 3);
	NEED(read(slave, buf, sizeof(buf)) == 3 && memcmp(buf, "ho\n", 3) == 0);
	return 0;
}

static void what_is_written_at_one_end_is_read_at_the_other(void)
{
	CHECK_INT(in_userns(bytes_in_child), 0);
}

static int session_in_child(void)
{
	AUTO_FD int master = -EBADF, slave = -EBADF, tty = -EBADF;

	/* The leader of a session without a terminal would get one by opening it carelessly. */
	NEED(setsid() > 0);
	NEED(fresh_pair(&master, &slave) == 0);
	tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	NEED(tty < 0 && errno == ENXIO);
	(void)signal(SIGHUP, SIG_IGN); /* the terminal hangs up when this case closes it */
	NEED(ioctl(slave, TIOCSCTTY, 0) == 0);
	tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	NEED(tty >= 0);
	return 0;
}

static void a_new_terminal_is_nobody_s_until_it_is_taken(void)
{
	CHECK_INT(in_userns(session_in_child), 0);
}

static int size_in_child(void)
{
	AUTO_FD int master = -EBADF, slave = -EBADF, other = -EBADF, other_slave = -EBADF;
	struct winsize size = {.ws_row = 33, .ws_col = 77}, got = {0};

	NEED(fresh_pair(&master, &slave) == 0);
	NEED(pty_open("/tmp", &other, &other_slave, &err) == 0);
	NEED(ioctl(master, TIOCSWINSZ, &size) == 0);
	pty_copy_size(slave, other);
	NEED(ioctl(other_slave, TIOCGWINSZ, &got) == 0);
	NEED(got.ws_row == 33 && got.ws_col == 77);
	return 0;
}

static void a_window_s_size_is_copied(void)
{
	CHECK_INT(in_userns(size_in_child), 0);
}

static int settings_in_child(void)
{
	AUTO_FD int master = -EBADF, slave = -EBADF, other = -EBADF, other_slave = -EBADF;
	struct termios t;

	NEED(fresh_pair(&master, &slave) == 0);
	NEED(pty_open("/tmp", &other, &other_slave, &err) == 0);
	NEED(tcgetattr(slave, &t) == 0 && (t.c_lflag & ECHO));
	t.c_lflag &= ~(tcflag_t)ECHO;
	NEED(tcsetattr(slave, TCSANOW, &t) == 0);
	pty_copy_settings(slave, other);
	NEED(tcgetattr(other_slave, &t) == 0 && !(t.c_lflag & ECHO));
	return 0;
}

static void settings_are_copied(void)
{
	CHECK_INT(in_userns(settings_in_child), 0);
}

static int raw_in_child(void)
{
	AUTO_FD int master = -EBADF, slave = -EBADF;
	struct termios saved, now;

	NEED(fresh_pair(&master, &slave) == 0);
	NEED(pty_raw(slave, &saved, &err) == 0);
	NEED(saved.c_lflag & ICANON);
	NEED(tcgetattr(slave, &now) == 0);
	NEED(!(now.c_lflag & (ICANON | ECHO | ISIG)));
	pty_restore(slave, &saved);
	NEED(tcgetattr(slave, &now) == 0);
	NEED((now.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG));
	return 0;
}

static void raw_mode_is_taken_back(void)
{
	CHECK_INT(in_userns(raw_in_child), 0);
}

static void what_is_no_terminal_is_left_alone(void)
{
	AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct termios saved;

	CHECK_INT(pty_raw(null, &saved, &err), -ENOTTY);
	CHECK_STR(err.msg, "read terminal settings: Inappropriate ioctl for device");
	pty_copy_size(null, null);
	pty_copy_settings(null, null);
}

static void a_directory_without_a_devpts_is_named(void)
{
	int master = -7, slave = -7;

	CHECK_INT(pty_open("/nowhere", &master, &slave, &err), -ENOENT);
	CHECK_STR(err.msg, "open '/nowhere/ptmx': No such file or directory");
	CHECK(master == -7 && slave == -7); /* written on success only */
}

int main(void)
{
	RUN(what_is_written_at_one_end_is_read_at_the_other);
	RUN(a_new_terminal_is_nobody_s_until_it_is_taken);
	RUN(a_window_s_size_is_copied);
	RUN(settings_are_copied);
	RUN(raw_mode_is_taken_back);
	RUN(what_is_no_terminal_is_left_alone);
	RUN(a_directory_without_a_devpts_is_named);
	return tap_done();
}
