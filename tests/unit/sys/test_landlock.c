/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/landlock against the kernel. Each case enters a ruleset in a forked child
 * and compares exact error numbers: Landlock answers EACCES for files and TCP,
 * EPERM for scopes. As any user.
 */
#include "sys/landlock.h"

#include "base/own.h"
#include "sys/caps.h"
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[64];          /* temp dir: ro/ rw/ one/ with files in them */
static pid_t outsider;         /* the test program, which is outside every ruleset */
static char abstract_name[80]; /* of a listening socket that the test program holds */
static in_port_t port;         /* of a TCP listener on loopback, network order */

#define NEED(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			return __LINE__;                                                           \
	} while (0)

/* The call failed with exactly this. */
#define FAILS(call, code) (errno = 0, (call) < 0 && errno == (code))

/* Run fn in a child; 0 if it returned 0; prints the line it returned else. */
static int in_child(int (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int line = fn();

		if (line)
			tap_print("# line %d: errno %d\n", line, errno);
		_exit(line != 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int allow(int ruleset, const char *path, unsigned access)
{
	struct err err = {0};
	AUTO_FD int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return landlock_allow(ruleset, fd, access, &err);
}

static int enter(int ruleset)
{
	struct err err = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return landlock_enter(ruleset, &err);
}

/* The walls of every case: ro/ readable, rw/ writable, ro/file writable by a rule of its own. */
static int confine(bool deny_tcp, unsigned dev_access)
{
	struct err err = {0};
	AUTO_FD int ruleset = landlock_open(deny_tcp, &err);

	if (ruleset < 0)
		return ruleset;
	if (chdir(base) < 0 || allow(ruleset, "ro", LANDLOCK_READ) < 0 ||
		allow(ruleset, "rw", LANDLOCK_READ | LANDLOCK_WRITE) < 0 ||
		allow(ruleset, "one/file", LANDLOCK_READ | LANDLOCK_WRITE) < 0 ||
		allow(ruleset, "/dev/null", dev_access) < 0)
		return -1;
	return enter(ruleset);
}

static int opens(const char *path, int flags)
{
	AUTO_FD int fd = open(path, flags | O_CLOEXEC, 0600);

	return fd;
}

static int reads(void)
{
	NEED(confine(false, LANDLOCK_READ) == 0);
	NEED(opens("ro/file", O_RDONLY) >= 0);
	NEED(opens("ro", O_RDONLY | O_DIRECTORY) >= 0);
	NEED(FAILS(opens("one/other", O_RDONLY), EACCES));
	NEED(FAILS(opens("one", O_RDONLY | O_DIRECTORY), EACCES));
	NEED(FAILS(opens("/etc/passwd", O_RDONLY), EACCES));
	return 0;
}

static void reading_outside_the_trees_is_refused(void)
{
	CHECK_INT(in_child(reads), 0);
}

static int writes(void)
{
	NEED(confine(false, LANDLOCK_READ) == 0);
	NEED(FAILS(opens("ro/file", O_WRONLY), EACCES));
	NEED(FAILS(opens("ro/new", O_WRONLY | O_CREAT), EACCES));
	NEED(FAILS(mkdir("ro/dir", 0700), EACCES));
	NEED(FAILS(unlink("ro/file"), EACCES));
	NEED(FAILS(symlink("x", "ro/link"), EACCES));
	NEED(FAILS(rename("rw/file", "ro/moved"), EACCES));
	NEED(opens("rw/new", O_WRONLY | O_CREAT | O_EXCL) >= 0);
	NEED(mkdir("rw/dir", 0700) == 0);
	NEED(symlink("x", "rw/link") == 0);
	NEED(mkfifo("rw/fifo", 0600) == 0);
	NEED(rename("rw/new", "rw/renamed") == 0);
	NEED(unlink("rw/renamed") == 0 && unlink("rw/link") == 0 && unlink("rw/fifo") == 0);
	if (landlock_abi() >= 2)
		NEED(rename("rw/file", "rw/dir/file") == 0 &&
			rename("rw/dir/file", "rw/file") == 0);
	else
		NEED(FAILS(rename("rw/file", "rw/dir/file"), EXDEV));
	NEED(rmdir("rw/dir") == 0);
	return 0;
}

static void writing_only_where_allowed(void)
{
	CHECK_INT(in_child(writes), 0);
}

static int truncates(void)
{
	NEED(confine(false, LANDLOCK_READ) == 0);
	NEED(truncate("rw/file", 0) == 0);
	NEED(FAILS(truncate("ro/file", 0), EACCES));
	return 0;
}

static void truncating_a_read_only_file_is_refused(void)
{
	if (landlock_abi() < 3) {
		tap_cannot("landlock abi %d has no truncate right", landlock_abi());
		return;
	}
	CHECK_INT(in_child(truncates), 0);
}

static int uses_one_file(void)
{
	NEED(confine(false, LANDLOCK_READ) == 0);
	NEED(opens("one/file", O_RDWR) >= 0);
	NEED(FAILS(unlink("one/file"), EACCES));
	NEED(FAILS(opens("one/new", O_WRONLY | O_CREAT), EACCES));
	return 0;
}

static void rule_on_a_file_gives_that_file_only(void)
{
	CHECK_INT(in_child(uses_one_file), 0);
}

static int makes_nodes(void)
{
	NEED(confine(false, LANDLOCK_READ) == 0);
	NEED(FAILS(mknod("rw/null", S_IFCHR | 0600, makedev(1, 3)), EACCES));
	NEED(FAILS(mknod("rw/disk", S_IFBLK | 0600, makedev(8, 0)), EACCES));
	return 0;
}

static void device_nodes_are_refused_even_where_writable(void)
{
	CHECK_INT(in_child(makes_nodes), 0);
}

static int ioctls_refused(void)
{
	int size = 0;

	NEED(confine(false, LANDLOCK_READ | LANDLOCK_WRITE_FILE) == 0);
	AUTO_FD int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	NEED(fd >= 0);
	NEED(FAILS(ioctl(fd, TIOCGPGRP, &size), EACCES));
	return 0;
}

static int ioctls_reach(void)
{
	int size = 0;

	NEED(confine(false, LANDLOCK_READ | LANDLOCK_WRITE_FILE | LANDLOCK_DEVICES) == 0);
	AUTO_FD int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	NEED(fd >= 0);
	NEED(FAILS(ioctl(fd, TIOCGPGRP, &size), ENOTTY));
	return 0;
}

static void device_ioctl_needs_its_own_right(void)
{
	if (landlock_abi() < 5) {
		tap_cannot("landlock abi %d has no ioctl right", landlock_abi());
		return;
	}
	CHECK_INT(in_child(ioctls_refused), 0);
	CHECK_INT(in_child(ioctls_reach), 0);
}

static struct sockaddr_in loopback(in_port_t to)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = to, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int tcp(bool deny)
{
	struct sockaddr_in to = loopback(port);
	struct sockaddr_in any = loopback(0);
	AUTO_FD int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	AUTO_FD int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	NEED(client >= 0 && server >= 0);
	NEED(confine(deny, LANDLOCK_READ) == 0);
	if (deny) {
		NEED(FAILS(connect(client, (struct sockaddr *)&to, sizeof(to)), EACCES));
		NEED(FAILS(bind(server, (struct sockaddr *)&any, sizeof(any)), EACCES));
	} else {
		NEED(connect(client, (struct sockaddr *)&to, sizeof(to)) == 0);
		NEED(bind(server, (struct sockaddr *)&any, sizeof(any)) == 0);
	}
	return 0;
}

static int tcp_denied(void)
{
	return tcp(true);
}

static int tcp_allowed(void)
{
	return tcp(false);
}

static void tcp_is_refused_only_if_asked(void)
{
	if (landlock_abi() < 4) {
		tap_cannot("landlock abi %d has no network", landlock_abi());
		return;
	}
	CHECK_INT(in_child(tcp_denied), 0);
	CHECK_INT(in_child(tcp_allowed), 0);
}

static socklen_t abstract_address(struct sockaddr_un *sa)
{
	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* A name that starts with NUL is abstract: no file, no mount namespace holds it. */
	memcpy(sa->sun_path + 1, abstract_name, strlen(abstract_name));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract_name));
}

static int connects_abstract(void)
{
	struct sockaddr_un sa;
	socklen_t n = abstract_address(&sa);
	AUTO_FD int before = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	AUTO_FD int after = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	NEED(connect(before, (struct sockaddr *)&sa, n) == 0);
	NEED(confine(false, LANDLOCK_READ) == 0);
	NEED(FAILS(connect(after, (struct sockaddr *)&sa, n), EPERM));
	return 0;
}

static int signals(void)
{
	pid_t child;

	NEED(kill(outsider, 0) == 0);
	NEED(confine(false, LANDLOCK_READ) == 0);
	NEED(FAILS(kill(outsider, 0), EPERM));
	NEED(kill(getpid(), 0) == 0);
	child = fork();
	if (child == 0) {
		(void)pause();
		_exit(0);
	}
	NEED(child > 0);
	NEED(kill(child, SIGKILL) == 0);
	NEED(waitpid(child, NULL, 0) == child);
	return 0;
}

static void scopes_end_at_the_ruleset(void)
{
	if (landlock_abi() < 6) {
		tap_cannot("landlock abi %d has no scopes", landlock_abi());
		return;
	}
	CHECK_INT(in_child(connects_abstract), 0);
	CHECK_INT(in_child(signals), 0);
}

static int enters_without_right(void)
{
	struct err err = {0};
	AUTO_FD int ruleset = landlock_open(true, &err);

	NEED(ruleset >= 0);
	NEED(caps_set(0, &err) == 0);
	NEED(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
	NEED(landlock_enter(ruleset, &err) == -EPERM);
	NEED(strcmp(err.msg, "landlock: enter the ruleset: Operation not permitted") == 0);
	NEED(opens("/etc/passwd", O_RDONLY) >= 0);
	return 0;
}

static void entering_needs_no_new_privs(void)
{
	CHECK_INT(in_child(enters_without_right), 0);
}

static void bad_descriptors_are_errors(void)
{
	struct err err = {0};
	AUTO_FD int ruleset = landlock_open(false, &err);
	AUTO_FD int dir = open(base, O_DIRECTORY | O_CLOEXEC);

	CHECK(ruleset >= 0);
	CHECK(fcntl(ruleset, F_GETFD) == FD_CLOEXEC);
	CHECK_INT(landlock_allow(ruleset, -1, LANDLOCK_READ, &err), -EBADF);
	CHECK_INT(landlock_allow(dir, dir, LANDLOCK_READ, &err), -EBADFD);
	CHECK_STR(err.msg, "landlock: add a rule: File descriptor in bad state");
	CHECK_INT(landlock_allow(ruleset, dir, 0, &err), 0); /* allows nothing, says nothing */
}

static void description_follows_the_abi(void)
{
	CHECK_STR(landlock_describe(0, true), "none");
	CHECK_STR(landlock_describe(1, true), "fs");
	CHECK_STR(landlock_describe(3, false), "fs");
	CHECK_STR(landlock_describe(4, true), "fs, net");
	CHECK_STR(landlock_describe(5, false), "fs");
	CHECK_STR(landlock_describe(6, false), "fs, scopes");
	CHECK_STR(landlock_describe(7, true), "fs, net, scopes");
	CHECK_STR(landlock_describe(99, true), "fs, net, scopes"); /* a later kernel has no less */
}

static bool make_file(const char *path)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, "x", 1) == 1;
}

static int listen_at(int fd, const void *address, socklen_t n)
{
	return fd < 0 || bind(fd, address, n) < 0 || listen(fd, 4) < 0 ? -1 : 0;
}

static bool set_up(int *ret_abstract, int *ret_tcp)
{
	struct sockaddr_in in = loopback(0);
	socklen_t in_n = sizeof(in);
	struct sockaddr_un un;
	socklen_t un_n;

	outsider = getpid();
	(void)snprintf(base, sizeof(base), "/tmp/test_landlock.XXXXXX");
	if (!mkdtemp(base) || chdir(base) < 0)
		return false;
	(void)snprintf(abstract_name, sizeof(abstract_name), "bawn%s", base);
	un_n = abstract_address(&un);
	*ret_abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*ret_tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listen_at(*ret_abstract, &un, un_n) < 0 || listen_at(*ret_tcp, &in, sizeof(in)) < 0 ||
		getsockname(*ret_tcp, (struct sockaddr *)&in, &in_n) < 0)
		return false;
	port = in.sin_port;
	return mkdir("ro", 0700) == 0 && mkdir("rw", 0700) == 0 && mkdir("one", 0700) == 0 &&
	       make_file("ro/file") && make_file("rw/file") && make_file("one/file") &&
	       make_file("one/other");
}

static void tear_down(void)
{
	CHECK(unlink("ro/file") == 0 && unlink("rw/file") == 0);
	CHECK(unlink("one/file") == 0 && unlink("one/other") == 0);
	CHECK(rmdir("ro") == 0 && rmdir("rw") == 0 && rmdir("one") == 0);
	CHECK(chdir("/") == 0 && rmdir(base) == 0);
}

int main(void)
{
	AUTO_FD int abstract = -EBADF;
	AUTO_FD int tcp_listener = -EBADF;

	RUN(description_follows_the_abi);
	if (landlock_abi() < 1 || !set_up(&abstract, &tcp_listener)) {
		tap_print("Bail out! this kernel has no landlock, or /tmp is not writable\n");
		return 1;
	}
	RUN(reading_outside_the_trees_is_refused);
	RUN(writing_only_where_allowed);
	RUN(truncating_a_read_only_file_is_refused);
	RUN(rule_on_a_file_gives_that_file_only);
	RUN(device_nodes_are_refused_even_where_writable);
	RUN(device_ioctl_needs_its_own_right);
	RUN(tcp_is_refused_only_if_asked);
	RUN(scopes_end_at_the_ruleset);
	RUN(entering_needs_no_new_privs);
	RUN(bad_descriptors_are_errors);
	RUN(tear_down);
	return tap_done();
}
