/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/e2b/envd - the data plane: what the files of it share.
 *
 * One struct envd_call per request that talks to a guest, embedded first in what the request needs
 * besides. Its life: envd_call_start(), body and link in any order, one channel to the guest,
 * exactly one answer, envd_call_end(). Whatever happens (client gone, sandbox killed, guest lost,
 * deadline) ends it through envd_call_end(), after which no callback reaches it; the memory goes
 * behind the current batch of events.
 *
 * Runs in the api role, on its loop; never blocks.
 */
#include "api/api.h"
#include "api/e2b/connect_frames.h"
#include "api/sandbox.h"

#define ENVD_USER_MAX     257
#define ENVD_REQUEST_MAX  (1u << 20)   /* one RPC's JSON */
#define ENVD_INPUT_MAX    (8u << 20)   /* one SendInput's JSON, one frame of StreamInput */
#define ENVD_ANSWER_MAX   (32u << 20)  /* one listing */
#define ENVD_MEMORY_MAX   (256u << 20) /* all of these together, all sandboxes */
#define ENVD_WATCHERS_MAX 128          /* per sandbox, of CreateWatcher */
#define ENVD_PATIENCE_MS  120000       /* for a guest's answer, where the client sets no time */

/* How errors are told: by status and {"code","message"} of each kind. */
enum envd_dialect {
	ENVD_PLAIN,  /* /files and friends: the code is the HTTP status */
	ENVD_UNARY,  /* Connect: a word */
	ENVD_STREAM, /* Connect: 200, and the word in the last frame */
};

struct envd_call;

struct envd_ops {
	size_t size; /* of the struct that embeds the call */
	/* The whole body of the request; only after envd_call_collect(). */
	void (*body)(struct envd_call *c, const char *p, size_t n);
	/* The guest can be asked: c->sb->guest. */
	void (*linked)(struct envd_call *c);
	/* The channel to the guest, opened by envd_ask(); `data` and `writable` may be NULL. */
	void (*message)(struct envd_call *c, uint16_t kind, struct frame_reader *body);
	void (*data)(struct envd_call *c, uint8_t stream, const char *p, size_t n);
	void (*writable)(struct envd_call *c);
	/* The guest is done (code 0), or refuses (positive errno, its reason). */
	void (*ended)(struct envd_call *c, int code, const char *why);
	/* The deadline came; NULL: the answer is deadline_exceeded. */
	void (*late)(struct envd_call *c);
	/* Free what the embedding struct owns. May be NULL. */
	void (*release)(struct envd_call *c);
};

struct envd_call {
	struct http_request *r; /* NULL: answered or gone */
	struct api *api;
	struct sandbox *sb; /* borrowed; valid until the call is cut */
	const struct envd_ops *ops;
	enum envd_dialect dialect;
	struct stream stream; /* breaks the answer off when the sandbox is killed */
	struct mux_channel channel;
	struct loop_timer deadline;
	struct loop_task reap;
	struct buf body;
	size_t charged;           /* bytes counted against ENVD_MEMORY_MAX */
	char user[ENVD_USER_MAX]; /* "" = the default user */
	bool is_linking;
	bool is_over;
};

/* Begin: tied to the request and the sandbox. The ops decide how large it is. */
struct envd_call *envd_call_start(struct api *a, struct http_request *r, struct sandbox *sb,
	enum envd_dialect dialect, const struct envd_ops *ops);
/* Read the body, at most cap bytes, then ops->body(). */
void envd_call_collect(struct envd_call *c, size_t cap);
/* Get the link to the guest, then ops->linked(). */
void envd_call_link(struct envd_call *c);
/* deadline_exceeded after so many ms; 0 = never. */
void envd_call_deadline(struct envd_call *c, uint64_t ms);
/* Open the channel with a request; failures are answered and -errno. Frees the writer's bytes. */
enum envd_ask_flags { ENVD_ASK_ONLY, ENVD_ASK_AND_SEND };
int envd_ask(struct envd_call *c, uint16_t kind, struct frame_writer *take_body,
	enum envd_ask_flags flags);
/* Count n bytes of memory to the call; false if there is no more to be had. */
bool envd_charge(struct envd_call *c, size_t n);
void envd_uncharge(struct envd_call *c, size_t n);
/*
 * Bytes of an answer that its client has not read yet: count them. False:
 * too much of that waits in all; this stream was broken off.
 */
bool envd_hold(struct envd_call *c, size_t n, size_t *held);
/* The client read on: give the guest its credit back. */
void envd_unhold(struct envd_call *c, size_t *held);
/* The same for what outlives a call; give it back when it is freed. */
bool envd_memory_take(size_t n);
void envd_memory_give(size_t n);

/* Release everything; the request, if still there, has been answered. Always the last call. */
void envd_call_end(struct envd_call *c);

/* ---- answers; each ends the call ---- */
void envd_reply(struct envd_call *c, const char *json, size_t n); /* 200 application/json */
void envd_fail(struct envd_call *c, enum connect_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* From the guest's errno and reason. */
void envd_fail_errno(struct envd_call *c, int code, const char *why);
/* {"code":status,"message":…} of the plain dialect, on any request. */
void envd_plain_error(struct http_request *r, int status, const char *message);
/* 502: the sandbox is not there (any more). */
void envd_dead(struct http_request *r, const char *id);
int envd_status(int code); /* positive errno -> HTTP status of the plain dialect */

/* ---- answers that stream; a message goes out at once ---- */
void envd_stream_begin(struct envd_call *c);
void envd_stream_message(struct envd_call *c, const char *json, size_t n);
/* The end frame and the end of the body. Ends the call. */
void envd_stream_end(struct envd_call *c, enum connect_code code, const char *message);

/* ---- requests ---- */
/* The JSON object in an RPC's body: of a stream, its one frame. NULL: answered. The caller owns. */
json_t *envd_json(struct envd_call *c, const char *p, size_t n);
/* A field of an object: absent or null is the default. False: wrong type, not yet answered. */
bool envd_get_string(json_t *o, const char *name, const char **ret);
bool envd_get_bool(json_t *o, const char *name, bool def, bool *ret);
bool envd_get_u32(json_t *o, const char *name, uint32_t *ret);
bool envd_get_object(json_t *o, const char *name, json_t **ret); /* NULL if absent */
/* {"process":{"pid":…}|{"tag":…}}; false: answered. Borrows from msg. */
bool envd_get_which(struct envd_call *c, json_t *msg, struct guest_which *ret);
/* "process with pid 7 not found" */
void envd_fail_which(struct envd_call *c, const struct guest_which *w);
/* How long a stream may be quiet before a keepalive: Keepalive-Ping-Interval, else 90 s. */
uint64_t envd_quiet_ms(const struct http_request *r);
/* Connect-Timeout-Ms; 0 if there is none. False: answered. */
bool envd_timeout_ms(struct envd_call *c, uint64_t *ret);
/* A header with a decimal number within [0, max]. -ENOENT, -EINVAL. */
int envd_header_u64(const struct http_request *r, const char *name, uint64_t max, uint64_t *ret);
/* The user of `Authorization: Basic`, "" if none. False: unusable. */
bool envd_basic_user(const struct http_request *r, char out[ENVD_USER_MAX]);

/* ---- what an entry looks like (entry.c) ---- */
int envd_entry_add(struct buf *b, const struct guest_entry *e);
/* ,"metadata":{…}; nothing if there is none. */
int envd_metadata_add(struct buf *b, char *const *v);
/* {"name":…,"type":"EVENT_TYPE_…","entry":…}; -ENODATA for a type nobody is told. */
int envd_change_add(struct buf *b, const struct guest_change *c);

/* ---- the handlers, one file each ---- */
typedef void (*envd_handler_fn)(struct api *a, struct http_request *r, struct sandbox *sb);

void envd_start(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_connect(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_send_input(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_stream_input(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_watch_dir(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_create_watcher(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_watcher_events(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_remove_watcher(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_files_get(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_files_post(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_metrics(struct api *a, struct http_request *r, struct sandbox *sb);
void envd_envs(struct api *a, struct http_request *r, struct sandbox *sb);
