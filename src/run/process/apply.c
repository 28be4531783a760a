/* SPDX-License-Identifier: Apache-2.0 */

#include "run/process/apply.h"

#include "base/own.h"
#include "sys/caps.h"
#include "sys/landlock.h"
#include "sys/mount.h"
#include "sys/net.h"
#include "sys/process.h"
#include "sys/seccomp.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

void apply_init(struct apply *a, const struct plan *plan)
{
	memset(a, 0, sizeof(*a));
	a->plan = plan;
	a->failed = -1;
	for (int i = 0; i < PLAN_SLOTS_MAX; i++)
		a->slots[i] = -EBADF;
	a->root_fd = a->userns_fd = a->ruleset_fd = a->listener_fd = -EBADF;
	a->mask_fds[0] = a->mask_fds[1] = -EBADF;
	a->road = (struct road){-EBADF, -EBADF};
}

void apply_unpark(struct apply *a)
{
	int n = 0;

	for (int i = 0; i < PLAN_SLOTS_MAX; i++)
		n += a->is_parked[i];
	/*
	 * They lie on top of each other, and to unmount one takes away the uppermost that lies
	 * on it: as often as there are any, each is asked for.
	 */
	for (int left = n; left > 0; left--)
		for (int i = 0; i < PLAN_SLOTS_MAX; i++)
			if (a->is_parked[i] && a->slots[i] >= 0)
				mount_detach(a->slots[i]);
	memset(a->is_parked, 0, sizeof(a->is_parked));
}

void apply_done(struct apply *a)
{
	for (int i = 0; i < PLAN_SLOTS_MAX; i++)
		closep(&a->slots[i]);
	a->root_fd = -EBADF; /* one of the slots */
	closep(&a->userns_fd);
	closep(&a->ruleset_fd);
	closep(&a->listener_fd);
	closep(&a->mask_fds[0]);
	closep(&a->mask_fds[1]);
	closep(&a->road.tcp_fd);
	closep(&a->road.dns_fd);
}

/* Directories every system has; a mount on one of them is gone with the old root. */
static int attach_anywhere(int fd, struct err *err)
{
	static const char *const dirs[] = {"/tmp", "/usr", "/mnt", "/etc"};
	int r = -ENOENT;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		AUTO_FD int target = open(dirs[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (target < 0) {
			r = err_sys(err, "open '%s'", dirs[i]);
			continue;
		}
		r = mount_attach(fd, target, err);
		if (r >= 0)
			return 0;
	}
	return r;
}

/* COMPAT(6.15): before, only mounts of our own namespace can be layers or be cloned in part. */
static int park(struct apply *a, int slot, struct err *err)
{
	int r;

	if (a->is_parked[slot])
		return 0;
	if (a->root_fd >= 0) {
		/*
		 * Below where /proc will be mounted: out of sight, and never on top of the root
		 * itself.
		 */
		AUTO_FD int target = mount_resolve(a->root_fd, "/proc", err);

		r = target < 0 ? target : mount_attach(a->slots[slot], target, err);
	} else {
		r = attach_anywhere(a->slots[slot], err);
	}
	if (r >= 0)
		a->is_parked[slot] = true;
	return r;
}

/*
 * A path that was real when the plan was made: if a part of it has become a link since,
 * somebody is playing with it.
 */
static int clone_real(const struct op *op, struct err *err)
{
	AUTO_FD int at = mount_open_real(op->path, err);

	return at < 0 ? at : mount_clone(at, "", op->attrs, err);
}

static int do_tree(struct apply *a, const struct op *op, struct err *err)
{
	AUTO_FD int fd = op->no_links ? clone_real(op, err)
				      : mount_clone(AT_FDCWD, op->path, op->attrs, err);
	bool idmap = op->idmap && a->userns_fd >= 0;
	int r;

	if (fd < 0)
		return fd;
	r = mount_change(fd, op->attrs | MOUNT_PRIVATE, idmap ? a->userns_fd : -EBADF, err);
	/*
	 * A file system that cannot map ids shows its files as nobody's: readable as any other's.
	 */
	if (r < 0 && idmap && (op->is_optional || op->soft)) {
		a->is_unmapped |= op->soft;
		r = mount_change(fd, op->attrs | MOUNT_PRIVATE, -EBADF, err);
	}
	if (r < 0 && idmap) {
		a->failed = WALL_IDS;
		return err_wrap(err, "'%s' is on a file system that cannot map ids here", op->path);
	}
	if (r < 0)
		return err_wrap(err, "'%s'", op->path);
	a->slots[op->slot] = TAKE_FD(fd);
	return 0;
}

static int try_overlay(struct apply *a, const struct op *op, struct err *err)
{
	AUTO_FD int upper = openat(
		a->slots[op->upper], op->text, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd;

	if (upper < 0)
		return err_sys(err, "open '%s' in the store", op->text);
	fd = mount_overlay(&a->slots[op->lower], 1, upper, a->in_userns, op->attrs, err);
	if (fd < 0)
		return fd;
	a->slots[op->slot] = fd;
	return 0;
}

static int do_overlay(struct apply *a, const struct op *op, struct err *err)
{
	static bool is_apart; /* this process has its own mount namespace already */
	int r = a->must_park ? -EINVAL : try_overlay(a, op, err);

	if (r != -EINVAL)
		return r;
	if (!is_apart && op->side == OP_SIDE_HOST) {
		/*
		 * Parking must not be seen by the host: a mount namespace of our own, for this
		 * process only.
		 */
		if (unshare(CLONE_NEWNS) < 0)
			return err_sys(err, "unshare mounts");
		r = mount_make_private(err);
		if (r < 0)
			return r;
		is_apart = true;
	}
	a->must_park = true;
	r = park(a, op->lower, err);
	if (r >= 0)
		r = park(a, op->upper, err);
	return r < 0 ? r : try_overlay(a, op, err);
}

static int give(struct apply *a, int dir_fd, const struct op *op, struct err *err)
{
	uid_t base = op->side == OP_SIDE_HOST ? a->plan->id_base : 0;

	if (op->uid == OP_NOBODY)
		return 0;
	if (fchownat(dir_fd, op->path, base + op->uid, base + op->gid, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	/* With a single id everything in the box is that id's already. */
	if (op->side == OP_SIDE_INIT && (errno == EINVAL || errno == EPERM))
		return 0;
	return err_sys(err, "give '%s' to its owner", op->path);
}

static int do_dir(struct apply *a, const struct op *op, struct err *err)
{
	int dir = a->slots[op->slot];

	if (mkdirat(dir, op->path, op->mode) < 0)
		return err_sys(err, "make directory '%s'", op->path);
	return give(a, dir, op, err);
}

static int do_empty(struct apply *a, const struct op *op, struct err *err)
{
	AUTO_FD int fd = openat(
		a->slots[op->slot], op->path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, op->mode);

	if (fd < 0)
		return err_sys(err, "make '%s'", op->path);
	if (op->text && write(fd, op->text, strlen(op->text)) != (ssize_t)strlen(op->text))
		return err_sys(err, "write '%s'", op->path);
	return give(a, a->slots[op->slot], op, err);
}

static int do_node(struct apply *a, const struct op *op, struct err *err)
{
	char path[64];
	struct stat st;

	if (op->side == OP_SIDE_INIT)
		return do_empty(a, op, err); /* something to mount the host's node on */
	(void)snprintf(path, sizeof(path), "/dev/%s", op->path);
	if (stat(path, &st) < 0 || !S_ISCHR(st.st_mode))
		return err_set(err, ENODEV, "'%s' is not a device here", path);
	if (mknodat(a->slots[op->slot], op->path, S_IFCHR | 0666, st.st_rdev) < 0)
		return err_sys(err, "make device '%s'", op->path);
	return give(a, a->slots[op->slot], op, err);
}

static int do_symlink(struct apply *a, const struct op *op, struct err *err)
{
	if (symlinkat(op->text, a->slots[op->slot], op->path) < 0)
		return err_sys(err, "make symlink '%s'", op->path);
	return give(a, a->slots[op->slot], op, err);
}

static int do_root(struct apply *a, const struct op *op, struct err *err)
{
	int r = attach_anywhere(a->slots[op->slot], err);

	if (r >= 0)
		a->root_fd = a->slots[op->slot];
	return r;
}

static int attach_at(struct apply *a, int fd, const char *path, struct err *err)
{
	AUTO_FD int target = mount_resolve(a->root_fd, path, err);

	if (target < 0)
		return target;
	return mount_attach(fd, target, err) < 0 ? err_wrap(err, "'%s'", path) : 0;
}

static int do_attach(struct apply *a, const struct op *op, struct err *err)
{
	AUTO_FD int part = -EBADF;
	int fd = a->slots[op->slot], r;

	if (fd < 0)
		return op->is_optional ? 0
				       : err_set(err, EBADF, "nothing to attach at '%s'", op->path);
	if (op->text) {
		r = park(a, op->slot, err);
		if (r < 0)
			return r;
		fd = part = mount_clone(fd, op->text, 0, err);
		if (part < 0)
			return part;
		if (op->attrs && mount_change(part, op->attrs, -EBADF, err) < 0)
			return -err->code;
	}
	if (op->want_target) {
		struct stat st;

		if (fstat(fd, &st) < 0)
			return err_sys(err, "stat what goes to '%s'", op->path);
		r = mount_make_target(a->root_fd, op->path, !S_ISDIR(st.st_mode), err);
		if (r < 0)
			return r;
	}
	return attach_at(a, fd, op->path, err);
}

/* The first mask of a kind is made read-only and attached; the others are clones of it as it is. */
static int make_mask(struct apply *a, const struct op *op, struct err *err)
{
	AUTO_FD int fd = -EBADF;
	int r = park(a, op->slot, err);

	if (r < 0)
		return r;
	if (a->mask_fds[op->is_file] >= 0)
		return mount_clone(a->mask_fds[op->is_file], "", 0, err);
	fd = mount_clone(a->slots[op->slot], op->is_file ? "blank" : "empty", 0, err);
	if (fd < 0)
		return fd;
	r = mount_change(fd, MOUNT_RDONLY, -EBADF, err);
	return r < 0 ? r : TAKE_FD(fd);
}

static int do_mask(struct apply *a, const struct op *op, struct err *err)
{
	AUTO_FD int target = mount_resolve(a->root_fd, op->path, err), fd = -EBADF;
	int r;

	if (target < 0)
		return target;
	fd = make_mask(a, op, err);
	if (fd < 0)
		return fd;
	r = mount_attach(fd, target, err);
	if (r >= 0 && a->mask_fds[op->is_file] < 0)
		a->mask_fds[op->is_file] = TAKE_FD(fd);
	return r;
}

/* Bind a path onto itself: a mount point cannot be renamed or removed, and may be read-only. */
static int do_self_bind(struct apply *a, const struct op *op, unsigned attrs, struct err *err)
{
	AUTO_FD int target = mount_resolve(a->root_fd, op->path, err), fd = -EBADF;
	int r;

	if (target < 0)
		return target;
	fd = mount_clone(target, "", MOUNT_RECURSIVE, err);
	if (fd < 0)
		return fd;
	r = mount_change(fd, attrs, -EBADF, err);
	return r < 0 ? r : mount_attach(fd, target, err);
}

static int do_kernel_fs(struct apply *a, const struct op *op, const char *type,
	const char *const *options, unsigned attrs, struct err *err)
{
	AUTO_FD int fd = mount_kernel_fs(type, options, attrs, err);

	return fd < 0 ? fd : attach_at(a, fd, op->path, err);
}

static int do_sysctl(const struct op *op, struct err *err)
{
	AUTO_FD int fd = open(op->path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, op->text, strlen(op->text)) < 0)
		return err_sys(err, "write '%s' to '%s'", op->text, op->path);
	return 0;
}

static int do_rlimit(const struct op *op, struct err *err)
{
	struct rlimit now, want = {.rlim_cur = op->size, .rlim_max = op->size};

	/* Raising a hard limit needs CAP_SYS_RESOURCE outside: take what the caller has. */
	if (getrlimit((int)op->number, &now) < 0)
		return err_sys(err, "read resource limit %u", op->number);
	if (want.rlim_max > now.rlim_max)
		want.rlim_cur = want.rlim_max = now.rlim_max;
	if (setrlimit((int)op->number, &want) < 0)
		return err_sys(err, "set resource limit %u", op->number);
	return 0;
}

static int do_ids(const struct op *op, struct err *err)
{
	/*
	 * Where setgroups is denied (a single-id map) the caller's groups stay; they grant only
	 * what others have.
	 */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return err_sys(err, "drop groups");
	if (setresgid(op->gid, op->gid, op->gid) < 0)
		return err_sys(err, "become group %u", op->gid);
	if (setresuid(op->uid, op->uid, op->uid) < 0)
		return err_sys(err, "become user %u", op->uid);
	return 0;
}

static int do_landlock_allow(struct apply *a, const struct op *op, struct err *err)
{
	AUTO_FD int fd = open(op->path, O_PATH | O_CLOEXEC);
	bool deny_tcp = false;

	if (fd < 0)
		return err_sys(err, "open '%s'", op->path);
	if (a->ruleset_fd < 0) {
		for (size_t i = 0; i < a->plan->n; i++)
			if (a->plan->ops[i].kind == OP_LANDLOCK)
				deny_tcp = a->plan->ops[i].number;
		a->ruleset_fd = landlock_open(deny_tcp, err);
		if (a->ruleset_fd < 0)
			return a->ruleset_fd;
	}
	return landlock_allow(a->ruleset_fd, fd, op->number, err);
}

/*
 * There is no call that asks whether one is landlocked. Making a device node is
 * checked by Landlock first (EACCES) and by capability after (EPERM): the errno tells.
 */
static bool is_landlock_felt(void)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/tmp/.bawn-probe-%d", (int)getpid());
	if (mknodat(AT_FDCWD, path, S_IFCHR | 0600, makedev(1, 3)) == 0) {
		(void)unlink(path);
		return false;
	}
	return errno == EACCES;
}

static int do_landlock(struct apply *a, struct err *err)
{
	int r;

	if (a->ruleset_fd < 0)
		return err_set(err, EOPNOTSUPP, "landlock: no rules");
	r = landlock_enter(a->ruleset_fd, err);
	closep(&a->ruleset_fd);
	a->is_landlocked = r >= 0 && is_landlock_felt();
	return r;
}

static int apply_mount_op(struct apply *a, const struct op *op, struct err *err)
{
	static const char *const pts[] = {
		"newinstance", NULL, "mode", "0620", "ptmxmode", "0666", NULL};
	int fd;

	switch (op->kind) {
	case OP_TREE: return do_tree(a, op, err);
	case OP_TMPFS:
		fd = mount_tmpfs(op->size, op->inodes, op->mode, op->attrs, err);
		if (fd >= 0)
			a->slots[op->slot] = fd;
		return fd < 0 ? fd : 0;
	case OP_OVERLAY: return do_overlay(a, op, err);
	case OP_DIR: return do_dir(a, op, err);
	case OP_EMPTY: return do_empty(a, op, err);
	case OP_SYMLINK: return do_symlink(a, op, err);
	case OP_NODE: return do_node(a, op, err);
	case OP_SEAL: return mount_change(a->slots[op->slot], MOUNT_RDONLY, -EBADF, err);
	case OP_PRIVATE: return mount_make_private(err);
	case OP_ROOT: return do_root(a, op, err);
	case OP_ATTACH: return do_attach(a, op, err);
	case OP_MASK: return do_mask(a, op, err);
	case OP_PIN: return do_self_bind(a, op, 0, err);
	case OP_RDONLY: return do_self_bind(a, op, MOUNT_RDONLY | MOUNT_RECURSIVE, err);
	case OP_PROC:
		return do_kernel_fs(
			a, op, "proc", NULL, MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, err);
	case OP_DEVPTS: return do_kernel_fs(a, op, "devpts", pts, MOUNT_NOSUID | MOUNT_NOEXEC, err);
	default: return mount_pivot(a->root_fd, err);
	}
}

static int apply_op(struct apply *a, const struct op *op, struct err *err)
{
	switch (op->kind) {
	case OP_HOSTNAME:
		return sethostname(op->text, strlen(op->text)) < 0
			       ? err_sys(err, "set the host name")
			       : 0;
	case OP_LOOPBACK: return net_loopback_up(err);
	case OP_ROAD: return road_make(&a->road, err);
	case OP_SYSCTL: return do_sysctl(op, err);
	case OP_OWN:
		return lchown(op->path, op->uid, op->gid) < 0
			       ? err_sys(err, "give '%s' to its owner", op->path)
			       : 0;
	case OP_CGROUPNS:
		return unshare(CLONE_NEWCGROUP) < 0 ? err_sys(err, "unshare the cgroup namespace")
						    : 0;
	case OP_SESSION: return 0; /* done by the command's process itself: run/process/command.c */
	case OP_RLIMIT: return do_rlimit(op, err);
	case OP_NICE:
		return setpriority(PRIO_PROCESS, 0, 10) < 0 ? err_sys(err, "lower the priority")
							    : 0;
	case OP_BOUND: return caps_bound(op->size, err);
	case OP_IDS: return do_ids(op, err);
	case OP_CAPS: return caps_set(op->size, err);
	case OP_CHDIR:
		return chdir(op->path) < 0 ? err_sys(err, "enter working directory '%s'", op->path)
					   : 0;
	case OP_FDS: return process_cloexec_from(3, a->keep_fds, a->keep_n, err);
	case OP_NNP:
		return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? err_sys(err, "no_new_privs")
								  : 0;
	case OP_LANDLOCK_ALLOW: return do_landlock_allow(a, op, err);
	case OP_LANDLOCK: return do_landlock(a, err);
	case OP_SECCOMP: return seccomp_install(op->number, &a->listener_fd, err);
	case OP_EXEC:
	case OP_COUNT: return 0;
	default: return apply_mount_op(a, op, err);
	}
}

int apply_side(struct apply *a, enum op_side side, struct err *err)
{
	for (size_t i = 0; i < a->plan->n; i++) {
		const struct op *op = &a->plan->ops[i];
		int r;

		if (op->side != side)
			continue;
		r = apply_op(a, op, err);
		if (r >= 0)
			continue;
		/*
		 * Gone since the plan was made, or never on this kernel: nothing to hide or hold
		 * there.
		 */
		if (op->is_optional && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP))
			continue;
		if (op->is_optional && op->kind == OP_TREE)
			continue;
		if (a->failed < 0)
			a->failed = (int)op->wall;
		return err_wrap(err, "wall '%s'", wall_name((enum wall)a->failed));
	}
	return 0;
}

int apply_again(struct apply *a, const struct op *op, struct err *err)
{
	AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (root < 0)
		return err_sys(err, "open '/'");
	/* The first mask of a kind may be the one that fell: make a new one from the store. */
	closep(&a->mask_fds[0]);
	closep(&a->mask_fds[1]);
	a->root_fd = root;
	r = apply_op(a, op, err);
	a->root_fd = -EBADF;
	return r;
}
