/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_stage - what is worth attacking, made on the host for one run of `bawn attack`.
 *
 * A directory with canary files, System V and posix objects that everybody may
 * use, a terminal, a leaked descriptor, and a victim: a process that answers with the secret on
 * loopback, abstract and path sockets. File modes are as open as they get, so
 * that a refusal is a wall's doing. Runs in the driver and, for the victim, in its child.
 */
#include "base/mem.h"
#include "cli/attack.h"
#include "sys/tree.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>

enum { SOCK_TCP, SOCK_TCP6, SOCK_UDP, SOCK_ABSTRACT, SOCK_PATH, SOCKS };

struct attack_stage {
	char name[64];  /* of the directory, below attack_stage_parent() */
	char queue[64]; /* "/bawn-attack-…", also in /dev/shm */
	int shm, msg, sem;
	int socks[SOCKS];
	int tty_master, tty_slave;
	int stdin_fd;
	int leak_fd;
	pid_t victim;
};

static int put_file(const char *path, const char *text, struct err *err)
{
	AUTO_FD int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return err_sys(err, "stage: write '%s'", path);
	return 0;
}

static int put_dir(const char *path, struct err *err)
{
	if (mkdir(path, 0777) < 0)
		return err_sys(err, "stage: mkdir '%s'", path);
	return 0;
}

/* Paths below the stage, and what they hold; NULL is a directory. */
static int make_files(const struct attack_ctx *c, struct err *err)
{
	const struct {
		const char *path;
		const char *text;
	} items[] = {{"canary", c->secret}, {"stdin", "input\n"}, {"shared", NULL},
		{"shared/.env", c->secret}, {"shared/.git", NULL}, {"shared/.git/hooks", NULL},
		{"shared/.git/config", "[core]\n"}, {"control", NULL}, {"home", NULL},
		{"home/.ssh", NULL}, {"home/.ssh/id_ed25519", c->secret}};
	char path[2 * ATTACK_PATH_SIZE];
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(items) / sizeof(items[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", c->dir, items[i].path);
		r = items[i].text ? put_file(path, items[i].text, err) : put_dir(path, err);
	}
	return r;
}

/*
 * Every box has a /tmp and a /var/tmp of its own. A disk comes first: its bandwidth
 * can be limited, and before Linux 6.3 tmpfs cannot be id-mapped.
 */
const char *attack_stage_parent(void)
{
	struct statfs tmp, var;

	if (statfs("/tmp", &tmp) == 0 && tmp.f_type == TMPFS_MAGIC &&
		statfs("/var/tmp", &var) == 0 && var.f_type != TMPFS_MAGIC &&
		access("/var/tmp", W_OK) == 0)
		return "/var/tmp";
	return "/tmp";
}

static int make_dir(struct attack_stage *s, struct attack_ctx *c, struct err *err)
{
	const char *parent = attack_stage_parent();

	(void)snprintf(c->dir, sizeof(c->dir), "%s/bawn-attack.XXXXXX", parent);
	if (!mkdtemp(c->dir))
		return err_sys(err, "stage: make '%s'", c->dir);
	(void)snprintf(s->name, sizeof(s->name), "%.60s", c->dir + strlen(parent) + 1);
	if (chmod(c->dir, 0755) < 0)
		return err_sys(err, "stage: chmod '%s'", c->dir);
	(void)snprintf(c->canary, sizeof(c->canary), "%.200s/canary", c->dir);
	(void)snprintf(c->shared, sizeof(c->shared), "%.200s/shared", c->dir);
	(void)snprintf(c->scratch, sizeof(c->scratch), "%.200s/control", c->dir);
	(void)snprintf(c->home, sizeof(c->home), "%.200s/home", c->dir);
	return make_files(c, err);
}

static int make_ipc(struct attack_stage *s, struct attack_ctx *c, struct err *err)
{
	struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 64};
	char path[2 * ATTACK_PATH_SIZE];
	void *at;
	mqd_t q;

	s->shm = shmget(c->sysv_key, 4096, IPC_CREAT | IPC_EXCL | 0666);
	s->msg = msgget(c->sysv_key, IPC_CREAT | IPC_EXCL | 0666);
	s->sem = semget(c->sysv_key, 1, IPC_CREAT | IPC_EXCL | 0666);
	if (s->shm < 0 || s->msg < 0 || s->sem < 0)
		return err_sys(err, "stage: make System V objects");
	at = shmat(s->shm, NULL, 0);
	if (at == (void *)-1)
		return err_sys(err, "stage: attach a shared memory segment");
	(void)memcpy(at, c->secret, strlen(c->secret));
	(void)shmdt(at);
	q = mq_open(c->queue_name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666, &attr);
	if (q < 0)
		return err_sys(err, "stage: make a posix message queue");
	(void)mq_close(q);
	(void)snprintf(s->queue, sizeof(s->queue), "%s", c->queue_name);
	(void)snprintf(path, sizeof(path), "/dev/shm%s", c->queue_name);
	return put_file(path, c->secret, err);
}

static int bind_inet(int family, int type, uint16_t *ret_port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool is_v6 = family == AF_INET6;
	struct sockaddr *sa = is_v6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in;
	socklen_t len = is_v6 ? sizeof(in6) : sizeof(in);
	AUTO_FD int fd = socket(family, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, sa, len) < 0 || getsockname(fd, sa, &len) < 0)
		return -errno;
	if (type == SOCK_STREAM && listen(fd, 8) < 0)
		return -errno;
	*ret_port = ntohs(is_v6 ? in6.sin6_port : in.sin_port);
	return TAKE_FD(fd);
}

static int bind_unix(const char *path, bool is_abstract)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(sa.sun_path + is_abstract, sizeof(sa.sun_path) - 1, "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 8) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int make_sockets(struct attack_stage *s, struct attack_ctx *c, struct err *err)
{
	char path[2 * ATTACK_PATH_SIZE];

	(void)snprintf(path, sizeof(path), "%s/host.sock", c->dir);
	s->socks[SOCK_TCP] = bind_inet(AF_INET, SOCK_STREAM, &c->tcp_port);
	/* A machine without IPv6 is fine: there is nothing to reach then. */
	s->socks[SOCK_TCP6] = bind_inet(AF_INET6, SOCK_STREAM, &c->tcp6_port);
	s->socks[SOCK_UDP] = bind_inet(AF_INET, SOCK_DGRAM, &c->udp_port);
	s->socks[SOCK_ABSTRACT] = bind_unix(c->abstract_name, true);
	s->socks[SOCK_PATH] = bind_unix(path, false);
	for (int i = 0; i < SOCKS; i++)
		if (s->socks[i] < 0 && i != SOCK_TCP6)
			return err_set(err, -s->socks[i], "stage: listen on socket %d", i);
	return 0;
}

/* Say the secret, then let the other side finish: closing early would reset the connection. */
static void answer_stream(int listener, const char *secret)
{
	/* cppcheck-suppress nullPointer ; nobody asks who calls */
	struct sockaddr_storage from;
	socklen_t from_len = sizeof(from);
	AUTO_FD int fd = accept4(listener, (struct sockaddr *)&from, &from_len, SOCK_CLOEXEC);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char bytes[64];

	if (fd < 0)
		return;
	(void)send(fd, secret, strlen(secret), MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
	if (poll(&p, 1, 500) == 1)
		(void)recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
}

static void answer_datagram(int fd, const char *secret)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	char bytes[64];

	if (recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&from, &len) >= 0)
		(void)sendto(fd, secret, strlen(secret), MSG_DONTWAIT | MSG_NOSIGNAL,
			(struct sockaddr *)&from, len);
}

static _Noreturn void victim_main(const struct attack_stage *s, const struct attack_ctx *c)
{
	struct pollfd p[SOCKS];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_NAME, "bawn-victim");
	/* Where Yama restricts tracing, the victim invites everybody. */
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (;;) {
		for (int i = 0; i < SOCKS; i++)
			p[i] = (struct pollfd){.fd = s->socks[i], .events = POLLIN};
		if (poll(p, SOCKS, -1) < 0)
			continue;
		for (int i = 0; i < SOCKS; i++) {
			if (!(p[i].revents & POLLIN))
				continue;
			if (i == SOCK_UDP)
				answer_datagram(p[i].fd, c->secret);
			else
				answer_stream(p[i].fd, c->secret);
		}
	}
}

static int make_victim(struct attack_stage *s, struct attack_ctx *c, struct err *err)
{
	s->victim = fork();
	if (s->victim < 0)
		return err_sys(err, "stage: fork the victim");
	if (s->victim == 0)
		victim_main(s, c);
	c->victim_pid = s->victim;
	for (int i = 0; i < SOCKS; i++)
		closep(&s->socks[i]);
	return 0;
}

static int make_tty(struct attack_stage *s, struct attack_ctx *c, struct err *err)
{
	struct stat st;

	s->tty_master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s->tty_master < 0 || grantpt(s->tty_master) < 0 || unlockpt(s->tty_master) < 0 ||
		ptsname_r(s->tty_master, c->tty_path, sizeof(c->tty_path)) != 0)
		return err_sys(err, "stage: make a terminal");
	s->tty_slave = open(c->tty_path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s->tty_slave < 0 || fstat(s->tty_slave, &st) < 0)
		return err_sys(err, "stage: open '%s'", c->tty_path);
	/* Anybody may write to it, as `mesg y` would have it: the mode is not the wall. */
	(void)fchmod(s->tty_slave, 0666);
	c->tty_dev = st.st_dev;
	c->tty_ino = st.st_ino;
	return 0;
}

static int make_fds(struct attack_stage *s, struct attack_ctx *c, struct err *err)
{
	AUTO_FD int dir = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[2 * ATTACK_PATH_SIZE];

	(void)snprintf(path, sizeof(path), "%s/stdin", c->dir);
	s->stdin_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (dir < 0 || s->stdin_fd < 0)
		return err_sys(err, "stage: open '%s'", path);
	/* Without O_CLOEXEC, on purpose. */
	s->leak_fd = fcntl(dir, F_DUPFD, ATTACK_LEAK_FD);
	if (s->leak_fd != ATTACK_LEAK_FD)
		return err_set(err, EBUSY, "stage: descriptor %d is taken", ATTACK_LEAK_FD);
	return 0;
}

/* The initial user namespace maps every id there is. */
static bool is_initial_namespace(void)
{
	AUTO_FILE FILE *f = fopen("/proc/self/uid_map", "re");
	uint64_t inner, outer, n;
	char line[128];
	const char *at = line;

	return f && fgets(line, sizeof(line), f) && text_scan_u64(&at, &inner) >= 0 &&
	       text_scan_u64(&at, &outer) >= 0 && text_scan_u64(&at, &n) >= 0 && n >= UINT32_MAX;
}

static int make_names(struct attack_ctx *c, struct err *err)
{
	unsigned char random[20];
	struct utsname u;
	struct stat st;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(err, "stage: read random bytes");
	for (size_t i = 0; i < 16; i++)
		(void)snprintf(c->secret + 2 * i, 3, "%02x", random[i]);
	(void)memcpy(&c->sysv_key, random + 16, sizeof(c->sysv_key));
	/* Two keys in a row, neither IPC_PRIVATE nor negative. */
	c->sysv_key = (c->sysv_key & 0x3ffffffe) | 0x40000000;
	(void)snprintf(c->abstract_name, sizeof(c->abstract_name), "bawn-attack-%.16s", c->secret);
	(void)snprintf(c->queue_name, sizeof(c->queue_name), "/bawn-attack-%.16s", c->secret + 16);
	if (uname(&u) < 0 || stat("/", &st) < 0)
		return err_sys(err, "stage: uname");
	(void)snprintf(c->host_name, sizeof(c->host_name), "%s", u.nodename);
	c->root_dev = st.st_dev;
	c->root_ino = st.st_ino;
	if (readlink("/proc/self/ns/cgroup", c->cgroup_ns, sizeof(c->cgroup_ns) - 1) < 0 ||
		readlink("/proc/self/ns/net", c->net_ns, sizeof(c->net_ns) - 1) < 0)
		return err_sys(err, "stage: read '/proc/self/ns'");
	c->caller_uid = getuid();
	c->is_host_root = getuid() == 0 && is_initial_namespace();
	return 0;
}

int attack_stage_open(struct attack_stage **ret, struct attack_ctx *ctx, struct err *err)
{
	AUTO(attack_stage_close) struct attack_stage *s = MEM_NEW(struct attack_stage);
	mode_t mask = umask(0);
	int r;

	s->shm = s->msg = s->sem = -1;
	s->tty_master = s->tty_slave = s->stdin_fd = s->leak_fd = -EBADF;
	for (int i = 0; i < SOCKS; i++)
		s->socks[i] = -EBADF;
	r = make_names(ctx, err);
	if (r >= 0)
		r = make_dir(s, ctx, err);
	if (r >= 0)
		r = make_ipc(s, ctx, err);
	if (r >= 0)
		r = make_sockets(s, ctx, err);
	if (r >= 0)
		r = make_victim(s, ctx, err);
	if (r >= 0)
		r = make_tty(s, ctx, err);
	if (r >= 0)
		r = make_fds(s, ctx, err);
	(void)umask(mask);
	if (r < 0)
		return r;
	ctx->tty_fd = s->tty_slave;
	ctx->stdin_fd = s->stdin_fd;
	*ret = TAKE_PTR(s);
	return 0;
}

int attack_stage_tty(const struct attack_stage *s)
{
	return s->tty_slave;
}

int attack_stage_stdin(const struct attack_stage *s)
{
	return s->stdin_fd;
}

struct attack_stage *attack_stage_close(struct attack_stage *s)
{
	AUTO_FD int tmp = open(attack_stage_parent(), O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err ignored;

	if (!s)
		return NULL;
	if (s->victim > 0) {
		(void)kill(s->victim, SIGKILL);
		(void)waitpid(s->victim, NULL, 0);
	}
	if (s->shm >= 0)
		(void)shmctl(s->shm, IPC_RMID, NULL);
	if (s->msg >= 0)
		(void)msgctl(s->msg, IPC_RMID, NULL);
	if (s->sem >= 0)
		(void)semctl(s->sem, 0, IPC_RMID);
	if (s->queue[0]) {
		char path[128];

		(void)mq_unlink(s->queue);
		(void)snprintf(path, sizeof(path), "/dev/shm%s", s->queue);
		(void)unlink(path);
	}
	if (s->name[0] && tmp >= 0)
		(void)tree_remove(tmp, s->name, &ignored);
	for (int i = 0; i < SOCKS; i++)
		closep(&s->socks[i]);
	closep(&s->tty_master);
	closep(&s->tty_slave);
	closep(&s->stdin_fd);
	closep(&s->leak_fd);
	free(s);
	return NULL;
}
