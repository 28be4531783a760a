/* SPDX-License-Identifier: Apache-2.0 */

#include "run/process/cow.h"

#include "base/mem.h"
#include "core/state_dir.h"
#include "run/process/cow_impl.h"
#include "sys/tree.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

static const char *const kind_names[] = {"added", "modified", "deleted", "replaced"};
_Static_assert(sizeof(kind_names) / sizeof(kind_names[0]) == COW_KIND_COUNT, "one name each");

const char *cow_kind_name(enum cow_kind kind)
{
	return kind_names[kind];
}

char cow_kind_letter(enum cow_kind kind)
{
	return "AMDR"[kind];
}

const char *cow_type_name(mode_t mode)
{
	return S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "file";
}

uint64_t cow_mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

void cow_temp_name(const struct cow_run *run, const struct cow_entry *e, char *out, size_t size)
{
	/* The same at every try, so that what a killed apply left is found again. */
	(void)snprintf(out, size, ".bawn-%s-%zu.tmp", run->id, (size_t)(e - run->entries));
}

int cow_charge(struct cow_run *run, size_t n, struct err *err)
{
	/* A box can make names and links of 4 KiB as fast as we read them. */
	if (n > COW_BYTES_MAX - run->bytes)
		return err_set(err, E2BIG, "changes whose names take more than %zu MiB",
			COW_BYTES_MAX >> 20);
	run->bytes += n;
	return 0;
}

int cow_add_entry(struct cow_run *run, const char *path, struct cow_entry **ret, struct err *err)
{
	int r = cow_charge(run, sizeof(struct cow_entry) + strlen(path) + 1, err);

	if (r < 0)
		return r;
	if (run->n >= COW_ENTRIES_MAX)
		return err_set(err, E2BIG, "more than %d changes", COW_ENTRIES_MAX);
	/* Grown at powers of two, as strv does. */
	if ((run->n & (run->n - 1)) == 0)
		run->entries = mem_must(
			reallocarray(run->entries, run->n ? run->n * 2 : 1, sizeof(*run->entries)));
	*ret = &run->entries[run->n++];
	**ret = (struct cow_entry){
		.path = mem_strdup(path), .uid = COW_NO_ID, .gid = (gid_t)COW_NO_ID};
	return 0;
}

int cow_add_skip(struct cow_run *run, const char *path, const char *why, struct err *err)
{
	int r = cow_charge(run, sizeof(struct cow_skip) + strlen(path) + strlen(why) + 2, err);

	if (r < 0)
		return r;
	if (run->skipped_n >= COW_ENTRIES_MAX)
		return err_set(err, E2BIG, "more than %d changes", COW_ENTRIES_MAX);
	if ((run->skipped_n & (run->skipped_n - 1)) == 0)
		run->skipped = mem_must(reallocarray(run->skipped,
			run->skipped_n ? run->skipped_n * 2 : 1, sizeof(*run->skipped)));
	run->skipped[run->skipped_n++] =
		(struct cow_skip){.path = mem_strdup(path), .why = mem_strdup(why)};
	return 0;
}

void cow_drop_skip(struct cow_run *run)
{
	struct cow_skip *last = &run->skipped[--run->skipped_n];

	free(last->path);
	free(last->why);
}

struct cow_run *cow_free(struct cow_run *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < r->n; i++) {
		free(r->entries[i].path);
		free(r->entries[i].link);
	}
	for (size_t i = 0; i < r->skipped_n; i++) {
		free(r->skipped[i].path);
		free(r->skipped[i].why);
	}
	free(r->entries);
	free(r->skipped);
	free(r->dir);
	free(r->target);
	free(r);
	return NULL;
}

int cow_open_runs(bool want_make, char **ret_path, struct err *err)
{
	AUTO_FREE char *state = NULL;
	AUTO_FREE char *path = NULL;
	int r = state_dir(&state, err);
	struct stat st;
	int fd;

	if (r < 0)
		return r;
	path = text_format("%s/runs", state);
	/* Contents of the user's files: for nobody else. */
	fd = want_make ? tree_make_private(path, 1, err)
		       : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return want_make ? fd : err_sys(err, "open '%s'", path);
	/* What is kept there is written to the user's directories: it must be our own record. */
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid()) {
		(void)close(fd);
		return err_set(err, EPERM, "'%s' belongs to somebody else", path);
	}
	*ret_path = TAKE_PTR(path);
	return fd;
}

/* A half-made run is locked by its maker; the lock of a killed one is gone. */
static void sweep(int runs_fd, const char *name)
{
	AUTO_FD int fd = openat(runs_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct err ignored = {0};

	/* Another process may sweep or still own it: then it is not ours to remove. */
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		(void)tree_remove(runs_fd, name, &ignored);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int cow_list(struct strv *ret, struct err *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_FD int fd = cow_open_runs(false, &path, err);
	AUTO_DIR DIR *dir = NULL;
	struct dirent *d;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir)
		return err_sys(err, "list '%s'", path);
	(void)TAKE_FD(fd);
	while ((d = readdir(dir))) {
		int r = 0;

		if (text_starts(d->d_name, ".tmp-"))
			sweep(dirfd(dir), d->d_name);
		else if (d->d_name[0] != '.')
			r = strv_add(ret, d->d_name, err);
		if (r < 0)
			return r;
	}
	if (ret->n > 1)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_name);
	return 0;
}

/* Say which runs there are, as far as it fits. */
static int unknown_run(const char *id, const struct strv *all, const char *what, struct err *err)
{
	char quoted[64];
	char list[300] = "";
	size_t used = 0;

	for (size_t i = 0; i < all->n && used + strlen(all->v[i]) + 8 < sizeof(list); i++)
		used += (size_t)snprintf(
			list + used, sizeof(list) - used, "%s%s", i ? ", " : "", all->v[i]);
	(void)err_set(err, ENOENT, "%s '%s'", what, text_quote(id, quoted, sizeof(quoted)));
	if (all->n == 0)
		return err_hint(err, "no runs are kept: 'bawn run --cow' makes one");
	return err_hint(err, "kept runs: %s", list);
}

int cow_find(const char *id, char **ret, struct err *err)
{
	struct strv all = {0};
	const char *hit = NULL;
	size_t hits = 0;
	int r = cow_list(&all, err);

	for (size_t i = 0; r == 0 && i < all.n; i++) {
		if (strcmp(all.v[i], id) == 0) {
			hit = all.v[i];
			hits = 1;
			break;
		}
		if (id[0] && text_starts(all.v[i], id)) {
			hit = all.v[i];
			hits++;
		}
	}
	if (r == 0 && hits == 1)
		*ret = mem_strdup(hit);
	else if (r == 0)
		r = unknown_run(
			id, &all, hits ? "more than one run starts with" : "no such run", err);
	strv_done(&all);
	return r;
}

int cow_load(const char *id, struct cow_run **ret, struct err *err)
{
	AUTO(cow_free) struct cow_run *run = NULL;
	AUTO_FREE char *name = NULL;
	AUTO_FREE char *runs = NULL;
	AUTO_FD int runs_fd = -EBADF;
	AUTO_FD int fd = -EBADF;
	struct stat st;
	int r = cow_find(id, &name, err);

	if (r < 0 || !name)
		return r;
	runs_fd = cow_open_runs(false, &runs, err);
	if (runs_fd < 0)
		return runs_fd;
	fd = openat(runs_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "run '%s'", name);
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(err, EPERM, "run '%s': others may have written it", name);
	run = MEM_NEW(struct cow_run);
	run->dir = text_format("%s/%s", runs, name);
	r = cow_read_manifest(fd, run, err);
	if (r < 0)
		return err_wrap(err, "run '%s'", name);
	if (strcmp(run->id, name) != 0)
		return err_set(err, EBADMSG, "run '%s': its manifest is of another run", name);
	*ret = TAKE_PTR(run);
	return 0;
}

int cow_open_content(const struct cow_run *run, const struct cow_entry *e, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/%s/%ju", run->dir, COW_FILES, (uintmax_t)e->file);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(err, "open '%s'", path) : fd;
}

/* New contents that a killed apply had not yet renamed into place. */
static void remove_temps(const struct cow_run *run)
{
	AUTO_FD int target = open(run->target, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; target >= 0 && i < run->n; i++) {
		const char *name = NULL;
		AUTO_FD int parent = -EBADF;
		char temp[96];

		if (run->entries[i].kind == COW_DELETED || S_ISDIR(run->entries[i].mode))
			continue;
		parent = tree_open_parent(target, run->entries[i].path, &name);
		cow_temp_name(run, &run->entries[i], temp, sizeof(temp));
		if (parent >= 0)
			(void)unlinkat(parent, temp, 0);
	}
}

int cow_discard(const struct cow_run *run, struct err *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *gone = text_format(".tmp-%s", run->id);
	AUTO_FD int runs = cow_open_runs(false, &path, err);
	AUTO_FD int fd = -EBADF;

	if (runs < 0)
		return runs;
	fd = openat(runs, run->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "discard run '%s'", run->id);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, EBUSY, "run '%s' is being applied or discarded", run->id);
	if (faccessat(fd, COW_APPLYING, F_OK, 0) == 0)
		remove_temps(run);
	/* Renamed first: a run is there whole or not at all, and the sweep takes what is left. */
	if (renameat(runs, run->id, runs, gone) < 0)
		return err_sys(err, "discard run '%s'", run->id);
	return tree_remove(runs, gone, err);
}
