/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The host may show a hidden directory a second time: by a bind mount of it, or of
 * something above it. The mount table names the file system and the directory in it that
 * stands at each mount point, so that the other ways to a path can be written down.
 */
#include "base/own.h"
#include "run/process/host_view_impl.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MOUNTS_MAX 4096

struct mounts {
	struct strv dev;  /* "8:1" */
	struct strv root; /* the directory of the file system */
	struct strv at;   /* where it is mounted; later ones cover earlier ones */
};

/* The kernel writes blanks, backslashes and ends of line as \NNN. */
static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*out++ = *s;
		}
	}
	*out = '\0';
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime …" */
static int add_line(struct mounts *m, char *line, struct err *err)
{
	char *field[5];
	int r;

	for (int i = 0; i < 5; i++) {
		field[i] = strsep(&line, " ");
		if (!field[i])
			return 0;
	}
	unescape(field[3]);
	unescape(field[4]);
	r = strv_add(&m->dev, field[2], err);
	if (r == 0)
		r = strv_add(&m->root, field[3], err);
	if (r == 0)
		r = strv_add(&m->at, field[4], err);
	return r;
}

static int read_mounts(struct mounts *m, struct err *err)
{
	AUTO_FILE FILE *f = fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	int r = 0;

	if (!f)
		return err_sys(err, "open '/proc/self/mountinfo'");
	while (r == 0 && m->at.n < MOUNTS_MAX && getline(&line, &room, f) > 0)
		r = add_line(m, line, err);
	return r;
}

/* The mount that shows `path`. */
static size_t mount_of(const struct mounts *m, const char *path)
{
	size_t best = 0;

	for (size_t i = 1; i < m->at.n; i++) {
		if (text_path_below(path, m->at.v[i]) &&
			strlen(m->at.v[i]) >= strlen(m->at.v[best]))
			best = i;
	}
	return best;
}

/* The part of `path` below `dir`: "" or "/…". */
static const char *rest_of(const char *path, const char *dir)
{
	return strcmp(dir, "/") == 0 ? (path[1] ? path : "") : path + strlen(dir);
}

static char *join(const char *dir, const char *rest)
{
	return text_format("%s%s", dir[1] ? dir : "", rest);
}

static bool is_same(const char *a, const char *b)
{
	struct stat x, y;

	return lstat(a, &x) == 0 && lstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

static int aliases_of(const struct mounts *m, const char *path, struct strv *out, struct err *err)
{
	size_t own = mount_of(m, path);
	AUTO_FREE char *inside = join(m->root.v[own], rest_of(path, m->at.v[own]));

	for (size_t i = 0; i < m->at.n; i++) {
		AUTO_FREE char *other = NULL;
		int r;

		if (i == own || strcmp(m->dev.v[i], m->dev.v[own]) != 0)
			continue;
		if (text_path_below(inside, m->root.v[i])) {
			other = join(m->at.v[i], rest_of(inside, m->root.v[i]));
			if (strcmp(other, path) == 0 || !is_same(path, other))
				continue; /* covered by another mount */
		} else if (text_path_below(m->root.v[i], inside) && mount_of(m, m->at.v[i]) == i) {
			other = text_format("%s", m->at.v[i]); /* a part of it */
		} else {
			continue;
		}
		if (text_path_below(other, path))
			continue;
		r = host_view_add(out, other, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Most machines show no file system twice: then there is nothing to compare. */
static bool has_twins(const struct mounts *m)
{
	for (size_t i = 0; i < m->dev.n; i++) {
		for (size_t k = 0; k < i; k++) {
			if (strcmp(m->dev.v[i], m->dev.v[k]) == 0)
				return true;
		}
	}
	return false;
}

int host_find_aliases(const struct strv *hidden, struct strv *out, struct err *err)
{
	struct mounts m = {0};
	int r = hidden->n > 0 ? read_mounts(&m, err) : 0;

	if (r == 0 && m.at.n > 0 && has_twins(&m)) {
		for (size_t i = 0; r == 0 && i < hidden->n; i++)
			r = aliases_of(&m, hidden->v[i], out, err);
	}
	strv_done(&m.dev);
	strv_done(&m.root);
	strv_done(&m.at);
	return r;
}
