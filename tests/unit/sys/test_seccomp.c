/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/seccomp against the kernel: the filters are installed in forked children and
 * real calls are made under them. The arguments are such that the kernel, reached,
 * would answer something else (EFAULT, EBADF, EINVAL) or do no harm; where it
 * would say EPERM itself to an ordinary user, the listener's account is the proof.
 */
#include "sys/seccomp.h"

#include "base/own.h"
#include "sys/caps.h"
#include "sys/kernel_abi.h"
#include "sys/sock.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define TRIALS_MAX   128
#define HIGH         (1L << 32) /* a bit the kernel does not look at in an int argument */
#define WAIT_MS      10000      /* for an event that must come */

struct trial {
	const char *what;
	long nr;
	long args[6];
	int want; /* errno, 0 = success */
};

/* Null pointers and bad descriptors: harmless if they ever reach the kernel. */
static const struct trial dangerous[] = {
	{"mount", SYS_mount, {0}, EPERM},
	{"umount2", SYS_umount2, {0}, EPERM},
	{"pivot_root", SYS_pivot_root, {0}, EPERM},
	{"move_mount", SYS_move_mount, {-1, 0, -1, 0}, EPERM},
	{"open_tree", SYS_open_tree, {-1, 0, 0}, EPERM},
	{"open_tree_attr", __NR_open_tree_attr, {-1, 0, 0}, EPERM},
	{"fsopen", SYS_fsopen, {0}, EPERM},
	{"fsmount", SYS_fsmount, {-1}, EPERM},
	{"fsconfig", SYS_fsconfig, {-1}, EPERM},
	{"fspick", SYS_fspick, {-1}, EPERM},
	{"mount_setattr", SYS_mount_setattr, {-1}, EPERM},
	{"chroot", SYS_chroot, {0}, EPERM},
	{"setns", SYS_setns, {-1, 0}, EPERM},
	{"bpf", SYS_bpf, {-1, 0, 0}, EPERM},
	{"perf_event_open", SYS_perf_event_open, {0}, EPERM},
	{"io_uring_setup", SYS_io_uring_setup, {1, 0}, EPERM},
	{"io_uring_enter", SYS_io_uring_enter, {-1}, EPERM},
	{"io_uring_register", SYS_io_uring_register, {-1}, EPERM},
	{"keyctl", SYS_keyctl, {-1}, EPERM},
	{"add_key", SYS_add_key, {0}, EPERM},
	{"request_key", SYS_request_key, {0}, EPERM},
	{"userfaultfd", SYS_userfaultfd, {-1}, EPERM},
	{"fanotify_init", SYS_fanotify_init, {-1, -1}, EPERM},
	{"fanotify_mark", SYS_fanotify_mark, {-1}, EPERM},
	{"kexec_load", SYS_kexec_load, {0, 0, 0, -1}, EPERM},
	{"kexec_file_load", SYS_kexec_file_load, {-1, -1, 0, 0, -1}, EPERM},
	{"init_module", SYS_init_module, {0}, EPERM},
	{"finit_module", SYS_finit_module, {-1}, EPERM},
	{"delete_module", SYS_delete_module, {0}, EPERM},
	{"swapon", SYS_swapon, {0}, EPERM},
	{"swapoff", SYS_swapoff, {0}, EPERM},
	{"quotactl", SYS_quotactl, {-1}, EPERM},
	{"quotactl_fd", SYS_quotactl_fd, {-1, -1}, EPERM},
	{"reboot", SYS_reboot, {0}, EPERM},
	{"acct", SYS_acct, {1}, EPERM},
	{"settimeofday", SYS_settimeofday, {1, 1}, EPERM},
	{"clock_settime", SYS_clock_settime, {-1, 0}, EPERM},
	{"clock_adjtime", SYS_clock_adjtime, {-1, 0}, EPERM},
	{"adjtimex", SYS_adjtimex, {0}, EPERM},
	{"syslog", SYS_syslog, {-1}, EPERM},
	{"open_by_handle_at", SYS_open_by_handle_at, {-1, 0, 0}, EPERM},
	{"mbind", SYS_mbind, {1}, EPERM},
	{"migrate_pages", SYS_migrate_pages, {-1}, EPERM},
	{"move_pages", SYS_move_pages, {-1}, EPERM},
#ifdef SYS_iopl
	{"iopl", SYS_iopl, {4}, EPERM},
	{"ioperm", SYS_ioperm, {-1, -1, 1}, EPERM},
#endif
	{"unshare user", SYS_unshare, {CLONE_NEWUSER}, EPERM},
	{"unshare mount", SYS_unshare, {CLONE_NEWNS}, EPERM},
	{"unshare pid", SYS_unshare, {CLONE_NEWPID}, EPERM},
	{"unshare net", SYS_unshare, {CLONE_NEWNET}, EPERM},
	{"unshare ipc", SYS_unshare, {CLONE_NEWIPC}, EPERM},
	{"unshare uts", SYS_unshare, {CLONE_NEWUTS}, EPERM},
	{"unshare cgroup", SYS_unshare, {CLONE_NEWCGROUP}, EPERM},
	{"unshare time", SYS_unshare, {CLONE_NEWTIME}, EPERM},
	{"unshare user among others", SYS_unshare, {CLONE_NEWUSER | CLONE_FS}, EPERM},
	{"unshare user, high bit", SYS_unshare, {CLONE_NEWUSER | HIGH}, EPERM},
	{"clone user", SYS_clone, {CLONE_NEWUSER | SIGCHLD}, EPERM},
	{"clone user, high bit", SYS_clone, {CLONE_NEWUSER | SIGCHLD | HIGH}, EPERM},
	{"clone net", SYS_clone, {CLONE_NEWNET | SIGCHLD}, EPERM},
	{"ioctl TIOCSTI", SYS_ioctl, {-1, TIOCSTI}, EPERM},
	{"ioctl TIOCSTI, high bit", SYS_ioctl, {-1, TIOCSTI | HIGH}, EPERM},
	{"ioctl TIOCLINUX", SYS_ioctl, {-1, TIOCLINUX}, EPERM},
	{"ioctl TIOCLINUX, high bit", SYS_ioctl, {-1, TIOCLINUX | HIGH}, EPERM},
	{"ioctl TIOCSETD", SYS_ioctl, {-1, TIOCSETD}, EPERM},
	{"mknod character", SYS_mknodat, {-1, 0, S_IFCHR | 0600}, EPERM},
	{"mknod block", SYS_mknodat, {-1, 0, S_IFBLK | 0600}, EPERM},
	{"mknod block, high bits", SYS_mknodat, {-1, 0, S_IFBLK | 0600 | 1L << 20 | HIGH}, EPERM},
	{"personality read implies exec", SYS_personality, {READ_IMPLIES_EXEC}, EPERM},
	{"personality low mappings", SYS_personality, {MMAP_PAGE_ZERO | HIGH}, EPERM},
	{"prctl PR_SET_MM", SYS_prctl, {PR_SET_MM, -1}, EPERM},
	{"prctl PR_SET_MEMORY_MERGE", SYS_prctl, {PR_SET_MEMORY_MERGE, -1}, EPERM},
	{"socket packet", SYS_socket, {AF_PACKET, SOCK_RAW, 0}, EPERM},
	{"socket raw", SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}, EPERM},
	{"socket raw, with flags", SYS_socket, {AF_INET, SOCK_RAW | SOCK_CLOEXEC, 0}, EPERM},
	{"socket raw 6", SYS_socket, {AF_INET6, SOCK_RAW, IPPROTO_ICMPV6}, EPERM},
	{"socket sctp", SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}, EPERM},
	{"socket udplite", SYS_socket, {AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE}, EPERM},
	{"socket vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, EPERM},
	{"socket alg", SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}, EPERM},
	{"socket bluetooth", SYS_socket, {AF_BLUETOOTH, SOCK_STREAM, 0}, EPERM},
	{"socket alg, high bit", SYS_socket, {AF_ALG | HIGH, SOCK_SEQPACKET, 0}, EPERM},
	{"socket unspecified", SYS_socket, {AF_UNSPEC, SOCK_STREAM, 0}, EPERM},
	{"socket netfilter", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER}, EPERM},
	{"socket xfrm", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_XFRM}, EPERM},
	{"socketpair inet", SYS_socketpair, {AF_INET, SOCK_STREAM, 0, 0}, EPERM},
};

static const struct trial unknown[] = {
	{"clone3", SYS_clone3, {0, 0}, ENOSYS},
	{"kcmp", SYS_kcmp, {0}, ENOSYS},
	{"name_to_handle_at", SYS_name_to_handle_at, {-1}, ENOSYS},
	{"statmount", __NR_statmount, {0}, ENOSYS},
	{"listmount", __NR_listmount, {0}, ENOSYS},
	{"call 500", 500, {0}, ENOSYS},
	{"call 511", 511, {0}, ENOSYS},
	{"call 512", 512, {0}, ENOSYS},
	{"call 100000", 100000, {0}, ENOSYS},
	{"call -1", -1, {0}, ENOSYS},
	{"socket multipath", SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_MPTCP}, EPROTONOSUPPORT},
	{"socket audit", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT}, EPROTONOSUPPORT},
	{"socket udev", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT},
		EPROTONOSUPPORT},
};

/* Reached the kernel: its own answer, or success. */
static const struct trial allowed[] = {
	{"getpid", SYS_getpid, {0}, 0},
	{"read", SYS_read, {-1, 0, 0}, EBADF},
	{"write", SYS_write, {-1, 0, 0}, EBADF},
	{"openat", SYS_openat, {AT_FDCWD, 0, O_RDWR}, EFAULT},
	{"mknod fifo", SYS_mknodat, {AT_FDCWD, 0, S_IFIFO | 0600}, EFAULT},
	{"mknod file", SYS_mknodat, {AT_FDCWD, 0, S_IFREG | 0600}, EFAULT},
	{"fchmodat setuid", SYS_fchmodat, {AT_FDCWD, 0, 04755}, EFAULT},
	{"ioctl FIONREAD", SYS_ioctl, {-1, FIONREAD, 0}, EBADF},
	{"ioctl TIOCSCTTY", SYS_ioctl, {-1, TIOCSCTTY, 0}, EBADF},
	{"unshare files", SYS_unshare, {CLONE_FILES}, 0},
	{"unshare fs", SYS_unshare, {CLONE_FS}, 0},
	{"personality none", SYS_personality, {0}, 0},
	{"personality query", SYS_personality, {0xffffffff}, 0},
	{"personality for gdb", SYS_personality, {ADDR_NO_RANDOMIZE}, 0},
	{"prctl name", SYS_prctl, {PR_SET_NAME, 0}, EFAULT},
	{"socket unix", SYS_socket, {AF_UNIX, SOCK_SEQPACKET, 0}, 0},
	{"socket tcp", SYS_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP}, 0},
	{"socket udp", SYS_socket, {AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0}, 0},
	{"socket netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}, 0},
	{"socketpair", SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, 0}, EFAULT},
	{"connect", SYS_connect, {-1, 0, 0}, EBADF},
	{"ptrace", SYS_ptrace, {0xffff, 0}, ESRCH},
	{"process_vm_readv", SYS_process_vm_readv, {1, 0, 0, 0, 0, 1}, EINVAL},
	{"memfd_create", SYS_memfd_create, {0, 0}, EFAULT},
	{"pidfd_open", SYS_pidfd_open, {-1, 0}, EINVAL},
	{"landlock", SYS_landlock_create_ruleset, {0, 0, 1u << 31}, EINVAL},
	{"seccomp", SYS_seccomp, {-1, 0, 0}, EINVAL},
	{"futex, unaligned", SYS_futex, {1, 1}, EINVAL},
};

static const struct trial suid[] = {
	{"chmod", SYS_fchmodat, {AT_FDCWD, 0, 04755}, EPERM},
	{"chmod setgid", SYS_fchmodat, {AT_FDCWD, 0, 02755}, EPERM},
	{"chmod, high bit", SYS_fchmodat, {AT_FDCWD, 0, 04755 | HIGH}, EPERM},
	{"fchmod", SYS_fchmod, {-1, 06755}, EPERM},
	{"fchmodat2", __NR_fchmodat2, {AT_FDCWD, 0, 04755, 0}, EPERM},
	{"mknodat", SYS_mknodat, {AT_FDCWD, 0, S_IFREG | 04755}, EPERM},
	{"openat creating", SYS_openat, {AT_FDCWD, 0, O_CREAT | O_WRONLY, 04755}, EPERM},
	{"openat nameless", SYS_openat, {AT_FDCWD, 0, O_TMPFILE | O_WRONLY, 04755}, EPERM},
	{"openat2", SYS_openat2, {-1}, ENOSYS},
#ifdef SYS_chmod
	{"chmod", SYS_chmod, {0, 04755}, EPERM},
	{"creat", SYS_creat, {0, 04755}, EPERM},
	{"mknod", SYS_mknod, {0, 04755}, EPERM},
	{"open creating", SYS_open, {0, O_CREAT | O_RDWR, 02755}, EPERM},
#endif
	{"chmod plain", SYS_fchmodat, {AT_FDCWD, 0, 01777}, EFAULT},
	{"openat creating plain", SYS_openat, {AT_FDCWD, 0, O_CREAT | O_WRONLY, 0755}, EFAULT},
	{"openat reading, stray mode", SYS_openat, {AT_FDCWD, 0, O_RDONLY, 04755}, EFAULT},
	{"mkdirat: the kernel drops it", SYS_mkdirat, {AT_FDCWD, 0, 06755}, EFAULT},
};

static int shared_fd(void)
{
	return memfd_create("trials", MFD_CLOEXEC);
}

static int attempt(const struct trial *t)
{
	errno = 0;
	return syscall(t->nr, t->args[0], t->args[1], t->args[2], t->args[3], t->args[4],
		       t->args[5]) < 0
		       ? errno
		       : 0;
}

static int install(unsigned flags, int *ret_listener)
{
	struct err err = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return seccomp_install(flags, ret_listener, &err);
}

/* Wait for a child: its exit status, or minus the signal that ended it. */
static int reap(pid_t pid)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1000;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Make all calls of the table under a filter without listener, and compare. */
static void check_trials(unsigned flags, const struct trial *trials, size_t n)
{
	int got[TRIALS_MAX];
	AUTO_FD int results = shared_fd();
	pid_t pid;

	CHECK(n <= TRIALS_MAX && results >= 0);
	memset(got, 0xff, sizeof(got));
	pid = fork();
	if (pid == 0) {
		int listener = 0;

		if (install(flags, &listener) < 0 || listener != -EBADF)
			_exit(1);
		for (size_t i = 0; i < n; i++)
			got[i] = attempt(&trials[i]);
		_exit(pwrite(results, got, sizeof(got), 0) == sizeof(got) ? 0 : 2);
	}
	CHECK_INT(reap(pid), 0);
	CHECK(pread(results, got, sizeof(got), 0) == sizeof(got));
	for (size_t i = 0; i < n; i++)
		if (!CHECK_INT(got[i], trials[i].want))
			tap_print("# in '%s'\n", trials[i].what);
}

static void dangerous_calls_get_eperm(void)
{
	check_trials(0, dangerous, ARRAY_LEN(dangerous));
}

static void unknown_calls_get_enosys(void)
{
	check_trials(0, unknown, ARRAY_LEN(unknown));
}

static void allowed_calls_reach_the_kernel(void)
{
	check_trials(0, allowed, ARRAY_LEN(allowed));
}

static void setuid_modes_are_refused_if_asked(void)
{
	check_trials(SECCOMP_NO_SUID, suid, ARRAY_LEN(suid));
	check_trials(SECCOMP_NO_SUID, dangerous, ARRAY_LEN(dangerous));
}

static void a_shell_with_pipes_runs_under_every_plain_filter(void)
{
	static const unsigned flags[] = {0, SECCOMP_NO_SUID};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			int listener;

			if (install(flags[i], &listener) < 0)
				_exit(1);
			(void)execl("/bin/sh", "sh", "-c",
				"test \"$(echo one two | tr o 0 | wc -w)\" -eq 2 && exit 42", NULL);
			_exit(2);
		}
		CHECK_INT(reap(pid), 42);
	}
}

#ifdef __x86_64__
static int ended_by_call(bool filtered, void (*call)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		int listener;

		if (filtered && install(0, &listener) < 0)
			_exit(1);
		call();
		_exit(0);
	}
	return reap(pid);
}

static void call_x32(void)
{
	(void)syscall(0x40000000 | SYS_getpid);
}

static void call_i386(void)
{
	long nr = 20; /* getpid there, writev here */

	__asm__ volatile("int $0x80" : "+a"(nr) : : "memory", "r8", "r9", "r10", "r11");
}

static void another_abi_kills(void)
{
	/* Without the filter the i386 gate works, or the kernel is built without it. */
	int plain = ended_by_call(false, call_i386);

	CHECK_INT(ended_by_call(true, call_x32), -SIGSYS);
	CHECK_INT(ended_by_call(true, call_i386), plain == 0 ? -SIGSYS : -SIGSEGV);
}
#endif

/* A child under a filter with listener. */
struct guarded {
	pid_t pid;
	int listener; /* owned */
};

/* Start fn under the filter; its return value is the child's exit status. */
static bool start(unsigned flags, int (*fn)(void), struct guarded *ret)
{
	struct err err = {0};
	int pair[2];
	size_t fds_n = 1;
	char byte = 0;
	bool ok;

	if (sock_pair(pair, &err) < 0)
		return false;
	ret->pid = fork();
	if (ret->pid == 0) {
		int listener = -EBADF;

		if (install(flags, &listener) < 0 ||
			sock_send(pair[1], &byte, 1, &listener, 1, &err) < 0)
			_exit(250);
		(void)close(listener);
		(void)close(pair[0]);
		(void)close(pair[1]);
		_exit(fn());
	}
	(void)close(pair[1]);
	ok = sock_receive(pair[0], &byte, 1, &ret->listener, &fds_n, &err) == 1 && fds_n == 1;
	(void)close(pair[0]);
	return ok;
}

/* Wait until the listener has something to say. */
static int next_event(const struct guarded *g, struct seccomp_event *ret)
{
	struct pollfd p = {.fd = g->listener, .events = POLLIN};
	struct err err = {0};

	(void)poll(&p, 1, WAIT_MS);
	return seccomp_receive(g->listener, ret, &err);
}

/* The next call shown is this one, of this kind; let it go on. */
static void expect(const struct guarded *g, long nr, bool is_watch)
{
	struct seccomp_event ev = {0};
	struct err err = {0};

	if (!CHECK_INT(next_event(g, &ev), 0))
		return;
	CHECK_INT(ev.nr, nr);
	CHECK_INT(ev.pid, g->pid);
	CHECK_INT(ev.is_watch, is_watch);
	CHECK(seccomp_still_waiting(g->listener, ev.id));
	CHECK_INT(seccomp_answer(g->listener, &ev, &err), 0);
	CHECK(!seccomp_still_waiting(g->listener, ev.id));
}

static void finish(struct guarded *g, int want)
{
	struct seccomp_event ev;

	CHECK_INT(next_event(g, &ev), -EPIPE);
	CHECK_INT(reap(g->pid), want);
	closep(&g->listener);
}

static int try_dangerous(void)
{
	for (size_t i = 0; i < ARRAY_LEN(dangerous); i++)
		if (attempt(&dangerous[i]) != EPERM)
			return (int)i + 1;
	return 0;
}

static void listener_hears_of_every_dangerous_call(void)
{
	struct guarded g;

	if (!CHECK(start(SECCOMP_NOTIFY, try_dangerous, &g)))
		return;
	for (size_t i = 0; i < ARRAY_LEN(dangerous); i++) {
		struct seccomp_event ev = {0};
		struct err err = {0};

		if (!CHECK_INT(next_event(&g, &ev), 0))
			break;
		CHECK_INT(ev.nr, dangerous[i].nr);
		CHECK_INT(ev.args[0], dangerous[i].args[0]);
		CHECK_INT(ev.args[2], dangerous[i].args[2]);
		CHECK(!ev.is_watch);
		CHECK_INT(seccomp_answer(g.listener, &ev, &err), 0);
	}
	finish(&g, 0);
}

static int try_unknown_and_allowed(void)
{
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
		if (attempt(&unknown[i]) != unknown[i].want)
			return (int)i + 1;
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		if (attempt(&allowed[i]) != allowed[i].want)
			return (int)i + 101;
	return 0;
}

static void listener_hears_of_nothing_else(void)
{
	struct guarded g;

	if (!CHECK(start(SECCOMP_NOTIFY, try_unknown_and_allowed, &g)))
		return;
	finish(&g, 0);
}

static int connect_nowhere(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 || errno != ENOENT)
		return 1;
	return mkdir("/nonexistent/dir", 0700) == 0 || errno != ENOENT;
}

static void watched_connect_is_shown_and_continues(void)
{
	struct guarded g;

	if (!CHECK(start(SECCOMP_NOTIFY | SECCOMP_WATCH_CONNECT, connect_nowhere, &g)))
		return;
	expect(&g, SYS_connect, true);
	finish(&g, 0); /* and the mkdir was not shown */
}

static int write_around(void)
{
	const struct trial node = {"", SYS_mknodat, {AT_FDCWD, 0, S_IFCHR | 0600}, EPERM};
	int fd = openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 1;
	fd = openat(AT_FDCWD, "/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return 2;
	if (mkdirat(AT_FDCWD, "/nonexistent/dir", 0700) == 0 || errno != ENOENT)
		return 3;
	if (attempt(&node) != EPERM)
		return 4;
	if (unlinkat(AT_FDCWD, "/nonexistent/file", 0) == 0 || errno != ENOENT)
		return 5;
	return 0;
}

static void watched_writes_are_shown_and_continue(void)
{
	static const unsigned flags[] = {SECCOMP_NOTIFY | SECCOMP_WATCH_WRITES,
		SECCOMP_NOTIFY | SECCOMP_WATCH_WRITES | SECCOMP_WATCH_CONNECT | SECCOMP_NO_SUID};
	struct guarded g;

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		if (!CHECK(start(flags[i], write_around, &g)))
			return;
		expect(&g, SYS_openat, true); /* the one for writing */
		expect(&g, SYS_mkdirat, true);
		expect(&g, SYS_mknodat, false); /* a device node is no watch but a refusal */
		expect(&g, SYS_unlinkat, true);
		finish(&g, 0);
	}
}

static int try_suid(void)
{
	for (size_t i = 0; i < ARRAY_LEN(suid); i++)
		if (suid[i].want != EFAULT && attempt(&suid[i]) != suid[i].want)
			return (int)i + 1;
	return 0;
}

/* A refusal of setuid that reached the listener would look like a watched chmod and be let go. */
static void setuid_refusals_never_reach_the_listener(void)
{
	const unsigned all =
		SECCOMP_NOTIFY | SECCOMP_WATCH_CONNECT | SECCOMP_WATCH_WRITES | SECCOMP_NO_SUID;
	struct guarded g;

	if (!CHECK(start(all, try_suid, &g)))
		return;
	finish(&g, 0);
}

static int one_mount(void)
{
	return attempt(&dangerous[0]);
}

static void a_caller_that_dies_meanwhile_is_told(void)
{
	struct seccomp_event ev = {0};
	struct err err = {0};
	struct guarded g;

	if (!CHECK(start(SECCOMP_NOTIFY, one_mount, &g)))
		return;
	CHECK_INT(next_event(&g, &ev), 0);
	CHECK_STR(seccomp_syscall_name(ev.nr), "mount");
	CHECK_INT(seccomp_receive(g.listener, &ev, &err), -EAGAIN);
	CHECK(kill(g.pid, SIGKILL) == 0);
	CHECK_INT(reap(g.pid), -SIGKILL);
	CHECK(!seccomp_still_waiting(g.listener, ev.id));
	CHECK_INT(seccomp_answer(g.listener, &ev, &err), -ENOENT);
	closep(&g.listener);
}

static void without_a_listener_left_calls_still_fail(void)
{
	struct guarded g;

	if (!CHECK(start(SECCOMP_NOTIFY, one_mount, &g)))
		return;
	closep(&g.listener);
	CHECK_INT(reap(g.pid), ENOSYS); /* the kernel's answer when nobody listens */
}

/* The kernel has room for one listener: the inner filter refuses all the same, and tells nobody. */
static int second_listener(void)
{
	struct err err = {0};
	int listener = -1;

	if (seccomp_install(SECCOMP_NOTIFY, &listener, &err) < 0 || listener != -EBADF)
		return 1;
	return syscall(SYS_swapoff, "/none") < 0 && errno == EPERM ? 0 : 2;
}

static void under_another_listener_the_filter_stands_alone(void)
{
	struct guarded g;

	if (!CHECK(start(SECCOMP_NOTIFY, second_listener, &g)))
		return;
	finish(&g, 0);
}

static void bad_flags_install_nothing(void)
{
	struct err err = {0};
	int listener = -7;

	CHECK_INT(seccomp_install(SECCOMP_WATCH_CONNECT, &listener, &err), -EINVAL);
	CHECK_STR(err.msg, "seccomp: no filter for flags 0x2");
	CHECK_INT(seccomp_install(1u << 4, &listener, &err), -EINVAL);
	CHECK_INT(seccomp_install(~0u, &listener, &err), -EINVAL);
	CHECK_INT(listener, -7);
	CHECK_INT(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 0);
}

static void installing_needs_no_new_privs(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct err err = {0};
		int listener;

		if (caps_set(0, &err) < 0)
			_exit(1);
		_exit(seccomp_install(0, &listener, &err) == -EACCES ? 0 : 2);
	}
	CHECK_INT(reap(pid), 0);
}

static void receiving_from_a_wrong_descriptor_is_an_error(void)
{
	struct seccomp_event ev;
	struct err err = {0};
	AUTO_FD int fd = shared_fd(); /* always readable, but no listener */

	CHECK_INT(seccomp_receive(-1, &ev, &err), -EAGAIN); /* poll() passes over negative ones */
	CHECK_INT(seccomp_receive(1000000, &ev, &err), -EBADF);
	CHECK_INT(seccomp_receive(fd, &ev, &err), -ENOTTY);
}

static void calls_have_names(void)
{
	CHECK_STR(seccomp_syscall_name(SYS_mount), "mount");
	CHECK_STR(seccomp_syscall_name(SYS_read), "read");
	CHECK_STR(seccomp_syscall_name(SYS_io_uring_setup), "io_uring_setup");
	CHECK_STR(seccomp_syscall_name(__NR_open_tree_attr), "open_tree_attr");
	CHECK_STR(seccomp_syscall_name(-1), NULL);
	CHECK_STR(seccomp_syscall_name(500), NULL);
	CHECK_STR(seccomp_syscall_name(512), NULL);
	CHECK_STR(seccomp_syscall_name(1 << 30), NULL);
}

int main(void)
{
	RUN(dangerous_calls_get_eperm);
	RUN(unknown_calls_get_enosys);
	RUN(allowed_calls_reach_the_kernel);
	RUN(setuid_modes_are_refused_if_asked);
	RUN(a_shell_with_pipes_runs_under_every_plain_filter);
#ifdef __x86_64__
	RUN(another_abi_kills);
#endif
	RUN(listener_hears_of_every_dangerous_call);
	RUN(listener_hears_of_nothing_else);
	RUN(watched_connect_is_shown_and_continues);
	RUN(watched_writes_are_shown_and_continue);
	RUN(setuid_refusals_never_reach_the_listener);
	RUN(a_caller_that_dies_meanwhile_is_told);
	RUN(without_a_listener_left_calls_still_fail);
	RUN(under_another_listener_the_filter_stands_alone);
	RUN(bad_flags_install_nothing);
	RUN(installing_needs_no_new_privs);
	RUN(receiving_from_a_wrong_descriptor_is_an_error);
	RUN(calls_have_names);
	return tap_done();
}
