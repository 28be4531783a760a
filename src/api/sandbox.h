/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * api/sandbox - live sandboxes: create, find, kill, deadlines, and the link to each guest.
 *
 * The only writer of sandbox rows. Both dialects, MCP and the command line go through here. Every
 * change is one transaction of row and event (I7).
 */
#include "api/api.h"
#include "io/guest_proto.h"

#define TOLD_SEEN 60
struct told_rate { /* events about one sandbox in this minute, of one sort */
	uint64_t since_ms;
	unsigned n;
	uint64_t seen[TOLD_SEEN]; /* hashes of those told; each kind once */
};

struct sandbox {
	struct store_sandbox row;
	struct api *api;
	struct mux *guest;          /* NULL: not connected; see sandbox_guest() */
	uint64_t used_ms;           /* loop time of the last command, file or traffic */
	unsigned busy;              /* requests and streams under way: not idle */
	struct loop_timer deadline; /* TTL or idle, whichever is first */
	struct stream *streams; /* data-plane answers to break off when it is killed: see below */

	/* Kept by sandbox*.c and reconcile.c alone. */
	struct sandbox *next, **prev;    /* all of them, newest first */
	struct sandbox *bucket_next;     /* by id */
	struct sandbox_link *link;       /* a connection to the guest, bound or on its way */
	struct sandbox_wait *waits;      /* for the guest's link */
	struct sandbox_made_wait *mades; /* for the end of its creation */
	struct sandbox_gone_wait *gones; /* for the end of its killing */
	struct usage_ring *usage;        /* api/usage.c; NULL until the first sample */
	struct told_rate denied_rate, allowed_rate; /* api/egress_told.c */
	bool has_denied; /* something was refused to it, or nobody remembers */
	uint64_t told;   /* connection to egress on which it was told last; 0 = not yet */
	struct loop_task to_free;
	uint64_t since_ms; /* loop time at which it came to its state; 0 = in an earlier life */
	uint64_t seen_ms;  /* asked_ms of the last list that had it */
	unsigned asked;    /* how often the warden was asked to start it */
	bool is_asked;     /* a question to the warden about it is under way */
	bool is_up_due, is_gone_due; /* to be told once it is on the disk */
	struct sandbox *due_next;    /* of those */
};

/* What a caller of create may say; NULL and 0 mean the default. All borrowed. */
struct sandbox_wish {
	const char *template, *name, *idempotency;
	uint64_t timeout_ms, idle_ms;
	bool is_secure;         /* give it an access token */
	bool is_private;        /* ports need the traffic token */
	json_t *metadata, *env; /* objects of strings */
	json_t *network;        /* E2B's, or ours: checked by the caller */
	const char *profile;    /* "name", "name@3"; NULL: the server's default */
	json_t *extra;          /* further fields to be stored in spec and shown again */
	uint64_t memory_max, disk_max, pids_max, cpu_milli;
};

/* Exactly one call: sb (borrowed) or err. If the client is gone by then, it is killed. */
typedef void (*sandbox_made_fn)(struct sandbox *sb, const struct err *err, void *arg);

/* Errors: -ENOENT template, -EINVAL field, -EDQUOT too many, -EEXIST name taken, -EIO … */
void sandbox_create(struct api *a, const struct api_caller *who, const struct sandbox_wish *wish,
	sandbox_made_fn made, void *arg);

/* Live and of this tenant; NULL otherwise (no telling which). Name, id or unique prefix. */
struct sandbox *sandbox_find(struct api *a, const char *tenant, const char *which);
/* By exact id, any tenant: for the data plane, which has its own tokens. */
struct sandbox *sandbox_by_id(struct api *a, const char *id);
/* Live ones of a tenant, newest first; each < 0 stops. */
int sandbox_each(
	struct api *a, const char *tenant, int (*each)(struct sandbox *sb, void *arg), void *arg);

/* ENDING is durable and streams are broken off when this returns; `done` when it is gone. */
void sandbox_kill(struct sandbox *sb, const char *actor, enum sandbox_reason reason,
	void (*done)(int code, void *arg), void *arg);

/* TTL from now; only_extend keeps a later one. */
int sandbox_set_timeout(struct sandbox *sb, const char *actor, uint64_t timeout_ms,
	bool only_extend, struct err *err);
/*
 * Replace the profile or the network part of its spec (NULL: as it was; checked by the caller),
 * and what comes of both. Durable when this returns; api_egress_policy() makes it true.
 */
int sandbox_set_network(struct sandbox *sb, const char *actor, const char *profile, json_t *network,
	struct err *err);
/* Somebody uses it. */
void sandbox_touch(struct sandbox *sb);

/* When its time is up, unix ms, by the clock the reaper goes by; 0 = never. */
int64_t sandbox_end_at(const struct sandbox *sb);

/*
 * The link to its guest: called back at once if there is one or none can be had, else after
 * connecting; code < 0 if it cannot be had. The link is bound (env, user, hostname) before
 * anybody gets it.
 */
typedef void (*sandbox_link_fn)(struct sandbox *sb, int code, void *arg);
void sandbox_guest(struct sandbox *sb, sandbox_link_fn ready, void *arg);
/* Take back a callback that has not come yet. */
void sandbox_guest_cancel(struct sandbox *sb, void *arg);

/*
 * An answer that must break off when the sandbox is killed. Embedded in its owner; `cut` is called
 * once: http_abort() the request and free. Remove when the answer is complete.
 */
struct stream {
	void (*cut)(struct stream *s);
	struct stream *next, **prev;
	struct sandbox *sb;
};
void sandbox_stream_add(struct sandbox *sb, struct stream *s); /* also counts as busy */
void sandbox_stream_remove(struct stream *s);

/* Append an event about it, with others and within 50 ms; the detail's reference is taken. */
void sandbox_event(struct sandbox *sb, const char *actor, const char *action, const char *outcome,
	json_t *take_detail);

/* api/reconcile.c: rows against the warden's list; then a->is_ready. Numbered invariants. */
void sandbox_reconcile(struct api *a);
