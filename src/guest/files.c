/* SPDX-License-Identifier: Apache-2.0 */

/* The short file requests: stat, mkdir, move, remove; the long cases go to workers. */
#include "guest/files.h"
#include "guest/worker.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int where_find(
	struct guest *g, const char *user, const char *path, struct where *ret, struct err *err)
{
	const char *who = user[0] ? user : g->bind.user;
	char own[16];
	int r;

	*ret = (struct where){0};
	(void)snprintf(own, sizeof(own), "%u", geteuid());
	r = account_find(&ret->accounts, who && who[0] ? who : own, &ret->user, err);
	if (r < 0)
		return r;
	ret->can_give = geteuid() == 0 && account_is_mapped(ret->user.uid);
	r = account_path(&ret->accounts, &ret->user, path, &ret->path, err);
	if (r < 0)
		return r;
	assert(ret->path);
	return 0;
}

int where_get(struct guest *g, struct frame_reader *body, struct where *ret, struct err *err)
{
	AUTO_FREE char *user = frame_get_string(body, FRAME_PAYLOAD_MAX);
	AUTO_FREE char *path = frame_get_string(body, FRAME_PAYLOAD_MAX);

	*ret = (struct where){0};
	if (body->failed) {
		(void)err_set(err, EPROTO, "the request is malformed");
		return -EPROTO;
	}
	return where_find(g, user, path, ret, err);
}

void where_done(struct where *w)
{
	account_done(&w->user);
	accounts_done(&w->accounts);
	free(w->path);
	*w = (struct where){0};
}

bool files_is_hidden(const char *name)
{
	return text_starts(name, FILES_NEW) || text_starts(name, FILES_OVER);
}

void stat_request(struct request *q, struct frame_reader *body)
{
	struct where w;
	struct err err = {0};

	if (where_get(q->g, body, &w, &err) < 0)
		request_fail(q, &err);
	else
		entry_reply(q, &w.accounts, w.path);
	where_done(&w);
}

/* --- directories --- */

/* mkdir -p of path[0..n). */
static int make_dirs(const struct where *w, const char *path, size_t n, struct err *err)
{
	AUTO_FREE char *part = mem_must(strndup(path, n));
	char quoted[256];

	for (size_t i = 1; i <= n; i++) {
		char c = part[i];
		struct stat st;

		if (i < n && c != '/')
			continue;
		part[i] = '\0';
		if (mkdir(part, 0755) == 0) {
			if (w->can_give && lchown(part, w->user.uid, w->user.gid) < 0)
				return err_sys(err, "give '%s' to '%s'",
					text_quote(part, quoted, sizeof(quoted)), w->user.name);
		} else if (errno != EEXIST) {
			return err_sys(err, "make directory '%s'",
				text_quote(part, quoted, sizeof(quoted)));
		} else if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode)) {
			return err_set(err, ENOTDIR, "path is a file, not a directory: %s",
				text_quote(part, quoted, sizeof(quoted)));
		}
		part[i] = c;
	}
	return 0;
}

int files_make_parents(const struct where *w, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');

	return slash && slash > path ? make_dirs(w, path, (size_t)(slash - path), err) : 0;
}

void mkdir_request(struct request *q, struct frame_reader *body)
{
	struct where w;
	struct err err = {0};
	struct stat st;
	char quoted[256];
	int r = where_get(q->g, body, &w, &err);

	if (r >= 0 && stat(w.path, &st) == 0) {
		(void)text_quote(w.path, quoted, sizeof(quoted));
		if (S_ISDIR(st.st_mode))
			r = err_set(&err, EEXIST, "directory already exists: %s", quoted);
		else
			r = err_set(&err, ENOTDIR,
				"path already exists but it is not a directory: %s", quoted);
	}
	if (r >= 0)
		r = make_dirs(&w, w.path, strlen(w.path), &err);
	if (r < 0)
		request_fail(q, &err);
	else
		entry_reply(q, &w.accounts, w.path);
	where_done(&w);
}

/* --- move --- */

struct move {
	struct where *from;
	const char *to;
};

/* Copy beside the target under a hidden name, put it in place, remove the source. */
static int move_by_copy(struct worker_out *out, void *arg, struct err *err)
{
	const struct move *m = arg;
	const char *slash = strrchr(m->to, '/');
	AUTO_FREE char *hidden =
		text_format("%.*s/" FILES_NEW "%d", (int)(slash - m->to), m->to, (int)getpid());
	struct frame_writer w = {0};
	struct err ignored = {0};
	int r = files_copy_tree(AT_FDCWD, m->from->path, AT_FDCWD, hidden, 0, err);

	if (r >= 0 && rename(hidden, m->to) < 0)
		r = err_sys(err, "put '%s' in place", m->to);
	if (r < 0) {
		(void)files_remove_tree(AT_FDCWD, hidden, 0, &ignored);
		return r;
	}
	r = files_remove_tree(AT_FDCWD, m->from->path, 0, err);
	if (r >= 0)
		r = entry_write(&m->from->accounts, m->to, &w, err);
	if (r >= 0)
		(void)worker_message(out, MSG_ENTRY, &w);
	buf_done(&w.buf);
	return r;
}

static int move(struct request *q, struct where *from, const struct where *to, struct err *err)
{
	struct move m = {.from = from, .to = to->path};
	char quoted[256];
	struct stat st;
	int r;

	(void)text_quote(from->path, quoted, sizeof(quoted));
	if (lstat(from->path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? err_set(err, ENOENT, "source file not found: %s", quoted)
			       : err_sys(err, "'%s'", quoted);
	if (strcmp(from->path, "/") == 0)
		return err_set(err, EBUSY, "'/' cannot be moved");
	r = files_make_parents(to, to->path, err);
	if (r < 0)
		return r;
	if (rename(from->path, to->path) == 0) {
		entry_reply(q, &from->accounts, to->path);
		return 0;
	}
	/* Also within one mount: overlayfs does not rename directories of a lower layer. */
	if (errno == EXDEV) {
		if (text_path_below(to->path, from->path))
			return err_set(err, EINVAL, "'%s' cannot be moved into itself", quoted);
		if (files_is_mount(AT_FDCWD, from->path))
			return err_set(err, EBUSY, "'%s' is a mount point", quoted);
		return worker_start(q, move_by_copy, &m, true, err);
	}
	return err_sys(err, "move '%s'", quoted);
}

void move_request(struct request *q, struct frame_reader *body)
{
	AUTO_FREE char *user = frame_get_string(body, FRAME_PAYLOAD_MAX);
	AUTO_FREE char *from_path = frame_get_string(body, FRAME_PAYLOAD_MAX);
	AUTO_FREE char *to_path = frame_get_string(body, FRAME_PAYLOAD_MAX);
	struct where from = {0}, to = {0};
	struct err err = {0};
	int r = 0;

	if (!frame_ok(body)) {
		request_malformed(q);
		return;
	}
	if (!from_path[0] || !to_path[0])
		r = err_set(&err, EINVAL, "the path is empty");
	if (r >= 0)
		r = where_find(q->g, user, from_path, &from, &err);
	if (r >= 0)
		r = where_find(q->g, user, to_path, &to, &err);
	if (r >= 0)
		r = move(q, &from, &to, &err);
	if (r < 0)
		request_fail(q, &err);
	where_done(&from);
	where_done(&to);
}

/* --- remove --- */

static int remove_by_worker(struct worker_out *out, void *arg, struct err *err)
{
	struct frame_writer none = {0};
	int r = files_remove_tree(AT_FDCWD, arg, 0, err);

	if (r >= 0)
		(void)worker_message(out, MSG_OK, &none);
	return r;
}

static int remove_path(struct request *q, char *path, struct err *err)
{
	char quoted[256];

	(void)text_quote(path, quoted, sizeof(quoted));
	if (strcmp(path, "/") == 0)
		return err_set(err, EBUSY, "'/' cannot be removed");
	if (files_is_mount(AT_FDCWD, path))
		return err_set(err, EBUSY, "'%s' is a mount point and cannot be removed", quoted);
	if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR ||
		(errno == EISDIR && rmdir(path) == 0)) {
		request_ok(q);
		return 0;
	}
	if (errno == ENOTEMPTY || errno == EEXIST)
		return worker_start(q, remove_by_worker, path, true, err);
	return err_sys(err, "remove '%s'", quoted);
}

void remove_request(struct request *q, struct frame_reader *body)
{
	struct where w;
	struct err err = {0};
	int r = where_get(q->g, body, &w, &err);

	if (r >= 0)
		r = remove_path(q, w.path, &err);
	if (r < 0)
		request_fail(q, &err);
	where_done(&w);
}
