/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/supervise - the bawn process while the command runs: signals, terminal, timeout,
 * notifications, the end.
 *
 * One poll loop. Before READY it also collects what the box's processes report.
 */
#include "base/own.h"
#include "run/process/box_impl.h"
#include "run/process/terminal.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define WATCHDOG_MS  100
#define LAST_WORD_MS 2000 /* from KILL until pid 1 itself is killed */

struct loop {
	struct box *b;
	struct err *err;
	bool is_over;    /* only what is left in the sockets is read */
	bool is_started; /* the command has been exec'd */
	bool is_going;   /* READY came */
	bool has_exit;   /* EXIT arrived */
	bool is_terming, is_killing;
	struct terminal *terminal;
	int road_fd;          /* what o->road wants polled; -EBADF if nothing */
	uint64_t deadline_ms; /* absolute, 0 = none */
	uint64_t next_watch_ms;
	uint64_t next_notice_ms; /* 0: now. A flood of notices is served in slices, not on end */
	int result;              /* < 0: the sandbox could not be made */
};

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void tell(struct box *b, enum wire_type type, int number)
{
	struct wire w = {.type = type, .number = number};
	struct err ignored;

	/* If pid 1 is gone its pidfd says so in the same turn. */
	(void)sock_send(b->init_fd, &w, sizeof(w), NULL, 0, &ignored);
}

static void open_road(struct loop *l, int take_tcp, int take_dns)
{
	struct box *b = l->b;

	if (!b->o->road || l->is_over) {
		/* Once nobody holds them, connections are refused. */
		closep(&take_tcp);
		closep(&take_dns);
		return;
	}
	b->has_road = true;
	l->road_fd = b->o->road->open(take_tcp, take_dns, b->o->road->arg, l->err);
	if (l->road_fd < 0)
		l->result = l->road_fd;
}

static void on_box(struct loop *l, const struct wire *w, int *fds, size_t n)
{
	struct box *b = l->b;
	size_t k = 0;

	if ((w->number & 1) && k < n) {
		b->store_fd = TAKE_FD(fds[k]);
		k++;
	}
	if ((w->number & 2) && k < n) {
		b->master_fd = TAKE_FD(fds[k]);
		terminal_open(l->terminal, b->o, b->master_fd);
		k++;
	}
	if ((w->number & 4) && k + 1 < n)
		open_road(l, TAKE_FD(fds[k]), TAKE_FD(fds[k + 1]));
}

static void on_exit_report(struct loop *l, const struct wire_exit *e)
{
	struct box_result *r = l->b->result;

	l->has_exit = true;
	r->signal = WIFSIGNALED(e->status) ? WTERMSIG(e->status) : 0;
	r->exit_code = WIFEXITED(e->status) ? WEXITSTATUS(e->status) : -1;
	r->cpu_us = e->cpu_us;
	r->memory_peak = e->rss_peak;
	r->bytes_written = e->bytes_written;
	/* Pid 1, the command and who was left: as many as there may be, and a fork was refused. */
	if ((l->b->plan.watch & PLAN_WATCH_PIDS) && e->left + 3 >= l->b->spec->limits.pids_max)
		l->b->was_crowded = true;
}

/*
 * Ctrl-Z inside: stop as the command did, so that the caller's shell gets its
 * prompt. Only with a terminal, and the whole box stops with us: nothing in it may run
 * on while nobody watches its limits.
 */
static void on_stopped(struct loop *l)
{
	if (l->terminal->in < 0)
		return;
	tell(l->b, WIRE_FREEZE, SIGSTOP);
	terminal_restore(l->terminal);
	(void)kill(getpid(), SIGSTOP);
	terminal_raw(l->terminal);
	terminal_resize(l->terminal);
	tell(l->b, WIRE_FREEZE, SIGCONT);
}

/* A mask that the host took away by replacing what it covered; pid 1 has put it back. */
static void on_fallen(struct loop *l, int number)
{
	const struct plan *p = &l->b->plan;
	char quoted[200], tried[256];

	if (number < 0 || (size_t)number >= p->n || !p->ops[number].path)
		return;
	(void)snprintf(tried, sizeof(tried), "'%s' was replaced on the host during the run",
		text_quote(p->ops[number].path, quoted, sizeof(quoted)));
	violation_add(&l->b->result->violations, WALL_MASKS, "fell", tried,
		"it was open to the sandbox for a moment: look at it before you use it");
}

static void on_init(struct loop *l)
{
	struct wire w = {0};
	int fds[4] = {-EBADF, -EBADF, -EBADF, -EBADF};
	size_t n = 4;
	struct err err = {0};
	ssize_t got = sock_receive(l->b->init_fd, &w, sizeof(w), fds, &n, &err);

	if (got < 0) {
		/* Its report cannot be had: better no result than a made-up one. */
		*l->err = err;
		l->result = -err.code;
		closep(&l->b->init_fd);
		return;
	}
	if (got != sizeof(w)) {
		closep(&l->b->init_fd); /* pid 1 is ending; its pidfd follows */
		return;
	}
	switch (w.type) {
	case WIRE_BOX: on_box(l, &w, fds, n); break;
	case WIRE_EXIT: on_exit_report(l, &w.exit); break;
	case WIRE_FELL: on_fallen(l, w.number); break;
	case WIRE_STOPPED: on_stopped(l); break;
	case WIRE_ERR:
		if (l->result >= 0) {
			*l->err = w.err;
			l->result = -w.err.code;
			l->b->failed = w.wall;
		}
		break;
	default: break;
	}
	for (size_t i = 0; i < 4; i++)
		closep(&fds[i]);
}

static void on_exec_failed(struct loop *l, const struct wire *w)
{
	struct box_result *r = l->b->result;

	if (w->number == 125 || !l->is_going) {
		*l->err = w->err;
		l->result = -w->err.code;
		l->b->failed = w->wall;
		return;
	}
	r->exec_error = w->err;
	r->exit_status = w->number;
}

static void on_ready(struct loop *l, const struct wire *w, int listener)
{
	struct box *b = l->b;
	struct err ignored;

	/* The command's process has judged them; the same here fills the record. */
	b->readback = w->readback;
	b->listener_fd = listener;
	(void)verify_walls(b, &ignored);
	l->is_going = true;
	if (b->spec->limits.timeout_ms > 0 && b->spec->walls[WALL_TIME] != WALL_LEVEL_OFF)
		l->deadline_ms = now_ms() + b->spec->limits.timeout_ms;
}

static void on_command(struct loop *l)
{
	struct box *b = l->b;
	struct wire w = {0};
	AUTO_FD int fd = -EBADF;
	size_t n = 1;
	struct err err = {0};
	ssize_t got = sock_receive(b->command_fd, &w, sizeof(w), &fd, &n, &err);

	if (got < 0) {
		*l->err = err;
		l->result = -err.code;
		closep(&b->command_fd);
	} else if (got == sizeof(w) && w.type == WIRE_READY && !l->is_going) {
		on_ready(l, &w, TAKE_FD(fd));
	} else if (got == sizeof(w) && w.type == WIRE_ERR) {
		on_exec_failed(l, &w);
	} else {
		/*
		 * End of file: execve() closed it. Before READY it means the process died; init
		 * reports.
		 */
		if (l->is_going && !l->is_started && !b->result->exec_error.code) {
			l->is_started = true;
			if (b->o->started)
				b->o->started(b->pid, b->o->arg);
		}
		closep(&b->command_fd);
	}
}

static void on_signal(struct loop *l)
{
	struct signalfd_siginfo si;
	struct box *b = l->b;

	while (read(b->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		int sig = (int)si.ssi_signo;

		if (sig == SIGWINCH) {
			terminal_resize(l->terminal);
		} else if (!l->is_going &&
			   (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)) {
			l->result = err_set(l->err, EINTR,
				"ended by signal %d before the command started", sig);
		} else if (sig != SIGCONT) {
			/* SIGCONT after our own stop is sent on by on_stopped(). */
			tell(b, WIRE_SIGNAL, sig);
		}
	}
}

static void on_deadline(struct loop *l)
{
	struct box *b = l->b;
	struct err ignored;
	char tried[64];

	if (!b->result->timed_out && !l->is_killing) {
		(void)snprintf(tried, sizeof(tried), "ran longer than %llu ms",
			(unsigned long long)b->spec->limits.timeout_ms);
		violation_add(&b->result->violations, WALL_TIME, "timeout", tried,
			"give it more time with --timeout");
		b->result->timed_out = true;
	}
	if (!l->is_terming && b->spec->limits.kill_after_ms > 0 && !l->is_killing) {
		l->is_terming = true;
		tell(b, WIRE_TERM, 0);
		l->deadline_ms = now_ms() + b->spec->limits.kill_after_ms;
	} else if (!l->is_killing) {
		l->is_killing = true;
		tell(b, WIRE_KILL, 0);
		l->deadline_ms = now_ms() + LAST_WORD_MS;
	} else {
		(void)process_signal(b->pidfd, SIGKILL, &ignored);
		l->deadline_ms = 0;
	}
}

static void on_watch(struct loop *l)
{
	struct box *b = l->b;

	l->next_watch_ms = now_ms() + WATCHDOG_MS;
	if (!watchdog_look(b) || l->is_killing)
		return;
	b->result->oom_killed = true;
	l->is_killing = true;
	tell(b, WIRE_KILL, 0);
	l->deadline_ms = now_ms() + LAST_WORD_MS;
}

static int wait_ms(const struct loop *l)
{
	uint64_t now = now_ms(), next = UINT64_MAX;

	if (l->deadline_ms)
		next = l->deadline_ms;
	if (l->next_notice_ms && l->next_notice_ms < next)
		next = l->next_notice_ms;
	if (l->b->plan.watch && l->is_going && l->next_watch_ms < next)
		next = l->next_watch_ms;
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)(next - now > INT32_MAX ? INT32_MAX : next - now);
}

enum {
	ON_PID,
	ON_INIT,
	ON_COMMAND,
	ON_SIGNAL,
	ON_LISTENER,
	ON_ROAD,
	ON_TERMINAL,
	ON_COUNT = ON_TERMINAL + TERMINAL_POLLS
};

static void on_events(struct loop *l, struct pollfd *p)
{
	struct box *b = l->b;

	if ((p[ON_LISTENER].revents & POLLIN) && explain_notification(b))
		l->next_notice_ms = now_ms() + 1;
	if (p[ON_LISTENER].revents & POLLHUP)
		closep(&b->listener_fd); /* no process with the filter is left */
	if (p[ON_COMMAND].revents)
		on_command(l);
	if (p[ON_INIT].revents)
		on_init(l);
	if (p[ON_SIGNAL].revents & POLLIN)
		on_signal(l);
	if (p[ON_ROAD].revents && !b->o->road->serve(&b->result->violations, b->o->road->arg))
		l->road_fd = -EBADF;
	terminal_serve(l->terminal, &p[ON_TERMINAL]);
	if (l->next_notice_ms && now_ms() >= l->next_notice_ms)
		l->next_notice_ms = 0;
	if (l->deadline_ms && now_ms() >= l->deadline_ms)
		on_deadline(l);
	if (b->plan.watch && l->is_going && now_ms() >= l->next_watch_ms)
		on_watch(l);
}

/* Everything pid 1 sent before it died is still in the socket. */
static void collect_last_words(struct loop *l)
{
	struct box *b = l->b;

	while (b->init_fd >= 0 && !l->has_exit) {
		struct pollfd p = {.fd = b->init_fd, .events = POLLIN};

		if (poll(&p, 1, 0) <= 0)
			return;
		on_init(l);
	}
	while (b->command_fd >= 0) {
		struct pollfd p = {.fd = b->command_fd, .events = POLLIN};

		if (poll(&p, 1, 0) <= 0)
			return;
		on_command(l);
	}
}

static void run_loop(struct loop *l)
{
	struct box *b = l->b;

	while (l->result >= 0) {
		struct pollfd p[ON_COUNT] = {
			[ON_PID] = {.fd = b->pidfd, .events = POLLIN},
			[ON_INIT] = {.fd = b->init_fd, .events = POLLIN},
			/*
			 * Once it is ready only its end is to come, which nobody waits for: it is
			 * read with the last words. The fewer wake-ups now, the sooner it runs.
			 */
			[ON_COMMAND] = {.fd = l->is_going && !b->o->started ? -1 : b->command_fd,
				.events = POLLIN},
			[ON_SIGNAL] = {.fd = b->signal_fd, .events = POLLIN},
			[ON_LISTENER] = {.fd = l->next_notice_ms ? -1 : b->listener_fd,
				.events = POLLIN},
			[ON_ROAD] = {.fd = l->road_fd, .events = POLLIN},
		};

		terminal_want(l->terminal, &p[ON_TERMINAL]);
		if (poll(p, ON_COUNT, wait_ms(l)) < 0 && errno != EINTR) {
			l->result = err_sys(l->err, "poll");
			return;
		}
		on_events(l, p);
		if (p[ON_PID].revents) {
			collect_last_words(l);
			return;
		}
	}
}

static void conclude(struct loop *l)
{
	struct box_result *r = l->b->result;
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	r->wall_us = (uint64_t)(now.tv_sec - l->b->started.tv_sec) * 1000000 +
		     (uint64_t)((now.tv_nsec - l->b->started.tv_nsec) / 1000);
	if (r->exec_error.code)
		return; /* 126 or 127 already */
	if (!l->has_exit) {
		r->exit_code = -1;
		r->signal = SIGKILL;
	}
	r->exit_status = r->signal ? 128 + r->signal : r->exit_code;
	if (r->timed_out)
		r->exit_status = 124;
}

int supervise(struct box *b, struct err *err)
{
	static struct terminal terminal; /* two buffers: too large for the stack */
	struct loop l = {.b = b, .err = err, .terminal = &terminal, .road_fd = -EBADF};

	terminal_init(&terminal);
	run_loop(&l);
	terminal_done(&terminal);
	if (l.result < 0)
		return l.result;
	if (!l.is_going)
		return err_set(err, ECHILD, "the sandbox died before its command started");
	conclude(&l);
	return 0;
}

int supervise_collect_error(struct box *b, struct err *err)
{
	static struct terminal none;
	struct loop l = {.b = b, .terminal = &none, .road_fd = -EBADF, .is_over = true};
	struct err theirs = {0};

	terminal_init(&none);
	l.err = &theirs;
	collect_last_words(&l);
	if (theirs.code)
		*err = theirs;
	return -err->code;
}
