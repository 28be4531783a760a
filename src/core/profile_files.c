/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/profile_files - where profiles are kept as files.
 */
#include "base/mem.h"
#include "core/profile_load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NAMES_MAX 64 /* profiles considered for "did you mean" */

struct finder {
	const struct profile_places *places;
	const struct profile_source *source;
};

/* The whole of a regular file, at most PROFILE_SIZE_MAX bytes. -ENOENT is told by the caller. */
static int read_file(const char *path, char **ret, size_t *ret_size, struct err *err)
{
	/* Regular files only: a fifo or a terminal would make us wait for somebody. */
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const size_t room = PROFILE_SIZE_MAX + 1; /* one more, to notice what is too long */
	AUTO_FREE char *text = NULL;
	char quoted[200];
	struct stat st;
	size_t n = 0;

	(void)text_quote(path, quoted, sizeof(quoted));
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "open '%s'", quoted);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "'%s' is not a regular file", quoted);
	text = mem_must(malloc(room));
	while (n < room) {
		ssize_t k = read(fd, text + n, room - n);

		if (k < 0)
			return err_sys(err, "read '%s'", quoted);
		if (k == 0)
			break;
		n += (size_t)k;
	}
	*ret = TAKE_PTR(text);
	*ret_size = n;
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n > k && strcmp(s + n - k, end) == 0;
}

static bool is_path(const char *what)
{
	return what[0] == '.' || strchr(what, '/') || ends_with(what, ".yaml") ||
	       ends_with(what, ".yml");
}

static bool is_name(const char *what)
{
	return what[0] != '.' && what[strspn(what, "abcdefghijklmnopqrstuvwxyz"
						   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
						   "0123456789._-@")] == '\0';
}

static int fetch_path(const struct finder *f, const char *what, const char *from, char **ret_yaml,
	size_t *ret_size, char **ret_file, struct err *err)
{
	AUTO_FREE char *dir = mem_strdup(from && strrchr(from, '/') ? from : f->source->cwd);
	AUTO_FREE char *path = NULL;
	char *slash = strrchr(dir, '/');
	int q;

	if (from && slash)
		*slash = '\0';
	q = text_path_clean(what, dir[0] ? dir : "/", &path, err);
	if (q >= 0)
		q = read_file(path, ret_yaml, ret_size, err);
	if (q >= 0)
		*ret_file = TAKE_PTR(path);
	return q;
}

/* The names of a directory's profiles, for a suggestion. */
static void list_names(const char *dir, char *names[NAMES_MAX], size_t *n)
{
	AUTO_DIR DIR *d = dir ? opendir(dir) : NULL;
	const struct dirent *e;

	while (d && *n < NAMES_MAX && (e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.' && ends_with(e->d_name, ".yaml"))
			names[(*n)++] = text_format("%.*s", (int)strlen(e->d_name) - 5, e->d_name);
	}
}

static int not_found(const struct finder *f, const char *what, struct err *err)
{
	const char *const dirs[] = {f->places->user, f->places->site, f->places->shipped};
	char *names[NAMES_MAX], where[300] = "", quoted[80];
	const char *near;
	size_t n = 0, used = 0;

	for (size_t i = 0; i < 3; i++) {
		int k = dirs[i] ? snprintf(where + used, sizeof(where) - used, "%s%s",
					  used ? ", " : "", dirs[i])
				: 0;

		used += k > 0 && (size_t)k < sizeof(where) - used ? (size_t)k : 0;
		list_names(dirs[i], names, &n);
	}
	near = text_closest(what, (const char *const *)names, n);
	(void)err_set(err, ENOENT, "there is no profile '%s'%s%s%s; looked in %s",
		text_quote(what, quoted, sizeof(quoted)), near ? " (did you mean '" : "",
		near ? near : "", near ? "'?)" : "", where[0] ? where : "no directory");
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	return -ENOENT;
}

static int fetch(void *arg, const char *what, const char *from, char **ret_yaml, size_t *ret_size,
	char **ret_file, struct err *err)
{
	const struct finder *f = arg;
	const char *const dirs[] = {f->places->user, f->places->site, f->places->shipped};

	if (is_path(what))
		return fetch_path(f, what, from, ret_yaml, ret_size, ret_file, err);
	for (size_t i = 0; i < 3 && is_name(what); i++) {
		AUTO_FREE char *path =
			dirs[i] ? text_format("%s/%.200s.yaml", dirs[i], what) : NULL;
		int q;

		if (!path || access(path, F_OK) < 0)
			continue;
		q = read_file(path, ret_yaml, ret_size, err);
		if (q >= 0)
			*ret_file = TAKE_PTR(path);
		return q;
	}
	/* A file in the caller's directory, as `bawn run --profile FILE` always took it. */
	if (!from && fetch_path(f, what, from, ret_yaml, ret_size, ret_file, err) >= 0)
		return 0;
	return not_found(f, what, err);
}

int profile_load(const char *what, const struct profile_places *places,
	const struct profile_source *source, struct spec *s, struct profile *ret, struct err *err)
{
	struct finder f = {.places = places, .source = source};

	return profile_compose(what, fetch, &f, source, s, ret, err);
}

int profile_load_floor(const char *file, struct policy **ret, struct err *err)
{
	static const struct profile_places nowhere = {0};
	struct profile_source source = {.file = file, .cwd = "/"};
	struct profile p = {0};
	int q = profile_load(file, &nowhere, &source, NULL, &p, err);

	if (q < 0)
		return q;
	if (p.has_network)
		*ret = TAKE_PTR(p.policy);
	else
		q = err_set(err, EINVAL, "%s: a floor needs a 'network' section", file);
	profile_done(&p);
	return q < 0 ? q : 0;
}

/* Beside the program: installed, or in the tree it was built in. */
static char *find_shipped(void)
{
	static const char *const places[] = {
		"../share/bawn/profiles", "../../share/bawn/profiles", "../etc/profiles"};
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return NULL;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		AUTO_FREE char *joined = text_format("%s/%s", self, places[i]);
		char *clean = NULL;
		struct err ignored = {0};

		if (access(joined, X_OK) == 0 &&
			text_path_clean(joined, "/", &clean, &ignored) >= 0)
			return clean;
	}
	return NULL;
}

void profile_places_find(const char *home, struct profile_places *ret)
{
	*ret = (struct profile_places){
		.user = home ? text_format("%s/.config/bawn/profiles", home) : NULL,
		.site = mem_strdup("/etc/bawn/profiles"),
		.shipped = find_shipped(),
	};
}

void profile_places_done(struct profile_places *p)
{
	free((void *)(uintptr_t)p->user);
	free((void *)(uintptr_t)p->site);
	free((void *)(uintptr_t)p->shipped);
	*p = (struct profile_places){0};
}
