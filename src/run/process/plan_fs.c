/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/plan_fs - the mounts of a sandbox: its root, what is writable, what is hidden.
 *
 * All that a box owns lives in one tmpfs, the store: /tmp, /dev/shm, the upper
 * layers of its overlays. Its size is the disk cap, and it dies with the box's
 * mount namespace, whoever kills whom. Pure.
 */
#include "base/mem.h"
#include "core/road_env.h"
#include "run/process/plan_build.h"
#include "sys/mount.h"

#include <errno.h>
#include <string.h>

#define STORE_DEFAULT    ((uint64_t)1 << 40) /* "no cap": larger than any tmpfs gets */
#define STORE_INODES_PER (16 * 1024)         /* bytes of cap for each inode */
#define DEV_SIZE         (64 * 1024)

struct builder {
	struct plan *p;
	const struct spec *s;
	const struct plan_facts *f;
	const struct host_view *v;
	enum op_side maker; /* who makes detached mounts: HOST as root, else INIT */
	bool is_idmapped;
	int store;
	bool has_upper_etc; /* the store has root/u/etc already */
};

static bool is_base(const struct builder *b)
{
	return b->s->root == SPEC_ROOT_BASE && b->s->walls[WALL_ROOT] != WALL_LEVEL_OFF;
}

static struct op *add(struct builder *b, enum op_kind kind, enum wall wall)
{
	return plan_add(b->p, kind, OP_SIDE_INIT, wall);
}

static struct op *make(struct builder *b, enum op_kind kind, enum wall wall)
{
	struct op *op = plan_add(b->p, kind, b->maker, wall);

	op->slot = plan_slot(b->p);
	return op;
}

static int tree(struct builder *b, const char *path, unsigned attrs, enum wall wall)
{
	struct op *op = make(b, OP_TREE, wall);

	op->path = mem_strdup(path);
	op->attrs = attrs | MOUNT_NOSUID | MOUNT_NODEV;
	op->idmap = b->is_idmapped;
	op->soft = b->s->walls[WALL_IDS] == WALL_LEVEL_PREFERRED;
	return op->slot;
}

/* A path of the user's, resolved when the plan was made. */
static int real_tree(struct builder *b, const char *path, unsigned attrs)
{
	int slot = tree(b, path, attrs, WALL_ROOT);

	if (b->p->n <= PLAN_OPS_MAX)
		b->p->ops[b->p->n - 1].no_links = true;
	return slot;
}

static struct op *attach(
	struct builder *b, int slot, const char *text, const char *path, enum wall wall)
{
	struct op *op = add(b, OP_ATTACH, wall);

	op->slot = slot;
	op->path = mem_strdup(path);
	op->text = text ? mem_strdup(text) : NULL;
	return op;
}

static void store_dir(struct builder *b, const char *path, mode_t mode, bool is_users)
{
	struct op *op = plan_add(b->p, OP_DIR, b->maker, WALL_DISK);

	op->slot = b->store;
	op->path = mem_strdup(path);
	op->mode = mode;
	op->uid = is_users ? b->f->box_uid : 0;
	op->gid = is_users ? b->f->box_gid : 0;
}

static void add_store(struct builder *b)
{
	struct op *op = make(b, OP_TMPFS, WALL_DISK);
	uint64_t cap = b->s->walls[WALL_DISK] == WALL_LEVEL_OFF ? 0 : b->s->limits.disk_max;

	op->size = cap ? cap : STORE_DEFAULT;
	op->inodes = cap ? cap / STORE_INODES_PER + 4096 : 0;
	op->mode = 0755;
	op->attrs = MOUNT_NOSUID | MOUNT_NODEV;
	b->store = b->p->store_slot = op->slot;
	store_dir(b, "shm", 01777, false);
	/* What masks are made of: nobody's, and nothing in them. */
	store_dir(b, "empty", 0555, false);
	if (b->p->n <= PLAN_OPS_MAX)
		b->p->ops[b->p->n - 1].uid = OP_NOBODY;
	op = plan_add(b->p, OP_EMPTY, b->maker, WALL_MASKS);
	op->slot = b->store;
	op->path = mem_strdup("blank");
	op->mode = 0444;
	op->uid = OP_NOBODY;
}

static int overlay(struct builder *b, int lower, const char *name, enum wall wall)
{
	char sub[64];
	struct op *op;

	store_dir(b, name, 0755, false);
	(void)snprintf(sub, sizeof(sub), "%s/u", name);
	store_dir(b, sub, 0755, false);
	(void)snprintf(sub, sizeof(sub), "%s/w", name);
	store_dir(b, sub, 0755, false);
	op = make(b, OP_OVERLAY, wall);
	op->lower = lower;
	op->upper = b->store;
	op->text = mem_strdup(name);
	op->attrs = MOUNT_NODEV | (b->s->allow_sudo ? 0 : MOUNT_NOSUID);
	return op->slot;
}

static void set_root(struct builder *b, int slot)
{
	add(b, OP_ROOT, WALL_ROOT)->slot = slot;
}

/* File systems that are interfaces of the kernel, not files: the box gets its own or none. */
static bool is_kernel_type(const char *type)
{
	static const char *const types[] = {"proc", "sysfs", "devtmpfs", "devpts", "cgroup",
		"cgroup2", "securityfs", "debugfs", "tracefs", "bpf", "pstore", "mqueue",
		"hugetlbfs", "configfs", "fusectl", "binfmt_misc", "efivarfs", "autofs", "nsfs",
		"rpc_pipefs", "selinuxfs"};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

static bool is_replaced(const char *path)
{
	static const char *const dirs[] = {
		"/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/run"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (text_path_below(path, dirs[i]))
			return true;
	return false;
}

static const char *writable_above(const struct builder *b, const char *path)
{
	for (size_t i = 0; i < b->v->writable.n; i++)
		if (text_path_below(path, b->v->writable.v[i]))
			return b->v->writable.v[i];
	return NULL;
}

/*
 * As root the host's mounts are cloned one by one, since each needs its own id
 * mapping and some cannot have one; a recursive clone would fail as a whole.
 */
static void add_submounts(struct builder *b, bool only_below_writable)
{
	for (size_t i = 0; i < b->f->mounts_n; i++) {
		const struct plan_mount *m = &b->f->mounts[i];
		const char *above = writable_above(b, m->path);
		struct op *op;

		if (strcmp(m->path, "/") == 0 || is_kernel_type(m->type))
			continue;
		if (above && strcmp(above, m->path) == 0)
			continue;
		if (!above && (only_below_writable || is_replaced(m->path)))
			continue;
		op = make(b, OP_TREE, WALL_ROOT);
		op->path = mem_strdup(m->path);
		op->attrs = MOUNT_NOSUID | MOUNT_NODEV | (above ? 0 : MOUNT_RDONLY);
		op->idmap = b->is_idmapped;
		op->is_optional = true; /* a file system without id mapping, or unmounted since */
		attach(b, op->slot, NULL, m->path, WALL_ROOT)->is_optional = true;
	}
}

static void add_host_root(struct builder *b)
{
	unsigned attrs = b->s->walls[WALL_ROOT] == WALL_LEVEL_OFF ? 0 : MOUNT_RDONLY;

	if (b->maker == OP_SIDE_INIT)
		attrs |= MOUNT_RECURSIVE;
	set_root(b, tree(b, "/", attrs, WALL_ROOT));
	if (b->maker == OP_SIDE_HOST)
		add_submounts(b, false);
}

/* A file of the box's own in place of the template's: born in the overlay's upper layer. */
static void upper_file(struct builder *b, const char *path, char *take_text)
{
	struct op *op = plan_add(b->p, OP_EMPTY, b->maker, WALL_ROOT);

	op->slot = b->store;
	op->path = text_format("root/u/%s", path);
	op->text = take_text;
	op->mode = 0644;
}

/* sudo and many servers look their own host name up. */
static void add_hostname(struct builder *b)
{
	const char *name = b->s->hostname ? b->s->hostname : "bawn";

	/* One that gets its name later writes them then: in the store, not copied up from below. */
	if (!b->f->is_resident && strcmp(name, "bawn") == 0)
		return;
	if (b->s->walls[WALL_UTS] == WALL_LEVEL_OFF)
		return;
	store_dir(b, "root/u/etc", 0755, false);
	b->has_upper_etc = true;
	upper_file(b, "etc/hostname", text_format("%s\n", name));
	upper_file(b, "etc/hosts",
		text_format("127.0.0.1 localhost\n127.0.1.1 %s\n"
			    "::1 localhost ip6-localhost ip6-loopback\n",
			name));
}

static void add_base_root(struct builder *b)
{
	int usr = tree(b, "/usr", MOUNT_RDONLY, WALL_ROOT);
	int lower = tree(b, b->f->template_dir, MOUNT_RDONLY, WALL_ROOT);
	bool is_root = b->f->box_uid == 0;

	set_root(b, overlay(b, lower, "root", WALL_ROOT));
	add_hostname(b);
	/*
	 * Copying up a file of an id that is not mapped fails with EOVERFLOW, so
	 * without idmapped mounts /usr cannot be writable, only read.
	 */
	if (b->is_idmapped && (is_root || b->s->allow_sudo)) {
		usr = overlay(b, usr, "usr", WALL_ROOT);
		if (b->f->has_dpkg)
			attach(b,
				overlay(b, tree(b, "/var/lib/dpkg", MOUNT_RDONLY, WALL_ROOT),
					"dpkg", WALL_ROOT),
				NULL, "/var/lib/dpkg", WALL_ROOT);
	}
	attach(b, usr, NULL, "/usr", WALL_ROOT);
	if (b->maker == OP_SIDE_HOST)
		add_submounts(b, true);
}

static void add_dev(struct builder *b)
{
	static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
	static const char *const links[][2] = {{"fd", "/proc/self/fd"},
		{"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
		{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}};
	struct op *op;
	int dev;

	if (b->s->walls[WALL_DEV] == WALL_LEVEL_OFF) {
		op = make(b, OP_TREE, WALL_DEV);
		op->path = mem_strdup("/dev");
		op->attrs = MOUNT_RECURSIVE;
		attach(b, op->slot, NULL, "/dev", WALL_DEV);
		return;
	}
	op = make(b, OP_TMPFS, WALL_DEV);
	dev = op->slot;
	op->size = DEV_SIZE;
	op->mode = 0755;
	op->attrs = MOUNT_NOSUID | MOUNT_NOEXEC;
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		op = plan_add(b->p, OP_SYMLINK, b->maker, WALL_DEV);
		op->slot = dev;
		op->path = mem_strdup(links[i][0]);
		op->text = mem_strdup(links[i][1]);
		op->uid = OP_NOBODY;
	}
	for (size_t i = 0; i < 2; i++) {
		op = plan_add(b->p, OP_DIR, b->maker, WALL_DEV);
		op->slot = dev;
		op->path = mem_strdup(i ? "shm" : "pts");
		op->mode = 0755;
		op->uid = OP_NOBODY;
	}
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		/*
		 * As root a node of our own; a user can only bind the host's, once /dev is
		 * attached.
		 */
		op = plan_add(b->p, OP_NODE, b->maker, WALL_DEV);
		op->slot = dev;
		op->path = mem_strdup(nodes[i]);
		op->uid = OP_NOBODY;
	}
	if (b->maker == OP_SIDE_HOST)
		plan_add(b->p, OP_SEAL, b->maker, WALL_DEV)->slot = dev;
	attach(b, dev, NULL, "/dev", WALL_DEV);
	if (b->maker == OP_SIDE_INIT) {
		for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
			char path[32];
			int slot;

			(void)snprintf(path, sizeof(path), "/dev/%s", nodes[i]);
			op = make(b, OP_TREE, WALL_DEV);
			op->path = mem_strdup(path);
			op->attrs = MOUNT_NOSUID | MOUNT_NOEXEC;
			slot = op->slot;
			attach(b, slot, NULL, path, WALL_DEV);
		}
	}
	add(b, OP_DEVPTS, WALL_DEV)->path = mem_strdup("/dev/pts");
	attach(b, b->store, "shm", "/dev/shm", WALL_DEV);
}

static void mask(struct builder *b, const char *path, bool is_file, enum wall wall)
{
	struct op *op = add(b, OP_MASK, wall);

	op->slot = b->store;
	op->path = mem_strdup(path);
	op->is_file = is_file;
	op->is_optional = true;
}

static void add_proc(struct builder *b)
{
	/* What runc and others mask, and why: they tell of or act on the whole machine. */
	static const char *const dirs[] = {"/proc/acpi", "/proc/scsi", "/proc/asound"};
	static const char *const files[] = {"/proc/kcore", "/proc/keys", "/proc/key-users",
		"/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug", "/proc/kmsg",
		"/proc/sysrq-trigger", "/proc/interrupts"};
	static const char *const readonly[] = {"/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq"};
	struct op *op;

	if (b->s->walls[WALL_PROC] == WALL_LEVEL_OFF) {
		op = make(b, OP_TREE, WALL_PROC);
		op->path = mem_strdup("/proc");
		op->attrs = MOUNT_RECURSIVE;
		attach(b, op->slot, NULL, "/proc", WALL_PROC);
		return;
	}
	add(b, OP_PROC, WALL_PROC)->path = mem_strdup("/proc");
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		mask(b, dirs[i], false, WALL_PROC);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		mask(b, files[i], true, WALL_PROC);
	for (size_t i = 0; i < sizeof(readonly) / sizeof(readonly[0]); i++) {
		op = add(b, OP_RDONLY, WALL_PROC);
		op->path = mem_strdup(readonly[i]);
		op->is_optional = true;
	}
}

static void add_sys(struct builder *b)
{
	struct op *op;

	if (b->s->walls[WALL_SYS] == WALL_LEVEL_OFF) {
		op = make(b, OP_TREE, WALL_SYS);
		op->path = mem_strdup("/sys");
		op->attrs = MOUNT_RECURSIVE;
		attach(b, op->slot, NULL, "/sys", WALL_SYS);
		return;
	}
	/*
	 * The template's /sys is empty but for the mount point; in the host view ours covers the
	 * host's.
	 */
	if (!is_base(b)) {
		store_dir(b, "sys", 0555, false);
		store_dir(b, "sys/devices", 0555, false);
		store_dir(b, "sys/devices/system", 0555, false);
		store_dir(b, "sys/devices/system/cpu", 0555, false);
		attach(b, b->store, "sys", "/sys", WALL_SYS)->attrs = MOUNT_RDONLY;
	}
	/*
	 * The one leaf programs read to count cpus; it tells nothing that /proc/cpuinfo does not.
	 */
	if (b->f->has_cpu_dir) {
		op = make(b, OP_TREE, WALL_SYS);
		op->path = mem_strdup("/sys/devices/system/cpu");
		op->attrs = MOUNT_RDONLY | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC;
		op->is_optional = true;
		attach(b, op->slot, NULL, "/sys/devices/system/cpu", WALL_SYS)->is_optional = true;
	}
}

static const char *cow_target(const struct spec *s)
{
	return s->root == SPEC_ROOT_BASE ? "/workspace" : s->work_dir;
}

static void add_writable(struct builder *b)
{
	unsigned deep = b->maker == OP_SIDE_INIT ? MOUNT_RECURSIVE : 0;

	if (b->s->cow) {
		int lower = real_tree(b, b->s->work_dir, MOUNT_RDONLY | deep);

		attach(b, overlay(b, lower, "cow", WALL_ROOT), NULL, cow_target(b->s), WALL_ROOT)
			->want_target = true;
		b->p->has_cow = true;
	}
	for (size_t i = 0; i < b->v->writable.n; i++) {
		const char *path = b->v->writable.v[i];

		if (b->s->cow && strcmp(path, b->s->work_dir) == 0)
			continue;
		attach(b, real_tree(b, path, deep), NULL, path, WALL_ROOT)->want_target = true;
	}
	for (size_t i = 0; i < b->v->readonly.n; i++) {
		const char *path = b->v->readonly.v[i];

		attach(b, real_tree(b, path, MOUNT_RDONLY | deep), NULL, path, WALL_ROOT)
			->want_target = true;
	}
}

/* Something shown again below a hidden directory needs a directory that can hold mount points. */
static bool is_shown_below(const struct builder *b, const char *dir)
{
	const struct strv *lists[] = {&b->v->writable, &b->v->readonly};

	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			if (strcmp(lists[k]->v[i], dir) != 0 &&
				text_path_below(lists[k]->v[i], dir))
				return true;
	return false;
}

static void add_masks(struct builder *b)
{
	if (b->s->walls[WALL_MASKS] == WALL_LEVEL_OFF)
		return;
	for (size_t i = 0; i < b->v->hidden_dirs.n; i++) {
		const char *path = b->v->hidden_dirs.v[i];
		char name[32];

		if (!is_shown_below(b, path)) {
			mask(b, path, false, WALL_MASKS);
			continue;
		}
		(void)snprintf(name, sizeof(name), "hide%zu", i);
		store_dir(b, name, 0755, false);
		attach(b, b->store, name, path, WALL_MASKS);
	}
	for (size_t i = 0; i < b->v->hidden_files.n; i++)
		mask(b, b->v->hidden_files.v[i], true, WALL_MASKS);
	for (size_t i = 0; i < b->v->pins.n; i++) {
		struct op *op = add(b, OP_PIN, WALL_MASKS);

		op->path = mem_strdup(b->v->pins.v[i]);
		op->is_optional = true;
	}
	for (size_t i = 0; i < b->v->protect.n; i++) {
		struct op *op = add(b, OP_RDONLY, WALL_MASKS);

		op->path = mem_strdup(b->v->protect.v[i]);
		op->is_optional = true;
	}
}

static const char *const trust_paths[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch; also of GnuTLS and Go */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora and its kin */
	"/etc/ssl/cert.pem",                  /* OpenSSL elsewhere */
	"/etc/ssl/certs/java/cacerts",        /* Debian's Java */
};
#define TRUST_COUNT (sizeof(trust_paths) / sizeof(trust_paths[0]))

const char *plan_trust_path(size_t n)
{
	return n < TRUST_COUNT ? trust_paths[n] : NULL;
}

static const char *trust_file(size_t i)
{
	return strstr(trust_paths[i], "java") ? "cacerts.jks" : "bundle.pem";
}

/*
 * In the template a link in the box's own layer: a package that renews the file can put its own
 * there. The variables (core/road_env) still name ours then.
 */
static void link_trust(struct builder *b)
{
	static const char *const dirs[] = {"root/u/etc", "root/u/etc/ssl", "root/u/etc/ssl/certs",
		"root/u/etc/ssl/certs/java"};
	bool has_java = b->f->trust & 1u << 3;

	for (size_t i = b->has_upper_etc; i < sizeof(dirs) / sizeof(dirs[0]) - !has_java; i++)
		store_dir(b, dirs[i], 0755, false);
	b->has_upper_etc = true;
	for (size_t i = 0; i < TRUST_COUNT; i++) {
		struct op *op;

		if (!(b->f->trust & 1u << i) || !text_starts(trust_paths[i], "/etc/ssl/certs/"))
			continue;
		op = plan_add(b->p, OP_SYMLINK, b->maker, WALL_ROOT);
		op->slot = b->store;
		op->path = text_format("root/u%s", trust_paths[i]);
		op->text = text_format("%s/%s", ROAD_CA_DIR, trust_file(i));
	}
}

/* Certificates of who looks into connections on the road, if asked to: public, and nobody's. */
static void add_trust(struct builder *b)
{
	struct op *op;

	if (!b->s->want_road || !b->s->ca_dir)
		return;
	op = make(b, OP_TREE, WALL_ROOT);
	op->path = mem_strdup(b->s->ca_dir);
	op->attrs = MOUNT_RDONLY | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC;
	attach(b, op->slot, NULL, ROAD_CA_DIR, WALL_ROOT);
	if (is_base(b)) {
		link_trust(b);
		return;
	}
	store_dir(b, "run/bawn-ca", 0755, false);
	for (size_t i = 0; i < TRUST_COUNT; i++) {
		if (!(b->f->trust & 1u << i))
			continue;
		op = make(b, OP_TREE, WALL_ROOT);
		op->path = text_format("%s/%s", b->s->ca_dir, trust_file(i));
		op->attrs = MOUNT_RDONLY | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC;
		attach(b, op->slot, NULL, trust_paths[i], WALL_ROOT);
	}
}

static void add_tmp(struct builder *b)
{
	store_dir(b, "tmp", 01777, false);
	attach(b, b->store, "tmp", "/tmp", WALL_DISK);
	/*
	 * In the template /run and /var/tmp are directories of the overlay, and so in the store
	 * too.
	 */
	if (is_base(b))
		return;
	store_dir(b, "vartmp", 01777, false);
	store_dir(b, "run", 0755, false);
	attach(b, b->store, "vartmp", "/var/tmp", WALL_DISK);
	attach(b, b->store, "run", "/run", WALL_ROOT);
}

/*
 * A user's template is all that user's own, who is root in a box that starts as root: what the
 * template says is the box user's is given to it here. As root the files have their numbers.
 */
static void give_home(struct builder *b)
{
	if (!is_base(b) || !b->p->map.by_helper || b->f->box_uid != 0)
		return;
	for (size_t i = 0; template_users_path(i); i++) {
		struct op *op = add(b, OP_OWN, WALL_ROOT);

		op->path = text_format("/%s", template_users_path(i));
		op->uid = op->gid = TEMPLATE_USER;
	}
}

int plan_add_filesystem(struct plan *p, const struct spec *s, const struct plan_facts *f,
	const struct host_view *v, struct err *err)
{
	struct builder b = {.p = p, .s = s, .f = f, .v = v};

	if (s->walls[WALL_MOUNT] == WALL_LEVEL_OFF) {
		if (s->cow)
			return err_set(err, EINVAL, "'--cow' needs wall 'mount'");
		return 0;
	}
	b.maker = f->is_host_root ? OP_SIDE_HOST : OP_SIDE_INIT;
	b.is_idmapped = f->is_host_root && s->walls[WALL_USER] != WALL_LEVEL_OFF &&
			s->walls[WALL_IDS] != WALL_LEVEL_OFF;
	(void)plan_add(p, OP_PRIVATE, OP_SIDE_EARLY, WALL_MOUNT);
	add_store(&b);
	if (is_base(&b))
		add_base_root(&b);
	else
		add_host_root(&b);
	add_tmp(&b);
	add_trust(&b);
	add_dev(&b);
	add_proc(&b);
	add_sys(&b);
	add_writable(&b);
	add_masks(&b);
	add(&b, OP_PIVOT, WALL_ROOT);
	give_home(&b);
	return 0;
}
