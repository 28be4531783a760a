/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The child between fork() and execve(): session, terminal, ids, limits, directory, program.
 * A failure is one struct err in the status pipe.
 */
#include "guest/proc.h"

#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static _Noreturn void fail(const struct proc_plan *plan, const struct err *err)
{
	(void)write(plan->status_fd, err, sizeof(*err));
	_exit(127);
}

static void reset_signals(void)
{
	static const char by_default[64]; /* the kernel's sigaction: no handler, no flags */
	sigset_t none;

	/*
	 * By the kernel's own call: the library keeps two signals to itself, and one that whoever
	 * started us had ignored would stay so. KILL and STOP refuse, as they should.
	 */
	for (int sig = 1; sig < NSIG; sig++)
		(void)syscall(SYS_rt_sigaction, sig, &by_default, NULL, 8);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Whoever fills the memory of the box dies before the guest does. */
static void set_oom_score(void)
{
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)write(fd, "100", 3);
}

static int limit(int which, uint64_t value, const char *name, struct err *err)
{
	struct rlimit l;

	if (value == 0)
		return 0;
	if (getrlimit((__rlimit_resource_t)which, &l) < 0)
		return err_sys(err, "read the limit of %s", name);
	/* Only ever lower: a hard limit cannot be raised, and asking for more is no failure. */
	if (value < l.rlim_max)
		l.rlim_max = value;
	l.rlim_cur = l.rlim_max;
	if (setrlimit((__rlimit_resource_t)which, &l) < 0)
		return err_sys(err, "limit %s", name);
	return 0;
}

static int set_limits(const struct guest_start *s, struct err *err)
{
	int r = limit(RLIMIT_NOFILE, s->open_files, "open files", err);

	if (r >= 0)
		r = limit(RLIMIT_NPROC, s->processes, "processes", err);
	if (r >= 0)
		r = limit(RLIMIT_AS, s->memory_max, "memory", err);
	return r;
}

static int become(const struct account *u, struct err *err)
{
	/* Where setgroups is denied the caller's groups stay; they grant only what it had. */
	if (setgroups(u->groups_n, u->groups) < 0 && errno != EPERM)
		return err_sys(err, "set the groups of '%s'", u->name);
	if (setresgid(u->gid, u->gid, u->gid) < 0 || setresuid(u->uid, u->uid, u->uid) < 0)
		return err_sys(err, "become user '%s'", u->name);
	return 0;
}

static int set_stdio(const struct proc_plan *plan, struct err *err)
{
	int moved[3];

	/* Away from 0..2 first: one of the three may be the place of another. */
	for (int i = 0; i < 3; i++) {
		moved[i] = fcntl(plan->stdio[i], F_DUPFD_CLOEXEC, 3);
		if (moved[i] < 0)
			return err_sys(err, "prepare the descriptors");
	}
	for (int i = 0; i < 3; i++)
		if (dup2(moved[i], i) < 0)
			return err_sys(err, "place the descriptors");
	if (plan->is_pty && ioctl(0, TIOCSCTTY, 0) < 0)
		return err_sys(err, "take the terminal");
	return 0;
}

static const char *env_value(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; env[i]; i++)
		if (strncmp(env[i], name, n) == 0 && env[i][n] == '=')
			return env[i] + n + 1;
	return NULL;
}

/* execve; a text without "#!" runs in the shell, as execvp() has it. */
static void try_exec(const char *path, char **argv, char **env)
{
	char shell[] = "/bin/sh";
	size_t n = 0;
	char **v;

	(void)execve(path, argv, env);
	if (errno != ENOEXEC)
		return;
	while (argv[n])
		n++;
	v = calloc(n + 2, sizeof(*v));
	if (!v)
		return;
	v[0] = shell;
	v[1] = strdup(path);
	for (size_t i = 1; i < n; i++)
		v[i + 1] = argv[i];
	(void)execve(shell, v, env);
	free(v);
}

static int exec_along_path(char **argv, char **env, struct err *err)
{
	const char *path = env_value(env, "PATH");
	int denied = 0;
	char quoted[128];

	if (strchr(argv[0], '/')) {
		try_exec(argv[0], argv, env);
		denied = errno == ENOENT || errno == ENOTDIR ? 0 : errno;
	}
	for (path = path ? path : PATH_DEFAULT; !strchr(argv[0], '/'); path++) {
		size_t n = strcspn(path, ":");
		AUTO_FREE char *file =
			text_format("%.*s/%s", n > 0 ? (int)n : 1, n > 0 ? path : ".", argv[0]);

		try_exec(file, argv, env);
		if (errno != ENOENT && errno != ENOTDIR)
			denied = errno;
		path += n;
		if (*path == '\0')
			break;
	}
	(void)text_quote(argv[0], quoted, sizeof(quoted));
	if (denied == 0)
		return err_set(err, ENOENT, "'%s': no such program", quoted);
	errno = denied;
	return err_sys(err, "'%s'", quoted);
}

_Noreturn void proc_child(const struct proc_plan *plan)
{
	struct err err = {0};
	char quoted[256];

	reset_signals();
	(void)umask(022);
	(void)setsid(); /* cannot fail: a fresh child leads no group */
	set_oom_score();
	(void)setrlimit(RLIMIT_NOFILE, &plan->files);
	if (set_stdio(plan, &err) < 0 || set_limits(plan->start, &err) < 0)
		fail(plan, &err);
	if (!plan->is_as_is && become(plan->user, &err) < 0)
		fail(plan, &err);
	/* A home that is closed to its user is no reason to run nothing; a wrong request is. */
	if (chdir(plan->cwd) < 0 && (plan->start->cwd[0] || chdir("/") < 0)) {
		int code = errno == ENOENT || errno == ENOTDIR ? EINVAL : errno;

		(void)text_quote(plan->cwd, quoted, sizeof(quoted));
		if (code == EINVAL)
			(void)err_set(&err, code, "cwd '%s' does not exist", quoted);
		else
			(void)err_sys(&err, "cwd '%s'", quoted);
		fail(plan, &err);
	}
	/* A change of ids sets this back to what the guest has; nothing of ours stays open. */
	(void)prctl(PR_SET_PDEATHSIG, 0);
	(void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	(void)exec_along_path(plan->start->argv, plan->env, &err);
	fail(plan, &err);
}

/* Append or replace. */
static void put(char **env, size_t *n, const char *entry)
{
	size_t len = strcspn(entry, "=");

	if (len == 0 || entry[len] != '=')
		return;
	for (size_t i = 0; i < *n; i++) {
		if (strncmp(env[i], entry, len + 1) == 0) {
			free(env[i]);
			env[i] = mem_strdup(entry);
			return;
		}
	}
	env[(*n)++] = mem_strdup(entry);
}

static void put_pair(char **env, size_t *n, const char *name, const char *value)
{
	AUTO_FREE char *entry = text_format("%s=%s", name, value);

	put(env, n, entry);
}

static size_t count(char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

char **proc_environment(
	const struct guest *g, const struct guest_start *start, const struct account *user)
{
	size_t n = 0, most = count(g->bind.env) + count(start->env) + 16;
	char **env = mem_must(calloc(most, sizeof(*env)));

	put(env, &n, "PATH=" PATH_DEFAULT);
	put_pair(env, &n, "HOME", user->home);
	put_pair(env, &n, "USER", user->name);
	put_pair(env, &n, "LOGNAME", user->name);
	put_pair(env, &n, "SHELL", user->shell[0] ? user->shell : "/bin/sh");
	if (start->flags & GUEST_START_PTY)
		put(env, &n, "TERM=xterm-256color");
	for (size_t i = 0; g->bind.env && g->bind.env[i]; i++)
		put(env, &n, g->bind.env[i]);
	put(env, &n, "E2B_SANDBOX=true");
	if (g->bind.id && g->bind.id[0])
		put_pair(env, &n, "E2B_SANDBOX_ID", g->bind.id);
	for (size_t i = 0; start->env && start->env[i]; i++)
		put(env, &n, start->env[i]);
	return env;
}
