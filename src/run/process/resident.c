/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/resident - sandboxes of the process tier that outlive the process that made them.
 *
 *   resident_make              as for `bawn run`; pid 1 still dies with us
 *   released()                 it is claimed: whoever comes next finds it by its record
 *   RELEASE                    pid 1 takes its name, gives up its death signal and answers
 *
 * A kill of this process at any point leaves either nothing, or a box with a record. What the
 * kernel holds for a box: pid 1 (and, in it, the locks of its id range and its template), its
 * mounts (gone with pid 1), its cgroup leaves (by name, in the record). Runs in: the warden.
 */
#include "run/process/resident.h"

#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "run/process/resident_impl.h"
#include "sys/cgroup.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define RELEASE_MS 10000 /* a pid 1 that has not answered by then is stuck in the kernel */
#define STOP_MS    5000

/* It cannot change under us: read once. */
const char *resident_boot_id(struct err *err)
{
	static char id[sizeof(((struct provider_record *)0)->boot_id)];
	AUTO_FD int fd = -EBADF;
	ssize_t n;

	if (id[0])
		return id;
	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, id, sizeof(id) - 1);
	if (n <= 0) {
		(void)err_sys(err, "read the boot id");
		return NULL;
	}
	id[n] = 0;
	id[strcspn(id, "\n")] = 0;
	return id;
}

void resident_leaf(const char *id, char ret[RESIDENT_LEAF_MAX])
{
	(void)snprintf(ret, RESIDENT_LEAF_MAX, "bawn-box-%s", id);
}

static bool is_over(int pidfd, int wait_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, wait_ms) > 0;
}

static int resident_open(const struct provider_record *rec, struct err *err)
{
	AUTO_FD int fd = -EBADF;
	const char *boot_id = resident_boot_id(err);

	if (!boot_id)
		return -err->code;
	if (strcmp(boot_id, rec->boot_id) != 0)
		return err_set(err, ESRCH, "it ran before the machine was restarted");
	if (rec->pid <= 1 || rec->pid > INT32_MAX)
		return err_set(err, ESRCH, "not a process: %lld", (long long)rec->pid);
	fd = (int)syscall(SYS_pidfd_open, (pid_t)rec->pid, 0);
	if (fd < 0)
		return err_sys(err, "hold process %lld", (long long)rec->pid);
	/* In this order: what is held cannot be replaced any more. */
	if (process_start_time((pid_t)rec->pid) != rec->pid_start || is_over(fd, 0))
		return err_set(err, ESRCH, "process %lld is not it", (long long)rec->pid);
	return TAKE_FD(fd);
}

static int resident_stop(const struct provider_record *rec, struct err *err)
{
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct err ignored = {0};
	AUTO_FD int fd = resident_open(rec, &ignored);
	char leaf[RESIDENT_LEAF_MAX];

	if (fd >= 0) {
		siginfo_t si;

		/* Everything in the box's pid namespace dies with its pid 1, before it is over. */
		(void)process_signal(fd, SIGKILL, &ignored);
		if (!is_over(fd, STOP_MS))
			return err_set(
				err, EBUSY, "process %lld does not end", (long long)rec->pid);
		/* If it is our child: a zombie is still in its leaf. */
		(void)waitid(P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG);
	}
	/* By the id if there is no record: who was killed before it wrote one left leaves too. */
	if (rec->cgroup[0])
		(void)snprintf(leaf, sizeof(leaf), "%.*s", RESIDENT_LEAF_MAX - 1, rec->cgroup);
	else
		resident_leaf(rec->id, leaf);
	return cgroup_find(leaf, &cg, &ignored) < 0 ? 0 : cgroup_remove(cg, err);
}

/* ---- claim ---- */

static void free_spare(struct loop_task *t)
{
	free((char *)t - offsetof(struct provider_spare, free));
}

static void conclude(struct provider_spare *p, const struct err *err)
{
	struct road road = p->road;
	struct err ignored;
	int pidfd = TAKE_FD(p->pidfd);

	(void)loop_watch_set(p->loop, &p->watch, 0, &ignored);
	loop_timer_cancel(p->loop, &p->timer);
	closep(&p->init_fd);
	if (err->code)
		(void)process_signal(pidfd, SIGKILL, &ignored);
	loop_defer(p->loop, &p->free);
	p->claimed(pidfd, road, err, p->arg);
}

static void on_answer(struct loop_watch *watch, uint32_t events)
{
	struct provider_spare *p = (void *)((char *)watch - offsetof(struct provider_spare, watch));
	struct wire w = {0};
	size_t no_fds = 0;
	struct err err = {0};
	ssize_t n = sock_receive(p->init_fd, &w, sizeof(w), NULL, &no_fds, &err);

	(void)events;
	if (n == sizeof(w) && w.type != WIRE_RELEASE)
		return; /* something older: its own answer follows */
	if (n != sizeof(w))
		(void)err_set(&err, ECHILD, "the sandbox died while it waited");
	conclude(p, &err);
}

static void on_timer(struct loop_timer *t)
{
	struct err err = {0};

	(void)err_set(&err, ETIMEDOUT, "the sandbox does not answer");
	conclude((void *)((char *)t - offsetof(struct provider_spare, timer)), &err);
}

/* Pid 1 is told, and answers: from then on our end is not its end. */
static int release(struct provider_spare *p, const char *hostname, struct err *err)
{
	struct wire w = {.type = WIRE_RELEASE};
	int r;

	(void)snprintf(w.hostname, sizeof(w.hostname), "%s", hostname);
	r = sock_send(p->init_fd, &w, sizeof(w), NULL, 0, err);
	if (r >= 0)
		r = loop_watch_set(p->loop, &p->watch, EPOLLIN, err);
	if (r >= 0)
		loop_timer_set(p->loop, &p->timer, RELEASE_MS);
	return r;
}

static uint64_t now_unix_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void resident_claim(struct loop *l, struct provider_spare *take, const char *id,
	const char *hostname, int (*released)(const struct provider_record *rec, void *arg),
	provider_claimed_fn claimed, void *arg)
{
	struct provider_record rec = take->rec;
	struct err err = {0};
	int r;

	take->loop = l;
	take->claimed = claimed;
	take->arg = arg;
	take->watch = (struct loop_watch){.fd = take->init_fd, .ready = on_answer};
	take->timer = (struct loop_timer){.fire = on_timer};
	take->free.run = free_spare;
	(void)snprintf(rec.id, sizeof(rec.id), "%s", id);
	rec.made_ms = now_unix_ms();
	r = released(&rec, arg);
	if (r < 0)
		(void)err_set(&err, -r, "keep the record: %s", strerrordesc_np(-r));
	else
		r = release(take, hostname, &err);
	if (r < 0)
		conclude(take, &err);
}

static int resident_discard(struct provider_spare *take, struct provider_record *ret)
{
	int pidfd = take->pidfd;
	struct err ignored;

	*ret = take->rec;
	(void)process_signal(pidfd, SIGKILL, &ignored);
	closep(&take->init_fd);
	closep(&take->road.tcp_fd);
	closep(&take->road.dns_fd);
	free(take);
	return pidfd;
}

/* The size of the box's store, by way of a mount of it that nobody inside can move. */
static bool read_disk(const struct provider_record *rec, uint64_t *ret)
{
	char path[64];
	AUTO_FD int root = -EBADF, tmp = -EBADF;
	struct statfs st;

	(void)snprintf(path, sizeof(path), "/proc/%lld/root", (long long)rec->pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root >= 0)
		tmp = openat(root, "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (tmp < 0 || fstatfs(tmp, &st) < 0 || st.f_blocks < st.f_bfree)
		return false;
	*ret = (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
	return true;
}

static int resident_usage(
	const struct provider_record *rec, struct provider_usage *ret, struct err *err)
{
	AUTO(cgroup_free) struct cgroup *cg = NULL;
	struct provider_usage u = {0};
	struct cgroup_usage c = {0};
	struct err ignored = {0};
	AUTO_FD int fd = resident_open(rec, err);

	/* What a leaf has counted stands until it is removed, also when the box is over. */
	if (rec->cgroup[0] != 0 && cgroup_find(rec->cgroup, &cg, &ignored) >= 0 &&
		cgroup_read_usage(cg, &c, &ignored) >= 0) {
		u.cpu_us = c.cpu_us;
		u.memory = c.memory;
		u.memory_peak = c.memory_peak;
		u.oom_kills = c.oom_kills;
		u.pids_refused = c.pids_refused;
		u.has_cpu = c.cpu_us > 0;
		u.has_memory = c.memory > 0;
	} else if (fd < 0) {
		return fd;
	}
	u.has_disk = fd >= 0 && read_disk(rec, &u.disk);
	*ret = u;
	return 0;
}

/* A process of the box that a user may look into, as pid 1 is not: the guest. */
static int open_child(pid_t parent, struct err *err)
{
	char path[64], text[512];
	AUTO_FD int fd = -EBADF;
	const char *p = text;
	uint64_t pid = 0;
	ssize_t n;
	int child;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return err_sys(err, "list the children of %d", parent);
	text[n] = 0;
	if (text_scan_u64(&p, &pid) < 0 || pid > INT32_MAX)
		return err_set(err, ESRCH, "process %d has no children", parent);
	child = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	return child < 0 ? err_sys(err, "hold process %d", (int)pid) : child;
}

static int resident_road(const struct provider_record *rec, struct road *ret, struct err *err)
{
	AUTO_FD int fd = resident_open(rec, err), child = -EBADF;
	int r = fd < 0 ? fd : road_remake(fd, ret, err);

	if (r != -EPERM)
		return r;
	child = open_child((pid_t)rec->pid, err);
	return child < 0 ? child : road_remake(child, ret, err);
}

const struct provider provider_process = {
	.tier = "process",
	.begin = resident_begin,
	.abandon = resident_abandon,
	.claim = resident_claim,
	.discard = resident_discard,
	.open = resident_open,
	.stop = resident_stop,
	.usage = resident_usage,
	.road = resident_road,
};
