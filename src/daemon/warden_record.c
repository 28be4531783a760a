/* SPDX-License-Identifier: Apache-2.0 */

/*
 * daemon/warden_record - a sandbox's record as lines of text: "key value".
 *
 * Read back by us alone, from a directory of ours; checked all the same, since a half-written
 * or foreign file must not make us kill a stranger's process.
 */
#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "daemon/warden_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_MAX 16384
#define FIRST_LINE "bawn sandbox 1"

static int print(char *text, size_t size, const struct provider_record *r,
	const struct wall_record walls[WALL_COUNT])
{
	int n = snprintf(text, size,
		FIRST_LINE
		"\nid %s\ntier %s\ncgroup %s\nboot %s\npid %lld\nstart %llu\nmade %llu\n",
		r->id, r->tier, r->cgroup, r->boot_id, (long long)r->pid,
		(unsigned long long)r->pid_start, (unsigned long long)r->made_ms);

	for (int i = 0; i < WALL_COUNT && n >= 0 && (size_t)n < size; i++)
		n += snprintf(text + n, size - (size_t)n, "wall %d %d %s %s\n", walls[i].requested,
			walls[i].enforced, wall_name((enum wall)i), walls[i].detail);
	if (n >= 0 && (size_t)n < size)
		n += snprintf(text + n, size - (size_t)n, "end\n");
	return n;
}

int warden_record_write(int dir_fd, const struct provider_record *rec,
	const struct wall_record walls[WALL_COUNT], struct err *err)
{
	char text[RECORD_MAX];
	int n = print(text, sizeof(text), rec, walls);
	AUTO_FD int fd = openat(
		dir_fd, "starting", O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (n < 0 || (size_t)n >= sizeof(text))
		return err_set(err, E2BIG, "a record of %d bytes", n);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		return err_sys(err, "write 'starting'");
	return 0;
}

int warden_record_commit(int dir_fd, struct err *err)
{
	if (renameat(dir_fd, "starting", dir_fd, "record") < 0)
		return err_sys(err, "name 'record'");
	return 0;
}

static bool take_text(const char *value, char *to, size_t size)
{
	size_t n = strlen(value);

	if (n >= size)
		return false;
	memcpy(to, value, n + 1);
	return true;
}

static bool take_number(const char *value, uint64_t max, uint64_t *to)
{
	struct err ignored;

	return text_parse_u64(value, "number", 0, max, to, &ignored) >= 0;
}

/* "2 1 user user:[4026532]" */
static bool take_wall(char *value, struct wall_record *walls)
{
	struct wall_record w = {0};
	char *level = strsep(&value, " "), *verdict = strsep(&value, " ");
	char *name = strsep(&value, " ");
	uint64_t requested, enforced;
	enum wall wall;
	struct err ignored;

	if (!name || wall_parse(name, &wall, &ignored) < 0 ||
		!take_number(level, WALL_LEVEL_REQUIRED, &requested) ||
		!take_number(verdict, WALL_VERDICT_MISSING, &enforced))
		return false;
	w.requested = (enum wall_level)requested;
	w.enforced = (enum wall_verdict)enforced;
	if (value && !take_text(value, w.detail, sizeof(w.detail)))
		return false;
	walls[wall] = w;
	return true;
}

static bool take_line(
	char *line, struct provider_record *r, struct wall_record *walls, uint64_t *pid)
{
	char *value = strchr(line, ' ');

	if (!value)
		return false;
	*value++ = 0;
	if (strcmp(line, "wall") == 0)
		return take_wall(value, walls);
	if (strcmp(line, "id") == 0)
		return take_text(value, r->id, sizeof(r->id));
	if (strcmp(line, "tier") == 0)
		return take_text(value, r->tier, sizeof(r->tier));
	if (strcmp(line, "cgroup") == 0)
		return take_text(value, r->cgroup, sizeof(r->cgroup));
	if (strcmp(line, "boot") == 0)
		return take_text(value, r->boot_id, sizeof(r->boot_id));
	if (strcmp(line, "pid") == 0)
		return take_number(value, INT32_MAX, pid);
	if (strcmp(line, "start") == 0)
		return take_number(value, UINT64_MAX, &r->pid_start);
	return strcmp(line, "made") == 0 && take_number(value, UINT64_MAX, &r->made_ms);
}

int warden_record_read(int dir_fd, const char *file, struct provider_record *ret,
	struct wall_record *walls, struct err *err)
{
	static struct wall_record unused[WALL_COUNT];
	struct provider_record rec = {0};
	char text[RECORD_MAX], *rest = text, *line;
	uint64_t pid = 0;
	AUTO_FD int fd = openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return err_sys(err, "open '%s'", file);
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return err_sys(err, "read '%s'", file);
	text[n] = 0;
	line = strsep(&rest, "\n");
	if (strcmp(line, FIRST_LINE) != 0)
		return err_set(err, EBADMSG, "'%s' is not a sandbox's", file);
	while ((line = strsep(&rest, "\n")) && strcmp(line, "end") != 0)
		if (!take_line(line, &rec, walls ? walls : unused, &pid))
			return err_set(err, EBADMSG, "'%s' has a line that is not ours", file);
	if (!line)
		return err_set(err, EBADMSG, "'%s' was cut", file);
	rec.pid = (int64_t)pid;
	*ret = rec;
	return 0;
}
