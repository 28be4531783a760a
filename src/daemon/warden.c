/* SPDX-License-Identifier: Apache-2.0 */

/*
 * daemon/warden - the privileged role's main: its socket, its connections, what they ask.
 *
 * Reads fixed-layout packets of the api and egress roles and nothing else of anybody: no tenant's
 * bytes, no configuration, no network. One event loop, no threads: it clones. Every
 * sandbox's pid 1 is forked from it, so it keeps little memory.
 */
#include "daemon/warden.h"

#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "daemon/log.h"
#include "daemon/warden_impl.h"
#include "run/process/resident.h"
#include "sys/caps.h"
#include "sys/process.h"
#include "sys/sock.h"
#include "sys/userns.h"

#include <assert.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LISTEN_FD 3
#define CONNS_MAX 8
#define QUEUE_MAX 20000 /* packets an asker may leave unread before it is cut off */
#define BATCH     32
#define EXIT_ROLE 125

struct packet {
	struct packet *next;
	struct warden_message m;
	struct road road; /* goes with it; -EBADF: nothing does */
};

struct conn {
	int fd;
	bool is_egress; /* may ask for roads, and for nothing else */
	struct loop_watch watch;
	struct loop_task free;
	struct packet *first, **last;
	size_t queued;
	struct conn *next;
};

struct options {
	const char *state, *guest;
	uid_t api_uid, egress_uid;
	unsigned spares;
	bool json_log;
};

static struct {
	struct loop *loop;
	struct warden_boxes *boxes;
	uid_t api_uid, egress_uid;
	char *ca_dir;
	struct loop_watch accepting;
	struct conn *conns;
	size_t conns_n;
} warden;

/* ---- connections ---- */

static void free_packet(struct packet *p)
{
	closep(&p->road.tcp_fd);
	closep(&p->road.dns_fd);
	free(p);
}

static void free_conn(struct loop_task *t)
{
	struct conn *c = (struct conn *)(void *)((char *)t - offsetof(struct conn, free));

	while (c->first) {
		struct packet *p = c->first;

		c->first = p->next;
		free_packet(p);
	}
	free(c);
}

static void close_conn(struct conn *c)
{
	struct err ignored;

	if (c->fd < 0)
		return;
	(void)loop_watch_set(warden.loop, &c->watch, 0, &ignored);
	closep(&c->fd);
	warden_boxes_forget(warden.boxes, c);
	for (struct conn **p = &warden.conns; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			warden.conns_n--;
			break;
		}
	loop_defer(warden.loop, &c->free);
}

static int send_packet(const struct conn *c, struct packet *p)
{
	struct err ignored;

	/* The connection does not block. */
	return sock_send(c->fd, &p->m, sizeof(p->m), (int[]){p->road.tcp_fd, p->road.dns_fd},
		p->road.tcp_fd >= 0 ? 2 : 0, &ignored);
}

static void flush_conn(struct conn *c)
{
	struct err err;

	while (c->fd >= 0 && c->first) {
		struct packet *p = c->first;

		int r = send_packet(c, p);

		if (r < 0) {
			if (r != -EAGAIN && r != -EINTR)
				close_conn(c);
			break;
		}
		c->first = p->next;
		if (!c->first)
			c->last = &c->first;
		c->queued--;
		free_packet(p);
	}
	if (c->fd >= 0 && loop_watch_set(warden.loop, &c->watch,
				  EPOLLIN | (c->first ? EPOLLOUT : 0u), &err) < 0)
		close_conn(c);
}

static struct packet *add_packet(struct conn *c, const struct warden_message *m)
{
	struct packet *p;

	if (c->fd < 0 || c->queued >= QUEUE_MAX)
		return NULL;
	p = MEM_NEW(struct packet);
	p->m = *m;
	p->road = (struct road){-EBADF, -EBADF};
	*c->last = p;
	c->last = &p->next;
	c->queued++;
	return p;
}

static int tell(struct conn *c, const struct warden_message *m)
{
	return add_packet(c, m) ? 0 : -EPIPE;
}

static void answer(struct conn *c, const struct warden_message *m)
{
	if (tell(c, m) < 0)
		close_conn(c);
	else
		flush_conn(c);
}

static void on_ended(const char *id, const char *reason, void *arg)
{
	struct warden_message m = {.op = WARDEN_ENDED};
	struct conn *next;

	(void)arg;
	(void)snprintf(m.id, sizeof(m.id), "%s", id);
	(void)snprintf(m.reason, sizeof(m.reason), "%s", reason);
	for (struct conn *c = warden.conns; c; c = next) {
		next = c->next;
		if (!c->is_egress)
			answer(c, &m);
	}
}

/* ---- questions ---- */

static void on_stopped(const char *id, const struct err *err, void *arg, uint64_t number)
{
	struct warden_message m = {.op = WARDEN_STOP, .number = number, .code = -err->code};

	(void)snprintf(m.id, sizeof(m.id), "%s", id);
	if (err->code)
		m.err = *err;
	answer(arg, &m);
}

struct listing {
	struct conn *c;
	uint64_t number;
};

static int list_one(const struct warden_message *m, void *arg)
{
	const struct listing *l = arg;
	struct warden_message numbered = *m;

	numbered.number = l->number;
	return tell(l->c, &numbered);
}

static void on_settled(void *arg, uint64_t number)
{
	struct conn *c = arg;
	struct warden_message m = {.op = WARDEN_LIST, .number = number};
	struct listing listing = {c, number};

	if (warden_boxes_each(warden.boxes, list_one, &listing) < 0)
		close_conn(c);
	else
		answer(c, &m);
}

static void on_started(const struct warden_message *m, void *arg)
{
	answer(arg, m);
}

static void answer_road(struct conn *c, struct warden_message *m)
{
	struct road road = {-EBADF, -EBADF};
	struct err err = {0};
	struct packet *p;

	m->code = warden_boxes_road(warden.boxes, m->id, &road, &err);
	if (m->code < 0)
		m->err = err;
	p = add_packet(c, m);
	if (p && m->code >= 0) {
		/* Of our own until they are sent: the sandbox may end before. */
		p->road.tcp_fd = fcntl(road.tcp_fd, F_DUPFD_CLOEXEC, 3);
		p->road.dns_fd = fcntl(road.dns_fd, F_DUPFD_CLOEXEC, 3);
	}
	if (!p || (m->code >= 0 && (p->road.tcp_fd < 0 || p->road.dns_fd < 0)))
		close_conn(c);
	else
		flush_conn(c);
}

static void serve(struct conn *c, const struct warden_message *q)
{
	struct warden_message m = {.op = q->op, .number = q->number};
	struct err err = {0};

	memcpy(m.id, q->id, sizeof(m.id));
	switch (q->op) {
	case WARDEN_START: warden_boxes_start(warden.boxes, q, on_started, c); break;
	case WARDEN_USAGE:
		m.code = warden_boxes_usage(warden.boxes, q->id, &m.usage, &err);
		if (m.code < 0)
			m.err = err;
		answer(c, &m);
		break;
	case WARDEN_ROAD: answer_road(c, &m); break;
	case WARDEN_LIST:
		/* A start whose asker has gone would be in nobody's list: it is over first. */
		warden_boxes_settle(warden.boxes, on_settled, c, q->number);
		break;
	default: warden_boxes_stop(warden.boxes, q->id, on_stopped, c, q->number); break;
	}
}

static void on_packets(struct conn *c)
{
	for (int i = 0; i < BATCH && c->fd >= 0; i++) {
		struct warden_message packet, q;
		struct err err = {0};
		ssize_t n = recv(c->fd, &packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			close_conn(c);
			return;
		}
		if (warden_check(&packet, (size_t)n, &q, &err) >= 0 && c->is_egress &&
			q.op != WARDEN_ROAD)
			(void)err_set(&err, EPERM, "not for the egress role");
		if (err.code) {
			role_log(ROLE_LOG_WARN, "attack", "from", c->is_egress ? "egress" : "api",
				"error", err.msg);
			close_conn(c);
			return;
		}
		serve(c, &q);
	}
}

static void on_conn(struct loop_watch *w, uint32_t events)
{
	struct conn *c = (struct conn *)(void *)((char *)w - offsetof(struct conn, watch));

	if (events & EPOLLOUT)
		flush_conn(c);
	if (c->fd >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		on_packets(c);
}

static bool is_ours(uid_t uid)
{
	return uid == warden.api_uid || uid == warden.egress_uid;
}

static void on_accept(struct loop_watch *w, uint32_t events)
{
	/* cppcheck-suppress nullPointer ; who calls is asked below */
	AUTO_FD int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer = {0};
	socklen_t n = sizeof(peer);
	struct conn *c;
	char uid[16];
	struct err err;

	(void)events;
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || !is_ours(peer.uid)) {
		(void)snprintf(uid, sizeof(uid), "%u", peer.uid);
		role_log(ROLE_LOG_WARN, "attack", "from", "a stranger", "uid", uid);
		return;
	}
	/* A restarted api role may come before its forerunner's end was seen: the oldest goes. */
	if (warden.conns_n >= CONNS_MAX) {
		c = warden.conns;
		while (c->next)
			c = c->next;
		close_conn(c);
	}
	c = MEM_NEW(struct conn);
	c->fd = TAKE_FD(fd);
	/* A user's roles all have that user's id, and nothing to hide from one another. */
	c->is_egress = peer.uid != warden.api_uid;
	c->watch = (struct loop_watch){.fd = c->fd, .ready = on_conn};
	c->free.run = free_conn;
	c->last = &c->first;
	c->next = warden.conns;
	warden.conns = c;
	warden.conns_n++;
	if (loop_watch_set(warden.loop, &c->watch, EPOLLIN, &err) < 0)
		close_conn(c);
}

static void on_signal(int sig, void *arg)
{
	(void)sig;
	(void)arg;
	loop_stop(warden.loop, 0);
}

/* ---- the role ---- */

/* Made by tools/embed; absent from a build without the guest. */
extern const unsigned char guest_blob[] __attribute__((weak));
extern const uint64_t guest_blob_size __attribute__((weak));

static int copy_file(const char *path, int to, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[4096];
	ssize_t n;

	if (fd < 0)
		return err_sys(err, "open '%s'", path);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (write(to, buf, (size_t)n) != n)
			return err_sys(err, "copy '%s'", path);
	return n < 0 ? err_sys(err, "read '%s'", path) : 0;
}

/* Sealed: nothing inside can write to what other sandboxes run, or to a file of the host. */
static int make_guest(const char *path, struct err *err)
{
	AUTO_FD int fd = memfd_create("bawn-guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = 0, high;

	if (fd < 0)
		return err_sys(err, "memfd_create");
	if (path)
		r = copy_file(path, fd, err);
	else if (!guest_blob)
		r = err_set(err, ENOENT, "this bawn was built without a guest");
	else if (write(fd, guest_blob, guest_blob_size) != (ssize_t)guest_blob_size)
		r = err_sys(err, "write the guest");
	if (r < 0)
		return r;
	if (fchmod(fd, 0555) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
			0)
		return err_sys(err, "seal the guest");
	high = fcntl(fd, F_DUPFD_CLOEXEC, 16); /* out of the way of what the guest gets as 3 */
	return high < 0 ? err_sys(err, "hold the guest") : high;
}

static int raise_files(struct err *err)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return err_sys(err, "read the limit of open files");
	l.rlim_cur = l.rlim_max; /* a pidfd for every sandbox */
	return setrlimit(RLIMIT_NOFILE, &l) < 0 ? err_sys(err, "raise open files") : 0;
}

static int confine(struct err *err)
{
	const uint64_t keep =
		(1ull << CAP_SYS_ADMIN) |       /* namespaces, mounts, idmaps, overlays */
		(1ull << CAP_SETUID) |          /* uid maps over a range of ids */
		(1ull << CAP_SETGID) |          /* gid maps; a child drops its groups */
		(1ull << CAP_CHOWN) |           /* a box's store belongs to the box's ids */
		(1ull << CAP_FOWNER) |          /* and its modes are set afterwards */
		(1ull << CAP_FSETID) |          /* keep a mode's group bits on the box's files */
		(1ull << CAP_DAC_OVERRIDE) |    /* cgroup leaves, template, sockets of the api's */
		(1ull << CAP_DAC_READ_SEARCH) | /* /proc/<pid>/ns of a box */
		(1ull << CAP_MKNOD) |           /* null, zero and the like in a box's /dev */
		(1ull << CAP_KILL) |            /* end a box, whose ids are not ours */
		(1ull << CAP_SYS_PTRACE) |  /* look at a box's namespaces and root from outside */
		(1ull << CAP_SYS_RESOURCE); /* give a box its limits, above ours if need be */
	int r = userns_is_host_root(err);

	if (r < 0)
		return r;
	/* A user's own namespaces need a dumpable parent: its /proc files must stay its own. */
	if (r == 0)
		return 0;
	/* Not no_new_privs: sandboxes inherit it, and sudo inside one would be dead. */
	r = caps_bound(keep, err);
	if (r >= 0)
		r = caps_set(keep & caps_effective(), err); /* a container's root may lack some */
	if (r >= 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		r = err_sys(err, "forbid dumping");
	return r;
}

static int parse(int argc, char **argv, struct options *ret, struct err *err)
{
	static const struct option names[] = {{"state", required_argument, NULL, 's'},
		{"api-uid", required_argument, NULL, 'u'},
		{"egress-uid", required_argument, NULL, 'e'},
		{"guest", required_argument, NULL, 'g'}, {"spares", required_argument, NULL, 'n'},
		{"json-log", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	struct options o = {.api_uid = geteuid(), .egress_uid = geteuid()};
	uint64_t uid, n;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", names, NULL)) >= 0) {
		if (c == 's')
			o.state = optarg;
		else if (c == 'g')
			o.guest = optarg;
		else if (c == 'j')
			o.json_log = true;
		else if (c == 'n' &&
			 text_parse_u64(optarg, "--spares", 0, WARDEN_SPARES_MAX, &n, err) >= 0)
			o.spares = (unsigned)n;
		else if ((c != 'u' && c != 'e') ||
			 text_parse_u64(optarg, "the uid", 0, UINT32_MAX - 1, &uid, err) < 0)
			return err_set(err, EINVAL, "bad arguments");
		else
			*(c == 'u' ? &o.api_uid : &o.egress_uid) = (uid_t)uid;
	}
	if (!o.state || o.state[0] != '/')
		return err_set(err, EINVAL, "--state must be an absolute path");
	*ret = o;
	return 0;
}

static int set_up(const struct options *o, struct err *err)
{
	static const int keep[] = {LISTEN_FD};
	struct warden_boxes_config config = {
		.state = o->state, .api_uid = o->api_uid, .spares = o->spares, .ended = on_ended};
	AUTO_FREE char *bundle = text_format("%s/ca/public/bundle.pem", o->state);
	sigset_t signals;
	int r = process_close_except(keep, 1, err);

	assert(o->state); /* parse() saw to it */
	/* The template cache stands in the server's own directory. */
	if (r >= 0 && setenv("BAWN_STATE_DIR", o->state, 1) < 0)
		r = err_sys(err, "setenv");
	if (r >= 0 && fcntl(LISTEN_FD, F_SETFD, FD_CLOEXEC) < 0)
		r = err_sys(err, "descriptor %d, the listening socket", LISTEN_FD);
	if (r >= 0 && fcntl(LISTEN_FD, F_SETFL, O_NONBLOCK) < 0)
		r = err_sys(err, "descriptor %d, the listening socket", LISTEN_FD);
	if (r >= 0)
		r = raise_files(err);
	if (r >= 0)
		r = make_guest(o->guest, err);
	if (r < 0)
		return r;
	resident_use_guest(r);
	r = loop_create(&warden.loop, err);
	if (r < 0)
		return r;
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGHUP);
	r = loop_signals(warden.loop, &signals, on_signal, NULL, err);
	if (r >= 0)
		r = confine(err);
	config.loop = warden.loop;
	if (access(bundle, R_OK) == 0)
		config.ca_dir = warden.ca_dir = text_format("%s/ca/public", o->state);
	if (r >= 0)
		r = warden_boxes_open(&config, &warden.boxes, err);
	warden.api_uid = o->api_uid;
	warden.egress_uid = o->egress_uid;
	warden.accepting = (struct loop_watch){.fd = LISTEN_FD, .ready = on_accept};
	return r < 0 ? r : loop_watch_set(warden.loop, &warden.accepting, EPOLLIN, err);
}

int warden_main(int argc, char **argv)
{
	struct options o = {0};
	struct err err = {0};
	int r = parse(argc, argv, &o, &err);

	role_log_init("warden", o.json_log);
	(void)prctl(PR_SET_NAME, "bawn-warden", 0, 0, 0);
	if (r >= 0)
		r = set_up(&o, &err);
	if (r >= 0)
		r = loop_run(warden.loop, &err);
	if (warden.boxes)
		warden_boxes_close(warden.boxes);
	if (r < 0) {
		role_log(ROLE_LOG_ERROR, "failed", "error", err.msg);
		return EXIT_ROLE;
	}
	return 0;
}
