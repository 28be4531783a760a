/* SPDX-License-Identifier: Apache-2.0 */

#include "io/loop.h"

#include "tap.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

static struct loop *make(void)
{
	struct loop *l = NULL;
	struct err err;

	CHECK_INT(loop_create(&l, &err), 0);
	return l;
}

#define TIMERS 500
static struct loop_timer timers[TIMERS];
static uint64_t last_due;
static int fired;

static void timer_fired(struct loop_timer *t)
{
	CHECK(t->due_ms >= last_due);
	CHECK_INT(t->slot, 0);
	last_due = t->due_ms;
	fired++;
}

static void timers_fire_in_order(void)
{
	AUTO(loop_free) struct loop *l = make();
	struct err err;
	unsigned x = 12345;
	int live = 0;

	for (int i = 0; i < TIMERS; i++) {
		timers[i].fire = timer_fired;
		x = x * 1103515245 + 12345;
		loop_timer_set(l, &timers[i], x >> 16 & 31);
	}
	for (int i = 0; i < TIMERS; i += 3)
		loop_timer_cancel(l, &timers[i]);
	for (int i = 1; i < TIMERS; i += 3) {
		x = x * 1103515245 + 12345;
		loop_timer_set(l, &timers[i], x >> 16 & 31); /* moved */
	}
	loop_timer_cancel(l, &timers[0]); /* twice is fine */
	for (int i = 0; i < TIMERS; i++)
		live += timers[i].slot != 0;
	for (int i = 0; i < 1000 && fired < live; i++)
		CHECK_INT(loop_once(l, 50, &err), 0);
	CHECK_INT(fired, live);
}

static void endless_delays_never_come(void)
{
	AUTO(loop_free) struct loop *l = make();
	struct loop_timer t = {.fire = timer_fired};
	struct err err;

	fired = 0;
	loop_timer_set(l, &t, UINT64_MAX);
	CHECK_INT(loop_once(l, 0, &err), 0);
	CHECK(fired == 0 && t.slot != 0);
	loop_timer_cancel(l, &t);
}

struct again {
	struct loop_task task;
	struct loop *loop;
	int runs;
};

static void run_again(struct loop_task *t)
{
	struct again *a = (struct again *)t;

	a->runs++;
	loop_defer(a->loop, t);
}

static void task_queued_twice_runs_once_a_turn(void)
{
	struct loop *l = make();
	struct again a = {.task.run = run_again, .loop = l};
	struct err err;

	loop_defer(l, &a.task);
	loop_defer(l, &a.task);
	CHECK_INT(loop_once(l, -1, &err), 0); /* -1: a queued task must not be slept over */
	CHECK_INT(a.runs, 1);
	CHECK_INT(loop_once(l, -1, &err), 0);
	CHECK_INT(a.runs, 2);
	(void)loop_free(l); /* ends although the task always comes again */
}

struct pair {
	struct loop *loop;
	struct loop_watch watch[2];
	int seen;
};
static struct pair pair;

static void remove_other(struct loop_watch *w, uint32_t events)
{
	struct loop_watch *other = w == &pair.watch[0] ? &pair.watch[1] : &pair.watch[0];
	struct err err;

	CHECK(events & EPOLLIN);
	pair.seen++;
	CHECK_INT(loop_watch_set(pair.loop, other, 0, &err), 0);
}

static void removed_watch_is_not_told_of_its_batch(void)
{
	AUTO(loop_free) struct loop *l = make();
	struct err err;

	pair.loop = l;
	for (int i = 0; i < 2; i++) {
		pair.watch[i].fd = eventfd(1, EFD_CLOEXEC);
		pair.watch[i].ready = remove_other;
		CHECK_INT(loop_watch_set(l, &pair.watch[i], EPOLLIN, &err), 0);
	}
	CHECK_INT(loop_once(l, 0, &err), 0);
	CHECK_INT(pair.seen, 1);
	CHECK(pair.watch[0].mask == 0 || pair.watch[1].mask == 0);
	(void)close(pair.watch[0].fd);
	(void)close(pair.watch[1].fd);
}

static void stop_on_signal(int sig, void *arg)
{
	CHECK_INT(sig, SIGUSR1);
	loop_stop(arg, 7);
}

static void signals_come_through_the_loop(void)
{
	AUTO(loop_free) struct loop *l = make();
	sigset_t set;
	struct err err;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	CHECK_INT(loop_signals(l, &set, stop_on_signal, l, &err), 0);
	CHECK_INT(kill(getpid(), SIGUSR1), 0);
	CHECK_INT(loop_run(l, &err), 7);
}

int main(void)
{
	RUN(timers_fire_in_order);
	RUN(endless_delays_never_come);
	RUN(task_queued_twice_runs_once_a_turn);
	RUN(removed_watch_is_not_told_of_its_batch);
	RUN(signals_come_through_the_loop);
	return tap_done();
}
