/* SPDX-License-Identifier: Apache-2.0 */

#include "base/own.h"
#include "base/text.h"
#include "cli/remote/secret.h"
#include "egress/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* One line from a terminal that does not show it. Returns its length. */
static ssize_t read_hidden(int fd, const char *prompt, char *out, size_t size, struct err *err)
{
	struct termios shown, hidden;
	size_t n = 0;
	bool is_whole = false;

	if (tcgetattr(fd, &shown) < 0)
		return err_sys(err, "the terminal");
	hidden = shown;
	hidden.c_lflag &= ~(tcflag_t)ECHO;
	if (tcsetattr(fd, TCSAFLUSH, &hidden) < 0)
		return err_sys(err, "the terminal");
	(void)write(fd, prompt, strlen(prompt));
	while (!is_whole && n < size) {
		ssize_t got = read(fd, out + n, 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		is_whole = out[n] == '\n';
		n += !is_whole;
	}
	(void)tcsetattr(fd, TCSAFLUSH, &shown);
	(void)write(fd, "\n", 1);
	return is_whole ? (ssize_t)n : err_set(err, EINVAL, "nothing was entered, or too much");
}

int secret_read_passphrase(char *out, size_t size, bool is_new, struct err *err)
{
	AUTO_FD int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	AUTO_BUF struct buf again = {.is_secret = true};
	char *room;
	ssize_t n, m;

	if (tty < 0)
		return err_set(
			err, ENOTTY, "a passphrase is needed, and there is no terminal to ask");
	n = read_hidden(tty, "passphrase of the secrets: ", out, size - 1, err);
	if (n < 0)
		return (int)n;
	out[n] = '\0';
	if (!is_new)
		return 0;
	room = buf_reserve(&again, size);
	m = room ? read_hidden(tty, "once more: ", room, size - 1, err) : -ENOMEM;
	if (m < 0)
		return (int)m;
	if (m != n || memcmp(room, out, (size_t)n) != 0)
		return err_set(err, EINVAL, "they are not the same");
	return 0;
}

static int read_file(int fd, struct buf *ret, struct err *err)
{
	for (;;) {
		char *room = buf_reserve(ret, 4096);
		ssize_t n = room ? read(fd, room, 4096) : -1;

		if (!room)
			return err_set(
				err, E2BIG, "the value is longer than %d bytes", VAULT_VALUE_MAX);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, "read the value");
		if (n == 0)
			return 0;
		buf_commit(ret, (size_t)n);
	}
}

int secret_read_value(const char *file, const char *name, struct buf *ret, struct err *err)
{
	AUTO_FREE char *prompt = text_format("value of %s: ", name);
	bool is_file = file && strcmp(file, "-") != 0;
	AUTO_FD int fd = is_file ? open(file, O_RDONLY | O_CLOEXEC) : -EBADF;
	char *room;
	ssize_t n;
	int r;

	*ret = (struct buf){.cap = VAULT_VALUE_MAX + 8192, .is_secret = true};
	if (is_file && fd < 0)
		return err_sys(err, "open '%s'", file);
	if (!is_file && isatty(STDIN_FILENO)) {
		room = buf_reserve(ret, VAULT_VALUE_MAX);
		n = room ? read_hidden(STDIN_FILENO, prompt, room, VAULT_VALUE_MAX, err) : -ENOMEM;
		if (n < 0)
			return (int)n;
		buf_commit(ret, (size_t)n);
	} else {
		r = read_file(is_file ? fd : STDIN_FILENO, ret, err);
		if (r < 0)
			return r;
	}
	/* What an editor or echo put behind it. */
	if (buf_len(ret) > 0 && ret->p[ret->end - 1] == '\n')
		ret->end--;
	if (buf_len(ret) > 0 && ret->p[ret->end - 1] == '\r')
		ret->end--;
	return buf_len(ret) > 0 ? 0 : err_set(err, EINVAL, "the value is empty");
}
