/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GUEST_WRITE: the bytes go to a hidden file beside the target, which takes the target's place
 * when the client says that was all. Until then, and on any failure, the old file is untouched.
 */
#include "guest/files.h"

#include "base/mem.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define LINKS_MAX     40 /* as the kernel has it */
#define XATTR_PREFIX  "user.e2b."
#define METADATA_FULL "the file system keeps no metadata for this file"

struct writing {
	struct mux_channel ch;
	struct guest *g;
	struct where where; /* path: the target, links followed */
	char *shown;        /* the path as asked for */
	char *hidden;       /* NULL once it is gone */
	int fd;             /* of hidden; owned */
	mode_t mode;
	char **metadata;
};

static void discard(struct writing *w)
{
	if (w->hidden)
		(void)unlink(w->hidden);
	free(TAKE_PTR(w->hidden));
	closep(&w->fd);
}

static void fail(struct writing *w, const struct err *err)
{
	discard(w);
	mux_end(&w->ch, err->code, err->msg);
}

static void data(struct mux_channel *c, uint8_t stream, const char *p, size_t n)
{
	struct writing *w = c->arg;
	struct err err = {0};
	size_t done = 0;

	(void)stream;
	while (w->fd >= 0 && done < n) {
		ssize_t r = write(w->fd, p + done, n - done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			(void)err_sys(&err, "write '%s'", w->shown);
			fail(w, &err);
			return;
		}
		done += (size_t)r;
	}
	guest_active(w->g);
	mux_consumed(c, n);
}

static int set_metadata(const struct writing *w, struct err *err)
{
	for (size_t i = 0; w->metadata && w->metadata[i]; i += 2) {
		AUTO_FREE char *name = text_format(XATTR_PREFIX "%s", w->metadata[i]);
		const char *value = w->metadata[i + 1];

		if (fsetxattr(w->fd, name, value, strlen(value), 0) < 0)
			return err_sys(err, METADATA_FULL);
	}
	return 0;
}

static int commit(struct writing *w, struct err *err)
{
	/* Ids before the mode: a change of owner drops the setuid bits. */
	if (w->where.can_give && fchown(w->fd, w->where.user.uid, w->where.user.gid) < 0)
		return err_sys(err, "give '%s' to '%s'", w->shown, w->where.user.name);
	if (fchmod(w->fd, w->mode) < 0)
		return err_sys(err, "set the mode of '%s'", w->shown);
	/* A file system may know only now that it is full. */
	if (close(TAKE_FD(w->fd)) < 0)
		return err_sys(err, "write '%s'", w->shown);
	if (rename(w->hidden, w->where.path) < 0)
		return err_sys(err, "put '%s' in place", w->shown);
	free(TAKE_PTR(w->hidden));
	return 0;
}

static void ended(struct mux_channel *c, int code, const char *why)
{
	struct writing *w = c->arg;
	struct frame_writer entry = {0};
	struct err err = {0};

	(void)why;
	if (code != 0 || w->fd < 0) {
		discard(w);
		mux_end(c, 0, NULL);
		return;
	}
	if (commit(w, &err) < 0 || entry_write(&w->where.accounts, w->shown, &entry, &err) < 0) {
		fail(w, &err);
	} else {
		mux_message(c, MSG_ENTRY, &entry);
		mux_end(c, 0, NULL);
	}
	buf_done(&entry.buf);
}

static void writing_free(struct writing *w)
{
	discard(w);
	where_done(&w->where);
	free(w->shown);
	frame_free_strings(w->metadata);
	free(w);
}

static void closed(struct mux_channel *c, int code)
{
	(void)code;
	writing_free(c->arg);
}

static const struct mux_events calls = {.data = data, .ended = ended, .closed = closed};

/* Follow links at the end of the path, also to what is not there yet. */
static int follow(char **path, struct err *err)
{
	char target[GUEST_PATH_MAX];

	for (int i = 0; i < LINKS_MAX; i++) {
		ssize_t n = readlink(*path, target, sizeof(target) - 1);
		AUTO_FREE char *dir = NULL;
		char *next;

		if (n < 0)
			return 0; /* not a link, or not there */
		target[n] = '\0';
		dir = mem_must(strndup(*path, (size_t)(strrchr(*path, '/') - *path) + 1));
		if (text_path_clean(target, dir, &next, err) < 0)
			return -err->code;
		free(*path);
		*path = next;
	}
	return err_set(err, ELOOP, "too many links");
}

static int open_hidden(struct writing *w, bool has_old, struct err *err)
{
	const char *slash = strrchr(w->where.path, '/');
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), 0) < 0)
		return err_sys(err, "random number");
	w->hidden = text_format("%.*s/%s%016llx", (int)(slash - w->where.path), w->where.path,
		has_old ? FILES_OVER : FILES_NEW, (unsigned long long)number);
	w->fd = open(w->hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->fd < 0) {
		int r = err_sys(err, "write '%s'", w->shown);

		free(TAKE_PTR(w->hidden));
		return r;
	}
	return 0;
}

static int prepare(struct writing *w, uint32_t mode, struct err *err)
{
	struct stat st;
	bool has_old;
	int r = follow(&w->where.path, err);

	if (r < 0)
		return r;
	has_old = lstat(w->where.path, &st) == 0;
	if (has_old && S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "path '%s' is a directory", w->shown);
	if (has_old && !S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "path '%s' is not a regular file", w->shown);
	if (!has_old)
		r = files_make_parents(&w->where, w->where.path, err);
	if (r < 0)
		return r;
	w->mode = mode != 0 ? mode & 07777 : 0644;
	if (has_old && mode == 0)
		w->mode = st.st_mode & 07777;
	r = open_hidden(w, has_old, err);
	return r < 0 ? r : set_metadata(w, err);
}

void write_request(struct request *q, struct frame_reader *body)
{
	struct writing *w = MEM_NEW(struct writing);
	struct guest_write want;
	struct err err = {0};
	int r = 0;

	w->g = q->g;
	w->fd = -EBADF;
	if (!guest_write_get(body, &want) || !frame_ok(body))
		r = err_set(&err, EPROTO, "the request is malformed");
	if (r >= 0 && !want.path[0])
		r = err_set(&err, EINVAL, "the path is empty");
	if (r >= 0)
		r = where_find(q->g, want.user, want.path, &w->where, &err);
	if (r >= 0) {
		w->shown = mem_strdup(w->where.path);
		w->metadata = TAKE_PTR(want.metadata);
		r = prepare(w, want.mode, &err);
	}
	if (r < 0) {
		request_fail(q, &err);
		writing_free(w);
	} else {
		mux_accept(q->mux, q->id, &w->ch, &calls, w);
	}
	guest_write_done(&want);
}
