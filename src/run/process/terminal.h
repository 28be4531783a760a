/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/terminal - the relay between the caller's terminal and the box's own.
 *
 * Never blocks: a box that does not read its input, or a person who stopped the
 * output with Ctrl-S, must not keep bawn from its timeouts. One buffer each way, of
 * fixed size; a full one stops the reading side. Runs in the bawn process.
 */
#include "run/process/box.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#define TERMINAL_BUFFER 16384

enum { TERMINAL_MASTER, TERMINAL_IN, TERMINAL_OUT, TERMINAL_POLLS };

struct terminal_flow {
	char buf[TERMINAL_BUFFER];
	size_t start, end; /* what is in buf and not yet written */
};

struct terminal {
	int master; /* the box's; borrowed; -1 when there is none or it has ended */
	int in;     /* the caller's, for reading; borrowed; -1 without */
	int out;    /* the caller's, for writing, not blocking; owned; -1 without */
	int tty;    /* the caller's, for sizes and settings; borrowed */
	bool is_raw, is_in_open;
	struct termios saved;
	struct terminal_flow to_box, from_box;
};

void terminal_init(struct terminal *t);
/* Start relaying between o's terminal streams and master. */
void terminal_open(struct terminal *t, const struct box_options *o, int master);
/* What to wait for; entries not wanted have fd -1. */
void terminal_want(const struct terminal *t, struct pollfd p[TERMINAL_POLLS]);
void terminal_serve(struct terminal *t, const struct pollfd p[TERMINAL_POLLS]);
void terminal_resize(struct terminal *t);
/* The caller's settings back, and raw again after it was stopped. */
void terminal_restore(struct terminal *t);
void terminal_raw(struct terminal *t);
/* Write out what the box said last (bounded in time), restore, let go. */
void terminal_done(struct terminal *t);
