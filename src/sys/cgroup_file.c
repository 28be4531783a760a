/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/cgroup_file - reading and writing control files, and the small grammars in them.
 *
 * Knows file names only as arguments. No state, no allocation. Runs in whoever uses
 * sys/cgroup; control files answer at once, so nothing here blocks.
 */
#include "sys/cgroup_impl.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const cgroup_controller_name[CGROUP_COUNT] = {"memory", "cpu", "pids", "io"};

#define FILE_PATH_MAX (CGROUP_LEAF_MAX + 64)

int cgroup_put(const char *dir, const char *file, const char *value, struct err *err)
{
	char path[FILE_PATH_MAX];
	AUTO_FD int fd = -EBADF;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(err, "open '%s' to write '%s'", path, value);
	/* One write() or none: the kernel parses each call as a whole value, so no retry loop. */
	if (write(fd, value, strlen(value)) < 0)
		return err_sys(err, "write '%s' to '%s'", value, path);
	return 0;
}

int cgroup_put_number(const char *dir, const char *file, uint64_t n, struct err *err)
{
	char value[32];

	(void)snprintf(value, sizeof(value), "%" PRIu64, n);
	return cgroup_put(dir, file, value, err);
}

int cgroup_get(const char *dir, const char *file, char *text, size_t size)
{
	char path[FILE_PATH_MAX];
	AUTO_FD int fd = -EBADF;
	size_t n = 0;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	while (n < size - 1) {
		ssize_t got = read(fd, text + n, size - 1 - n);

		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	return (int)n;
}

bool cgroup_scan_number(const char **p, uint64_t *ret)
{
	const char *s = *p;
	uint64_t n = 0;

	if (!isdigit((unsigned char)*s))
		return false;
	for (; isdigit((unsigned char)*s); s++) {
		if (__builtin_mul_overflow(n, 10u, &n) ||
			__builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
			return false;
	}
	*p = s;
	*ret = n;
	return true;
}

int cgroup_get_number(const char *dir, const char *file, uint64_t *ret)
{
	char text[64] = "";
	const char *p = text;
	int r = cgroup_get(dir, file, text, sizeof(text));

	if (r < 0)
		return r;
	if (strcmp(text, "max\n") == 0 || strcmp(text, "-1\n") == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	return cgroup_scan_number(&p, ret) && *p == '\n' ? 0 : -EBADMSG;
}

bool cgroup_find_key(const char *text, const char *key, uint64_t *ret)
{
	size_t n = strlen(key);
	const char *line = text;

	while (line) {
		const char *p = line + n + 1;

		if (strncmp(line, key, n) == 0 && line[n] == ' ')
			return cgroup_scan_number(&p, ret);
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return false;
}

unsigned cgroup_parse_controllers(const char *text)
{
	unsigned found = 0;

	while (*text) {
		size_t n = strcspn(text, " ,\n");

		for (size_t i = 0; i < CGROUP_COUNT; i++)
			if (strlen(cgroup_controller_name[i]) == n &&
				memcmp(text, cgroup_controller_name[i], n) == 0)
				found |= 1u << i;
		/* v1 has the older name for the same thing. */
		if (n == 5 && memcmp(text, "blkio", 5) == 0)
			found |= CGROUP_IO;
		text += n;
		text += strspn(text, " ,\n");
	}
	return found;
}

int cgroup_disks_read(struct cgroup_disks *ret, struct err *err)
{
	/* Whole devices only are listed here, and only those take a throttle. */
	AUTO_DIR DIR *dir = opendir("/sys/block");
	struct dirent *e;

	if (!dir)
		return err_sys(err, "list block devices in '/sys/block'");
	ret->n = 0;
	while (ret->n < CGROUP_DISKS_MAX && (e = readdir(dir))) {
		char file[300];
		char *id = ret->id[ret->n];
		uint64_t sectors = 0;

		if (e->d_name[0] == '.')
			continue;
		/*
		 * An empty drive or loop device has nothing to read, and the first throttle a
		 * device ever gets costs some 25 ms: its queue is frozen for it.
		 */
		(void)snprintf(file, sizeof(file), "%s/size", e->d_name);
		if (cgroup_get_number("/sys/block", file, &sectors) == 0 && sectors == 0)
			continue;
		(void)snprintf(file, sizeof(file), "%s/dev", e->d_name);
		/* A device may vanish between the listing and the look. */
		if (cgroup_get("/sys/block", file, id, sizeof(ret->id[0])) <= 0)
			continue;
		id[strcspn(id, "\n")] = '\0';
		ret->n++;
	}
	return (int)ret->n;
}
