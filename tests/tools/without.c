/* SPDX-License-Identifier: Apache-2.0 */

/*
 * tests/tools/without - run a command on a kernel that seems to lack something.
 *
 *   without NAME[=ERRNO][,NAME[=ERRNO]…] -- CMD [ARG…]
 *
 * NAME is a system call (it then fails with ENOSYS, or the ERRNO given), or one of
 *   landlock   all three Landlock calls
 *   mountapi   fsopen, fsconfig, fsmount, fspick, open_tree, move_mount, mount_setattr
 *   usernotif  seccomp() asking for a notification listener (EINVAL, as before 5.0)
 *   idmap      mount_setattr() asking for an idmapped mount (EINVAL, as a file system
 *              that cannot do it says); other uses of the call go through
 *
 * All but `idmap` are a seccomp filter, inherited by everything CMD starts, set up
 * without no_new_privs when we are root so that setuid programs still work below
 * us. Whether a mount_setattr() asks for an idmap stands in memory, which a filter
 * cannot read; we trace CMD for that one (a notification listener would not do: a
 * process can have only one, and bawn wants its own).
 *
 * Exit status: that of CMD, 128 + signal, or 125 for a failure of our own.
 */
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/types.h>
#include <seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "without: this architecture is not known"
#endif

#define RULES_MAX     64
#define IDMAP_FLAG    0x00100000u /* MOUNT_ATTR_IDMAP, Linux 5.12 */
#define LISTENER_FLAG 8u          /* SECCOMP_FILTER_FLAG_NEW_LISTENER, Linux 5.0 */
#define EXIT_OURS     125

struct rule {
	int nr;
	uint32_t action; /* SECCOMP_RET_… with its data */
};

struct rules {
	struct rule v[RULES_MAX];
	size_t n;
	int usernotif; /* errno for seccomp() with a listener, 0 = leave it alone */
	int want_trace;
};

static const struct {
	const char *name;
	const char *calls[8];
} groups[] = {
	{"landlock",
		{"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", NULL}},
	{"mountapi", {"fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "move_mount",
			     "mount_setattr", NULL}},
};

/* Calls newer than the libseccomp of Debian 12 would be looked up here; numbers are arch-common. */
static const struct {
	const char *name;
	int nr;
} newer[] = {
	{"fchmodat2", 452},
	{"statmount", 457},
	{"listmount", 458},
	{"open_tree_attr", 467},
};

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	(void)fputs("without: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	_exit(EXIT_OURS);
}

static int errno_by_name(const char *name)
{
	for (int i = 1; i < 134; i++) {
		const char *known = strerrorname_np(i);

		if (known && strcmp(known, name) == 0)
			return i;
	}
	die("'%s' is not the name of an errno", name);
}

static int call_by_name(const char *name)
{
	int nr;

	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
		if (strcmp(newer[i].name, name) == 0)
			return newer[i].nr;
	nr = seccomp_syscall_resolve_name(name);
	if (nr < 0)
		die("'%s' is not a system call of this architecture, nor one of landlock, "
		    "mountapi, usernotif, idmap",
			name);
	return nr;
}

static void add(struct rules *r, const char *call, uint32_t action)
{
	if (r->n == RULES_MAX)
		die("more than %d calls", RULES_MAX);
	r->v[r->n++] = (struct rule){call_by_name(call), action};
}

static void add_word(struct rules *r, char *word)
{
	char *eq = strchr(word, '=');
	int code = 0;

	if (eq) {
		*eq = '\0';
		code = errno_by_name(eq + 1);
	}
	if (strcmp(word, "idmap") == 0) {
		add(r, "mount_setattr", SECCOMP_RET_TRACE | (uint32_t)(code ? code : EINVAL));
		r->want_trace = 1;
		return;
	}
	if (strcmp(word, "usernotif") == 0) {
		r->usernotif = code ? code : EINVAL;
		return;
	}
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		if (strcmp(groups[g].name, word) != 0)
			continue;
		for (const char *const *c = groups[g].calls; *c; c++)
			add(r, *c, SECCOMP_RET_ERRNO | (uint32_t)(code ? code : ENOSYS));
		return;
	}
	add(r, word, SECCOMP_RET_ERRNO | (uint32_t)(code ? code : ENOSYS));
}

static void install(const struct rules *r)
{
	struct sock_filter f[2 * RULES_MAX + 16];
	struct sock_fprog prog;
	size_t n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < r->n; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->v[i].nr, 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, r->v[i].action);
	}
	if (r->usernotif) {
		f[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)__NR_seccomp, 0, 3);
		/* Both our architectures are little-endian: the low half of args[1]. */
		f[n++] = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]));
		f[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JSET | BPF_K, LISTENER_FLAG, 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)r->usernotif);
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

	prog = (struct sock_fprog){(unsigned short)n, f};
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0)
		return;
	/* Not root: the kernel asks for no_new_privs first. */
	if (errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		die("install the filter: %s", strerror(errno));
}

/* Make the stopped call not happen and return -code. */
static void refuse(pid_t pid, int code)
{
	struct user_regs_struct regs;
	struct iovec io = {&regs, sizeof(regs)};

	if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &io) < 0)
		return; /* it was killed meanwhile */
#if defined(__x86_64__)
	/* A call number of -1 skips the call; the result register is then what we put there. */
	regs.orig_rax = (unsigned long long)-1;
	regs.rax = (unsigned long long)-code;
#else
	struct iovec call = {&(int){-1}, sizeof(int)};

	(void)ptrace(PTRACE_SETREGSET, pid, (void *)NT_ARM_SYSTEM_CALL, &call);
	regs.regs[0] = (unsigned long long)-code;
#endif
	(void)ptrace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &io);
}

/* mount_setattr(dfd, path, flags, attr, size): does attr->attr_set ask for an idmap? */
static int asks_for_idmap(pid_t pid)
{
	struct __ptrace_syscall_info info = {0};
	uint64_t attr_set;
	struct iovec to = {&attr_set, sizeof(attr_set)}, from = {NULL, sizeof(attr_set)};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) < 0 ||
		info.op != PTRACE_SYSCALL_INFO_SECCOMP)
		return 0;
	from.iov_base = (void *)(uintptr_t)info.seccomp.args[3];
	if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof(attr_set))
		return 0;
	return (attr_set & IDMAP_FLAG) != 0;
}

/* One stop of a tracee: decide, and let it go on. */
static void resume(pid_t pid, int status)
{
	int event = status >> 16, sig = WSTOPSIG(status);
	unsigned long code = 0;

	if (event == PTRACE_EVENT_SECCOMP) {
		if (asks_for_idmap(pid) && ptrace(PTRACE_GETEVENTMSG, pid, NULL, &code) == 0)
			refuse(pid, (int)code);
		sig = 0;
	} else if (event == PTRACE_EVENT_STOP) {
		/* A group stop is left standing; anything else is the birth of a child. */
		if (sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU) {
			(void)ptrace(PTRACE_LISTEN, pid, NULL, NULL);
			return;
		}
		sig = 0;
	} else if (event != 0) {
		sig = 0;
	}
	(void)ptrace(PTRACE_CONT, pid, NULL, (void *)(long)sig);
}

static int as_exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The command's whole tree under our eyes; returns its exit status when all are gone. */
static int trace(pid_t command)
{
	long opts = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
		    PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
	int status, result = EXIT_OURS;
	pid_t pid;

	if (waitpid(command, &status, WUNTRACED) < 0 || !WIFSTOPPED(status))
		die("the child did not stop");
	if (ptrace(PTRACE_SEIZE, command, NULL, (void *)opts) < 0)
		die("trace the child: %s", strerror(errno));
	(void)kill(command, SIGCONT);
	/* Terminal signals are for the command; we end when it does. */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGQUIT, SIG_IGN);
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFSTOPPED(status))
			resume(pid, status);
		else if (pid == command)
			result = as_exit_status(status);
	}
	return result;
}

int main(int argc, char **argv)
{
	struct rules r = {0};
	pid_t pid;

	if (argc < 4 || strcmp(argv[2], "--") != 0)
		die("usage: without NAME[=ERRNO][,NAME…] -- CMD [ARG…]");
	for (char *list = argv[1], *w; (w = strsep(&list, ","));)
		add_word(&r, w);

	if (r.want_trace) {
		pid = fork();
		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (pid > 0)
			return trace(pid);
		(void)raise(SIGSTOP);
	}
	install(&r);
	(void)execvp(argv[3], argv + 3);
	(void)fprintf(stderr, "without: run '%s': %s\n", argv[3], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
