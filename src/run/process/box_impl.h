/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run/process/box_impl - one sandbox while it lives, shared by the files of this directory.
 */
#include "run/process/apply.h"
#include "run/process/box.h"
#include "run/process/plan.h"
#include "run/process/wire.h"

#include <signal.h>
#include <time.h>

struct box {
	const struct spec *wanted; /* as asked for */
	const struct spec *spec;   /* the same, less preferred walls this machine cannot build */
	int failed;                /* the wall that could not be built, or -1 */
	const struct box_options *o;
	struct plan_facts facts;
	struct host_view view;
	struct plan plan;
	struct apply apply;     /* the bawn process's own side */
	struct cgroup *cgroup;  /* or NULL */
	bool is_unmapped;       /* ids=preferred, and a file system that cannot map ids */
	bool late_join;         /* v2 without CLONE_INTO_CGROUP: we put it in */
	int range_fd;           /* holds the id range; init inherits it */
	int init_fd, init_peer; /* socket pair to pid 1 */
	int command_fd, command_peer;
	int pidfd;       /* pid 1 */
	pid_t pid;       /* pid 1, outside */
	int listener_fd; /* seccomp notifications */
	int master_fd;   /* the box's terminal */
	int store_fd;    /* the box's tmpfs: usage at the end, copy-on-write */
	int signal_fd;
	bool has_road;    /* o->road has been opened */
	struct road road; /* of a resident box, until its maker takes it */
	int janitor_fd;   /* closing it without a word makes the janitor clean up */
	pid_t janitor;
	sigset_t old_mask;
	mode_t umask; /* the caller's */
	struct timespec started;
	bool was_crowded; /* no pids cgroup: the watchdog saw as many tasks as allowed */
	uint32_t links;   /* pid 1 counted them in its network namespace */
	struct wire_readback readback;
	uint64_t own_namespaces[WIRE_NS_COUNT], box_namespaces[WIRE_NS_COUNT];
	struct cgroup_limits limits; /* as the kernel tells them back */
	struct box_result *result;
};

extern const char *const wire_namespace_names[WIRE_NS_COUNT];

/* facts.c: who calls, what is here; also the template and the environment. */
int facts_gather(
	const struct spec *s, const struct box_options *o, struct plan_facts *ret, struct err *err);
int facts_environment(const struct spec *s, const struct plan_facts *f, char **caller_env,
	struct strv *ret, struct err *err);
/* The caller's home directory; never NULL ("/" if unknown). */
const char *facts_home(char **caller_env);

/*
 * template.c: the built-in base template as a directory; made on first use. Returns a descriptor
 * that keeps it from being pruned while it is open; the caller frees *ret.
 */
int template_base(bool is_host_root, char **ret, struct err *err);

/* init.c, command.c: the box's own processes; never return. */
_Noreturn void init_main(struct box *b);
_Noreturn void command_main(struct box *b, int slave_fd);

/*
 * verify.c: fill result->walls from what was read back; < 0 names the first required wall that is
 * missing.
 */
int verify_walls(struct box *b, struct err *err);

/* explain.c: record and answer what the filter shows; true if there may be more at once. */
bool explain_notification(struct box *b);
/* explain.c: what the end of the run tells: limits hit, names in the command that are hidden. */
void explain_end(struct box *b);

/*
 * watchdog.c: look at the tree of a box without cgroups; true if it must be killed for its memory.
 */
bool watchdog_look(struct box *b);

/* guard.c: watch the masks' directories; the descriptor to poll, or < 0. */
int guard_open(const struct plan *p);
/* guard.c: swallow events, and cover again what was uncovered, telling which. */
void guard_read(int fd);
void guard_check(struct apply *a, void (*fell)(size_t op, void *arg), void *arg);

/*
 * janitor.c: cleans up in our place if we are killed. Start it before there is anything to clean.
 */
int janitor_start(struct box *b, struct err *err);
int janitor_tell_box(struct box *b, struct err *err);
void janitor_stop(struct box *b);

/*
 * box.c: the steps of a box's life. box_init() first, box_done() last; box_populate() after
 * box_clone(). The box can be told of in box_refuse() when one of them failed.
 */
void box_init(struct box *b, const struct spec *wanted, const struct spec *spec,
	const struct box_options *o, struct box_result *result);
int box_prepare(struct box *b, struct err *err);
int box_clone(struct box *b, struct err *err);
int box_populate(struct box *b, struct err *err);
int box_unmake(struct box *b, struct err *err);
int box_refuse(const struct box *b, struct err *err);
void box_done(struct box *b);

/* box.c: protected names the box made are moved out of the way. */
int box_hold_back(struct box *b, struct err *err);

/* host_sockets.c: hide the sockets this host listens on, outside of what is shared. */
int host_sockets_hide(struct host_view *v, struct err *err);

/* supervise.c: from the command's start to the end. */
int supervise(struct box *b, struct err *err);
/* supervise.c: an error the box sent before it died replaces *err. */
int supervise_collect_error(struct box *b, struct err *err);
