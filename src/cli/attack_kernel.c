/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_kernel - group kernel: system calls that widen what a flaw can reach.
 *
 * Each call has arguments that the kernel refuses late (EFAULT, EINVAL, EBADF):
 * such an answer means that the filter let it in; EPERM that it did not. Where
 * the kernel's own permission check comes first, the control run as root, or the
 * refusal recorded by the seccomp wall, tells the two apart.
 */
#include "cli/attack.h"
#include "sys/kernel_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define BAD     ATTACK_BAD_ADDRESS
#define NO_FD   ((uintptr_t)-1)
#define INVALID ((uintptr_t)0x7fffff00)

static int nested_clone(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	/* The raw call: flags first on x86-64 and arm64. Bits above 32 are there to be ignored. */
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD | a->arg[0], 0, 0, 0, 0);

	(void)c;
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, NULL, 0);
	return attack_reached(r, pid, "clone(CLONE_NEWUSER)");
}

static int nested_clone3(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	} args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	(void)a;
	(void)c;
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, NULL, 0);
	return attack_reached(r, pid, "clone3(CLONE_NEWUSER)");
}

/* A clock that cannot be set: nanoseconds out of range. */
static int set_clock(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct timespec ts = {.tv_nsec = -1};

	(void)a;
	(void)c;
	return attack_reached(r, syscall(SYS_clock_settime, CLOCK_REALTIME, &ts), "clock_settime");
}

/* ADJ_TICK far outside of what adjtimex() accepts. */
static int adjust_clock(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct {
		uint32_t modes;
		uint32_t pad;
		uint64_t rest[40];
	} tx = {.modes = 0x4000};

	(void)a;
	(void)c;
	return attack_reached(r, syscall(SYS_adjtimex, &tx), "adjtimex");
}

#if defined(__x86_64__)
/* getpid() through the 32-bit gate: another table of system calls, which filters forget. */
static int int80(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	long result;

	(void)a;
	(void)c;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	if (result == -ENOSYS) {
		errno = ENOSYS;
		return attack_refused(r, "int 0x80");
	}
	return attack_broke(r, "a 32-bit system call was carried out");
}

static int x32(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	(void)c;
	return attack_reached(r, syscall(0x40000000L | SYS_getpid), "x32 getpid");
}
#endif

static int seccomp_off(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	int mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);

	(void)a;
	(void)c;
	if (mode == 0)
		return attack_broke(r, "no filter is installed");
	if (prctl(PR_SET_SECCOMP, 0, 0, 0, 0) == 0)
		return attack_broke(r, "the filter was switched off");
	return attack_refused(r, "prctl(PR_SET_SECCOMP, 0)");
}

/* Ask for capabilities over the kernel's switches that no box has a use for. */
static int regain_caps(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {
		{.effective = 1u << CAP_SYS_ADMIN, .permitted = 1u << CAP_SYS_ADMIN}};

	(void)a;
	(void)c;
	if (syscall(SYS_capset, &h, d) == 0)
		return attack_broke(r, "has CAP_SYS_ADMIN");
	return attack_refused(r, "capset(CAP_SYS_ADMIN)");
}

static int bounding_set(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const int caps[] = {CAP_SYS_ADMIN, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT,
		CAP_SYS_TIME, CAP_SYS_PTRACE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYSLOG, CAP_BPF,
		CAP_PERFMON, CAP_MAC_ADMIN, CAP_LINUX_IMMUTABLE};

	(void)a;
	(void)c;
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
		if (prctl(PR_CAPBSET_READ, caps[i], 0, 0, 0) == 1)
			return attack_broke(r, "capability %d is in the bounding set", caps[i]);
	errno = EPERM;
	return attack_refused(r, "13 capabilities over the kernel are out of the bounding set");
}

/* Become the user who owns a file: only possible if ids outside of the box are within reach. */
static int become_host_user(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	(void)c;
	if (setresuid(0x6f000000, 0x6f000000, 0x6f000000) == 0)
		return attack_broke(r, "became a user of the host");
	return attack_refused(r, "setresuid() to an id outside of the box");
}

static const char no_file[] = "/bawn-attack-no-such-file", no_module[] = "bawn_no_such_module";

#define CALL(name) .try = attack_try_call, .call = #name, .nr = SYS_##name
#define FILTERED   .wall = WALL_SECCOMP, .flags = ATTACK_CONTROL

static const struct attack table[] = {
	{.name = "kernel/bpf",
		FILTERED,
		.success = "programs can be loaded into the kernel",
		CALL(bpf),
		.arg = {0, BAD, 128}},
	{.name = "kernel/perf-event-open",
		FILTERED,
		.success = "the performance counters' code, source of many flaws, is reached",
		CALL(perf_event_open),
		.arg = {BAD, 0, NO_FD, NO_FD, 0}},
	{.name = "kernel/io-uring",
		FILTERED,
		.success = "io_uring carries out calls that no filter sees",
		CALL(io_uring_setup),
		.arg = {1, BAD}},
	{.name = "kernel/userfaultfd",
		FILTERED,
		.success = "the kernel can be stopped in the middle of a copy",
		CALL(userfaultfd),
		.arg = {1 | 0x100}},
	{.name = "kernel/keyctl",
		FILTERED,
		.success = "keyrings, which have no namespace, are shared with the host",
		CALL(keyctl),
		.arg = {0, (uintptr_t)-4, 0}},
	{.name = "kernel/add-key",
		FILTERED,
		.success = "keys are added to the host's keyrings",
		CALL(add_key),
		.arg = {BAD, BAD, 0, 0, 0}},
	{.name = "kernel/request-key",
		FILTERED,
		.success = "the kernel runs a helper as root outside",
		CALL(request_key),
		.arg = {BAD, BAD, 0, 0}},
	{.name = "kernel/init-module",
		FILTERED,
		.success = "code is loaded into the kernel",
		CALL(init_module),
		.arg = {BAD, 1, BAD}},
	{.name = "kernel/finit-module",
		FILTERED,
		.success = "code is loaded into the kernel from a file",
		CALL(finit_module),
		.arg = {NO_FD, BAD, 0}},
	{.name = "kernel/delete-module",
		FILTERED,
		.success = "code is removed from the kernel",
		CALL(delete_module),
		.arg = {(uintptr_t)no_module, O_NONBLOCK}},
	{.name = "kernel/kexec-load",
		FILTERED,
		.success = "another kernel is put in place",
		CALL(kexec_load),
		.arg = {0, 1000, 0, 0}},
	{.name = "kernel/kexec-file-load",
		FILTERED,
		.success = "another kernel is put in place from a file",
		CALL(kexec_file_load),
		.arg = {NO_FD, NO_FD, 0, 0, INVALID}},
	{.name = "kernel/unshare-user-namespace",
		FILTERED,
		.success = "a nested user namespace gives every capability over new objects",
		CALL(unshare),
		.arg = {CLONE_NEWUSER}},
	{.name = "kernel/clone-user-namespace",
		FILTERED,
		.success = "the same by clone()",
		.try = nested_clone,
		.call = "clone"},
	{.name = "kernel/clone-high-bits",
		FILTERED,
		.success =
			"the same, with bits set that the filter compares and the kernel ignores",
		.try = nested_clone,
		.call = "clone",
		.arg = {(uintptr_t)1 << 40}},
	{.name = "kernel/clone3-user-namespace",
		FILTERED,
		.success = "the same by clone3(), whose flags a filter cannot see",
		.try = nested_clone3,
		.call = "clone3"},
	{.name = "kernel/setns",
		FILTERED,
		.success = "the box enters namespaces of others",
		CALL(setns),
		.arg = {NO_FD, 0}},
	{.name = "kernel/clock-settime",
		FILTERED,
		.success = "the host's clock is set",
		.try = set_clock,
		.call = "clock_settime"},
	{.name = "kernel/settimeofday",
		FILTERED,
		.success = "the host's clock is set by the old call",
		CALL(settimeofday),
		.arg = {BAD, 0}},
	{.name = "kernel/adjtimex",
		FILTERED,
		.success = "the host's clock is made to run wrong",
		.try = adjust_clock,
		.call = "adjtimex"},
	{.name = "kernel/swapon",
		FILTERED,
		.success = "swap is added",
		CALL(swapon),
		.arg = {(uintptr_t)no_file, 0}},
	{.name = "kernel/swapoff",
		FILTERED,
		.success = "swap is taken away",
		CALL(swapoff),
		.arg = {(uintptr_t)no_file}},
	{.name = "kernel/quotactl",
		FILTERED,
		.success = "the host's quotas are changed",
		CALL(quotactl),
		.arg = {INVALID | 0xff, BAD, 0, 0}},
	{.name = "kernel/acct",
		FILTERED,
		.success = "process accounting of the whole host goes to the box",
		CALL(acct),
		.arg = {BAD}},
	{.name = "kernel/reboot",
		FILTERED,
		.success = "the host is rebooted",
		CALL(reboot),
		.arg = {0, 0, 0, 0}},
	{.name = "kernel/syslog",
		FILTERED,
		.success = "the kernel's log is read or cleared",
		CALL(syslog),
		.arg = {99, 0, 0}},
	{.name = "kernel/fanotify",
		FILTERED,
		.success = "the box watches whole mounts",
		CALL(fanotify_init),
		.arg = {0x200, 0xffffffff}},
	{.name = "kernel/name-to-handle",
		FILTERED,
		.success = "file handles, the first half of the Shocker attack, can be had",
		CALL(name_to_handle_at),
		.arg = {NO_FD, BAD, BAD, BAD, INVALID}},
	{.name = "kernel/memory-policy-of-others",
		FILTERED,
		.success = "pages of other processes are moved between nodes",
		CALL(move_pages),
		.arg = {0, 1, BAD, BAD, BAD, INVALID}},
#ifdef SYS_iopl
	{.name = "kernel/iopl",
		FILTERED,
		.success = "the box talks to hardware ports",
		CALL(iopl),
		.arg = {99}},
#endif
#ifdef SYS_ioperm
	{.name = "kernel/ioperm",
		FILTERED,
		.success = "the box talks to some hardware ports",
		CALL(ioperm),
		.arg = {INVALID, 1, 1}},
#endif
#if defined(__x86_64__)
	{.name = "kernel/int80-32-bit-calls",
		.wall = WALL_SECCOMP,
		.success = "the 32-bit call table bypasses the filter",
		.try = int80,
		.expect = {-SIGSYS, -SIGSEGV, ENOSYS}},
	{.name = "kernel/x32-calls",
		.wall = WALL_SECCOMP,
		.success = "the x32 call numbers bypass the filter",
		.try = x32,
		.expect = {-SIGSYS, ENOSYS}},
#endif
	{.name = "kernel/seccomp-switched-off",
		.wall = WALL_SECCOMP,
		.success = "the filter is removed from inside",
		.try = seccomp_off,
		.expect = {EINVAL}},
	{.name = "kernel/regain-capabilities",
		.wall = WALL_CAPS,
		.success = "root of the box gets CAP_SYS_ADMIN back",
		.try = regain_caps,
		.flags = ATTACK_AS_ROOT,
		.expect = {EPERM}},
	{.name = "kernel/bounding-set",
		.wall = WALL_CAPS,
		.success = "a program with file capabilities could get powers over the kernel",
		.try = bounding_set,
		.flags = ATTACK_AS_ROOT,
		.expect = {EPERM}},
	{.name = "kernel/become-host-user",
		.wall = WALL_USER,
		.success = "root of the box becomes any user of the host",
		.try = become_host_user,
		.flags = ATTACK_AS_ROOT,
		.expect = {EINVAL}},
};

const struct attack_table attack_table_kernel = {table, sizeof(table) / sizeof(table[0])};
