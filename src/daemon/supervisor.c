/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/supervisor.h"

#include "base/mem.h"
#include "daemon/launch.h"
#include "daemon/log.h"
#include "daemon/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_MS    7000  /* the api role gives itself 5 s */
#define KILL_ALL_MS 60000 /* --kill-on-exit: time to end the sandboxes */
#define REST_MS     5000
#define EXIT_FAILED 125
#define NEVER       UINT64_MAX

enum phase {
	SERVING,
	RELOADING,
	STOPPING_API,
	STOPPING_REST,
	STOPPED,
};

struct role {
	const char *name;
	pid_t pid; /* 0: not running */
	int ready; /* its end of the pipe it says "ready" on; -EBADF: none */
	bool is_ready;
	uint64_t started_ms;
	uint64_t start_at_ms; /* NEVER: no start is due */
	struct role_backoff backoff;
};

struct supervisor {
	int argc;
	char **argv;
	struct launch launch;
	struct role api, warden, egress;
	enum phase phase;
	uint64_t phase_end_ms; /* then it is no longer asked but killed; NEVER: no end */
	bool is_announced;     /* READY=1 was said */
	int signals;
	int lock;
};

static uint64_t now_ms(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void start_role(struct supervisor *s, struct role *r)
{
	struct err err = {0};
	char pid[16];

	closep(&r->ready);
	r->is_ready = false;
	r->started_ms = now_ms();
	r->pid = r == &s->api      ? launch_api(&s->launch, &r->ready, &err)
		 : r == &s->egress ? launch_egress(&s->launch, &r->ready, &err)
				   : launch_warden(&s->launch, &err);
	if (r->pid < 0) {
		r->pid = 0;
		r->start_at_ms = now_ms() + role_backoff_next(&r->backoff, 0, false);
		role_log(ROLE_LOG_ERROR, "start-failed", "what", r->name, "error", err.msg);
		return;
	}
	r->start_at_ms = NEVER;
	(void)snprintf(pid, sizeof(pid), "%d", r->pid);
	role_log(ROLE_LOG_INFO, "started", "what", r->name, "pid", pid);
}

static void ask(const struct role *r, int sig)
{
	if (r->pid > 0)
		(void)kill(r->pid, sig);
}

static void enter(struct supervisor *s, enum phase phase, uint64_t time_ms)
{
	s->phase = phase;
	s->phase_end_ms = time_ms == NEVER ? NEVER : now_ms() + time_ms;
}

static void stop_rest(struct supervisor *s)
{
	enter(s, STOPPING_REST, REST_MS);
	ask(&s->warden, SIGTERM);
	ask(&s->egress, SIGTERM);
	if (s->warden.pid == 0 && s->egress.pid == 0)
		enter(s, STOPPED, NEVER);
}

static void stop(struct supervisor *s)
{
	if (s->phase >= STOPPING_API) {
		/* Asked twice: at once. The sandboxes are not ours to hurry. */
		role_log(ROLE_LOG_WARN, "stopping-now");
		ask(&s->api, SIGKILL);
		ask(&s->warden, SIGKILL);
		ask(&s->egress, SIGKILL);
		return;
	}
	notify_send("STOPPING=1");
	role_log(ROLE_LOG_INFO, "stopping", "sandboxes",
		s->launch.options.kill_on_exit ? "killed" : "kept");
	s->api.start_at_ms = NEVER;
	s->egress.start_at_ms = NEVER;
	/* --kill-on-exit is carried out by the api role through the warden: that one must be up. */
	if (!s->launch.options.kill_on_exit)
		s->warden.start_at_ms = NEVER;
	enter(s, STOPPING_API, s->launch.options.kill_on_exit ? KILL_ALL_MS : DRAIN_MS);
	ask(&s->api, SIGTERM);
	if (s->api.pid == 0)
		stop_rest(s);
}

static void reload(struct supervisor *s)
{
	bool is_egress = false;
	struct err err = {0};

	if (s->phase > RELOADING)
		return;
	if (launch_reload(&s->launch, s->argc, s->argv, &is_egress, &err) < 0) {
		role_log(ROLE_LOG_ERROR, "reload-refused", "error", err.msg);
		return;
	}
	notify_reloading();
	role_log(ROLE_LOG_INFO, "reloading");
	role_log_init("supervisor", s->launch.options.json_log);
	/* Connections of sandboxes are cut by this: only for what concerns them. */
	if (is_egress)
		ask(&s->egress, SIGTERM);
	if (s->phase == RELOADING)
		return; /* the role that comes next will have them */
	enter(s, RELOADING, DRAIN_MS);
	/* Two api roles at once would both hold the truth: the old one leaves first. */
	ask(&s->api, SIGHUP);
	if (s->api.pid == 0)
		enter(s, SERVING, NEVER);
}

static void log_exit(const struct role *r, int status)
{
	char number[16];
	bool is_killed = WIFSIGNALED(status);

	(void)snprintf(
		number, sizeof(number), "%d", is_killed ? WTERMSIG(status) : WEXITSTATUS(status));
	role_log(status == 0 ? ROLE_LOG_INFO : ROLE_LOG_ERROR, "ended", "what", r->name,
		is_killed ? "signal" : "status", number);
}

static void ended(struct supervisor *s, struct role *r, int status)
{
	uint64_t lived = now_ms() - r->started_ms;

	r->pid = 0;
	closep(&r->ready);
	log_exit(r, status);
	if (r == &s->api && s->phase == RELOADING) {
		enter(s, SERVING, NEVER);
		r->start_at_ms = 0;
	} else if (r == &s->api && s->phase == STOPPING_API) {
		stop_rest(s);
	} else if (r != &s->api && s->phase == STOPPING_REST) {
		if (s->warden.pid == 0 && s->egress.pid == 0)
			enter(s, STOPPED, NEVER);
	} else if (s->phase < STOPPING_API || (r == &s->warden && s->phase == STOPPING_API &&
						      s->launch.options.kill_on_exit)) {
		r->start_at_ms = now_ms() + role_backoff_next(&r->backoff, lived, r->is_ready);
	}
}

static void reap(struct supervisor *s)
{
	int status = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == s->api.pid)
			ended(s, &s->api, status);
		else if (pid == s->warden.pid)
			ended(s, &s->warden, status);
		else if (pid == s->egress.pid)
			ended(s, &s->egress, status);
	}
}

static void announce(struct supervisor *s)
{
	AUTO_FREE char *urls = launch_addresses(&s->launch, " ");
	AUTO_FREE char *lines = launch_addresses(&s->launch, "\n");
	AUTO_FREE char *status = text_format("READY=1\nSTATUS=serving %s", urls);
	struct err err = {0};

	if (state_write(s->launch.options.state, "addresses", lines, &err) < 0)
		role_log(ROLE_LOG_WARN, "addresses", "error", err.msg);
	role_log(ROLE_LOG_INFO, s->is_announced ? "ready-again" : "ready", "listen", urls, "state",
		s->launch.options.state);
	notify_send(status);
	s->is_announced = true;
}

static void hear_ready(struct supervisor *s, struct role *r)
{
	char byte;
	ssize_t n = read(r->ready, &byte, 1);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	closep(&r->ready);
	if (n == 1)
		r->is_ready = true;
	if (n == 1 && r == &s->api)
		announce(s);
}

static void hear_signal(struct supervisor *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGCHLD: reap(s); break;
		case SIGHUP: reload(s); break;
		default: stop(s); break;
		}
	}
}

static void tick(struct supervisor *s)
{
	uint64_t now = now_ms();

	if (now >= s->phase_end_ms) {
		bool is_rest = s->phase == STOPPING_REST;

		role_log(ROLE_LOG_WARN, "too-slow", "what",
			!is_rest            ? s->api.name
			: s->warden.pid > 0 ? s->warden.name
					    : s->egress.name);
		if (is_rest) {
			ask(&s->warden, SIGKILL);
			ask(&s->egress, SIGKILL);
		} else {
			ask(&s->api, SIGKILL);
		}
		s->phase_end_ms = NEVER;
	}
	if (now >= s->warden.start_at_ms)
		start_role(s, &s->warden);
	if (now >= s->egress.start_at_ms)
		start_role(s, &s->egress);
	if (now >= s->api.start_at_ms)
		start_role(s, &s->api);
}

static int wait_ms(const struct supervisor *s)
{
	uint64_t now = now_ms(), due = s->phase_end_ms;

	if (s->api.start_at_ms < due)
		due = s->api.start_at_ms;
	if (s->warden.start_at_ms < due)
		due = s->warden.start_at_ms;
	if (s->egress.start_at_ms < due)
		due = s->egress.start_at_ms;
	return due == NEVER ? -1 : due <= now ? 0 : (int)(due - now);
}

static void run(struct supervisor *s)
{
	while (s->phase != STOPPED) {
		struct pollfd fds[3] = {{.fd = s->signals, .events = POLLIN}};

		tick(s); /* may start the role: its pipe is there only now */
		fds[1] = (struct pollfd){.fd = s->api.ready, .events = POLLIN};
		fds[2] = (struct pollfd){.fd = s->egress.ready, .events = POLLIN};
		if (poll(fds, 3, wait_ms(s)) < 0 && errno != EINTR)
			break;
		if (fds[1].revents)
			hear_ready(s, &s->api);
		if (fds[2].revents)
			hear_ready(s, &s->egress);
		if (fds[0].revents)
			hear_signal(s);
	}
}

static int take_signals(struct err *err)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	/* A parent may have left it ignored, and then our children would vanish unseen. */
	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(err, "block signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_sys(err, "signalfd") : fd;
}

static int prepare(struct supervisor *s, struct err *err)
{
	int r = launch_init(&s->launch, err);

	if (r < 0)
		return r;
	/* What a dead warden made comes to us: a pid 1 that is not reaped keeps its cgroup busy. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	s->signals = r = take_signals(err);
	if (r >= 0)
		r = state_prepare(
			s->launch.options.state, &s->launch.ids, &s->launch.egress_ids, err);
	if (r >= 0)
		s->lock = r = state_lock(s->launch.options.state, err);
	if (r >= 0)
		r = state_place_boxes(s->launch.options.state, err);
	if (r >= 0)
		r = launch_listen(&s->launch, err);
	return r < 0 ? r : launch_make_ca(&s->launch, err);
}

int serve_main(int argc, char **argv)
{
	struct supervisor s = {
		.argc = argc,
		.argv = argv,
		.api = {.name = "api", .ready = -EBADF},
		.warden = {.name = "warden", .ready = -EBADF},
		.egress = {.name = "egress", .ready = -EBADF},
		.phase_end_ms = NEVER,
		.signals = -EBADF,
		.lock = -EBADF,
	};
	struct err err = {0};
	int r = serve_options_parse(argc, argv, &s.launch.options, &err);

	if (r >= 0 && s.launch.options.want_help) {
		serve_options_help(stdout);
		serve_options_done(&s.launch.options);
		return 0;
	}
	role_log_init("supervisor", s.launch.options.json_log);
	notify_init();
	if (r >= 0)
		r = prepare(&s, &err);
	if (r >= 0) {
		run(&s);
		state_unplace_boxes(s.launch.options.state);
		role_log(ROLE_LOG_INFO, "stopped");
	} else {
		(void)fprintf(stderr, "bawn: serve: %s\n", err.msg);
	}
	launch_done(&s.launch);
	closep(&s.signals);
	closep(&s.lock);
	return r < 0 ? EXIT_FAILED : 0;
}
