/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/resident - sandboxes of the process tier that outlive the process that made them.
 *
 *   prepare, clone, populate   as for `bawn run`; pid 1 still dies with us
 *   READY                      the guest's process has its walls on and read back: a spare
 *   released()                 it is claimed: whoever comes next finds it by its record
 *   RELEASE                    pid 1 takes its name, gives up its death signal and answers
 *
 * A kill of this process at any point leaves either nothing, or a box with a record. What the
 * kernel holds for a box: pid 1 (and, in it, the locks of its id range and its template), its
 * mounts (gone with pid 1), its cgroup leaves (by name, in the record). Runs in: the warden;
 * blocks for milliseconds. One at a time.
 */
#include "run/process/resident.h"

#include "base/mem.h"
#include "base/own.h"
#include "run/process/box_impl.h"
#include "run/provider.h"
#include "sys/cgroup.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define START_MS 10000 /* a box that is not up by then is stuck in the kernel */
#define STOP_MS  5000
#define GUEST_FD 3 /* where the guest finds its listening socket */

#define LEAF_MAX (PROVIDER_ID_MAX + 16)

static int guest_fd = -EBADF;

static void leaf_name(const char *id, char ret[LEAF_MAX])
{
	(void)snprintf(ret, LEAF_MAX, "bawn-box-%s", id);
}

void resident_use_guest(int exec_fd)
{
	guest_fd = exec_fd;
}

struct start {
	struct box *b;
	struct err *err;
	uint64_t deadline_ms;
	bool is_ready;   /* walls on and verified */
	bool is_running; /* the guest has been exec'd */
};

static uint64_t now_ms(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int on_error(struct start *s, const struct wire *w)
{
	*s->err = w->err;
	s->b->failed = w->wall;
	return w->err.code ? -w->err.code : err_set(s->err, EPROTO, "an error without a code");
}

static int on_command(struct start *s)
{
	struct box *b = s->b;
	struct wire w = {0};
	size_t no_fds = 0;
	ssize_t n = sock_receive(b->command_fd, &w, sizeof(w), NULL, &no_fds, s->err);

	if (n < 0)
		return (int)n;
	if (n == sizeof(w) && w.type == WIRE_ERR)
		return on_error(s, &w);
	if (n == sizeof(w) && w.type == WIRE_READY && !s->is_ready) {
		/* The command's process has judged them; the same here fills the record. */
		b->readback = w.readback;
		s->is_ready = true;
		return verify_walls(b, s->err);
	}
	/* End of file: execve() closed it, or the process died and pid 1 will end. */
	closep(&b->command_fd);
	s->is_running = s->is_ready;
	return 0;
}

static int on_init(struct start *s)
{
	struct box *b = s->b;
	struct wire w = {0};
	int fds[2] = {-EBADF, -EBADF};
	size_t fds_n = 2;
	ssize_t n = sock_receive(b->init_fd, &w, sizeof(w), fds, &fds_n, s->err);

	/* A user's pid 1 hands over its store, for `bawn run` to look at. */
	closep(&fds[0]);
	closep(&fds[1]);
	if (n < 0)
		return (int)n;
	if (n == sizeof(w) && w.type == WIRE_ERR)
		return on_error(s, &w);
	if (n != sizeof(w) || w.type == WIRE_EXIT)
		closep(&b->init_fd);
	return 0;
}

/* Serve both sockets until *flag. What a dead box said last is heard before its death. */
static int await(struct start *s, const bool *flag)
{
	struct box *b = s->b;
	int r = 0;

	while (r >= 0 && !*flag) {
		struct pollfd p[3] = {
			{.fd = b->command_fd, .events = POLLIN},
			{.fd = b->init_fd, .events = POLLIN},
			{.fd = b->pidfd, .events = POLLIN},
		};
		uint64_t now = now_ms(CLOCK_MONOTONIC);
		int left = now >= s->deadline_ms ? 0 : (int)(s->deadline_ms - now);

		r = poll(p, 3, left);
		if (r < 0 && errno != EINTR)
			return err_sys(s->err, "poll");
		if (r == 0)
			return err_set(s->err, ETIMEDOUT, "the sandbox was not up in %d s",
				START_MS / 1000);
		if (r < 0)
			r = 0;
		else if (p[0].revents)
			r = on_command(s);
		else if (p[1].revents)
			r = on_init(s);
		else if (p[2].revents)
			r = err_set(s->err, ECHILD, "the sandbox died before its guest ran");
	}
	return r < 0 ? r : 0;
}

static int read_boot_id(char *ret, size_t size, struct err *err)
{
	AUTO_FD int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	if (n <= 0)
		return err_sys(err, "read the boot id");
	ret[n] = 0;
	ret[strcspn(ret, "\n")] = 0;
	return 0;
}

struct provider_spare {
	int init_fd, pidfd;
	struct provider_record rec; /* without the id it will have */
};

static void spare_free(struct provider_spare *p)
{
	closep(&p->init_fd);
	closep(&p->pidfd);
	free(p);
}

static int make_spare(struct box *b, struct provider_spare **ret, struct err *err)
{
	struct provider_record rec = {.tier = "process", .pid = b->pid};
	struct provider_spare *p;
	int r = read_boot_id(rec.boot_id, sizeof(rec.boot_id), err);

	if (r < 0)
		return r;
	if (b->cgroup)
		(void)snprintf(rec.cgroup, sizeof(rec.cgroup), "%s", cgroup_name(b->cgroup));
	rec.pid_start = process_start_time(b->pid);
	if (rec.pid_start == 0)
		return err_set(err, ECHILD, "the sandbox died before its guest ran");
	p = MEM_NEW(struct provider_spare);
	p->rec = rec;
	p->init_fd = TAKE_FD(b->init_fd);
	p->pidfd = TAKE_FD(b->pidfd);
	*ret = p;
	return 0;
}

static int start_once(struct box *b, struct provider_spare **ret, struct err *err)
{
	struct start s = {.b = b, .err = err};
	int r = box_prepare(b, err);

	s.deadline_ms = now_ms(CLOCK_MONOTONIC) + START_MS;
	(void)sigemptyset(&b->old_mask); /* what the guest gets; ours is the event loop's */
	if (r >= 0 && b->plan.want_cgroup)
		r = cgroup_create_named(b->o->resident, &b->plan.cgroup_limits,
			b->plan.cgroup_required, &b->cgroup, err);
	if (r >= 0)
		r = box_clone(b, err);
	if (r >= 0) {
		r = box_populate(b, err);
		/* If the other half failed first, its reason is the one to tell. */
		if (r < 0)
			(void)supervise_collect_error(b, err);
	}
	if (r >= 0)
		r = await(&s, &s.is_running);
	return r < 0 ? r : make_spare(b, ret, err);
}

static void set_options(struct box_options *o, const char *leaf, const int *listen_fd)
{
	static const int as[] = {GUEST_FD};
	static char *no_environment[] = {NULL};

	*o = (struct box_options){
		.stdio = {-EBADF, -EBADF, -EBADF}, /* /dev/null */
		.exec_fd = guest_fd,
		.pass_fds = listen_fd,
		.pass_as = as,
		.pass_fds_n = 1,
		.environ = no_environment,
		.resident = leaf,
	};
}

static int resident_prepare(const struct spec *wanted, const char *id, int listen_fd,
	struct wall_record walls[WALL_COUNT], struct provider_spare **ret, struct err *err)
{
	static struct box box; /* one at a time; large, and its children share it by fork */
	static struct box_result result;
	struct spec spec = *wanted; /* borrows all it points to */
	struct box_options o;
	char leaf[LEAF_MAX];
	int r;

	leaf_name(id, leaf);
	set_options(&o, leaf, &listen_fd);
	/* A preferred wall that cannot be built is left out, and the whole is built again. */
	for (;;) {
		struct err undo = {0};

		box_init(&box, wanted, &spec, &o, &result);
		memset(&result, 0, sizeof(result));
		r = start_once(&box, ret, err);
		if (r < 0) {
			(void)box_refuse(&box, err);
			(void)box_unmake(&box, &undo); /* what is left goes with a later stop() */
		} else {
			memcpy(walls, result.walls, sizeof(result.walls));
		}
		box_done(&box);
		if (r >= 0 || box.failed < 0 || spec.walls[box.failed] != WALL_LEVEL_PREFERRED)
			return r;
		spec.walls[box.failed] = WALL_LEVEL_OFF;
		r = spec_validate(&spec, err);
		if (r < 0)
			return r;
	}
}

static bool is_over(int pidfd, int wait_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, wait_ms) > 0;
}

static int resident_open(const struct provider_record *rec, struct err *err)
{
	AUTO_FD int fd = -EBADF;
	char boot_id[sizeof(rec->boot_id)];
	int r = read_boot_id(boot_id, sizeof(boot_id), err);

	if (r < 0)
		return r;
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
	char leaf[LEAF_MAX];

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
		(void)snprintf(leaf, sizeof(leaf), "%.*s", LEAF_MAX - 1, rec->cgroup);
	else
		leaf_name(rec->id, leaf);
	return cgroup_find(leaf, &cg, &ignored) < 0 ? 0 : cgroup_remove(cg, err);
}

static void resident_discard(struct provider_spare *take)
{
	struct err ignored;

	(void)resident_stop(&take->rec, &ignored);
	spare_free(take);
}

/* Pid 1 is told, and answers: from then on our end is not its end. */
static int release(const struct provider_spare *p, const char *hostname, struct err *err)
{
	struct wire w = {.type = WIRE_RELEASE};
	struct pollfd ready = {.fd = p->init_fd, .events = POLLIN};
	size_t no_fds = 0;
	ssize_t n;
	int r;

	(void)snprintf(w.hostname, sizeof(w.hostname), "%s", hostname);
	r = sock_send(p->init_fd, &w, sizeof(w), NULL, 0, err);
	while (r >= 0 && w.type == WIRE_RELEASE) {
		r = poll(&ready, 1, START_MS);
		if (r == 0)
			return err_set(err, ETIMEDOUT, "the sandbox does not answer");
		if (r < 0 && errno != EINTR)
			return err_sys(err, "poll");
		if (r < 0) {
			r = 0;
			continue;
		}
		n = sock_receive(p->init_fd, &w, sizeof(w), NULL, &no_fds, err);
		if (n != sizeof(w))
			return err_set(err, ECHILD, "the sandbox died while it waited");
		if (w.type == WIRE_RELEASE)
			return 0;
		w.type = WIRE_RELEASE; /* something older: its own answer follows */
	}
	return r;
}

static int resident_claim(struct provider_spare *take, const char *id, const char *hostname,
	int (*released)(const struct provider_record *rec, void *arg), void *arg, int *ret_pidfd,
	struct err *err)
{
	struct provider_record rec = take->rec;
	int r;

	(void)snprintf(rec.id, sizeof(rec.id), "%s", id);
	rec.made_ms = now_ms(CLOCK_REALTIME);
	r = released(&rec, arg);
	if (r < 0)
		(void)err_set(err, -r, "keep the record: %s", strerrordesc_np(-r));
	else
		r = release(take, hostname, err);
	if (r < 0) {
		resident_discard(take);
		return r;
	}
	*ret_pidfd = TAKE_FD(take->pidfd);
	spare_free(take);
	return 0;
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

const struct provider provider_process = {
	.tier = "process",
	.prepare = resident_prepare,
	.claim = resident_claim,
	.discard = resident_discard,
	.open = resident_open,
	.stop = resident_stop,
	.usage = resident_usage,
};
