/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GUEST_WATCH: changes of a directory, or of a tree, by inotify.
 *
 * One inotify instance for all watchers: instances are scarce, watches are not. A watched
 * directory is one struct dir per watcher; those of one inode share the kernel's watch
 * descriptor and are found by it. A dir that goes while events are handed out stays in
 * its chain, dead, until the batch is over.
 */
#include "guest/files.h"

#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define BUCKETS 256
#define EVENTS                                                                                     \
	(IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR)

struct watcher {
	struct mux_channel ch;
	struct guest *g;
	struct watcher *next;
	char *top; /* absolute */
	uint8_t flags;
	bool has_lost; /* events that did not get through: to be told */
	struct dir *dirs;
};

struct dir {
	struct watcher *owner; /* NULL: dead */
	char *rel;             /* below top; "" is top itself */
	int wd;
	struct dir *next_of_owner, *next_in_bucket;
};

struct watches {
	struct guest *g;
	struct loop_watch watch; /* inotify; owned */
	struct watcher *watchers;
	struct dir *table[BUCKETS]; /* by wd */
	size_t count;               /* of living dirs */
	bool is_busy;               /* events are being handed out: chains must hold */
	bool has_dead;
	/* The last name of ours that moved away; its arrival has the same cookie. */
	uint32_t cookie;
	bool is_over; /* it replaces a file that was there */
};

/* --- dirs --- */

static struct dir **bucket(struct watches *s, int wd)
{
	return &s->table[(unsigned)wd % BUCKETS];
}

static bool is_used(struct watches *s, int wd)
{
	for (struct dir *d = *bucket(s, wd); d; d = d->next_in_bucket)
		if (d->owner && d->wd == wd)
			return true;
	return false;
}

static void sweep(struct watches *s)
{
	if (s->is_busy || !s->has_dead)
		return;
	s->has_dead = false;
	for (size_t i = 0; i < BUCKETS; i++) {
		struct dir **at = &s->table[i];

		while (*at) {
			struct dir *d = *at;

			if (d->owner) {
				at = &d->next_in_bucket;
				continue;
			}
			*at = d->next_in_bucket;
			free(d->rel);
			free(d);
		}
	}
}

/* The caller sweeps when it is done. */
static void kill_dir(struct watches *s, struct dir *d)
{
	struct dir **at = &d->owner->dirs;

	while (*at != d)
		at = &(*at)->next_of_owner;
	*at = d->next_of_owner;
	d->owner = NULL;
	s->count--;
	s->has_dead = true;
	if (!is_used(s, d->wd))
		(void)inotify_rm_watch(s->watch.fd, d->wd); /* may be gone with its directory */
}

/* rel and all below it: it was moved or removed. */
static void kill_tree(struct watches *s, struct watcher *w, const char *rel)
{
	size_t n = strlen(rel);
	struct dir *next;

	for (struct dir *d = w->dirs; d; d = next) {
		next = d->next_of_owner;
		if (strncmp(d->rel, rel, n) == 0 && (d->rel[n] == '/' || d->rel[n] == '\0'))
			kill_dir(s, d);
	}
}

static char *join(const char *a, const char *b)
{
	return a[0] && b[0] ? text_format("%s/%s", a, b) : mem_strdup(a[0] ? a : b);
}

static char *path_of(const struct watcher *w, const char *rel)
{
	return rel[0] ? text_format("%s/%s", strcmp(w->top, "/") == 0 ? "" : w->top, rel)
		      : mem_strdup(w->top);
}

static int add_dir(struct watches *s, struct watcher *w, const char *rel, struct err *err)
{
	AUTO_FREE char *path = path_of(w, rel);
	struct dir *d;
	int wd;

	if (s->count >= GUEST_WATCHES_MAX)
		return err_set(
			err, EMFILE, "more than %d directories are watched", GUEST_WATCHES_MAX);
	wd = inotify_add_watch(s->watch.fd, path, EVENTS | (rel[0] ? IN_DONT_FOLLOW : 0));
	if (wd < 0 && errno == ENOSPC)
		return err_set(err, EMFILE, "the machine watches no more directories");
	if (wd < 0)
		return err_sys(err, "watch '%s'", path);
	for (d = *bucket(s, wd); d; d = d->next_in_bucket)
		if (d->owner == w && d->wd == wd && strcmp(d->rel, rel) == 0)
			return 0;
	d = MEM_NEW(struct dir);
	d->owner = w;
	d->rel = mem_strdup(rel);
	d->wd = wd;
	d->next_of_owner = w->dirs;
	w->dirs = d;
	d->next_in_bucket = *bucket(s, wd);
	*bucket(s, wd) = d;
	s->count++;
	return 0;
}

/* --- events --- */

static void tell(struct watcher *w, const char *name, uint8_t type)
{
	struct guest_change v = {.name = mem_strdup(name), .type = type};
	struct frame_writer out = {0};
	struct err err;

	if (!w->ch.mux || !mux_has_room(w->ch.mux)) {
		w->has_lost = true;
		guest_change_done(&v);
		return;
	}
	if ((w->flags & GUEST_WATCH_ENTRY) &&
		(type == GUEST_CREATE || type == GUEST_WROTE || type == GUEST_CHMOD)) {
		AUTO_FREE char *path = path_of(w, name);
		struct accounts a = {0};

		v.has_entry = entry_make(&a, path, &v.entry, &err) >= 0;
		accounts_done(&a);
	}
	guest_change_put(&out, &v);
	mux_message(&w->ch, MSG_CHANGE, &out);
	buf_done(&out.buf);
	guest_change_done(&v);
}

/*
 * Watch rel and the directories below it. want_tell: it is new, and what was made in it before
 * the watch was there is told now; a file made in between is told twice.
 */
static int add_tree(
	struct watches *s, struct watcher *w, const char *rel, bool want_tell, struct err *err)
{
	AUTO_FREE char *path = path_of(w, rel);
	AUTO_DIR DIR *dir = NULL;
	struct dirent *e;
	int r = add_dir(s, w, rel, err);

	if (r < 0 || !(w->flags & GUEST_WATCH_RECURSIVE))
		return r;
	dir = opendir(path);
	while (r >= 0 && dir && (e = readdir(dir))) {
		AUTO_FREE char *child = NULL;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
			files_is_hidden(e->d_name))
			continue;
		child = join(rel, e->d_name);
		if (want_tell)
			tell(w, child, GUEST_CREATE);
		if (e->d_type == DT_UNKNOWN &&
			fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISDIR(st.st_mode))
			e->d_type = DT_DIR;
		if (e->d_type == DT_DIR)
			r = add_tree(s, w, child, want_tell, err);
		/* What vanished or cannot be entered has nothing to watch. */
		if (r < 0 && err->code != EMFILE)
			r = 0;
	}
	return r;
}

static void came(struct watches *s, struct dir *d, const struct inotify_event *ev, const char *name)
{
	struct watcher *w = d->owner;
	bool is_ours = (ev->mask & IN_MOVED_TO) && s->cookie != 0 && ev->cookie == s->cookie;
	struct err err;

	if (!is_ours || !s->is_over)
		tell(w, name, GUEST_CREATE);
	/* As if it had been made here: E2B's makes the file, gives it to the user, writes it. */
	if (is_ours && !s->is_over && !(ev->mask & IN_ISDIR))
		tell(w, name, GUEST_CHMOD);
	if (is_ours && !(ev->mask & IN_ISDIR))
		tell(w, name, GUEST_WROTE);
	if ((ev->mask & IN_ISDIR) && (w->flags & GUEST_WATCH_RECURSIVE) &&
		add_tree(s, w, name, true, &err) < 0 && err.code == EMFILE)
		w->has_lost = true;
}

static void hand_out(struct watches *s, struct dir *d, const struct inotify_event *ev)
{
	AUTO_FREE char *name = NULL;
	struct watcher *w = d->owner;

	if (ev->mask & IN_IGNORED) {
		kill_dir(s, d);
		return;
	}
	if (ev->len == 0)
		return; /* about the directory itself; its parent tells */
	if (files_is_hidden(ev->name))
		return;
	name = join(d->rel, ev->name);
	if (ev->mask & (IN_CREATE | IN_MOVED_TO))
		came(s, d, ev, name);
	else if (ev->mask & IN_MODIFY)
		tell(w, name, GUEST_WROTE);
	else if (ev->mask & IN_ATTRIB)
		tell(w, name, GUEST_CHMOD);
	else if (ev->mask & IN_DELETE)
		tell(w, name, GUEST_REMOVED);
	else if (ev->mask & IN_MOVED_FROM)
		tell(w, name, GUEST_RENAMED);
	if ((ev->mask & IN_ISDIR) && (ev->mask & (IN_MOVED_FROM | IN_DELETE)))
		kill_tree(s, w, name);
}

static void one_event(struct watches *s, const struct inotify_event *ev)
{
	if (ev->mask & IN_Q_OVERFLOW) {
		for (struct watcher *w = s->watchers; w; w = w->next)
			tell(w, "", GUEST_OVERFLOW);
		return;
	}
	/* Both halves of a move are in one queue, the first half first. */
	if (ev->len > 0 && (ev->mask & IN_MOVED_FROM) && files_is_hidden(ev->name)) {
		s->cookie = ev->cookie;
		s->is_over = text_starts(ev->name, FILES_OVER);
	}
	for (struct dir *d = *bucket(s, ev->wd); d; d = d->next_in_bucket)
		if (d->owner && d->wd == ev->wd)
			hand_out(s, d, ev);
}

static void inotify_ready(struct loop_watch *watch, uint32_t events)
{
	struct watches *s = OWNER_OF(watch, struct watches, watch);
	char bytes[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(watch->fd, bytes, sizeof(bytes));

	(void)events;
	s->is_busy = true;
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ev = (const struct inotify_event *)(bytes + at);

		one_event(s, ev);
		at += (ssize_t)(sizeof(*ev) + ev->len);
	}
	s->is_busy = false;
	sweep(s);
}

/* --- watchers --- */

static struct watches *watches_of(struct guest *g, struct err *err)
{
	struct watches *s = g->watches;

	if (s)
		return s;
	s = MEM_NEW(struct watches);
	s->g = g;
	s->watch.ready = inotify_ready;
	s->watch.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (s->watch.fd < 0) {
		(void)err_sys(err, "inotify");
		free(s);
		return NULL;
	}
	if (loop_watch_set(g->loop, &s->watch, EPOLLIN, err) < 0) {
		closep(&s->watch.fd);
		free(s);
		return NULL;
	}
	g->watches = s;
	return s;
}

static void watcher_free(struct watcher *w)
{
	struct watches *s = w->g->watches;

	while (w->dirs)
		kill_dir(s, w->dirs);
	sweep(s);
	for (struct watcher **at = &s->watchers; *at; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			break;
		}
	}
	free(w->top);
	free(w);
}

static void writable(struct mux_channel *c)
{
	struct watcher *w = c->arg;

	if (w->has_lost && mux_has_room(c->mux)) {
		w->has_lost = false;
		tell(w, "", GUEST_OVERFLOW);
	}
}

static void ended(struct mux_channel *c, int code, const char *why)
{
	(void)why;
	if (code != 0)
		mux_end(c, 0, NULL);
}

static void closed(struct mux_channel *c, int code)
{
	(void)code;
	watcher_free(c->arg);
}

static const struct mux_events calls = {.writable = writable, .ended = ended, .closed = closed};

static int check_dir(const char *path, struct err *err)
{
	char quoted[256];
	struct stat st;

	(void)text_quote(path, quoted, sizeof(quoted));
	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? err_set(err, ENOENT, "path %s not found", quoted)
			       : err_sys(err, "'%s'", quoted);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ENOTDIR, "path is not a directory: %s", quoted);
	return 0;
}

void watch_request(struct request *q, struct frame_reader *body)
{
	struct watches *s = NULL;
	struct watcher *watcher;
	struct where w;
	struct err err = {0};
	int r = where_get(q->g, body, &w, &err);
	uint8_t flags = frame_get_u8(body);

	if (r >= 0 && !frame_ok(body))
		r = err_set(&err, EPROTO, "the request is malformed");
	if (r >= 0)
		r = check_dir(w.path, &err);
	if (r >= 0)
		s = watches_of(q->g, &err);
	if (s) {
		watcher = MEM_NEW(struct watcher);
		watcher->g = q->g;
		watcher->top = TAKE_PTR(w.path);
		watcher->flags = flags;
		watcher->next = s->watchers;
		s->watchers = watcher;
		r = add_tree(s, watcher, "", false, &err);
		if (r < 0)
			watcher_free(watcher);
		else {
			mux_accept(q->mux, q->id, &watcher->ch, &calls, watcher);
			mux_message(&watcher->ch, MSG_OK, NULL);
		}
	}
	if (r < 0 || !s)
		request_fail(q, &err);
	where_done(&w);
}
