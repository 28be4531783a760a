/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/watchdog - limits of a box without cgroups, by looking at its processes now and then.
 *
 * Weaker than a cgroup, and recorded as such: between two looks a box may pass
 * its limit. Runs in the bawn process of a user without a delegated cgroup. What it reads
 * under /proc is the kernel's; every walk is bounded.
 */
#include "base/own.h"
#include "base/text.h"
#include "run/process/box_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define DEPTH_MAX 64
#define FILES_MAX 256 /* distinct anonymous files counted */
#define LOW_NICE  10

struct look {
	const struct box *b;
	uint64_t memory, tasks;
	dev_t anonymous_dev; /* where memfds live */
	ino_t files[FILES_MAX];
	size_t files_n;
};

static ssize_t read_text(pid_t pid, const char *file, char *buf, size_t size)
{
	char path[64];
	AUTO_FD int fd = -EBADF;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	buf[n > 0 ? n : 0] = 0;
	return n;
}

/* Resident less shared: what the process alone holds. Shared memory is counted by its files. */
static void add_memory(struct look *l, pid_t pid)
{
	char buf[256];
	const char *p;
	uint64_t resident, shared;

	if (read_text(pid, "statm", buf, sizeof(buf)) <= 0)
		return;
	p = strchr(buf, ' ');
	if (!p || text_scan_u64(&p, &resident) < 0 || text_scan_u64(&p, &shared) < 0)
		return;
	if (resident > shared)
		l->memory += (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool is_counted(struct look *l, ino_t ino)
{
	for (size_t i = 0; i < l->files_n; i++)
		if (l->files[i] == ino)
			return true;
	if (l->files_n < FILES_MAX)
		l->files[l->files_n++] = ino;
	return false;
}

/* Anonymous files are in nobody's resident set until they are mapped. */
static void add_anonymous_files(struct look *l, pid_t pid)
{
	char path[64];
	AUTO_DIR DIR *d = NULL;
	const struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		struct stat st;

		if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, 0) < 0)
			continue;
		if (S_ISREG(st.st_mode) && st.st_dev == l->anonymous_dev &&
			!is_counted(l, st.st_ino))
			l->memory += (uint64_t)st.st_blocks * 512;
	}
}

/*
 * Where the scheduler groups by session, a nice value counts inside one session
 * only, and every new session starts at 0 (sched(7), autogroup).
 */
static void lower_session(pid_t pid)
{
	char buf[64], path[64];
	const char *nice;
	uint64_t level;
	AUTO_FD int fd = -EBADF;

	if (getsid(pid) != pid || read_text(pid, "autogroup", buf, sizeof(buf)) <= 0)
		return;
	nice = strstr(buf, "nice ");
	if (!nice)
		return;
	nice += strlen("nice ");
	/* A negative level does not scan, and is not low. */
	if (text_scan_u64(&nice, &level) == 0 && level >= LOW_NICE)
		return;
	(void)snprintf(path, sizeof(path), "/proc/%d/autogroup", pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	/* Refused ten times a second at most: the next look tries again. */
	if (fd >= 0 && write(fd, "10", 2) < 0)
		return;
}

static void look_at(struct look *l, pid_t pid, int depth)
{
	char file[64], buf[8192];
	const char *next;
	uint64_t child;

	l->tasks++;
	if (l->b->plan.watch & PLAN_WATCH_MEMORY) {
		add_memory(l, pid);
		add_anonymous_files(l, pid);
	}
	if (l->b->plan.watch & PLAN_WATCH_CPU)
		lower_session(pid);
	(void)snprintf(file, sizeof(file), "task/%d/children", pid);
	if (depth == DEPTH_MAX || read_text(pid, file, buf, sizeof(buf)) <= 0)
		return;
	next = buf;
	while (text_scan_u64(&next, &child) == 0)
		look_at(l, (pid_t)child, depth + 1);
}

static dev_t anonymous_dev(void)
{
	AUTO_FD int fd = memfd_create("bawn-probe", MFD_CLOEXEC);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? st.st_dev : 0;
}

bool watchdog_look(struct box *b)
{
	static dev_t dev; /* does not change while the kernel runs */
	struct look l = {.b = b};
	struct statfs store;

	if (dev == 0)
		dev = anonymous_dev();
	l.anonymous_dev = dev;
	look_at(&l, b->pid, 0);
	/* What the box keeps in its store is memory too, as it is with a cgroup. */
	if (b->store_fd >= 0 && fstatfs(b->store_fd, &store) == 0)
		l.memory += (uint64_t)(store.f_blocks - store.f_bfree) * (uint64_t)store.f_bsize;
	if ((b->plan.watch & PLAN_WATCH_PIDS) && l.tasks >= b->spec->limits.pids_max)
		b->was_crowded = true;
	if (!(b->plan.watch & PLAN_WATCH_MEMORY))
		return false;
	if (l.memory > b->result->memory_peak)
		b->result->memory_peak = l.memory;
	return l.memory > b->spec->limits.memory_max;
}
