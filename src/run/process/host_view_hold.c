/* SPDX-License-Identifier: Apache-2.0 */

/*
 * After the run everything below a writable directory was written by the box:
 * it is opened step by step without following links, and looked at as an attacker's.
 */
#include "base/mem.h"
#include "core/masks.h"
#include "run/process/host_view_impl.h"
#include "sys/tree.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define GIT_CONFIG_MAX (256 * 1024) /* bytes; a larger config is not one that git init made */
#define HOLD_ENTRIES   100000       /* copied when the state lies on another file system */
#define HOLD_BYTES     ((uint64_t)1 << 30)
#define GIT_DEPTH_MAX  5 /* git directories inside git directories */

struct hold {
	const struct host_view *v;
	const char *dir; /* where things go */
	int fd;          /* the same, opened when first needed */
	unsigned n;
	void (*held)(const char *path, const char *moved_to, void *arg);
	void *arg;
};

static int open_hold_dir(struct hold *h, struct err *err)
{
	if (h->fd >= 0)
		return 0;
	/* "<state>/held/<run>": only the state directory itself may be reached by links. */
	h->fd = tree_make_private(h->dir, 2, err);
	return h->fd < 0 ? h->fd : 0;
}

/* Names below a writable directory are the box's choice: they reach a terminal quoted. */
static void tell(const struct hold *h, const char *path, const char *moved_to)
{
	char quoted[PATH_MAX];

	h->held(path, text_quote(moved_to, quoted, sizeof(quoted)), h->arg);
}

/* The last resort: under a name that no tool obeys, where it is. */
static int disarm(
	struct hold *h, int parent_fd, const char *name, const char *path, struct err *err)
{
	AUTO_FREE char *now = text_format("%.200s.bawn-held-%u", name, h->n);
	AUTO_FREE char *whole =
		text_format("%.*s%s", (int)(strlen(path) - strlen(name)), path, now);
	struct err sub = {0};

	if (renameat2(parent_fd, name, parent_fd, now, RENAME_NOREPLACE) < 0) {
		char quoted[256];

		(void)err_sys(&sub, "rename");
		return err_wrap(err, "'%s' appeared and could not be moved (%.60s)",
			text_quote(path, quoted, sizeof(quoted)), sub.msg);
	}
	tell(h, path, whole);
	return 0;
}

/* Move `name` of parent_fd, known to people as `path`, to the hold directory. */
static int take(struct hold *h, int parent_fd, const char *name, const char *path, struct err *err)
{
	struct tree_limits left = {.entries = HOLD_ENTRIES, .bytes = HOLD_BYTES};
	AUTO_FREE char *to = text_format("%u-%.200s", ++h->n, name);
	AUTO_FREE char *whole = text_format("%s/%s", h->dir, to);
	struct err ignored = {0};
	int r = open_hold_dir(h, err);

	if (r < 0)
		return disarm(h, parent_fd, name, path, err);
	if (renameat2(parent_fd, name, h->fd, to, RENAME_NOREPLACE) < 0) {
		if (errno != EXDEV && errno != EINVAL) {
			(void)err_sys(err, "move");
			return disarm(h, parent_fd, name, path, err);
		}
		r = tree_copy(parent_fd, name, h->fd, to, &left, err);
		if (r < 0) {
			(void)tree_remove(h->fd, to, &ignored);
			return disarm(h, parent_fd, name, path, err);
		}
		r = tree_remove(parent_fd, name, err);
		if (r < 0)
			return disarm(h, parent_fd, name, path, err);
	}
	tell(h, path, whole);
	return 0;
}

/*
 * Not every repository was found before the run, so being unknown does not mean being
 * new. What the box wrote, renamed or made has a time of change that it cannot set back.
 */
static bool is_old(const struct hold *h, int parent_fd, const char *name)
{
	struct stat st;

	return h->v->is_scan_cut && fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec <
		       h->v->began_ns;
}

static int take_new(
	struct hold *h, int parent_fd, const char *name, const char *path, struct err *err)
{
	return is_old(h, parent_fd, name) ? 0 : take(h, parent_fd, name, path, err);
}

/* Take `path` if it exists. A link on the way to it is taken itself: it was not there before. */
static int take_path(struct hold *h, const char *path, struct err *err)
{
	const char *w = host_view_writable_above(h->v, path);
	AUTO_FD int w_fd = w ? open(w, O_PATH | O_DIRECTORY | O_CLOEXEC) : -EBADF;
	const char *p = w ? path + strlen(w) : path;
	AUTO_FD int at = -EBADF;

	if (w_fd < 0)
		return 0;
	at = TAKE_FD(w_fd);
	for (p += strspn(p, "/"); *p; p += strspn(p, "/")) {
		char name[NAME_MAX + 1];
		size_t n = strcspn(p, "/");
		struct stat st;
		int fd;

		if (n > NAME_MAX)
			return 0;
		memcpy(name, p, n);
		name[n] = '\0';
		p += n;
		if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return 0;
		if (*p == '\0' || S_ISLNK(st.st_mode)) {
			AUTO_FREE char *so_far = text_format("%.*s", (int)(p - path), path);

			return take(h, at, name, so_far, err);
		}
		fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return 0; /* not a directory: nothing below it */
		closep(&at);
		at = fd;
	}
	return 0;
}

/* A protected link that now says something else, or is something else, is put back. */
static int restore_link(struct hold *h, const char *path, const char *target, struct err *err)
{
	const char *w = host_view_writable_above(h->v, path);
	AUTO_FD int w_fd = w ? open(w, O_PATH | O_DIRECTORY | O_CLOEXEC) : -EBADF;
	AUTO_FD int parent = -EBADF;
	const char *name = NULL;
	char now[PATH_MAX];
	ssize_t n;
	int r;

	if (w_fd < 0)
		return 0;
	parent = tree_open_parent(w_fd, path + strlen(w) + 1, &name);
	if (parent < 0)
		return 0;
	n = readlinkat(parent, name, now, sizeof(now) - 1);
	if (n >= 0) {
		now[n] = '\0';
		if (strcmp(now, target) == 0)
			return 0;
	}
	r = take_path(h, path, err);
	if (r < 0)
		return r;
	if (symlinkat(target, parent, name) < 0)
		return err_sys(err, "put back link '%.200s'", path);
	return 0;
}

static int read_small(int dir_fd, const char *name, char *buf, size_t size, size_t *ret_n)
{
	/* O_NONBLOCK: a fifo under this name must not make us wait. */
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	size_t n = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > size)
		return -EINVAL;
	while (n < size) {
		ssize_t r = read(fd, buf + n, size - n);

		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	*ret_n = n;
	return 0;
}

static int clean_hooks(struct hold *h, int git_fd, const char *git_dir, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/hooks", git_dir);
	AUTO_FD int fd = openat(git_fd, "hooks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_DIR DIR *dir = NULL;
	struct dirent *d;

	if (fd < 0)
		return errno == ENOENT ? 0 : take_new(h, git_fd, "hooks", path, err);
	dir = fdopendir(fd);
	if (!dir)
		return err_sys(err, "list '%.200s'", path);
	(void)TAKE_FD(fd);
	while ((d = readdir(dir))) {
		AUTO_FREE char *hook = text_format("%s/%s", path, d->d_name);
		int r;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
			(d->d_type == DT_REG && masks_is_sample_hook(hook)))
			continue;
		r = take_new(h, dirfd(dir), d->d_name, hook, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* git writes "../.." into a worktree's commondir; anything else leads out of the repository. */
static bool is_plain_commondir(int git_fd)
{
	char buf[16];
	size_t n = 0;

	return read_small(git_fd, "commondir", buf, sizeof(buf), &n) == 0 && n == 6 &&
	       memcmp(buf, "../..\n", 6) == 0;
}

static bool is_plain_config(int git_fd, unsigned flags)
{
	AUTO_FREE char *buf = malloc(GIT_CONFIG_MAX);
	size_t n = 0;

	return buf && read_small(git_fd, "config", buf, GIT_CONFIG_MAX, &n) == 0 &&
	       masks_git_config_is_safe(buf, n, flags);
}

enum git_kind { GIT_MAIN, GIT_MODULE, GIT_WORKTREE };

static int clean_names(
	struct hold *h, int git_fd, const char *git_dir, enum git_kind kind, struct err *err)
{
	unsigned flags = kind == GIT_MODULE ? MASKS_GIT_MODULE : 0;
	int r = clean_hooks(h, git_fd, git_dir, err);

	for (size_t i = 0; r == 0 && i < masks_git_names_n; i++) {
		const char *name = masks_git_names[i];
		AUTO_FREE char *path = text_format("%s/%s", git_dir, name);
		struct stat st;

		if (strcmp(name, "hooks") == 0 ||
			fstatat(git_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (strcmp(name, "config") == 0 && is_plain_config(git_fd, flags))
			continue;
		if (strcmp(name, "commondir") == 0 && kind == GIT_WORKTREE &&
			is_plain_commondir(git_fd))
			continue;
		r = take_new(h, git_fd, name, path, err);
	}
	return r;
}

static bool has_exec_line(const char *text, size_t n)
{
	const char *end = text + n;

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));

		while (text < end && (*text == ' ' || *text == '\t'))
			text++;
		for (size_t i = 0; i < 2; i++) {
			const char *word = i ? "exec" : "x";
			size_t word_n = strlen(word);

			if ((size_t)(end - text) > word_n && memcmp(text, word, word_n) == 0 &&
				(text[word_n] == ' ' || text[word_n] == '\t'))
				return true;
		}
		text = eol ? eol + 1 : end;
	}
	return false;
}

/*
 * A rebase that the box began and did not end is work to go on with, unless
 * `git rebase --continue` would run a command of the box's.
 */
static int clean_rebase(struct hold *h, int git_fd, const char *git_dir, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/rebase-merge", git_dir);
	AUTO_FREE char *buf = NULL;
	AUTO_FD int fd = -EBADF;
	size_t n = 0;
	int r;

	if (strv_has(&h->v->rebasing, git_dir))
		return 0;
	fd = openat(git_fd, "rebase-merge", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : take_new(h, git_fd, "rebase-merge", path, err);
	buf = mem_must(malloc(GIT_CONFIG_MAX));
	r = read_small(fd, "git-rebase-todo", buf, GIT_CONFIG_MAX, &n);
	if (r == -ENOENT || (r == 0 && !has_exec_line(buf, n)))
		return 0;
	return take_new(h, git_fd, "rebase-merge", path, err);
}

static int clean_git(struct hold *h, int git_fd, const char *git_dir, enum git_kind kind,
	unsigned depth, struct err *err);

/* Submodules' and worktrees' own git directories below `sub`, new ones in old repositories too. */
static int clean_inner(struct hold *h, int git_fd, const char *git_dir, const char *sub,
	enum git_kind kind, unsigned depth, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/%s", git_dir, sub);
	AUTO_FD int fd = openat(git_fd, sub, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_DIR DIR *dir = NULL;
	struct dirent *d;

	if (fd < 0)
		return errno == ENOENT ? 0 : take_new(h, git_fd, sub, path, err);
	if (depth > GIT_DEPTH_MAX)
		return take_new(h, git_fd, sub, path, err);
	dir = fdopendir(fd);
	if (!dir)
		return err_sys(err, "list '%.200s'", path);
	(void)TAKE_FD(fd);
	while ((d = readdir(dir))) {
		AUTO_FREE char *below = text_format("%s/%s", path, d->d_name);
		AUTO_FD int inner = -EBADF;
		struct stat st;
		int r = 0;

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		inner = openat(
			dirfd(dir), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (inner < 0 && errno == ELOOP)
			r = take_new(h, dirfd(dir), d->d_name, below, err);
		else if (inner >= 0 && fstatat(inner, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0)
			r = clean_git(h, inner, below, kind, depth + 1, err);
		else if (inner >= 0)
			r = clean_inner(h, dirfd(dir), path, d->d_name, kind, depth + 1, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int clean_git(struct hold *h, int git_fd, const char *git_dir, enum git_kind kind,
	unsigned depth, struct err *err)
{
	int r = 0;

	/*
	 * The names of a repository that was there before were read-only or are looked for by name.
	 */
	if (!strv_has(&h->v->repos, git_dir))
		r = clean_names(h, git_fd, git_dir, kind, err);
	if (r == 0)
		r = clean_rebase(h, git_fd, git_dir, err);
	if (r == 0)
		r = clean_inner(h, git_fd, git_dir, "modules", GIT_MODULE, depth, err);
	if (r == 0)
		r = clean_inner(h, git_fd, git_dir, "worktrees", GIT_WORKTREE, depth, err);
	return r;
}

/* Open a directory below a writable one, no link on the way; -errno. */
static int open_below(const struct hold *h, const char *path)
{
	const char *w = host_view_writable_above(h->v, path);
	AUTO_FD int w_fd = w ? open(w, O_PATH | O_DIRECTORY | O_CLOEXEC) : -EBADF;
	const char *rel = w ? path + strlen(w) : "";

	if (w_fd < 0)
		return -ENOENT;
	rel += strspn(rel, "/");
	return tree_open(w_fd, *rel ? rel : ".", O_RDONLY | O_DIRECTORY, 0);
}

static int clean_git_path(struct hold *h, const char *git_dir, enum git_kind kind, struct err *err)
{
	AUTO_FD int fd = open_below(h, git_dir);

	return fd < 0 ? 0 : clean_git(h, fd, git_dir, kind, 0, err);
}

/*
 * Where a ".git" file in `dir` leads, if its text and the kernel agree on it: a ".." that
 * comes after a name takes the parent of whatever that name links to. NULL otherwise.
 */
static char *git_file_target(const struct host_scan_hit *hit)
{
	static const char prefix[] = "gitdir: ";
	AUTO_FREE char *target = NULL;
	char buf[PATH_MAX];
	struct err ignored = {0};
	const char *p;
	size_t n = 0;

	if (read_small(hit->dir_fd, ".git", buf, sizeof(buf) - 1, &n) < 0)
		return NULL;
	/* As git reads it: ends of line are cut at the end, and stand for themselves inside. */
	while (n > 0 && (buf[n - 1] == '\n' || buf[n - 1] == '\r'))
		n--;
	buf[n] = '\0';
	if (!text_starts(buf, prefix) || strlen(buf) != n || strpbrk(buf, "\r\n"))
		return NULL;
	p = buf + strlen(prefix);
	while (text_starts(p, "../"))
		p += strlen("../");
	if (strstr(p, "..") ||
		text_path_clean(buf + strlen(prefix), hit->dir, &target, &ignored) < 0)
		return NULL;
	return TAKE_PTR(target);
}

/*
 * A new ".git" file: `git worktree add` and `git submodule add` make one that
 * points into a repository's own worktrees/ or modules/, which are cleaned with it.
 */
static int check_git_file(
	struct hold *h, const struct host_scan_hit *hit, const char *path, struct err *err)
{
	AUTO_FREE char *git_dir = git_file_target(hit);
	const char *inner = git_dir ? strstr(git_dir, "/.git/") : NULL;
	AUTO_FREE char *owner = NULL;
	AUTO_FD int fd = -EBADF;

	if (!inner ||
		(!text_starts(inner, "/.git/modules/") && !text_starts(inner, "/.git/worktrees/")))
		return take_path(h, path, err);
	/* A link on the way, or nothing there yet: git may come to another place than we do. */
	fd = open_below(h, git_dir);
	if (fd < 0)
		return take_path(h, path, err);
	owner = text_format("%.*s/.git", (int)(inner - git_dir), git_dir);
	return clean_git_path(h, owner, GIT_MAIN, err);
}

/* "<repository>/worktrees/<name>" of a bare repository may have its "commondir". */
static enum git_kind kind_of(const struct host_scan_hit *hit)
{
	const char *name = strrchr(hit->dir, '/');
	AUTO_FD int above = openat(hit->dir_fd, "../..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	static const char worktrees[] = "/worktrees";
	size_t n = name ? (size_t)(name - hit->dir) : 0;

	if (hit->depth < 2 || n < sizeof(worktrees) ||
		strncmp(name - strlen(worktrees), worktrees, strlen(worktrees)) != 0)
		return GIT_MAIN;
	return above >= 0 && host_is_git_dir(above) ? GIT_WORKTREE : GIT_MAIN;
}

static int appeared(const struct host_scan_hit *hit, void *arg, struct err *err)
{
	struct hold *h = arg;
	AUTO_FREE char *path = NULL;

	if (strcmp(hit->name, "HEAD") == 0 && host_is_git_dir(hit->dir_fd))
		return clean_git_path(h, hit->dir, kind_of(hit), err);
	if (strcmp(hit->name, ".git") != 0)
		return 0;
	path = text_format("%s/.git", hit->dir);
	if (hit->d_type == DT_DIR)
		return clean_git_path(h, path, GIT_MAIN, err);
	if (strv_has(&h->v->protect, path) || strv_has(&h->v->links, path) ||
		is_old(h, hit->dir_fd, ".git"))
		return 0;
	if (hit->d_type == DT_REG)
		return check_git_file(h, hit, path, err);
	return take_path(h, path, err);
}

/* One thing that cannot be moved must not keep the rest where it is: go on, report the first. */
static void note(int r, const struct err *one, int *first, struct err *err)
{
	if (r < 0 && *first == 0) {
		*first = r;
		*err = *one;
	}
}

int host_view_hold_back(const struct host_view *v, const char *hold_dir,
	void (*held)(const char *path, const char *moved_to, void *arg), void *arg, struct err *err)
{
	struct hold h = {.v = v, .dir = hold_dir, .fd = -EBADF, .held = held, .arg = arg};
	struct err one = {0};
	int first = 0;

	for (size_t i = 0; i < v->absent.n; i++)
		note(take_path(&h, v->absent.v[i], &one), &one, &first, err);
	for (size_t i = 0; i < v->links.n; i++)
		note(restore_link(&h, v->links.v[i], v->link_targets.v[i], &one), &one, &first,
			err);
	for (size_t i = 0; i < v->repos.n; i++)
		note(clean_git_path(&h, v->repos.v[i], GIT_MAIN, &one), &one, &first, err);
	for (size_t i = 0; i < v->guarded.n; i++) {
		AUTO_FREE char *dot_git = text_format("%s/.git", v->guarded.v[i]);
		bool is_cut = v->is_scan_cut;

		/* By name first: a box can make more files than a search looks at. */
		note(clean_git_path(&h, dot_git, GIT_MAIN, &one), &one, &first, err);
		note(host_scan(v->guarded.v[i], HOST_VIEW_AFTER_MAX, appeared, &h, &is_cut, &one),
			&one, &first, err);
		if (is_cut)
			held(v->guarded.v[i], NULL, arg);
	}
	closep(&h.fd);
	return first;
}
