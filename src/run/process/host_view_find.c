/* SPDX-License-Identifier: Apache-2.0 */

#include "core/masks.h"
#include "run/process/host_view_impl.h"
#include "sys/tree.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define GLOB_DEPTH  16   /* levels "**" goes down */
#define LISTING_MAX 4096 /* names of one directory; a larger one is asked for each name instead */

struct glob {
	char path[PATH_MAX]; /* what matched so far, no trailing slash */
	size_t seen;
	struct strv *out;
};

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool has_magic(const char *s, size_t n)
{
	return memchr(s, '*', n) || memchr(s, '?', n) || memchr(s, '[', n);
}

static int glob_walk(struct glob *g, size_t len, const char *rest, unsigned depth, struct err *err);

/* Try one name below g->path[0..len) for the rest of the pattern. */
static int glob_step(struct glob *g, size_t len, const char *name, size_t name_n, const char *rest,
	unsigned depth, struct err *err)
{
	if (len + 1 + name_n >= sizeof(g->path))
		return 0;
	g->path[len] = '/';
	memcpy(g->path + len + 1, name, name_n);
	g->path[len + 1 + name_n] = '\0';
	return glob_walk(g, len + 1 + name_n, rest, depth, err);
}

static int glob_list(struct glob *g, size_t len, const char *pattern, const char *rest,
	unsigned depth, struct err *err)
{
	bool is_deep = strcmp(pattern, "**") == 0;
	AUTO_DIR DIR *dir = NULL;
	struct dirent *d;

	g->path[len] = '\0';
	dir = opendir(len ? g->path : "/");
	if (!dir)
		return 0;
	while ((d = readdir(dir))) {
		int r = 0;

		if (is_dots(d->d_name))
			continue;
		if (++g->seen > HOST_VIEW_GLOB_MAX)
			return err_set(err, E2BIG, "pattern looks at more than %d names",
				HOST_VIEW_GLOB_MAX);
		/*
		 * "**" passes through every directory, by its pattern again, but never through a
		 * link.
		 */
		if (is_deep && d->d_type == DT_DIR && depth < GLOB_DEPTH) {
			AUTO_FREE char *again = text_format("**/%s", rest);

			r = glob_step(g, len, d->d_name, strlen(d->d_name), again, depth + 1, err);
		} else if (!is_deep && fnmatch(pattern, d->d_name, FNM_PERIOD) == 0) {
			r = glob_step(g, len, d->d_name, strlen(d->d_name), rest, depth, err);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int glob_walk(struct glob *g, size_t len, const char *rest, unsigned depth, struct err *err)
{
	char part[NAME_MAX + 1];
	size_t n;
	struct stat st;
	int r;

	rest += strspn(rest, "/");
	n = strcspn(rest, "/");
	if (n == 0) {
		g->path[len] = '\0';
		if (len == 0 || lstat(g->path, &st) < 0)
			return 0;
		return strv_has(g->out, g->path) ? 0 : host_view_add(g->out, g->path, err);
	}
	if (n > NAME_MAX)
		return 0;
	if (!has_magic(rest, n))
		return glob_step(g, len, rest, n, rest + n, depth, err);
	memcpy(part, rest, n);
	part[n] = '\0';
	rest += n;
	if (strcmp(part, "**") == 0) {
		/* Zero directories; alone at the end it stands for everything, so the directory. */
		r = glob_walk(g, len, rest, depth, err);
		if (r < 0 || rest[strspn(rest, "/")] == '\0')
			return r;
		rest += strspn(rest, "/");
	}
	return glob_list(g, len, part, rest, depth, err);
}

int host_find_glob(const char *pattern, struct strv *out, struct err *err)
{
	struct glob g = {.out = out};
	struct stat st;

	if (lstat(pattern, &st) == 0)
		return strv_has(out, pattern) ? 0 : host_view_add(out, pattern, err);
	if (!has_magic(pattern, strlen(pattern)))
		return 0;
	return glob_walk(&g, 0, pattern, 0, err);
}

/* False if the listing of the directory above tells that `dir` does not exist. */
static bool is_named_above(struct host_listings *l, const char *dir)
{
	const char *name = strrchr(dir, '/');
	AUTO_FREE char *above = name ? text_format("%.*s", (int)(name - dir), dir) : NULL;
	const struct strv *names;

	if (!name || !name[1])
		return true;
	names = host_listing(l, *above ? above : "/");
	return !names || strv_has(names, name + 1);
}

const struct strv *host_listing(struct host_listings *l, const char *dir)
{
	AUTO_DIR DIR *d = NULL;
	struct strv *names;
	struct dirent *e;
	struct err ignored = {0};
	bool is_absent;

	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].dir, dir) == 0)
			return &l->v[i].names;
	}
	/* Most of the built-in directories do not exist: what is above says so, once for all. */
	is_absent = !is_named_above(l, dir);
	if (l->n >= HOST_LISTINGS)
		return NULL;
	names = &l->v[l->n].names;
	d = is_absent ? NULL : opendir(dir);
	/* What may not be listed may still be entered by name. */
	if (!is_absent && !d && errno != ENOENT && errno != ENOTDIR)
		return NULL;
	while (d && (e = readdir(d))) {
		if (is_dots(e->d_name))
			continue;
		if (names->n >= LISTING_MAX) {
			strv_done(names);
			return NULL;
		}
		(void)strv_add(names, e->d_name, &ignored); /* below its cap */
	}
	l->v[l->n++].dir = text_format("%s", dir);
	return names;
}

void host_listings_done(struct host_listings *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].dir);
		strv_done(&l->v[i].names);
	}
	l->n = 0;
}

int host_find_listed(
	struct host_listings *l, const char *pattern, struct strv *out, struct err *err)
{
	const char *last = strrchr(pattern, '/') + 1;
	AUTO_FREE char *dir = text_format("%.*s", (int)(last - pattern - 1), pattern);
	const struct strv *names = NULL;
	bool is_magic = has_magic(last, strlen(last));

	if (!has_magic(dir, strlen(dir)))
		names = host_listing(l, *dir ? dir : "/");
	if (!names)
		return host_find_glob(pattern, out, err);
	for (size_t i = 0; i < names->n; i++) {
		AUTO_FREE char *path = NULL;
		int r;

		if (is_magic ? fnmatch(last, names->v[i], FNM_PERIOD) != 0
			     : strcmp(last, names->v[i]) != 0)
			continue;
		path = text_format("%s/%s", dir, names->v[i]);
		r = host_view_add(out, path, err);
		if (r < 0)
			return r;
	}
	return 0;
}

struct scan {
	int root_fd;
	const char *root;
	struct strv queue;  /* directories to list, relative to the root; "." first */
	size_t queue_bytes; /* of all that were ever put there */
	size_t seen;
	size_t max;
	bool is_cut;
	host_scan_fn fn;
	void *arg;
};

static unsigned depth_of(const char *rel)
{
	unsigned depth = 1;

	if (strcmp(rel, ".") == 0)
		return 0;
	for (; *rel; rel++)
		depth += *rel == '/';
	return depth;
}

/* The marks of a repository in a directory that is not listed itself. */
static int scan_marks(struct scan *s, const struct host_scan_hit *above, struct err *err)
{
	static const char *const marks[] = {".git", "HEAD"};
	AUTO_FREE char *path = text_format("%s/%s", above->dir, above->name);
	AUTO_FD int fd =
		openat(above->dir_fd, above->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct host_scan_hit hit = {.dir_fd = fd, .dir = path, .depth = above->depth + 1};

	for (size_t i = 0; fd >= 0 && i < sizeof(marks) / sizeof(marks[0]); i++) {
		struct stat st;
		int r;

		if (fstatat(fd, marks[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		hit.name = marks[i];
		hit.d_type = (unsigned char)IFTODT(st.st_mode);
		r = s->fn(&hit, s->arg, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Dependencies are too many to search; a repository checked out right among them is not missed. */
static int scan_skipped(struct scan *s, const struct host_scan_hit *above, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/%s", above->dir, above->name);
	AUTO_FD int fd =
		openat(above->dir_fd, above->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct host_scan_hit hit = {.dir = path, .depth = above->depth + 1};
	AUTO_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	int r = scan_marks(s, above, err);

	if (!dir)
		return r;
	hit.dir_fd = TAKE_FD(fd);
	while (r == 0 && (d = readdir(dir))) {
		if (d->d_type != DT_DIR || is_dots(d->d_name) || strcmp(d->d_name, ".git") == 0)
			continue;
		if (++s->seen > s->max) {
			s->is_cut = true;
			break;
		}
		hit.name = d->d_name;
		r = scan_marks(s, &hit, err);
	}
	return r;
}

static int scan_entry(
	struct scan *s, const char *rel, const struct host_scan_hit *hit, struct err *err)
{
	AUTO_FREE char *below = NULL;
	int r = s->fn(hit, s->arg, err);

	if (r < 0 || hit->d_type != DT_DIR || strcmp(hit->name, ".git") == 0)
		return r;
	if (masks_scan_skips(hit->name))
		return scan_skipped(s, hit, err);
	below = strcmp(rel, ".") == 0 ? text_format("%s", hit->name)
				      : text_format("%s/%s", rel, hit->name);
	s->queue_bytes += strlen(below) + 1;
	if (hit->depth + 1 > HOST_VIEW_SCAN_DEPTH || s->queue.n >= STRV_MAX ||
		s->queue_bytes > HOST_VIEW_QUEUE_MAX) {
		s->is_cut = true;
		return 0;
	}
	return strv_add(&s->queue, below, err);
}

static int scan_dir(struct scan *s, const char *rel, struct err *err)
{
	AUTO_FREE char *path = strcmp(rel, ".") == 0 ? text_format("%s", s->root)
						     : text_format("%s/%s", s->root, rel);
	AUTO_FD int fd = tree_open(s->root_fd, rel, O_RDONLY | O_DIRECTORY, 0);
	struct host_scan_hit hit = {.dir = path, .depth = depth_of(rel)};
	AUTO_DIR DIR *dir = NULL;
	struct dirent *d;
	struct stat st;

	if (fd < 0)
		return 0;
	dir = fdopendir(fd);
	if (!dir)
		return err_sys(err, "list '%.200s'", path);
	hit.dir_fd = TAKE_FD(fd);
	while ((d = readdir(dir))) {
		int r;

		if (is_dots(d->d_name))
			continue;
		if (++s->seen > s->max) {
			s->is_cut = true;
			return 0;
		}
		hit.name = d->d_name;
		hit.d_type = d->d_type;
		/* Some file systems do not say it in the list. */
		if (d->d_type == DT_UNKNOWN &&
			fstatat(hit.dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			hit.d_type = (unsigned char)IFTODT(st.st_mode);
		r = scan_entry(s, rel, &hit, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int host_scan(
	const char *root, size_t max, host_scan_fn fn, void *arg, bool *ret_cut, struct err *err)
{
	AUTO_FD int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct scan s = {.root_fd = fd, .root = root, .max = max, .fn = fn, .arg = arg};
	int r;

	/* A writable file has nothing below it. */
	if (fd < 0)
		return 0;
	r = strv_add(&s.queue, ".", err);
	for (size_t i = 0; r == 0 && i < s.queue.n && s.seen <= s.max; i++)
		r = scan_dir(&s, s.queue.v[i], err);
	strv_done(&s.queue);
	if (r == 0 && s.is_cut)
		*ret_cut = true;
	return r;
}

bool host_is_git_dir(int dir_fd)
{
	struct stat st;

	return fstatat(dir_fd, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (fstatat(dir_fd, "commondir", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		       (fstatat(dir_fd, "objects", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			       fstatat(dir_fd, "refs", &st, AT_SYMLINK_NOFOLLOW) == 0));
}
