/* SPDX-License-Identifier: Apache-2.0 */

#include "core/masks.h"
#include "run/process/host_view_impl.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX   8 /* links followed for one protected name */
#define MODULES_MAX 4 /* levels of git directories inside git directories */

static int guard(
	struct host_view *v, const char *w, const char *path, unsigned links, struct err *err);

/* A link can be replaced whatever is mounted where it points: watch the link, guard its target. */
static int guard_link(
	struct host_view *v, const char *link, const char *rest, unsigned links, struct err *err)
{
	AUTO_FREE char *dir = text_format("%s", link);
	AUTO_FREE char *real = NULL;
	AUTO_FREE char *whole = NULL;
	char target[PATH_MAX];
	ssize_t n = readlink(link, target, sizeof(target) - 1);
	const char *w;
	int r = 0;

	if (n < 0)
		return err_sys(err, "readlink '%.200s'", link);
	target[n] = '\0';
	if (!strv_has(&v->links, link)) {
		r = host_view_add(&v->links, link, err);
		if (r == 0)
			r = strv_add(&v->link_targets, target, err);
	}
	if (r < 0 || links >= LINKS_MAX)
		return r;
	*strrchr(dir, '/') = '\0';
	real = realpath(link, NULL);
	/* Dangling: what it points to may be created by the box. */
	if (!real && text_path_clean(target, dir[0] ? dir : "/", &real, err) < 0)
		return -err->code;
	whole = text_format("%s%s", real, rest);
	w = host_view_writable_above(v, whole);
	return w && strcmp(w, whole) != 0 ? guard(v, w, whole, links + 1, err) : 0;
}

/* Make `path`, below the writable directory `w`, read-only, or remember that it is missing. */
static int guard(
	struct host_view *v, const char *w, const char *path, unsigned links, struct err *err)
{
	size_t at = strlen(w) + 1;

	for (;;) {
		size_t n = at + strcspn(path + at, "/");
		AUTO_FREE char *part = text_format("%.*s", (int)n, path);
		struct stat st;

		if (lstat(part, &st) < 0)
			return errno == ENOENT || errno == ENOTDIR
				       ? strv_add(&v->absent, path, err) /* no mount: no cap */
				       : 0; /* EACCES: the box may not look there either */
		if (S_ISLNK(st.st_mode))
			return guard_link(v, part, path + n, links, err);
		if (path[n] == '\0')
			return host_view_add(&v->protect, path, err);
		if (S_ISDIR(st.st_mode)) {
			int r = host_view_add(&v->pins, part, err);

			if (r < 0)
				return r;
		}
		at = n + 1;
	}
}

static int guard_below(struct host_view *v, const char *dir, const char *name, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);

	return host_guard_path(v, path, err);
}

static int guard_git_depth(
	struct host_view *v, const char *git_dir, unsigned depth, struct err *err);

/* Git directories of submodules ("modules/a/b", names may hold slashes) and worktrees. */
static int guard_git_inner(
	struct host_view *v, const char *git_dir, const char *sub, unsigned depth, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/%s", git_dir, sub);
	AUTO_DIR DIR *dir = opendir(path);
	struct dirent *d;

	if (!dir || depth > MODULES_MAX)
		return 0;
	while ((d = readdir(dir))) {
		AUTO_FREE char *below = NULL;
		AUTO_FD int fd = -EBADF;
		struct stat st;
		bool is_git;
		int r;

		if (d->d_name[0] == '.' || d->d_type != DT_DIR)
			continue;
		fd = openat(dirfd(dir), d->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		below = text_format("%s/%s", path, d->d_name);
		/* A worktree's has HEAD and commondir, a submodule's is whole. */
		is_git = fstatat(fd, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0;
		r = is_git ? guard_git_depth(v, below, depth + 1, err)
			   : guard_git_inner(v, path, d->d_name, depth + 1, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int guard_git_depth(
	struct host_view *v, const char *git_dir, unsigned depth, struct err *err)
{
	AUTO_FREE char *rebase = NULL;
	struct stat st;
	int r = 0;

	if (strv_has(&v->repos, git_dir))
		return 0;
	rebase = text_format("%s/rebase-merge", git_dir);
	r = host_view_add(&v->repos, git_dir, err);
	if (r == 0 && lstat(rebase, &st) == 0)
		r = host_view_add(&v->rebasing, git_dir, err);
	for (size_t i = 0; r == 0 && i < masks_git_names_n; i++)
		r = guard_below(v, git_dir, masks_git_names[i], err);
	if (r == 0)
		r = guard_git_inner(v, git_dir, "modules", depth, err);
	if (r == 0)
		r = guard_git_inner(v, git_dir, "worktrees", depth, err);
	return r;
}

static int guard_git(struct host_view *v, const char *git_dir, struct err *err)
{
	return guard_git_depth(v, git_dir, 0, err);
}

/* The first line of a small file, after `prefix`; NULL if it is not such a file. */
static char *read_line(const char *path, const char *prefix)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char buf[PATH_MAX + 16];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (n <= 0)
		return NULL;
	buf[n] = '\0';
	buf[strcspn(buf, "\r\n")] = '\0';
	if (!text_starts(buf, prefix))
		return NULL;
	return text_format("%s", buf + strlen(prefix) + strspn(buf + strlen(prefix), " "));
}

/* The real path of `text` seen from `dir`; NULL if it does not exist. */
static char *resolve_from(const char *dir, const char *text)
{
	AUTO_FREE char *path =
		text[0] == '/' ? text_format("%s", text) : text_format("%s/%s", dir, text);

	return realpath(path, NULL);
}

/* ".git" as a file names the git directory of a worktree or submodule: it may be writable too. */
static int guard_git_file(
	struct host_view *v, const char *dir, const char *dot_git, struct err *err)
{
	AUTO_FREE char *text = read_line(dot_git, "gitdir:");
	AUTO_FREE char *git_dir = text ? resolve_from(dir, text) : NULL;
	AUTO_FREE char *common_file = git_dir ? text_format("%s/commondir", git_dir) : NULL;
	AUTO_FREE char *common_text = common_file ? read_line(common_file, "") : NULL;
	AUTO_FREE char *common = common_text ? resolve_from(git_dir, common_text) : NULL;
	int r = 0;

	if (git_dir && host_view_writable_above(v, git_dir))
		r = guard_git(v, git_dir, err);
	if (r == 0 && common && host_view_writable_above(v, common))
		r = guard_git(v, common, err);
	return r;
}

/* Everything protected in a directory that is the top of a repository (or may become one). */
static int guard_top(struct host_view *v, const char *dir, enum mask_where least, struct err *err)
{
	AUTO_FREE char *dot_git = text_format("%s/.git", strcmp(dir, "/") == 0 ? "" : dir);
	const char *w = host_view_writable_above(v, dot_git);
	struct stat st;
	int r = 0;

	for (size_t i = 0; r == 0 && i < masks_protected_n; i++) {
		if (masks_protected[i].where >= least)
			r = guard_below(v, dir, masks_protected[i].path, err);
	}
	if (r < 0 || !w || lstat(dot_git, &st) < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return guard_git(v, dot_git, err);
	if (strcmp(w, dot_git) != 0)
		r = guard(v, w, dot_git, 0, err);
	if (r == 0 && S_ISREG(st.st_mode))
		r = guard_git_file(v, dir, dot_git, err);
	if (r == 0 && S_ISLNK(st.st_mode)) {
		AUTO_FREE char *real = realpath(dot_git, NULL);

		if (real && host_view_writable_above(v, real))
			r = guard_git(v, real, err);
	}
	return r;
}

static int found(const struct host_scan_hit *hit, void *arg, struct err *err)
{
	const struct host_guard *g = arg;

	if (hit->d_type != DT_DIR && masks_is_env_file(hit->name)) {
		AUTO_FREE char *path = text_format("%s/%s", hit->dir, hit->name);

		return host_view_add(g->env_files, path, err);
	}
	if (!g->want_protect)
		return 0;
	if (hit->depth > 0 && strcmp(hit->name, ".git") == 0)
		return guard_top(g->v, hit->dir, MASK_AT_REPO, err);
	if (strcmp(hit->name, "HEAD") == 0 && host_is_git_dir(hit->dir_fd))
		return guard_git(g->v, hit->dir, err);
	return 0;
}

/* Rules of the directories above `w` that reach into it: `--rw ~/.config` holds ".config/fish". */
static int guard_from_above(struct host_view *v, const char *w, struct err *err)
{
	for (const char *p = strchr(w, '/'); p; p = strchr(p + 1, '/')) {
		size_t n = strlen(p + 1);

		for (size_t i = 0; i < masks_protected_n; i++) {
			const char *rule = masks_protected[i].path;
			AUTO_FREE char *path = NULL;
			int r;

			if (strncmp(rule, p + 1, n) != 0 || rule[n] != '/')
				continue;
			path = text_format("%s%s", w, rule + n);
			r = guard(v, w, path, 0, err);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int host_guard_path(struct host_view *v, const char *path, struct err *err)
{
	const char *w = host_view_writable_above(v, path);

	return w && strcmp(w, path) != 0 ? guard(v, w, path, 0, err) : 0;
}

static int guard_names(const struct host_guard *g, const char *w, struct err *err)
{
	int r = guard_top(g->v, w, MASK_AT_ROOT, err);

	if (r == 0)
		r = guard_from_above(g->v, w, err);
	for (size_t i = 0; r == 0 && i < g->homes->n; i++) {
		const char *home = g->homes->v[i];

		if (strcmp(home, w) != 0 && text_path_below(home, w))
			r = guard_top(g->v, home, MASK_AT_ROOT, err);
	}
	return r;
}

int host_guard_writable(const struct host_guard *g, const char *w, struct err *err)
{
	struct host_guard copy = *g;
	struct stat st;
	int r = 0;

	if (stat(w, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (g->want_protect)
		r = guard_names(g, w, err);
	return r < 0 ? r : host_scan(w, HOST_VIEW_SCAN_MAX, found, &copy, &g->v->is_scan_cut, err);
}
