/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/plan_command - the walls the command itself carries: limits, ids, capabilities,
 * Landlock, seccomp, environment. Pure.
 */
#include "base/mem.h"
#include "run/process/plan_build.h"
#include "sys/landlock.h"
#include "sys/seccomp.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>

#define CAP(c) (1ull << (c))

/*
 * What root may do in the box, over its own ids and files. Left out on purpose:
 * SYS_ADMIN (mounts, namespaces), NET_ADMIN and NET_RAW (the road), SYS_PTRACE (own
 * processes need none), DAC_READ_SEARCH (open_by_handle_at), MKNOD, SYS_MODULE and all else.
 */
static const uint64_t box_caps = CAP(CAP_CHOWN) | /* package managers give files to their users */
				 CAP(CAP_DAC_OVERRIDE) | /* root reads and writes its own tree */
				 CAP(CAP_FOWNER) |       /* chmod, utimes of others' files */
				 CAP(CAP_FSETID) |       /* keep set-id bits while unpacking */
				 CAP(CAP_KILL) |         /* signal every process of the box */
				 CAP(CAP_SETGID) |
				 CAP(CAP_SETUID) |  /* su, sudo, daemons that drop root */
				 CAP(CAP_SETPCAP) | /* drop capabilities from the bounding set */
				 CAP(CAP_NET_BIND_SERVICE) | /* port 80 on the box's own loopback */
				 CAP(CAP_SYS_CHROOT) |       /* dpkg and sshd chroot */
				 CAP(CAP_SETFCAP) | /* file capabilities, over the box's ids only */
				 CAP(CAP_AUDIT_WRITE); /* sudo and login write audit records */

static struct op *add(struct plan *p, enum op_kind kind, enum wall wall)
{
	return plan_add(p, kind, OP_SIDE_COMMAND, wall);
}

static bool wanted(const struct spec *s, enum wall w)
{
	return s->walls[w] != WALL_LEVEL_OFF;
}

static void rlimit(struct plan *p, enum wall wall, int resource, uint64_t value)
{
	struct op *op = add(p, OP_RLIMIT, wall);

	op->number = (unsigned)resource;
	op->size = value;
}

static void add_limits(struct plan *p, const struct spec *s, const struct plan_facts *f)
{
	unsigned has = f->cgroup_controllers;

	if (wanted(s, WALL_RLIMITS)) {
		/*
		 * core_pattern is the host's; 1, not 0: a pipe handler ignores every limit but this
		 * one
		 */
		rlimit(p, WALL_RLIMITS, RLIMIT_CORE, 1);
		rlimit(p, WALL_RLIMITS, RLIMIT_NOFILE, s->limits.open_files);
		rlimit(p, WALL_RLIMITS, RLIMIT_MEMLOCK, 8 << 20);
		rlimit(p, WALL_RLIMITS, RLIMIT_MSGQUEUE, 819200);
		rlimit(p, WALL_RLIMITS, RLIMIT_SIGPENDING, 4096);
		rlimit(p, WALL_RLIMITS, RLIMIT_RTPRIO, 0);
	}
	/*
	 * Without a cgroup: since 5.14 RLIMIT_NPROC counts per user namespace, so it
	 * counts the box alone; RLIMIT_DATA holds each process, the watchdog their sum.
	 */
	if (wanted(s, WALL_PIDS) && s->limits.pids_max && !(has & CGROUP_PIDS))
		rlimit(p, WALL_PIDS, RLIMIT_NPROC, s->limits.pids_max);
	if (wanted(s, WALL_MEMORY) && s->limits.memory_max && !(has & CGROUP_MEMORY))
		rlimit(p, WALL_MEMORY, RLIMIT_DATA, s->limits.memory_max);
	if (wanted(s, WALL_CPU) && s->limits.cpu_milli && !(has & CGROUP_CPU))
		add(p, OP_NICE, WALL_CPU);
	/*
	 * A file on a shared host directory is not in the store: cap each one, if a cap was asked
	 * for.
	 */
	if (s->walls[WALL_DISK] == WALL_LEVEL_REQUIRED && s->limits.disk_max)
		rlimit(p, WALL_DISK, RLIMIT_FSIZE, s->limits.disk_max);
}

/*
 * Inotify is charged to the box's user namespace and, above it, to the caller: capped
 * inside, a box cannot use up the caller's own (the default there is 128).
 */
static void add_inotify(struct plan *p, const struct spec *s)
{
	static const char *const limits[][2] = {
		{"/proc/sys/user/max_inotify_instances", "64"},
		{"/proc/sys/user/max_inotify_watches", "65536"},
	};

	if (!wanted(s, WALL_RLIMITS) || !wanted(s, WALL_USER))
		return;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct op *op = plan_add(p, OP_SYSCTL, OP_SIDE_EARLY, WALL_RLIMITS);

		op->path = mem_strdup(limits[i][0]);
		op->text = mem_strdup(limits[i][1]);
		op->is_optional = true; /* a kernel without inotify */
	}
}

static void add_identity(
	struct plan *p, const struct spec *s, const struct plan_facts *f, const struct host_view *v)
{
	bool is_root = f->box_uid == 0;
	uint64_t root_caps = box_caps, keep;
	struct op *op;

	/*
	 * Through an idmapped mount a file capability is written for the host's root: left in a
	 * shared directory it would be honoured there.
	 */
	if (v->writable.n > 0)
		root_caps &= ~CAP(CAP_SETFCAP);
	keep = is_root || s->allow_sudo ? root_caps : 0;
	if (wanted(s, WALL_CAPS))
		add(p, OP_BOUND, WALL_CAPS)->size = keep;
	op = add(p, OP_IDS, WALL_IDS);
	op->uid = f->box_uid;
	op->gid = f->box_gid;
	if (wanted(s, WALL_CAPS))
		add(p, OP_CAPS, WALL_CAPS)->size = is_root ? root_caps : 0;
}

static void allow(struct plan *p, const char *path, unsigned access)
{
	struct op *op = add(p, OP_LANDLOCK_ALLOW, WALL_LANDLOCK);

	op->path = mem_strdup(path);
	op->number = access;
	op->is_optional = true;
}

static void add_landlock(
	struct plan *p, const struct spec *s, const struct plan_facts *f, const struct host_view *v)
{
	static const char *const own[] = {"/tmp", "/var/tmp", "/run", "/dev/shm"};
	static const char *const base[] = {
		"/workspace", "/home", "/var", "/root", "/opt", "/srv", "/mnt"};
	bool everything = s->walls[WALL_ROOT] == WALL_LEVEL_OFF ||
			  (s->root == SPEC_ROOT_BASE && (f->box_uid == 0 || s->allow_sudo));
	struct op *op;

	allow(p, "/", LANDLOCK_READ | (everything ? LANDLOCK_WRITE : 0));
	allow(p, "/proc", LANDLOCK_READ | LANDLOCK_WRITE_FILE);
	allow(p, "/dev", LANDLOCK_READ | LANDLOCK_WRITE_FILE | LANDLOCK_DEVICES);
	for (size_t i = 0; !everything && i < sizeof(own) / sizeof(own[0]); i++)
		allow(p, own[i], LANDLOCK_READ | LANDLOCK_WRITE);
	for (size_t i = 0;
		!everything && s->root == SPEC_ROOT_BASE && i < sizeof(base) / sizeof(base[0]); i++)
		allow(p, base[i], LANDLOCK_READ | LANDLOCK_WRITE);
	for (size_t i = 0; !everything && i < v->writable.n; i++)
		allow(p, v->writable.v[i], LANDLOCK_READ | LANDLOCK_WRITE);
	if (s->cow && s->work_dir && !everything)
		allow(p, s->work_dir, LANDLOCK_READ | LANDLOCK_WRITE);
	op = add(p, OP_LANDLOCK, WALL_LANDLOCK);
	op->number = !s->want_loopback;
}

static void add_seccomp(struct plan *p, const struct spec *s, const struct plan_facts *f,
	const struct host_view *v, bool want_explain)
{
	/* A call shown to a listener that has gone would fail with ENOSYS, not EPERM. */
	unsigned flags = f->is_resident ? 0 : SECCOMP_NOTIFY;
	struct op *op;

	want_explain = want_explain && !f->is_resident;
	/* With a road a connect is not refused by itself: who decides tells. */
	if (want_explain && wanted(s, WALL_NET) && !s->want_road)
		flags |= SECCOMP_WATCH_CONNECT;
	if (want_explain && s->root == SPEC_ROOT_HOST && wanted(s, WALL_ROOT))
		flags |= SECCOMP_WATCH_WRITES | SECCOMP_WATCH_CONNECT;
	/*
	 * A set-id file left in a directory of the host would be run there with its owner's rights.
	 */
	if (v->writable.n > 0)
		flags |= SECCOMP_NO_SUID;
	op = add(p, OP_SECCOMP, WALL_SECCOMP);
	op->number = p->seccomp_flags = flags;
}

static void add_filters(struct plan *p, const struct spec *s, const struct plan_facts *f,
	const struct host_view *v, bool want_explain)
{
	if (wanted(s, WALL_LANDLOCK))
		add_landlock(p, s, f, v);
	if (wanted(s, WALL_SECCOMP))
		add_seccomp(p, s, f, v, want_explain);
}

int plan_add_command(struct plan *p, const struct spec *s, const struct plan_facts *f,
	const struct host_view *v, bool want_explain, struct err *err)
{
	struct op *op;

	if (wanted(s, WALL_UTS)) {
		op = plan_add(p, OP_HOSTNAME, OP_SIDE_EARLY, WALL_UTS);
		op->text = mem_strdup(s->hostname ? s->hostname : "bawn");
	}
	if (wanted(s, WALL_NET) && s->want_loopback)
		(void)plan_add(p, OP_LOOPBACK, OP_SIDE_EARLY, WALL_NET);
	if (wanted(s, WALL_NET) && s->want_road)
		(void)plan_add(p, OP_ROAD, OP_SIDE_EARLY, WALL_NET);
	if (p->late_cgroupns)
		(void)add(p, OP_CGROUPNS, WALL_CGROUPNS);
	if (wanted(s, WALL_TTY))
		add(p, OP_SESSION, WALL_TTY)->number = f->has_tty;
	add_inotify(p, s);
	add_limits(p, s, f);
	if (wanted(s, WALL_FDS))
		(void)add(p, OP_FDS, WALL_FDS);
	if (s->cwd)
		p->cwd = mem_strdup(s->cwd);
	else if (s->root == SPEC_ROOT_BASE && wanted(s, WALL_ROOT))
		p->cwd = mem_strdup("/workspace");
	else
		p->cwd = mem_strdup(s->work_dir ? s->work_dir : "/");
	/*
	 * Landlock and seccomp need no_new_privs, or CAP_SYS_ADMIN over the namespace:
	 * with nnp=off they come before the capabilities go.
	 */
	if (wanted(s, WALL_NNP)) {
		add_identity(p, s, f, v);
		(void)add(p, OP_NNP, WALL_NNP);
		add_filters(p, s, f, v, want_explain);
	} else {
		add_filters(p, s, f, v, want_explain);
		add_identity(p, s, f, v);
	}
	add(p, OP_CHDIR, WALL_ROOT)->path = mem_strdup(p->cwd);
	(void)add(p, OP_EXEC, WALL_ROOT);
	for (size_t i = 0; i < s->argv.n; i++) {
		int r = strv_add(&p->argv, s->argv.v[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}
