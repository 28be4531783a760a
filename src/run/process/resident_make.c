/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/resident_make - a resident sandbox from its spec until its guest runs.
 *
 *              begin                 READY, then the guest is exec'd
 *   (nothing) -------> COMING_UP -------------------------------------> made(spare)
 *               ^          | an error, 10 s, pid 1 is dead
 *               |          v           pid 1 is over
 *               +------- DYING --------------------------------------> made(NULL)
 *                 without a preferred wall
 *
 * M1  Preparing, cloning and mounting are done at once; everything that the box does meanwhile is
 *     waited for in the loop, so that several come up together.
 * M2  What a dead box said last is heard before its death.
 * M3  made() is called once, from the loop, unless the making was abandoned.
 *
 * Runs in: the warden.
 */
#include "base/mem.h"
#include "base/own.h"
#include "run/process/resident.h"
#include "run/process/resident_impl.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define START_MS 10000 /* a box that is not up by then is stuck in the kernel */
#define GUEST_FD 3     /* where the guest finds its listening socket */

static int guest_fd = -EBADF;

enum making_state { COMING_UP, DYING, FINISHED };

struct provider_making {
	struct loop *loop;
	enum making_state state;
	struct spec wanted;
	struct spec spec; /* the same, less walls that could not be built; borrows all */
	char id[PROVIDER_ID_MAX], leaf[RESIDENT_LEAF_MAX];
	int listen_fd;
	struct box_options o;
	struct box box;
	struct resident_plan *plan; /* the box's is lent from it */
	struct wall_record walls[WALL_COUNT];
	struct err err;
	bool is_ready;   /* walls on and verified */
	bool is_running; /* the guest has been exec'd */
	struct loop_watch command, init, pid;
	struct loop_timer timer;
	struct loop_task step; /* DYING, and there is no pid 1 to wait for */
	struct loop_task free;
	provider_made_fn made;
	void *arg;
};

void resident_use_guest(int exec_fd)
{
	guest_fd = exec_fd;
}

/* ---- what the box says ---- */

static int on_error(struct provider_making *m, const struct wire *w)
{
	m->err = w->err;
	m->box.failed = w->wall;
	return w->err.code ? -w->err.code : err_set(&m->err, EPROTO, "an error without a code");
}

static int on_command(struct provider_making *m)
{
	struct box *b = &m->box;
	struct wire w = {0};
	size_t no_fds = 0;
	ssize_t n = sock_receive(b->command_fd, &w, sizeof(w), NULL, &no_fds, &m->err);
	int r;

	if (n < 0)
		return (int)n;
	if (n == sizeof(w) && w.type == WIRE_ERR)
		return on_error(m, &w);
	if (n == sizeof(w) && w.type == WIRE_READY && !m->is_ready) {
		/* The command's process has judged them; the same here fills the record. */
		b->readback = w.readback;
		m->is_ready = true;
		r = verify_walls(b, &m->err);
		memcpy(m->walls, b->result->walls, sizeof(m->walls));
		return r;
	}
	/* End of file: execve() closed it, or the process died and pid 1 will end. */
	(void)loop_watch_set(m->loop, &m->command, 0, &m->err);
	closep(&b->command_fd);
	m->is_running = m->is_ready;
	return 0;
}

static int on_init(struct provider_making *m)
{
	struct box *b = &m->box;
	struct wire w = {0};
	int fds[3] = {-EBADF, -EBADF, -EBADF};
	size_t fds_n = 3;
	ssize_t n = sock_receive(b->init_fd, &w, sizeof(w), fds, &fds_n, &m->err);

	/* The road, if it has one, comes last. */
	if (n == sizeof(w) && w.type == WIRE_BOX && (w.number & 4) && fds_n >= 2) {
		b->road.tcp_fd = TAKE_FD(fds[fds_n - 2]);
		b->road.dns_fd = TAKE_FD(fds[fds_n - 1]);
	}
	/* A user's pid 1 hands over its store, for `bawn run` to look at. */
	for (size_t i = 0; i < 3; i++)
		closep(&fds[i]);
	if (n < 0)
		return (int)n;
	if (n == sizeof(w) && w.type == WIRE_ERR)
		return on_error(m, &w);
	if (n != sizeof(w) || w.type == WIRE_EXIT) {
		(void)loop_watch_set(m->loop, &m->init, 0, &m->err);
		closep(&b->init_fd);
	}
	return 0;
}

/* All that can be heard now, M2. 0: there is more to come; 1: its guest runs. */
static int hear(struct provider_making *m)
{
	struct box *b = &m->box;
	int r = 0;

	while (r >= 0 && !m->is_running) {
		struct pollfd p[3] = {
			{.fd = b->command_fd, .events = POLLIN},
			{.fd = b->init_fd, .events = POLLIN},
			{.fd = b->pidfd, .events = POLLIN},
		};

		r = poll(p, 3, 0);
		if (r < 0 && errno != EINTR)
			return err_sys(&m->err, "poll");
		if (r == 0)
			return 0;
		if (r < 0)
			r = 0;
		/* What pid 1 hands over it sent before there was a command. */
		else if (p[1].revents)
			r = on_init(m);
		else if (p[0].revents)
			r = on_command(m);
		else if (p[2].revents)
			r = err_set(&m->err, ECHILD, "the sandbox died before its guest ran");
	}
	return r < 0 ? r : 1;
}

/* ---- the states ---- */

static void free_making(struct loop_task *t)
{
	free((char *)t - offsetof(struct provider_making, free));
}

static void stop_watching(struct provider_making *m)
{
	struct err ignored;

	(void)loop_watch_set(m->loop, &m->command, 0, &ignored);
	(void)loop_watch_set(m->loop, &m->init, 0, &ignored);
	(void)loop_watch_set(m->loop, &m->pid, 0, &ignored);
	loop_timer_cancel(m->loop, &m->timer);
}

static void finish(struct provider_making *m)
{
	stop_watching(m);
	m->state = FINISHED;
	resident_plan_return(TAKE_PTR(m->plan), &m->box);
	box_done(&m->box);
	spec_done(&m->wanted);
	closep(&m->listen_fd);
	loop_defer(m->loop, &m->free);
}

static int fill_record(const struct provider_making *m, struct provider_record *ret, struct err *e)
{
	struct provider_record rec = {.tier = "process", .pid = m->box.pid};
	const char *boot_id = resident_boot_id(e);

	if (!boot_id)
		return -e->code;
	(void)snprintf(rec.id, sizeof(rec.id), "%s", m->id);
	(void)snprintf(rec.boot_id, sizeof(rec.boot_id), "%s", boot_id);
	if (m->box.cgroup)
		(void)snprintf(rec.cgroup, sizeof(rec.cgroup), "%s", cgroup_name(m->box.cgroup));
	rec.pid_start = process_start_time(m->box.pid);
	*ret = rec;
	return rec.pid_start ? 0 : err_set(e, ECHILD, "the sandbox died before its guest ran");
}

static int make_spare(struct provider_making *m, struct provider_spare **ret)
{
	struct provider_record rec;
	struct provider_spare *p;
	int r = fill_record(m, &rec, &m->err);

	if (r >= 0 && m->spec.want_road && m->box.road.tcp_fd < 0)
		r = err_set(&m->err, EPROTO, "the sandbox's road did not come out");
	if (r < 0)
		return r;
	p = MEM_NEW(struct provider_spare);
	p->rec = rec;
	p->init_fd = TAKE_FD(m->box.init_fd);
	p->pidfd = TAKE_FD(m->box.pidfd);
	p->road = m->box.road;
	m->box.road = (struct road){-EBADF, -EBADF};
	*ret = p;
	return 0;
}

/* What is to be undone waits for the end of pid 1, which takes all the rest with it. */
static void die(struct provider_making *m)
{
	struct err ignored;

	(void)box_refuse(&m->box, &m->err);
	stop_watching(m);
	m->state = DYING;
	if (m->box.pid > 0 && m->box.pidfd >= 0 &&
		process_signal(m->box.pidfd, SIGKILL, &ignored) >= 0 &&
		loop_watch_set(m->loop, &m->pid, EPOLLIN, &ignored) >= 0)
		return;
	loop_defer(m->loop, &m->step);
}

static void step_up(struct provider_making *m)
{
	struct provider_spare *spare = NULL;
	int r = m->state == COMING_UP ? hear(m) : 0;

	if (m->state != COMING_UP || r == 0)
		return;
	/* It hands over both descriptors: not watched any more by then. */
	if (r > 0)
		stop_watching(m);
	if (r > 0)
		r = make_spare(m, &spare);
	if (r < 0) {
		die(m);
		return;
	}
	finish(m);
	m->made(spare, m->walls, &m->err, m->arg);
}

static int watch(struct provider_making *m, struct err *err)
{
	int r;

	m->command.fd = m->box.command_fd;
	m->init.fd = m->box.init_fd;
	m->pid.fd = m->box.pidfd;
	r = loop_watch_set(m->loop, &m->command, EPOLLIN, err);
	if (r >= 0)
		r = loop_watch_set(m->loop, &m->init, EPOLLIN, err);
	if (r >= 0)
		r = loop_watch_set(m->loop, &m->pid, EPOLLIN, err);
	loop_timer_set(m->loop, &m->timer, START_MS);
	return r;
}

static int start(struct provider_making *m)
{
	struct box *b = &m->box;
	int r;

	m->plan = resident_plan_take(b, loop_now_ms(m->loop), &m->err);
	r = m->plan ? 0 : -m->err.code;
	(void)sigemptyset(&b->old_mask); /* what the guest gets; ours is the event loop's */
	if (r >= 0 && b->plan.want_cgroup)
		r = cgroup_create_named(m->leaf, &b->plan.cgroup_limits, b->plan.cgroup_required,
			&b->cgroup, &m->err);
	if (r >= 0)
		r = box_clone(b, &m->err);
	if (r >= 0) {
		r = box_populate(b, &m->err);
		/* If the other half failed first, its reason is the one to tell. */
		if (r < 0)
			(void)supervise_collect_error(b, &m->err);
	}
	return r < 0 ? r : watch(m, &m->err);
}

static void set_options(struct provider_making *m)
{
	static const int as[] = {GUEST_FD};
	static char *no_environment[] = {NULL};

	m->o = (struct box_options){
		.stdio = {-EBADF, -EBADF, -EBADF}, /* /dev/null */
		.exec_fd = guest_fd,
		.pass_fds = &m->listen_fd,
		.pass_as = as,
		.pass_fds_n = 1,
		.environ = no_environment,
		.resident = m->leaf,
	};
}

static void start_over(struct provider_making *m)
{
	static struct box_result result; /* each takes its walls out of it at once */

	m->err = (struct err){0};
	m->is_ready = m->is_running = false;
	m->state = COMING_UP;
	box_init(&m->box, &m->wanted, &m->spec, &m->o, &result);
	if (start(m) < 0)
		die(m);
}

/* Pid 1 is over: clean up, and try without a wall that is only preferred. */
static void step_down(struct provider_making *m)
{
	struct err why = m->err, undo = {0};
	int failed = m->box.failed;

	stop_watching(m);
	(void)box_unmake(&m->box, &undo); /* what is left goes with a later stop() */
	resident_plan_return(TAKE_PTR(m->plan), &m->box);
	box_done(&m->box);
	if (failed >= 0 && m->spec.walls[failed] == WALL_LEVEL_PREFERRED) {
		m->spec.walls[failed] = WALL_LEVEL_OFF;
		if (spec_validate(&m->spec, &why) >= 0) {
			start_over(m);
			return;
		}
	}
	finish(m);
	m->made(NULL, m->walls, &why, m->arg);
}

/* ---- from the loop ---- */

static void on_step(struct loop_task *t)
{
	struct provider_making *m = (void *)((char *)t - offsetof(struct provider_making, step));

	/* Else it was abandoned meanwhile. */
	if (m->state == DYING)
		step_down(m);
}

static void on_command_ready(struct loop_watch *w, uint32_t events)
{
	(void)events;
	step_up((void *)((char *)w - offsetof(struct provider_making, command)));
}

static void on_init_ready(struct loop_watch *w, uint32_t events)
{
	(void)events;
	step_up((void *)((char *)w - offsetof(struct provider_making, init)));
}

static void on_pid_ready(struct loop_watch *w, uint32_t events)
{
	struct provider_making *m = (void *)((char *)w - offsetof(struct provider_making, pid));

	(void)events;
	if (m->state == DYING)
		step_down(m);
	else
		step_up(m);
}

static void on_timer(struct loop_timer *t)
{
	struct provider_making *m = (void *)((char *)t - offsetof(struct provider_making, timer));

	(void)err_set(&m->err, ETIMEDOUT, "the sandbox was not up in %d s", START_MS / 1000);
	die(m);
}

/* ---- the provider's side ---- */

struct provider_making *resident_begin(struct loop *l, struct spec *take, const char *id,
	int take_listen_fd, provider_made_fn made, void *arg)
{
	struct provider_making *m = MEM_NEW(struct provider_making);

	m->loop = l;
	m->wanted = *take;
	memset(take, 0, sizeof(*take));
	m->spec = m->wanted;
	m->listen_fd = take_listen_fd;
	m->made = made;
	m->arg = arg;
	(void)snprintf(m->id, sizeof(m->id), "%s", id);
	resident_leaf(id, m->leaf);
	set_options(m);
	box_init(&m->box, &m->wanted, &m->spec, &m->o, NULL);
	m->command.ready = on_command_ready;
	m->init.ready = on_init_ready;
	m->pid.ready = on_pid_ready;
	m->command.fd = m->init.fd = m->pid.fd = -EBADF;
	m->timer.fire = on_timer;
	m->step.run = on_step;
	m->free.run = free_making;
	start_over(m);
	return m;
}

int resident_abandon(struct provider_making *m, struct provider_record *ret)
{
	int pidfd = TAKE_FD(m->box.pidfd);
	struct err ignored;

	*ret = (struct provider_record){.tier = "process"};
	(void)snprintf(ret->id, sizeof(ret->id), "%s", m->id);
	if (pidfd >= 0) {
		(void)fill_record(m, ret, &ignored);
		(void)process_signal(pidfd, SIGKILL, &ignored);
	}
	finish(m);
	return pidfd;
}
