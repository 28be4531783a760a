/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/init - pid 1 of the box: builds it from inside, forks the command, reaps, reports.
 *
 * Forked from bawn, never exec'd: its memory belongs to the outer user
 * namespace and is not dumpable, so nobody inside can trace it, read it, or reach
 * the program file behind it (CVE-2019-5736), root in the box included. When it
 * ends, the kernel kills everything in its pid namespace. No allocation.
 */
#include "base/own.h"
#include "base/text.h"
#include "run/process/box_impl.h"
#include "sys/net.h"
#include "sys/process.h"
#include "sys/pty.h"
#include "sys/sock.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

static _Noreturn void fail(int sock, int wall, const struct err *e)
{
	struct wire w = {.type = WIRE_ERR, .number = 125, .wall = wall, .err = *e};
	struct err ignored;

	/* If nobody listens any more, nobody needs to know. */
	(void)sock_send(sock, &w, sizeof(w), NULL, 0, &ignored);
	_exit(127);
}

static int expect(
	int sock, enum wire_type type, struct wire *w, int *fds, size_t *fds_n, struct err *err)
{
	ssize_t n = sock_receive(sock, w, sizeof(*w), fds, fds_n, err);

	if (n < 0)
		return (int)n;
	if (n == 0)
		_exit(127); /* bawn is gone: so are we */
	if (n != sizeof(*w) || w->type != type)
		return err_set(err, EPROTO, "unexpected message %u instead of %u", w->type, type);
	return 0;
}

static int receive_mounts(struct box *b, struct apply *a, struct err *err)
{
	struct wire w = {0};
	int fds[SOCK_FDS_MAX];
	size_t n = SOCK_FDS_MAX;
	int r = expect(b->init_peer, WIRE_START, &w, fds, &n, err);

	if (r < 0)
		return r;
	if (w.start.n != n)
		return err_set(err, EPROTO, "%zu mounts came, %u were sent", n, w.start.n);
	for (size_t i = 0; i < n; i++)
		a->slots[w.start.slot[i]] = fds[i];
	/* For verify_walls(), which the command's process runs on itself. */
	memcpy(b->own_namespaces, w.start.own_namespaces, sizeof(b->own_namespaces));
	memcpy(b->box_namespaces, w.start.box_namespaces, sizeof(b->box_namespaces));
	b->limits = w.start.limits;
	return 0;
}

/* Without an own parent the box must not live: killed with bawn, even by SIGKILL. */
static int tie_to_parent(struct box *b, struct err *err)
{
	struct pollfd p = {.fd = b->init_peer, .events = POLLIN};

	/* After the ids changed: a change of credentials clears the death signal (prctl(2)). */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(err, "tie to the parent");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(err, "forbid dumping");
	if (poll(&p, 1, 0) > 0 && (p.revents & POLLHUP))
		_exit(127); /* it died before we asked to be told */
	return 0;
}

static int become_box_root(const struct box *b, struct err *err)
{
	if (!(b->plan.namespaces & CLONE_NEWUSER) || b->plan.id_base == 0)
		return 0;
	if (setgroups(0, NULL) < 0)
		return err_sys(err, "drop groups");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(err, "become root of the box");
	return 0;
}

static int open_terminal(struct box *b, int *ret_master, int *ret_slave, struct err *err)
{
	int r = pty_open("/dev/pts", ret_master, ret_slave, err);

	if (r < 0)
		return err_wrap(err, "wall 'tty'");
	if (setsid() < 0)
		return err_sys(err, "wall 'tty': new session");
	if (ioctl(*ret_slave, TIOCSCTTY, 0) < 0)
		return err_sys(err, "wall 'tty': take the terminal");
	/* With a single id it is the command's already, and no other can be given. */
	if (fchown(*ret_slave, b->facts.box_uid, b->facts.box_gid) < 0 && errno != EPERM &&
		errno != EINVAL)
		return err_sys(err, "wall 'tty': give the terminal to the command");
	return 0;
}

static int announce(struct box *b, const struct apply *a, int master, struct err *err)
{
	struct wire w = {.type = WIRE_BOX};
	int fds[4];
	size_t n = 0;

	if (!b->facts.is_host_root && b->plan.store_slot >= 0) {
		w.number |= 1;
		fds[n++] = a->slots[b->plan.store_slot];
	}
	if (master >= 0) {
		w.number |= 2;
		fds[n++] = master;
	}
	if (a->road.tcp_fd >= 0) {
		w.number |= 4;
		fds[n++] = a->road.tcp_fd;
		fds[n++] = a->road.dns_fd;
	}
	/* Nothing to hand over: bawn need not wake up for it. */
	return n == 0 ? 0 : sock_send(b->init_peer, &w, sizeof(w), fds, n, err);
}

static void report(int sock, enum wire_type type, int number)
{
	struct wire w = {.type = type, .number = number};
	struct err ignored;

	(void)sock_send(sock, &w, sizeof(w), NULL, 0, &ignored);
}

/* "wchar: N" of /proc/self/io: the kernel adds the numbers of every child we reaped. */
static uint64_t written(void)
{
	char buf[512];
	AUTO_FD int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	uint64_t bytes;
	const char *p;

	if (n <= 0)
		return 0;
	buf[n] = 0;
	p = strstr(buf, "wchar:");
	p = p ? p + 6 : buf + n;
	return text_scan_u64(&p, &bytes) == 0 ? bytes : 0;
}

static void kill_all(pid_t command, int sig)
{
	/*
	 * Only as pid 1 does -1 mean "the box"; without a pid namespace it would mean the machine.
	 */
	if (getpid() == 1) {
		(void)kill(-1, sig);
	} else {
		(void)kill(-command, sig);
		(void)kill(command, sig);
	}
}

static struct apply init_apply; /* too large for comfort on the stack; this process runs once */

static void report_fallen(size_t op, void *arg)
{
	report(*(int *)arg, WIRE_FELL, (int)op);
}

static _Noreturn void finish(int sock, pid_t command, int status)
{
	struct wire w = {.type = WIRE_EXIT, .exit = {.status = status}};
	struct rusage u;
	struct err ignored;

	kill_all(command, SIGKILL);
	while (getpid() == 1) {
		pid_t pid = waitpid(-1, NULL, 0);

		if (pid < 0 && errno != EINTR)
			break;
		w.exit.left += pid > 0;
	}
	guard_check(&init_apply, report_fallen, &sock);
	(void)getrusage(RUSAGE_CHILDREN, &u);
	w.exit.cpu_us = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
			(uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	w.exit.rss_peak = (uint64_t)u.ru_maxrss * 1024;
	w.exit.bytes_written = written();
	(void)sock_send(sock, &w, sizeof(w), NULL, 0, &ignored);
	/* Of a resident box this is all that its warden hears. */
	_exit(WIFSIGNALED(status) ? 1 : 0);
}

static void reap(int sock, pid_t command)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);

		if (pid <= 0)
			return;
		if (pid != command)
			continue;
		if (WIFSTOPPED(status))
			report(sock, WIRE_STOPPED, WSTOPSIG(status));
		else
			finish(sock, command, status);
	}
}

#define PAGE(p) ((uintptr_t)(p) & ~(uintptr_t)4095)

/*
 * There may be thousands of us, each with copies of pages that its maker went on to write. What
 * is left to do needs no heap: all of it goes that lies behind this thread's own block,
 * which a static program has at the heap's beginning. And the stack that was used before.
 */
static void shrink(void)
{
#ifndef __SANITIZE_ADDRESS__ /* which has a heap and stacks of its own making */
	char *from = (char *)PAGE((char *)__builtin_thread_pointer() + 12288), *to = sbrk(0);
	char *stack = (char *)PAGE(__builtin_frame_address(0)) - 8192;

	if (from < to && to - from < 1 << 28)
		(void)madvise(from, (size_t)(to - from), MADV_DONTNEED);
	(void)madvise(stack - (96 << 10), 96 << 10, MADV_DONTNEED);
#endif
}

static bool put_text(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	size_t n = strlen(text);

	return fd >= 0 && write(fd, text, n) == (ssize_t)n;
}

/*
 * A box is made before it is known for whom. Nothing but the guest has run in it, so its files
 * are still ours to write by name. sudo and many servers look their own host name up.
 */
static bool take_name(const char *name)
{
	char text[256];

	if (!name[0])
		return true;
	(void)snprintf(text, sizeof(text),
		"127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost ip6-localhost ip6-loopback\n",
		name);
	if (sethostname(name, strlen(name)) < 0 || !put_text("/etc/hosts", text))
		return false;
	(void)snprintf(text, sizeof(text), "%s\n", name);
	return put_text("/etc/hostname", text);
}

/* From here on the box stands by itself: it ends with its command, or is killed by name. */
static void live_on(int *sock, struct wire *w)
{
	w->hostname[WIRE_NAME_MAX - 1] = 0;
	if (!take_name(w->hostname) || prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) < 0)
		_exit(127);
	report(*sock, WIRE_RELEASE, 0);
	closep(sock);
	shrink();
}

static void obey(int *sock, pid_t command)
{
	struct wire w = {0};
	struct err err;
	size_t no_fds = 0;
	ssize_t n = sock_receive(*sock, &w, sizeof(w), NULL, &no_fds, &err);

	if (n <= 0)
		_exit(127);
	switch (w.type) {
	case WIRE_SIGNAL:
		if (kill(-command, w.number) < 0)
			(void)kill(command, w.number);
		break;
	case WIRE_TERM:
		kill_all(command, SIGTERM);
		kill_all(command, SIGCONT);
		break;
	case WIRE_FREEZE: kill_all(command, w.number); break;
	case WIRE_KILL: kill_all(command, SIGKILL); break;
	case WIRE_RELEASE: live_on(sock, &w); break;
	default: break;
	}
}

static _Noreturn void watch(int sock, pid_t command, int signals, int guard)
{
	for (;;) {
		struct pollfd p[3] = {
			{.fd = sock, .events = POLLIN}, /* < 0 once released */
			{.fd = signals, .events = POLLIN},
			{.fd = guard, .events = POLLIN},
		};
		struct signalfd_siginfo si;

		/* The command may have ended before the first poll: look, then wait. */
		reap(sock, command);
		if (poll(p, 3, -1) < 0 && errno != EINTR)
			_exit(127);
		while (read(signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
			; /* only that there was one matters: reap() asks who */
		if (p[2].revents) {
			guard_read(guard);
			guard_check(&init_apply, report_fallen, &sock);
		}
		if (p[0].revents)
			obey(&sock, command);
	}
}

static int build(struct box *b, struct apply *a, struct err *err)
{
	/* While bawn still makes mounts: what needs none, only the namespaces. */
	int r = apply_side(a, OP_SIDE_EARLY, err);

	if (r >= 0 && (b->plan.namespaces & CLONE_NEWNET))
		r = net_links_up(&b->links, err);
	if (r >= 0)
		r = receive_mounts(b, a, err);
	if (r >= 0)
		r = become_box_root(b, err);
	if (r >= 0)
		r = tie_to_parent(b, err);
	return r < 0 ? r : apply_side(a, OP_SIDE_INIT, err);
}

/* How many bytes the kernel takes for our arguments. Where the first one is, libc knows. */
static size_t arguments_size(void)
{
	AUTO_FD int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	char buf[4096];
	size_t sum = 0;
	ssize_t n;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		sum += (size_t)n;
	return sum;
}

/*
 * /proc/1/cmdline is open to everybody in the box: this copy of bawn's arguments, with
 * paths of the host in them, goes.
 */
static void hide_arguments(void)
{
	char *from = program_invocation_name;
	size_t n = arguments_size();

	if (n == 0)
		return;
	memset(from, 0, n);
	memcpy(from, "bawn", n < 5 ? n - 1 : 4);
}

/* Only the store stays: masks are made of it. No process of the box ever holds the road. */
static void let_go_of_mounts(struct apply *a)
{
	int slot = a->plan->store_slot, store = slot >= 0 ? TAKE_FD(a->slots[slot]) : -EBADF;

	apply_done(a);
	if (slot >= 0)
		a->slots[slot] = store;
}

/*
 * A resident box's maker has much that is not ours: its connections, the pidfds and locks of other
 * boxes, its log. What we held of it would live as long as this box.
 */
static int let_go_of_maker(const struct box *b, struct err *err)
{
	int keep[8] = {
		b->init_peer, b->command_peer, b->range_fd, b->facts.template_fd, b->o->exec_fd};
	size_t n = 5;
	AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_sys(err, "open '/dev/null'");
	for (int i = 0; i < 3; i++)
		if (dup2(null, i) < 0)
			return err_sys(err, "set up descriptor %d", i);
	for (size_t i = 0; i < b->o->pass_fds_n && n < sizeof(keep) / sizeof(keep[0]); i++)
		keep[n++] = b->o->pass_fds[i];
	if (null < 3)
		null = -EBADF;
	else
		closep(&null);
	return process_close_except(keep, n, err);
}

/* The command has them now; a socket that we held too would not be dead when the command is. */
static void let_go_of_command(const struct box *b)
{
	(void)close(b->o->exec_fd);
	for (size_t i = 0; i < b->o->pass_fds_n; i++)
		(void)close(b->o->pass_fds[i]);
}

_Noreturn void init_main(struct box *b)
{
	int sock = b->init_peer, master = -EBADF, slave = -EBADF, pidfd = -EBADF, signals, guard;
	struct apply *a = &init_apply;
	struct err err = {0};
	sigset_t child;
	pid_t command;
	int r;

	/* First of all, while we are one young thread: joining oneself is what v1 does quickly. */
	if (b->cgroup && cgroup_join_self(b->cgroup, &err) < 0)
		fail(sock, -1, &err);
	/* The other ends are bawn's: holding them here would hide its death from us. */
	closep(&b->init_fd);
	closep(&b->command_fd);
	closep(&b->janitor_fd);
	closep(&b->signal_fd);
	if (b->o->resident && let_go_of_maker(b, &err) < 0)
		fail(sock, -1, &err);
	b->umask =
		umask(0); /* the modes of a plan are meant as they are; the command gets it back */
	hide_arguments();
	(void)prctl(PR_SET_NAME, "bawn-init", 0, 0, 0);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	apply_init(a, &b->plan);
	a->in_userns = !b->facts.is_host_root;
	r = build(b, a, &err);
	if (r >= 0 && b->facts.has_tty && b->spec->walls[WALL_TTY] != WALL_LEVEL_OFF)
		r = open_terminal(b, &master, &slave, &err);
	if (r >= 0)
		r = announce(b, a, master, &err);
	if (r < 0)
		fail(sock, a->failed, &err);

	let_go_of_mounts(a);
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &child, NULL);
	signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0) {
		(void)err_sys(&err, "signalfd");
		fail(sock, -1, &err);
	}
	command = process_clone(0, -EBADF, &pidfd, &err);
	if (command < 0)
		fail(sock, -1, &err);
	if (command == 0)
		command_main(b, slave);
	closep(&pidfd);
	closep(&master);
	/*
	 * The slave stays open here, or the terminal hangs up between two of the box's processes.
	 */
	closep(&b->command_peer);
	if (b->o->resident)
		let_go_of_command(b);
	guard = guard_open(&b->plan);
	/* What fell before there was a watch. */
	guard_check(a, report_fallen, &sock);
	watch(sock, command, signals, guard);
}
