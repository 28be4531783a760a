/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/cgroup_tree - where leaves may go: which controllers are mounted where, and which
 * directory of each hierarchy the caller may create in.
 *
 * Looks, never changes. The answer is kept for the life of the process (per effective user),
 * because it is on the way of every start; it is the one static object of sys/cgroup.
 *
 * v2: the mount's root if we may write there (root; or a container with its own tree), else the
 * nearest delegated ancestor of our own cgroup, else our own cgroup, which we must leave first.
 * v1, for each hierarchy: the mount's root, else our own cgroup, else "<mount>/bawn-<uid>",
 * the directory that an operator hands to a user.
 */
#include "sys/cgroup_impl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define MOUNTS_MAX 16

struct mounts {
	struct cgroup_mount m[MOUNTS_MAX];
	size_t n;
};

/* mountinfo(5) writes space, tab, newline and backslash as three octal digits. */
static bool unescape(const char *s, size_t n, char *ret, size_t size)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned c = (unsigned char)s[i];

		if (c == '\\') {
			if (n - i < 4)
				return false;
			c = 0;
			for (size_t k = 1; k <= 3; k++) {
				if (s[i + k] < '0' || s[i + k] > '7')
					return false;
				c = c * 8 + (unsigned)(s[i + k] - '0');
			}
			i += 3;
		}
		if (c == 0 || c > 255 || out + 1 >= size)
			return false;
		ret[out++] = (char)c;
	}
	ret[out] = '\0';
	return out > 0 && ret[0] == '/';
}

/* The next field of a line, without its blank; false at the end. */
static bool next_field(const char **p, const char *end, const char **ret, size_t *ret_n)
{
	const char *s = *p;

	while (s < end && *s == ' ')
		s++;
	*ret = s;
	while (s < end && *s != ' ')
		s++;
	*ret_n = (size_t)(s - *ret);
	*p = s;
	return *ret_n > 0;
}

static bool field_is(const char *f, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(f, word, n) == 0;
}

static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; *p;) {
		size_t len = strcspn(p, ",");

		if (len == n && memcmp(p, word, n) == 0)
			return true;
		p += len;
		p += *p == ',';
	}
	return false;
}

bool cgroup_parse_mount(const char *line, size_t n, struct cgroup_mount *ret)
{
	const char *p = line;
	const char *end = line + n;
	const char *f;
	const char *root;
	const char *point;
	size_t f_n;
	size_t root_n;
	size_t point_n;
	char options[256];

	/* id, parent, device; root, mount point, options; optional fields up to "-". */
	for (int i = 0; i < 3; i++)
		if (!next_field(&p, end, &f, &f_n))
			return false;
	if (!next_field(&p, end, &root, &root_n) || !next_field(&p, end, &point, &point_n))
		return false;
	do {
		if (!next_field(&p, end, &f, &f_n))
			return false;
	} while (!field_is(f, f_n, "-"));

	if (!next_field(&p, end, &f, &f_n))
		return false;
	ret->is_v2 = field_is(f, f_n, "cgroup2");
	if (!ret->is_v2 && !field_is(f, f_n, "cgroup"))
		return false;
	for (int i = 0; i < 2; i++) /* source, then the file system's own options */
		if (!next_field(&p, end, &f, &f_n))
			return false;
	if (f_n >= sizeof(options))
		return false;
	memcpy(options, f, f_n);
	options[f_n] = '\0';
	ret->controllers = ret->is_v2 ? 0 : cgroup_parse_controllers(options);
	ret->has_cpuacct = !ret->is_v2 && list_has(options, "cpuacct");
	if (!ret->is_v2 && ret->controllers == 0)
		return false;
	return unescape(root, root_n, ret->root, sizeof(ret->root)) &&
	       unescape(point, point_n, ret->path, sizeof(ret->path));
}

bool cgroup_parse_place(const char *text, const char *controller, char *ret, size_t size)
{
	/* Lines are "4:cpu,cpuacct:/path" and "0::/path"; a path may hold colons itself. */
	for (const char *line = text; line && *line;) {
		const char *end = strchrnul(line, '\n');
		const char *list = memchr(line, ':', (size_t)(end - line));
		const char *path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
		char names[256];

		if (path && (size_t)(path - list) <= sizeof(names)) {
			size_t list_n = (size_t)(path - list - 1);
			size_t path_n = (size_t)(end - path - 1);

			memcpy(names, list + 1, list_n);
			names[list_n] = '\0';
			if (controller ? list_has(names, controller)
				       : (list_n == 0 && *line == '0')) {
				/* "/.." is how a place above the namespace's root is shown. */
				if (path_n == 0 || path_n >= size || path[1] != '/' ||
					strncmp(path + 1, "/..", 3) == 0)
					return false;
				memcpy(ret, path + 1, path_n);
				ret[path_n] = '\0';
				return true;
			}
		}
		line = *end ? end + 1 : NULL;
	}
	return false;
}

static bool is_type(const char *path, long magic)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (long)fs.f_type == magic;
}

static void add_mount(struct mounts *mounts, const char *line, size_t n)
{
	struct cgroup_mount *m = &mounts->m[mounts->n];

	if (mounts->n == MOUNTS_MAX || !cgroup_parse_mount(line, n, m))
		return;
	/* Another mount may lie over this one, and the text cannot tell. */
	if (is_type(m->path, m->is_v2 ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC))
		mounts->n++;
}

/* Line by line through a fixed buffer: a machine may have many thousand mounts. */
static void read_mounts(struct mounts *mounts)
{
	AUTO_FD int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	char text[8192];
	size_t held = 0;
	ssize_t got;

	mounts->n = 0;
	if (fd < 0)
		return;
	while ((got = read(fd, text + held, sizeof(text) - held)) > 0) {
		size_t start = 0;
		char *end;

		held += (size_t)got;
		while ((end = memchr(text + start, '\n', held - start))) {
			size_t n = (size_t)(end - (text + start));

			add_mount(mounts, text + start, n);
			start += n + 1;
		}
		/* A line that fills the buffer is none of ours; its tail will not parse either. */
		if (start == 0 && held == sizeof(text))
			start = held;
		held -= start;
		memmove(text, text + start, held);
	}
}

static bool may_write(const char *dir, const char *file)
{
	char path[CGROUP_LEAF_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, file);

	return n > 0 && (size_t)n < sizeof(path) &&
	       faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

/* Our own cgroup in a mounted hierarchy, as a path. */
static bool own_place(const struct cgroup_mount *m, const char *controller, char *ret, size_t size)
{
	char text[CGROUP_TEXT_MAX];
	char place[CGROUP_PATH_MAX];
	size_t root_n = strlen(m->root);
	const char *below = place;
	int n;

	if (cgroup_get("/proc/self", "cgroup", text, sizeof(text)) <= 0 ||
		!cgroup_parse_place(text, controller, place, sizeof(place)))
		return false;
	if (strcmp(m->root, "/") != 0) {
		if (strncmp(place, m->root, root_n) != 0 ||
			(place[root_n] != '/' && place[root_n] != '\0'))
			return false;
		below = place + root_n;
	}
	n = snprintf(ret, size, "%s%s", m->path, strcmp(below, "/") == 0 ? "" : below);
	return n > 0 && (size_t)n < size;
}

/* Number of processes directly in dir that are not us; -errno if it cannot be read. */
static int count_others(const char *dir)
{
	char text[CGROUP_TEXT_MAX];
	const char *p = text;
	int others = 0;
	uint64_t pid;
	int r = cgroup_get(dir, "cgroup.procs", text, sizeof(text));

	if (r < 0)
		return r;
	for (; cgroup_scan_number(&p, &pid); p += *p == '\n')
		others += pid != (uint64_t)getpid();
	return others;
}

/*
 * Judge a v2 directory as a parent. False if we may not create there or nothing
 * would come of it.
 */
static bool try_v2(const char *dir, struct cgroup_parent *ret, unsigned *ret_available)
{
	char text[CGROUP_TEXT_MAX];
	unsigned available;
	int others;

	if (cgroup_get(dir, "cgroup.controllers", text, sizeof(text)) < 0)
		return false;
	available = cgroup_parse_controllers(text);
	*ret_available = available;
	if (!may_write(dir, "") || !may_write(dir, "cgroup.procs") ||
		cgroup_get(dir, "cgroup.subtree_control", text, sizeof(text)) < 0)
		return false;
	ret->enabled = cgroup_parse_controllers(text);
	ret->controllers = available;
	ret->is_v2 = true;
	ret->must_move = false;
	(void)snprintf(ret->path, sizeof(ret->path), "%s", dir);
	if ((available & ~ret->enabled) == 0)
		return available != 0;

	if (!may_write(dir, "cgroup.subtree_control")) {
		ret->controllers = ret->enabled;
		return ret->enabled != 0;
	}
	/* Only the true root lacks this file, and only it may have processes and children. */
	if (cgroup_get(dir, "cgroup.type", text, sizeof(text)) == -ENOENT)
		return available != 0;
	others = count_others(dir);
	if (others != 0) {
		ret->controllers = ret->enabled;
		return ret->enabled != 0;
	}
	ret->must_move = cgroup_get(dir, "cgroup.procs", text, sizeof(text)) > 0;
	return available != 0;
}

static void add_v2(struct cgroup_tree *tree, const struct cgroup_mount *m)
{
	struct cgroup_parent *parent = &tree->parent[tree->n];
	struct cgroup_parent own;
	char place[CGROUP_PATH_MAX];
	size_t mount_n = strlen(m->path);
	unsigned available = 0;
	bool found = try_v2(m->path, parent, &available);
	bool own_works;
	char *slash;

	tree->mounted |= available;
	/* A controller that the top lacks, as all do on a hybrid machine, is nowhere below. */
	if (available == 0)
		return;
	/* Our place and every directory above it that we may write: the lowest wins. */
	if (!found && own_place(m, NULL, place, sizeof(place))) {
		own_works = try_v2(place, &own, &available);
		while (!found && strlen(place) > mount_n && (slash = strrchr(place, '/'))) {
			*slash = '\0';
			found = strlen(place) > mount_n && try_v2(place, parent, &available) &&
				!parent->must_move;
		}
		if (!found && own_works) {
			*parent = own;
			found = true;
		}
	}
	if (!found)
		return;
	parent->controllers &= ~tree->controllers;
	if (parent->controllers == 0)
		return;
	tree->controllers |= parent->controllers;
	tree->n++;
}

/* The user's id as the hierarchy's owner sees it, also from inside a user namespace. */
static uint64_t outer_uid(void)
{
	uint64_t uid = geteuid();
	char text[CGROUP_TEXT_MAX];
	const char *p = text;

	if (cgroup_get("/proc/self", "uid_map", text, sizeof(text)) <= 0)
		return uid;
	while (*p) {
		uint64_t field[3];

		for (size_t i = 0; i < 3; i++) {
			p += strspn(p, " ");
			if (!cgroup_scan_number(&p, &field[i]))
				return uid;
		}
		if (uid >= field[0] && uid - field[0] < field[2])
			return field[1] + (uid - field[0]);
		p += strspn(p, "\n");
	}
	return uid;
}

static bool place_v1(const struct cgroup_mount *m, const char *controller, char *ret, size_t size)
{
	struct stat st;
	int n;

	(void)snprintf(ret, size, "%s", m->path);
	if (may_write(ret, ""))
		return true;
	if (own_place(m, controller, ret, size) && may_write(ret, ""))
		return true;
	n = snprintf(ret, size, "%s/bawn-%" PRIu64, m->path, outer_uid());
	return n > 0 && (size_t)n < size && lstat(ret, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && may_write(ret, "");
}

static void add_v1(struct cgroup_tree *tree, const struct cgroup_mount *m)
{
	struct cgroup_parent *parent = &tree->parent[tree->n];
	unsigned fresh = m->controllers & ~tree->controllers;
	unsigned lowest = m->controllers & -m->controllers;
	const char *name = lowest == CGROUP_IO
				   ? "blkio"
				   : cgroup_controller_name[__builtin_ctz(m->controllers)];

	tree->mounted |= m->controllers;
	if (fresh == 0 || !place_v1(m, name, parent->path, sizeof(parent->path)))
		return;
	parent->controllers = fresh;
	parent->is_v2 = false;
	parent->has_cpuacct = m->has_cpuacct;
	tree->controllers |= fresh;
	tree->n++;
}

static void find(struct cgroup_tree *tree)
{
	struct cgroup_mount unified = {.path = "/sys/fs/cgroup", .root = "/", .is_v2 = true};
	struct mounts mounts;

	memset(tree, 0, sizeof(*tree));
	/* A unified machine, as root: known without reading the mount table. */
	if (is_type(unified.path, CGROUP2_SUPER_MAGIC) && may_write(unified.path, ""))
		add_v2(tree, &unified);
	if (tree->n == 0) {
		read_mounts(&mounts);
		for (size_t i = 0; i < mounts.n; i++) {
			if (tree->n == CGROUP_COUNT)
				break;
			if (mounts.m[i].is_v2)
				add_v2(tree, &mounts.m[i]);
			else
				add_v1(tree, &mounts.m[i]);
		}
	}
	if (tree->n > 0)
		tree->kind = CGROUP_V2;
	for (size_t i = 0; i < tree->n; i++)
		if (!tree->parent[i].is_v2)
			tree->kind = CGROUP_V1;
}

struct cgroup_tree *cgroup_tree_get(void)
{
	static struct cgroup_tree tree;
	static uid_t known_for;
	static bool is_known;

	if (!is_known || known_for != geteuid()) {
		find(&tree);
		known_for = geteuid();
		is_known = true;
	}
	return &tree;
}
