/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/cp - `bawn cp`: files and directories into a sandbox and out of it.
 *
 * What a sandbox calls its files is hostile: a name becomes one component of a local path or
 * is refused, and nothing local is followed or opened that we did not make.
 */
#include "base/mem.h"
#include "cli/remote/process.h"
#include "cli/remote/transfer.h"
#include "cli/remote/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 64

static const char about[] =
	"Copy a file or a directory. SANDBOX:PATH is inside (from the user's home if PATH is\n"
	"relative), anything else is here; '-' is standard input or output.\n";

struct copy {
	struct transfer t;
	struct strv executables; /* remote files that must become executable */
};

/* "SANDBOX:PATH"? Then where its path begins. */
static const char *remote_path(const char *word)
{
	size_t n = strcspn(word, ":/");

	return n > 0 && word[n] == ':' ? word + n + 1 : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *without_slashes(const char *path)
{
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	return (char *)mem_must(strndup(path, n));
}

/* -ENOENT if there is nothing. */
static int remote_stat(struct copy *c, const char *path, json_t **ret, struct err *err)
{
	json_t *answer = NULL;
	int r = client_box_rpc(c->t.client, c->t.box, "filesystem.Filesystem/Stat",
		json_pack("{s:s}", "path", path), &answer, err);

	if (r >= 0)
		*ret = json_incref(json_object_get(answer, "entry"));
	json_decref(answer);
	return r < 0 ? r : *ret ? 0 : err_set(err, EPROTO, "the server says nothing of '%s'", path);
}

static bool is_dir(const json_t *entry)
{
	const char *type = json_string_value(json_object_get(entry, "type"));

	return type && strcmp(type, "FILE_TYPE_DIRECTORY") == 0;
}

/* ---- out of the sandbox ---- */

/* What the sandbox's file allows, and our umask too; never set-user-id: the owner is another. */
static mode_t local_mode(const json_t *entry)
{
	json_int_t mode = json_integer_value(json_object_get(entry, "mode"));
	mode_t mask = umask(077);

	(void)umask(mask);
	return (mode ? (mode_t)(mode & 0777) : 0644) & ~mask;
}

/* A device or a fifo that the caller named: written to, never replaced. */
static int get_into(struct copy *c, const char *remote, const char *local, struct err *err)
{
	AUTO_FD int fd = open(local, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? err_sys(err, "open '%s'", local) : transfer_get(&c->t, remote, fd, err);
}

static int get_file(struct copy *c, const char *remote, const json_t *entry, const char *local,
	int depth, struct err *err)
{
	AUTO_FREE char *fresh = text_format("%s.bawn-XXXXXX", local);
	AUTO_FD int fd = -EBADF;
	struct stat st;
	int r;

	if (depth == 0 && strcmp(local, "-") == 0)
		return transfer_get(&c->t, remote, STDOUT_FILENO, err);
	if (depth == 0 && stat(local, &st) == 0 && !S_ISREG(st.st_mode))
		return get_into(c, remote, local, err);
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "make '%s'", local);
	r = transfer_get(&c->t, remote, fd, err);
	if (r >= 0 && (fchmod(fd, local_mode(entry)) < 0 || rename(fresh, local) < 0))
		r = err_sys(err, "write '%s'", local);
	if (r < 0)
		(void)unlink(fresh);
	return r < 0 ? err_wrap(err, "'%s'", remote) : 0;
}

static int get_any(struct copy *c, const char *remote, const json_t *entry, const char *local,
	int depth, struct err *err);

static int get_child(struct copy *c, const char *remote, const json_t *entry, const char *local,
	int depth, struct err *err)
{
	const char *name = json_string_value(json_object_get(entry, "name"));
	bool is_link = json_object_get(entry, "symlinkTarget") != NULL;
	AUTO_FREE char *from = NULL, *to = NULL;
	char quoted[120];

	if (!name || !*name || strchr(name, '/') || strcmp(name, ".") == 0 ||
		strcmp(name, "..") == 0)
		return err_set(err, EPROTO, "the sandbox names a file '%s'",
			text_quote(name ? name : "", quoted, sizeof(quoted)));
	if (is_link && is_dir(entry))
		return 0; /* it may lead anywhere, also back up */
	from = text_format("%s/%s", remote, name);
	to = text_format("%s/%s", local, name);
	return get_any(c, from, entry, to, depth + 1, err);
}

/* Below the top the sandbox chose the name: a link of ours that has it leads out of the target. */
static int make_dir(const char *local, int depth, struct err *err)
{
	struct stat st;

	if (mkdir(local, 0755) == 0)
		return 0;
	if (errno != EEXIST)
		return err_sys(err, "make the directory '%s'", local);
	if (depth > 0 && lstat(local, &st) == 0 && S_ISLNK(st.st_mode))
		return err_set(err, ELOOP, "'%s' is a link here and is not followed", local);
	return 0;
}

static int get_dir(
	struct copy *c, const char *remote, const char *local, int depth, struct err *err)
{
	json_t *answer = NULL;
	const json_t *entries;
	int r;

	if (depth > DEPTH_MAX)
		return err_set(err, ELOOP, "'%s' is too deep", remote);
	r = make_dir(local, depth, err);
	if (r < 0)
		return r;
	r = client_box_rpc(c->t.client, c->t.box, "filesystem.Filesystem/ListDir",
		json_pack("{s:s,s:i}", "path", remote, "depth", 1), &answer, err);
	entries = json_object_get(answer, "entries");
	for (size_t i = 0; r >= 0 && i < json_array_size(entries); i++)
		r = get_child(c, remote, json_array_get(entries, i), local, depth, err);
	json_decref(answer);
	return r;
}

static int get_any(struct copy *c, const char *remote, const json_t *entry, const char *local,
	int depth, struct err *err)
{
	const char *type = json_string_value(json_object_get(entry, "type"));

	if (is_dir(entry))
		return get_dir(c, remote, local, depth, err);
	if (depth > 0 && (!type || strcmp(type, "FILE_TYPE_FILE") != 0))
		return 0; /* sockets, fifos, dangling links */
	return get_file(c, remote, entry, local, depth, err);
}

static int get(struct copy *c, const char *remote, const char *to, struct err *err)
{
	AUTO_FREE char *from = without_slashes(remote), *into = NULL;
	json_t *entry = NULL;
	struct stat st;
	int r = remote_stat(c, from, &entry, err);

	if (r >= 0) {
		const char *name = base_name(from);

		/* As cp(1): into a directory that is there, under the name it had, if it is one. */
		if (strcmp(to, "-") != 0 && strcmp(name, "..") != 0 && stat(to, &st) == 0 &&
			S_ISDIR(st.st_mode))
			into = text_format("%s/%s", to, *name ? name : "root");
		r = get_any(c, from, entry, into ? into : to, 0, err);
	}
	json_decref(entry);
	return r;
}

/* ---- into the sandbox ---- */

static int put_any(
	struct copy *c, int dir, const char *name, const char *remote, int depth, struct err *err);

static int put_dir(struct copy *c, int take_fd, const char *remote, int depth, struct err *err)
{
	AUTO_DIR DIR *d = fdopendir(take_fd);
	const struct dirent *e;
	int r;

	if (!d) {
		r = err_sys(err, "read the directory");
		(void)close(take_fd);
		return r;
	}
	if (depth > DEPTH_MAX)
		return err_set(err, ELOOP, "'%s' is too deep", remote);
	r = client_box_rpc(c->t.client, c->t.box, "filesystem.Filesystem/MakeDir",
		json_pack("{s:s}", "path", remote), NULL, err);
	if (r == -EEXIST)
		r = 0;
	while (r >= 0 && (errno = 0, e = readdir(d)) != NULL) {
		AUTO_FREE char *to = NULL;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		to = text_format("%s/%s", remote, e->d_name);
		r = put_any(c, dirfd(d), e->d_name, to, depth + 1, err);
	}
	return r;
}

/* Below the top nothing is followed: a link out of the tree was not asked for. */
static int put_any(
	struct copy *c, int dir, const char *name, const char *remote, int depth, struct err *err)
{
	AUTO_FD int fd = openat(dir, name,
		O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (depth > 0 ? O_NOFOLLOW : 0));
	struct stat st;
	int r;

	if (fd < 0 && depth > 0 && (errno == ELOOP || errno == ENXIO))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "open '%s'", name);
	if (S_ISDIR(st.st_mode))
		return put_dir(c, TAKE_FD(fd), remote, depth, err);
	if (depth > 0 && !S_ISREG(st.st_mode))
		return 0;
	(void)fcntl(fd, F_SETFL, 0);
	r = transfer_put(&c->t, fd, remote, err);
	if (r >= 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IXUSR))
		r = strv_add(&c->executables, remote, err);
	return r < 0 ? err_wrap(err, "'%s'", name) : 0;
}

/* The data plane has no call for modes: the box's own chmod does it, some files at a time. */
static int set_modes(struct copy *c, struct err *err)
{
	char program[] = "chmod", mode[] = "a+x", dashes[] = "--";
	int r = 0;

	for (size_t at = 0; r >= 0 && at < c->executables.n;) {
		char *argv[104] = {program, mode, dashes};
		size_t n = 3;
		struct process_wish w = {.argv = argv, .user = c->t.user};
		struct process_result result = {0};

		while (n < 103 && at < c->executables.n)
			argv[n++] = c->executables.v[at++];
		r = process_run(c->t.client, c->t.box, &w, &result, err);
	}
	return r;
}

static int put(struct copy *c, const char *from, const char *remote, struct err *err)
{
	AUTO_FREE char *local = without_slashes(from), *to = NULL;
	struct err ignored = {0};
	json_t *entry = NULL;
	bool is_into;
	int r;

	is_into = !*remote || remote[strlen(remote) - 1] == '/' ||
		  (remote_stat(c, remote, &entry, &ignored) >= 0 && is_dir(entry));
	json_decref(entry);
	to = without_slashes(*remote ? remote : ".");
	if (strcmp(from, "-") == 0) {
		if (is_into)
			return err_set(
				err, EISDIR, "standard input needs the name of a file there");
		return transfer_put(&c->t, STDIN_FILENO, to, err);
	}
	if (is_into) {
		AUTO_FREE char *real = realpath(local, NULL);
		char *longer = text_format("%s/%s", to, base_name(real ? real : local));

		free(to);
		to = longer;
	}
	r = put_any(c, AT_FDCWD, local, to, 0, err);
	return r < 0 ? r : set_modes(c, err);
}

static int copy(const struct args *a, struct copy *c, struct err *err)
{
	const char *from = remote_path(a->rest[0]), *to = remote_path(a->rest[1]);
	const char *word = a->rest[from ? 0 : 1];
	AUTO_FREE char *which = NULL;
	struct client_box box = {0};
	int r;

	if (!from == !to)
		return err_set(err, EINVAL,
			"one of the two must be in a sandbox, SANDBOX:PATH, and the other here");
	which = (char *)mem_must(strndup(word, strcspn(word, ":")));
	r = client_box_live(c->t.client, which, &box, err);
	if (r < 0)
		return r;
	c->t.box = &box;
	r = from ? get(c, from, a->rest[1], err) : put(c, a->rest[0], to, err);
	c->t.box = NULL;
	client_box_done(&box);
	return r;
}

int verb_cp(int argc, char **argv)
{
	AUTO(client_close) struct client *client = NULL;
	struct copy c = {0};
	const struct arg table[] = {
		{"--user", 'u', "USER", "as whom (user)", ARG_TEXT, &c.t.user},
		{"--quiet", 'q', NULL, "no progress", ARG_FLAG, &c.t.is_quiet},
	};
	const struct args_verb v = {.name = "cp",
		.usage = "[options] FROM TO",
		.about = about,
		.table = table,
		.table_n = 2,
		.min = 2,
		.max = 2};
	struct args a;
	struct err err = {0};
	int r = args_parse(&v, argc, argv, &a, &err);

	if (r < 0 || a.want_help)
		return r < 0 ? args_fail("cp", &err) : 0;
	c.t.is_quiet |= !isatty(STDERR_FILENO);
	r = client_open(&a, &client, &err);
	c.t.client = client;
	if (r >= 0)
		r = copy(&a, &c, &err);
	transfer_done(&c.t);
	if (r >= 0 && a.want_json)
		(void)printf("{\"files\":%llu,\"bytes\":%llu}\n", (unsigned long long)c.t.files,
			(unsigned long long)c.t.bytes);
	strv_done(&c.executables);
	return r < 0 ? args_fail("cp", &err) : 0;
}
