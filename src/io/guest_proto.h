/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io/guest_proto - what the roles ask of a guest, and what it answers; encoders and decoders.
 *
 * The client opens a channel per request (mux). Unless said otherwise the answer is one message
 * (MSG_*), then END from both sides; a failure is END with an errno and a sentence, and no
 * message. The client ends its side when it has no more to send. Everything the guest says is
 * hostile: decoders are pure, cap every field, and are fuzzed. Paths are as the user gave
 * them: absolute, "~…" or relative to the user's home; the guest resolves them in its own root.
 * `user` is a name or number inside; "" is the bound default user.
 *
 * errno on END, and what it means to a caller:
 *   ENOENT not there · EEXIST · ENOTDIR, EISDIR, EINVAL bad argument · EACCES · ESRCH no such
 *   process · EKEYREJECTED no such user · ENOSPC, EDQUOT disk full · ETIMEDOUT · E2BIG, EMFILE,
 *   EAGAIN a cap was reached · ECONNREFUSED nothing listens on the port · EPROTO malformed
 */
#include "io/frame.h"
#include "io/mux.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GUEST_PATH_MAX    4096
#define GUEST_ARGS_MAX    4096        /* argv entries; env entries */
#define GUEST_STRING_MAX  (96u << 10) /* one argument or K=V; all of a request < a frame */
#define GUEST_RING        (1u << 20)  /* bytes kept per output stream of a process */
#define GUEST_PROCS_MAX   512         /* running and remembered */
#define GUEST_REMEMBER_MS 300000      /* an ended process is remembered so long */
#define GUEST_WATCHES_MAX 8192        /* directories watched, all watchers together */

/* Request kinds (FRAME_OPEN). Fields in order, in the encoding of frame.h. */
enum guest_request {
	GUEST_BIND = 1, /* struct guest_bind -> MSG_OK; may be repeated: replaces */
	GUEST_START,    /* struct guest_start -> MSG_STARTED, then as ATTACH */
	GUEST_ATTACH, /* struct guest_attach -> MSG_STARTED, DATA…, MSG_LOST…, MSG_EXIT, END */
	GUEST_PROCESSES,   /* -> MSG_PROCESS per process, END */
	GUEST_INPUT,       /* struct guest_which; DATA from the client; its END leaves stdin open */
	GUEST_CLOSE_INPUT, /* struct guest_which -> MSG_OK. A pty gets EOF (^D) */
	GUEST_SIGNAL,      /* struct guest_which, u32 signal, u8 to the whole group -> MSG_OK */
	GUEST_RESIZE,      /* struct guest_which, u16 cols, u16 rows -> MSG_OK */
	GUEST_STAT,        /* user, path -> MSG_ENTRY */
	GUEST_LIST,        /* user, path, u32 depth (>= 1) -> MSG_ENTRY…, END */
	GUEST_MKDIR,       /* user, path -> MSG_ENTRY; EEXIST if it is a directory already */
	GUEST_MOVE,        /* user, from, to -> MSG_ENTRY */
	GUEST_REMOVE,      /* user, path -> MSG_OK, also if missing; the whole tree */
	GUEST_READ, /* user, path, u64 from, u64 length (~0: to the end) -> MSG_ENTRY, DATA…, END */
	GUEST_WRITE, /* struct guest_write; DATA… END from the client -> MSG_ENTRY. A client that
			     goes away, or ends with an errno, leaves the old file untouched */
	GUEST_WATCH, /* user, path, u8 flags (GUEST_WATCH_*) -> MSG_OK, MSG_CHANGE… until dropped */
	GUEST_PORT,  /* u16 port -> MSG_OK once connected, then DATA both ways; END = FIN */
	GUEST_USAGE, /* -> MSG_USAGE */
	GUEST_PING,  /* -> MSG_OK */
	GUEST_ENVS,  /* -> MSG_ENVS: strings K=V bound for every process */
};

enum guest_message {
	MSG_OK = 1,
	MSG_STARTED, /* struct guest_started */
	MSG_LOST,    /* u8 stream, u64 from, u64 to: fell out of the ring before it was sent */
	MSG_EXIT,    /* struct guest_exit */
	MSG_PROCESS, /* struct guest_process */
	MSG_ENTRY,   /* struct guest_entry */
	MSG_CHANGE,  /* struct guest_change */
	MSG_USAGE,   /* struct guest_usage */
	MSG_ENVS,    /* strings */
};

enum guest_stream { GUEST_STDOUT = 1, GUEST_STDERR = 2, GUEST_PTY = 3, GUEST_BYTES = 0 };

struct guest_bind {
	char *id;       /* sandbox id; also E2B_SANDBOX_ID */
	char *hostname; /* "" leaves it */
	char *user;     /* default user */
	char *cwd;      /* default working directory; "" is the user's home */
	char **env;     /* K=V for every process */
};

enum guest_start_flags {
	GUEST_START_PTY = 1u << 0,
	GUEST_START_STDIN = 1u << 1, /* a pipe; else /dev/null */
};

/* Ended by a process exec'd exactly once per key: the same key again answers as ATTACH would. */
struct guest_start {
	char *key; /* idempotency key, "" = none */
	char *tag; /* free text, "" = none */
	char **argv;
	char **env; /* K=V, over the bound ones */
	char *cwd, *user;
	uint32_t flags;
	uint16_t cols, rows;
	uint64_t timeout_ms; /* 0 = none: then SIGKILL to its session, and is_timed_out */
	uint64_t memory_max; /* RLIMIT_AS, 0 = none */
	uint32_t open_files, processes; /* rlimits, 0 = as they are */
};

enum guest_from { GUEST_FROM_START, GUEST_FROM_NOW, GUEST_FROM_OFFSET };

struct guest_which { /* a process: by pid, or if 0 by key, or if "" by tag */
	uint32_t pid;
	char *key, *tag;
};

struct guest_attach {
	struct guest_which which;
	uint8_t from;       /* enum guest_from */
	uint64_t offset[4]; /* GUEST_FROM_OFFSET: per stream number */
};

struct guest_started {
	uint32_t pid;       /* inside */
	uint8_t is_new;     /* this request started it */
	uint64_t offset[4]; /* of the next DATA byte, per stream */
};

struct guest_exit {
	int32_t exit_code; /* -1: by signal */
	uint32_t signal;
	uint8_t is_timed_out, has_core;
	uint64_t end[4]; /* bytes ever written per stream */
	uint64_t cpu_us, wall_ms, rss_peak;
};

struct guest_process {
	uint32_t pid;
	char *key, *tag;
	char **argv, **env; /* env: of the request alone */
	char *cwd, *user;
	uint32_t flags;
	uint8_t is_running;
	uint64_t started_ms;    /* unix */
	struct guest_exit exit; /* if not running */
};

enum guest_file_type { GUEST_UNKNOWN, GUEST_FILE, GUEST_DIR, GUEST_OTHER };

struct guest_entry {
	char *name, *path; /* path absolute inside, of the entry as asked for */
	uint8_t type;      /* of the target for a symlink */
	uint8_t is_link;
	uint32_t mode;       /* permission bits with setuid, setgid, sticky */
	char *owner, *group; /* names, or numbers */
	uint64_t size;
	uint64_t mtime_ns;
	char *link_target; /* resolved absolute path; "" if none or dangling */
	char **metadata;   /* "key", "value", …: xattrs user.e2b.* */
};

enum guest_write_flags { GUEST_WRITE_GZIP = 1u << 0 /* unused: api inflates */ };

struct guest_write {
	char *user, *path;
	uint32_t mode;   /* 0 = 0644 */
	char **metadata; /* "key", "value", …; replaces the whole set */
};

enum guest_watch_flags { GUEST_WATCH_RECURSIVE = 1, GUEST_WATCH_ENTRY = 2 };
enum guest_change_type {
	GUEST_CREATE = 1,
	GUEST_WROTE,
	GUEST_REMOVED,
	GUEST_RENAMED,
	GUEST_CHMOD,
	GUEST_OVERFLOW, /* events were lost: list again */
};

struct guest_change {
	char *name; /* relative to the watched directory */
	uint8_t type;
	uint8_t has_entry;
	struct guest_entry entry;
};

struct guest_usage {
	uint32_t cpu_count;
	uint64_t cpu_us; /* of the whole box where it can be read, else 0 */
	uint64_t mem_used, mem_total, mem_cache;
	uint64_t disk_used, disk_total;
	uint32_t processes;
	uint64_t idle_ms; /* since the last request or output byte */
};

/*
 * Each _put writes the fields above in order; each _get fills *ret or returns false; then the
 * caller frees with _done (fine after a failed _get too). A _get that is the whole of a body is
 * followed by frame_ok(): bytes left over are malformed.
 */
#define GUEST_CODEC(name)                                                                          \
	void guest_##name##_put(struct frame_writer *w, const struct guest_##name *v);             \
	bool guest_##name##_get(struct frame_reader *r, struct guest_##name *ret);                 \
	void guest_##name##_done(struct guest_##name *v);
GUEST_CODEC(bind)
GUEST_CODEC(start)
GUEST_CODEC(which)
GUEST_CODEC(attach)
GUEST_CODEC(started)
GUEST_CODEC(exit)
GUEST_CODEC(process)
GUEST_CODEC(entry)
GUEST_CODEC(write)
GUEST_CODEC(change)
GUEST_CODEC(usage)
#undef GUEST_CODEC
