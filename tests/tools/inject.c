/* SPDX-License-Identifier: Apache-2.0 */

/*
 * tests/tools/inject - make one system call of a sandbox's start fail, and watch what follows.
 *
 *   inject --list|--at ROLE:N [--errno NAME] [--timeout S] [--user UID:GID] --report FILE
 *          -- CMD [ARG…]
 *
 * CMD and all it starts are traced. A process is known by its role: `p` is CMD,
 * `p.1` its first child, `p.1.2` that one's second, so that the same call has the
 * same name in every run whatever the scheduler does. The calls of each role are
 * counted from 1 until the start is over, which is when a process of another pid
 * namespace execs: that is the sandboxed command. Programs that CMD runs on our side
 * (newuidmap) are not counted: they are not ours to harden.
 *
 * The Nth call of ROLE does not happen and returns -ERRNO. close() and munmap()
 * happen all the same: the kernel never refuses those and leaves the thing open.
 *
 * FILE gets one line per fact:
 *   call ROLE N NAME        (--list)
 *   failed ROLE N NAME      the call was made to fail
 *   past                    the start was over before ROLE came to N
 *   hang                    the time was up; everything was killed
 *   exit STATUS | signal N  how CMD ended
 *   left ROLE PID           still alive 5 s after CMD ended, then killed
 *
 * Exit status: 0 if the report is complete, 125 for a failure of our own.
 */
#include <elf.h>
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACEES_MAX 256
#define GRACE_S     5
#define EXIT_OURS   125

struct tracee {
	pid_t pid;
	char role[48]; /* empty: it stopped before its parent's fork event named it */
	int held;      /* the status of that early stop */
	unsigned calls;
	unsigned children;
	bool is_counted; /* between CMD's exec and the end of the start path */
	bool want_error; /* the call it is in must return the error */
};

static struct {
	struct tracee v[TRACEES_MAX];
	size_t n;
	pid_t command;
	bool is_started; /* CMD has been exec'd */
	bool is_over;    /* the sandboxed command has been exec'd */
	bool want_list;
	const char *at_role;
	unsigned at_call;
	bool was_hit;
	int code; /* positive errno */
	FILE *report;
	bool want_user; /* CMD runs as uid, gid, without other groups; we stay root */
	uid_t uid;
	gid_t gid;
	struct stat own_pid_ns;
} run;

static volatile sig_atomic_t time_is_up;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	(void)fputs("inject: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	_exit(EXIT_OURS);
}

static void on_alarm(int sig)
{
	(void)sig;
	time_is_up = 1;
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

static struct tracee *find(pid_t pid)
{
	for (size_t i = 0; i < run.n; i++)
		if (run.v[i].pid == pid)
			return &run.v[i];
	return NULL;
}

static struct tracee *add(pid_t pid)
{
	struct tracee *t;

	if (run.n == TRACEES_MAX)
		die("more than %d processes", TRACEES_MAX);
	t = &run.v[run.n++];
	*t = (struct tracee){.pid = pid};
	return t;
}

static void forget(struct tracee *t)
{
	*t = run.v[--run.n];
}

static void go_on(struct tracee *t, int sig)
{
	/* Once the start is over nothing is counted, and the command runs at full speed. */
	int how = run.is_over && !t->want_error ? PTRACE_CONT : PTRACE_SYSCALL;

	(void)ptrace(how, t->pid, NULL, (void *)(long)sig);
}

/* Put another call number in place of the one about to run. */
static void set_call(pid_t pid, int nr)
{
#if defined(__x86_64__)
	struct user_regs_struct regs;
	struct iovec io = {&regs, sizeof(regs)};

	if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &io) < 0)
		return;
	regs.orig_rax = (unsigned long long)nr;
	(void)ptrace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &io);
#else
	struct iovec io = {&nr, sizeof(nr)};

	(void)ptrace(PTRACE_SETREGSET, pid, (void *)NT_ARM_SYSTEM_CALL, &io);
#endif
}

static void set_result(pid_t pid, int result)
{
	struct user_regs_struct regs;
	struct iovec io = {&regs, sizeof(regs)};

	if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &io) < 0)
		return;
#if defined(__x86_64__)
	regs.rax = (unsigned long long)(long long)result;
#else
	regs.regs[0] = (unsigned long long)(long long)result;
#endif
	(void)ptrace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &io);
}

static void report_call(const char *word, const struct tracee *t, int nr)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

	(void)fprintf(run.report, "%s %s %u ", word, t->role, t->calls);
	if (name)
		(void)fprintf(run.report, "%s\n", name);
	else
		(void)fprintf(run.report, "%d\n", nr);
	free(name);
}

static void on_entry(struct tracee *t, int nr)
{
	if (!t->is_counted || run.is_over)
		return;
	/* These do not return, or return into something that is not a caller. */
	if (nr == __NR_exit || nr == __NR_exit_group || nr == __NR_rt_sigreturn)
		return;
	t->calls++;
	if (run.want_list)
		report_call("call", t, nr);
	if (!run.at_role || run.was_hit || t->calls != run.at_call ||
		strcmp(t->role, run.at_role) != 0)
		return;
	run.was_hit = true;
	t->want_error = true;
	report_call("failed", t, nr);
	/* Not -1: a filter of the tracee's may kill for a number it does not know. */
	if (nr != __NR_close && nr != __NR_munmap)
		set_call(t->pid, __NR_getpid);
}

static void on_syscall(struct tracee *t)
{
	struct __ptrace_syscall_info info = {0};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, (void *)sizeof(info), &info) < 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		on_entry(t, (int)info.entry.nr);
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && t->want_error) {
		set_result(t->pid, -run.code);
		t->want_error = false;
	}
}

static bool is_in_a_box(pid_t pid)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return stat(path, &st) == 0 && st.st_ino != run.own_pid_ns.st_ino;
}

static void on_exec(struct tracee *t)
{
	if (t->pid == run.command && !run.is_started) {
		run.is_started = true;
		t->is_counted = true;
	} else if (is_in_a_box(t->pid)) {
		run.is_over = true;
	} else {
		t->is_counted = false;
	}
}

static void handle(struct tracee *t, int status);

static void on_fork(struct tracee *parent)
{
	unsigned long message = 0;
	struct tracee *child;

	if (ptrace(PTRACE_GETEVENTMSG, parent->pid, NULL, &message) < 0)
		return;
	child = find((pid_t)message);
	if (!child)
		child = add((pid_t)message);
	if (snprintf(child->role, sizeof(child->role), "%s.%u", parent->role, ++parent->children) >=
		(int)sizeof(child->role))
		die("processes nest too deeply");
	child->is_counted = parent->is_counted;
	if (child->held)
		handle(child, child->held);
}

static void handle(struct tracee *t, int status)
{
	int sig = WSTOPSIG(status);

	switch (status >> 16) {
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		on_fork(t);
		sig = 0;
		break;
	case PTRACE_EVENT_EXEC:
		on_exec(t);
		sig = 0;
		break;
	case PTRACE_EVENT_STOP:
		if (sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU) {
			(void)ptrace(PTRACE_LISTEN, t->pid, NULL, NULL);
			return;
		}
		sig = 0;
		break;
	default:
		if (sig == (SIGTRAP | 0x80)) {
			on_syscall(t);
			sig = 0;
		}
	}
	go_on(t, sig);
}

static void end_of_command(int status)
{
	if (WIFSIGNALED(status))
		(void)fprintf(run.report, "signal %d\n", WTERMSIG(status));
	else
		(void)fprintf(run.report, "exit %d\n", WEXITSTATUS(status));
	run.command = 0;
	(void)alarm(GRACE_S);
}

/* The alarm rang: first the command goes, as by an impatient user; later all the rest. */
static void out_of_time(void)
{
	time_is_up = 0;
	if (run.command) {
		(void)fputs("hang\n", run.report);
		(void)kill(run.command, SIGKILL);
	} else {
		for (size_t i = 0; i < run.n; i++) {
			(void)fprintf(run.report, "left %s %d\n", run.v[i].role, run.v[i].pid);
			(void)kill(run.v[i].pid, SIGKILL);
		}
	}
	(void)alarm(GRACE_S);
}

static void trace_all(void)
{
	struct tracee *t;
	int status;
	pid_t pid;

	for (;;) {
		if (time_is_up)
			out_of_time();
		pid = waitpid(-1, &status, __WALL);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			return;
		t = find(pid);
		if (!WIFSTOPPED(status)) {
			if (t)
				forget(t);
			if (pid == run.command)
				end_of_command(status);
			continue;
		}
		if (!t)
			t = add(pid);
		if (t->role[0])
			handle(t, status);
		else
			t->held = status;
	}
}

static void become_user(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(run.gid, run.gid, run.gid) < 0 ||
		setresuid(run.uid, run.uid, run.uid) < 0)
		die("become user %u: %s", run.uid, strerror(errno));
}

static void start(char **argv)
{
	long opts = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
		    PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	struct tracee *t;
	int status;

	run.command = fork();
	if (run.command < 0)
		die("fork: %s", strerror(errno));
	if (run.command == 0) {
		if (run.want_user)
			become_user();
		(void)raise(SIGSTOP);
		(void)execvp(argv[0], argv);
		(void)fprintf(stderr, "inject: run '%s': %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	if (waitpid(run.command, &status, WUNTRACED) < 0 || !WIFSTOPPED(status))
		die("the child did not stop");
	if (ptrace(PTRACE_SEIZE, run.command, NULL, (void *)opts) < 0)
		die("trace the child: %s", strerror(errno));
	t = add(run.command);
	(void)snprintf(t->role, sizeof(t->role), "p");
	(void)kill(run.command, SIGCONT);
}

static void parse_user(char *text)
{
	char *end = NULL;

	run.uid = (uid_t)strtoul(text, &end, 10);
	if (*end != ':')
		die("--user wants UID:GID");
	run.gid = (gid_t)strtoul(end + 1, &end, 10);
	if (*end)
		die("--user wants UID:GID");
	run.want_user = true;
}

static void parse_at(char *text)
{
	char *colon = strchr(text, ':'), *end = NULL;
	unsigned long n = colon ? strtoul(colon + 1, &end, 10) : 0;

	if (n == 0 || n > 1000000 || *end)
		die("--at wants ROLE:N, such as p.1:12");
	*colon = '\0';
	run.at_role = text;
	run.at_call = (unsigned)n;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"list", no_argument, NULL, 'l'},
		{"at", required_argument, NULL, 'a'},
		{"errno", required_argument, NULL, 'e'},
		{"timeout", required_argument, NULL, 't'},
		{"user", required_argument, NULL, 'u'},
		{"report", required_argument, NULL, 'r'},
		{NULL, 0, NULL, 0},
	};
	unsigned timeout_s = 20;
	struct sigaction sa = {.sa_handler = on_alarm}; /* no SA_RESTART: waitpid returns */
	int c;

	run.code = ENOMEM;
	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (c) {
		case 'l': run.want_list = true; break;
		case 'a': parse_at(optarg); break;
		case 'e': run.code = errno_by_name(optarg); break;
		case 't': timeout_s = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'u': parse_user(optarg); break;
		case 'r':
			run.report = fopen(optarg, "we");
			if (!run.report)
				die("open '%s': %s", optarg, strerror(errno));
			break;
		default: return EXIT_OURS;
		}
	}
	if (optind == argc || !run.report || run.want_list == (run.at_role != NULL))
		die("usage: inject --list|--at ROLE:N [--errno NAME] [--timeout S] [--user "
		    "UID:GID] "
		    "--report FILE -- CMD [ARG…]");
	if (stat("/proc/self/ns/pid", &run.own_pid_ns) < 0)
		die("stat '/proc/self/ns/pid': %s", strerror(errno));
	start(argv + optind);
	(void)signal(SIGINT, SIG_IGN); /* a terminal's ^C is for CMD; it ends and so do we */
	(void)sigaction(SIGALRM, &sa, NULL);
	(void)alarm(timeout_s);
	trace_all();
	if (run.at_role && !run.was_hit)
		(void)fputs("past\n", run.report);
	return fclose(run.report) == 0 ? 0 : EXIT_OURS;
}
