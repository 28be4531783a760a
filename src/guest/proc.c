/* SPDX-License-Identifier: Apache-2.0 */

/* The life of a process: table, fork, exec's verdict, kill, reaping, forgetting. */
#include "guest/proc.h"

#include "base/mem.h"
#include "base/text.h"
#include "sys/pty.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define GRACE_MS   200
#define RINGS_FREE (8u << 20) /* ring memory that a new process finds free */

/* --- table --- */

struct proc *proc_by_key(struct guest *g, const char *key)
{
	for (struct proc *p = g->procs; p && key[0]; p = p->next)
		if (strcmp(p->start.key, key) == 0)
			return p;
	return NULL;
}

struct proc *proc_find(struct guest *g, const struct guest_which *which)
{
	struct proc *found = NULL;

	if (which->pid == 0 && which->key[0])
		return proc_by_key(g, which->key);
	/* Newest first; but the running one of a number that was used again. */
	for (struct proc *p = g->procs; p; p = p->next) {
		bool is_it = which->pid != 0
				     ? (uint32_t)p->pid == which->pid
				     : which->tag[0] && strcmp(p->start.tag, which->tag) == 0;

		if (is_it && p->state < PROC_EXITED)
			return p;
		if (is_it && !found)
			found = p;
	}
	return found;
}

static void unlist(struct proc *p)
{
	for (struct proc **at = &p->g->procs; *at; at = &(*at)->next) {
		if (*at == p) {
			*at = p->next;
			p->g->procs_n--;
			return;
		}
	}
}

static void proc_free(struct proc *p)
{
	struct guest *g = p->g;
	struct err gone = {.code = ESRCH, .msg = "the process was forgotten"};
	struct err err;

	unlist(p);
	proc_fail_readers(p, &gone);
	proc_input_end(p, ESRCH, "the process has exited");
	proc_kill_answer(p);
	for (int i = 0; i < PROC_STREAMS; i++) {
		proc_stream_close(&p->out[i]);
		ring_done(&p->out[i].ring);
	}
	if (p->exec_watch.fd >= 0) {
		(void)loop_watch_set(g->loop, &p->exec_watch, 0, &err);
		closep(&p->exec_watch.fd);
	}
	loop_timer_cancel(g->loop, &p->timeout);
	loop_timer_cancel(g->loop, &p->grace);
	loop_timer_cancel(g->loop, &p->forget);
	g->ring_bytes -= p->cost;
	guest_start_done(&p->start);
	free(p->cwd);
	free(p->user);
	free(p);
}

/* Freed after the batch: an event of it may still point at a watch. */
struct proc_grave {
	struct loop_task task;
	struct proc *p;
};

static void bury(struct loop_task *t)
{
	struct proc_grave *grave = OWNER_OF(t, struct proc_grave, task);

	proc_free(grave->p);
	free(grave);
}

static void free_later(struct proc *p)
{
	struct proc_grave *grave = MEM_NEW(struct proc_grave);

	unlist(p);
	grave->task.run = bury;
	grave->p = p;
	loop_defer(p->g->loop, &grave->task);
}

static size_t kept(const struct proc *p)
{
	size_t n = 0;

	for (int i = 0; i < PROC_STREAMS; i++)
		n += p->out[i].ring.size;
	return n;
}

/* The oldest ended process nobody reads; with_output: that keeps some. */
static struct proc *oldest_ended(struct guest *g, bool with_output)
{
	struct proc *oldest = NULL, *keyed = NULL;

	for (struct proc *p = g->procs; p; p = p->next) {
		if (p->state != PROC_ENDED || p->readers || (with_output && kept(p) == 0))
			continue;
		/* A key that is forgotten could be executed again: those go last. */
		if (p->start.key[0] && !with_output)
			keyed = p;
		else
			oldest = p;
	}
	return oldest ? oldest : keyed;
}

/* Old output goes before a new process is refused; how it ended stays known. */
static int make_room(struct guest *g, struct err *err)
{
	struct proc *oldest;

	while (g->ring_bytes > GUEST_RINGS_MAX - RINGS_FREE && (oldest = oldest_ended(g, true)))
		for (int i = 0; i < PROC_STREAMS; i++)
			ring_done(&oldest->out[i].ring);
	if (g->ring_bytes >= GUEST_RINGS_MAX)
		return err_set(err, EAGAIN, "the output of too many processes is kept");
	if (g->procs_n < GUEST_PROCS_MAX)
		return 0;
	oldest = oldest_ended(g, false);
	if (!oldest)
		return err_set(err, EAGAIN, "%d processes run already", GUEST_PROCS_MAX);
	proc_free(oldest); /* ended: no descriptor of it is in any batch */
	return 0;
}

/* --- signals --- */

/* The session of `sid`, by /proc: what left the group for one of its own is killed too. */
static void kill_session(pid_t sid)
{
	AUTO_DIR DIR *dir = opendir("/proc");
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		const char *name = e->d_name;
		uint64_t pid;

		if (text_scan_u64(&name, &pid) == 0 && *name == '\0' && getsid((pid_t)pid) == sid)
			(void)kill((pid_t)pid, SIGKILL);
	}
}

int proc_signal(struct proc *p, int sig, bool to_group, struct err *err)
{
	if (p->state >= PROC_EXITED)
		return err_set(err, ESRCH, "process with pid %d not found", p->pid);
	if (sig < 1 || sig >= NSIG)
		return err_set(err, EINVAL, "no signal has the number %d", sig);
	if (sig == SIGKILL)
		p->is_killed = true;
	if (kill(to_group ? -p->pid : p->pid, sig) < 0) {
		/* Between fork and setsid there is no group yet. */
		if (errno != ESRCH || !to_group || kill(p->pid, sig) < 0)
			return err_sys(err, "signal process %d", p->pid);
	}
	if (sig == SIGKILL && to_group)
		kill_session(p->pid);
	return 0;
}

static void timeout_fired(struct loop_timer *t)
{
	struct proc *p = OWNER_OF(t, struct proc, timeout);
	struct err err;

	if (p->state < PROC_EXITED) {
		p->exit.is_timed_out = 1;
		(void)proc_signal(p, SIGKILL, true, &err);
		return;
	}
	/* Only background children are left, and the time of their streams is up as well. */
	proc_drain_streams(p);
	proc_check_end(p);
}

/* --- the end --- */

static void forget_fired(struct loop_timer *t)
{
	proc_free(OWNER_OF(t, struct proc, forget));
}

static void grace_fired(struct loop_timer *t)
{
	struct proc *p = OWNER_OF(t, struct proc, grace);

	proc_drain_streams(p);
	proc_check_end(p);
}

void proc_check_end(struct proc *p)
{
	struct guest *g = p->g;

	if (p->state != PROC_EXITED)
		return;
	for (int i = 0; i < PROC_STREAMS; i++)
		if (p->out[i].watch.fd >= 0)
			return;
	p->state = PROC_ENDED;
	p->ended_ms = loop_now_ms(g->loop);
	for (int i = 0; i < PROC_STREAMS; i++) {
		p->exit.end[i] = p->out[i].ring.end;
		ring_shrink(&p->out[i].ring);
	}
	loop_timer_cancel(g->loop, &p->timeout);
	loop_timer_cancel(g->loop, &p->grace);
	loop_timer_set(g->loop, &p->forget, GUEST_REMEMBER_MS);
	proc_tell_readers(p);
}

static void set_exited(struct proc *p)
{
	p->state = PROC_EXITED;
	proc_kill_answer(p);
	proc_input_end(p, ESRCH, "the process has exited");
	if (p->is_killed)
		loop_timer_set(p->g->loop, &p->grace, GRACE_MS);
	proc_check_end(p);
}

void proc_reaped(struct proc *p, int status, const struct rusage *used)
{
	struct guest_exit *e = &p->exit;

	p->is_reaped = true;
	e->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	e->signal = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0;
	e->has_core = WIFSIGNALED(status) && WCOREDUMP(status);
	e->cpu_us = (uint64_t)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1000000 +
		    (uint64_t)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
	e->rss_peak = (uint64_t)used->ru_maxrss * 1024;
	e->wall_ms = loop_now_ms(p->g->loop) - p->began_ms;
	if (p->state == PROC_RUNNING)
		set_exited(p);
}

/* The child exec'd (end of file) or says why it could not. */
static void exec_ready(struct loop_watch *w, uint32_t events)
{
	struct proc *p = OWNER_OF(w, struct proc, exec_watch);
	struct err failure = {0}, err;
	ssize_t n = read(w->fd, &failure, sizeof(failure));

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	(void)loop_watch_set(p->g->loop, w, 0, &err);
	closep(&w->fd);
	if (n > 0) {
		failure.msg[sizeof(failure.msg) - 1] = '\0';
		if (n != (ssize_t)sizeof(failure) || failure.code <= 0)
			(void)err_set(&failure, EIO, "the process could not be started");
		p->state = PROC_ENDED;
		proc_fail_readers(p, &failure);
		free_later(p);
		return;
	}
	p->state = PROC_RUNNING;
	proc_tell_readers(p);
	if (p->is_reaped)
		set_exited(p);
}

/* --- the beginning --- */

static int pipe_pair(int *ret_read, int *ret_write, struct err *err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(err, "make a pipe");
	*ret_read = fds[0];
	*ret_write = fds[1];
	return 0;
}

static void set_nonblocking(int fd)
{
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

struct ends {
	int ours[3], theirs[3]; /* of 0, 1, 2; -EBADF where unused */
};

static void ends_close(struct ends *e)
{
	for (int i = 0; i < 3; i++) {
		closep(&e->ours[i]);
		closep(&e->theirs[i]);
	}
}

static int open_pty(const struct guest_start *s, struct ends *e, struct err *err)
{
	struct winsize size = {.ws_col = s->cols ? s->cols : 80, .ws_row = s->rows ? s->rows : 24};
	struct termios settings;
	int r = pty_open("/dev/pts", &e->ours[1], &e->theirs[0], err);

	if (r == -EACCES || r == -ENOENT) /* a devpts that is not the box's own */
		r = pty_open("/dev", &e->ours[1], &e->theirs[0], err);
	if (r < 0)
		return r;
	(void)ioctl(e->ours[1], TIOCSWINSZ, &size);
	if (tcgetattr(e->theirs[0], &settings) == 0) {
		settings.c_iflag |= IUTF8; /* erasing takes a character, not a byte */
		(void)tcsetattr(e->theirs[0], TCSANOW, &settings);
	}
	e->ours[0] = fcntl(e->ours[1], F_DUPFD_CLOEXEC, 3);
	if (e->ours[0] < 0)
		return err_sys(err, "the terminal's second descriptor");
	return 0;
}

static int open_pipes(const struct guest_start *s, struct ends *e, struct err *err)
{
	int r;

	if (s->flags & GUEST_START_STDIN)
		r = pipe_pair(&e->theirs[0], &e->ours[0], err);
	else {
		e->theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		r = e->theirs[0] < 0 ? err_sys(err, "open '/dev/null'") : 0;
	}
	for (int i = 1; i < 3 && r >= 0; i++)
		r = pipe_pair(&e->ours[i], &e->theirs[i], err);
	return r;
}

/* What the request says, or the bound one, or the home; only a requested one must be there. */
static int find_cwd(const struct guest *g, const struct guest_start *s, struct accounts *a,
	const struct account *user, char **ret, struct err *err)
{
	const char *bound = g->bind.cwd ? g->bind.cwd : "";
	char quoted[256];
	struct stat st;
	int r = account_path(a, user, s->cwd[0] ? s->cwd : bound, ret, err);

	if (r < 0)
		return r;
	if (stat(*ret, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	if (s->cwd[0])
		return err_set(err, EINVAL, "cwd '%s' does not exist",
			text_quote(*ret, quoted, sizeof(quoted)));
	free(*ret);
	*ret = mem_strdup("/");
	return 0;
}

static int fork_it(struct proc *p, struct proc_plan *plan, struct ends *e, struct err *err)
{
	int status_r = -EBADF, status_w = -EBADF;
	int r = pipe_pair(&status_r, &status_w, err);

	if (r < 0)
		return r;
	plan->status_fd = status_w;
	for (int i = 0; i < 3; i++)
		plan->stdio[i] = e->theirs[plan->is_pty ? 0 : i];
	p->pid = fork();
	if (p->pid == 0)
		proc_child(plan);
	(void)close(status_w);
	if (p->pid < 0) {
		r = err_sys(err, "fork");
		(void)close(status_r);
		return r;
	}
	set_nonblocking(status_r);
	p->exec_watch.fd = status_r;
	p->exec_watch.ready = exec_ready;
	r = loop_watch_set(p->g->loop, &p->exec_watch, EPOLLIN, err);
	if (r < 0)
		(void)kill(p->pid, SIGKILL);
	return r;
}

static void take_ends(struct proc *p, struct ends *e)
{
	bool is_pty = p->start.flags & GUEST_START_PTY;

	for (int i = 0; i < 3; i++)
		if (e->ours[i] >= 0)
			set_nonblocking(e->ours[i]);
	if (e->ours[0] >= 0)
		proc_input_open(p, TAKE_FD(e->ours[0]));
	proc_stream_open(p, is_pty ? GUEST_PTY : GUEST_STDOUT, TAKE_FD(e->ours[1]));
	if (!is_pty)
		proc_stream_open(p, GUEST_STDERR, TAKE_FD(e->ours[2]));
}

static struct proc *proc_create(struct guest *g)
{
	struct proc *p = MEM_NEW(struct proc);

	p->g = g;
	p->exec_watch.fd = p->in_watch.fd = -EBADF;
	p->timeout.fire = timeout_fired;
	p->grace.fire = grace_fired;
	p->forget.fire = forget_fired;
	for (int i = 0; i < PROC_STREAMS; i++) {
		p->out[i].proc = p;
		p->out[i].watch.fd = -EBADF;
		p->out[i].ring.budget = &g->ring_bytes;
	}
	return p;
}

static int start_as(struct proc *p, struct guest_start *start, struct accounts *a,
	const struct account *user, struct err *err)
{
	struct ends e = {{-EBADF, -EBADF, -EBADF}, {-EBADF, -EBADF, -EBADF}};
	struct proc_plan plan = {
		.start = start,
		.user = user,
		.is_pty = start->flags & GUEST_START_PTY,
		.files = p->g->files,
		.is_as_is = geteuid() != 0 || !account_is_mapped(user->uid),
	};
	int r = find_cwd(p->g, start, a, user, &p->cwd, err);

	if (r >= 0)
		r = plan.is_pty ? open_pty(start, &e, err) : open_pipes(start, &e, err);
	/* Programs open their terminal by name too: the guest would not let the user. */
	if (r >= 0 && plan.is_pty && !plan.is_as_is)
		(void)fchown(e.theirs[0], user->uid, (gid_t)-1);
	if (r >= 0) {
		plan.cwd = p->cwd;
		plan.env = proc_environment(p->g, start, user);
		r = fork_it(p, &plan, &e, err);
		frame_free_strings(plan.env);
	}
	if (r >= 0) {
		p->user = mem_strdup(user->name);
		p->start = *start;
		*start = (struct guest_start){0};
		take_ends(p, &e);
	}
	ends_close(&e);
	return r;
}

int proc_start(
	struct guest *g, struct guest_start *start, size_t cost, struct proc **ret, struct err *err)
{
	const char *who = start->user[0] ? start->user : g->bind.user;
	struct accounts a = {0};
	struct account user = {0};
	struct timespec now;
	struct proc *p;
	char own[16];
	int r = make_room(g, err);

	if (r < 0)
		return r;
	(void)snprintf(own, sizeof(own), "%u", geteuid());
	r = account_find(&a, who && who[0] ? who : own, &user, err);
	if (r < 0) {
		accounts_done(&a);
		return r;
	}
	p = proc_create(g);
	r = start_as(p, start, &a, &user, err);
	account_done(&user);
	accounts_done(&a);
	if (r < 0) {
		closep(&p->exec_watch.fd);
		free(p->cwd);
		free(p);
		return r;
	}
	(void)clock_gettime(CLOCK_REALTIME, &now);
	p->started_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	p->began_ms = loop_now_ms(g->loop);
	p->cost = cost;
	g->ring_bytes += cost;
	p->next = g->procs;
	g->procs = p;
	g->procs_n++;
	if (p->start.timeout_ms > 0)
		loop_timer_set(g->loop, &p->timeout, p->start.timeout_ms);
	*ret = p;
	return 0;
}
