/* SPDX-License-Identifier: Apache-2.0 */

/* sys/road in a network namespace of its own. As any user. */
#include "sys/road.h"

#include "in_userns.h"
#include "sys/net.h"
#include "sys/process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>

static struct err err;

/* Addresses as text; IPv4 as it comes out of a dual-stack socket. */
static socklen_t address(const char *text, uint16_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *four = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		return sizeof(*four);
	}
	(void)inet_pton(AF_INET6, text, &six->sin6_addr);
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	return sizeof(*six);
}

static int open_and_connect(const char *to, uint16_t port, int type)
{
	struct sockaddr_storage a;
	socklen_t n = address(to, port, &a);
	AUTO_FD int fd = socket(a.ss_family, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, n) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static bool is_ready(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* Connect; whoever accepts on the road must see where to, and bytes must go both ways. */
static int arrives(const struct road *road, const char *to, uint16_t port, const char *seen)
{
	AUTO_FD int out = open_and_connect(to, port, SOCK_STREAM), in = -EBADF;
	struct sockaddr_in6 a = {0};
	socklen_t n = sizeof(a);
	char text[INET6_ADDRSTRLEN] = "", byte = 0;

	NEED(out >= 0);
	NEED(is_ready(road->tcp_fd, 2000));
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	in = accept4(road->tcp_fd, NULL, NULL, SOCK_CLOEXEC);
	NEED(in >= 0);
	NEED(getsockname(in, (struct sockaddr *)&a, &n) == 0);
	NEED(inet_ntop(AF_INET6, &a.sin6_addr, text, sizeof(text)) != NULL);
	NEED(strcmp(text, seen) == 0);
	NEED(ntohs(a.sin6_port) == port);
	NEED(write(out, "x", 1) == 1 && read(in, &byte, 1) == 1 && byte == 'x');
	NEED(write(in, "y", 1) == 1 && read(out, &byte, 1) == 1 && byte == 'y');
	return 0;
}

static int with_road(int (*then)(struct road *road))
{
	struct road road = {-EBADF, -EBADF};
	int r;

	NEED(unshare(CLONE_NEWNET) == 0);
	NEED(net_loopback_up(&err) == 0);
	NEED(road_make(&road, &err) == 0);
	r = then(&road);
	closep(&road.tcp_fd);
	closep(&road.dns_fd);
	return r;
}

static int every_address(struct road *road)
{
	int r = arrives(road, "8.8.8.8", 443, "::ffff:8.8.8.8");

	r = r ? r : arrives(road, "198.18.0.1", 80, "::ffff:198.18.0.1");
	r = r ? r : arrives(road, "10.0.0.1", 5432, "::ffff:10.0.0.1");
	r = r ? r : arrives(road, "2001:db8::1", 22, "2001:db8::1");
	r = r ? r : arrives(road, "fdba:3a11:ed00::c612:5", 443, "fdba:3a11:ed00::c612:5");
	/* Explicit proxies. */
	r = r ? r : arrives(road, "127.0.0.1", ROAD_PORT, "::ffff:127.0.0.1");
	return r ? r : arrives(road, "::1", ROAD_PORT, "::1");
}

static int every_address_in_child(void)
{
	return with_road(every_address);
}

static void every_connection_arrives_and_says_where_to(void)
{
	CHECK_INT(in_userns(every_address_in_child), 0);
}

static int loopback_and_datagrams(struct road *road)
{
	AUTO_FD int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), out = -EBADF;
	struct sockaddr_storage a;
	socklen_t n = address("127.0.0.1", 8080, &a);
	AUTO_FD int udp = open_and_connect("9.9.9.9", 443, SOCK_DGRAM);
	char byte;

	NEED(open_and_connect("127.0.0.1", 8080, SOCK_STREAM) == -ECONNREFUSED);
	NEED(open_and_connect("::1", 8080, SOCK_STREAM) == -ECONNREFUSED);
	NEED(bind(server, (struct sockaddr *)&a, n) == 0 && listen(server, 1) == 0);
	out = open_and_connect("127.0.0.1", 8080, SOCK_STREAM);
	NEED(out >= 0 && is_ready(server, 2000) && !is_ready(road->tcp_fd, 0));
	NEED(udp >= 0 && write(udp, "x", 1) == 1);
	NEED(is_ready(udp, 2000) && read(udp, &byte, 1) < 0 && errno == ECONNREFUSED);
	return 0;
}

static int loopback_in_child(void)
{
	return with_road(loopback_and_datagrams);
}

static void loopback_stays_its_own_and_datagrams_are_refused(void)
{
	CHECK_INT(in_userns(loopback_in_child), 0);
}

/* The stub's answer must come from the address that was asked. */
static int ask(const struct road *road, const char *server)
{
	AUTO_FD int out = open_and_connect(server, 53, SOCK_DGRAM);
	union {
		char bytes[256];
		struct cmsghdr align;
	} control;
	struct sockaddr_in6 from;
	char byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	union {
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
		struct cmsghdr align;
	} reply = {{0}};
	bool has_info = false;

	NEED(out >= 0 && write(out, "q", 1) == 1 && is_ready(road->dns_fd, 2000));
	NEED(recvmsg(road->dns_fd, &m, 0) == 1 && byte == 'q');
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_IPV6 || c->cmsg_type != IPV6_PKTINFO)
			continue;
		memcpy(reply.bytes, c, CMSG_LEN(sizeof(struct in6_pktinfo)));
		has_info = true;
	}
	NEED(has_info);
	m.msg_control = reply.bytes;
	m.msg_controllen = sizeof(reply.bytes);
	byte = 'a';
	NEED(sendmsg(road->dns_fd, &m, 0) == 1);
	NEED(is_ready(out, 2000) && read(out, &byte, 1) == 1 && byte == 'a');
	return 0;
}

static int any_server(struct road *road)
{
	int r = ask(road, "127.0.0.1");

	r = r ? r : ask(road, "127.0.0.53");
	r = r ? r : ask(road, "8.8.8.8");
	r = r ? r : ask(road, "::1");
	return r ? r : ask(road, "2001:4860:4860::8888");
}

static int any_server_in_child(void)
{
	return with_road(any_server);
}

static void any_name_server_is_ours_and_answers_as_itself(void)
{
	CHECK_INT(in_userns(any_server_in_child), 0);
}

static int nobody_steals(struct road *road)
{
	static const uint16_t ports[] = {ROAD_PORT, 53};
	static const char *const hosts[] = {"0.0.0.0", "127.0.0.1", "8.8.8.8", "::1"};
	struct sockaddr_storage a;
	int one = 1;

	for (size_t p = 0; p < 2; p++)
		for (size_t h = 0; h < 4; h++) {
			socklen_t n = address(hosts[h], ports[p], &a);
			AUTO_FD int fd = socket(
				a.ss_family, (p ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);

			NEED(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
			NEED(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0);
			NEED(bind(fd, (struct sockaddr *)&a, n) < 0 && errno == EADDRINUSE);
		}
	/* A listener at the very address that is wanted is passed over. */
	{
		socklen_t n = address("8.8.8.8", 443, &a);
		AUTO_FD int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		NEED(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 1) == 0);
		return arrives(road, "8.8.8.8", 443, "::ffff:8.8.8.8");
	}
}

static int nobody_steals_in_child(void)
{
	return with_road(nobody_steals);
}

static void nobody_in_the_box_gets_beside_the_road(void)
{
	CHECK_INT(in_userns(nobody_steals_in_child), 0);
}

/* A box that lives on while nobody holds its road; remade from outside by its pidfd. */
static int remake(void)
{
	AUTO_FD int pidfd = -EBADF;
	struct road road = {-EBADF, -EBADF};
	int up[2], go[2], status = -1;
	char byte;
	pid_t pid;

	NEED(pipe2(up, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
	pid = process_clone(CLONE_NEWUSER | CLONE_NEWNET, -EBADF, &pidfd, &err);
	NEED(pid >= 0);
	if (pid == 0) {
		AUTO_FD int out = -EBADF;

		if (net_loopback_up(&err) < 0 || road_make(&road, &err) < 0)
			_exit(1);
		/* Nobody holds it: refused, and at once. */
		closep(&road.tcp_fd);
		closep(&road.dns_fd);
		if (open_and_connect("8.8.8.8", 443, SOCK_STREAM) != -ECONNREFUSED)
			_exit(2);
		if (write(up[1], "u", 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(3);
		out = open_and_connect("2001:db8::7", 443, SOCK_STREAM);
		_exit(out < 0 ? 4 : 0);
	}
	closep(&up[1]);
	NEED(read(up[0], &byte, 1) == 1);
	NEED(road_remake(pidfd, &road, &err) == 0);
	NEED(write(go[1], "g", 1) == 1);
	NEED(is_ready(road.tcp_fd, 2000));
	NEED(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}

static void a_road_is_made_again_from_outside(void)
{
	CHECK_INT(in_userns(remake), 0);
}

static void the_network_of_the_machine_is_not_to_be_had(void)
{
	struct road road = {-1, -1};

	if (geteuid() == 0)
		return;
	CHECK_INT(road_make(&road, &err), -EPERM);
	CHECK_STR(err.msg, "road: make every address local: Operation not permitted");
	CHECK_INT(road.tcp_fd, -1);
}

int main(void)
{
	RUN(every_connection_arrives_and_says_where_to);
	RUN(loopback_stays_its_own_and_datagrams_are_refused);
	RUN(any_name_server_is_ours_and_answers_as_itself);
	RUN(nobody_in_the_box_gets_beside_the_road);
	RUN(a_road_is_made_again_from_outside);
	RUN(the_network_of_the_machine_is_not_to_be_had);
	return tap_done();
}
