/* SPDX-License-Identifier: Apache-2.0 */

/*
 * bawn-guest: a listening unix socket on descriptor 3, no arguments.
 *
 * Accepts, hands requests to their functions, reaps whatever dies, and gives memory back when
 * nothing happens: a thousand idle boxes pay for every page a guest holds.
 */
#include "guest/guest.h"
#include "guest/proc.h"
#include "guest/worker.h"

#include "base/mem.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LISTEN_FD       3
#define CONNECTIONS_MAX 64
#define IDLE_MS         5000
#define MMAP_FROM       (64 << 10) /* allocations of this size go back to the kernel when freed */

struct program {
	struct guest guest;
	struct loop_watch listener;
	size_t connections;
};

static request_fn *const requests[] = {
	[GUEST_BIND] = bind_request,
	[GUEST_START] = start_request,
	[GUEST_ATTACH] = attach_request,
	[GUEST_PROCESSES] = processes_request,
	[GUEST_INPUT] = input_request,
	[GUEST_CLOSE_INPUT] = close_input_request,
	[GUEST_SIGNAL] = signal_request,
	[GUEST_RESIZE] = resize_request,
	[GUEST_STAT] = stat_request,
	[GUEST_LIST] = list_request,
	[GUEST_MKDIR] = mkdir_request,
	[GUEST_MOVE] = move_request,
	[GUEST_REMOVE] = remove_request,
	[GUEST_READ] = read_request,
	[GUEST_WRITE] = write_request,
	[GUEST_WATCH] = watch_request,
	[GUEST_PORT] = port_request,
	[GUEST_USAGE] = usage_request,
	[GUEST_PING] = ping_request,
	[GUEST_ENVS] = envs_request,
};

void request_ok(struct request *q)
{
	mux_reply(q->mux, q->id, MSG_OK, NULL);
}

void request_fail(struct request *q, const struct err *err)
{
	mux_refuse(q->mux, q->id, err->code, err->msg);
}

void request_malformed(struct request *q)
{
	mux_refuse(q->mux, q->id, EPROTO, "the request is malformed");
}

/* --- memory --- */

static void trim(struct loop_timer *t)
{
	struct guest *g = OWNER_OF(t, struct guest, trim);
	uint64_t idle = loop_now_ms(g->loop) - g->active_ms;

	if (idle < IDLE_MS) {
		loop_timer_set(g->loop, t, IDLE_MS - idle);
		return;
	}
	free(g->scratch);
	g->scratch = NULL;
	conn_give_back();
	(void)malloc_trim(0);
}

void guest_active(struct guest *g)
{
	g->active_ms = loop_now_ms(g->loop);
	if (g->trim.slot == 0)
		loop_timer_set(g->loop, &g->trim, IDLE_MS);
}

char *guest_scratch(struct guest *g)
{
	if (!g->scratch)
		g->scratch = mem_must(malloc(GUEST_SCRATCH));
	return g->scratch;
}

/* --- connections --- */

static void opened(struct mux *m, uint32_t id, uint16_t kind, struct frame_reader *body, void *arg)
{
	struct program *program = arg;
	struct request q = {.g = &program->guest, .mux = m, .id = id};

	/* Being measured is not being used. */
	if (kind != GUEST_USAGE && kind != GUEST_PING)
		guest_active(&program->guest);
	if (kind < sizeof(requests) / sizeof(requests[0]) && requests[kind])
		requests[kind](&q, body);
	else
		mux_refuse(m, id, EOPNOTSUPP, "this guest does not know the request");
}

static void closed(struct mux *m, const struct err *why, void *arg)
{
	struct program *program = arg;

	(void)m, (void)why;
	program->connections--;
}

static const struct mux_owner owner = {.opened = opened, .closed = closed};

static void listener_ready(struct loop_watch *w, uint32_t events)
{
	struct program *program = OWNER_OF(w, struct program, listener);
	struct mux *m;
	struct err err;
	int fd;

	(void)events;
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	while ((fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (program->connections >= CONNECTIONS_MAX) {
			(void)close(fd);
			continue;
		}
		if (mux_create(program->guest.loop, fd, false, &owner, program, &m, &err) >= 0)
			program->connections++;
	}
}

/* --- children --- */

void guest_reaped(struct guest *g, pid_t pid, int status, const struct rusage *used)
{
	struct proc *p = g->procs;

	g->reaped_cpu_us += (uint64_t)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1000000 +
			    (uint64_t)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
	while (p && (p->pid != pid || p->is_reaped))
		p = p->next;
	if (p)
		proc_reaped(p, status, used);
}

static void signal_got(int sig, void *arg)
{
	struct guest *g = arg;
	struct rusage used;
	int status;
	pid_t pid;

	(void)sig;
	while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0)
		guest_reaped(g, pid, status, &used);
}

/* --- start --- */

/* Best effort: without the right to it the children make themselves the better choice. */
static void spare_from_oom(void)
{
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)write(fd, "-900", 4);
}

static void set_up_memory(void)
{
	/* Fixed: glibc would raise the first by itself after a large free, and then keep memory. */
	(void)mallopt(M_MMAP_THRESHOLD, MMAP_FROM);
	(void)mallopt(M_TRIM_THRESHOLD, MMAP_FROM);
	(void)mallopt(M_TOP_PAD, 0);
}

/* A descriptor or four per process, one per relayed connection; the children get the old limit. */
static void raise_files(struct guest *g)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &g->files) < 0)
		return;
	most = g->files;
	most.rlim_cur = most.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &most);
}

/* `kill -TERM -1` by root of the box is meant for his programs. */
static void ignore_signals(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1,
		SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void)signal(ignored[i], SIG_IGN);
}

static int run(struct program *program, struct err *err)
{
	sigset_t set;
	int r;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return err_sys(err, "become the reaper");
	if (fcntl(LISTEN_FD, F_SETFL, O_NONBLOCK) < 0 || fcntl(LISTEN_FD, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(err, "descriptor %d", LISTEN_FD);
	r = loop_create(&program->guest.loop, err);
	if (r < 0)
		return r;
	program->guest.active_ms = loop_now_ms(program->guest.loop);
	program->guest.trim.fire = trim;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	r = loop_signals(program->guest.loop, &set, signal_got, &program->guest, err);
	if (r < 0)
		return r;
	program->listener.fd = LISTEN_FD;
	program->listener.ready = listener_ready;
	r = loop_watch_set(program->guest.loop, &program->listener, EPOLLIN, err);
	if (r < 0)
		return r;
	return loop_run(program->guest.loop, err);
}

int main(void)
{
	static struct program program;
	struct err err = {0};
	int r;

	(void)prctl(PR_SET_NAME, "bawn-guest");
	(void)umask(022);
	ignore_signals();
	set_up_memory();
	raise_files(&program.guest);
	spare_from_oom();
	r = run(&program, &err);
	if (r < 0)
		(void)fprintf(stderr, "bawn-guest: %s\n", err.msg);
	return r < 0;
}
