/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cli/attack - the attacks of `bawn attack`, and the contract between their parts.
 *
 *   attack.c            the verb: options, order of work, output
 *   attack_stage.c      what is worth attacking, made on the host: canaries, a victim, listeners
 *   attack_box.c        runs a batch of attacks in a sandbox, and control runs outside one
 *   attack_judge.c      held or not, and why that is proven
 *   attack_inner.c      runs in the box: one forked child per attack
 *   attack_<group>*.c   the attacks, one table per file
 *
 * An attack is a function that tries one thing and tells what happened. It runs
 * in a child of its own, in a sandbox, and (ATTACK_CONTROL) once more outside it,
 * where it must succeed: so a refusal inside is the wall's doing and not a broken
 * attack. It must be harmless when it succeeds: it touches canaries only, and
 * calls that would change the host are made with arguments that fail late.
 */
#include "base/err.h"
#include "core/wall.h"
#include "run/process/box.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ATTACK_SECRET_SIZE 33  /* 32 hexadecimal digits and NUL */
#define ATTACK_PATH_SIZE   256 /* bytes, for the stage's own short paths */
#define ATTACK_BATCH_MAX   40  /* attacks in one box: stays below VIOLATION_MAX kinds of refusal */
#define ATTACK_LEAK_FD     200 /* the descriptor that the stage leaks on purpose */
#define ATTACKS_MAX        256 /* in all tables together */

enum attack_verdict {
	ATTACK_ABSENT,  /* could not be tried, or died before it could tell */
	ATTACK_REFUSED, /* tried and refused: err says how */
	ATTACK_BROKE,   /* succeeded */
};

/* One result; crosses a pipe whole, so it holds no pointer and fits in PIPE_BUF. */
struct attack_report {
	int32_t index;   /* in the table */
	int32_t verdict; /* enum attack_verdict */
	int32_t err;     /* errno of the refusal, or -signal if one ended the attempt */
	int32_t reserved;
	uint64_t number; /* what a judge compares: cpu microseconds, tasks, bytes */
	char text[200];  /* what was tried and what came back */
};

enum attack_role {
	ATTACK_ROLE_BATCH,     /* run the attacks listed */
	ATTACK_ROLE_NEIGHBOUR, /* be another sandbox: own a file, a segment, a socket; wait */
	ATTACK_ROLE_CONTROL,   /* outside of any sandbox */
};

/* What an attack knows about the world outside: fixed layout, passed by a sealed memfd. */
struct attack_ctx {
	int32_t role;                    /* enum attack_role */
	char secret[ATTACK_SECRET_SIZE]; /* reading this back is proof of an escape */
	char dir[ATTACK_PATH_SIZE];      /* the stage, on the host */
	char canary[ATTACK_PATH_SIZE];   /* a file, 0666, that holds the secret */
	char scratch[ATTACK_PATH_SIZE];  /* a directory the attack may write in */
	char shared[ATTACK_PATH_SIZE];   /* a host directory that is writable in the box */
	char home[ATTACK_PATH_SIZE];     /* a home with a secret key in it */
	char host_name[65];              /* the host's nodename */
	char cgroup_ns[64], net_ns[64];  /* the host's /proc/self/ns/… */
	char abstract_name[64];          /* abstract socket of the victim, without the NUL */
	char queue_name[64];             /* posix message queue and /dev/shm file */
	char tty_path[64];               /* the caller's terminal */
	uint64_t tty_dev, tty_ino;       /* its identity */
	uint64_t root_dev, root_ino;     /* the host's root directory */
	uint32_t caller_uid;             /* who runs bawn */
	bool is_host_root;               /* root, and not of a mere user namespace */
	int32_t victim_pid;              /* host pid of the victim */
	int32_t neighbour_pid;           /* host pid of a process in another sandbox; 0 = none */
	int32_t sysv_key;                /* of a segment, a queue and a semaphore, 0666 */
	uint32_t meter_milli;   /* thousandths of a cpu that host neighbours got meanwhile */
	uint32_t meter_late_us; /* how late one of them woke, at worst */
	uint16_t tcp_port, tcp6_port, udp_port; /* victim's, on the host's loopback */
	uint16_t reserved;
	struct spec_limits limits;
	int32_t report_fd, ctx_fd, hold_fd; /* in the box; hold_fd: until its other end closes */
	int32_t tty_fd, stdin_fd;           /* what a control run gets as stdin */
	uint32_t n;
	int32_t index[ATTACK_BATCH_MAX];
};

enum attack_flags {
	ATTACK_CONTROL = 1u << 0,      /* must succeed outside, in a throwaway child */
	ATTACK_AS_ROOT = 1u << 1,      /* run as root of the box */
	ATTACK_OWN_BOX = 1u << 2,      /* gets a sandbox of its own */
	ATTACK_HOST_VIEW = 1u << 3,    /* only makes sense with --root host */
	ATTACK_TTY = 1u << 4,          /* stdin is a terminal */
	ATTACK_METER = 1u << 5,        /* a neighbour on the host is timed meanwhile */
	ATTACK_NEEDS_IO = 1u << 6,     /* only offered where there is an io controller and a disk */
	ATTACK_BASE_ONLY = 1u << 7,    /* no attack with --root host, where the tree may be read */
	ATTACK_NEEDS_SCOPES = 1u << 8, /* only offered where Landlock scopes signals */
	ATTACK_ROAD = 1u << 9,         /* in a box that has a road out */
};

struct attack;

/* Try it. Returns the verdict, which is also in *r. Runs in a child: may leak. */
typedef int (*attack_fn)(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r);

/* After the box has ended, with the host's eyes; may change *r. */
typedef void (*attack_judge_fn)(const struct attack *a, const struct attack_ctx *c,
	const struct box_result *result, struct attack_report *r);

/* Change the spec of the attack's own box. */
typedef void (*attack_tune_fn)(struct spec *spec);

struct attack {
	const char *name;    /* group/what-it-does[-CVE] */
	enum wall wall;      /* the wall expected to hold */
	const char *success; /* what it would mean */
	attack_fn try;
	attack_judge_fn judge; /* or NULL */
	attack_tune_fn tune;   /* or NULL */
	unsigned flags;
	int expect[5];    /* errnos (or -signal) that alone prove which wall refused; 0 ends */
	int control_ns;   /* CLONE_NEW* that the control run gets for itself */
	const char *call; /* system call the seccomp wall reports, or NULL */
	long nr;          /* for attack_try_call */
	uintptr_t arg[6]; /* for attack_try_call */
	const char *path; /* for attack_try_open and friends */
	int open_flags;
};

/* The groups' tables, in the order they are shown. */
struct attack_table {
	const struct attack *v;
	size_t n;
};
extern const struct attack_table attack_table_fs;
extern const struct attack_table attack_table_mounts;
extern const struct attack_table attack_table_proc;
extern const struct attack_table attack_table_kernel;
extern const struct attack_table attack_table_sockets;
extern const struct attack_table attack_table_neighbours;
extern const struct attack_table attack_table_init;
extern const struct attack_table attack_table_network;
extern const struct attack_table attack_table_road;
extern const struct attack_table attack_table_resources;
extern const struct attack_table attack_table_storage;
extern const struct attack_table attack_table_terminal;

/* All attacks as one list. */
size_t attack_count(void);
const struct attack *attack_at(size_t index);

/* ---- for the attacks ---- */

/* Fill the report; each returns the verdict. attack_refused() takes errno. */
int attack_broke(struct attack_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int attack_refused(struct attack_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int attack_absent(struct attack_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The result of a system call that was given bad arguments on purpose: EPERM,
 * EACCES and ENOSYS are refusals; anything else, also EFAULT or EINVAL, means that
 * the kernel's code was reached.
 */
int attack_reached(struct attack_report *r, long result, const char *call);

/* Shared functions for table rows: syscall(nr, arg…), and open(path, open_flags). */
int attack_try_call(const struct attack *a, const struct attack_ctx *c, struct attack_report *r);
int attack_try_open(const struct attack *a, const struct attack_ctx *c, struct attack_report *r);

/* Open relative to dir_fd, look for the secret: BROKE if it is there, else REFUSED with errno. */
int attack_read_secret(
	const struct attack_ctx *c, int dir_fd, const char *path, struct attack_report *r);

/*
 * Keep what was taken for half a second: more than a limit that is enforced by
 * looking now and then may take to notice. What is not kept was not taken.
 */
void attack_keep(void);

/* An address nobody maps: a system call that gets this far answers EFAULT. */
#define ATTACK_BAD_ADDRESS ((uintptr_t)8)

/* ---- between the driver's parts ---- */

/*
 * Run one attack in a forked child with a time limit, in this process's world; the
 * report is always filled. `control_ns`: namespaces the child makes for itself first.
 */
void attack_run_child(const struct attack *a, const struct attack_ctx *c, int control_ns,
	struct attack_report *r);

/* `bawn __attack CTX_FD`: the program inside the box. */
int attack_inner_main(int argc, char **argv);

struct attack_stage; /* canaries, victim, listeners */

/* Make the stage; ctx is filled except for role, fds and the list. */
int attack_stage_open(struct attack_stage **ret, struct attack_ctx *ctx, struct err *err);
/* The directory it is made in: a disk if there is one, and never seen in a box. */
const char *attack_stage_parent(void);
/* The caller's terminal (a slave), and the file that the boxes get as stdin. Borrowed. */
int attack_stage_tty(const struct attack_stage *s);
int attack_stage_stdin(const struct attack_stage *s);
/* End the victim, remove everything. NULL is fine. Always returns NULL. */
struct attack_stage *attack_stage_close(struct attack_stage *s);
DEFINE_AUTO(struct attack_stage *, attack_stage_close)

/* How the boxes are made. */
struct attack_setup {
	enum spec_root root;
	char *const *walls; /* NAME=LEVEL assignments */
	size_t walls_n;
	int exec_fd; /* sealed copy of this program */
};

/* One running box, in a child process of the driver. */
struct attack_box;

/* What is in the box, for attack_box_open. */
struct attack_cast {
	enum attack_role role;
	unsigned flags;       /* ATTACK_AS_ROOT, ATTACK_TTY, … of the batch */
	attack_tune_fn tune;  /* or NULL */
	const int32_t *index; /* attacks, with ATTACK_ROLE_BATCH */
	size_t n;
};

int attack_box_open(const struct attack_setup *setup, const struct attack_stage *stage,
	const struct attack_ctx *ctx, const struct attack_cast *cast, struct attack_box **ret,
	struct err *err);
/* Host pid of the command once it runs; -ETIMEDOUT, or what box_run said. */
int attack_box_wait_ready(struct attack_box *b, pid_t *ret, struct err *err);
/*
 * Read reports until the batch is through, let the box end. Reports that did not
 * come stay untouched. Fails if the sandbox could not be made.
 */
int attack_box_collect(struct attack_box *b, struct attack_report *reports, size_t reports_n,
	struct box_result *ret, struct err *err);
struct attack_box *attack_box_close(struct attack_box *b);
DEFINE_AUTO(struct attack_box *, attack_box_close)

/* Lets nothing through: every connection on the road is reset, every name refused. */
extern const struct box_road attack_road;

/* Limits of every box, unless an attack tunes its own. */
void attack_box_limits(struct spec_limits *ret);

/* A sealed copy of /proc/self/exe: nothing in a box can rewrite the program on disk. */
int attack_box_program(struct err *err);

/* A neighbour on the host while a box works: its share of cpus, and how late it woke at worst. */
struct attack_meter;
struct attack_meter *attack_meter_start(void);
/* Consumes the meter. */
void attack_meter_stop(struct attack_meter *take_m, uint32_t *ret_milli, uint32_t *ret_late_us);

struct attack_outcome {
	bool is_held;
	char detail[600];
};

/* control is NULL if there was none. violations: of the box the attack ran in. */
void attack_judge(const struct attack *a, const struct attack_report *inside,
	const struct attack_report *control, const struct violation_list *violations,
	struct attack_outcome *ret);
