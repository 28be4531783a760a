/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_storage - group resources: fill disks, memory file systems, inodes, bandwidth.
 *
 * Bounded like the other bombs; what a control run wrote on the host is removed by it.
 */
#include "cli/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define MIB        (1024u * 1024)
#define OVER_BYTES (16 * MIB)
#define OVER_FILES 4096
#define IO_BPS     MIB /* of the box whose bandwidth is measured */
#define IO_BYTES   (3 * MIB)

/* Write up to `want` bytes to a new file in dir; returns how many fit, errno says why not more. */
static uint64_t fill_file(const char *dir, uint64_t want)
{
	static char block[MIB];
	char path[2 * ATTACK_PATH_SIZE];
	AUTO_FD int fd = -EBADF;
	uint64_t have = 0;

	(void)snprintf(path, sizeof(path), "%s/fill-%d", dir, getpid());
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return 0;
	(void)memset(block, 1, sizeof(block));
	while (have < want) {
		ssize_t n = write(fd, block, sizeof(block));

		if (n < 0)
			break;
		have += (uint64_t)n;
	}
	return have;
}

static void remove_fill(const char *dir)
{
	char path[2 * ATTACK_PATH_SIZE];

	(void)snprintf(path, sizeof(path), "%s/fill-%d", dir, getpid());
	(void)unlink(path);
}

static int fill_one(const struct attack_ctx *c, const char *dir, struct attack_report *r)
{
	uint64_t want = c->limits.disk_max + OVER_BYTES;
	uint64_t have = fill_file(dir, want);
	int saved = errno;

	remove_fill(dir);
	r->number = have;
	if (have >= want)
		return attack_broke(
			r, "wrote %llu MiB to %s", (unsigned long long)(have / MIB), dir);
	errno = saved;
	return attack_refused(r, "%s full after %llu MiB", dir, (unsigned long long)(have / MIB));
}

static int fill_tmp(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return fill_one(c, c->scratch, r);
}

static int fill_shm(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return fill_one(c, "/dev/shm", r);
}

/* Each writable place up to its brim: the cap is for all together. */
static int fill_all(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const char *const dirs[] = {"/tmp", "/var/tmp", "/home/user", "/workspace", "/run",
		"/var", "/etc", "/root", "/opt", "/srv", "/"};
	uint64_t want = c->limits.disk_max + OVER_BYTES, have = 0;
	int saved = ENOSPC;

	(void)a;
	/* Outside, or with the walls down, these would be the host's. */
	if (strcmp(c->scratch, "/tmp") != 0)
		return fill_one(c, c->scratch, r);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]) && have < want; i++) {
		uint64_t n = fill_file(dirs[i], want - have);

		if (n > 0 && have + n < want)
			saved = errno;
		have += n;
	}
	r->number = have;
	if (have >= want)
		return attack_broke(r, "wrote %llu MiB in all", (unsigned long long)(have / MIB));
	errno = saved;
	return attack_refused(r, "full after %llu MiB in all", (unsigned long long)(have / MIB));
}

/* A box gets one inode for each 16 KiB of its cap, and some thousands for its own use. */
static int fill_inodes(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int dir = open(c->scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t want = c->limits.disk_max / 16384 + 2 * OVER_FILES, n;
	char name[64];
	int saved;

	(void)a;
	if (dir < 0)
		return attack_absent(r, "open %s", c->scratch);
	for (n = 0; n < want; n++) {
		(void)snprintf(name, sizeof(name), "inode-%llu", (unsigned long long)n);
		if (mknodat(dir, name, S_IFREG | 0600, 0) < 0)
			break;
	}
	saved = errno;
	for (uint64_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "inode-%llu", (unsigned long long)i);
		(void)unlinkat(dir, name, 0);
	}
	if (n == want)
		return attack_broke(r, "%llu files", (unsigned long long)n);
	errno = saved;
	return attack_refused(r, "file number %llu", (unsigned long long)n + 1);
}

/* Anonymous files are memory that belongs to no process's data segment. */
static int memory_file(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static char block[MIB];
	uint64_t want = c->limits.memory_max + 64ull * MIB;
	AUTO_FD int fd = memfd_create("fill", MFD_CLOEXEC);

	(void)a;
	if (fd < 0)
		return attack_refused(r, "memfd_create");
	(void)memset(block, 1, sizeof(block));
	for (uint64_t have = 0; have < want; have += MIB) {
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			return attack_refused(
				r, "memfd after %llu MiB", (unsigned long long)(have / MIB));
	}
	attack_keep();
	return attack_broke(r, "%llu MiB in a memfd", (unsigned long long)(want / MIB));
}

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

static void tune_io(struct spec *spec)
{
	spec->limits.io_bps = IO_BPS;
	spec->walls[WALL_IO] = WALL_LEVEL_REQUIRED;
}

/* Past the page cache, so that the disk's own speed is what counts. */
static int bandwidth(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct timespec t0 = {0}, t1 = {0};
	char path[2 * ATTACK_PATH_SIZE];
	AUTO_FD int fd = -EBADF;
	void *block = NULL;
	double seconds, rate;

	(void)a;
	if (posix_memalign(&block, 4096, MIB / 4) != 0)
		return attack_absent(r, "memory");
	(void)memset(block, 1, MIB / 4);
	(void)snprintf(path, sizeof(path), "%s/bandwidth-%d", c->shared, getpid());
	fd = open(path, O_CREAT | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
	if (fd < 0)
		return attack_absent(r, "open for direct writing: %s", strerror(errno));
	(void)unlink(path);
	(void)clock_gettime(CLOCK_MONOTONIC, &t0);
	for (unsigned have = 0; have < IO_BYTES; have += MIB / 4)
		if (write(fd, block, MIB / 4) < 0)
			return attack_absent(r, "write: %s", strerror(errno));
	(void)clock_gettime(CLOCK_MONOTONIC, &t1);
	seconds = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
	rate = IO_BYTES / (seconds > 0.000001 ? seconds : 0.000001) / MIB;
	if (rate > 2.0 * IO_BPS / MIB)
		return attack_broke(r, "%.1f MiB/s, limit %.1f", rate, (double)IO_BPS / MIB);
	errno = EAGAIN;
	return attack_refused(r, "%.1f MiB/s, limit %.1f", rate, (double)IO_BPS / MIB);
}

static const struct attack table[] = {
	{.name = "resources/disk-fill",
		.wall = WALL_DISK,
		.success = "the disk is full for everybody",
		.try = fill_tmp,
		.flags = ATTACK_CONTROL | ATTACK_OWN_BOX},
	{.name = "resources/disk-fill-everywhere",
		.wall = WALL_DISK,
		.success = "many places, each below its cap, fill the disk together",
		.try = fill_all,
		.flags = ATTACK_CONTROL | ATTACK_OWN_BOX | ATTACK_AS_ROOT},
	{.name = "resources/shared-memory-fill",
		.wall = WALL_DISK,
		.success = "/dev/shm takes the machine's memory",
		.try = fill_shm,
		.flags = ATTACK_CONTROL | ATTACK_OWN_BOX},
	{.name = "resources/inode-fill",
		.wall = WALL_DISK,
		.success = "empty files use up the inodes, or the kernel's memory",
		.try = fill_inodes,
		.flags = ATTACK_OWN_BOX,
		.expect = {ENOSPC, EDQUOT}},
	{.name = "resources/memory-in-anonymous-files",
		.wall = WALL_MEMORY,
		.success = "memory that no process owns escapes the limit",
		.try = memory_file,
		.judge = memory_judge,
		.flags = ATTACK_CONTROL | ATTACK_OWN_BOX},
	{.name = "resources/disk-bandwidth",
		.wall = WALL_IO,
		.success = "neighbours wait for the disk",
		.try = bandwidth,
		.tune = tune_io,
		.flags = ATTACK_CONTROL | ATTACK_OWN_BOX | ATTACK_NEEDS_IO},
};

const struct attack_table attack_table_storage = {table, sizeof(table) / sizeof(table[0])};
