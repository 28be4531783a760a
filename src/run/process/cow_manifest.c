/* SPDX-License-Identifier: Apache-2.0 */

#include "base/mem.h"
#include "run/process/cow_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES (64 * 1024) /* two paths, every byte escaped, and some numbers */
#define VERSION        1

static void decref(json_t **j)
{
	json_decref(*j);
}
#define AUTO_JSON __attribute__((cleanup(decref)))

/*
 * File names are bytes, JSON strings are Unicode. A name that is clean UTF-8
 * without '%' stands as it is; in any other, '%', controls and bytes above 0x7e are %XX.
 */
static json_t *name_to_json(const char *name)
{
	static const char hex[] = "0123456789ABCDEF";
	AUTO_FREE char *out = NULL;
	size_t n = 0;
	json_t *j = strchr(name, '%') ? NULL : json_string(name);

	if (j)
		return j;
	out = mem_must(malloc(strlen(name) * 3 + 1));
	for (const char *p = name; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c >= 0x20 && c < 0x7f && c != '%') {
			out[n++] = *p;
			continue;
		}
		out[n++] = '%';
		out[n++] = hex[c >> 4];
		out[n++] = hex[c & 15];
	}
	out[n] = '\0';
	return mem_must(json_string(out));
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* NULL if it is not a name this file wrote. The caller frees. */
static char *name_from_json(const json_t *j)
{
	const char *s = json_string_value(j);
	AUTO_FREE char *out = s ? mem_must(calloc(1, strlen(s) + 1)) : NULL;
	size_t n = 0;

	if (!s || strlen(s) > (size_t)3 * PATH_MAX)
		return NULL;
	for (; *s; s++) {
		if (*s != '%') {
			out[n++] = *s;
			continue;
		}
		if (hex_value(s[1]) < 0 || hex_value(s[2]) < 0)
			return NULL;
		out[n] = (char)(hex_value(s[1]) * 16 + hex_value(s[2]));
		if (out[n++] == '\0')
			return NULL;
		s += 2;
	}
	out[n] = '\0';
	return n < PATH_MAX ? TAKE_PTR(out) : NULL;
}

/* Relative, below, in its simplest form: what the walk over the upper directory makes. */
static bool is_plain_path(const char *p)
{
	if (*p == '\0')
		return false;
	for (;;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || n > NAME_MAX || (n == 1 && p[0] == '.') ||
			(n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (p[n] == '\0')
			return true;
		p += n + 1;
	}
}

static void put(json_t *o, const char *key, json_t *value)
{
	if (json_object_set_new(o, key, value) < 0)
		abort();
}

static void put_number(json_t *o, const char *key, uint64_t n)
{
	if (n)
		put(o, key, json_integer((json_int_t)n));
}

static json_t *entry_to_json(const struct cow_entry *e)
{
	json_t *o = mem_must(json_object());

	put(o, "kind", json_string(cow_kind_name(e->kind)));
	put(o, "path", name_to_json(e->path));
	put_number(o, "mode", e->mode);
	put_number(o, "size", e->size);
	put_number(o, "file", e->file);
	if (e->link)
		put(o, "link", name_to_json(e->link));
	if (e->uid != COW_NO_ID) {
		put(o, "uid", json_integer(e->uid));
		put(o, "gid", json_integer(e->gid));
	}
	if (e->is_stripped)
		put(o, "stripped", json_true());
	put_number(o, "base_size", e->base_size);
	put_number(o, "base_mtime_ns", e->base_mtime_ns);
	put_number(o, "base_ino", e->base_ino);
	put_number(o, "base_mode", e->base_mode);
	return o;
}

static int write_line(FILE *f, json_t *take_o, struct err *err)
{
	AUTO_JSON json_t *o = take_o;

	if (json_dumpf(o, f, JSON_COMPACT) < 0 || fputc('\n', f) == EOF)
		return err_sys(err, "write '%s'", COW_MANIFEST);
	return 0;
}

static json_t *header_to_json(const struct cow_run *run)
{
	json_t *o = mem_must(json_object());

	put(o, "version", json_integer(VERSION));
	put(o, "run", json_string(run->id));
	put(o, "target", name_to_json(run->target));
	put(o, "created", json_integer(run->created));
	put(o, "entries", json_integer((json_int_t)run->n));
	put(o, "skipped", json_integer((json_int_t)run->skipped_n));
	return o;
}

int cow_write_manifest(const struct cow_run *run, int dir_fd, struct err *err)
{
	AUTO_FD int fd =
		openat(dir_fd, COW_MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	AUTO_FILE FILE *f = fd < 0 ? NULL : fdopen(fd, "we");
	int r;

	if (!f)
		return err_sys(err, "create '%s'", COW_MANIFEST);
	(void)TAKE_FD(fd);
	r = write_line(f, header_to_json(run), err);
	for (size_t i = 0; r == 0 && i < run->n; i++)
		r = write_line(f, entry_to_json(&run->entries[i]), err);
	for (size_t i = 0; r == 0 && i < run->skipped_n; i++) {
		json_t *o = mem_must(json_object());

		put(o, "skipped", name_to_json(run->skipped[i].path));
		put(o, "why", json_string(run->skipped[i].why));
		r = write_line(f, o, err);
	}
	if (r == 0 && (fflush(f) != 0 || fsync(fileno(f)) < 0))
		r = err_sys(err, "write '%s'", COW_MANIFEST);
	return r;
}

static uint64_t get_number(const json_t *o, const char *key)
{
	const json_t *j = json_object_get(o, key);

	return json_is_integer(j) ? (uint64_t)json_integer_value(j) : 0;
}

static int get_kind(const json_t *o, enum cow_kind *ret)
{
	const char *name = json_string_value(json_object_get(o, "kind"));

	for (int k = 0; name && k < COW_KIND_COUNT; k++) {
		if (strcmp(name, cow_kind_name((enum cow_kind)k)) == 0) {
			*ret = (enum cow_kind)k;
			return 0;
		}
	}
	return -EBADMSG;
}

/* -EBADMSG without a text; the caller knows the line. */
static int entry_from_json(const json_t *o, struct cow_run *run, struct err *err)
{
	AUTO_FREE char *path = name_from_json(json_object_get(o, "path"));
	struct cow_entry *e;
	enum cow_kind kind = COW_ADDED;
	int r;

	if (!path || !is_plain_path(path) || get_kind(o, &kind) < 0)
		return -EBADMSG;
	r = cow_add_entry(run, path, &e, err);
	if (r < 0)
		return r;
	e->kind = kind;
	e->mode = (mode_t)get_number(o, "mode");
	e->size = get_number(o, "size");
	e->file = get_number(o, "file");
	if (json_object_get(o, "link"))
		e->link = name_from_json(json_object_get(o, "link"));
	if (json_object_get(o, "uid")) {
		e->uid = (uid_t)get_number(o, "uid");
		e->gid = (gid_t)get_number(o, "gid");
	}
	e->is_stripped = json_is_true(json_object_get(o, "stripped"));
	e->base_size = get_number(o, "base_size");
	e->base_mtime_ns = get_number(o, "base_mtime_ns");
	e->base_ino = get_number(o, "base_ino");
	e->base_mode = (mode_t)get_number(o, "base_mode");
	if (S_ISLNK(e->mode) != (e->link != NULL) || S_ISREG(e->mode) != (e->file != 0) ||
		(e->kind == COW_DELETED) != (e->mode == 0) ||
		(e->mode & 06000 && !S_ISDIR(e->mode)))
		return -EBADMSG;
	return 0;
}

static int skip_from_json(const json_t *o, struct cow_run *run, struct err *err)
{
	AUTO_FREE char *path = name_from_json(json_object_get(o, "skipped"));
	const char *why = json_string_value(json_object_get(o, "why"));

	return path && why ? cow_add_skip(run, path, why, err) : -EBADMSG;
}

static int header_from_json(
	const json_t *o, struct cow_run *run, uint64_t *ret_lines, struct err *err)
{
	const char *id = json_string_value(json_object_get(o, "run"));

	if (get_number(o, "version") != VERSION)
		return err_set(err, EBADMSG, "%s: made by another version of bawn", COW_MANIFEST);
	run->target = name_from_json(json_object_get(o, "target"));
	run->created = (int64_t)get_number(o, "created");
	if (!id || strlen(id) >= sizeof(run->id) || !run->target || run->target[0] != '/')
		return -EBADMSG;
	(void)snprintf(run->id, sizeof(run->id), "%s", id);
	*ret_lines = get_number(o, "entries") + get_number(o, "skipped");
	return 0;
}

int cow_read_manifest(int dir_fd, struct cow_run *run, struct err *err)
{
	AUTO_FD int fd = openat(dir_fd, COW_MANIFEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FILE FILE *f = fd < 0 ? NULL : fdopen(fd, "re");
	AUTO_FREE char *line = mem_must(malloc(LINE_MAX_BYTES));
	uint64_t lines = 0;
	uint64_t at = 0;

	if (!f)
		return err_sys(err, "open '%s'", COW_MANIFEST);
	(void)TAKE_FD(fd);
	for (; fgets(line, LINE_MAX_BYTES, f); at++) {
		AUTO_JSON json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		int r = -EBADMSG;

		run->bytes = 0; /* bounded when it was written */
		if (o && at == 0)
			r = header_from_json(o, run, &lines, err);
		else if (o && json_object_get(o, "skipped"))
			r = skip_from_json(o, run, err);
		else if (o)
			r = entry_from_json(o, run, err);
		if (r < 0)
			return err_set(err, EBADMSG, "%s: line %" PRIu64 " is damaged",
				COW_MANIFEST, at + 1);
	}
	if (at != lines + 1)
		return err_set(err, EBADMSG, "%s: is cut off", COW_MANIFEST);
	return 0;
}
