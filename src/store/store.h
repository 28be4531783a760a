/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * store - what the server knows, in SQLite (WAL, synchronous=FULL), one file per table.
 *
 * Opened by the api role, and by `bawn key` beside it. Every function is one transaction
 * unless called between store_begin() and store_commit(): if one fails there, roll back. Nothing
 * here knows HTTP. Strings in a row are owned by the row: store_*_done(). Blocks for the time of
 * an fsync. -ENOSPC: the disk is full; -EBUSY: another process held the database for 2 s.
 */
#include "base/err.h"
#include "base/own.h"
#include "core/sandbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

/* <dir>/bawn.db; created 0600 and migrated. -EPROTO: made by a newer bawn. */
int store_open(const char *dir, struct store **ret, struct err *err);
struct store *store_close(struct store *s);
DEFINE_AUTO(struct store *, store_close)

int store_begin(struct store *s, struct err *err);
/*
 * For what nobody is told of before a store_sync(), or the commit of a store_begin(): not synced by
 * itself. A killed process loses nothing by that; after a power cut it is there, with all that
 * came before, or it and all that came after are not.
 */
int store_begin_unsynced(struct store *s, struct err *err);
/* All that was committed is on the disk. One for many: it may take milliseconds. */
int store_sync(struct store *s, struct err *err);
int store_commit(struct store *s, struct err *err); /* on failure it was rolled back */
void store_rollback(struct store *s);
/* A number that changes when another process wrote: caches look at it. */
uint64_t store_version(struct store *s);
/* The same for keys that this handle itself made or revoked; costs nothing. */
uint64_t store_keys_changed(const struct store *s);

/* ---- tenants and keys (store/keys.c) ---- */
#define STORE_KEY_TEXT 45 /* "e2b_" + 40 hex + NUL */

struct store_key {
	int64_t id;
	char *tenant;
	char *name;                           /* label, "" if none */
	char prefix[13];                      /* "e2b_" and 8 hex: what lists show */
	int64_t made_ms, used_ms, revoked_ms; /* unix; 0 = never */
};
void store_key_done(struct store_key *k);

/* A new random key for the tenant (made if new); `ret_text` is shown once and never stored. The
 * caller appends the event, in one transaction, since it knows who asks. */
int store_key_create(struct store *s, const char *tenant, const char *name,
	char ret_text[STORE_KEY_TEXT], struct store_key *ret, struct err *err);
/* By the text's SHA-256; -ENOENT unknown or revoked. */
int store_key_find(struct store *s, const char *text, struct store_key *ret, struct err *err);
int store_key_list(struct store *s, const char *tenant /* or NULL */,
	int (*each)(const struct store_key *k, void *arg), void *arg, struct err *err);
/* By id, prefix or name, of the tenant (NULL: any); -ENOENT, -ENOTUNIQ. */
int store_key_revoke(struct store *s, const char *tenant, const char *which, struct store_key *ret,
	struct err *err);
/* [a-z0-9] and inside also '-', '_', '.'; 1 to 63 of them. */
bool store_is_tenant(const char *s);

/* ---- sandboxes (store/sandboxes.c) ---- */
struct store_sandbox {
	char id[SANDBOX_ID_MAX];
	char *tenant;
	char *name;     /* unique among the tenant's live ones; "" if none */
	char *template; /* as asked for: "base" */
	enum sandbox_state state;
	enum sandbox_reason reason;
	char *message;  /* why it failed, "" */
	char *spec;     /* canonical JSON of what was asked: limits, network, lifecycle, env … */
	char *metadata; /* JSON object of strings: E2B metadata, our labels */
	char *walls;    /* JSON: requested and enforced; "" until running */
	char *idempotency;                     /* key of the create request, "" if none */
	char token[65];                        /* data plane access token, hex; "" = not secure */
	char traffic_token[65];                /* "" = public ports */
	int64_t made_ms, started_ms, ended_ms; /* unix */
	int64_t end_at_ms;                     /* unix, for showing */
	int64_t deadline_ms; /* CLOCK_MONOTONIC of boot_id: what the reaper goes by; 0 = none */
	int64_t idle_ms;     /* idle timeout, 0 = none */
	char boot_id[40];
	int64_t cpu_milli, memory_max, disk_max, pids_max;
	char *profile; /* name of what it may reach; "" in rows of older programs */
	char *policy;  /* the same as canonical JSON, composed with the operator's floor */
};
void store_sandbox_done(struct store_sandbox *r);

int store_sandbox_insert(struct store *s, const struct store_sandbox *r, struct err *err);
/* Change state, reason, message and times; -EINVAL if sandbox_may() forbids it. */
int store_sandbox_set_state(struct store *s, const char *id, enum sandbox_state state,
	enum sandbox_reason reason, const char *message, struct err *err);
int store_sandbox_set_walls(struct store *s, const char *id, const char *walls, struct err *err);
int store_sandbox_set_deadline(
	struct store *s, const char *id, int64_t end_at_ms, int64_t deadline_ms, struct err *err);
int store_sandbox_set_spec(struct store *s, const char *id, const char *spec, struct err *err);
/* The network part: what was asked for is in the spec, what came of it beside it. */
int store_sandbox_set_policy(struct store *s, const char *id, const char *spec, const char *profile,
	const char *policy, struct err *err);
int store_sandbox_set_metadata(struct store *s, const char *id, const char *json, struct err *err);
int store_sandbox_get(struct store *s, const char *id, struct store_sandbox *ret, struct err *err);
/* -ENOENT if no create with this key by this tenant. */
int store_sandbox_by_key(struct store *s, const char *tenant, const char *idempotency,
	struct store_sandbox *ret, struct err *err);
/* Every row whose state is in the bit set (1u << SANDBOX_…), oldest first. As with every _each: a
 * callback may read, but must not write to the store. */
int store_sandbox_each(struct store *s, unsigned states,
	int (*each)(const struct store_sandbox *r, void *arg), void *arg, struct err *err);
/* Ended and failed rows older than this go (the caps: see docs); returns how many. */
int store_sandbox_prune(struct store *s, int64_t before_ms, struct err *err);

/* ---- execs started under /v1 with an idempotency key (store/execs.c) ---- */
struct store_exec {
	char id[40]; /* what the API calls it; also the guest's key */
	char sandbox[SANDBOX_ID_MAX];
	char *request; /* JSON as asked for: the same key with another request is a conflict */
	int64_t pid;   /* inside; 0 = intent only */
	int64_t made_ms;
	bool has_ended;
	int64_t exit_code; /* -1: by signal */
	int64_t signal;
	bool is_timed_out;
	int64_t ended_ms; /* unix; filled by store_exec_update() when it has ended; 0 = not yet */
};
void store_exec_done(struct store_exec *e);
int store_exec_insert(struct store *s, const struct store_exec *e, struct err *err); /* -EEXIST */
int store_exec_get(struct store *s, const char *sandbox, const char *id, struct store_exec *ret,
	struct err *err);
int store_exec_update(struct store *s, const struct store_exec *e, struct err *err);
/* It never started: its key is free again. */
int store_exec_remove(struct store *s, const char *sandbox, const char *id, struct err *err);
/* Those of running sandboxes that have no end yet. */
int store_exec_each_open(struct store *s, int (*each)(const struct store_exec *e, void *arg),
	void *arg, struct err *err);

/* ---- events: the one place every action passes (store/events.c) ---- */
struct store_event {
	int64_t number; /* filled by store_event_append() */
	int64_t at_ms;  /* unix; filled if 0 */
	const char *tenant;
	const char *actor;   /* "key:<prefix>", "system", "guest" */
	const char *action;  /* "sandbox.create", "exec.start", "key.revoke", … */
	const char *sandbox; /* or "" */
	const char *outcome; /* "ok", or the error's code */
	const char *detail;  /* JSON object, or "" */
};
int store_event_append(struct store *s, struct store_event *e, struct err *err);
/*
 * The same with the next transaction, whoever's it is; until then it is held in memory, and a
 * reader of events sees it. For what happens often and changes nothing: the caller settles by a
 * timer.
 */
int store_event_later(struct store *s, const struct store_event *e, struct err *err);
/* Write what is held. */
int store_settle(struct store *s, struct err *err);
/* Events with number > after, at most n, of the tenant (NULL: all) and sandbox (NULL: all). */
int store_event_each(struct store *s, const char *tenant, const char *sandbox, int64_t after,
	size_t n, int (*each)(const struct store_event *e, void *arg), void *arg, struct err *err);
int64_t store_event_last(struct store *s);

/* ---- webhooks (store/webhooks.c) ---- */
struct store_webhook {
	int64_t id;
	char *tenant, *url, *secret; /* secret signs deliveries: HMAC-SHA-256 */
	char *actions;               /* comma-separated globs, "*" = all */
	int64_t next;                /* number of the last event delivered or given up */
	int64_t retry_at_ms, failures;
	bool is_off; /* gave up: too many failures */
};
void store_webhook_done(struct store_webhook *w);
int store_webhook_create(struct store *s, struct store_webhook *w, struct err *err);
int store_webhook_each(struct store *s, const char *tenant,
	int (*each)(const struct store_webhook *w, void *arg), void *arg, struct err *err);
int store_webhook_update(struct store *s, const struct store_webhook *w, struct err *err);
/* Only how far it has got: next, retry_at_ms, failures; is_off if it is set. What its owner said
 * meanwhile stays. */
int store_webhook_progress(struct store *s, const struct store_webhook *w, struct err *err);
int store_webhook_remove(struct store *s, const char *tenant, int64_t id, struct err *err);

/* ---- what the road out refused (store/violations.c) ---- */
#define STORE_VIOLATIONS      256 /* different ones kept per sandbox; then the oldest goes */
#define STORE_VIOLATION_TIMES 16  /* of each, the last */

struct store_violation {
	int64_t number;
	const char *what;   /* what makes two of them the same */
	const char *record; /* JSON of the last */
	int64_t first_ms, last_ms, count;
	int64_t times[STORE_VIOLATION_TIMES]; /* unix ms, newest first; 0 = no more */
};
/* One more, or `count` more of a kind: of *v what, record, last_ms and count are read. */
int store_violation_note(
	struct store *s, const char *sandbox, const struct store_violation *v, struct err *err);
/* Oldest first; the callback's strings are borrowed. */
int store_violation_each(struct store *s, const char *sandbox,
	int (*each)(const struct store_violation *v, void *arg), void *arg, struct err *err);

/* ---- what people were asked (store/asks.c) ---- */
struct store_ask {
	char id[40];
	char sandbox[SANDBOX_ID_MAX];
	char *tenant;
	char engine[24];
	char *record; /* JSON: host, port, protocol, method, path, rule, reason */
	char *note;
	int64_t made_ms, expires_ms, answered_ms;
	char state[16]; /* "open", "allowed", "denied", "expired" */
	char scope[16]; /* "once", "sandbox", "always"; "" while open */
	char actor[32]; /* who answered */
};
void store_ask_done(struct store_ask *a);
int store_ask_insert(struct store *s, const struct store_ask *a, struct err *err);
/* Of any tenant if `tenant` is NULL; -ENOENT. */
int store_ask_get(struct store *s, const char *tenant, const char *id, struct store_ask *ret,
	struct err *err);
/* The open one that egress calls so. */
int store_ask_by_engine(struct store *s, const char *sandbox, const char *engine,
	int64_t expires_ms, struct store_ask *ret, struct err *err);
/* Only an open one: -EALREADY otherwise. */
int store_ask_answer(struct store *s, const char *id, const char *state, const char *scope,
	const char *actor, struct err *err);
/* Newest first, at most n; NULL: all tenants, any state. */
int store_ask_each(struct store *s, const char *tenant, const char *state, size_t n,
	int (*each)(const struct store_ask *a, void *arg), void *arg, struct err *err);
/* This one, or every open one of a sandbox, is over without an answer. */
int store_ask_expire(struct store *s, const char *sandbox, const char *id, struct err *err);

/* ---- profiles of tenants, every version (store/profiles.c) ---- */
struct store_profile {
	char *tenant, *name;
	int64_t version; /* 1, 2, …; filled by store_profile_put() */
	char digest[65];
	char *policy; /* canonical JSON */
	char actor[32];
	int64_t made_ms;
};
void store_profile_done(struct store_profile *p);
/* A new version, unless the last one has the same digest (then that is it). */
int store_profile_put(struct store *s, struct store_profile *p, struct err *err);
/* version 0: the newest; -ENOENT. */
int store_profile_get(struct store *s, const char *tenant, const char *name, int64_t version,
	struct store_profile *ret, struct err *err);
/* The newest of each name. */
int store_profile_each(struct store *s, const char *tenant,
	int (*each)(const struct store_profile *p, void *arg), void *arg, struct err *err);

/* ---- secrets, sealed (store/secrets.c) ---- */
#define STORE_SECRETS_PER_TENANT 256
#define STORE_SEALED_MAX         (20u << 10) /* bytes */

struct store_secret {
	char tenant[64], name[64];
	int64_t version; /* 1, 2, … */
	int64_t made_ms, changed_ms;
	const void *sealed; /* in a callback: borrowed */
	size_t sealed_n;
};
/*
 * Version 1 is a new one: -EEXIST if there is one; a later one replaces the version before it:
 * -ENOENT if that is not there (any more). -EDQUOT past STORE_SECRETS_PER_TENANT.
 */
int store_secret_put(struct store *s, const struct store_secret *r, struct err *err);
/* Without what is sealed; -ENOENT. */
int store_secret_get(struct store *s, const char *tenant, const char *name,
	struct store_secret *ret, struct err *err);
int store_secret_remove(struct store *s, const char *tenant, const char *name, struct err *err);
/* By tenant (NULL: all) and name. */
int store_secret_each(struct store *s, const char *tenant,
	int (*each)(const struct store_secret *r, void *arg), void *arg, struct err *err);
