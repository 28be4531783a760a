/* SPDX-License-Identifier: Apache-2.0 */

#include "run/process/terminal.h"

#include "base/own.h"
#include "sys/pty.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define DRAIN_MS 2000 /* for the last output, if the caller's terminal is stopped */

void terminal_init(struct terminal *t)
{
	memset(t, 0, sizeof(*t));
	t->master = t->in = t->out = t->tty = -1;
}

/* Our own opening of the caller's terminal: O_NONBLOCK on a shared one would be everybody's. */
static int open_again(int fd)
{
	char path[64];
	int own;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	/* A terminal of another user (su, sudo) can be used but not opened. */
	return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void terminal_open(struct terminal *t, const struct box_options *o, int master)
{
	for (int i = 2; i >= 0; i--) {
		if (o->stdio[i] < 0 || !isatty(o->stdio[i]))
			continue;
		if (i == 0)
			t->in = o->stdio[i];
		if (i > 0 || t->tty < 0)
			t->tty = o->stdio[i];
	}
	t->master = master;
	t->is_in_open = t->in >= 0;
	t->out = t->tty >= 0 ? open_again(t->tty) : -1;
	(void)fcntl(
		master, F_SETFL, O_NONBLOCK); /* a fresh one of our own: nobody shares the flag */
	pty_copy_settings(t->tty, master);
	pty_copy_size(t->tty, master);
	terminal_raw(t);
}

static bool is_empty(const struct terminal_flow *f)
{
	return f->start == f->end;
}

void terminal_want(const struct terminal *t, struct pollfd p[TERMINAL_POLLS])
{
	bool has_master = t->master >= 0;
	short master = 0;

	if (is_empty(&t->from_box))
		master |= POLLIN;
	if (!is_empty(&t->to_box))
		master |= POLLOUT;
	p[TERMINAL_MASTER] =
		(struct pollfd){.fd = has_master && master ? t->master : -1, .events = master};
	p[TERMINAL_IN] = (struct pollfd){
		.fd = has_master && t->is_in_open && is_empty(&t->to_box) ? t->in : -1,
		.events = POLLIN,
	};
	p[TERMINAL_OUT] =
		(struct pollfd){.fd = is_empty(&t->from_box) ? -1 : t->out, .events = POLLOUT};
}

/* False at end of file or on a broken terminal. */
static bool fill(struct terminal_flow *f, int fd)
{
	ssize_t n = read(fd, f->buf, sizeof(f->buf));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	f->start = 0;
	f->end = (size_t)n;
	return n > 0;
}

static bool flush(struct terminal_flow *f, int fd)
{
	ssize_t n = write(fd, f->buf + f->start, f->end - f->start);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	f->start += (size_t)n;
	return true;
}

void terminal_serve(struct terminal *t, const struct pollfd p[TERMINAL_POLLS])
{
	if ((p[TERMINAL_OUT].revents) && !flush(&t->from_box, t->out))
		t->from_box.start = t->from_box.end; /* hung up: nobody is left to read it */
	if (p[TERMINAL_MASTER].revents & POLLOUT && !flush(&t->to_box, t->master))
		t->to_box.start = t->to_box.end;
	if (p[TERMINAL_MASTER].revents & (POLLIN | POLLHUP) && is_empty(&t->from_box)) {
		if (!fill(&t->from_box, t->master))
			t->master = -1; /* EIO: no process has the box's terminal any more */
		else if (!flush(&t->from_box, t->out))
			t->from_box.start = t->from_box.end;
	}
	if (p[TERMINAL_IN].revents) {
		t->is_in_open = fill(&t->to_box, t->in);
		if (t->master >= 0 && !is_empty(&t->to_box) && !flush(&t->to_box, t->master))
			t->to_box.start = t->to_box.end;
	}
}

void terminal_resize(struct terminal *t)
{
	if (t->master >= 0)
		pty_copy_size(t->tty, t->master);
}

void terminal_raw(struct terminal *t)
{
	struct err ignored;

	if (t->in >= 0 && !t->is_raw)
		t->is_raw = pty_raw(t->in, &t->saved, &ignored) >= 0;
}

void terminal_restore(struct terminal *t)
{
	if (t->is_raw)
		pty_restore(t->in, &t->saved);
	t->is_raw = false;
}

void terminal_done(struct terminal *t)
{
	t->is_in_open = false;
	while (t->master >= 0 || !is_empty(&t->from_box)) {
		struct pollfd p[TERMINAL_POLLS];

		t->to_box.start = t->to_box.end;
		terminal_want(t, p);
		/* The box is gone: what is not there at once will not come. */
		if (poll(p, TERMINAL_POLLS, is_empty(&t->from_box) ? 0 : DRAIN_MS) <= 0)
			break;
		terminal_serve(t, p);
	}
	terminal_restore(t);
	closep(&t->out);
}
