/* SPDX-License-Identifier: Apache-2.0 */

#include "base/mem.h"
#include "core/masks.h"
#include "run/process/cow_impl.h"
#include "sys/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#define GIT_CONFIG_MAX (256 * 1024) /* bytes; a larger config is not one that git made */

static int by_path(const void *key, const void *entry)
{
	return strcmp(key, (*(const struct cow_entry *const *)entry)->path);
}

const struct cow_entry *cow_lookup(const struct cow_job *job, const char *path)
{
	const struct cow_entry *const *hit =
		bsearch(path, job->sorted, job->run->n, sizeof(const struct cow_entry *), by_path);

	return hit ? *hit : NULL;
}

bool cow_is_base(const struct cow_entry *e, const struct stat *now)
{
	if (now->st_ino != e->base_ino || (now->st_mode & S_IFMT) != (e->base_mode & S_IFMT))
		return false;
	/* A directory's times and size change with its children, which are judged by themselves. */
	if (S_ISDIR(now->st_mode))
		return true;
	return now->st_mode == e->base_mode && cow_mtime_ns(now) == e->base_mtime_ns &&
	       (!S_ISREG(now->st_mode) || (uint64_t)now->st_size == e->base_size);
}

/* An added git config with nothing but plain keys, as git init and git clone write it. */
static bool is_plain_git_config(const struct cow_run *run, const struct cow_entry *e)
{
	const char *slash = strrchr(e->path, '/');
	unsigned flags = strstr(e->path, ".git/modules/") ? MASKS_GIT_MODULE : 0;
	AUTO_FREE char *buf = NULL;
	AUTO_FD int fd = -EBADF;
	struct err ignored = {0};
	ssize_t n;

	if (!S_ISREG(e->mode) || strcmp(slash ? slash + 1 : e->path, "config") != 0 ||
		e->size > GIT_CONFIG_MAX)
		return false;
	fd = cow_open_content(run, e, &ignored);
	buf = mem_must(malloc(GIT_CONFIG_MAX));
	n = fd < 0 ? -1 : read(fd, buf, GIT_CONFIG_MAX);
	return n >= 0 && (uint64_t)n == e->size && masks_git_config_is_safe(buf, (size_t)n, flags);
}

static bool is_in_target(const struct cow_job *job, const char *path)
{
	AUTO_FD int fd = tree_open(job->target_fd, path, O_PATH | O_NOFOLLOW, 0);

	/* A link on the way: assume the worse. */
	return fd >= 0 || fd == -ELOOP;
}

/* Will `dir` (with a slash at its end, or empty) hold `name` once the whole run is applied? */
static bool will_hold(const struct cow_job *job, const char *dir, const char *name)
{
	AUTO_FREE char *path = text_format("%s%s", dir, name);
	const struct cow_entry *e = cow_lookup(job, path);

	return e ? e->kind != COW_DELETED : is_in_target(job, path);
}

/* As git decides it; of whatever kind these are, and whichever part of the run is chosen now. */
static bool will_be_git_dir(const struct cow_job *job, const char *dir)
{
	return will_hold(job, dir, "HEAD") &&
	       (will_hold(job, dir, "commondir") ||
		       (will_hold(job, dir, "objects") && will_hold(job, dir, "refs")));
}

/* The last stone of a repository around a config that came before, as part of no repository. */
static const char *why_completes(const struct cow_job *job, const struct cow_entry *e)
{
	static const char *const marks[] = {"HEAD", "objects", "refs"};
	const char *slash = strrchr(e->path, '/');
	const char *name = slash ? slash + 1 : e->path;
	AUTO_FREE char *dir = text_format("%.*s", (int)(name - e->path), e->path);
	bool is_mark = false;

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		is_mark |= strcmp(name, marks[i]) == 0;
	if (!is_mark || e->kind == COW_DELETED || e->kind == COW_MODIFIED)
		return NULL;
	for (size_t i = 0; i < masks_git_names_n; i++) {
		AUTO_FREE char *path = text_format("%s%s", dir, masks_git_names[i]);

		if (!cow_lookup(job, path) && is_in_target(job, path))
			return will_be_git_dir(job, dir) ? "makes a repository around what git runs"
							 : NULL;
	}
	return NULL;
}

/* Bare repositories have no ".git" in their name: any directory above may be one. */
static const char *why_in_bare(const struct cow_job *job, const struct cow_entry *e)
{
	for (const char *p = e->path; p;) {
		AUTO_FREE char *dir = text_format("%.*s", (int)(p - e->path), e->path);
		const char *why = masks_why_protected_in_git(p);
		const char *slash = strchr(p, '/');

		if (why && will_be_git_dir(job, dir))
			return why;
		p = slash ? slash + 1 : NULL;
	}
	return NULL;
}

static const char *why_protected(const struct cow_job *job, const struct cow_entry *e)
{
	const char *home = job->how->home;
	const char *why = masks_why_protected(e->path);

	/* A directory does nothing by itself; what is in it has its own entry. */
	if (S_ISDIR(e->mode))
		return why_completes(job, e);
	if (e->kind == COW_DELETED && S_ISDIR(e->base_mode))
		return NULL;
	if (!why)
		why = why_in_bare(job, e);
	if (!why)
		why = why_completes(job, e);
	if (!why && home && home[0] == '/') {
		AUTO_FREE char *whole = text_format("%s/%s", job->run->target, e->path);

		if (text_path_below(whole, home) && whole[strlen(home)] == '/')
			why = masks_why_protected(whole + strlen(home) + 1);
	}
	if (!why || (!S_ISLNK(e->mode) && masks_is_sample_hook(e->path)) ||
		is_plain_git_config(job->run, e))
		return NULL;
	return why;
}

/* Open the entry itself, whatever it is. */
static int open_now(const struct cow_job *job, const struct cow_entry *e, struct stat *ret)
{
	AUTO_FD int fd = tree_open(job->target_fd, e->path, O_PATH | O_NOFOLLOW, 0);

	if (fd >= 0 && fstat(fd, ret) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static bool is_same_file(
	const struct cow_job *job, const struct cow_entry *e, const struct stat *now)
{
	AUTO_FD int fd = -EBADF;
	AUTO_FD int kept = -EBADF;
	struct err ignored = {0};

	if ((uint64_t)now->st_size != e->size)
		return false;
	fd = tree_open(job->target_fd, e->path, O_RDONLY | O_NONBLOCK, 0);
	kept = cow_open_content(job->run, e, &ignored);
	return fd >= 0 && kept >= 0 && cow_same_content(fd, kept);
}

static bool is_done(
	const struct cow_job *job, const struct cow_entry *e, int fd, const struct stat *now)
{
	char target[PATH_MAX];
	ssize_t n;

	if (e->kind == COW_DELETED)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP;
	if (fd < 0 || (now->st_mode & S_IFMT) != (e->mode & S_IFMT))
		return false;
	if (S_ISLNK(e->mode)) {
		n = readlinkat(fd, "", target, sizeof(target));
		return n >= 0 && (size_t)n == strlen(e->link) &&
		       memcmp(target, e->link, (size_t)n) == 0;
	}
	if ((now->st_mode & 07777) != (e->mode & 07777))
		return false;
	return S_ISDIR(e->mode) || is_same_file(job, e, now);
}

/* Something in the directory that the run did not delete: made since. */
static bool has_strangers(const struct cow_job *job, const struct cow_entry *e)
{
	AUTO_FD int fd = tree_open(job->target_fd, e->path, O_RDONLY | O_DIRECTORY, 0);
	AUTO_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir)
		return true;
	(void)TAKE_FD(fd);
	while ((d = readdir(dir))) {
		AUTO_FREE char *path = NULL;
		const struct cow_entry *child;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		path = text_format("%s/%s", e->path, d->d_name);
		child = cow_lookup(job, path);
		if (!child || child->kind != COW_DELETED)
			return true;
	}
	return false;
}

/* A directory on the way is not one now; will it be, once the run's entries above are applied? */
static bool is_way_made(const struct cow_job *job, const struct cow_entry *e)
{
	AUTO_FREE char *path = text_format("%s", e->path);

	for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
		const struct cow_entry *above;

		*slash = '\0';
		above = cow_lookup(job, path);
		if (above && !S_ISDIR(above->mode))
			return false;
		if (above && above->kind == COW_REPLACED)
			return true;
	}
	return false;
}

/* NULL, or why the entry cannot be applied without losing somebody's work. */
static const char *find_conflict(const struct cow_job *job, const struct cow_entry *e, int fd,
	const struct stat *now, bool *ret_forcible)
{
	bool is_gone = fd == -ENOENT;

	*ret_forcible = true;
	if (fd < 0 && !is_gone) {
		*ret_forcible = false;
		return is_way_made(job, e) ? NULL : "a directory on the way is not one any more";
	}
	switch (e->kind) {
	case COW_ADDED:
		if (is_gone || (S_ISDIR(now->st_mode) && S_ISDIR(e->mode)))
			return NULL;
		*ret_forcible = !S_ISDIR(now->st_mode);
		return "exists now";
	case COW_MODIFIED:
		if (is_gone)
			return "was deleted since";
		*ret_forcible = (now->st_mode & S_IFMT) == (e->mode & S_IFMT);
		return cow_is_base(e, now) ? NULL : "was changed since";
	case COW_DELETED:
	case COW_REPLACED:
		if (is_gone || (S_ISDIR(now->st_mode) && S_ISDIR(e->mode)))
			return NULL;
		if (S_ISDIR(now->st_mode)) {
			*ret_forcible = false;
			return !cow_is_base(e, now)    ? "was changed since"
			       : has_strangers(job, e) ? "has new entries since"
						       : NULL;
		}
		return cow_is_base(e, now) ? NULL : "was changed since";
	default: return NULL;
	}
}

enum cow_verdict cow_judge(
	const struct cow_job *job, const struct cow_entry *e, const char **ret_why)
{
	struct stat now = {0};
	AUTO_FD int fd = -EBADF;
	int opened = open_now(job, e, &now);
	bool is_forcible;

	fd = opened;
	*ret_why = NULL;
	if (is_done(job, e, opened, &now))
		return COW_DONE;
	if (!(job->how->flags & COW_ALLOW_PROTECTED)) {
		*ret_why = why_protected(job, e);
		if (*ret_why)
			return COW_PROTECTED;
	}
	*ret_why = find_conflict(job, e, opened, &now, &is_forcible);
	if (!*ret_why || (is_forcible && (job->how->flags & COW_FORCE)))
		return COW_READY;
	return COW_CONFLICT;
}
