/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/cgroup against the running kernel, v1, hybrid or v2: limits that bite, trees that die,
 * nothing left behind. As root for the most of it; the tests of an unprivileged user drop to
 * one. Also run, built statically, in the virtual machine of tests/vm.
 */
#include "sys/cgroup_impl.h"
#include "tap.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <linux/sched.h>

#define MIB      (1024ull * 1024)
#define USER     54321 /* a uid that owns nothing */
#define PATIENCE 20000 /* ms; only a failing test waits that long */

/* Fork a child inside the leaves, as the runtime does. */
static pid_t fork_into(const struct cgroup *cg)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	struct err err = {0};
	pid_t pid;

	if (cgroup_clone_fd(cg) >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_clone_fd(cg);
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0 && cgroup_join_self(cg, &err) < 0)
		_exit(99);
	return pid;
}

/* True once every holder of the pipe's other end is gone. */
static bool all_gone(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	return poll(&wait, 1, PATIENCE) == 1 && (wait.revents & POLLHUP) != 0;
}

static int count_fds(void)
{
	AUTO_DIR DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	return n;
}

static size_t count_leaves(const char *name)
{
	const struct cgroup_tree *tree = cgroup_tree_get();
	size_t n = 0;

	for (size_t i = 0; i < tree->n; i++) {
		char path[CGROUP_LEAF_MAX];

		(void)snprintf(path, sizeof(path), "%s/%s", tree->parent[i].path, name);
		n += access(path, F_OK) == 0;
	}
	return n;
}

/* Any entry of ours in any parent. */
static size_t count_ours(void)
{
	const struct cgroup_tree *tree = cgroup_tree_get();
	size_t n = 0;

	for (size_t i = 0; i < tree->n; i++) {
		AUTO_DIR DIR *dir = opendir(tree->parent[i].path);
		struct dirent *e;
		char mine[32];

		(void)snprintf(mine, sizeof(mine), "bawn-%d-", (int)getpid());
		while (dir && (e = readdir(dir)))
			n += strncmp(e->d_name, mine, strlen(mine)) == 0;
	}
	return n;
}

static void leaf_has_the_limits_it_was_given(void)
{
	struct cgroup_limits want = {.memory_max = 64 * MIB, .cpu_milli = 1500, .pids_max = 77};
	unsigned all = CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS;
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct cgroup_limits got = {0};
	struct err err = {0};

	if (!CHECK_INT(cgroup_create(&want, all, &cg, &err), 0)) {
		tap_print("# %s\n", err.msg);
		return;
	}
	CHECK_INT(cgroup_controllers(cg), all);
	CHECK(count_leaves(cgroup_name(cg)) > 0);
	CHECK_INT(cgroup_read_limits(cg, &got, &err), 0);
	CHECK_INT(got.memory_max, want.memory_max);
	CHECK_INT(got.cpu_milli, want.cpu_milli);
	CHECK_INT(got.pids_max, want.pids_max);
	CHECK_INT(got.io_bps, 0);
	CHECK_INT(cgroup_remove(cg, &err), 0);
}

static void io_limit_is_set_on_every_device(void)
{
	struct cgroup_limits want = {.io_bps = 3 * MIB};
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct cgroup_limits got = {0};
	struct cgroup_usage usage;
	struct err err = {0};

	if (!CHECK_INT(cgroup_create(&want, CGROUP_IO, &cg, &err), 0)) {
		tap_print("# %s\n", err.msg);
		return;
	}
	CHECK_INT(cgroup_read_limits(cg, &got, &err), 0);
	CHECK_INT(got.io_bps, want.io_bps);
	CHECK_INT(cgroup_read_usage(cg, &usage, &err), 0);
	CHECK_INT(cgroup_remove(cg, &err), 0);
}

static void memory_limit_kills(void)
{
	struct cgroup_limits limits = {.memory_max = 16 * MIB};
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct cgroup_usage usage = {0};
	struct err err = {0};
	int status = 0;
	pid_t pid;

	if (!CHECK_INT(cgroup_create(&limits, CGROUP_MEMORY, &cg, &err), 0))
		return;
	pid = fork_into(cg);
	if (pid == 0) {
		char *p = mmap(
			NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(p, 1, 64 * MIB);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_INT(cgroup_read_usage(cg, &usage, &err), 0);
	CHECK(usage.oom_kills >= 1);
	CHECK(usage.memory_peak > 8 * MIB && usage.memory_peak <= 16 * MIB);
	CHECK_INT(cgroup_remove(cg, &err), 0);
}

static void pids_limit_refuses_the_next_fork(void)
{
	struct cgroup_limits limits = {.pids_max = 3};
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct cgroup_usage usage = {0};
	struct err err = {0};
	int status = 0;
	pid_t pid;

	if (!CHECK_INT(cgroup_create(&limits, CGROUP_PIDS, &cg, &err), 0))
		return;
	pid = fork_into(cg);
	if (pid == 0) {
		int made = 0;
		pid_t child = 0;

		while (made < 10 && (child = fork()) > 0)
			made++;
		if (child == 0) {
			(void)pause();
			_exit(0);
		}
		_exit(errno == EAGAIN ? made : 50);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 2); /* itself is the third */
	CHECK_INT(cgroup_read_usage(cg, &usage, &err), 0);
	CHECK(usage.pids_refused >= 1);
	CHECK_INT(cgroup_remove(cg, &err), 0); /* with the two still there */
}

/* By the kernel's own count, not by the clock: this machine may be busy. */
static void cpu_quota_throttles(void)
{
	struct cgroup_limits limits = {.cpu_milli = 50};
	const struct cgroup_tree *tree = cgroup_tree_get();
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	uint64_t deadline = cgroup_now_ms() + PATIENCE;
	struct timespec pause_ns = {.tv_nsec = 5000000};
	uint64_t throttled = 0;
	struct err err = {0};
	pid_t pid;

	if (!CHECK_INT(cgroup_create(&limits, CGROUP_CPU, &cg, &err), 0))
		return;
	pid = fork_into(cg);
	if (pid == 0)
		for (volatile unsigned spin = 0;; spin++)
			continue;
	while (throttled == 0 && cgroup_now_ms() < deadline) {
		for (size_t i = 0; i < tree->n; i++) {
			char leaf[CGROUP_LEAF_MAX];
			char text[CGROUP_TEXT_MAX];

			if ((tree->parent[i].controllers & CGROUP_CPU) == 0)
				continue;
			(void)snprintf(
				leaf, sizeof(leaf), "%s/%s", tree->parent[i].path, cgroup_name(cg));
			if (CHECK(cgroup_get(leaf, "cpu.stat", text, sizeof(text)) > 0))
				CHECK(cgroup_find_key(text, "nr_throttled", &throttled));
		}
		(void)nanosleep(&pause_ns, NULL);
	}
	CHECK(throttled > 0);
	CHECK_INT(cgroup_remove(cg, &err), 0);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void kill_ends_the_whole_tree(void)
{
	struct cgroup_limits limits = {.pids_max = 100, .memory_max = 64 * MIB};
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct err err = {0};
	int pipe_fd[2];
	char ready;
	pid_t pid;

	if (!CHECK_INT(cgroup_create(&limits, CGROUP_PIDS | CGROUP_MEMORY, &cg, &err), 0) ||
		!CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0))
		return;
	pid = fork_into(cg);
	if (pid == 0) {
		/* 16 processes, each in a session of its own and deaf to what it can be deaf to. */
		for (int i = 0; i < 4; i++)
			(void)fork();
		(void)setsid();
		(void)signal(SIGTERM, SIG_IGN);
		(void)signal(SIGHUP, SIG_IGN);
		(void)!write(pipe_fd[1], "r", 1);
		for (;;)
			(void)pause();
	}
	(void)close(pipe_fd[1]);
	for (int i = 0; i < 16; i++)
		CHECK_INT(read(pipe_fd[0], &ready, 1), 1);
	CHECK(cgroup_contains(cg, pid));
	CHECK_INT(cgroup_kill(cg, &err), 0);
	CHECK(all_gone(pipe_fd[0]));
	CHECK_INT(cgroup_kill(cg, &err), 0); /* again, on nobody */
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(!cgroup_contains(cg, pid));
	CHECK_INT(cgroup_remove(cg, &err), 0);
	(void)close(pipe_fd[0]);
}

static void another_process_can_be_put_in(void)
{
	struct cgroup_limits limits = {.pids_max = 5, .memory_max = 64 * MIB};
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct err err = {0};
	pid_t pid;

	if (!CHECK_INT(cgroup_create(&limits, CGROUP_PIDS, &cg, &err), 0))
		return;
	pid = fork();
	if (pid == 0)
		for (;;)
			(void)pause();
	CHECK(!cgroup_contains(cg, pid));
	CHECK_INT(cgroup_join(cg, pid, &err), 0);
	CHECK(cgroup_contains(cg, pid));
	CHECK(!cgroup_contains(cg, getpid()));
	CHECK_INT(cgroup_remove(cg, &err), 0); /* kills it */
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void remove_leaves_nothing_and_may_be_repeated(void)
{
	struct cgroup_limits limits = {.memory_max = 64 * MIB, .cpu_milli = 100, .pids_max = 9};
	struct cgroup *cg = NULL;
	struct err err = {0};
	int before = count_fds();
	char name[CGROUP_NAME_MAX];

	if (!CHECK_INT(cgroup_create(&limits, CGROUP_MEMORY, &cg, &err), 0))
		return;
	(void)snprintf(name, sizeof(name), "%s", cgroup_name(cg));
	CHECK(count_leaves(name) > 0);
	CHECK_INT(cgroup_remove(cg, &err), 0);
	CHECK_INT(count_leaves(name), 0);
	CHECK_INT(cgroup_remove(cg, &err), 0);
	cg = cgroup_free(cg);
	CHECK(cg == NULL);
	CHECK_INT(count_fds(), before);
}

static void a_missing_controller_is_named_if_required(void)
{
	struct cgroup_limits limits = {.memory_max = 64 * MIB, .pids_max = 9};
	struct cgroup_tree *tree = cgroup_tree_get();
	struct cgroup_tree real = *tree;
	struct cgroup *cg = (void *)0x1;
	struct err err = {0};

	tree->controllers &= ~(unsigned)CGROUP_PIDS;
	tree->mounted &= ~(unsigned)CGROUP_PIDS;
	for (size_t i = 0; i < tree->n; i++)
		tree->parent[i].controllers &= ~(unsigned)CGROUP_PIDS;
	CHECK_INT(cgroup_create(&limits, CGROUP_PIDS, &cg, &err), -EOPNOTSUPP);
	CHECK_STR(err.msg, "cgroup controller 'pids' is not mounted");
	CHECK(cg == (void *)0x1); /* ret is written on success only */
	CHECK_INT(count_ours(), 0);

	cg = NULL;
	CHECK_INT(cgroup_create(&limits, CGROUP_MEMORY, &cg, &err), 0);
	CHECK_INT(cgroup_controllers(cg), CGROUP_MEMORY); /* pids left out */
	CHECK_INT(cgroup_remove(cg, &err), 0);
	(void)cgroup_free(cg);
	*tree = real;
}

static void no_limits_need_no_leaf(void)
{
	struct cgroup_limits limits = {0};
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct err err = {0};

	CHECK_INT(cgroup_create(&limits, 0, &cg, &err), 0);
	CHECK_INT(cgroup_controllers(cg), 0);
	CHECK_INT(cgroup_clone_fd(cg), -EBADF);
	CHECK_INT(count_ours(), 0);
	CHECK_INT(cgroup_remove(cg, &err), 0);
}

/* The last controller's value is refused: the leaves made before it must go as well. */
static void a_refused_value_is_named_and_leaves_nothing(void)
{
	struct cgroup_limits limits = {
		.memory_max = 64 * MIB, .cpu_milli = UINT64_MAX / 1000, .pids_max = 9};
	struct cgroup *cg = (void *)0x1;
	struct err err = {0};
	int before = count_fds();

	CHECK_INT(cgroup_create(&limits, CGROUP_CPU, &cg, &err), -EINVAL);
	CHECK(strstr(err.msg, "cpu.") != NULL);
	CHECK(strstr(err.msg, "cgroup: write '18446744073709") == err.msg);
	CHECK(cg == (void *)0x1);
	CHECK_INT(count_ours(), 0);
	CHECK_INT(count_fds(), before);
}

/* A plain directory has no control files: limits must fail and leave nothing behind. */
static void failed_limits_leave_no_directory(void)
{
	char dir[] = "/tmp/test_cgroup.XXXXXX";
	struct cgroup_limits limits = {.pids_max = 8};
	struct cgroup_tree *tree = cgroup_tree_get();
	struct cgroup_tree real = *tree;
	struct cgroup *cg = (void *)0x1;
	struct err err = {0};

	if (!CHECK(mkdtemp(dir) != NULL))
		return;
	*tree = (struct cgroup_tree){.kind = CGROUP_V1, .n = 1, .controllers = CGROUP_PIDS};
	tree->parent[0].controllers = CGROUP_PIDS;
	(void)snprintf(tree->parent[0].path, sizeof(tree->parent[0].path), "%s", dir);
	CHECK_INT(cgroup_create(&limits, CGROUP_PIDS, &cg, &err), -ENOENT);
	CHECK(strstr(err.msg, "cgroup: open cgroup '/tmp/test_cgroup.") == err.msg);
	CHECK(cg == (void *)0x1);

	CHECK_INT(cgroup_create(&limits, 0, &cg, &err), -ENOENT); /* no way in is always an error */
	tree->parent[0].is_v2 = true;
	tree->parent[0].enabled = CGROUP_PIDS;
	CHECK_INT(cgroup_create(&limits, CGROUP_PIDS, &cg, &err), -ENOENT);
	CHECK(strstr(err.msg, "pids.max'") != NULL);
	CHECK_INT(rmdir(dir), 0); /* empty, then */
	*tree = real;
}

static void sweep_takes_the_dead_and_spares_the_living(void)
{
	struct cgroup_limits limits = {.pids_max = 9, .memory_max = 64 * MIB};
	AUTO(cgroup_free) struct cgroup *mine = NULL;
	char name[CGROUP_NAME_MAX] = "";
	struct err err = {0};
	int hold[2];
	int tell[2];
	size_t leaves;
	pid_t pid;

	if (!CHECK_INT(cgroup_create(&limits, CGROUP_PIDS, &mine, &err), 0) ||
		!CHECK(pipe2(hold, O_CLOEXEC) == 0) || !CHECK(pipe2(tell, O_CLOEXEC) == 0))
		return;
	pid = fork();
	if (pid == 0) {
		struct cgroup *cg = NULL;

		if (cgroup_create(&limits, CGROUP_PIDS, &cg, &err) < 0)
			_exit(1);
		if (fork_into(cg) == 0)
			for (;;)
				(void)pause();
		(void)!write(tell[1], cgroup_name(cg), CGROUP_NAME_MAX);
		_exit(0); /* as if killed: the leaves stay, with a process in them */
	}
	(void)close(hold[1]);
	(void)close(tell[1]);
	CHECK_INT(read(tell[0], name, sizeof(name)), sizeof(name));
	CHECK(waitpid(pid, NULL, 0) == pid);
	leaves = count_leaves(name);
	CHECK(leaves > 0);
	CHECK(cgroup_sweep() >= (int)leaves);
	CHECK_INT(count_leaves(name), 0);
	CHECK(all_gone(hold[0]));
	CHECK_INT(count_leaves(cgroup_name(mine)), leaves);
	CHECK_INT(cgroup_remove(mine, &err), 0);
	(void)close(hold[0]);
	(void)close(tell[0]);
}

/* What outlives its maker is found by name, counted, spared by the sweep, and removed. */
static void a_named_leaf_is_found_by_whoever_knows_the_name(void)
{
	AUTO(cgroup_free) struct cgroup *made = NULL, *found = NULL, *none = NULL;
	const struct cgroup_limits no_limits = {0};
	struct cgroup_usage usage = {0};
	struct err err = {0};
	char name[64], in = 0;
	int pipe_fds[2];
	pid_t pid;

	CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
	(void)snprintf(name, sizeof(name), "bawn-box-test%d", getpid());
	CHECK_INT(cgroup_find(name, &none, &err), -ENOENT);
	if (!CHECK_INT(cgroup_create_named(name, &no_limits, 0, &made, &err), 0))
		return;
	CHECK_STR(cgroup_name(made), name);
	CHECK(cgroup_controllers(made) != 0);
	pid = fork_into(made);
	if (pid == 0) {
		(void)write(pipe_fds[1], "i", 1);
		for (;;)
			(void)pause();
	}
	CHECK(read(pipe_fds[0], &in, 1) == 1);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
	(void)cgroup_sweep();
	CHECK_INT(cgroup_find(name, &found, &err), 0);
	CHECK(cgroup_contains(found, pid));
	CHECK_INT(cgroup_read_usage(found, &usage, &err), 0);
	CHECK(usage.memory > 0);
	CHECK_INT(cgroup_kill(found, &err), 0);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	CHECK_INT(cgroup_remove(found, &err), 0);
	CHECK_INT(cgroup_find(name, &none, &err), -ENOENT);
	CHECK_INT(cgroup_create_named("../box", &no_limits, 0, &none, &err), -EINVAL);
	CHECK_INT(cgroup_create_named("bawn-box-a/b", &no_limits, 0, &none, &err), -EINVAL);
}

static void a_janitor_without_descriptors_can_remove(void)
{
	struct cgroup_limits limits = {.pids_max = 9, .memory_max = 64 * MIB};
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct err err = {0};
	int status = -1;
	pid_t victim;
	pid_t janitor;

	if (!CHECK_INT(cgroup_create(&limits, CGROUP_PIDS, &cg, &err), 0))
		return;
	victim = fork_into(cg);
	if (victim == 0)
		for (;;)
			(void)pause();
	/* It enters v1 leaves by itself; a leaf removed before that is not one it was killed in. */
	for (int waited = 0; waited < PATIENCE && !cgroup_contains(cg, victim); waited++)
		(void)usleep(1000);
	CHECK(cgroup_contains(cg, victim));
	janitor = fork();
	if (janitor == 0) {
		(void)close_range(0, ~0u, 0);
		_exit(cgroup_remove(cg, &err) < 0);
	}
	CHECK(waitpid(janitor, &status, 0) == janitor);
	CHECK_INT(status, 0);
	CHECK(waitpid(victim, &status, 0) == victim);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_INT(count_leaves(cgroup_name(cg)), 0);
	CHECK_INT(cgroup_remove(cg, &err), 0);
}

static int become_user(void)
{
	return setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 ||
	       setresuid(USER, USER, USER) < 0;
}

static int without_delegation(void)
{
	struct cgroup_limits limits = {.pids_max = 9};
	struct cgroup *cg = (void *)0x1;
	struct err err = {0};
	unsigned controllers = 99;

	if (become_user())
		return 2;
	if (cgroup_detect(&controllers) != CGROUP_NONE || controllers != 0)
		return 3;
	if (cgroup_create(&limits, CGROUP_PIDS, &cg, &err) != -EACCES || cg != (void *)0x1)
		return 4;
	if (strcmp(err.msg, "cgroup controller 'pids' is not delegated to uid 54321") != 0)
		return 5;
	if (cgroup_create(&limits, 0, &cg, &err) < 0 || cgroup_controllers(cg) != 0)
		return 6;
	if (cgroup_sweep() != 0)
		return 7;
	return 0;
}

/* Everything a rootless run does, in whatever was delegated. */
static int with_delegation(void)
{
	struct cgroup_limits limits = {.memory_max = 64 * MIB, .cpu_milli = 500, .pids_max = 9};
	unsigned all = CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS;
	struct cgroup_limits got = {0};
	struct cgroup *cg = NULL;
	struct err err = {0};
	unsigned controllers = 0;
	pid_t pid;

	if (become_user())
		return 2;
	if (cgroup_detect(&controllers) == CGROUP_NONE || (controllers & all) != all)
		return 3;
	if (cgroup_create(&limits, all, &cg, &err) < 0) {
		tap_print("# %s\n", err.msg);
		return 4;
	}
	pid = fork_into(cg);
	if (pid == 0)
		for (;;)
			(void)pause();
	if (cgroup_read_limits(cg, &got, &err) < 0 || got.memory_max != limits.memory_max ||
		got.cpu_milli != limits.cpu_milli || got.pids_max != limits.pids_max)
		return 5;
	/* v1: the child enters by itself, maybe after this line. */
	for (uint64_t end = cgroup_now_ms() + PATIENCE; !cgroup_contains(cg, pid);)
		if (cgroup_now_ms() > end)
			return 6;
	if (cgroup_remove(cg, &err) < 0 || waitpid(pid, NULL, 0) != pid)
		return 7;
	return count_ours() == 0 ? 0 : 8;
}

static int status_of(int (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_user_without_delegation_is_told_so(void)
{
	CHECK_INT(status_of(without_delegation), 0);
}

static void v1_directory_of_a_user_is_used(void)
{
	const struct cgroup_tree *tree = cgroup_tree_get();
	char path[CGROUP_COUNT][CGROUP_LEAF_MAX];

	for (size_t i = 0; i < tree->n; i++) {
		(void)snprintf(path[i], sizeof(path[i]), "%s/bawn-%d", tree->parent[i].path, USER);
		CHECK(mkdir(path[i], 0755) == 0 && chown(path[i], USER, USER) == 0);
	}
	CHECK_INT(status_of(with_delegation), 0);
	for (size_t i = 0; i < tree->n; i++)
		CHECK_INT(rmdir(path[i]), 0);
}

static char delegated[CGROUP_PATH_MAX]; /* what v2_delegate() made */

/* "<root>/test-delegated", the user's as cgroups(7) asks, and "own" in it likewise. */
static bool v2_delegate(void)
{
	static const char *const files[] = {
		"", "own", "cgroup.procs", "cgroup.subtree_control", "own/cgroup.procs"};
	struct cgroup_parent *root = &cgroup_tree_get()->parent[0];
	unsigned all = CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS;
	char path[CGROUP_LEAF_MAX];
	struct err err = {0};
	unsigned got;

	if (cgroup_v2_enable(root, "test", all, &got, &err) < 0)
		return false;
	(void)snprintf(delegated, sizeof(delegated), "%.900s/test-delegated", root->path);
	(void)snprintf(path, sizeof(path), "%s/own", delegated);
	if (mkdir(delegated, 0755) < 0 || mkdir(path, 0755) < 0)
		return false;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", delegated, files[i]);
		if (chown(path, USER, USER) < 0)
			return false;
	}
	return true;
}

static void v2_undelegate(void)
{
	char path[CGROUP_LEAF_MAX];

	(void)snprintf(path, sizeof(path), "%s/own", delegated);
	CHECK_INT(rmdir(path), 0);
	CHECK_INT(rmdir(delegated), 0);
}

static int in_own_leaf(void)
{
	char path[CGROUP_LEAF_MAX];
	struct err err = {0};

	(void)snprintf(path, sizeof(path), "%s/own", delegated);
	return cgroup_put(path, "cgroup.procs", "0", &err) < 0 ? 1 : with_delegation();
}

static int alone_in_the_way(void)
{
	char text[CGROUP_TEXT_MAX];
	struct err err = {0};
	int r = cgroup_put(delegated, "cgroup.procs", "0", &err) < 0 ? 1 : with_delegation();

	/* Back where we were, with the controllers off again. */
	if (r == 0 && (cgroup_get(delegated, "cgroup.procs", text, sizeof(text)) <= 0 ||
			      cgroup_get(delegated, "cgroup.subtree_control", text, 64) != 0))
		return 20;
	return r;
}

static void v2_leaf_goes_beside_the_callers_own(void)
{
	if (CHECK(v2_delegate()))
		CHECK_INT(status_of(in_own_leaf), 0);
	v2_undelegate();
}

static void v2_caller_in_the_way_steps_aside_and_back(void)
{
	if (CHECK(v2_delegate()))
		CHECK_INT(status_of(alone_in_the_way), 0);
	v2_undelegate();
}

/* Of an ordinary user's own: whatever this machine delegates works, and nothing is explained. */
static void a_user_gets_what_is_delegated_or_a_reason(void)
{
	struct cgroup_limits limits = {.pids_max = 9};
	struct cgroup *cg = NULL;
	struct err err = {0};
	unsigned controllers;
	int r;

	(void)cgroup_detect(&controllers);
	r = cgroup_create(&limits, CGROUP_PIDS, &cg, &err);
	if ((controllers & CGROUP_PIDS) != 0) {
		CHECK_INT(r, 0);
		CHECK_INT(cgroup_remove(cg, &err), 0);
		(void)cgroup_free(cg);
	} else {
		CHECK(r == -EACCES || r == -EOPNOTSUPP);
		CHECK(strstr(err.msg, "cgroup controller 'pids' is not ") == err.msg);
		CHECK(cg == NULL);
	}
}

int main(void)
{
	unsigned controllers;
	enum cgroup_kind kind = cgroup_detect(&controllers);

	tap_print("# cgroups: v%d, controllers %#x\n", (int)kind, controllers);
	if (geteuid() != 0 || kind == CGROUP_NONE) {
		RUN(a_user_gets_what_is_delegated_or_a_reason);
		return tap_done();
	}
	RUN(leaf_has_the_limits_it_was_given);
	RUN(io_limit_is_set_on_every_device);
	RUN(memory_limit_kills);
	RUN(pids_limit_refuses_the_next_fork);
	RUN(cpu_quota_throttles);
	RUN(kill_ends_the_whole_tree);
	RUN(another_process_can_be_put_in);
	RUN(remove_leaves_nothing_and_may_be_repeated);
	RUN(a_missing_controller_is_named_if_required);
	RUN(no_limits_need_no_leaf);
	RUN(a_refused_value_is_named_and_leaves_nothing);
	RUN(failed_limits_leave_no_directory);
	RUN(sweep_takes_the_dead_and_spares_the_living);
	RUN(a_named_leaf_is_found_by_whoever_knows_the_name);
	RUN(a_janitor_without_descriptors_can_remove);
	RUN(a_user_without_delegation_is_told_so);
	if (kind == CGROUP_V1)
		RUN(v1_directory_of_a_user_is_used);
	if (kind == CGROUP_V2) {
		RUN(v2_leaf_goes_beside_the_callers_own);
		RUN(v2_caller_in_the_way_steps_aside_and_back);
	}
	return tap_done();
}
