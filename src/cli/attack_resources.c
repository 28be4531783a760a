/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_resources - group resources: take more processes, memory, time than given.
 *
 * Every bomb is bounded: it goes a little past the limit and stops, so a missing
 * wall costs the machine next to nothing. Storage is in attack_storage.
 */
#include "cli/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define MIB            (1024u * 1024)
#define OVER_TASKS     64 /* how far past the limit a bomb goes */
#define OVER_BYTES     (64 * MIB)
#define TASKS_MAX      1024
#define HOG_PROCESSES  4
#define HOGS_MAX       32
#define HOG_WARM_MS    1000 /* until stand-ins that look now and then have looked */
#define HOG_MS         1200
#define HOG_CPU_MILLI  50 /* quota of the cpu hog's box */
#define FLOOD_CALLS    1000
#define LATE_MS        500 /* timeout of the box that will not end */
#define DAEMON_SECONDS 20

static uint64_t now_us(clockid_t clock)
{
	struct timespec ts = {0};

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int fork_bomb(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static pid_t pids[TASKS_MAX];
	uint64_t want = c->limits.pids_max + OVER_TASKS;
	uint64_t n;
	int saved = 0;

	(void)a;
	for (n = 0; n < want && n < TASKS_MAX; n++) {
		pids[n] = fork();
		if (pids[n] == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			(void)pause();
			_exit(0);
		}
		if (pids[n] < 0)
			break;
	}
	saved = errno;
	for (uint64_t i = 0; i < n; i++) {
		(void)kill(pids[i], SIGKILL);
		(void)waitpid(pids[i], NULL, 0);
	}
	r->number = n;
	if (n == want)
		return attack_broke(r, "%llu processes", (unsigned long long)n);
	errno = saved;
	return attack_refused(r, "fork number %llu", (unsigned long long)n + 1);
}

static void *idle_thread(void *arg)
{
	(void)arg;
	(void)pause();
	return NULL;
}

static int thread_bomb(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	uint64_t want = c->limits.pids_max + OVER_TASKS;
	pthread_attr_t attr;

	(void)a;
	if (pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, 65536) != 0)
		return attack_absent(r, "thread attributes");
	for (uint64_t n = 0; n < want; n++) {
		pthread_t t;
		int error = pthread_create(&t, &attr, idle_thread, NULL);

		if (error != 0) {
			errno = error;
			return attack_refused(r, "thread number %llu", (unsigned long long)n + 1);
		}
	}
	return attack_broke(r, "%llu threads", (unsigned long long)want);
}

static int memory_bomb(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	uint64_t want = c->limits.memory_max + OVER_BYTES;

	(void)a;
	for (uint64_t have = 0; have < want; have += MIB) {
		char *at =
			mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED)
			return attack_refused(r, "%llu MiB", (unsigned long long)(have / MIB) + 1);
		(void)memset(at, 1, MIB);
	}
	attack_keep();
	return attack_broke(r, "%llu MiB in use", (unsigned long long)(want / MIB));
}

/* Shared between children, so that it is nobody's private memory: limits by process miss it. */
static int memory_spread(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	uint64_t each = (c->limits.memory_max + OVER_BYTES) / HOG_PROCESSES;
	pid_t pids[HOG_PROCESSES];
	int done[2], lost = 0;
	char byte;

	(void)a;
	if (pipe2(done, O_CLOEXEC) < 0)
		return attack_absent(r, "pipe");
	for (int i = 0; i < HOG_PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char *at = mmap(NULL, each, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			(void)close(done[0]);
			if (at == MAP_FAILED)
				_exit(1);
			(void)memset(at, 1, each);
			if (write(done[1], "+", 1) < 0)
				_exit(1);
			(void)close(done[1]);
			(void)pause();
			_exit(0);
		}
	}
	(void)close(done[1]);
	/* One byte for each that has all its memory; end of file once the others are gone. */
	for (int i = 0; i < HOG_PROCESSES; i++) {
		int status;

		if (read(done[0], &byte, 1) == 1)
			continue;
		lost++;
		(void)waitpid(-1, &status, WNOHANG);
	}
	attack_keep();
	/* Whoever got all of it first may have been killed for the sake of the last. */
	for (int i = 0; i < HOG_PROCESSES; i++)
		if (pids[i] < 0 || kill(pids[i], 0) < 0 || waitpid(pids[i], NULL, WNOHANG) != 0)
			lost++;
	for (int i = 0; i < HOG_PROCESSES; i++)
		if (pids[i] > 0)
			(void)kill(pids[i], SIGKILL);
	if (lost == 0)
		return attack_broke(r, "%llu MiB in %d processes",
			(unsigned long long)(each * HOG_PROCESSES / MIB), HOG_PROCESSES);
	errno = ENOMEM;
	return attack_refused(r, "%d processes of %llu MiB each: not all lived", HOG_PROCESSES,
		(unsigned long long)(each / MIB));
}

/* If the whole batch was killed there is no report; the kernel's count tells why. */
static void memory_judge(const struct attack *a, const struct attack_ctx *c,
	const struct box_result *result, struct attack_report *r)
{
	(void)a;
	(void)c;
	if (r->verdict != ATTACK_ABSENT || !result->oom_killed)
		return;
	r->verdict = ATTACK_REFUSED;
	r->err = -SIGKILL;
	(void)snprintf(r->text, sizeof(r->text), "the box was ended at its memory limit");
}

static void tune_cpu(struct spec *spec)
{
	spec->limits.cpu_milli = HOG_CPU_MILLI;
}

/* Two for each cpu, so that without a quota they get more than the meter's one for each. */
static long hog_count(void)
{
	long n = 2 * sysconf(_SC_NPROCESSORS_ONLN);

	return n < 2 ? 2 : n > HOGS_MAX ? HOGS_MAX : n;
}

/* Spin until `end`; the processor time used after `from` is added to *used_us. */
static _Noreturn void hog_main(uint64_t from, uint64_t end, uint64_t *used_us)
{
	uint64_t before;

	/* Where the kernel groups by session, each of its own gets a full share. */
	(void)setsid();
	while (now_us(CLOCK_MONOTONIC) < from)
		continue;
	before = now_us(CLOCK_PROCESS_CPUTIME_ID);
	while (now_us(CLOCK_MONOTONIC) < end)
		continue;
	(void)__atomic_add_fetch(
		used_us, now_us(CLOCK_PROCESS_CPUTIME_ID) - before, __ATOMIC_RELAXED);
	_exit(0);
}

static int cpu_hog(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	uint64_t from = now_us(CLOCK_MONOTONIC) + HOG_WARM_MS * 1000, end = from + HOG_MS * 1000;
	uint64_t *used_us = mmap(
		NULL, sizeof(*used_us), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)a;
	(void)c;
	if (used_us == MAP_FAILED)
		return attack_absent(r, "no memory for a result");
	for (long i = hog_count(); i > 0; i--)
		if (fork() == 0)
			hog_main(from, end, used_us);
	while (wait(NULL) > 0)
		continue;
	r->number = *used_us / HOG_MS;
	/* The quota is refilled each 100 ms and handed out per cpu in slices: a margin for both. */
	if (r->number > HOG_CPU_MILLI * 3 / 2 + 25)
		return attack_broke(r, "used %llu thousandths of a cpu, quota %d",
			(unsigned long long)r->number, HOG_CPU_MILLI);
	errno = 0;
	return attack_refused(r, "the hogs got %llu thousandths of a cpu, quota %d",
		(unsigned long long)r->number, HOG_CPU_MILLI);
}

/*
 * The hogs are twice as many as the meter's busy neighbours: if they got less than
 * half of the neighbours' time, they were held back, however loaded the machine is.
 * Without a cpu controller there is no quota, and giving way is all that is promised.
 */
static void cpu_judge(const struct attack *a, const struct attack_ctx *c,
	const struct box_result *result, struct attack_report *r)
{
	bool gives_way = r->number * 2 <= c->meter_milli;
	bool is_fallback = result->walls[WALL_CPU].enforced == WALL_VERDICT_FALLBACK;

	(void)a;
	if (r->verdict == ATTACK_ABSENT)
		return;
	if (is_fallback)
		r->verdict = gives_way ? ATTACK_REFUSED : ATTACK_BROKE;
	if (gives_way)
		r->err = EAGAIN;
	(void)snprintf(r->text, sizeof(r->text),
		"the hogs got %llu thousandths of a cpu (%s), neighbours %u, late by %u us at "
		"worst",
		(unsigned long long)r->number, is_fallback ? "no quota, they give way" : "quota 50",
		c->meter_milli, c->meter_late_us);
}

static int open_files(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	uint64_t want = c->limits.open_files + OVER_TASKS;

	(void)a;
	for (uint64_t n = 0; n < want; n++)
		if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
			return attack_refused(r, "open number %llu", (unsigned long long)n + 1);
	return attack_broke(r, "%llu open files", (unsigned long long)want);
}

static int inotify(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	(void)c;
	for (int n = 0; n < TASKS_MAX; n++)
		if (inotify_init1(IN_CLOEXEC) < 0)
			return attack_refused(r, "inotify instance number %d", n + 1);
	return attack_broke(r, "%d inotify instances", TASKS_MAX);
}

static int raise_limit(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct rlimit lim = {c->limits.open_files + OVER_TASKS, c->limits.open_files + OVER_TASKS};

	(void)a;
	if (setrlimit(RLIMIT_NOFILE, &lim) == 0)
		return attack_broke(r, "raised the limit on open files");
	return attack_refused(r, "setrlimit(RLIMIT_NOFILE)");
}

static int core_dump(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct rlimit lim = {RLIM_INFINITY, RLIM_INFINITY};
	int status = 0, saved = 0;
	pid_t pid;

	(void)a;
	if (setrlimit(RLIMIT_CORE, &lim) < 0)
		saved = errno;
	pid = fork();
	if (pid == 0) {
		if (chdir(c->scratch) < 0)
			_exit(1);
		/* A caller may have left it ignored. */
		(void)signal(SIGQUIT, SIG_DFL);
		(void)kill(getpid(), SIGQUIT);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		return attack_absent(r, "no crash");
	if (WCOREDUMP(status))
		return attack_broke(r, "a core was dumped by the host's core_pattern");
	if (saved == 0)
		return attack_broke(r, "core dumps are allowed");
	errno = saved;
	return attack_refused(r, "setrlimit(RLIMIT_CORE); the crash left no core");
}

static int lock_memory(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	void *at =
		mmap(NULL, OVER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)a;
	(void)c;
	if (at == MAP_FAILED)
		return attack_refused(r, "mmap");
	/* The raw call: AddressSanitizer answers for mlock() itself, and always yes. */
	if (syscall(SYS_mlock, at, OVER_BYTES) < 0)
		return attack_refused(r, "mlock of 64 MiB");
	return attack_broke(r, "64 MiB locked in memory");
}

static int realtime(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct sched_param p = {.sched_priority = 1};

	(void)a;
	(void)c;
	if (sched_setscheduler(0, SCHED_FIFO, &p) < 0)
		return attack_refused(r, "sched_setscheduler(SCHED_FIFO)");
	(void)memset(&p, 0, sizeof(p));
	(void)sched_setscheduler(0, SCHED_OTHER, &p);
	return attack_broke(r, "runs before everybody else");
}

static int nice_down(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	(void)c;
	if (setpriority(PRIO_PROCESS, 0, -20) < 0)
		return attack_refused(r, "setpriority(-20)");
	return attack_broke(r, "has priority -20");
}

static int log_flood(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	int last = 0;

	(void)a;
	(void)c;
	for (int i = 0; i < FLOOD_CALLS; i++) {
		AUTO_FD int fd = socket(20 + i % 20, SOCK_DGRAM | SOCK_CLOEXEC, i);

		last = fd >= 0 ? 0 : errno;
	}
	errno = last;
	return attack_reached(r, last ? -1 : 0, "socket");
}

static void flood_judge(const struct attack *a, const struct attack_ctx *c,
	const struct box_result *result, struct attack_report *r)
{
	(void)a;
	(void)c;
	if (r->verdict != ATTACK_REFUSED)
		return;
	(void)snprintf(r->text, sizeof(r->text),
		"%d refused calls: %llu counted in %zu entries of %d at most", FLOOD_CALLS,
		(unsigned long long)result->violations.total, result->violations.n, VIOLATION_MAX);
	if (result->violations.n > VIOLATION_MAX)
		r->verdict = ATTACK_BROKE;
}

static void tune_timeout(struct spec *spec)
{
	spec->limits.timeout_ms = LATE_MS;
	spec->limits.kill_after_ms = 200;
	spec->walls[WALL_TIME] = WALL_LEVEL_REQUIRED;
}

static int outstay(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	uint64_t end = now_us(CLOCK_MONOTONIC) + 4 * LATE_MS * 1000;
	struct timespec step = {.tv_nsec = 50000000};

	(void)a;
	(void)c;
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	while (now_us(CLOCK_MONOTONIC) < end)
		(void)nanosleep(&step, NULL);
	return attack_broke(r, "still running after %d ms, timeout %d ms", 4 * LATE_MS, LATE_MS);
}

static void outstay_judge(const struct attack *a, const struct attack_ctx *c,
	const struct box_result *result, struct attack_report *r)
{
	(void)a;
	(void)c;
	if (r->verdict != ATTACK_ABSENT || !result->timed_out)
		return;
	r->verdict = ATTACK_REFUSED;
	r->err = -SIGKILL;
	(void)snprintf(r->text, sizeof(r->text), "ignored SIGTERM; the box ended after %llu ms",
		(unsigned long long)(result->wall_us / 1000));
}

static int daemon_lock(const struct attack_ctx *c, int how)
{
	char path[2 * ATTACK_PATH_SIZE];
	AUTO_FD int fd = -EBADF;

	(void)snprintf(path, sizeof(path), "%s/daemon.lock", c->shared);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || flock(fd, how) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Leave a daemon behind that holds a lock, by which it is seen from outside. */
static int leave_daemon(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int ready_rd = -EBADF;
	int ready[2];
	pid_t pid = 0;

	(void)a;
	if (pipe2(ready, O_CLOEXEC) < 0)
		return attack_absent(r, "pipe");
	ready_rd = ready[0];
	if (fork() == 0) {
		(void)setsid();
		(void)signal(SIGTERM, SIG_IGN);
		(void)signal(SIGHUP, SIG_IGN);
		if (fork() != 0)
			_exit(0);
		(void)prctl(PR_SET_PDEATHSIG, 0);
		(void)alarm(DAEMON_SECONDS);
		pid = getpid();
		if (daemon_lock(c, LOCK_EX) < 0 || write(ready[1], &pid, sizeof(pid)) < 0)
			_exit(1);
		(void)close(ready[1]);
		for (;;)
			(void)pause();
	}
	(void)close(ready[1]);
	(void)wait(NULL);
	if (read(ready_rd, &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
		return attack_absent(r, "the daemon did not start");
	if (c->role == ATTACK_ROLE_CONTROL) {
		int fd = daemon_lock(c, LOCK_EX | LOCK_NB);

		(void)kill(pid, SIGKILL);
		if (fd == -EWOULDBLOCK)
			return attack_broke(r, "a daemon outlives its parent");
		return attack_absent(r, "no daemon");
	}
	errno = ESRCH;
	return attack_refused(r, "the daemon is gone with the box");
}

static void daemon_judge(const struct attack *a, const struct attack_ctx *c,
	const struct box_result *result, struct attack_report *r)
{
	AUTO_FD int fd = daemon_lock(c, LOCK_EX | LOCK_NB);

	(void)a;
	(void)result;
	if (fd >= 0 || r->verdict != ATTACK_REFUSED)
		return;
	r->verdict = ATTACK_BROKE;
	(void)snprintf(r->text, sizeof(r->text), "the daemon lives on after the box has ended");
}

#define OWN_BOMB (ATTACK_CONTROL | ATTACK_OWN_BOX)

static const struct attack table[] = {
	{.name = "resources/fork-bomb",
		.wall = WALL_PIDS,
		.success = "the machine has no process left for anybody else",
		.try = fork_bomb,
		.flags = OWN_BOMB},
	{.name = "resources/thread-bomb",
		.wall = WALL_PIDS,
		.success = "the same with threads",
		.try = thread_bomb,
		.flags = OWN_BOMB},
	{.name = "resources/memory-bomb",
		.wall = WALL_MEMORY,
		.success = "the machine has no memory left for anybody else",
		.try = memory_bomb,
		.judge = memory_judge,
		.flags = OWN_BOMB},
	{.name = "resources/memory-bomb-in-many-processes",
		.wall = WALL_MEMORY,
		.success = "limits that count one process at a time are passed by many",
		.try = memory_spread,
		.judge = memory_judge,
		.flags = OWN_BOMB},
	{.name = "resources/cpu-hog",
		.wall = WALL_CPU,
		.success = "neighbours wait for the processor",
		.try = cpu_hog,
		.judge = cpu_judge,
		.tune = tune_cpu,
		.flags = OWN_BOMB | ATTACK_METER,
		.expect = {EAGAIN}},
	{.name = "resources/open-files",
		.wall = WALL_RLIMITS,
		.success = "the machine's file table fills up",
		.try = open_files,
		.expect = {EMFILE}},
	{.name = "resources/inotify-instances",
		.wall = WALL_RLIMITS,
		.success = "the machine's inotify instances are used up",
		.try = inotify,
		.expect = {EMFILE}},
	{.name = "resources/raise-own-limits",
		.wall = WALL_RLIMITS,
		.success = "root of the box lifts the limits",
		.try = raise_limit,
		.flags = ATTACK_AS_ROOT,
		.expect = {EPERM}},
	{.name = "resources/core-dump",
		.wall = WALL_RLIMITS,
		.success = "a crash makes the host write a core or run its core handler",
		.try = core_dump,
		.expect = {EPERM}},
	{.name = "resources/locked-memory",
		.wall = WALL_RLIMITS,
		.success = "memory is taken from everybody for good",
		.try = lock_memory,
		.expect = {ENOMEM, EPERM, EAGAIN}},
	{.name = "resources/realtime-priority",
		.wall = WALL_CAPS,
		.success = "the box runs before everybody else",
		.try = realtime,
		.flags = ATTACK_AS_ROOT,
		.expect = {EPERM}},
	{.name = "resources/negative-nice",
		.wall = WALL_CAPS,
		.success = "the box takes the processor from everybody else",
		.try = nice_down,
		.flags = ATTACK_AS_ROOT,
		.expect = {EACCES, EPERM}},
	{.name = "resources/log-flood",
		.wall = WALL_SECCOMP,
		.success = "refused calls fill bawn's memory or the log",
		.try = log_flood,
		.judge = flood_judge,
		.flags = ATTACK_OWN_BOX,
		.expect = {EPERM}},
	{.name = "resources/outstay-timeout",
		.wall = WALL_TIME,
		.success = "a command that ignores SIGTERM runs on past its time",
		.try = outstay,
		.judge = outstay_judge,
		.tune = tune_timeout,
		.flags = OWN_BOMB},
	{.name = "resources/leave-a-daemon",
		.wall = WALL_PID,
		.success = "something goes on running after the box has ended",
		.try = leave_daemon,
		.judge = daemon_judge,
		.flags = OWN_BOMB},
};

const struct attack_table attack_table_resources = {table, sizeof(table) / sizeof(table[0])};
