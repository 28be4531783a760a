/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_inner - what runs in the box: each attack in a child of its own.
 *
 * Also used by the driver for control runs, so that an attack meets the same
 * surroundings in both places. Knows no verdict beyond "refused" and "broke": the
 * driver judges. No threads; blocks.
 */
#include "cli/attack.h"
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#define ATTACK_SECONDS 30 /* after which an attempt is cut off */

__attribute__((format(printf, 4, 0))) static int fill(
	struct attack_report *r, int verdict, int err, const char *fmt, va_list ap)
{
	r->verdict = verdict;
	r->err = err;
	(void)vsnprintf(r->text, sizeof(r->text), fmt, ap);
	return verdict;
}

int attack_broke(struct attack_report *r, const char *fmt, ...)
{
	va_list ap;
	int verdict;

	va_start(ap, fmt);
	verdict = fill(r, ATTACK_BROKE, 0, fmt, ap);
	va_end(ap);
	return verdict;
}

int attack_refused(struct attack_report *r, const char *fmt, ...)
{
	int err = errno;
	va_list ap;
	int verdict;

	va_start(ap, fmt);
	verdict = fill(r, ATTACK_REFUSED, err, fmt, ap);
	va_end(ap);
	return verdict;
}

int attack_absent(struct attack_report *r, const char *fmt, ...)
{
	int err = errno;
	va_list ap;
	int verdict;

	va_start(ap, fmt);
	verdict = fill(r, ATTACK_ABSENT, err, fmt, ap);
	va_end(ap);
	return verdict;
}

int attack_reached(struct attack_report *r, long result, const char *call)
{
	const char *braces = strchr(call, '(') ? "" : "()";

	if (result >= 0)
		return attack_broke(r, "%s%s succeeded", call, braces);
	if (errno == EPERM || errno == EACCES || errno == ENOSYS)
		return attack_refused(r, "%s%s", call, braces);
	return attack_broke(r, "%s%s reached the kernel: %s", call, braces, strerror(errno));
}

int attack_try_call(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	long result =
		syscall(a->nr, a->arg[0], a->arg[1], a->arg[2], a->arg[3], a->arg[4], a->arg[5]);

	(void)c;
	return attack_reached(r, result, a->call);
}

int attack_try_open(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = open(a->path, a->open_flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	(void)c;
	if (fd < 0)
		return attack_refused(r, "open %s", a->path);
	return attack_broke(r, "opened %s", a->path);
}

int attack_read_secret(
	const struct attack_ctx *c, int dir_fd, const char *path, struct attack_report *r)
{
	AUTO_FD int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char bytes[256] = "";
	ssize_t n;

	if (fd < 0)
		return attack_refused(r, "open %s", path);
	n = read(fd, bytes, sizeof(bytes) - 1);
	if (n < 0)
		return attack_refused(r, "read %s", path);
	if (memmem(bytes, (size_t)n, c->secret, strlen(c->secret)))
		return attack_broke(r, "read the secret from %s", path);
	errno = ENODATA;
	return attack_refused(r, "%s opens but does not hold the secret", path);
}

void attack_keep(void)
{
	struct timespec half = {.tv_nsec = 500000000};

	while (nanosleep(&half, &half) < 0 && errno == EINTR)
		continue;
}

static int write_file(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

/* Give a control run namespaces of its own: what it changes there dies with it. */
static int make_world(int control_ns)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	/* Without root, the capabilities over the new namespaces come with a user namespace. */
	if (uid != 0 && control_ns != 0)
		control_ns |= CLONE_NEWUSER;
	if (uid == 0)
		control_ns |= CLONE_NEWNS;
	if (control_ns == 0)
		return 0;
	if (unshare(control_ns) < 0)
		return -errno;
	if (control_ns & CLONE_NEWUSER) {
		(void)write_file("/proc/self/setgroups", "deny");
		(void)snprintf(map, sizeof(map), "0 %u 1", uid);
		if (write_file("/proc/self/uid_map", map) < 0)
			return -EPERM;
		(void)snprintf(map, sizeof(map), "0 %u 1", gid);
		(void)write_file("/proc/self/gid_map", map);
	}
	if ((control_ns & CLONE_NEWNS) && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	return 0;
}

static void child_main(const struct attack *a, const struct attack_ctx *c, int control_ns,
	struct attack_report *shared)
{
	struct attack_report r = *shared;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGALRM, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	/* No controlling terminal, so that vhangup() and TIOCSCTTY cannot hit the caller's. */
	(void)setsid();
	(void)alarm(ATTACK_SECONDS);
	if (c->role == ATTACK_ROLE_CONTROL)
		(void)dup2(a->flags & ATTACK_TTY ? c->tty_fd : c->stdin_fd, STDIN_FILENO);
	if (c->role == ATTACK_ROLE_CONTROL && make_world(control_ns) < 0)
		(void)attack_absent(&r, "control run: no namespaces of its own");
	else
		(void)a->try(a, c, &r);
	r.index = shared->index;
	*shared = r;
	_exit(0);
}

void attack_run_child(
	const struct attack *a, const struct attack_ctx *c, int control_ns, struct attack_report *r)
{
	struct attack_report *shared;
	int status = 0;
	pid_t pid;

	r->verdict = ATTACK_ABSENT;
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		(void)attack_absent(r, "no memory for a report");
		return;
	}
	*shared = *r;
	pid = fork();
	if (pid == 0)
		child_main(a, c, control_ns, shared);
	if (pid < 0) {
		(void)attack_absent(r, "could not fork the attack");
	} else {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
		*r = *shared;
		if (WIFSIGNALED(status) && r->verdict != ATTACK_BROKE) {
			int sig = WTERMSIG(status);

			r->verdict = sig == SIGALRM ? ATTACK_ABSENT : ATTACK_REFUSED;
			r->err = -sig;
			(void)snprintf(r->text, sizeof(r->text), "ended by SIG%s",
				sigabbrev_np(sig) ? sigabbrev_np(sig) : "?");
		}
	}
	(void)munmap(shared, sizeof(*shared));
}

static int read_ctx(int fd, struct attack_ctx *c)
{
	ssize_t n = pread(fd, c, sizeof(*c), 0);

	if (n != (ssize_t)sizeof(*c) || c->n > ATTACK_BATCH_MAX)
		return -EBADMSG;
	/*
	 * The stage's scratch directory is in sight only if the walls around the file
	 * system were taken down; then it is the place that is cleaned up afterwards.
	 */
	if (access(c->scratch, W_OK) < 0)
		(void)snprintf(c->scratch, sizeof(c->scratch), "/tmp");
	return 0;
}

/* Wait until the driver closes its end. */
static void hold(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		continue;
}

static int run_batch(const struct attack_ctx *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		struct attack_report r = {.index = c->index[i]};
		const struct attack *a;

		if (c->index[i] < 0 || (size_t)c->index[i] >= attack_count())
			return EXIT_BAWN;
		a = attack_at((size_t)c->index[i]);
		attack_run_child(a, c, 0, &r);
		if (write(c->report_fd, &r, sizeof(r)) != (ssize_t)sizeof(r))
			return EXIT_BAWN;
	}
	return 0;
}

/* Own what another sandbox must not reach, say so, and wait. */
static int be_neighbour(const struct attack_ctx *c)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	AUTO_FD int file = -EBADF, sock = -EBADF;
	struct attack_report r = {.verdict = ATTACK_REFUSED};
	char path[2 * ATTACK_PATH_SIZE];
	int shm;

	(void)snprintf(path, sizeof(path), "%s/neighbour-secret", c->scratch);
	file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
	if (file < 0 || write(file, c->secret, strlen(c->secret)) < 0)
		return EXIT_BAWN;
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "%s-n", c->abstract_name);
	if (sock < 0 || bind(sock, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(sock, 8) < 0)
		return EXIT_BAWN;
	/* With --wall ipc=off it lives in the host's namespace: removed on the way out. */
	shm = shmget(c->sysv_key + 1, 4096, IPC_CREAT | 0666);
	if (write(c->report_fd, &r, sizeof(r)) != (ssize_t)sizeof(r))
		return EXIT_BAWN;
	hold(c->hold_fd);
	if (shm >= 0)
		(void)shmctl(shm, IPC_RMID, NULL);
	return 0;
}

int attack_inner_main(int argc, char **argv)
{
	struct attack_ctx c;
	struct err err = {0};
	uint64_t fd = 0;

	if (argc != 2 || text_parse_u64(argv[1], "CTX_FD", 3, 1023, &fd, &err) < 0)
		return EXIT_BAWN;
	if (read_ctx((int)fd, &c) < 0)
		return EXIT_BAWN;
	return c.role == ATTACK_ROLE_NEIGHBOUR ? be_neighbour(&c) : run_batch(&c);
}
