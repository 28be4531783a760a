/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/listen.h"

#include "base/mem.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG  1024
#define DYING_MS 2000
#define STEP_MS  20

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un un;
};

void listener_close(struct listener *l)
{
	closep(&l->fd);
	if (l->path)
		(void)unlink(l->path);
	free(l->spec);
	free(l->url);
	free(l->path);
	*l = (struct listener){.fd = -EBADF};
}

static int parse_tcp(const char *spec, union address *ret, socklen_t *ret_size, struct err *err)
{
	const char *colon = strrchr(spec, ':');
	char host[64];
	uint64_t port = 0;
	size_t n;

	if (!colon)
		return err_set(err, EINVAL, "no port; write ADDR:PORT");
	if (text_parse_u64(colon + 1, "the port", 0, 65535, &port, err) < 0)
		return -err->code;
	n = (size_t)(colon - spec);
	if (n >= sizeof(host))
		return err_set(err, EINVAL, "the address is too long");
	memcpy(host, spec, n);
	host[n] = '\0';
	*ret = (union address){0};
	if (host[0] == '[' && n > 2 && host[n - 1] == ']') {
		host[n - 1] = '\0';
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons((uint16_t)port);
		*ret_size = sizeof(ret->v6);
		if (inet_pton(AF_INET6, host + 1, &ret->v6.sin6_addr) == 1)
			return 0;
	} else {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons((uint16_t)port);
		*ret_size = sizeof(ret->v4);
		if (strcmp(host, "localhost") == 0)
			(void)snprintf(host, sizeof(host), "127.0.0.1");
		if (n == 0 || inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1)
			return 0; /* ":7070" is every IPv4 address */
	}
	return err_set(err, EINVAL,
		"not an address; accepted: a number such as 127.0.0.1 or [::1], or localhost");
}

/* What the kernel says it is: the port may have been its choice. */
static char *tcp_url(int fd, bool is_tls)
{
	union address a = {0};
	socklen_t size = sizeof(a);
	char text[INET6_ADDRSTRLEN] = "";

	if (getsockname(fd, &a.any, &size) < 0)
		return mem_strdup("?");
	if (a.any.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &a.v6.sin6_addr, text, sizeof(text));
		return text_format(
			"http%s://[%s]:%u", is_tls ? "s" : "", text, ntohs(a.v6.sin6_port));
	}
	(void)inet_ntop(AF_INET, &a.v4.sin_addr, text, sizeof(text));
	return text_format("http%s://%s:%u", is_tls ? "s" : "", text, ntohs(a.v4.sin_port));
}

static int open_tcp(const char *spec, bool is_tls, struct listener *ret, struct err *err)
{
	AUTO_FD int fd = -EBADF;
	union address a = {0};
	socklen_t size = 0;
	int on = 1;
	int r = parse_tcp(spec, &a, &size, err);

	if (r < 0)
		return r;
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(err, "socket");
	/* A restarted server must not wait for connections of the old one to be forgotten. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a.any.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, &a.any, size) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(err, "listen");
	*ret = (struct listener){.spec = mem_strdup(spec), .url = tcp_url(fd, is_tls)};
	ret->fd = TAKE_FD(fd);
	return 0;
}

/*
 * The address of a socket file. It holds 107 bytes and a path may have 4095: a longer one goes by
 * way of its directory, which *ret_dir then holds open.
 */
static int unix_address(const char *path, union address *ret, int *ret_dir, struct err *err)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *dir = NULL;
	int n;

	if (path[0] != '/' || !slash)
		return err_set(err, EINVAL, "the path of a socket must be absolute");
	*ret = (union address){0};
	ret->un.sun_family = AF_UNIX;
	if (strlen(path) < sizeof(ret->un.sun_path)) {
		(void)snprintf(ret->un.sun_path, sizeof(ret->un.sun_path), "%s", path);
		return 0;
	}
	dir = (char *)mem_must(strndup(path, (size_t)(slash - path)));
	*ret_dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_dir < 0)
		return err_sys(err, "open '%s'", dir);
	n = snprintf(
		ret->un.sun_path, sizeof(ret->un.sun_path), "/proc/self/fd/%d%s", *ret_dir, slash);
	if (n >= (int)sizeof(ret->un.sun_path))
		return err_set(
			err, ENAMETOOLONG, "the name of a socket is too long: '%s'", slash + 1);
	return 0;
}

static int bind_unix(const char *path, int type, mode_t mode, struct listener *ret, struct err *err)
{
	AUTO_FD int fd = -EBADF, dir = -EBADF;
	union address a = {0};
	mode_t mask;
	int r = unix_address(path, &a, &dir, err);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(err, "socket");
	/* bind() makes the file: with its final mode, or there is a moment for strangers. */
	mask = umask((mode_t)(0777 & ~mode));
	r = bind(fd, &a.any, sizeof(a.un));
	(void)umask(mask);
	if (r < 0)
		return err_sys(err, "bind '%s'", path);
	*ret = (struct listener){.spec = text_format("unix:%s", path),
		.url = text_format("unix:%s", path),
		.path = mem_strdup(path),
		.is_unix = true};
	ret->fd = TAKE_FD(fd);
	return 0;
}

static int serve_unix(struct listener *l, struct err *err)
{
	int r;

	if (listen(l->fd, BACKLOG) == 0)
		return 0;
	r = err_sys(err, "listen");
	listener_close(l);
	return r;
}

/* A socket file nobody listens on is what a killed server left; anything else is not ours. */
static int remove_stale(const char *path, struct err *err)
{
	AUTO_FD int fd = -EBADF, dir = -EBADF;
	union address a = {0};
	struct stat st;
	int r = unix_address(path, &a, &dir, err);

	if (r < 0 || lstat(path, &st) < 0)
		return r;
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, EEXIST, "there is something that is not a socket");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && (connect(fd, &a.any, sizeof(a.un)) == 0 || errno != ECONNREFUSED))
		return err_set(err, EADDRINUSE, "somebody listens there already");
	return unlink(path) < 0 ? err_sys(err, "remove the old socket") : 0;
}

int listener_private(
	const char *path, int type, uid_t owner, gid_t group, struct listener *ret, struct err *err)
{
	bool is_shared = group != (gid_t)-1;
	int r;

	(void)unlink(path);
	r = bind_unix(path, type, is_shared ? 0660 : 0600, ret, err);
	if (r < 0)
		return r;
	if (owner != geteuid() && lchown(path, owner, is_shared ? group : (gid_t)owner) < 0) {
		r = err_sys(err, "give '%s' to user %u", path, owner);
		listener_close(ret);
		return r;
	}
	return serve_unix(ret, err);
}

static int open_once(const char *spec, bool is_tls, struct listener *ret, struct err *err)
{
	int r;

	if (!text_starts(spec, "unix:"))
		return open_tcp(spec, is_tls, ret, err);
	r = remove_stale(spec + 5, err);
	if (r >= 0)
		r = bind_unix(spec + 5, SOCK_STREAM, 0660, ret, err);
	if (r >= 0)
		r = serve_unix(ret, err);
	return r;
}

int listener_open(const char *spec, bool is_tls, struct listener *ret, struct err *err)
{
	static const struct timespec step = {.tv_nsec = STEP_MS * 1000000};
	char quoted[200];
	int r = open_once(spec, is_tls, ret, err);

	/* The roles of a supervisor that was killed hold its addresses until they are dead too. */
	for (int waited = 0; r == -EADDRINUSE && waited < DYING_MS; waited += STEP_MS) {
		(void)nanosleep(&step, NULL);
		*err = (struct err){0};
		r = open_once(spec, is_tls, ret, err);
	}
	if (r < 0)
		(void)err_wrap(err, "listen on '%s'", text_quote(spec, quoted, sizeof(quoted)));
	if (r == -EADDRINUSE)
		(void)err_hint(err, "another server has it; choose another with --listen");
	return r;
}

/* A listening stream socket of a family that we serve? */
static int inspect(int fd, bool is_tls, struct listener *ret, struct err *err)
{
	int type = 0, is_listening = 0;
	union address a = {0};
	socklen_t size = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
		return err_sys(err, "passed descriptor %d", fd);
	size = sizeof(is_listening);
	(void)getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size);
	size = sizeof(a);
	if (getsockname(fd, &a.any, &size) < 0)
		return err_sys(err, "passed descriptor %d", fd);
	if (type != SOCK_STREAM || !is_listening)
		return err_set(err, EINVAL, "passed descriptor %d is not a listening stream", fd);
	ret->is_unix = a.any.sa_family == AF_UNIX;
	ret->spec = mem_strdup("systemd");
	ret->url = ret->is_unix ? text_format("unix:%.100s", a.un.sun_path) : tcp_url(fd, is_tls);
	/* The manager made it and keeps it: the file is not ours to remove. */
	ret->fd = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	/* One that blocks would hold the whole role whenever a client left before it was met. */
	if (ret->fd < 0 || fcntl(ret->fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(err, "passed descriptor %d", fd);
	(void)close(fd);
	return 0;
}

int listener_inherited(struct listener *ret, int max, bool is_tls, struct err *err)
{
	const char *count = getenv("LISTEN_FDS"), *whose = getenv("LISTEN_PID");
	struct err ignored = {0};
	uint64_t n = 0, pid = 0;
	int r = 0;

	/* Meant for us, and not for whoever started us with its own variables? */
	if (count && whose &&
		text_parse_u64(whose, "LISTEN_PID", 1, INT32_MAX, &pid, &ignored) == 0 &&
		(pid_t)pid == getpid()) {
		r = text_parse_u64(count, "LISTEN_FDS", 0, (uint64_t)max, &n, err);
		for (uint64_t i = 0; r >= 0 && i < n; i++)
			r = inspect(3 + (int)i, is_tls, &ret[i], err);
	}
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDNAMES");
	return r < 0 ? r : (int)n;
}
