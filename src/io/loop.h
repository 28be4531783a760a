/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/loop - one epoll loop per process: descriptors, timers, signals, things to do afterwards.
 *
 * Watches, timers and tasks are embedded in their owners; the loop allocates
 * nothing per watch. Level-triggered. Never free the owner of a watch inside a
 * callback: unset the watch, then loop_defer() the free; it runs when no event of
 * the current batch can point at it any more. Single-threaded.
 */
#include "base/err.h"
#include "base/own.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;

struct loop_watch {
	int fd;        /* borrowed */
	uint32_t mask; /* EPOLL* now registered; 0 = not registered; kept by the loop */
	void (*ready)(struct loop_watch *w, uint32_t events);
};

struct loop_timer {
	void (*fire)(struct loop_timer *t);
	uint64_t due_ms; /* kept by the loop */
	size_t slot;     /* kept by the loop; 0 = not set */
};

struct loop_task {
	void (*run)(struct loop_task *t);
	struct loop_task *next; /* kept by the loop */
	bool is_queued;
};

int loop_create(struct loop **ret, struct err *err);
struct loop *loop_free(struct loop *l);
DEFINE_AUTO(struct loop *, loop_free)

/* Runs until loop_stop(); returns its argument, or < 0. */
int loop_run(struct loop *l, struct err *err);
void loop_stop(struct loop *l, int result);
/* One batch, waiting at most `wait_ms` (-1: for ever). For tests and simple clients. */
int loop_once(struct loop *l, int wait_ms, struct err *err);

/* Register, change or (events == 0) remove. Set w->fd and w->ready first. */
int loop_watch_set(struct loop *l, struct loop_watch *w, uint32_t events, struct err *err);

/* CLOCK_MONOTONIC in ms, read once per batch: the same across restarts, stands still in suspend. */
uint64_t loop_now_ms(const struct loop *l);
void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t delay_ms);
void loop_timer_cancel(struct loop *l, struct loop_timer *t);

/* Run once, after the current batch; queued twice is queued once. */
void loop_defer(struct loop *l, struct loop_task *t);

/* Block `set` and be told by signalfd; one caller per loop. */
int loop_signals(struct loop *l, const sigset_t *set, void (*got)(int sig, void *arg), void *arg,
	struct err *err);
