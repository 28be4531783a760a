/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/box - a sandbox from spec to nothing left: gather, plan, clone, apply, verify,
 * supervise, remove.
 *
 * Runs in: the bawn process. What the kernel or disk holds for a box: its
 * processes (killed with pid 1), its mounts (gone with its namespace), its cgroup
 * leaves (removed here, or by the janitor if we are killed first).
 */
#include "run/process/box.h"

#include "base/mem.h"
#include "base/own.h"
#include "core/state_dir.h"
#include "run/process/box_impl.h"
#include "run/process/cow.h"
#include "sys/mount.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

void box_options_init(struct box_options *o)
{
	*o = (struct box_options){.stdio = {0, 1, 2}, .exec_fd = -EBADF, .want_explain = true};
}

void box_init(struct box *b, const struct spec *wanted, const struct spec *spec,
	const struct box_options *o, struct box_result *result)
{
	memset(b, 0, sizeof(*b));
	b->wanted = wanted;
	b->spec = spec;
	b->failed = -1;
	b->o = o;
	b->result = result;
	b->plan.store_slot = -1;
	b->facts.template_fd = -EBADF;
	apply_init(&b->apply, &b->plan);
	b->road = (struct road){-EBADF, -EBADF};
	b->range_fd = b->init_fd = b->init_peer = b->command_fd = b->command_peer = -EBADF;
	b->pidfd = b->listener_fd = b->master_fd = b->store_fd = b->signal_fd = b->janitor_fd =
		-EBADF;
}

/* A directory handed in by descriptor would be a way around every mask below it. */
static int check_streams(const struct box_options *o, struct err *err)
{
	static const char *const names[] = {"standard input", "standard output", "standard error"};
	struct stat st;

	for (int i = 0; i < 3; i++)
		if (o->stdio[i] >= 0 && fstat(o->stdio[i], &st) == 0 && S_ISDIR(st.st_mode))
			return err_set(err, EISDIR,
				"%s is a directory; accepted: a file, a pipe, a terminal, "
				"/dev/null",
				names[i]);
	return 0;
}

int box_prepare(struct box *b, struct err *err)
{
	struct host_view_who who = {
		.home = facts_home(b->o->environ), .work_dir = b->spec->work_dir};
	bool has_ids = b->spec->walls[WALL_USER] != WALL_LEVEL_OFF &&
		       b->spec->walls[WALL_IDS] != WALL_LEVEL_OFF;
	/* A clean root that shares nothing has nothing of the host to hide. */
	bool sees_host = b->spec->root == SPEC_ROOT_HOST || b->spec->paths_n > 0 || b->spec->cow ||
			 b->spec->walls[WALL_ROOT] == WALL_LEVEL_OFF;
	int r = check_streams(b->o, err);

	if (r >= 0)
		r = facts_gather(b->spec, b->o, &b->facts, err);
	if (r >= 0 && sees_host)
		r = host_view_build(b->spec, &who, &b->view, err);
	if (r >= 0 && sees_host && b->spec->walls[WALL_MASKS] != WALL_LEVEL_OFF)
		r = host_sockets_hide(&b->view, err);
	if (r >= 0 && b->facts.is_host_root && has_ids) {
		r = userns_reserve_range(&b->facts.range_first, err);
		b->range_fd = r;
	}
	if (r >= 0)
		r = plan_build(b->spec, &b->facts, &b->view, b->o->want_explain, &b->plan, err);
	if (r >= 0)
		r = facts_environment(b->spec, &b->facts, b->o->environ, &b->plan.env, err);
	return r;
}

/* Before the first fork, so that a signal in between is kept, not lost. */
static int catch_signals(struct box *b, struct err *err)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH,
		SIGTSTP, SIGCONT, SIGALRM};
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		(void)sigaddset(&set, caught[i]);
	if (sigprocmask(SIG_BLOCK, &set, &b->old_mask) < 0)
		return err_sys(err, "block signals");
	b->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return b->signal_fd < 0 ? err_sys(err, "signalfd") : 0;
}

static int make_cgroup(struct box *b, struct err *err)
{
	bool guards = b->view.absent.n > 0 || b->view.links.n > 0 || b->view.repos.n > 0;
	int r = 0;

	if (b->plan.want_cgroup || guards)
		r = janitor_start(b, err);
	if (r >= 0 && b->plan.want_cgroup)
		r = cgroup_create(&b->plan.cgroup_limits, b->plan.cgroup_required, &b->cgroup, err);
	return r;
}

/* clone() does not say which namespace it could not make: give up the preferred ones in turn. */
static int preferred_namespace(const struct box *b)
{
	static const enum wall walls[] = {
		WALL_CGROUPNS, WALL_UTS, WALL_IPC, WALL_NET, WALL_PID, WALL_MOUNT, WALL_USER};

	for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++)
		if (b->spec->walls[walls[i]] == WALL_LEVEL_PREFERRED)
			return (int)walls[i];
	return -1;
}

int box_clone(struct box *b, struct err *err)
{
	int cgroup_fd = b->cgroup ? cgroup_clone_fd(b->cgroup) : -EBADF, pair[2], r;

	r = sock_pair(pair, err);
	if (r < 0)
		return r;
	b->init_fd = pair[0];
	b->init_peer = pair[1];
	r = sock_pair(pair, err);
	if (r < 0)
		return r;
	b->command_fd = pair[0];
	b->command_peer = pair[1];
	b->pid = process_clone(b->plan.namespaces, cgroup_fd, &b->pidfd, err);
	if (b->pid == -EOPNOTSUPP || (b->pid == -EACCES && cgroup_fd >= 0)) {
		/* COMPAT(5.7): no CLONE_INTO_CGROUP; join by pid instead. */
		b->late_join = true;
		b->pid = process_clone(b->plan.namespaces, -EBADF, &b->pidfd, err);
	}
	if (b->pid == 0)
		init_main(b);
	if (b->pid < 0) {
		b->failed = preferred_namespace(b);
		if (b->plan.namespaces)
			(void)err_wrap(err, "make namespaces");
		return err_hint(err, "'bawn doctor' says what this machine lacks");
	}
	closep(&b->init_peer);
	closep(&b->command_peer);
	return janitor_tell_box(b, err);
}

static bool is_attached(const struct plan *p, int slot)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->ops[i].slot == slot && p->ops[i].side == OP_SIDE_INIT)
			return true;
	return false;
}

static int send_mounts(struct box *b, struct err *err)
{
	struct wire w = {.type = WIRE_START};
	int fds[SOCK_FDS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < b->plan.n; i++) {
		const struct op *op = &b->plan.ops[i];
		bool makes = op->kind == OP_TREE || op->kind == OP_TMPFS || op->kind == OP_OVERLAY;

		if (op->side != OP_SIDE_HOST || !makes || b->apply.slots[op->slot] < 0)
			continue;
		if (!is_attached(&b->plan, op->slot))
			continue; /* a layer: its overlay holds it */
		/* What was parked in our namespace is cloned out of it, detached again. */
		if (b->apply.is_parked[op->slot]) {
			int fd = mount_clone(b->apply.slots[op->slot], "", 0, err);

			if (fd < 0)
				return fd;
			closep(&b->apply.slots[op->slot]);
			b->apply.slots[op->slot] = fd;
		}
		fds[n] = b->apply.slots[op->slot];
		w.start.slot[n++] = (int16_t)op->slot;
	}
	w.start.n = (uint32_t)n;
	memcpy(w.start.own_namespaces, b->own_namespaces, sizeof(b->own_namespaces));
	memcpy(w.start.box_namespaces, b->box_namespaces, sizeof(b->box_namespaces));
	w.start.limits = b->limits;
	return sock_send(b->init_fd, &w, sizeof(w), fds, n, err);
}

/* The store stays open here: what it holds at the end is the usage, and the copy-on-write layer. */
static void keep_store(struct box *b)
{
	if (b->plan.store_slot >= 0 && b->apply.slots[b->plan.store_slot] >= 0)
		b->store_fd = TAKE_FD(b->apply.slots[b->plan.store_slot]);
}

/*
 * While pid 1 works: our namespaces, and, as root, its own as seen from outside. A
 * user may not look: pid 1 is not dumpable, so the command's process tells. And the
 * limits of the leaf it was cloned into, or joins before anything else or not at all.
 */
static void read_outside(struct box *b)
{
	static uint64_t own[WIRE_NS_COUNT]; /* they are not left again */
	struct err ignored;

	if (b->cgroup && cgroup_read_limits(b->cgroup, &b->limits, &ignored) < 0)
		b->limits = (struct cgroup_limits){0};
	for (int i = 0; i < WIRE_NS_COUNT; i++) {
		if (own[i] == 0)
			own[i] = process_namespace(0, wire_namespace_names[i]);
		b->own_namespaces[i] = own[i];
		if (b->facts.is_host_root)
			b->box_namespaces[i] = process_namespace(b->pid, wire_namespace_names[i]);
	}
}

int box_populate(struct box *b, struct err *err)
{
	int r = b->late_join ? cgroup_join(b->cgroup, b->pid, err) : 0;

	if (r >= 0 && (b->plan.namespaces & CLONE_NEWUSER)) {
		char path[64];

		r = userns_write(b->pid, &b->plan.map, err);
		if (r < 0)
			return err_wrap(err, "wall 'ids'");
		if (b->facts.is_host_root) {
			(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", b->pid);
			b->apply.userns_fd = open(path, O_RDONLY | O_CLOEXEC);
			if (b->apply.userns_fd < 0)
				return err_sys(err, "open the box's user namespace");
		}
	}
	if (r >= 0) {
		mode_t mask = umask(0); /* the modes of a plan are meant as they are */

		r = apply_side(&b->apply, OP_SIDE_HOST, err);
		(void)umask(mask);
		b->failed = b->apply.failed;
		b->is_unmapped = b->apply.is_unmapped;
	}
	if (r >= 0) {
		read_outside(b);
		r = send_mounts(b, err);
	}
	if (r < 0)
		return r;
	/* This process lives on: so would what it parked, and the store among it. */
	if (b->o->resident)
		apply_unpark(&b->apply);
	keep_store(b);
	apply_done(&b->apply);
	return 0;
}

static void make_run_id(struct box_result *result)
{
	uint64_t random = 0;

	/* An id, not a secret: with no randomness left the clock will do. */
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = (uint64_t)time(NULL) << 16 ^ (uint64_t)getpid();
	(void)snprintf(result->run_id, sizeof(result->run_id), "%012llx",
		(unsigned long long)(random & 0xffffffffffffull));
}

static void report_held(const char *path, const char *moved_to, void *arg)
{
	struct box *b = arg;
	char quoted[200], instead[200];

	if (!moved_to) {
		violation_add(&b->result->violations, WALL_MASKS, "scan",
			text_quote(path, quoted, sizeof(quoted)),
			"more names than bawn looks at: look for '.git' and '.env' in it yourself");
		return;
	}
	(void)snprintf(instead, sizeof(instead),
		"it is kept in '%s'; --no-protect leaves such names alone", moved_to);
	violation_add(&b->result->violations, WALL_MASKS, "held",
		text_quote(path, quoted, sizeof(quoted)), instead);
}

int box_hold_back(struct box *b, struct err *err)
{
	AUTO_FREE char *state = NULL, *hold = NULL;
	int r;

	if (b->spec->walls[WALL_MASKS] == WALL_LEVEL_OFF || b->spec->no_protect)
		return 0;
	r = state_dir(&state, err);
	if (r < 0)
		return r;
	hold = text_format("%s/held/%s", state, b->result->run_id);
	return host_view_hold_back(&b->view, hold, report_held, b, err);
}

/* After the box is gone: nothing of it can change what we look at. */
static int keep_changes(struct box *b, struct err *err)
{
	AUTO_FD int upper = -EBADF;
	struct err why = {0};
	int r = 0;

	/* First what guards the host; that the changes could not be kept must not prevent it. */
	if (box_hold_back(b, &why) < 0) {
		*err = why;
		r = -why.code;
	}
	if (!b->plan.has_cow || b->store_fd < 0)
		return r;
	upper = openat(b->store_fd, "cow/u", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (upper < 0)
		return err_sys(err, "open what the run changed");
	return cow_keep(upper, b->spec->work_dir, b->result->run_id, b->plan.id_base,
		&b->result->changes, err);
}

/* Undo in reverse; every step also after a failure of an earlier one. */
int box_unmake(struct box *b, struct err *err)
{
	struct err first = {0}, why = {0};
	int status;

	if (b->pid > 0) {
		(void)process_signal(b->pidfd, SIGKILL, &why);
		closep(&b->init_fd);
		closep(&b->command_fd);
		closep(&b->listener_fd);
		while (waitpid(b->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (b->cgroup && cgroup_remove(b->cgroup, &first) < 0)
		(void)err_wrap(&first, "clean up");
	if (first.code) {
		*err = first;
		return -first.code;
	}
	return 0;
}

void box_done(struct box *b)
{
	int *fds[] = {&b->range_fd, &b->init_fd, &b->init_peer, &b->command_fd, &b->command_peer,
		&b->pidfd, &b->listener_fd, &b->master_fd, &b->store_fd, &b->signal_fd,
		&b->janitor_fd, &b->road.tcp_fd, &b->road.dns_fd};

	if (b->signal_fd >= 0)
		(void)sigprocmask(SIG_SETMASK, &b->old_mask, NULL);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		closep(fds[i]);
	apply_done(&b->apply);
	b->cgroup = cgroup_free(b->cgroup);
	plan_done(&b->plan);
	host_view_done(&b->view);
	plan_facts_done(&b->facts);
}

static int run_once(struct box *b, struct err *err)
{
	struct err undo = {0};
	int r = box_prepare(b, err);

	if (r >= 0)
		r = catch_signals(b, err);
	if (r >= 0)
		r = make_cgroup(b, err);
	if (r >= 0)
		r = box_clone(b, err);
	if (r >= 0) {
		r = box_populate(b, err);
		/* If the other half failed first, its reason is the one to tell. */
		if (r < 0)
			(void)supervise_collect_error(b, err);
	}
	if (r >= 0)
		r = supervise(b, err);
	if (b->o->road && b->has_road)
		b->o->road->close(&b->result->violations, b->o->road->arg);
	if (r >= 0)
		explain_end(b);
	if (box_unmake(b, &undo) < 0 && r >= 0) {
		*err = undo;
		r = -undo.code;
	}
	if (r >= 0)
		r = keep_changes(b, err);
	janitor_stop(b); /* last: until here it would do all this in our place */
	return r;
}

int box_refuse(const struct box *b, struct err *err)
{
	const char *name = b->failed >= 0 ? wall_name((enum wall)b->failed) : NULL;

	/* Only these leave a sandbox that still is one. */
	if (b->failed == WALL_LANDLOCK || b->failed == WALL_SECCOMP || b->failed == WALL_IDS)
		return err_hint(err, "%s; or accept a sandbox without it: --wall %s=preferred",
			wall_remedy((enum wall)b->failed), name);
	if (name)
		return err_hint(err, "'bawn doctor' says what this machine lacks");
	return -err->code;
}

int box_run(const struct spec *wanted, const struct box_options *o, struct box_result *result,
	struct err *err)
{
	static struct box box;      /* one at a time; large, and its children share it by fork */
	struct spec spec = *wanted; /* borrows all it points to */
	int r;

	/*
	 * A preferred wall that cannot be built is left out, and the whole is built again without
	 * it.
	 */
	for (;;) {
		box_init(&box, wanted, &spec, o, result);
		memset(result, 0, sizeof(*result));
		make_run_id(result);
		(void)clock_gettime(CLOCK_MONOTONIC, &box.started);
		r = run_once(&box, err);
		if (r < 0)
			(void)box_refuse(&box, err);
		box_done(&box);
		if (r >= 0 || box.failed < 0 || spec.walls[box.failed] != WALL_LEVEL_PREFERRED)
			return r;
		spec.walls[box.failed] = WALL_LEVEL_OFF;
		r = spec_validate(&spec, err);
		if (r < 0)
			return r;
	}
}

int box_plan(const struct spec *spec, const struct box_options *o, bool as_json, FILE *out,
	struct err *err)
{
	static struct box box;
	static struct box_result result;
	int r;

	box_init(&box, spec, spec, o, &result);
	r = box_prepare(&box, err);
	if (r >= 0)
		r = plan_print(&box.plan, as_json, out, err);
	box_done(&box);
	return r;
}
