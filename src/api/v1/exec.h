/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/v1/exec - a command in a sandbox, as /v1 sees it.
 *
 * A run is one channel to the guest that follows one process. Runs of two kinds:
 *   a watch   was made by the request that started the process, or by a rescan; it stays until the
 *             process ends and records how (E2), whether or not a client listens
 *   a reader  was made by GET …/output for one client, and goes with it
 *
 * Invariants:
 *  E1  The intent is a durable row before the guest is asked to start anything.
 *  E2  The exit status is durable before any client is told of it.
 *  E3  A key starts one process: the row is unique, and the guest knows the key (its own memory
 *      lasts GUEST_REMEMBER_MS behind the end). Where neither can tell, nothing is started.
 *  E4  A row without an end, of a running sandbox, has a watch, or a rescan is due.
 */
#include "api/v1/v1.h"

enum follow_mode { FOLLOW_WAIT, FOLLOW_NDJSON, FOLLOW_SSE, FOLLOW_BACKGROUND };

#define EXEC_STREAMS 4 /* indexed by enum guest_stream */

struct run {
	struct api *api;
	struct run *next, **prev; /* of api->v1->runs */
	char sandbox[SANDBOX_ID_MAX];
	char actor[32];
	struct store_exec row;
	bool is_watch;

	/* towards the guest */
	struct sandbox *sb; /* while waiting for its link; NULL otherwise */
	struct mux_channel ch;
	uint16_t kind; /* GUEST_START or GUEST_ATTACH */
	struct frame_writer request;
	bool has_started, has_exited;
	struct guest_exit exit;

	/* towards a client; r is NULL if there is none */
	struct http_request *r;
	enum follow_mode mode;
	struct stream cut;
	struct loop_timer timer; /* keepalive of a stream; end of a wait */
	uint64_t wait_ms;        /* FOLLOW_WAIT: at most so long, 0 = until it ends */
	bool has_begun;
	size_t owed;                      /* bytes the client has not taken yet */
	uint64_t first[EXEC_STREAMS];     /* offset of the first byte in out[] */
	uint64_t at[EXEC_STREAMS];        /* offset of the next byte */
	struct buf out[EXEC_STREAMS];     /* FOLLOW_WAIT */
	bool is_incomplete[EXEC_STREAMS]; /* bytes were lost, or did not fit */
};

/* A run that is not asked for yet. Takes the row's memory. */
struct run *run_new(
	struct api *a, const char *sandbox, const char *actor, struct store_exec *take_row);
/* Give it a client. */
void run_set_client(
	struct run *u, struct sandbox *sb, struct http_request *r, enum follow_mode mode);
/* Fill in the question to the guest; then run_go(). */
void run_attach(struct run *u, enum guest_from from, const uint64_t offset[EXEC_STREAMS]);
void run_go(struct run *u, struct sandbox *sb);
void run_free(struct run *u);
/* The client is done with, however that came about; the run goes too unless it has to stay. */
void run_client_done(struct run *u);
/* The watch of an exec, or NULL. */
struct run *run_find(struct api *a, const char *sandbox, const char *id);

/* ---- what the client sees (exec_follow.c) ---- */
void follow_started(struct run *u);
void follow_data(struct run *u, unsigned stream, const char *p, size_t n);
void follow_lost(struct run *u, unsigned stream, uint64_t from, uint64_t to);
void follow_exited(struct run *u);
/* No more will come: told as an answer, or in the stream. The client is gone afterwards. */
void follow_failed(struct run *u, const struct err *err);
/* Forget the output kept for an answer. */
void follow_drop(struct run *u);
/* Answer a wait with what there is. */
void follow_answer(struct run *u);
/* From Accept. */
enum follow_mode follow_mode(const struct http_request *r);

/* {"id", "state", …}, with what its sandbox was refused while it ran. */
json_t *exec_json(struct api *a, const struct store_exec *row, const char *state);
/* What its sandbox was refused while it ran; NULL: nothing. */
json_t *exec_violations(struct api *a, const struct store_exec *row);
const char *exec_state(struct api *a, const struct store_exec *row);

/* -EINVAL names the field. *ret_text: what is kept of the request; the caller frees both. */
int exec_parse(json_t *body, struct guest_start *ret, char **ret_text, struct err *err);
