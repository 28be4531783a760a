/* SPDX-License-Identifier: Apache-2.0 */

/*
 * daemon/warden_boxes - the sandboxes of this installation: adopted, watched, ended.
 *
 *                    start, adopt         STOP                 pidfd fires
 *   (directory) ------------------> UP ----------> STOPPING -----------------+
 *                                   |                                        v
 *                                   +----- pidfd fires: ENDED ----------> OVER ---> gone
 *                                                                          ^ |
 *                                                          retry, each 1 s +-+ what will not go
 *
 * W1  <state>/boxes/<id>/ exists before anything of the sandbox does, and until all of it is gone.
 * W2  A sandbox that outlives us has its record in there (run/process/resident), under its final
 *     name before anybody is told that the sandbox is up.
 * W3  A spare, made before it is asked for, has a directory and no record of that name: it dies
 *     with the warden, and its directory goes like any other rest.
 * W4  So a start of the warden finds, by that directory alone, all there is: it adopts
 *     what lives and removes the rest.
 *
 * <id>/guest.sock is the guest's listening socket; only the api role may connect to it.
 */
#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "daemon/log.h"
#include "daemon/warden_impl.h"
#include "sys/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BOXES_MAX   16384
#define PATIENCE_MS 5000 /* from SIGKILL until an asker is told that it does not end */
#define RETRY_MS    1000

enum box_state { BOX_UP, BOX_STOPPING, BOX_OVER };

struct waiter {
	warden_stopped_fn stopped;
	void *arg;
	uint64_t number;
	struct waiter *next;
};

struct live {
	struct provider_record rec;
	const struct provider *provider;
	struct warden_boxes *boxes;
	enum box_state state;
	int pidfd;
	struct road road; /* -EBADF: it has none, or an earlier warden had it */
	bool is_oom;      /* decided when it was over */
	struct loop_watch watch;
	struct loop_timer timer; /* STOPPING: patience; OVER: the next try */
	struct loop_task free;
	struct waiter *waiters;
};

struct warden_boxes {
	struct warden_boxes_config c;
	int dir; /* <state>/boxes */
	struct live **v;
	size_t n, room;
	struct warden_starts *starts;
};

/* A sandbox that was a spare keeps the leaf it got under that name: nobody may ask by it. */
bool warden_is_spare(const char *id)
{
	return strncmp(id, "spare", 5) == 0;
}

static struct live *find(struct warden_boxes *b, const char *id)
{
	for (size_t i = 0; i < b->n; i++)
		if (strcmp(b->v[i]->rec.id, id) == 0)
			return b->v[i];
	return NULL;
}

static void answer_waiters(struct live *l, const struct err *err)
{
	while (l->waiters) {
		struct waiter *w = l->waiters;

		l->waiters = w->next;
		w->stopped(l->rec.id, err, w->arg, w->number);
		free(w);
	}
}

static int remove_directory(struct warden_boxes *b, const char *id, struct err *err)
{
	static const char *const files[] = {"guest.sock", "starting", "record"};
	AUTO_FD int dir = openat(b->dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(err, "open 'boxes/%s'", id);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (unlinkat(dir, files[i], 0) < 0 && errno != ENOENT)
			return err_sys(err, "remove 'boxes/%s/%s'", id, files[i]);
	if (unlinkat(b->dir, id, AT_REMOVEDIR) < 0)
		return err_sys(err, "remove 'boxes/%s'", id);
	return 0;
}

/* Everything of it that is left, the directory last: W1. */
static int remove_all(struct warden_boxes *b, const struct provider *p,
	const struct provider_record *rec, struct err *err)
{
	int r = p->stop(rec, err);

	return r < 0 ? r : remove_directory(b, rec->id, err);
}

static void free_live(struct loop_task *t)
{
	struct live *l = (struct live *)(void *)((char *)t - offsetof(struct live, free));

	free(l);
}

static void forget_live(struct live *l)
{
	struct warden_boxes *b = l->boxes;
	struct err ignored;

	(void)loop_watch_set(b->c.loop, &l->watch, 0, &ignored);
	loop_timer_cancel(b->c.loop, &l->timer);
	closep(&l->pidfd);
	closep(&l->road.tcp_fd);
	closep(&l->road.dns_fd);
	for (size_t i = 0; i < b->n; i++)
		if (b->v[i] == l) {
			b->v[i] = b->v[--b->n];
			break;
		}
	loop_defer(b->c.loop, &l->free);
}

/* It has ended: clean up, tell who asked, or everybody if nobody did. */
static void conclude(struct live *l)
{
	struct warden_boxes *b = l->boxes;
	enum box_state was = l->state;
	struct err err = {0};
	struct err none = {0};

	l->state = BOX_OVER;
	if (was == BOX_UP)
		b->c.ended(l->rec.id, l->is_oom ? "oom" : "exited", b->c.arg);
	if (remove_all(b, l->provider, &l->rec, &err) < 0) {
		role_log(ROLE_LOG_ERROR, "sandbox does not go", "sandbox", l->rec.id, "error",
			err.msg);
		answer_waiters(l, &err);
		loop_timer_set(b->c.loop, &l->timer, RETRY_MS);
		return;
	}
	answer_waiters(l, &none);
	forget_live(l);
}

/* A limit's kill tells in the leaf's count, and in how pid 1 ended if it was our child. */
static bool was_oom(const struct live *l, const siginfo_t *si, bool has_status)
{
	struct provider_usage u = {0};
	struct err ignored;

	if (l->provider->usage(&l->rec, &u, &ignored) < 0 || u.oom_kills == 0)
		return false;
	return !has_status || si->si_code != CLD_EXITED || si->si_status != 0;
}

static void on_pidfd(struct loop_watch *w, uint32_t events)
{
	struct live *l = (struct live *)(void *)((char *)w - offsetof(struct live, watch));
	siginfo_t si = {0};
	struct err ignored;
	bool is_ours = waitid(P_PIDFD, (id_t)l->pidfd, &si, WEXITED | WNOHANG) == 0;

	(void)events;
	(void)loop_watch_set(l->boxes->c.loop, &l->watch, 0, &ignored);
	loop_timer_cancel(l->boxes->c.loop, &l->timer);
	/* Nobody asks why one ended that was told to. */
	l->is_oom = l->state == BOX_UP && was_oom(l, &si, is_ours);
	conclude(l);
}

static void on_timer(struct loop_timer *t)
{
	struct live *l = (struct live *)(void *)((char *)t - offsetof(struct live, timer));
	struct err err = {0};

	if (l->state == BOX_OVER) {
		conclude(l);
		return;
	}
	(void)err_set(&err, EBUSY, "it was killed %d s ago and does not end", PATIENCE_MS / 1000);
	answer_waiters(l, &err);
}

static int add(struct warden_boxes *b, const struct provider *p, const struct provider_record *rec,
	enum box_state state, int take_pidfd, struct err *err)
{
	struct live *l = MEM_NEW(struct live);
	int r;

	l->rec = *rec;
	l->provider = p;
	l->boxes = b;
	l->state = state;
	l->pidfd = take_pidfd;
	l->road = (struct road){-EBADF, -EBADF};
	l->watch = (struct loop_watch){.fd = take_pidfd, .ready = on_pidfd};
	l->timer.fire = on_timer;
	l->free.run = free_live;
	r = loop_watch_set(b->c.loop, &l->watch, EPOLLIN, err);
	if (r < 0) {
		closep(&l->pidfd);
		free(l);
		return r;
	}
	if (b->n == b->room) {
		b->room = b->room ? b->room * 2 : 64;
		b->v = mem_must(realloc(b->v, b->room * sizeof(*b->v)));
	}
	b->v[b->n++] = l;
	return 0;
}

int warden_boxes_add(struct warden_boxes *b, const struct provider *p,
	const struct provider_record *rec, int take_pidfd, struct road take_road, struct err *err)
{
	int r = add(b, p, rec, BOX_UP, take_pidfd, err);

	if (r >= 0) {
		b->v[b->n - 1]->road = take_road;
		return r;
	}
	closep(&take_road.tcp_fd);
	closep(&take_road.dns_fd);
	return r;
}

void warden_boxes_bury(struct warden_boxes *b, const struct provider *p,
	const struct provider_record *rec, int take_pidfd)
{
	struct err err = {0};

	if (take_pidfd >= 0 && add(b, p, rec, BOX_STOPPING, take_pidfd, &err) >= 0)
		return;
	/* Nobody would tell us of its end: wait for it here. */
	if (remove_all(b, p, rec, &err) < 0)
		role_log(ROLE_LOG_ERROR, "sandbox does not go", "sandbox", rec->id, "error",
			err.msg);
}

/* ---- start ---- */

static int check_start(struct warden_boxes *b, const struct warden_message *m, struct err *err)
{
	if (!provider_find(m->spec.tier))
		return err_set(err, ENOENT, "no tier '%s'; this server has: process", m->spec.tier);
	if (strcmp(m->spec.template, "base") != 0)
		return err_set(err, ENOENT, "no template '%s'", m->spec.template);
	if (warden_is_spare(m->id))
		return err_set(err, EINVAL, "names like '%s' are the warden's own", m->id);
	if (b->n + warden_starts_count(b->starts) >= BOXES_MAX)
		return err_set(err, EBUSY, "there are %zu sandboxes already", b->n);
	if (find(b, m->id) || warden_starts_has(b->starts, m->id))
		return err_set(err, EEXIST, "sandbox '%s' is there already", m->id);
	if (warden_starts_count(b->starts) >= WARDEN_STARTS_MAX)
		return err_set(
			err, EBUSY, "%d sandboxes are being started already", WARDEN_STARTS_MAX);
	return 0;
}

void warden_boxes_start(struct warden_boxes *b, const struct warden_message *q,
	warden_started_fn started, void *arg)
{
	struct warden_message m = {.op = WARDEN_START, .number = q->number};
	struct err err = {0};

	if (check_start(b, q, &err) >= 0) {
		warden_starts_ask(b->starts, q, started, arg);
		return;
	}
	memcpy(m.id, q->id, sizeof(m.id));
	m.code = -err.code;
	m.err = err;
	started(&m, arg);
}

void warden_boxes_close(struct warden_boxes *b)
{
	warden_starts_close(b->starts);
}

/* ---- stop, usage, list ---- */

static void add_waiter(struct live *l, warden_stopped_fn stopped, void *arg, uint64_t number)
{
	struct waiter *w = MEM_NEW(struct waiter);

	*w = (struct waiter){stopped, arg, number, l->waiters};
	l->waiters = w;
}

void warden_boxes_stop(struct warden_boxes *b, const char *id, warden_stopped_fn stopped, void *arg,
	uint64_t number)
{
	struct live *l = find(b, id);
	struct err err = {0};

	if (!l && warden_starts_has(b->starts, id)) {
		warden_starts_stop(b->starts, id, stopped, arg, number);
		return;
	}
	if (!l) {
		struct provider_record left = {0};

		(void)snprintf(left.id, sizeof(left.id), "%s", id);
		if (!warden_is_spare(id))
			(void)remove_all(b, &provider_process, &left, &err);
		stopped(id, &err, arg, number);
		return;
	}
	add_waiter(l, stopped, arg, number);
	if (l->state == BOX_UP) {
		struct err ignored;

		/* Everything in it dies with pid 1, and pid 1 is over when all of it is. */
		(void)process_signal(l->pidfd, SIGKILL, &ignored);
		l->state = BOX_STOPPING;
	}
	if (l->state == BOX_STOPPING)
		loop_timer_set(b->c.loop, &l->timer, PATIENCE_MS);
}

void warden_boxes_forget(struct warden_boxes *b, void *arg)
{
	warden_starts_forget(b->starts, arg);
	for (size_t i = 0; i < b->n; i++) {
		struct waiter **p = &b->v[i]->waiters;

		while (*p) {
			struct waiter *w = *p;

			if (w->arg != arg) {
				p = &w->next;
				continue;
			}
			*p = w->next;
			free(w);
		}
	}
}

int warden_boxes_usage(
	struct warden_boxes *b, const char *id, struct provider_usage *ret, struct err *err)
{
	struct live *l = find(b, id);

	if (!l || l->state != BOX_UP)
		return err_set(err, ENOENT, "no sandbox '%s'", id);
	return l->provider->usage(&l->rec, ret, err);
}

int warden_boxes_road(
	struct warden_boxes *b, const char *id, struct road *ret_borrowed, struct err *err)
{
	struct live *l = find(b, id);
	int r = 0;

	if (!l || l->state != BOX_UP)
		return err_set(err, ENOENT, "no sandbox '%s'", id);
	if (l->road.tcp_fd < 0)
		r = l->provider->road(&l->rec, &l->road, err);
	if (r >= 0)
		*ret_borrowed = l->road;
	return r;
}

void warden_boxes_settle(struct warden_boxes *b, void (*settled)(void *arg, uint64_t number),
	void *arg, uint64_t number)
{
	warden_starts_settle(b->starts, settled, arg, number);
}

void warden_tell_walls(const struct wall_record *walls, struct warden_message *ret)
{
	for (int i = 0; i < WALL_COUNT; i++) {
		ret->walls.requested[i] = (uint8_t)walls[i].requested;
		ret->walls.enforced[i] = (uint8_t)walls[i].enforced;
		(void)snprintf(ret->walls.detail[i], WARDEN_DETAIL_MAX, "%.*s",
			WARDEN_DETAIL_MAX - 1, walls[i].detail);
	}
}

int warden_boxes_each(
	struct warden_boxes *b, int (*each)(const struct warden_message *m, void *arg), void *arg)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < b->n; i++) {
		const struct live *l = b->v[i];
		struct warden_message m = {.op = WARDEN_BOX};
		struct wall_record walls[WALL_COUNT] = {0};
		struct provider_record rec;
		struct err ignored;
		AUTO_FD int dir = -EBADF;

		if (l->state != BOX_UP)
			continue;
		/* Not kept in memory: every sandbox is a child of this process, pages and all. */
		dir = openat(b->dir, l->rec.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0)
			(void)warden_record_read(dir, "record", &rec, walls, &ignored);
		memcpy(m.id, l->rec.id, sizeof(m.id));
		warden_tell_walls(walls, &m);
		r = each(&m, arg);
	}
	return r;
}

/* ---- at the start ---- */

static bool is_id(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789");

	return n > 0 && n < PROVIDER_ID_MAX && s[n] == 0;
}

static int read_own(int dir, const char *file, const char *id, struct provider_record *ret)
{
	struct provider_record rec = {0};
	struct err err = {0};
	int r = warden_record_read(dir, file, &rec, NULL, &err);

	if (r >= 0 && (strcmp(rec.id, id) != 0 || !provider_find(rec.tier)))
		r = err_set(&err, EBADMSG, "somebody else's");
	if (r >= 0)
		*ret = rec;
	return r;
}

static void take_over(struct warden_boxes *b, const char *id)
{
	const struct provider *p = &provider_process;
	struct provider_record rec = {0}, left = {0};
	struct err err = {0};
	AUTO_FD int dir = openat(b->dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int pidfd = -EBADF;

	(void)snprintf(left.id, sizeof(left.id), "%s", id);
	if (dir >= 0 && read_own(dir, "record", id, &rec) >= 0) {
		p = provider_find(rec.tier);
		pidfd = p->open(&rec, &err);
		left = rec;
	} else if (dir >= 0 && read_own(dir, "starting", id, &rec) >= 0) {
		p = provider_find(rec.tier); /* nobody was told of it */
		left = rec;
	}
	if (pidfd >= 0 && add(b, p, &rec, BOX_UP, pidfd, &err) >= 0)
		return;
	if (remove_all(b, p, &left, &err) < 0)
		role_log(ROLE_LOG_ERROR, "sandbox does not go", "sandbox", id, "error", err.msg);
}

int warden_boxes_open(
	const struct warden_boxes_config *c, struct warden_boxes **ret, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/boxes", c->state);
	AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_DIR DIR *d = NULL;
	const struct dirent *e;
	struct warden_boxes *b;

	if (fd < 0)
		return err_sys(err, "open '%s'", path);
	d = opendir(path);
	if (!d)
		return err_sys(err, "list '%s'", path);
	b = MEM_NEW(struct warden_boxes);
	b->c = *c;
	b->dir = TAKE_FD(fd);
	b->starts = warden_starts_create(c, b->dir, b);
	while ((e = readdir(d)))
		if (is_id(e->d_name))
			take_over(b, e->d_name);
	*ret = b;
	return 0;
}
