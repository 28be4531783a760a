/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_box - one sandbox for a batch of attacks, in a child process of the driver.
 *
 * The child calls box_run() and shares its result by memory; the program in the
 * box is a sealed copy of this one and reports through a pipe. What comes out of
 * that pipe is from inside a sandbox under attack: fixed-size records, each field checked.
 */
#include "base/mem.h"
#include "cli/attack.h"
#include "sys/cgroup.h"
#include "sys/kernel_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define START_MS 20000  /* until a sandbox must have started */
#define BATCH_MS 120000 /* until a batch must be through */

/* Written by the child, read by the driver once the child has ended. */
struct shared {
	bool is_done;
	int r;
	struct err err;
	struct box_result result;
};

struct attack_box {
	struct shared *shared;
	pid_t pid;
	int pidfd;
	int report_fd; /* read end */
	int ready_fd;  /* read end: the host pid, once */
	int hold_fd;   /* write end: closing it lets the box go */
};

int attack_box_program(struct err *err)
{
	AUTO_FD int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	AUTO_FD int fd = memfd_create("bawn", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	struct stat st;
	off_t done = 0;

	/* COMPAT(6.3): older kernels do not know MFD_EXEC, and need not. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("bawn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (self < 0 || fd < 0 || fstat(self, &st) < 0)
		return err_sys(err, "copy this program");
	while (done < st.st_size)
		if (sendfile(fd, self, &done, (size_t)(st.st_size - done)) <= 0)
			return err_sys(err, "copy this program");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_sys(err, "seal the copy of this program");
	return TAKE_FD(fd);
}

static int context_fd(const struct attack_ctx *c, struct err *err)
{
	AUTO_FD int fd = memfd_create("bawn-attack", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, c, sizeof(*c)) != (ssize_t)sizeof(*c))
		return err_sys(err, "write the attack's context");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_sys(err, "seal the attack's context");
	return TAKE_FD(fd);
}

void attack_box_limits(struct spec_limits *ret)
{
	*ret = (struct spec_limits){
		.memory_max = 256u << 20,
		.cpu_milli = 1000,
		.pids_max = 128,
		.disk_max = 64u << 20,
		.open_files = 256,
		.kill_after_ms = 1000,
	};
}

static int add_command(struct spec *s, const struct attack_ctx *c, struct err *err)
{
	char fd[16];
	int r;

	(void)snprintf(fd, sizeof(fd), "%d", c->ctx_fd);
	r = strv_add(&s->argv, "bawn", err);
	if (r >= 0)
		r = strv_add(&s->argv, "__attack", err);
	if (r >= 0)
		r = strv_add(&s->argv, fd, err);
	return r;
}

/* Limits are preferred: where the machine cannot give one, its attacks say so by succeeding. */
static void set_limits(struct spec *s)
{
	static const enum wall limits[] = {WALL_MEMORY, WALL_CPU, WALL_PIDS, WALL_DISK};

	unsigned controllers = 0;

	attack_box_limits(&s->limits);
	/* What stands in for a quota makes a box wait for everybody: only the hogs get that. */
	if (cgroup_detect(&controllers) == CGROUP_NONE || !(controllers & CGROUP_CPU))
		s->limits.cpu_milli = 0;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		s->walls[limits[i]] = WALL_LEVEL_PREFERRED;
}

static int build_spec(struct spec *s, const struct attack_setup *setup, const struct attack_ctx *c,
	const struct attack_cast *cast, struct err *err)
{
	int r;

	spec_init(s);
	s->root = cast->flags & ATTACK_HOST_VIEW ? SPEC_ROOT_HOST : setup->root;
	set_limits(s);
	s->hostname = mem_strdup("attack-box");
	if (cast->flags & ATTACK_AS_ROOT)
		s->user = mem_strdup("root");
	s->cwd = mem_strdup(s->root == SPEC_ROOT_HOST ? c->shared : "/tmp");
	s->work_dir = mem_strdup(c->shared);
	r = spec_add_path(s, SPEC_PATH_RW, c->shared, "/", err);
	if (r >= 0)
		r = add_command(s, c, err);
	if (r >= 0 && cast->tune)
		cast->tune(s);
	for (size_t i = 0; r >= 0 && i < setup->walls_n; i++)
		r = spec_set_wall(s, setup->walls[i], err);
	/* A user namespace may mount a fresh /proc only for a pid namespace of its own. */
	if (r >= 0 && s->walls[WALL_PID] == WALL_LEVEL_OFF && !s->walls_set[WALL_PROC])
		s->walls[WALL_PROC] = WALL_LEVEL_OFF;
	s->want_road = cast->flags & ATTACK_ROAD && s->walls[WALL_NET] != WALL_LEVEL_OFF;
	if (r >= 0 && s->walls[WALL_TIME] == WALL_LEVEL_OFF)
		s->limits.timeout_ms = 0;
	return r < 0 ? r : spec_validate(s, err);
}

static void tell_ready(pid_t pid, void *arg)
{
	int *fd = arg;

	/* The driver has a time limit on this, and closing the pipe ends its wait. */
	if (write(*fd, &pid, sizeof(pid)) < 0)
		closep(fd);
}

static _Noreturn void child_main(struct shared *shared, const struct attack_setup *setup,
	const struct attack_ctx *c, const struct attack_cast *cast, int stdin_fd, int ready_fd)
{
	char home[ATTACK_PATH_SIZE + 8], path[] = "PATH=/usr/bin:/bin";
	char *env[] = {path, home, NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[] = {c->report_fd, c->ctx_fd, c->hold_fd};
	struct box_options o;
	struct spec spec = {0};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* With --wall fds=off nobody else would let them through. */
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		(void)fcntl(fds[i], F_SETFD, 0);
	(void)snprintf(home, sizeof(home), "HOME=%s", c->home);
	box_options_init(&o);
	o.stdio[0] = stdin_fd;
	o.stdio[1] = o.stdio[2] = null;
	o.exec_fd = setup->exec_fd;
	o.pass_fds = fds;
	o.pass_fds_n = sizeof(fds) / sizeof(fds[0]);
	o.environ = env;
	o.want_explain = false;
	o.road = &attack_road;
	o.started = tell_ready;
	o.arg = &ready_fd;
	shared->r = build_spec(&spec, setup, c, cast, &shared->err);
	if (shared->r >= 0)
		shared->r = box_run(&spec, &o, &shared->result, &shared->err);
	if (shared->r >= 0 && shared->result.exec_error.code) {
		shared->err = shared->result.exec_error;
		shared->r = -shared->err.code;
	}
	shared->is_done = true;
	spec_done(&spec);
	_exit(0);
}

static int make_pipes(int report[2], int ready[2], int hold[2], struct err *err)
{
	report[0] = report[1] = ready[0] = ready[1] = hold[0] = hold[1] = -EBADF;
	if (pipe2(report, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0 ||
		pipe2(hold, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	return 0;
}

int attack_box_open(const struct attack_setup *setup, const struct attack_stage *stage,
	const struct attack_ctx *ctx, const struct attack_cast *cast, struct attack_box **ret,
	struct err *err)
{
	AUTO(attack_box_close) struct attack_box *b = MEM_NEW(struct attack_box);
	int report[2], ready[2], hold[2];
	AUTO_FD int ctx_fd = -EBADF;
	struct attack_ctx c = *ctx;
	int stdin_fd =
		cast->flags & ATTACK_TTY ? attack_stage_tty(stage) : attack_stage_stdin(stage);
	int r = make_pipes(report, ready, hold, err);

	b->report_fd = report[0];
	b->ready_fd = ready[0];
	b->hold_fd = hold[1];
	b->pidfd = -EBADF;
	if (r < 0)
		goto undo_pipes;
	c.role = (int32_t)cast->role;
	c.n = (uint32_t)cast->n;
	for (size_t i = 0; i < cast->n && i < ATTACK_BATCH_MAX; i++)
		c.index[i] = cast->index[i];
	c.report_fd = report[1];
	c.hold_fd = hold[0];
	/* Its own number is in it: the copy lands on the number that the original takes now. */
	ctx_fd = fcntl(hold[0], F_DUPFD_CLOEXEC, 3);
	c.ctx_fd = ctx_fd;
	closep(&ctx_fd);
	ctx_fd = context_fd(&c, err);
	if (ctx_fd != c.ctx_fd) {
		r = ctx_fd < 0 ? ctx_fd : err_set(err, EBUSY, "descriptor %d was taken", c.ctx_fd);
		goto undo_pipes;
	}
	b->shared = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->shared == MAP_FAILED) {
		b->shared = NULL;
		r = err_sys(err, "map memory for a result");
		goto undo_pipes;
	}
	b->pid = fork();
	if (b->pid == 0) {
		closep(&b->hold_fd);
		child_main(b->shared, setup, &c, cast, stdin_fd, ready[1]);
	}
	if (b->pid < 0)
		r = err_sys(err, "fork");
	else
		b->pidfd = (int)syscall(SYS_pidfd_open, b->pid, 0);
undo_pipes:
	closep(&report[1]);
	closep(&ready[1]);
	closep(&hold[0]);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(b);
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* 1 if fd is readable, 0 if the child ended first or the time is up. */
static int wait_for(const struct attack_box *b, int fd, uint64_t deadline)
{
	for (;;) {
		struct pollfd p[] = {
			{.fd = fd, .events = POLLIN}, {.fd = b->pidfd, .events = POLLIN}};
		uint64_t now = now_ms();
		int n = now >= deadline ? 0 : poll(p, 2, (int)(deadline - now));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		if (p[0].revents & POLLIN)
			return 1;
		if (p[0].revents || p[1].revents)
			return 0;
	}
}

/* Reap; a child that will not end is killed, and its janitor cleans up. */
static void reap(struct attack_box *b, uint64_t deadline)
{
	struct pollfd p = {.fd = b->pidfd, .events = POLLIN};
	uint64_t now = now_ms();

	if (b->pid <= 0)
		return;
	while (poll(&p, 1, now >= deadline ? 0 : (int)(deadline - now)) < 0 && errno == EINTR)
		now = now_ms();
	if (!(p.revents & POLLIN))
		(void)kill(b->pid, SIGKILL);
	while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	b->pid = 0;
}

static int outcome(struct attack_box *b, struct err *err)
{
	if (!b->shared->is_done)
		return err_set(err, ETIMEDOUT, "the sandbox did not end in time");
	if (b->shared->r < 0)
		*err = b->shared->err;
	return b->shared->r;
}

int attack_box_wait_ready(struct attack_box *b, pid_t *ret, struct err *err)
{
	uint64_t deadline = now_ms() + START_MS;
	struct attack_report r;
	pid_t pid = 0;

	if (wait_for(b, b->ready_fd, deadline) == 1 &&
		read(b->ready_fd, &pid, sizeof(pid)) == (ssize_t)sizeof(pid) &&
		wait_for(b, b->report_fd, deadline) == 1 &&
		read(b->report_fd, &r, sizeof(r)) == (ssize_t)sizeof(r)) {
		*ret = pid;
		return 0;
	}
	reap(b, deadline);
	if (outcome(b, err) >= 0)
		return err_set(err, ECHILD, "the sandbox ended early with status %d",
			b->shared->result.exit_status);
	return -err->code;
}

int attack_box_collect(struct attack_box *b, struct attack_report *reports, size_t reports_n,
	struct box_result *ret, struct err *err)
{
	uint64_t deadline = now_ms() + BATCH_MS;
	int r;

	while (wait_for(b, b->report_fd, deadline) == 1) {
		struct attack_report report;

		if (read(b->report_fd, &report, sizeof(report)) != (ssize_t)sizeof(report))
			break;
		if (report.index < 0 || (size_t)report.index >= reports_n ||
			report.verdict < ATTACK_ABSENT || report.verdict > ATTACK_BROKE)
			continue;
		report.text[sizeof(report.text) - 1] = '\0';
		reports[report.index] = report;
	}
	closep(&b->hold_fd);
	reap(b, deadline);
	r = outcome(b, err);
	if (r >= 0)
		*ret = b->shared->result;
	return r;
}

struct attack_box *attack_box_close(struct attack_box *b)
{
	if (!b)
		return NULL;
	closep(&b->hold_fd);
	reap(b, now_ms() + 5000);
	closep(&b->report_fd);
	closep(&b->ready_fd);
	closep(&b->pidfd);
	if (b->shared)
		(void)munmap(b->shared, sizeof(*b->shared));
	free(b);
	return NULL;
}
