/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/box - make one sandbox of the process tier, run its command, unmake it.
 *
 *   box_run(&spec, &options, &result, &err)
 *
 * is all that `bawn run` and `bawn attack` need. Runs in: the program that calls
 * it, as root or not; blocks until the sandbox has ended and everything it had
 * is gone (a janitor child does the same if the caller is SIGKILLed).
 */
#include "core/spec.h"
#include "core/violation.h"
#include "core/wall.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct plan;
struct machine;

/* Who serves the road out of a box (spec.want_road); all in the process that makes the box. */
struct box_road {
	/*
	 * Takes both descriptors, also on failure, which then is the box's. Returns one to poll
	 * for reading; it stays the callee's.
	 */
	int (*open)(int take_tcp, int take_dns, void *arg, struct err *err);
	/* It is readable. False: do not poll it any more. */
	bool (*serve)(struct violation_list *v, void *arg);
	/* Nothing of the box runs any more: say the last words. */
	void (*close)(struct violation_list *v, void *arg);
	void *arg;
};

struct box_options {
	int stdio[3];        /* descriptors for the command; ttys among them become an own pty */
	int exec_fd;         /* >= 0: start this (sealed memfd) instead of looking up argv[0] */
	const int *pass_fds; /* further descriptors the command gets, as the same numbers */
	size_t pass_fds_n;
	const int *pass_as; /* other numbers for them inside; NULL = the same */
	/*
	 * The box outlives its maker (run/process/resident): nobody will listen to its filter,
	 * poll its limits or clean up after it, and it has leaves of this name. NULL = not so.
	 */
	const char *resident;
	char **environ;              /* the caller's environment, for pass_env */
	bool want_explain;           /* watch writes and connects, to explain refusals */
	const struct box_road *road; /* NULL: nobody does, and every connection is refused */
	/* Called once the command has been exec'd (its host pid); may be NULL. */
	void (*started)(pid_t pid, void *arg);
	void *arg;
};

struct box_result {
	int exit_status;       /* as a shell would say: 0..255, 128+signal, 124 timeout, 126/127 */
	int exit_code;         /* 0..255, or -1 if a signal ended it */
	int signal;            /* 0 if it exited by itself */
	struct err exec_error; /* code != 0: the command could not be started (126, 127) */
	bool timed_out;
	bool oom_killed;
	uint64_t wall_us;
	uint64_t cpu_us;        /* user + system, whole tree */
	uint64_t memory_peak;   /* bytes */
	uint64_t bytes_written; /* what the command's tree wrote, by the kernel's count; 0 = unknown
				 */
	struct wall_record walls[WALL_COUNT];
	struct violation_list violations;
	char run_id[32];  /* names the copy-on-write record, if one was kept */
	uint64_t changes; /* copy-on-write: entries that differ */
};

void box_options_init(struct box_options *o);

/*
 * Run spec's command. >= 0 once it ran (result filled); < 0 if the sandbox could
 * not be made: nothing is left behind and *result is untouched except walls.
 */
int box_run(const struct spec *spec, const struct box_options *o, struct box_result *result,
	struct err *err);

/* Print the plan box_run() would carry out, as lines or as a JSON array; makes nothing. */
int box_plan(const struct spec *spec, const struct box_options *o, bool as_json, FILE *out,
	struct err *err);
