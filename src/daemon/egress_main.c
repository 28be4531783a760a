/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/egress_main.h"

#include "base/mem.h"
#include "base/text.h"
#include "daemon/confine.h"
#include "daemon/egress_impl.h"
#include "daemon/log.h"
#include "egress/mint.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define RUN_CONTROL 3
#define RUN_TCP     4
#define RUN_DNS     5
#define OWN_MAX     256
#define URL_MAX     1024
#define HEAP_SPARE  (4 << 20) /* bytes */

struct options {
	struct egress_config engine;
	const char *warden, *secrets, *state;
	struct address_net own[OWN_MAX];
	char proxy[URL_MAX]; /* it may hold a password */
	int control, ready, proxy_fd, key_fd;
	bool is_run, is_make_ca, json_log;
};

static struct egress_role *self; /* for the callback of signals */

static int take_own(struct options *o, const char *value, struct err *err)
{
	if (o->engine.own_n >= OWN_MAX)
		return err_set(err, E2BIG, "--own: more than %d", OWN_MAX);
	if (!address_net_parse(value, strlen(value), &o->own[o->engine.own_n]))
		return err_set(err, EINVAL, "--own: not an address or a network");
	o->engine.own_n++;
	return 0;
}

static int take_fd(const char *name, const char *value, int *ret, struct err *err)
{
	uint64_t n = 0;
	int r = text_parse_u64(value, name, 3, 1000, &n, err);

	if (r >= 0)
		*ret = (int)n;
	return r;
}

static int take_value(struct options *o, const char *name, const char *value, struct err *err)
{
	struct {
		const char *name;
		const char **field;
	} const texts[] = {
		{"--ca", &o->engine.ca_dir},
		{"--resolver", &o->engine.resolvers},
		{"--upstream-ca", &o->engine.upstream_ca},
		{"--upstream-proxy", &o->engine.upstream_proxy},
		{"--no-proxy", &o->engine.no_proxy},
		{"--secrets", &o->secrets},
		{"--warden", &o->warden},
		{"--state", &o->state},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(name, texts[i].name) == 0) {
			*texts[i].field = value;
			return 0;
		}
	}
	if (strcmp(name, "--own") == 0)
		return take_own(o, value, err);
	if (strcmp(name, "--control") == 0)
		return take_fd(name, value, &o->control, err);
	if (strcmp(name, "--ready") == 0)
		return take_fd(name, value, &o->ready, err);
	if (strcmp(name, "--upstream-proxy-fd") == 0)
		return take_fd(name, value, &o->proxy_fd, err);
	if (strcmp(name, "--secrets-key-fd") == 0)
		return take_fd(name, value, &o->key_fd, err);
	return err_set(err, EINVAL, "unknown option '%s'", name);
}

static int parse(int argc, char **argv, struct options *o, struct err *err)
{
	int r = 0;

	for (int i = 1; r >= 0 && i < argc; i++) {
		const char *name = argv[i];

		if (strcmp(name, "--run") == 0)
			o->is_run = true;
		else if (strcmp(name, "--make-ca") == 0)
			o->is_make_ca = true;
		else if (strcmp(name, "--json-log") == 0)
			o->json_log = true;
		else if (++i >= argc)
			r = err_set(err, EINVAL, "%s needs a value", name);
		else
			r = take_value(o, name, argv[i], err);
	}
	if (r >= 0 && o->is_make_ca && !o->engine.ca_dir)
		return err_set(err, EINVAL, "--make-ca needs --ca");
	if (r >= 0 && !o->is_run && !o->is_make_ca && (o->control < 0 || !o->warden))
		return err_set(
			err, EINVAL, "role-egress is started by 'bawn serve' and 'bawn run'");
	return r;
}

/* By descriptor: a command line is everybody's to read. */
static int read_proxy(struct options *o, struct err *err)
{
	ssize_t n;

	if (o->proxy_fd < 0)
		return 0;
	n = pread(o->proxy_fd, o->proxy, sizeof(o->proxy) - 1, 0);
	closep(&o->proxy_fd);
	if (n < 0)
		return err_sys(err, "read the upstream proxy's address");
	o->proxy[n] = '\0';
	o->proxy[strcspn(o->proxy, "\n")] = '\0';
	o->engine.upstream_proxy = o->proxy[0] ? o->proxy : NULL;
	return 0;
}

/* What listens at an address of this machine trusts it; a box is not this machine. */
static void add_host_addresses(struct options *o)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return;
	for (struct ifaddrs *i = all; i && o->engine.own_n < OWN_MAX; i = i->ifa_next) {
		struct address_net *net = &o->own[o->engine.own_n];
		struct sockaddr_storage ss = {0};
		uint16_t port;
		int family = i->ifa_addr ? i->ifa_addr->sa_family : 0;

		if (family != AF_INET && family != AF_INET6)
			continue;
		memcpy(&ss, i->ifa_addr,
			family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6));
		if (!address_from_sockaddr(&ss, &net->base, &port))
			continue;
		net->bits = net->base.family == 4 ? 32 : 128;
		o->engine.own_n++;
	}
	freeifaddrs(all);
}

/* ---- a server's owner comes by a listening socket ---- */

struct server {
	struct egress_role role;
	struct loop_watch listener;
};

static void on_owner(struct loop_watch *w, uint32_t events)
{
	struct server *s = (struct server *)((char *)w - offsetof(struct server, listener));
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);
	struct err err = {0};
	int fd;

	(void)events;
	while ((fd = accept4(w->fd, (struct sockaddr *)&peer, &size,
			SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (role_owner_set(&s->role, fd, &err) < 0)
			role_log(ROLE_LOG_ERROR, "owner", "error", err.msg);
	}
}

static int listen_control(struct server *s, int fd, struct err *err)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(err, "the control socket");
	s->listener.fd = fd;
	s->listener.ready = on_owner;
	return loop_watch_set(s->role.loop, &s->listener, EPOLLIN, err);
}

static void hear(int sig, void *arg)
{
	(void)sig, (void)arg;
	loop_stop(self->loop, 0);
}

static int hear_signals(struct egress_role *e, struct err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	/* ^C is for the command in the box; the run ends this one by hanging up. */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	return loop_signals(e->loop, &set, hear, NULL, err);
}

static int serve(struct server *s, struct options *o, struct err *err)
{
	int r;

	if (o->is_run)
		return role_owner_set(&s->role, RUN_CONTROL, err);
	r = role_roads_open(&s->role, o->warden, err);
	if (r >= 0)
		r = listen_control(s, o->control, err);
	if (r >= 0 && o->ready >= 0) {
		(void)write(o->ready, "r", 1);
		closep(&o->ready);
	}
	return r;
}

static int start(struct server *s, struct options *o, struct err *err)
{
	struct egress_role *e = &s->role;
	bool has_landlock = false;
	int r = loop_create(&e->loop, err);

	if (r >= 0)
		r = hear_signals(e, err);
	if (r >= 0)
		r = read_proxy(o, err);
	if (r < 0)
		return r;
	add_host_addresses(o);
	o->engine.own = o->own;
	e->events = role_events_create(e);
	confine_raise_files(); /* the engine counts by it */
	r = egress_create(e->loop, &o->engine, &role_egress_events, e, &e->engine, err);
	if (r >= 0)
		r = role_secrets_open(e, o->secrets, TAKE_FD(o->key_fd), err);
	/* Its keys and certificates are read. From here on nothing is trusted: not a box, not an
	 * upstream, not the owner. */
	if (r >= 0)
		r = confine_egress(&(struct confine_egress){.upstream_ca = o->engine.upstream_ca,
					   .secrets = o->secrets,
					   .warden = o->warden},
			&has_landlock, err);
	if (r >= 0 && !has_landlock && !o->is_run)
		role_log(ROLE_LOG_WARN, "confine", "missing", "landlock");
	return r < 0 ? r : serve(s, o, err);
}

static int make_ca(const struct options *o, struct err *err)
{
	struct mint *m = NULL;
	int r = mint_open(o->engine.ca_dir, o->engine.upstream_ca, &m, err);

	m = mint_free(m);
	return r;
}

static void finish(struct egress_role *e)
{
	struct err ignored = {0};

	if (e->owner)
		control_link_close(TAKE_PTR(e->owner));
	e->engine = egress_free(e->engine);
	role_secrets_close(e);
	role_boxes_free(e);
	e->warden = warden_client_free(e->warden);
	/* What was closed is freed behind a batch. */
	if (e->loop)
		(void)loop_once(e->loop, 0, &ignored);
	role_events_free(e->events);
	closep(&e->tcp);
	closep(&e->dns);
	e->loop = loop_free(e->loop);
}

int egress_main(int argc, char **argv)
{
	struct options o = {
		.control = -EBADF, .ready = -EBADF, .proxy_fd = -EBADF, .key_fd = -EBADF};
	struct server s = {.role = {.tcp = -EBADF, .dns = -EBADF}};
	struct err err = {0};
	int r = parse(argc, argv, &o, &err);

	self = &s.role;
	TAILQ_INIT(&s.role.boxes);
	role_log_init("egress", o.json_log);
	(void)prctl(PR_SET_NAME, "bawnd-egress", 0, 0, 0);
	/* Before the first key is in memory. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)mallopt(M_TRIM_THRESHOLD, HEAP_SPARE);
	if (r >= 0 && o.is_make_ca) {
		r = make_ca(&o, &err);
	} else if (r >= 0) {
		s.role.is_run = o.is_run;
		if (o.is_run) {
			s.role.tcp = RUN_TCP;
			s.role.dns = RUN_DNS;
		}
		r = start(&s, &o, &err);
		if (r >= 0)
			r = loop_run(s.role.loop, &err);
		finish(&s.role);
	}
	if (r < 0)
		role_log(ROLE_LOG_ERROR, "failed", "error", err.msg);
	return r < 0 ? 1 : 0;
}
