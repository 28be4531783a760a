/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/cgroup_reap - the names of leaves, and making leaves go: kill, wait, remove, sweep.
 *
 * A name carries its owner's pid, start time and pid namespace, so that anyone who finds a leaf
 * can tell whether its owner still lives. Works by path and by name only, for a janitor that
 * holds nothing else. Blocks until a deadline that the caller gives.
 */
#include "sys/cgroup_impl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define SWEEP_MS 5000

uint64_t cgroup_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int time_left(uint64_t deadline_ms)
{
	uint64_t now = cgroup_now_ms();

	return now >= deadline_ms ? 0 : (int)(deadline_ms - now);
}

/* Start time in clock ticks since boot, and state letter, by proc(5). */
static int read_stat(const char *proc_dir, char *ret_state, uint64_t *ret_start)
{
	char text[1024];
	const char *p;
	int r = cgroup_get(proc_dir, "stat", text, sizeof(text));

	if (r < 0)
		return r;
	/* The name in parentheses may hold anything, parentheses too: start after the last one. */
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || p[2] == '\0')
		return -EBADMSG;
	*ret_state = p[2];
	p += 2;
	for (int field = 3; field < 22; field++) {
		p = strchr(p, ' ');
		if (!p)
			return -EBADMSG;
		p++;
	}
	return cgroup_scan_number(&p, ret_start) ? 0 : -EBADMSG;
}

static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 ? 0 : st.st_ino;
}

int cgroup_make_name(char ret[CGROUP_NAME_MAX], struct err *err)
{
	uint32_t random = 0;
	uint64_t start;
	char state;
	int r = read_stat("/proc/self", &state, &start);

	if (r < 0)
		return err_set(err, -r, "read '/proc/self/stat': %s", strerror(-r));
	/* Not a secret: it keeps two leaves of one owner apart. */
	if (getrandom(&random, sizeof(random), GRND_INSECURE) != (ssize_t)sizeof(random))
		return err_sys(err, "getrandom");
	(void)snprintf(ret, CGROUP_NAME_MAX, "bawn-%d-%" PRIu64 "-%" PRIu64 "-%08" PRIx32,
		(int)getpid(), start, pid_namespace(), random);
	return 0;
}

bool cgroup_name_is_dead(const char *name)
{
	uint64_t field[3]; /* pid, start time, pid namespace */
	const char *p = name;
	char proc_dir[32];
	uint64_t start;
	char state;
	int r;

	if (strncmp(p, "bawn-", 5) != 0)
		return false;
	p += 5;
	for (size_t i = 0; i < 3; i++)
		if (!cgroup_scan_number(&p, &field[i]) || *p++ != '-')
			return false;
	if (strspn(p, "0123456789abcdef") != 8 || (p[8] != '\0' && strcmp(p + 8, ".self") != 0))
		return false;
	if (field[0] == 0 || field[0] > INT32_MAX || field[2] != pid_namespace())
		return false;

	(void)snprintf(proc_dir, sizeof(proc_dir), "/proc/%d", (int)field[0]);
	r = read_stat(proc_dir, &state, &start);
	/* hidepid= makes a live stranger's entry look absent; his pid still answers. */
	if (r < 0)
		return kill((pid_t)field[0], 0) < 0 && errno == ESRCH;
	return start != field[1] || state == 'Z' || state == 'X';
}

bool cgroup_pid_in(pid_t pid, const char *name, size_t n)
{
	size_t name_n = strlen(name);
	char text[CGROUP_TEXT_MAX];
	char proc_dir[32];
	size_t found = 0;

	(void)snprintf(proc_dir, sizeof(proc_dir), "/proc/%d", (int)pid);
	if (cgroup_get(proc_dir, "cgroup", text, sizeof(text)) <= 0)
		return false;
	for (const char *p = strstr(text, name); p; p = strstr(p + name_n, name))
		found += p > text && p[-1] == '/' && (p[name_n] == '\n' || p[name_n] == '\0');
	return found >= n;
}

/*
 * Kill one pid read from cgroup.procs. It may have died since and its number may be someone else's:
 * hold the process first, look again whether it is in the leaf, then signal what we hold.
 * Returns the pidfd to wait on, or -EBADF if the pid is no longer a member.
 */
static int kill_member(pid_t pid, const char *name)
{
	AUTO_FD int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0 || !cgroup_pid_in(pid, name, 1))
		return -EBADF;
	if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0)
		return -EBADF;
	return TAKE_FD(fd);
}

/* Kill what the first page of cgroup.procs lists and wait for the last of it. 0 when empty. */
static int kill_round(const char *leaf, const char *name, uint64_t deadline_ms)
{
	AUTO_FD int last = -EBADF;
	char text[CGROUP_TEXT_MAX];
	const char *p = text;
	uint64_t pid;
	int n = cgroup_get(leaf, "cgroup.procs", text, sizeof(text));

	if (n <= 0)
		return n == -ENOENT || n == -ENODEV ? 0 : n;
	for (; cgroup_scan_number(&p, &pid) && *p == '\n'; p++) {
		int fd;

		/* 0 is a process of a pid namespace we cannot see, and kill(0) is our own group. */
		if (pid == 0 || pid > INT32_MAX || pid == (uint64_t)getpid())
			continue;
		fd = kill_member((pid_t)pid, name);
		if (fd >= 0) {
			closep(&last);
			last = fd;
		}
	}
	if (last >= 0) {
		struct pollfd wait = {.fd = last, .events = POLLIN};

		/* The kernel takes a task out of its cgroups before it tells its pidfd. */
		(void)poll(&wait, 1, time_left(deadline_ms));
	}
	return 1;
}

int cgroup_kill_leaf(
	const char *leaf, const char *name, bool is_v2, uint64_t deadline_ms, struct err *err)
{
	struct err kill_err = {0};
	int r;

	if (is_v2) {
		r = cgroup_put(leaf, "cgroup.kill", "1", &kill_err);
		if (r == 0)
			return 0;
	}
	do {
		r = kill_round(leaf, name, deadline_ms);
		if (r == 0)
			return 0;
		if (r < 0)
			return err_set(err, -r, "read '%s/cgroup.procs': %s", leaf, strerror(-r));
	} while (time_left(deadline_ms) > 0);
	return err_set(err, EBUSY, "processes in '%s' do not end", leaf);
}

/* cgroup.events tells POLLPRI when "populated" changes; v1 has no such event. */
static void wait_empty_v2(const char *leaf, uint64_t deadline_ms)
{
	char path[CGROUP_LEAF_MAX + 16];
	AUTO_FD int fd = -EBADF;
	char text[256];
	uint64_t populated;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/cgroup.events", leaf);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	while ((n = pread(fd, text, sizeof(text) - 1, 0)) > 0) {
		struct pollfd wait = {.fd = fd, .events = POLLPRI};

		text[n] = '\0';
		if (!cgroup_find_key(text, "populated", &populated) || populated == 0)
			return;
		if (poll(&wait, 1, time_left(deadline_ms)) <= 0)
			return;
	}
}

int cgroup_remove_leaf(
	const char *leaf, const char *name, bool is_v2, uint64_t deadline_ms, struct err *err)
{
	struct timespec pause = {.tv_nsec = 200000};
	int r;

	if (rmdir(leaf) == 0 || errno == ENOENT)
		return 0;
	if (errno != EBUSY)
		return err_sys(err, "rmdir '%s'", leaf);
	r = cgroup_kill_leaf(leaf, name, is_v2, deadline_ms, err);
	if (r < 0)
		return r;
	if (is_v2)
		wait_empty_v2(leaf, deadline_ms);
	/* A dying task leaves its css_set a moment after the files say so; there is no event. */
	while (rmdir(leaf) < 0 && errno != ENOENT) {
		if (errno != EBUSY || time_left(deadline_ms) == 0)
			return err_sys(err, "rmdir '%s'", leaf);
		(void)nanosleep(&pause, NULL);
		if (pause.tv_nsec < 10000000)
			pause.tv_nsec *= 2;
	}
	return 0;
}

static int sweep_parent(const struct cgroup_parent *parent, uint64_t deadline_ms)
{
	AUTO_DIR DIR *dir = opendir(parent->path);
	struct dirent *e;
	int gone = 0;

	while (dir && (e = readdir(dir))) {
		char leaf[CGROUP_LEAF_MAX + 256];
		struct err ignored = {0};

		if (!cgroup_name_is_dead(e->d_name) || strlen(e->d_name) >= CGROUP_NAME_MAX)
			continue;
		(void)snprintf(leaf, sizeof(leaf), "%s/%s", parent->path, e->d_name);
		gone += cgroup_remove_leaf(leaf, e->d_name, parent->is_v2, deadline_ms, &ignored) ==
			0;
	}
	return gone;
}

int cgroup_sweep(void)
{
	const struct cgroup_tree *tree = cgroup_tree_get();
	uint64_t deadline_ms = cgroup_now_ms() + SWEEP_MS;
	int gone = 0;

	for (size_t i = 0; i < tree->n; i++)
		gone += sweep_parent(&tree->parent[i], deadline_ms);
	return gone;
}
