/* SPDX-License-Identifier: Apache-2.0 */

#include "io/loop.h"

#include "base/mem.h"

#include <assert.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>

#define LOOP_BATCH 256

struct loop {
	int epoll_fd;
	uint64_t now_ms;
	bool is_stopped;
	int result;

	struct loop_timer **heap; /* [1..heap_n], the earliest first; owned, the timers are not */
	size_t heap_n, heap_size;

	struct loop_task *tasks, **tasks_end; /* in the order they were queued */

	struct loop_watch signal_watch;
	int signal_fd;
	void (*signal_got)(int sig, void *arg);
	void *signal_arg;

	struct epoll_event batch[LOOP_BATCH];
};

static uint64_t clock_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with a valid clock */
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int loop_create(struct loop **ret, struct err *err)
{
	struct loop *l;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0)
		return err_sys(err, "epoll_create1");
	l = MEM_NEW(struct loop);
	l->epoll_fd = fd;
	l->signal_fd = -EBADF;
	l->tasks_end = &l->tasks;
	l->now_ms = clock_ms();
	*ret = l;
	return 0;
}

/* ---- tasks ---- */

void loop_defer(struct loop *l, struct loop_task *t)
{
	if (t->is_queued)
		return;
	t->is_queued = true;
	t->next = NULL;
	*l->tasks_end = t;
	l->tasks_end = &t->next;
}

/* Those queued now; what they queue themselves runs after the next batch. */
static void run_tasks(struct loop *l)
{
	struct loop_task *t = l->tasks;

	l->tasks = NULL;
	l->tasks_end = &l->tasks;
	while (t) {
		struct loop_task *next = t->next;

		t->is_queued = false;
		t->run(t); /* may free t */
		t = next;
	}
}

struct loop *loop_free(struct loop *l)
{
	if (!l)
		return NULL;
	/* Frees that were put off must still happen; each may put off one more. */
	for (int i = 0; i < 16 && l->tasks; i++)
		run_tasks(l);
	closep(&l->signal_fd);
	closep(&l->epoll_fd);
	free(l->heap);
	free(l);
	return NULL;
}

/* ---- watches ---- */

int loop_watch_set(struct loop *l, struct loop_watch *w, uint32_t events, struct err *err)
{
	struct epoll_event e = {.events = events, .data.ptr = w};
	int op = EPOLL_CTL_MOD;

	if (events == w->mask)
		return 0;
	if (w->mask == 0)
		op = EPOLL_CTL_ADD;
	else if (events == 0)
		op = EPOLL_CTL_DEL;
	if (epoll_ctl(l->epoll_fd, op, w->fd, &e) < 0 && op != EPOLL_CTL_DEL)
		return err_sys(err, "epoll_ctl"); /* removing: it was closed, and is gone too */
	w->mask = events;
	return 0;
}

/* ---- timers: a binary heap; slot is the timer's own index in it ---- */

static void heap_put(struct loop *l, size_t i, struct loop_timer *t)
{
	l->heap[i] = t;
	t->slot = i;
}

static void heap_up(struct loop *l, size_t i)
{
	struct loop_timer *t = l->heap[i];

	while (i > 1 && l->heap[i / 2]->due_ms > t->due_ms) {
		heap_put(l, i, l->heap[i / 2]);
		i /= 2;
	}
	heap_put(l, i, t);
}

static void heap_down(struct loop *l, size_t i)
{
	struct loop_timer *t = l->heap[i];

	for (;;) {
		size_t child = 2 * i;

		if (child > l->heap_n)
			break;
		if (child < l->heap_n && l->heap[child + 1]->due_ms < l->heap[child]->due_ms)
			child++;
		if (l->heap[child]->due_ms >= t->due_ms)
			break;
		heap_put(l, i, l->heap[child]);
		i = child;
	}
	heap_put(l, i, t);
}

void loop_timer_cancel(struct loop *l, struct loop_timer *t)
{
	size_t i = t->slot;
	struct loop_timer *last;

	if (i == 0)
		return;
	t->slot = 0;
	last = l->heap[l->heap_n--];
	if (last == t)
		return;
	heap_put(l, i, last);
	heap_up(l, i);
	heap_down(l, last->slot);
}

void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t delay_ms)
{
	/* "Never", said as a huge delay, must not wrap round to now. */
	uint64_t due = delay_ms > UINT64_MAX - l->now_ms ? UINT64_MAX : l->now_ms + delay_ms;

	if (t->slot != 0) {
		t->due_ms = due;
		heap_up(l, t->slot);
		heap_down(l, t->slot);
		return;
	}
	if (l->heap_n + 1 >= l->heap_size) {
		size_t size = l->heap_size > 0 ? l->heap_size * 2 : 64;

		l->heap = mem_must(realloc(l->heap, size * sizeof(struct loop_timer *)));
		l->heap_size = size;
	}
	t->due_ms = due;
	heap_put(l, ++l->heap_n, t);
	heap_up(l, t->slot);
}

static void run_timers(struct loop *l)
{
	/* A timer set again by its own callback is due later than now, or in the next round. */
	size_t rounds = l->heap_n;

	while (rounds-- > 0 && l->heap_n > 0 && l->heap[1]->due_ms <= l->now_ms) {
		struct loop_timer *t = l->heap[1];

		loop_timer_cancel(l, t);
		t->fire(t);
	}
}

static int next_wait(const struct loop *l, int wait_ms)
{
	uint64_t now, left;

	if (l->tasks)
		return 0;
	if (l->heap_n == 0)
		return wait_ms;
	now = clock_ms();
	left = l->heap[1]->due_ms > now ? l->heap[1]->due_ms - now : 0;
	if (left > INT_MAX)
		left = INT_MAX;
	return wait_ms >= 0 && (uint64_t)wait_ms < left ? wait_ms : (int)left;
}

uint64_t loop_now_ms(const struct loop *l)
{
	return l->now_ms;
}

/* ---- running ---- */

int loop_once(struct loop *l, int wait_ms, struct err *err)
{
	int n = epoll_wait(l->epoll_fd, l->batch, LOOP_BATCH, next_wait(l, wait_ms));

	if (n < 0 && errno != EINTR)
		return err_sys(err, "epoll_wait");
	l->now_ms = clock_ms();
	for (int i = 0; i < n; i++) {
		struct loop_watch *w = l->batch[i].data.ptr;

		if (w->mask != 0) /* else an earlier event of this batch removed it */
			w->ready(w, l->batch[i].events);
	}
	run_timers(l);
	run_tasks(l);
	return 0;
}

int loop_run(struct loop *l, struct err *err)
{
	int r;

	l->is_stopped = false;
	while (!l->is_stopped) {
		r = loop_once(l, -1, err);
		if (r < 0)
			return r;
	}
	return l->result;
}

void loop_stop(struct loop *l, int result)
{
	l->is_stopped = true;
	l->result = result;
}

/* ---- signals ---- */

static void signals_ready(struct loop_watch *w, uint32_t events)
{
	struct loop *l = (struct loop *)((char *)w - offsetof(struct loop, signal_watch));
	struct signalfd_siginfo info;

	(void)events;
	while (read(l->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		l->signal_got((int)info.ssi_signo, l->signal_arg);
}

int loop_signals(struct loop *l, const sigset_t *set, void (*got)(int sig, void *arg), void *arg,
	struct err *err)
{
	assert(l->signal_fd < 0);
	if (sigprocmask(SIG_BLOCK, set, NULL) < 0)
		return err_sys(err, "sigprocmask");
	l->signal_fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->signal_fd < 0)
		return err_sys(err, "signalfd");
	l->signal_got = got;
	l->signal_arg = arg;
	l->signal_watch.fd = l->signal_fd;
	l->signal_watch.ready = signals_ready;
	return loop_watch_set(l, &l->signal_watch, EPOLLIN, err);
}
