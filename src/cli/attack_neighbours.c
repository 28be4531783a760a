/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_neighbours - group neighbours: processes, memory and sockets of the host and of
 * other sandboxes. The host is played by the stage's victim, which invites everybody.
 */
#include "cli/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/*
 * Numbers repeat between pid namespaces: a pid that exists here is the host's only if
 * it carries the victim's name, which nobody in the box has. Without a
 * readable /proc the doubt counts against the wall.
 */
static bool is_own_pid(pid_t pid)
{
	char path[64], name[32] = "";
	AUTO_FILE FILE *f = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, sizeof(name), f))
		return false;
	return strcmp(name, "bawn-victim\n") != 0;
}

static int see_pid(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	if (kill(c->victim_pid, 0) == 0 || errno == EPERM) {
		if (!is_own_pid(c->victim_pid))
			return attack_broke(r, "host process %d is visible", c->victim_pid);
		errno = ESRCH;
	}
	return attack_refused(r, "kill(%d, 0)", c->victim_pid);
}

/* The common end of attacks by pid: a result other than ESRCH is about somebody else's process. */
static int by_pid(
	const struct attack_ctx *c, long result, const char *call, struct attack_report *r)
{
	int saved = errno;

	if (is_own_pid(c->victim_pid)) {
		errno = ESRCH;
		return attack_refused(r, "%s on pid %d: ours by coincidence", call, c->victim_pid);
	}
	errno = saved;
	if (result >= 0)
		return attack_broke(r, "%s on host process %d", call, c->victim_pid);
	return attack_refused(r, "%s on host process %d", call, c->victim_pid);
}

static int signal_host(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	bool is_ours = is_own_pid(c->victim_pid);

	(void)a;
	/* The victim ignores SIGURG, as does every process by default. */
	return by_pid(c, is_ours ? -1 : kill(c->victim_pid, SIGURG), "SIGURG", r);
}

static int ptrace_host(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	long result = ptrace(PTRACE_SEIZE, c->victim_pid, NULL, NULL);

	(void)a;
	return by_pid(c, result, "ptrace", r);
}

static int read_memory(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char byte = 0;
	struct iovec local = {&byte, 1};
	/* A forked victim has our own addresses; one that was exec'd elsewhere answers EFAULT. */
	struct iovec remote = {(void *)(uintptr_t)c->secret, 1};
	long result = process_vm_readv(c->victim_pid, &local, 1, &remote, 1, 0);

	(void)a;
	if (result < 0 && errno == EFAULT)
		result = 0;
	return by_pid(c, result, "process_vm_readv", r);
}

static int pidfd_host(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = (int)syscall(SYS_pidfd_open, c->victim_pid, 0);

	(void)a;
	return by_pid(c, fd, "pidfd_open", r);
}

static int slow_host(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	cpu_set_t set;
	int result = sched_getaffinity(c->victim_pid, sizeof(set), &set);

	(void)a;
	if (result >= 0)
		result = sched_setaffinity(c->victim_pid, sizeof(set), &set);
	return by_pid(c, result, "sched_setaffinity", r);
}

static int host_environ(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char path[64];

	(void)a;
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", c->victim_pid);
	if (access(path, F_OK) == 0 && !is_own_pid(c->victim_pid))
		return attack_broke(r, "/proc/%d of the host is there", c->victim_pid);
	errno = ENOENT;
	return attack_refused(r, "/proc/%d", c->victim_pid);
}

static int sysv_shm(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	int id = shmget(c->sysv_key, 0, 0);
	char *at;

	(void)a;
	if (id < 0)
		return attack_refused(r, "shmget");
	at = shmat(id, NULL, SHM_RDONLY);
	if (at == (void *)-1)
		return attack_refused(r, "shmat");
	if (memcmp(at, c->secret, strlen(c->secret)) == 0)
		return attack_broke(r, "read the secret from the host's segment");
	return attack_absent(r, "the segment does not hold the secret");
}

static int sysv_queue(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	int id = msgget(c->sysv_key, 0);

	(void)a;
	if (id < 0)
		return attack_refused(r, "msgget");
	return attack_broke(r, "found the host's message queue");
}

static int sysv_semaphore(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	int id = semget(c->sysv_key, 0, 0);

	(void)a;
	if (id < 0)
		return attack_refused(r, "semget");
	return attack_broke(r, "found the host's semaphore");
}

static int posix_queue(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	mqd_t q = mq_open(c->queue_name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	(void)a;
	if (q < 0)
		return attack_refused(r, "mq_open");
	(void)mq_close(q);
	return attack_broke(r, "opened the host's message queue");
}

static int posix_shm(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char path[2 * ATTACK_PATH_SIZE];

	(void)a;
	(void)snprintf(path, sizeof(path), "/dev/shm%s", c->queue_name);
	return attack_read_secret(c, AT_FDCWD, path, r);
}

/* Connect and read what the other side says. */
static int talk(const struct attack_ctx *c, const struct sockaddr_un *sa, socklen_t len,
	struct attack_report *r, const char *what)
{
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char bytes[64] = "";

	if (fd < 0)
		return attack_absent(r, "socket");
	if (connect(fd, (const struct sockaddr *)sa, len) < 0)
		return attack_refused(r, "connect to %s", what);
	if (poll(&p, 1, 2000) == 1 && read(fd, bytes, sizeof(bytes) - 1) > 0 &&
		strstr(bytes, c->secret))
		return attack_broke(r, "read the secret from %s", what);
	return attack_broke(r, "connected to %s", what);
}

static int abstract_socket(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	(void)a;
	(void)snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "%s", c->abstract_name);
	return talk(c, &sa, sizeof(sa), r, "an abstract socket of the host");
}

static int path_socket(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	(void)a;
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%.90s/host.sock", c->dir);
	return talk(c, &sa, sizeof(sa), r, "a socket file of the host");
}

/* Anything but "no such file" means that the host's socket is in sight. */
static int well_known(const char *const *paths, struct attack_report *r)
{
	for (size_t i = 0; paths[i]; i++) {
		struct stat st;

		if (lstat(paths[i], &st) == 0 && S_ISSOCK(st.st_mode))
			return attack_broke(r, "%s is there", paths[i]);
	}
	errno = ENOENT;
	return attack_refused(r, "%s and others like it", paths[0]);
}

static int bus_sockets(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char user[64], user_systemd[64];
	const char *const paths[] = {"/run/dbus/system_bus_socket",
		"/var/run/dbus/system_bus_socket", "/run/systemd/private",
		"/run/systemd/journal/socket", "/run/udev/control", user, user_systemd, NULL};

	(void)a;
	(void)snprintf(user, sizeof(user), "/run/user/%u/bus", c->caller_uid);
	(void)snprintf(
		user_systemd, sizeof(user_systemd), "/run/user/%u/systemd/private", c->caller_uid);
	return well_known(paths, r);
}

static int container_sockets(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char user[64];
	const char *const paths[] = {"/run/docker.sock", "/var/run/docker.sock",
		"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/podman/podman.sock",
		"/run/snapd.socket", "/run/libvirt/libvirt-sock", user, NULL};

	(void)a;
	(void)snprintf(user, sizeof(user), "/run/user/%u/podman/podman.sock", c->caller_uid);
	return well_known(paths, r);
}

static int desktop_sockets(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char wayland[64], agent[64];
	const char *const paths[] = {
		"/tmp/.X11-unix/X0", "/tmp/.X11-unix/X1", wayland, agent, NULL};

	(void)a;
	(void)snprintf(wayland, sizeof(wayland), "/run/user/%u/wayland-0", c->caller_uid);
	(void)snprintf(agent, sizeof(agent), "/run/user/%u/gnupg/S.gpg-agent", c->caller_uid);
	return well_known(paths, r);
}

static int neighbour_file(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char path[2 * ATTACK_PATH_SIZE];

	(void)a;
	(void)snprintf(path, sizeof(path), "%s/neighbour-secret", c->scratch);
	return attack_read_secret(c, AT_FDCWD, path, r);
}

static int neighbour_root(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char path[2 * ATTACK_PATH_SIZE];

	(void)a;
	if (c->neighbour_pid == 0)
		return attack_absent(r, "there is no other sandbox");
	(void)snprintf(path, sizeof(path), "/proc/%d/root%s/neighbour-secret", c->neighbour_pid,
		c->scratch);
	return attack_read_secret(c, AT_FDCWD, path, r);
}

static int neighbour_shm(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	if (shmget(c->sysv_key + 1, 0, 0) < 0)
		return attack_refused(r, "shmget");
	return attack_broke(r, "found another sandbox's segment");
}

static int neighbour_socket(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	(void)a;
	(void)snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "%s-n", c->abstract_name);
	return talk(c, &sa, sizeof(sa), r, "an abstract socket of another sandbox");
}

/* Every id the box has must be one of its own, or the caller's. */
static int host_ids(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FILE FILE *f = fopen("/proc/self/uid_map", "re");
	char line[128];

	(void)a;
	if (!f)
		return attack_refused(r, "open /proc/self/uid_map");
	while (fgets(line, sizeof(line), f)) {
		const char *at = line;
		uint64_t inner, outer, n;

		if (text_scan_u64(&at, &inner) < 0 || text_scan_u64(&at, &outer) < 0 ||
			text_scan_u64(&at, &n) < 0)
			return attack_absent(r, "uid_map reads '%.60s'", line);
		if (outer < 65536 && !(n == 1 && !c->is_host_root && outer == c->caller_uid))
			return attack_broke(r, "the box has the host's ids %llu to %llu",
				(unsigned long long)outer, (unsigned long long)(outer + n - 1));
	}
	errno = ERANGE;
	return attack_refused(r, "the box has no id that a host account has");
}

static int host_name(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct utsname u;

	(void)a;
	if (uname(&u) < 0)
		return attack_refused(r, "uname");
	if (strcmp(u.nodename, c->host_name) == 0)
		return attack_broke(r, "the host's name shows");
	errno = ENOENT;
	return attack_refused(r, "the name is '%.64s'", u.nodename);
}

static int cgroup_path(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FILE FILE *f = fopen("/proc/self/cgroup", "re");
	char line[512], ns[64] = "";

	(void)a;
	if (readlink("/proc/self/ns/cgroup", ns, sizeof(ns) - 1) > 0 &&
		strcmp(ns, c->cgroup_ns) == 0)
		return attack_broke(r, "the cgroup namespace is the host's");
	if (!f)
		return attack_refused(r, "open /proc/self/cgroup");
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "bawn-"))
			return attack_broke(r, "the place in the host's tree shows: %.100s", line);
	errno = ENOENT;
	return attack_refused(r, "/proc/self/cgroup shows no place in the host's tree");
}

#define BY_PID .wall = WALL_PID, .flags = ATTACK_CONTROL
#define IPC    .wall = WALL_IPC, .flags = ATTACK_CONTROL

static const struct attack table[] = {
	{.name = "neighbours/see-host-processes",
		BY_PID,
		.success = "the box can tell which processes the host has",
		.try = see_pid},
	{.name = "neighbours/host-process-in-proc",
		BY_PID,
		.success = "/proc shows a host process, with its arguments and environment",
		.try = host_environ},
	{.name = "neighbours/signal-host-process",
		BY_PID,
		.success = "a signal reaches a host process",
		.try = signal_host},
	{.name = "neighbours/ptrace-host-process",
		BY_PID,
		.success = "a host process is traced",
		.try = ptrace_host},
	{.name = "neighbours/read-host-process-memory",
		BY_PID,
		.success = "the memory of a host process is read",
		.try = read_memory},
	{.name = "neighbours/pidfd-of-host-process",
		BY_PID,
		.success = "the box holds a host process by descriptor",
		.try = pidfd_host},
	{.name = "neighbours/pin-host-process-to-cpu",
		BY_PID,
		.success = "the box slows a host process down",
		.try = slow_host},
	{.name = "neighbours/sysv-shared-memory",
		IPC,
		.success = "a shared memory segment of the host is read",
		.try = sysv_shm},
	{.name = "neighbours/sysv-message-queue",
		IPC,
		.success = "a message queue of the host is found",
		.try = sysv_queue},
	{.name = "neighbours/sysv-semaphore",
		IPC,
		.success = "a semaphore of the host is found",
		.try = sysv_semaphore},
	{.name = "neighbours/posix-message-queue",
		IPC,
		.success = "a posix message queue of the host is opened",
		.try = posix_queue},
	{.name = "neighbours/posix-shared-memory",
		.wall = WALL_DEV,
		.success = "a shared memory object of the host is read",
		.try = posix_shm,
		.flags = ATTACK_CONTROL},
	{.name = "neighbours/abstract-socket",
		.wall = WALL_NET,
		.success = "a service of the host is reached past the file system",
		.try = abstract_socket,
		.flags = ATTACK_CONTROL},
	{.name = "neighbours/socket-file",
		.wall = WALL_ROOT,
		.success = "a service of the host is reached by its socket file",
		.try = path_socket,
		.flags = ATTACK_CONTROL},
	{.name = "neighbours/dbus-and-systemd-sockets",
		.wall = WALL_ROOT,
		.success = "the host's message bus starts programs outside",
		.try = bus_sockets,
		.flags = ATTACK_AS_ROOT,
		.expect = {ENOENT}},
	{.name = "neighbours/container-sockets",
		.wall = WALL_ROOT,
		.success = "Docker, containerd or podman start a container outside",
		.try = container_sockets,
		.flags = ATTACK_AS_ROOT,
		.expect = {ENOENT}},
	{.name = "neighbours/desktop-and-agent-sockets",
		.wall = WALL_ROOT,
		.success = "keystrokes, the screen or a key agent are within reach",
		.try = desktop_sockets,
		.expect = {ENOENT}},
	{.name = "neighbours/other-sandbox-file",
		.wall = WALL_ROOT,
		.success = "a file in another sandbox's /tmp is read",
		.try = neighbour_file,
		.expect = {ENOENT}},
	{.name = "neighbours/other-sandbox-by-proc-root",
		.wall = WALL_PID,
		.success = "another sandbox's tree is reached through its process",
		.try = neighbour_root,
		.flags = ATTACK_AS_ROOT,
		.expect = {ENOENT}},
	{.name = "neighbours/other-sandbox-shared-memory",
		.wall = WALL_IPC,
		.success = "another sandbox's segment is found",
		.try = neighbour_shm,
		.expect = {ENOENT}},
	{.name = "neighbours/other-sandbox-abstract-socket",
		.wall = WALL_NET,
		.success = "another sandbox's service is reached",
		.try = neighbour_socket,
		.expect = {ECONNREFUSED, EPERM}},
	{.name = "neighbours/host-user-ids",
		.wall = WALL_IDS,
		.success = "files and limits of a host account are the box's too",
		.try = host_ids,
		.flags = ATTACK_AS_ROOT,
		.expect = {ERANGE}},
	{.name = "neighbours/host-name",
		.wall = WALL_UTS,
		.success = "the box learns the host's name, and may change it",
		.try = host_name,
		.flags = ATTACK_CONTROL},
	{.name = "neighbours/place-in-cgroup-tree",
		.wall = WALL_CGROUPNS,
		.success =
			"the box learns its place, and its neighbours', in the control group tree",
		.try = cgroup_path,
		.flags = ATTACK_CONTROL},
};

const struct attack_table attack_table_neighbours = {table, sizeof(table) / sizeof(table[0])};
