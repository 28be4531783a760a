/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/secret_files.h"

#include "base/mem.h"
#include "base/text.h"
#include "core/placeholder.h"
#include "core/state_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#define SEALED_MAX 65536
#define ENDING     ".json"

int secret_files_dir(char **ret, struct err *err)
{
	AUTO_FREE char *state = NULL;
	int r = state_dir(&state, err);

	if (r >= 0)
		*ret = text_format("%s/" SECRET_FILES_DIR, state);
	return r;
}

void secret_hex(const void *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *b = p;

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[b[i] >> 4];
		out[2 * i + 1] = digits[b[i] & 15];
	}
	out[2 * n] = '\0';
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool secret_unhex(const char *s, size_t n, void *out)
{
	unsigned char *b = out;

	for (size_t i = 0; i + 1 < n; i += 2) {
		int high = digit(s[i]), low = digit(s[i + 1]);

		if (high < 0 || low < 0)
			return false;
		b[i / 2] = (unsigned char)(high << 4 | low);
	}
	return n % 2 == 0;
}

/* The path of a secret's file; NULL: it is no name. */
static char *path_of(const char *dir, const char *name)
{
	return placeholder_is_name(name) ? text_format("%s/%s" ENDING, dir, name) : NULL;
}

bool secret_files_has(const char *dir, const char *name)
{
	AUTO_FREE char *path = path_of(dir, name);

	return path && access(path, F_OK) == 0;
}

static int read_fields(json_t *o, const char *name, struct secret_file *ret, struct err *err)
{
	const char *said = json_string_value(json_object_get(o, "name"));
	const json_t *sealed = json_object_get(o, "sealed");
	json_int_t version = json_integer_value(json_object_get(o, "version"));
	size_t n = json_string_length(sealed);
	char *room;

	if (!said || strcmp(said, name) != 0 || version < 1 || n == 0 || n > SEALED_MAX)
		return err_set(err, EBADMSG, "the file of secret '%s' is damaged", name);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	ret->version = (uint64_t)version;
	ret->changed_ms = (int64_t)json_integer_value(json_object_get(o, "changed_ms"));
	ret->sealed = (struct buf){0};
	room = buf_reserve(&ret->sealed, n / 2);
	if (!room || !secret_unhex(json_string_value(sealed), n, room)) {
		buf_done(&ret->sealed);
		return err_set(err, EBADMSG, "the file of secret '%s' is damaged", name);
	}
	buf_commit(&ret->sealed, n / 2);
	return 0;
}

int secret_files_get(const char *dir, const char *name, struct secret_file *ret, struct err *err)
{
	AUTO_FREE char *path = path_of(dir, name);
	AUTO_FD int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	AUTO_FREE char *text = NULL;
	struct stat st;
	json_t *o;
	ssize_t n;
	int r;

	if (!path || (fd < 0 && errno == ENOENT))
		return err_set(err, ENOENT, "no secret '%s'", path ? name : "?");
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "open '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_size > 3 * SEALED_MAX)
		return err_set(err, EBADMSG, "the file of secret '%s' is damaged", name);
	text = mem_must(malloc((size_t)st.st_size + 1));
	n = read(fd, text, (size_t)st.st_size);
	o = n == st.st_size ? json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL) : NULL;
	r = read_fields(o, name, ret, err);
	json_decref(o);
	return r;
}

int secret_files_make_dir(const char *dir, struct err *err)
{
	AUTO_FREE char *part = mem_strdup(dir);

	for (char *s = strchr(part + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return err_sys(err, "make the directory '%s'", part);
		*s = '/';
	}
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_sys(err, "make the directory '%s'", dir);
	return 0;
}

static char *text_of(const struct secret_file *f)
{
	AUTO_FREE char *hex = mem_must(malloc(2 * buf_len(&f->sealed) + 1));
	json_t *o;
	char *text;

	secret_hex(buf_data(&f->sealed), buf_len(&f->sealed), hex);
	o = json_pack("{s:s, s:I, s:I, s:s}", "name", f->name, "version", (json_int_t)f->version,
		"changed_ms", (json_int_t)f->changed_ms, "sealed", hex);
	text = mem_must(json_dumps(o, JSON_COMPACT));
	json_decref(o);
	return text;
}

int secret_files_put(const char *dir, const struct secret_file *f, struct err *err)
{
	AUTO_FREE char *path = path_of(dir, f->name);
	AUTO_FREE char *fresh = NULL;
	AUTO_FREE char *text = NULL;
	AUTO_FD int fd = -EBADF;
	AUTO_FD int dir_fd = -EBADF;
	size_t n;
	int r;

	if (!path)
		return err_set(err, EINVAL, "this is no name of a secret");
	r = secret_files_make_dir(dir, err);
	if (r < 0)
		return r;
	fresh = text_format("%s/.%s.%d", dir, f->name, getpid());
	text = text_of(f);
	n = strlen(text);
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n || fsync(fd) < 0 ||
		rename(fresh, path) < 0) {
		r = err_sys(err, "write '%s'", path);
		(void)unlink(fresh);
		return r;
	}
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 || fsync(dir_fd) < 0 ? err_sys(err, "write '%s'", path) : 0;
}

int secret_files_remove(const char *dir, const char *name, struct err *err)
{
	AUTO_FREE char *path = path_of(dir, name);

	if (!path || (unlink(path) < 0 && errno == ENOENT))
		return err_set(err, ENOENT, "no secret '%s'", path ? name : "?");
	return access(path, F_OK) == 0 ? err_sys(err, "remove '%s'", path) : 0;
}

static int is_file(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');

	return e->d_name[0] != '.' && dot && strcmp(dot, ENDING) == 0;
}

int secret_files_each(const char *dir, int (*each)(const struct secret_file *f, void *arg),
	void *arg, struct err *err)
{
	struct dirent **all = NULL;
	int n = scandir(dir, &all, is_file, alphasort), r = 0;

	if (n < 0 && errno == ENOENT)
		return 0;
	if (n < 0)
		return err_sys(err, "read the directory '%s'", dir);
	for (int i = 0; i < n; i++) {
		AUTO_FREE char *name = mem_strdup(all[i]->d_name);
		struct secret_file f = {0};

		name[strlen(name) - strlen(ENDING)] = '\0';
		if (r >= 0)
			r = secret_files_get(dir, name, &f, err);
		if (r >= 0)
			r = each(&f, arg);
		buf_done(&f.sealed);
		free(all[i]);
	}
	free(all);
	return r < 0 ? r : 0;
}
