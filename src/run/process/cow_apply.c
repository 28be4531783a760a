/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Order of an apply: deletions, children first; then everything else, parents
 * first, each file as a new one renamed over the old; then the modes of
 * directories, children first. Killed at any point, every entry is either as it
 * was, or done, or a temporary file under a name that the next try reuses.
 */
#include "base/mem.h"
#include "run/process/cow_impl.h"
#include "sys/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#define XATTR_LIST 4096  /* bytes of names; a file with more loses the rest */
#define XATTR_MAX  65536 /* bytes of a value */

enum todo {
	TODO_NOT, /* not selected, left out, or done */
	TODO_APPLY,
};

static int by_path(const void *a, const void *b)
{
	return strcmp((*(const struct cow_entry *const *)a)->path,
		(*(const struct cow_entry *const *)b)->path);
}

static const char *quote(const char *path, char *out, size_t size)
{
	return text_quote(path, out, size);
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Mark the directories the run made above an entry: without them it has no place. */
static void select_above(const struct cow_job *job, const struct cow_entry *e, bool *selected)
{
	AUTO_FREE char *path = text_format("%s", e->path);

	for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
		const struct cow_entry *above;

		*slash = '\0';
		above = cow_lookup(job, path);
		if (above && above->kind != COW_DELETED)
			selected[above - job->run->entries] = true;
	}
}

static int select_entries(const struct cow_job *job, bool *selected, struct err *err)
{
	const struct strv *only = job->how->only;
	char quoted[200];

	if (!only || only->n == 0) {
		for (size_t i = 0; i < job->run->n; i++)
			selected[i] = true;
		return 0;
	}
	for (size_t k = 0; k < only->n; k++) {
		bool is_known = false;

		for (size_t i = 0; i < job->run->n; i++) {
			if (!is_below(job->run->entries[i].path, only->v[k]))
				continue;
			is_known = selected[i] = true;
			select_above(job, &job->run->entries[i], selected);
		}
		if (!is_known)
			return err_set(err, ENOENT, "'%s' is not among the changes of run '%s'",
				quote(only->v[k], quoted, sizeof(quoted)), job->run->id);
	}
	return 0;
}

static int judge_all(const struct cow_job *job, struct cow_apply *a, const bool *selected,
	enum todo *todo, struct err *err)
{
	for (size_t i = 0; i < job->run->n; i++) {
		const struct cow_entry *e = &job->run->entries[i];
		enum cow_verdict v;
		const char *why;

		if (!selected[i])
			continue;
		v = cow_judge(job, e, &why);
		if (a->judged)
			a->judged(e, v, why, a->arg);
		todo[i] = v == COW_READY ? TODO_APPLY : TODO_NOT;
		a->done += v == COW_DONE;
		a->conflicts += v == COW_CONFLICT;
		a->refused += v == COW_PROTECTED;
	}
	if (a->conflicts)
		return err_set(err, EEXIST,
			"run '%s': %zu of its changes meet changes made since; nothing was applied",
			job->run->id, a->conflicts);
	if (a->refused && !(a->flags & COW_SKIP_PROTECTED))
		return err_set(err, EPERM,
			"run '%s': %zu of its changes are to protected names; nothing was applied",
			job->run->id, a->refused);
	return 0;
}

static int check_space(const struct cow_job *job, const enum todo *todo, struct err *err)
{
	struct statvfs fs;
	uint64_t need = 0;

	for (size_t i = 0; i < job->run->n; i++) {
		const struct cow_entry *e = &job->run->entries[i];
		AUTO_FD int fd = -EBADF;
		struct stat st;

		if (todo[i] != TODO_APPLY || !e->file)
			continue;
		fd = cow_open_content(job->run, e, err);
		if (fd < 0)
			return fd;
		if (fstat(fd, &st) < 0)
			return err_sys(err, "stat a kept file");
		need += (uint64_t)st.st_blocks * 512;
	}
	if (fstatvfs(job->target_fd, &fs) == 0 && need > (uint64_t)fs.f_bavail * fs.f_frsize)
		return err_set(err, ENOSPC,
			"'%s': the changes need %" PRIu64 " bytes; nothing was applied",
			job->run->target, need);
	return 0;
}

static int fail(const struct cow_entry *e, const char *what, struct err *err)
{
	char quoted[200];

	return err_sys(err, "%s '%s'", what, quote(e->path, quoted, sizeof(quoted)));
}

static int delete_entry(const struct cow_job *job, const struct cow_entry *e, struct err *err)
{
	const char *name = NULL;
	AUTO_FD int parent = -EBADF;
	struct stat st;

	parent = tree_open_parent(job->target_fd, e->path, &name);
	if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (unlinkat(parent, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
		return fail(e, "delete", err);
	return 0;
}

/* Access lists and the user's own attributes stay with a file whose content is replaced. */
static void copy_xattrs(int from_fd, int to_fd)
{
	AUTO_FREE char *value = mem_must(malloc(XATTR_MAX));
	char names[XATTR_LIST];
	ssize_t n = flistxattr(from_fd, names, sizeof(names));

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
		ssize_t len;

		if (!text_starts(names + i, "user.") &&
			strcmp(names + i, "system.posix_acl_access") != 0)
			continue;
		len = fgetxattr(from_fd, names + i, value, XATTR_MAX);
		if (len >= 0)
			(void)fsetxattr(
				to_fd, names + i, value, (size_t)len, 0); /* as far as it goes */
	}
}

/* Give the new file the owner of the old one, or the one the box gave it, where we may. */
static void set_owner(int fd, const struct cow_entry *e, const struct stat *old)
{
	uid_t uid = old ? old->st_uid : e->uid;
	gid_t gid = old ? old->st_gid : e->gid;

	if (uid != COW_NO_ID && (geteuid() == 0 || old))
		(void)fchown(fd, uid, gid);
}

static int fill_file(const struct cow_job *job, const struct cow_entry *e, int parent_fd,
	const char *name, int fd, struct err *err)
{
	AUTO_FD int kept = cow_open_content(job->run, e, err);
	AUTO_FD int old = openat(parent_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool has_old = false;
	struct stat st;
	int r;

	if (kept < 0)
		return kept;
	r = tree_copy_data(kept, fd, UINT64_MAX, err);
	if (r < 0)
		return r;
	if (e->kind == COW_MODIFIED && old >= 0 && fstat(old, &st) == 0 && S_ISREG(st.st_mode)) {
		has_old = true;
		copy_xattrs(old, fd);
	}
	set_owner(fd, e, has_old ? &st : NULL);
	if (fchmod(fd, e->mode & 0777) < 0)
		return fail(e, "chmod", err);
	return 0;
}

static int make_temp(const struct cow_job *job, const struct cow_entry *e, int parent_fd,
	const char *name, const char *temp, struct err *err)
{
	AUTO_FD int fd = -EBADF;

	/* Left by a try that was killed. */
	(void)unlinkat(parent_fd, temp, 0);
	if (S_ISLNK(e->mode)) {
		if (symlinkat(e->link, parent_fd, temp) < 0)
			return fail(e, "make link", err);
		if (geteuid() == 0 && e->uid != COW_NO_ID)
			(void)fchownat(parent_fd, temp, e->uid, e->gid, AT_SYMLINK_NOFOLLOW);
		return 0;
	}
	fd = openat(parent_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(e, "write", err);
	return fill_file(job, e, parent_fd, name, fd, err);
}

/* A regular file or link: made under another name, then renamed into place. */
static int place(const struct cow_job *job, const struct cow_entry *e, struct err *err)
{
	const char *name = NULL;
	AUTO_FD int parent = -EBADF;
	bool is_forced = job->how->flags & COW_FORCE;
	char temp[96];
	struct stat now;
	int r;

	parent = tree_open_parent(job->target_fd, e->path, &name);
	if (parent < 0) {
		errno = -parent;
		return fail(e, "open the directory of", err);
	}
	cow_temp_name(job->run, e, temp, sizeof(temp));
	r = make_temp(job, e, parent, name, temp, err);
	if (r < 0)
		goto undo_temp;
	/* Judged some time ago; look once more in the last moment. */
	if (e->kind == COW_MODIFIED && !is_forced &&
		(fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) < 0 || !cow_is_base(e, &now))) {
		errno = EEXIST;
		r = fail(e, "somebody else just changed", err);
		goto undo_temp;
	}
	if (e->kind == COW_REPLACED)
		(void)unlinkat(parent, name, AT_REMOVEDIR); /* a directory, emptied before */
	r = e->kind == COW_ADDED && !is_forced
		    ? renameat2(parent, temp, parent, name, RENAME_NOREPLACE)
		    : renameat(parent, temp, parent, name);
	/* Some file systems know no flags. */
	if (r < 0 && errno == EINVAL)
		r = renameat(parent, temp, parent, name);
	if (r == 0)
		return 0;
	r = fail(e, "put in place", err);

undo_temp:
	(void)unlinkat(parent, temp, 0);
	return r;
}

static int make_dir(const struct cow_job *job, const struct cow_entry *e, struct err *err)
{
	const char *name = NULL;
	AUTO_FD int parent = tree_open_parent(job->target_fd, e->path, &name);
	struct stat now;

	if (parent < 0) {
		errno = -parent;
		return fail(e, "open the directory of", err);
	}
	if (fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(now.st_mode) &&
		unlinkat(parent, name, 0) < 0)
		return fail(e, "replace", err);
	/* Open for us until everything is in it; the real mode comes last. */
	if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return fail(e, "make directory", err);
	return 0;
}

static int set_dir_mode(
	const struct cow_job *job, const struct cow_entry *e, mode_t extra, struct err *err)
{
	AUTO_FD int fd = tree_open(job->target_fd, e->path, O_RDONLY | O_DIRECTORY, 0);

	/* Not readable for us, but ours to change. */
	if (fd == -EACCES) {
		const char *name = NULL;
		AUTO_FD int parent = tree_open_parent(job->target_fd, e->path, &name);

		if (parent >= 0 && fchmodat(parent, name, (e->mode & 07777) | extra, 0) == 0)
			return 0;
	}
	if (fd < 0) {
		errno = -fd;
		return fail(e, "open", err);
	}
	if (e->kind != COW_MODIFIED && !extra)
		set_owner(fd, e, NULL);
	if (fchmod(fd, (e->mode & 07777) | extra) < 0)
		return fail(e, "chmod", err);
	return 0;
}

static int change_all(
	const struct cow_job *job, struct cow_apply *a, const enum todo *todo, struct err *err)
{
	const struct cow_entry *all = job->run->entries;
	int r = 0;

	for (size_t i = job->run->n; r == 0 && i-- > 0;) {
		if (todo[i] == TODO_APPLY && all[i].kind == COW_DELETED)
			r = delete_entry(job, &all[i], err);
	}
	for (size_t i = 0; r == 0 && i < job->run->n; i++) {
		if (todo[i] != TODO_APPLY || all[i].kind == COW_DELETED)
			continue;
		if (!S_ISDIR(all[i].mode))
			r = place(job, &all[i], err);
		else if (all[i].kind == COW_MODIFIED)
			r = set_dir_mode(job, &all[i], 0700, err);
		else
			r = make_dir(job, &all[i], err);
	}
	for (size_t i = job->run->n; r == 0 && i-- > 0;) {
		if (todo[i] == TODO_APPLY && S_ISDIR(all[i].mode))
			r = set_dir_mode(job, &all[i], 0, err);
	}
	for (size_t i = 0; r == 0 && i < job->run->n; i++)
		a->applied += todo[i] == TODO_APPLY;
	return r;
}

/* Nothing left: every entry that was not applied now was so before. */
static bool is_all_done(const struct cow_job *job, const enum todo *todo)
{
	for (size_t i = 0; i < job->run->n; i++) {
		const char *why;

		if (todo[i] != TODO_APPLY &&
			cow_judge(job, &job->run->entries[i], &why) != COW_DONE)
			return false;
	}
	return true;
}

static int apply(
	struct cow_job *job, struct cow_apply *a, int run_fd, bool *ret_all, struct err *err)
{
	AUTO_FREE bool *selected = mem_must(calloc(job->run->n + 1, sizeof(*selected)));
	AUTO_FREE enum todo *todo = mem_must(calloc(job->run->n + 1, sizeof(*todo)));
	AUTO_FD int mark = -EBADF;
	int r = select_entries(job, selected, err);

	if (r == 0)
		r = judge_all(job, a, selected, todo, err);
	if (r == 0)
		r = check_space(job, todo, err);
	if (r < 0 || (a->flags & COW_DRY_RUN))
		return r;
	mark = openat(run_fd, COW_APPLYING, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (mark < 0)
		return err_sys(err, "create '%s/%s'", job->run->dir, COW_APPLYING);
	r = change_all(job, a, todo, err);
	if (r < 0)
		return err_wrap(err, "run '%s' is applied in part; try again", job->run->id);
	/* The record goes away next: first the changes must be on disk. */
	(void)syncfs(job->target_fd);
	(void)unlinkat(run_fd, COW_APPLYING, 0);
	*ret_all = is_all_done(job, todo);
	return 0;
}

int cow_apply(const struct cow_run *run, struct cow_apply *a, bool *ret_all, struct err *err)
{
	AUTO_FREE const struct cow_entry **sorted =
		mem_must(calloc(run->n + 1, sizeof(const struct cow_entry *)));
	AUTO_FD int run_fd = open(run->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD int target = open(run->target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct cow_job job = {.run = run, .how = a, .target_fd = target, .sorted = sorted};

	if (run_fd < 0)
		return err_sys(err, "open '%s'", run->dir);
	if (target < 0)
		return err_sys(err, "open '%s'", run->target);
	if (flock(run_fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, EBUSY, "run '%s' is being applied or discarded", run->id);
	for (size_t i = 0; i < run->n; i++)
		sorted[i] = &run->entries[i];
	qsort(sorted, run->n, sizeof(*sorted), by_path);
	return apply(&job, a, run_fd, ret_all, err);
}
