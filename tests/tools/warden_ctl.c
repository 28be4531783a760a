/* SPDX-License-Identifier: Apache-2.0 */

/*
 * tests/tools/warden_ctl - ask a warden by hand.
 *
 *   warden_ctl serve SOCKET PROGRAM ARG...     bind SOCKET, run PROGRAM with it as descriptor 3
 *   warden_ctl SOCKET start ID [memory=N] [pids=N] [disk=N] [cpu=N] [sudo] [loopback] [road]
 *              [host=NAME]
 *   warden_ctl SOCKET stop ID | usage ID | list | raw HEX
 *   warden_ctl SOCKET road ID                  take its road, tell where one connection wants to go
 *   warden_ctl SOCKET fill N PREFIX [spec]     start N; prints each id that was answered
 *   warden_ctl SOCKET volley N PREFIX [spec]   the same, all asked before the first answer
 *   warden_ctl SOCKET flood N PREFIX [spec]    the same, up to the first that is refused
 *   warden_ctl SOCKET cancel ID [spec]         start, and stop before the answer
 *   warden_ctl SOCKET churn N PREFIX [spec]    start and stop N times; prints microseconds
 *   warden_ctl SOCKET watch                    print what ends
 *
 * One line per answer: "ok …" or "error CODE MESSAGE"; "lost" if the warden went away.
 */
#include "base/own.h"
#include "base/text.h"
#include "run/warden.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static uint64_t next_number;

static int fail(const char *what)
{
	(void)fprintf(stderr, "warden_ctl: %s: %s\n", what, strerror(errno));
	return 2;
}

static int serve(const char *path, char **argv)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	(void)unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 16) < 0)
		return fail("listen");
	if (fd != 3 && (dup2(fd, 3) < 0 || close(fd) < 0))
		return fail("dup2");
	(void)execv(argv[0], argv);
	return fail("exec");
}

static int open_socket(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return fd;
}

static void print_walls(const struct warden_message *m)
{
	for (int i = 0; i < WALL_COUNT; i++)
		(void)printf(" %s=%s/%s", wall_name((enum wall)i),
			wall_level_name((enum wall_level)m->walls.requested[i]),
			wall_verdict_name((enum wall_verdict)m->walls.enforced[i]));
}

/* 0 ok, 1 refused, 3 the warden is gone */
static int receive(int fd, struct warden_message *m)
{
	ssize_t n = recv(fd, m, sizeof(*m), 0);

	if (n == (ssize_t)sizeof(*m))
		return m->code < 0 ? 1 : 0;
	(void)printf("lost\n");
	return 3;
}

static int ask(int fd, struct warden_message *m)
{
	m->number = ++next_number;
	if (send(fd, m, sizeof(*m), MSG_NOSIGNAL) < 0) {
		(void)printf("lost\n");
		return 3;
	}
	return receive(fd, m);
}

static int parse_number(const char *arg, const char *name, uint64_t *to)
{
	size_t n = strlen(name);
	struct err err = {0};

	if (strncmp(arg, name, n) != 0 || arg[n] != '=')
		return 0;
	if (text_parse_size(arg + n + 1, name, to, &err) < 0) {
		(void)fprintf(stderr, "warden_ctl: %s\n", err.msg);
		return -1;
	}
	return 1;
}

static int parse_spec(char **argv, struct warden_spec *s)
{
	(void)snprintf(s->tier, sizeof(s->tier), "process");
	(void)snprintf(s->template, sizeof(s->template), "base");
	for (; *argv; argv++) {
		const struct {
			const char *name;
			uint64_t *to;
		} numbers[] = {{"memory", &s->memory_max}, {"pids", &s->pids_max},
			{"disk", &s->disk_max}, {"cpu", &s->cpu_milli}, {"files", &s->open_files}};
		int r = 0;

		for (size_t i = 0; r == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
			r = parse_number(*argv, numbers[i].name, numbers[i].to);
		if (r > 0)
			continue;
		if (strcmp(*argv, "sudo") == 0)
			s->allow_sudo = 1;
		else if (strcmp(*argv, "loopback") == 0)
			s->want_loopback = 1;
		else if (strcmp(*argv, "road") == 0)
			s->want_loopback = s->want_road = 1;
		else if (strncmp(*argv, "host=", 5) == 0)
			(void)snprintf(s->hostname, sizeof(s->hostname), "%.63s", *argv + 5);
		else if (strncmp(*argv, "template=", 9) == 0)
			(void)snprintf(s->template, sizeof(s->template), "%.63s", *argv + 9);
		else if (strncmp(*argv, "tier=", 5) == 0)
			(void)snprintf(s->tier, sizeof(s->tier), "%.15s", *argv + 5);
		else
			return -1;
	}
	return 0;
}

static int print_answer(const struct warden_message *m, int r)
{
	if (r == 1)
		(void)printf("error %d %s\n", -m->code, m->err.msg);
	if (r == 0 && m->op == WARDEN_START) {
		(void)printf("ok");
		print_walls(m);
		(void)printf("\n");
	} else if (r == 0 && m->op == WARDEN_USAGE) {
		(void)printf(
			"ok cpu_us=%lld memory=%lld peak=%llu disk=%lld oom=%llu refused=%llu\n",
			m->usage.has_cpu ? (long long)m->usage.cpu_us : -1,
			m->usage.has_memory ? (long long)m->usage.memory : -1,
			(unsigned long long)m->usage.memory_peak,
			m->usage.has_disk ? (long long)m->usage.disk : -1,
			(unsigned long long)m->usage.oom_kills,
			(unsigned long long)m->usage.pids_refused);
	} else if (r == 0) {
		(void)printf("ok\n");
	}
	return r;
}

static int one(int fd, uint32_t op, char **argv)
{
	struct warden_message m;

	memset(&m, 0, sizeof(m));
	m.op = op;
	(void)snprintf(m.id, sizeof(m.id), "%s", argv[0]);
	if (op == WARDEN_START && parse_spec(argv + 1, &m.spec) < 0)
		return 2;
	return print_answer(&m, ask(fd, &m));
}

/* Ready once it has the road; then the first connection that comes, or nothing in ten seconds. */
static int road(int fd, const char *id)
{
	struct warden_message m = {.op = WARDEN_ROAD, .number = ++next_number};
	int fds[2] = {-EBADF, -EBADF}, in;
	struct sockaddr_in6 at = {0};
	socklen_t len = sizeof(at);
	struct pollfd p = {.events = POLLIN};
	char text[INET6_ADDRSTRLEN];
	struct err err = {0};
	size_t n = 2;

	(void)snprintf(m.id, sizeof(m.id), "%s", id);
	if (sock_send(fd, &m, sizeof(m), NULL, 0, &err) < 0 ||
		sock_receive(fd, &m, sizeof(m), fds, &n, &err) != (ssize_t)sizeof(m)) {
		(void)printf("lost\n");
		return 3;
	}
	if (m.code < 0)
		return print_answer(&m, 1);
	(void)printf("ready\n");
	(void)fflush(stdout);
	p.fd = fds[0];
	if (n != 2 || poll(&p, 1, 10000) != 1)
		return fail("nobody came");
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	in = accept4(fds[0], NULL, NULL, SOCK_CLOEXEC);
	if (in < 0 || getsockname(in, (struct sockaddr *)&at, &len) < 0)
		return fail("accept");
	(void)printf("to %s %u\n", inet_ntop(AF_INET6, &at.sin6_addr, text, sizeof(text)),
		ntohs(at.sin6_port));
	return 0;
}

static int list(int fd)
{
	struct warden_message m;
	int r;

	memset(&m, 0, sizeof(m));
	m.op = WARDEN_LIST;
	for (r = ask(fd, &m); r == 0 && m.op == WARDEN_BOX; r = receive(fd, &m)) {
		(void)printf("box %s", m.id);
		print_walls(&m);
		(void)printf("\n");
	}
	return print_answer(&m, r);
}

static int raw(int fd, const char *hex)
{
	char buf[8192] = "";
	struct warden_message m;
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n && i < sizeof(buf); i++) {
		char two[3] = {hex[2 * i], hex[2 * i + 1], 0};
		const char *p = two;
		uint64_t v = 0;

		if (text_scan_hex(&p, &v) < 0)
			return 2;
		buf[i] = (char)v;
	}
	if (send(fd, buf, n, MSG_NOSIGNAL) < 0)
		return fail("send");
	return receive(fd, &m);
}

static uint64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int churn(int fd, const char *count, const char *prefix, char **spec)
{
	uint64_t n = 0;
	struct err err;

	if (text_parse_u64(count, "N", 1, 100000, &n, &err) < 0)
		return 2;
	for (uint64_t i = 0; i < n; i++) {
		struct warden_message m;
		uint64_t from = now_us(), up;

		memset(&m, 0, sizeof(m));
		m.op = WARDEN_START;
		(void)snprintf(m.id, sizeof(m.id), "%.11s%llu", prefix, (unsigned long long)i);
		if (parse_spec(spec, &m.spec) < 0)
			return 2;
		if (ask(fd, &m) != 0)
			return print_answer(&m, 1);
		up = now_us();
		memset(&m, 0, sizeof(m));
		m.op = WARDEN_STOP;
		(void)snprintf(m.id, sizeof(m.id), "%.11s%llu", prefix, (unsigned long long)i);
		if (ask(fd, &m) != 0)
			return print_answer(&m, 1);
		(void)printf("%llu %llu\n", (unsigned long long)(up - from),
			(unsigned long long)(now_us() - up));
	}
	return 0;
}

static int fill(int fd, const char *count, const char *prefix, char **spec)
{
	uint64_t n = 0;
	struct err err;
	int r = 0;

	if (text_parse_u64(count, "N", 1, 100000, &n, &err) < 0)
		return 2;
	for (uint64_t i = 0; r == 0 && i < n; i++) {
		struct warden_message m;

		memset(&m, 0, sizeof(m));
		m.op = WARDEN_START;
		(void)snprintf(m.id, sizeof(m.id), "%.11s%llu", prefix, (unsigned long long)i);
		if (parse_spec(spec, &m.spec) < 0)
			return 2;
		r = ask(fd, &m);
		if (r == 0)
			(void)printf("up %s\n", m.id);
		else if (r == 1)
			(void)print_answer(&m, r);
	}
	return r;
}

/* Ask for all at once; then each answer, up to the first refusal if that is what is looked for. */
static int volley(int fd, const char *count, const char *prefix, char **spec, bool is_flood)
{
	uint64_t n = 0;
	struct err err;
	int r = 0;

	if (text_parse_u64(count, "N", 1, 100000, &n, &err) < 0)
		return 2;
	for (uint64_t i = 0; i < n; i++) {
		struct warden_message m;

		memset(&m, 0, sizeof(m));
		m.op = WARDEN_START;
		m.number = ++next_number;
		(void)snprintf(m.id, sizeof(m.id), "%.11s%llu", prefix, (unsigned long long)i);
		if (parse_spec(spec, &m.spec) < 0)
			return 2;
		if (send(fd, &m, sizeof(m), MSG_NOSIGNAL) < 0)
			return fail("send");
	}
	for (uint64_t i = 0; r <= 1 && i < n; i++) {
		struct warden_message m;

		r = receive(fd, &m);
		if (r == 0)
			(void)printf("up %s\n", m.id);
		else if (r == 1)
			(void)printf("error %d %s\n", -m.code, m.id);
		(void)fflush(stdout);
		if (r == 1 && is_flood)
			return r;
	}
	return r;
}

static int cancel(int fd, char **argv)
{
	struct warden_message m;
	int r = 0;

	for (int i = 0; i < 2; i++) {
		memset(&m, 0, sizeof(m));
		m.op = i ? WARDEN_STOP : WARDEN_START;
		m.number = ++next_number;
		(void)snprintf(m.id, sizeof(m.id), "%s", argv[0]);
		if (i == 0 && parse_spec(argv + 1, &m.spec) < 0)
			return 2;
		if (send(fd, &m, sizeof(m), MSG_NOSIGNAL) < 0)
			return fail("send");
	}
	for (int i = 0; r <= 1 && i < 2; i++) {
		r = receive(fd, &m);
		(void)print_answer(&m, r);
	}
	return r;
}

static int watch(int fd)
{
	struct warden_message m;

	(void)printf("watching\n");
	(void)fflush(stdout);
	while (receive(fd, &m) == 0) {
		(void)printf("ended %s %.64s\n", m.id, m.reason);
		(void)fflush(stdout);
	}
	return 3;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc >= 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2], argv + 3);
	if (argc < 3)
		return 2;
	fd = open_socket(argv[1]);
	if (fd < 0) {
		(void)printf("lost\n");
		return 3;
	}
	if (argc >= 4 && strcmp(argv[2], "start") == 0)
		return one(fd, WARDEN_START, argv + 3);
	if (argc == 4 && strcmp(argv[2], "stop") == 0)
		return one(fd, WARDEN_STOP, argv + 3);
	if (argc == 4 && strcmp(argv[2], "usage") == 0)
		return one(fd, WARDEN_USAGE, argv + 3);
	if (argc == 4 && strcmp(argv[2], "road") == 0)
		return road(fd, argv[3]);
	if (argc == 3 && strcmp(argv[2], "list") == 0)
		return list(fd);
	if (argc == 4 && strcmp(argv[2], "raw") == 0)
		return raw(fd, argv[3]);
	if (argc >= 5 && strcmp(argv[2], "churn") == 0)
		return churn(fd, argv[3], argv[4], argv + 5);
	if (argc >= 5 && strcmp(argv[2], "fill") == 0)
		return fill(fd, argv[3], argv[4], argv + 5);
	if (argc >= 5 && strcmp(argv[2], "volley") == 0)
		return volley(fd, argv[3], argv[4], argv + 5, false);
	if (argc >= 5 && strcmp(argv[2], "flood") == 0)
		return volley(fd, argv[3], argv[4], argv + 5, true);
	if (argc >= 4 && strcmp(argv[2], "cancel") == 0)
		return cancel(fd, argv + 3);
	if (argc == 3 && strcmp(argv[2], "watch") == 0)
		return watch(fd);
	return 2;
}
