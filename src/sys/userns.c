/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/userns.h"

#include "base/own.h"
#include "base/text.h"
#include "sys/caps.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define RANGE_DIR  "/run/bawn"
#define RANGE_FILE RANGE_DIR "/ids.lock"

extern char **environ;

int userns_is_host_root(struct err *err)
{
	char buf[128] = "";
	uint64_t inside, outside, count;
	AUTO_FD int fd = -EBADF;
	const char *p = buf;
	uint64_t caps;

	if (geteuid() != 0)
		return 0;
	errno = 0;
	caps = caps_effective();
	/*
	 * Root without any capability is rarer than a capget() that failed, and runs as well
	 * without.
	 */
	if (caps == 0 && errno != 0)
		return err_sys(err, "read capabilities");
	if (!(caps & (1ull << CAP_SYS_ADMIN)))
		return 0;
	fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, buf, sizeof(buf) - 1) <= 0)
		return err_sys(err, "read '/proc/self/uid_map'");
	if (text_scan_u64(&p, &inside) < 0 || text_scan_u64(&p, &outside) < 0 ||
		text_scan_u64(&p, &count) < 0)
		return err_set(err, EPROTO, "cannot read '/proc/self/uid_map'");
	return inside == 0 && outside == 0 && count == UINT32_MAX;
}

static int put(pid_t pid, const char *file, const char *text, struct err *err)
{
	char path[64];
	AUTO_FD int fd = -EBADF;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "open '%s'", file);
	/* One write() or none: the kernel takes a map once, whole. */
	if (write(fd, text, strlen(text)) < 0)
		return err_sys(err, "write '%s'", file);
	return 0;
}

static void print_map(const struct userns_extent *e, unsigned n, char *out, size_t size)
{
	size_t used = 0;

	out[0] = 0;
	for (unsigned i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%u %u %u\n", e[i].inside,
			e[i].outside, e[i].count);
}

static int run_helper(
	const char *helper, pid_t pid, const struct userns_extent *e, unsigned n, struct err *err)
{
	char numbers[1 + 3 * USERNS_EXTENTS][12];
	char *argv[3 + 3 * USERNS_EXTENTS] = {(char *)(uintptr_t)helper};
	unsigned k = 0;
	int status = 0, r;
	pid_t child;

	(void)snprintf(numbers[k++], sizeof(numbers[0]), "%d", pid);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(numbers[k++], sizeof(numbers[0]), "%u", e[i].inside);
		(void)snprintf(numbers[k++], sizeof(numbers[0]), "%u", e[i].outside);
		(void)snprintf(numbers[k++], sizeof(numbers[0]), "%u", e[i].count);
	}
	for (unsigned i = 0; i < k; i++)
		argv[1 + i] = numbers[i];
	r = posix_spawnp(&child, helper, NULL, NULL, argv, environ);
	if (r != 0) {
		errno = r;
		return err_sys(err, "run '%s'", helper);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, EPERM, "'%s' refused the id map", helper);
	return 0;
}

int userns_write(pid_t pid, const struct userns_map *map, struct err *err)
{
	char text[256];
	int r;

	if (map->by_helper) {
		r = run_helper("newuidmap", pid, map->uid, map->uid_n, err);
		return r < 0 ? r : run_helper("newgidmap", pid, map->gid, map->gid_n, err);
	}
	/*
	 * user_namespaces(7): without CAP_SETGID outside, setgroups must be denied before gid_map.
	 */
	if (map->gid_n == 1 && map->gid[0].count == 1) {
		r = put(pid, "setgroups", "deny", err);
		if (r < 0)
			return r;
	}
	print_map(map->uid, map->uid_n, text, sizeof(text));
	r = put(pid, "uid_map", text, err);
	if (r < 0)
		return r;
	print_map(map->gid, map->gid_n, text, sizeof(text));
	return put(pid, "gid_map", text, err);
}

/* "name:start:count" or "uid:start:count" */
static bool subid_line(char *line, uid_t uid, const char *user, uint32_t count, uint32_t *ret)
{
	char *start = strchr(line, ':'), *n = start ? strchr(start + 1, ':') : NULL;
	uint64_t first, len;
	char number[16];
	struct err ignored;

	if (!n)
		return false;
	*start++ = 0;
	*n++ = 0;
	n[strcspn(n, "\r\n")] = 0;
	(void)snprintf(number, sizeof(number), "%u", uid);
	if (strcmp(line, number) != 0 && (!user || strcmp(line, user) != 0))
		return false;
	if (text_parse_u64(start, "start", 1, UINT32_MAX - 1, &first, &ignored) < 0 ||
		text_parse_u64(n, "count", 1, UINT32_MAX - 1, &len, &ignored) < 0)
		return false;
	if (len < count || first + len > UINT32_MAX)
		return false;
	*ret = (uint32_t)first;
	return true;
}

int userns_subid(const char *file, uid_t uid, const char *user, uint32_t count, uint32_t *ret_start,
	struct err *err)
{
	AUTO_FILE FILE *f = fopen(file, "re");
	char line[512];

	if (!f)
		return err_sys(err, "open '%s'", file);
	while (fgets(line, sizeof(line), f))
		if (subid_line(line, uid, user, count, ret_start))
			return 0;
	return err_set(err, ENOENT, "no range of %u ids for this user in '%s'", count, file);
}

static int try_range(int fd, uint32_t n)
{
	/*
	 * An OFD lock belongs to the open file, not to a process: it lives until the last copy is
	 * closed.
	 */
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = n, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock);
}

int userns_reserve_range(uint32_t *ret_first, struct err *err)
{
	AUTO_FD int fd = -EBADF;
	uint32_t start = 0;

	fd = open(RANGE_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == ENOENT) {
		if (mkdir(RANGE_DIR, 0755) < 0 && errno != EEXIST)
			return err_sys(err, "make '%s'", RANGE_DIR);
		fd = open(RANGE_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	if (fd < 0)
		return err_sys(err, "open '%s'", RANGE_FILE);
	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		return err_sys(err, "getrandom");
	for (uint32_t i = 0; i < USERNS_RANGE_COUNT; i++) {
		uint32_t n = (start + i) % USERNS_RANGE_COUNT;

		if (try_range(fd, n) < 0)
			continue;
		*ret_first = USERNS_RANGE_FIRST + n * USERNS_RANGE_SIZE;
		return TAKE_FD(fd);
	}
	return err_set(err, EAGAIN, "all %u id ranges are in use", USERNS_RANGE_COUNT);
}
