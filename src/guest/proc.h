/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * guest/proc - the processes that clients started: their life, output, readers, input.
 *
 *   STARTING --exec'd--> RUNNING --reaped--> EXITED --streams at their end--> ENDED --forgotten
 *       \--exec failed--> gone
 *
 * 1. MSG_STARTED is sent only once exec has happened; a failure is END with its errno.
 * 2. MSG_EXIT is sent only when ENDED, after the last byte of every stream.
 * 3. EXITED lasts while a background child holds a stream; after a kill by us, 200 ms at most.
 * 4. A stream is not read while that would drop bytes an attached reader has not been sent.
 * 5. An ended process keeps its rings and exit record for GUEST_REMEMBER_MS, or until its place
 *    is needed.
 * 6. A key names one process: the same key never executes twice while it is remembered.
 */
#include "guest/account.h"
#include "guest/guest.h"
#include "guest/ring.h"

enum proc_state { PROC_STARTING, PROC_RUNNING, PROC_EXITED, PROC_ENDED };

#define PROC_STREAMS 4 /* indexed by enum guest_stream */

struct proc_stream {
	struct loop_watch watch; /* fd owned; -EBADF when closed or unused */
	struct ring ring;
	struct proc *proc;
};

/* A client that is sent the output. */
struct proc_reader {
	struct mux_channel ch;
	struct proc *proc; /* NULL once detached */
	struct proc_reader *next;
	uint64_t at[PROC_STREAMS]; /* offset of the next byte to send */
	uint8_t is_new;            /* this client started it */
	bool is_told;              /* MSG_STARTED was sent */
};

/* A client that gives input. */
struct proc_input {
	struct mux_channel ch;
	struct proc *proc; /* NULL once done with */
	struct proc_input *next;
	struct buf waiting; /* not yet taken by the pipe */
	bool is_done;       /* the client has no more */
};

/* A client that waits for a kill to have happened. */
struct proc_kill {
	struct mux_channel ch;
	struct proc *proc; /* NULL once answered */
	struct proc_kill *next;
	struct loop_timer limit;
};

struct proc {
	struct guest *g;
	struct proc *next;
	enum proc_state state;
	pid_t pid;
	struct guest_start start; /* as asked for; owned */
	char *cwd, *user;         /* as resolved; owned */
	uint64_t started_ms;      /* unix */
	uint64_t began_ms;        /* of the loop's clock */
	uint64_t ended_ms;        /* of the loop's clock */
	bool is_reaped;           /* exit is filled; perhaps before exec's verdict was read */
	bool is_killed;           /* SIGKILL by us: nobody waits for background children */
	struct guest_exit exit;
	struct proc_stream out[PROC_STREAMS];
	struct proc_reader *readers;
	struct loop_watch exec_watch; /* the child's status pipe; owned */
	struct loop_watch in_watch;   /* stdin's pipe, or a second descriptor of the pty; owned */
	struct proc_input *inputs;    /* in order of arrival: the first one writes */
	bool want_close_input;
	struct proc_kill *kills;
	size_t cost;               /* bytes of the request, counted with the rings */
	struct loop_timer timeout; /* of the request */
	struct loop_timer grace;   /* after a kill, for the streams */
	struct loop_timer forget;
};

/* What the child needs, prepared by the parent. */
struct proc_plan {
	const struct guest_start *start;
	const struct account *user;
	const char *cwd;
	char **env;
	int stdio[3]; /* borrowed */
	bool is_pty;  /* stdio are its slave */
	struct rlimit files;
	bool is_as_is; /* do not change ids: there are no others in this box */
	int status_fd; /* CLOEXEC: a struct err on failure, nothing on success */
};

/* Runs in the child after fork(); never returns. */
_Noreturn void proc_child(const struct proc_plan *plan);

/* K=V in the order of DESIGN: defaults, bound, request. Fresh; frame_free_strings(). */
char **proc_environment(
	const struct guest *g, const struct guest_start *start, const struct account *user);

/* Fork and register. On success p is STARTING and owns start's strings, `cost` bytes. */
int proc_start(struct guest *g, struct guest_start *start, size_t cost, struct proc **ret,
	struct err *err);
struct proc *proc_find(struct guest *g, const struct guest_which *which);
struct proc *proc_by_key(struct guest *g, const char *key);
void proc_reaped(struct proc *p, int status, const struct rusage *used);
/* EXITED and every stream at its end: tell everybody. */
void proc_check_end(struct proc *p);
int proc_signal(struct proc *p, int sig, bool to_group, struct err *err);
/*
 * MSG_OK to q once p is reaped, or after a while (a process that the kernel holds on to): who
 * killed it and looks for it then does not find it.
 */
void proc_kill_wait(struct request *q, struct proc *p);
void proc_kill_answer(struct proc *p);

/* Output: read what may be read; send readers what they may get. */
void proc_stream_open(struct proc *p, int stream, int take_fd);
void proc_stream_close(struct proc_stream *s);
void proc_update_streams(struct proc *p);
void proc_drain_streams(struct proc *p); /* what is in the pipes now, then close them */
int proc_attach(struct request *q, struct proc *p, const struct guest_attach *how, bool is_new,
	struct err *err);
void proc_tell_readers(struct proc *p);
/* END to all, and forget them. */
void proc_fail_readers(struct proc *p, const struct err *err);

/* Input. */
void proc_input_open(struct proc *p, int take_fd);
int proc_input_attach(struct request *q, struct proc *p, struct err *err);
void proc_input_close(struct proc *p);                          /* when all was written */
void proc_input_end(struct proc *p, int code, const char *why); /* at once */
