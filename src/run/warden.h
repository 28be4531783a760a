/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/warden - what the api and the egress role ask of the warden, and the client for it.
 *
 * One SOCK_SEQPACKET connection to <state>/run/warden.sock, whose listening end the supervisor
 * holds for ever. Fixed-layout messages, one packet each, numbered by the asker; the answer
 * carries the same number. The warden checks every field; a bad one ends the connection and
 * is logged as an attack. Several questions may be under way; answers come in any order.
 * After (re)connecting, ask WARDEN_LIST first: the answer is the truth of the kernel.
 */
#include "core/wall.h"
#include "io/loop.h"
#include "run/provider.h"

#include <stdint.h>

#define WARDEN_DETAIL_MAX 64 /* with NUL; longer ones are cut */

enum warden_op {
	WARDEN_START = 1, /* start: answer with walls; -EEXIST if it is there already */
	WARDEN_STOP,      /* id: gone when answered; fine if it was not there */
	WARDEN_LIST,      /* answered by one WARDEN_BOX per sandbox, then WARDEN_LIST */
	WARDEN_USAGE,     /* id */
	WARDEN_ROAD,      /* id: answered with two descriptors, see warden_ask_road() */
	WARDEN_BOX,       /* only from the warden, see LIST */
	WARDEN_ENDED, /* only from the warden, unasked (number 0): this sandbox is gone by itself */
};

/* How a sandbox should be, numbers and fixed strings only. */
struct warden_spec {
	char tier[16];     /* "process" */
	char template[64]; /* "base" */
	char hostname[64];
	uint64_t memory_max, cpu_milli, pids_max, disk_max, open_files;
	uint8_t allow_sudo; /* setuid programs inside may gain the box's root */
	uint8_t want_loopback;
	uint8_t want_road; /* its connections arrive at two sockets: WARDEN_ROAD */
	uint8_t zero[5];
};

struct warden_message {
	uint32_t op;
	int32_t code;    /* answers: 0 or -errno */
	uint64_t number; /* of the question */
	char id[PROVIDER_ID_MAX];
	union {
		struct warden_spec spec; /* START question */
		struct {
			uint8_t requested[WALL_COUNT]; /* enum wall_level */
			uint8_t enforced[WALL_COUNT];  /* enum wall_verdict */
			char detail[WALL_COUNT][WARDEN_DETAIL_MAX];
		} walls;                     /* START answer, BOX */
		struct provider_usage usage; /* USAGE answer */
		struct err err;              /* code < 0 */
		char reason[64];             /* ENDED: "oom", "exited", "killed" */
	};
};

struct warden_client;

typedef void (*warden_answer_fn)(const struct warden_message *m, void *arg);

struct warden_client_events {
	void (*connected)(void *arg); /* ask LIST now */
	void (*lost)(void *arg);      /* it reconnects by itself, with back-off */
	void (*ended)(const char *id, const char *reason, void *arg);
};

/* Connects in the background and for ever. `path`: the warden's socket. */
int warden_client_create(struct loop *l, const char *path, const struct warden_client_events *e,
	void *arg, struct warden_client **ret, struct err *err);
struct warden_client *warden_client_free(struct warden_client *c);
DEFINE_AUTO(struct warden_client *, warden_client_free)

/*
 * Ask; `answer` is called exactly once (LIST: once per BOX, then once with op LIST), from the loop,
 * never from inside this call; with code -ECONNRESET if the connection went before the answer:
 * what happened is then unknown until the next LIST. Number and padding are filled in; of *m only
 * op, id and (START) spec count. -ENOTCONN while there is no warden: nothing will be called.
 */
int warden_ask(struct warden_client *c, const struct warden_message *m, warden_answer_fn answer,
	void *arg, struct err *err);

/*
 * The road of a sandbox (sys/road). `got` is called exactly once, as above: with both
 * descriptors, the callee's from then on, or with -EBADF twice and the reason.
 */
typedef void (*warden_road_fn)(int take_tcp, int take_dns, const struct err *err, void *arg);
int warden_ask_road(
	struct warden_client *c, const char *id, warden_road_fn got, void *arg, struct err *err);

/* Where things are; the caller frees. */
char *warden_guest_socket(const char *state, const char *id); /* <state>/boxes/<id>/guest.sock */
char *warden_socket(const char *state);                       /* <state>/run/warden.sock */

/*
 * A non-blocking connection to a unix socket by a path of any length (the address itself takes only
 * 107 bytes); for guest sockets SOCK_STREAM. -ECONNREFUSED if nobody listens, -EAGAIN if
 * its backlog is full.
 */
int warden_connect(const char *path, int type, struct err *err);

/* The warden's side: check a question; < 0 names the bad field. Pure, fuzzed. */
int warden_check(const void *packet, size_t n, struct warden_message *ret, struct err *err);
