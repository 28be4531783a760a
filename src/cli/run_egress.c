/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/run_egress.h"

#include "base/mem.h"
#include "base/own.h"
#include "cli/run_secrets.h"
#include "core/programs.h"
#include "core/state_dir.h"
#include "egress/control.h"
#include "sys/process.h"
#include "sys/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define BOX_ID     "run"
#define RUN_CA     "run-ca" /* not "ca": that is of a server in the same state, of another id */
#define SEND_S     10       /* the child does not read: it hangs */
#define LAST_MS    3000     /* for its last words */
#define FIRST_FD   3        /* where the child finds what it is given */
#define CHILD_FDS  4        /* control, tcp, dns, the proxy's address */
#define OUT_OF_WAY 64       /* below it nothing of ours stands once the child sorts them */

enum { NUMBER_BOX = 1, NUMBER_GONE, NUMBER_OTHER };

/* ---- the child ---- */

static int child_arguments(const struct run_egress *e, struct strv *ret, struct err *err)
{
	const struct {
		const char *name, *value;
	} pairs[] = {
		{"--ca", e->ca},
		{"--secrets", e->secrets},
		{"--resolver", e->network->resolver},
		{"--upstream-ca", e->network->upstream_ca},
		{"--no-proxy", e->network->no_proxy},
	};
	int r = strv_add(ret, "bawnd", err);

	if (r >= 0)
		r = strv_add(ret, "role-egress", err);
	for (size_t i = 0; r >= 0 && i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (!pairs[i].value)
			continue;
		r = strv_add(ret, pairs[i].name, err);
		if (r >= 0)
			r = strv_add(ret, pairs[i].value, err);
	}
	return r;
}

static int child_environment(struct strv *ret, struct err *err)
{
	static const char *const kept[] = {"PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"CREDENTIALS_DIRECTORY", "BAWN_PASSPHRASE_FILE", "ASAN_OPTIONS", "UBSAN_OPTIONS"};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < sizeof(kept) / sizeof(kept[0]); i++) {
		const char *value = getenv(kept[i]);
		AUTO_FREE char *pair = value ? text_format("%s=%s", kept[i], value) : NULL;

		if (pair)
			r = strv_add(ret, pair, err);
	}
	return r;
}

/* Never returns: the new program, or the end. fds: for FIRST_FD and on; -EBADF leaves a hole. */
static _Noreturn void become(
	const char *program, char **argv, char **envp, pid_t parent, const int *fds, size_t n)
{
	int moved[CHILD_FDS];
	struct err ignored;
	sigset_t none;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(127);
	/* ^C and ^Z are for the command. */
	(void)setsid();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < n; i++) {
		moved[i] = fds[i] < 0 ? -EBADF : fcntl(fds[i], F_DUPFD_CLOEXEC, OUT_OF_WAY);
		if (fds[i] >= 0 && moved[i] < 0)
			_exit(127);
	}
	for (size_t i = 0; i < n; i++)
		if (moved[i] >= 0 && dup2(moved[i], FIRST_FD + (int)i) < 0)
			_exit(127);
	moved[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (moved[0] < 0 || dup2(moved[0], 0) < 0 || dup2(moved[0], 1) < 0)
		_exit(127);
	if (process_cloexec_from(FIRST_FD + (int)n, NULL, 0, &ignored) < 0)
		_exit(127);
	(void)execve(program, argv, envp);
	_exit(127);
}

static pid_t start(const struct run_egress *e, const struct strv *argv, const int *fds, size_t n,
	int *ret_pidfd, struct err *err)
{
	struct strv env = {0};
	pid_t parent = getpid(), pid;
	int r = child_environment(&env, err);

	pid = r < 0 ? r : process_clone(0, -EBADF, ret_pidfd, err);
	if (pid == 0)
		become(e->bawnd, argv->v, env.v ? env.v : (char *[]){NULL}, parent, fds, n);
	strv_done(&env);
	return pid;
}

/* ---- certificates ---- */

static int make_authority(const struct run_egress *e, struct err *err)
{
	AUTO_FD int pidfd = -EBADF;
	struct strv argv = {0};
	int status = 0, r = child_arguments(e, &argv, err);
	pid_t pid = -1;

	if (r >= 0)
		r = strv_add(&argv, "--make-ca", err);
	if (r >= 0)
		r = pid = start(e, &argv, NULL, 0, &pidfd, err);
	strv_done(&argv);
	if (r < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, EIO,
			"the certificates of the road could not be made in '%s'; 'bawnd' has said "
			"why",
			e->ca);
	return 0;
}

int run_egress_public(char **ret, struct err *err)
{
	AUTO_FREE char *state = NULL;
	int r = state_dir(&state, err);

	if (r >= 0)
		*ret = text_format("%s/" RUN_CA "/public", state);
	return r;
}

/* <state>/run-ca: ours and closed; what boxes may see is in its directory `public`. */
static int find_authority(struct run_egress *e, struct spec *spec, struct err *err)
{
	AUTO_FREE char *state = NULL, *public = NULL, *bundle = NULL;
	int r = state_dir(&state, err);

	if (r >= 0)
		r = run_egress_public(&public, err);
	if (r >= 0)
		r = tree_make_dirs(state, 0755, err);
	if (r < 0)
		return r;
	e->ca = text_format("%s/" RUN_CA, state);
	bundle = text_format("%s/bundle.pem", public);
	if (access(bundle, R_OK) < 0)
		r = make_authority(e, err);
	return r < 0 ? r
		     : spec_set_string(&spec->ca_dir, "the certificates' directory", public, err);
}

/* ---- what it says ---- */

/* What the caller can do about it; the command was told what it can do. */
static void advise(const struct denial *d, char *out, size_t size)
{
	const char *prefix = strcmp(d->protocol, "tcp") == 0 ? "tcp:" : "";
	bool is_usual = d->port == 443 || d->port == 80 || d->port == 0;

	if (d->kind == DENIAL_NO_RULE && (prefix[0] || !is_usual))
		(void)snprintf(
			out, size, "%s; --allow %s%s:%u does", d->reason, prefix, d->name, d->port);
	else if (d->kind == DENIAL_NO_RULE)
		(void)snprintf(out, size, "%s; --allow %s does", d->reason, d->name);
	else if (d->rule[0])
		(void)snprintf(out, size, "%s (rule %s)", d->reason, d->rule);
	else
		(void)snprintf(out, size, "%s", d->reason);
}

static void add_denial(struct violation_list *v, const struct denial *d)
{
	const char *scheme = d->protocol[0] ? d->protocol : "tcp";
	bool is_literal = strchr(d->name, ':') != NULL, is_name = strcmp(scheme, "dns") == 0;
	char target[640], quoted[300], tried[400], instead[700];

	if (is_name)
		(void)snprintf(target, sizeof(target), "%s", d->name);
	else
		(void)snprintf(target, sizeof(target), "%s%s%s://%s%s%s:%u%s", d->method,
			d->method[0] ? " " : "", scheme, is_literal ? "[" : "", d->name,
			is_literal ? "]" : "", d->port, d->path);
	(void)snprintf(tried, sizeof(tried), "%s%s", is_name ? "the name " : "",
		text_quote(target, quoted, sizeof(quoted)));
	advise(d, instead, sizeof(instead));
	violation_add_times(v, WALL_NET, "network", tried, instead, d->count ? d->count : 1);
}

/*
 * A look-up is followed by a connection, which says more. It is told at the end if it was not.
 */
static void hold_name(struct run_egress *e, const struct denial *d)
{
	for (size_t i = 0; i < e->names_n; i++)
		if (strcmp(e->names[i].name, d->name) == 0) {
			e->names[i].count += d->count ? d->count : 1;
			return;
		}
	if (e->names_n < RUN_EGRESS_NAMES)
		e->names[e->names_n++] = *d;
}

static void note_denial(struct run_egress *e, struct violation_list *v, struct denial *d)
{
	/* Nobody forbade it: the upstream failed, and the client was told. */
	if (d->kind == DENIAL_UPSTREAM)
		return;
	denial_explain(d);
	if (strcmp(d->protocol, "dns") == 0) {
		hold_name(e, d);
		return;
	}
	for (size_t i = 0; i < e->names_n; i++)
		if (strcmp(e->names[i].name, d->name) == 0)
			e->names[i].name[0] = 0;
	add_denial(v, d);
}

static void tell_names(struct run_egress *e, struct violation_list *v)
{
	for (size_t i = 0; i < e->names_n; i++)
		if (e->names[i].name[0])
			add_denial(v, &e->names[i]);
	e->names_n = 0;
}

static bool send_all(struct run_egress *e, const struct buf *out)
{
	size_t at = 0;

	while (at < buf_len(out)) {
		ssize_t n = send(e->fd, buf_data(out) + at, buf_len(out) - at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static bool ask(struct run_egress *e, enum control_op op, uint64_t number, json_t *take_body)
{
	AUTO_BUF struct buf out = {.cap = CONTROL_MAX + CONTROL_HEADER};
	struct err ignored;

	return control_ask(&out, op, number, take_body, &ignored) >= 0 && send_all(e, &out);
}

/* A rule says to ask somebody, and at a run there is nobody but its caller, who is not here. */
static void refuse_ask(struct run_egress *e, const json_t *body)
{
	struct egress_ask a;
	struct err ignored;

	if (control_ask_get(body, &a, &ignored) >= 0)
		(void)ask(e, CONTROL_ANSWER, NUMBER_OTHER,
			json_pack("{s:s, s:s}", "ask", a.id, "verdict",
				control_verdict_name(EGRESS_ASK_DENY)));
}

static void on_message(
	struct run_egress *e, const struct control_message *m, struct violation_list *v)
{
	struct err ignored;
	struct denial d;
	uint64_t up, down;
	const char *id;

	if (m->is_answer && m->number == NUMBER_BOX) {
		e->is_served = m->err.code == 0;
		if (!e->is_served)
			violation_add(v, WALL_NET, "network", "everything: the road is not served",
				m->err.msg);
	} else if (m->is_answer && m->number == NUMBER_GONE) {
		e->is_gone = true;
	} else if (m->op == CONTROL_DENIED && control_denial_get(m->body, &id, &d, &ignored) >= 0) {
		note_denial(e, v, &d);
	} else if (m->op == CONTROL_ASKED) {
		refuse_ask(e, m->body);
	} else if (e->learn && m->op == CONTROL_ALLOWED &&
		   control_allowed_get(m->body, &id, &d, &up, &down, &ignored) >= 0) {
		learn_note(e->learn, &d);
	} else if (e->learn && m->op == CONTROL_LOST) {
		e->learn->lost += (uint64_t)json_integer_value(json_object_get(m->body, "events"));
	}
}

/* What has come; false: nothing more will. */
static bool hear(struct run_egress *e, struct violation_list *v)
{
	char *room = buf_reserve(&e->in, 65536);
	ssize_t n = room ? recv(e->fd, room, 65536, MSG_DONTWAIT) : 0;
	struct control_message m;
	struct err ignored;
	size_t used;
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	buf_commit(&e->in, (size_t)n);
	while ((r = control_next(buf_data(&e->in), buf_len(&e->in), &used, &m, &ignored)) > 0) {
		on_message(e, &m, v);
		control_message_done(&m);
		buf_eat(&e->in, used);
	}
	return r == 0;
}

/* ---- box_road ---- */

/* An URL with a password is not for a command line, which everybody may read. */
static int put_proxy(const char *url, struct err *err)
{
	AUTO_FD int fd = memfd_create("proxy", MFD_CLOEXEC);
	size_t n = strlen(url);

	if (fd < 0 || write(fd, url, n) != (ssize_t)n)
		return err_sys(err, "keep the upstream proxy's address");
	return TAKE_FD(fd);
}

static int start_serving(struct run_egress *e, int control, int tcp, int dns, struct err *err)
{
	AUTO_FD int proxy = -EBADF;
	struct strv argv = {0};
	int r = child_arguments(e, &argv, err);

	if (r >= 0)
		r = strv_add(&argv, "--run", err);
	if (r >= 0 && e->network->upstream_proxy) {
		r = proxy = put_proxy(e->network->upstream_proxy, err);
		if (r >= 0)
			r = strv_add(&argv, "--upstream-proxy-fd", err);
		if (r >= 0)
			r = strv_add(&argv, "6", err);
	}
	if (r >= 0) {
		int fds[CHILD_FDS] = {control, tcp, dns, proxy};

		r = e->pid = start(e, &argv, fds, CHILD_FDS, &e->pidfd, err);
	}
	strv_done(&argv);
	return r;
}

static int road_open(int take_tcp, int take_dns, void *arg, struct err *err)
{
	struct run_egress *e = arg;
	struct timeval patience = {.tv_sec = SEND_S};
	struct control_box box = {
		.id = BOX_ID, .owner = "", .policy = e->policy, .want_allowed = e->learn != NULL};
	AUTO_FD int tcp = take_tcp, dns = take_dns, theirs = -EBADF;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	e->fd = pair[0];
	theirs = pair[1];
	if (setsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return err_sys(err, "set up the control socket");
	r = start_serving(e, theirs, tcp, dns, err);
	if (r < 0)
		return r;
	closep(&theirs);
	if (!ask(e, CONTROL_BOX, NUMBER_BOX, control_box_json(&box)))
		return err_set(err, EPIPE, "'%s' serves no road: it ended at once", e->bawnd);
	return e->fd;
}

static bool road_serve(struct violation_list *v, void *arg)
{
	struct run_egress *e = arg;

	if (hear(e, v))
		return true;
	/* The box's connections are refused from here on: nobody else holds its road. */
	violation_add(v, WALL_NET, "network", "everything: what serves the road has ended",
		"this is a fault of bawn; its own message is above");
	e->is_over = true;
	return false;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void road_close(struct violation_list *v, void *arg)
{
	struct run_egress *e = arg;
	uint64_t end = now_ms() + LAST_MS;
	struct err ignored;
	int status;

	/* A command that was quicker than it has said nothing on the road. */
	if (e->pid > 0 && !e->is_served)
		(void)process_signal(e->pidfd, SIGKILL, &ignored);
	else if (e->fd >= 0 && !e->is_over &&
		 ask(e, CONTROL_GONE, NUMBER_GONE, json_pack("{s:s}", "id", BOX_ID))) {
		while (!e->is_gone && now_ms() < end) {
			struct pollfd p = {.fd = e->fd, .events = POLLIN};

			if (poll(&p, 1, (int)(end - now_ms())) > 0 && !hear(e, v))
				break;
		}
	}
	tell_names(e, v);
	closep(&e->fd);
	if (e->pid > 0) {
		struct pollfd p = {.fd = e->pidfd, .events = POLLIN};

		if (poll(&p, 1, LAST_MS) <= 0)
			(void)process_signal(e->pidfd, SIGKILL, &ignored);
		while (waitpid(e->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	e->pid = 0;
	closep(&e->pidfd);
	/* The box may be made once more, without a wall that this machine lacks. */
	buf_done(&e->in);
	e->is_served = e->is_over = e->is_gone = false;
}

int run_egress_prepare(struct run_egress *e, const struct run_network *network,
	const struct policy *policy, struct spec *spec, struct err *err)
{
	int r;

	*e = (struct run_egress){
		.network = network,
		.fd = -EBADF,
		.pidfd = -EBADF,
		.in = {.cap = 2 * (CONTROL_MAX + CONTROL_HEADER)},
	};
	e->road = (struct box_road){
		.open = road_open, .serve = road_serve, .close = road_close, .arg = e};
	r = programs_bawnd(&e->bawnd, err);
	if (r >= 0)
		r = find_authority(e, spec, err);
	if (r >= 0)
		r = run_secrets_prepare(policy, spec, &e->secrets, err);
	if (r < 0)
		return err_wrap(err, "no road out");
	e->policy = policy_to_json(policy);
	spec->want_road = true;
	return 0;
}

void run_egress_done(struct run_egress *e)
{
	free(e->bawnd);
	free(e->ca);
	free(e->secrets);
	free(e->policy);
	buf_done(&e->in);
	closep(&e->fd);
	closep(&e->pidfd);
}
