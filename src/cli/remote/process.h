/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/remote/process - one process in a sandbox, its streams tied to ours.
 *
 * Starts or joins it on the data plane, prints what it prints, sends what we read, and
 * returns how it ended. With a terminal: raw mode, window size, ^P^Q to leave it running.
 */
#include "cli/remote/client.h"

struct process_wish {
	char *const *argv;   /* of a new process; NULL: join `pid` */
	const char *cwd;     /* or NULL */
	const char *user;    /* or NULL */
	struct strv env;     /* K=V; borrowed */
	uint64_t pid;        /* to join */
	uint64_t timeout_ms; /* 0 = none */
	bool want_tty;       /* a terminal inside, ours in raw mode */
	bool want_stdin;     /* ours goes there */
	bool is_detached;    /* leave when it has started */
};

struct process_result {
	uint64_t pid;
	int status;   /* as a shell has it: 128+N for signal N; 124 when its time was up */
	bool is_left; /* it runs on without us */
};

int process_run(struct client *c, const struct client_box *b, const struct process_wish *w,
	struct process_result *ret, struct err *err);
