/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/plan: which mounts, namespaces and id maps a sandbox becomes, for machines and
 * callers described by hand. Nothing here looks at this machine; any user.
 */
#include "plan_fixture.h"
#include "sys/mount.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#define ALL_NAMESPACES                                                                             \
	((uint64_t)CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |      \
		CLONE_NEWUTS | CLONE_NEWCGROUP)

static void sides_come_in_order(void)
{
	as_root();
	CHECK_INT(build(), 0);
	for (size_t i = 1; i < p.n; i++)
		CHECK(p.ops[i - 1].side <= p.ops[i].side);
	CHECK_INT(p.ops[0].side, OP_SIDE_HOST);
	CHECK_INT(p.ops[p.n - 1].kind, OP_EXEC);
	done();
}

static void a_user_leaves_nothing_to_the_host_side(void)
{
	as_user();
	CHECK_INT(build(), 0);
	CHECK_INT(p.ops[0].side, OP_SIDE_EARLY);
	done();
}

/* It runs while the other process still makes mounts, and before pid 1 is tied to its parent. */
static void what_is_early_needs_no_mount(void)
{
	as_root();
	CHECK_INT(build(), 0);
	for (size_t i = 0; i < p.n; i++)
		if (p.ops[i].side == OP_SIDE_EARLY)
			CHECK(p.ops[i].slot < 0);
	CHECK_INT(the(OP_PRIVATE, NULL)->side, OP_SIDE_EARLY);
	CHECK_INT(the(OP_HOSTNAME, NULL)->side, OP_SIDE_EARLY);
	CHECK_STR(the(OP_HOSTNAME, NULL)->text, "bawn");
	CHECK_INT(the(OP_LOOPBACK, NULL)->side, OP_SIDE_EARLY);
	done();
}

/* A setting of the box's own user namespace; without one it would be the machine's. */
static void inotify_is_capped_in_the_box_s_own_namespace_only(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK_STR(the(OP_SYSCTL, "/proc/sys/user/max_inotify_instances")->text, "64");
	done();
	as_root();
	s.walls[WALL_USER] = s.walls[WALL_IDS] = WALL_LEVEL_OFF;
	CHECK_INT(build(), 0);
	CHECK_INT(count(OP_SYSCTL), 0);
	done();
}

static bool makes(const struct op *op)
{
	return op->kind == OP_TREE || op->kind == OP_TMPFS || op->kind == OP_OVERLAY;
}

/* Every slot is made before it is used, and made once. */
static void check_slots(void)
{
	bool is_made[PLAN_SLOTS_MAX] = {false};

	for (size_t i = 0; i < p.n; i++) {
		const struct op *op = &p.ops[i];

		if (op->slot < 0)
			continue;
		CHECK(op->slot < p.slots);
		if (makes(op)) {
			CHECK(!is_made[op->slot]);
			is_made[op->slot] = true;
		}
		CHECK(is_made[op->slot]);
		CHECK(op->lower < 0 || is_made[op->lower]);
		CHECK(op->upper < 0 || is_made[op->upper]);
	}
	for (int i = 0; i < p.slots; i++)
		CHECK(is_made[i]);
}

static void every_slot_is_made_once_and_before_its_use(void)
{
	for (int mode = 0; mode < 8; mode++) {
		if (mode & 1)
			as_root();
		else
			as_user();
		s.cow = mode & 4;
		if (mode & 2)
			in_base(0);
		if (s.cow && !s.work_dir)
			s.work_dir = mem_strdup("/home/ann/p");
		CHECK_INT(build(), 0);
		check_slots();
		done();
	}
}

static int depth(const char *path)
{
	int n = 0;

	for (; *path; path++)
		n += *path == '/' && path[1];
	return n;
}

static bool is_on_tree(const struct op *op)
{
	return op->kind == OP_ATTACH || op->kind == OP_MASK || op->kind == OP_PIN ||
	       op->kind == OP_RDONLY || op->kind == OP_PROC || op->kind == OP_DEVPTS;
}

static void mounts_go_from_the_outside_in(void)
{
	int last = 0;

	as_root();
	list(&v.hidden_dirs, "/home/ann/.ssh");
	list(&v.protect, "/home/ann/p/.git/hooks");
	list(&v.pins, "/home/ann/p/.git");
	CHECK_INT(build(), 0);
	for (size_t i = 0; i < p.n; i++) {
		if (!is_on_tree(&p.ops[i]))
			continue;
		CHECK(depth(p.ops[i].path) >= last);
		last = depth(p.ops[i].path);
	}
	CHECK(before(find(OP_ATTACH, "/home/ann/p"), find(OP_PIN, "/home/ann/p/.git")));
	CHECK(before(find(OP_PIN, "/home/ann/p/.git"), find(OP_RDONLY, "/home/ann/p/.git/hooks")));
	CHECK(before(find(OP_ROOT, NULL), find(OP_ATTACH, NULL)));
	CHECK(before(find(OP_RDONLY, "/home/ann/p/.git/hooks"), find(OP_PIVOT, NULL)));
	done();
}

static void the_host_tree_is_read_only_and_the_directory_is_not(void)
{
	const struct op *root, *work;

	as_root();
	CHECK_INT(build(), 0);
	root = find(OP_TREE, "/");
	work = find(OP_TREE, "/home/ann/p");
	if (!CHECK(root && work))
		return;
	CHECK_INT(root->attrs, MOUNT_RDONLY | MOUNT_NOSUID | MOUNT_NODEV);
	CHECK_INT(work->attrs, MOUNT_NOSUID | MOUNT_NODEV);
	CHECK(root->idmap && work->idmap);
	CHECK(the(OP_ROOT, NULL)->slot == root->slot);
	done();
}

/* A user may not clone a tree without the mounts below it: they are locked together. */
static void a_user_clones_trees_whole_and_maps_no_ids(void)
{
	as_user();
	CHECK_INT(build(), 0);
	for (size_t i = 0; i < p.n; i++) {
		CHECK(!p.ops[i].idmap);
		if (p.ops[i].kind == OP_TREE && p.ops[i].wall == WALL_ROOT)
			CHECK(p.ops[i].attrs & MOUNT_RECURSIVE);
	}
	done();
}

/* Only then: a required map that cannot be had refuses the start. */
static void a_tree_may_do_without_a_map_if_ids_are_preferred(void)
{
	as_root();
	CHECK_INT(build(), 0);
	for (size_t i = 0; i < p.n; i++)
		CHECK(!p.ops[i].soft);
	plan_done(&p);
	s.walls[WALL_IDS] = WALL_LEVEL_PREFERRED;
	CHECK_INT(build(), 0);
	CHECK(the(OP_TREE, "/")->soft && the(OP_TREE, "/")->idmap);
	done();
}

static void root_clones_the_mounts_of_the_host_but_not_the_kernel_s(void)
{
	as_root();
	add_host_mount("/proc", "proc");
	add_host_mount("/data", "ext4");
	add_host_mount("/opt/bpf", "bpf");
	add_host_mount("/run/user/0", "tmpfs");
	add_host_mount("/home/ann/p/big", "xfs");
	CHECK_INT(build(), 0);
	CHECK(the(OP_TREE, "/data")->attrs & MOUNT_RDONLY);
	CHECK(the(OP_TREE, "/data")->is_optional);
	CHECK(!(the(OP_TREE, "/home/ann/p/big")->attrs & MOUNT_RDONLY));
	CHECK(!find(OP_TREE, "/proc"));
	CHECK(!find(OP_TREE, "/opt/bpf"));
	CHECK(!find(OP_TREE, "/run/user/0"));
	done();
}

static void what_is_writable_never_honours_set_id_or_devices(void)
{
	for (int is_user = 0; is_user < 2; is_user++) {
		if (is_user)
			as_user();
		else
			as_root();
		CHECK_INT(build(), 0);
		for (size_t i = 0; i < p.n; i++) {
			const struct op *op = &p.ops[i];

			if (makes(op) && op->wall == WALL_ROOT)
				CHECK((op->attrs & (MOUNT_NOSUID | MOUNT_NODEV)) ==
					(MOUNT_NOSUID | MOUNT_NODEV));
		}
		done();
	}
}

static void the_store_is_the_disk_cap(void)
{
	const struct op *store;

	as_root();
	s.limits.disk_max = 64 << 20;
	CHECK_INT(build(), 0);
	store = find(OP_TMPFS, NULL);
	if (!CHECK(store != NULL))
		return;
	CHECK_INT(store->slot, p.store_slot);
	CHECK_INT(store->size, 64 << 20);
	CHECK(store->inodes > 0);
	CHECK(maker_of("/tmp") == store);
	CHECK(maker_of("/var/tmp") == store);
	CHECK(maker_of("/dev/shm") == store);
	CHECK(maker_of("/run") == store);
	done();
}

static void without_the_disk_wall_the_store_has_no_cap(void)
{
	as_root();
	s.walls[WALL_DISK] = WALL_LEVEL_OFF;
	CHECK_INT(build(), 0);
	CHECK(the(OP_TMPFS, NULL)->size > (1ull << 30));
	CHECK_INT(the(OP_TMPFS, NULL)->inodes, 0);
	done();
}

static void a_disk_cap_that_was_asked_for_holds_files_on_the_host_too(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK(!rlimit(RLIMIT_FSIZE));
	done();
	as_root();
	CHECK(spec_set_limit(&s, "disk", "8M", &err) >= 0);
	CHECK_INT(build(), 0);
	CHECK(rlimit(RLIMIT_FSIZE) && rlimit(RLIMIT_FSIZE)->size == 8 << 20);
	done();
}

static void the_base_root_is_an_overlay_of_the_template(void)
{
	const struct op *over, *usr;

	as_root();
	in_base(1000);
	CHECK_INT(build(), 0);
	over = find(OP_OVERLAY, NULL);
	usr = find(OP_TREE, "/usr");
	if (!CHECK(over && usr))
		return;
	CHECK_INT(count(OP_OVERLAY), 1);
	CHECK_INT(over->lower, the(OP_TREE, f.template_dir)->slot);
	CHECK_INT(over->upper, p.store_slot);
	CHECK_INT(over->attrs, MOUNT_NODEV | MOUNT_NOSUID);
	CHECK_INT(the(OP_ROOT, NULL)->slot, over->slot);
	CHECK(usr->attrs & MOUNT_RDONLY && usr->idmap);
	CHECK(maker_of("/usr") == usr);
	CHECK(!find(OP_TREE, "/"));
	CHECK_STR(p.cwd, "/workspace");
	done();
}

static void root_in_the_base_may_install_packages(void)
{
	as_root();
	in_base(0);
	CHECK_INT(build(), 0);
	CHECK_INT(count(OP_OVERLAY), 3);
	CHECK(maker_of("/usr") && maker_of("/usr")->kind == OP_OVERLAY);
	CHECK(maker_of("/var/lib/dpkg") && maker_of("/var/lib/dpkg")->kind == OP_OVERLAY);
	done();
	/* Without idmapped mounts nothing of /usr can be copied up: it stays read-only. */
	as_user();
	in_base(0);
	CHECK_INT(build(), 0);
	CHECK_INT(count(OP_OVERLAY), 1);
	CHECK(maker_of("/usr") && maker_of("/usr")->kind == OP_TREE);
	CHECK(the(OP_TREE, "/usr")->attrs & MOUNT_RDONLY);
	done();
}

static void sudo_needs_set_id_files_in_the_box_s_own_layers(void)
{
	as_root();
	in_base(1000);
	s.allow_sudo = true;
	CHECK_INT(build(), 0);
	CHECK_INT(the(OP_OVERLAY, NULL)->attrs, MOUNT_NODEV);
	CHECK(the(OP_BOUND, NULL)->size != 0);
	CHECK_INT(the(OP_CAPS, NULL)->size, 0);
	done();
}

static void copy_on_write_puts_an_overlay_over_a_read_only_tree(void)
{
	const struct op *over;

	as_root();
	s.cow = true;
	CHECK_INT(build(), 0);
	CHECK(p.has_cow);
	over = maker_of("/home/ann/p");
	if (!CHECK(over && over->kind == OP_OVERLAY))
		return;
	CHECK_STR(over->text, "cow");
	CHECK(find(OP_DIR, "cow/u") && find(OP_DIR, "cow/w"));
	CHECK(the(OP_TREE, "/home/ann/p")->attrs & MOUNT_RDONLY);
	CHECK(!find_nth(OP_ATTACH, "/home/ann/p", 1));
	done();
}

static void copy_on_write_in_the_base_lands_in_workspace(void)
{
	as_root();
	in_base(1000);
	s.cow = true;
	s.work_dir = mem_strdup("/home/ann/p");
	CHECK_INT(build(), 0);
	CHECK(maker_of("/workspace") && maker_of("/workspace")->kind == OP_OVERLAY);
	CHECK(!find(OP_ATTACH, "/home/ann/p"));
	done();
}

static void hidden_things_are_masked_and_seen_again_where_asked(void)
{
	const struct op *shown;

	as_root();
	list(&v.hidden_dirs, "/home/ann/.ssh");
	list(&v.hidden_dirs, "/home/ann/.config");
	list(&v.hidden_files, "/home/ann/.netrc");
	list(&v.readonly, "/home/ann/.config/tool");
	CHECK_INT(build(), 0);
	CHECK(!the(OP_MASK, "/home/ann/.ssh")->is_file);
	CHECK(the(OP_MASK, "/home/ann/.netrc")->is_file);
	/* A mask can hold no mount point, so this one is a directory of its own. */
	CHECK(!find(OP_MASK, "/home/ann/.config"));
	shown = find(OP_ATTACH, "/home/ann/.config/tool");
	CHECK(before(find(OP_ATTACH, "/home/ann/.config"), shown));
	CHECK(shown && shown->want_target);
	CHECK(the(OP_TREE, "/home/ann/.config/tool")->attrs & MOUNT_RDONLY);
	done();
}

static void the_kernel_s_secrets_in_proc_are_masked(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK(before(find(OP_PROC, "/proc"), find(OP_MASK, "/proc/kcore")));
	CHECK(find(OP_MASK, "/proc/keys") && find(OP_MASK, "/proc/sysrq-trigger"));
	CHECK(the(OP_RDONLY, "/proc/sys")->is_optional);
	CHECK(the(OP_ATTACH, "/sys")->attrs & MOUNT_RDONLY);
	CHECK(!find(OP_TREE, "/sys") && !find(OP_TREE, "/proc"));
	done();
}

static void dev_is_made_by_root_and_borrowed_by_a_user(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK_INT(count(OP_NODE), 6);
	CHECK_INT(count(OP_SEAL), 1);
	CHECK(!find(OP_TREE, "/dev/null"));
	CHECK(before(find(OP_ATTACH, "/dev"), find(OP_DEVPTS, "/dev/pts")));
	done();
	as_user();
	CHECK_INT(build(), 0);
	CHECK(before(find(OP_ATTACH, "/dev"), find(OP_ATTACH, "/dev/null")));
	CHECK(find(OP_TREE, "/dev/null"));
	CHECK(!find(OP_TREE, "/dev/kmsg") && !find(OP_TREE, "/dev"));
	done();
}

static void root_gets_a_range_of_its_own(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK_INT(p.map.uid_n, 1);
	CHECK_INT(p.map.uid[0].inside, 0);
	CHECK_INT(p.map.uid[0].outside, 0x70010000);
	CHECK_INT(p.map.gid[0].count, 65536);
	CHECK_INT(p.id_base, 0x70010000);
	CHECK(!p.map.by_helper);
	done();
}

static void a_user_is_mapped_to_itself_alone(void)
{
	as_user();
	CHECK_INT(build(), 0);
	CHECK_INT(p.map.uid_n, 1);
	CHECK_INT(p.map.uid[0].inside, 1000);
	CHECK_INT(p.map.uid[0].outside, 1000);
	CHECK_INT(p.map.uid[0].count, 1);
	CHECK_INT(p.map.gid[0].outside, 1001);
	CHECK_INT(p.id_base, 0);
	done();
}

/* Whole, without overlap, inside and outside; the command's own id is the caller's. */
static void check_subordinate(uid_t box_uid)
{
	uint32_t inside = 0;
	bool has_caller = false;

	as_user();
	in_base(box_uid);
	f.subuid = 100000;
	f.subgid = 200000;
	CHECK_INT(build(), 0);
	CHECK(p.map.by_helper);
	for (unsigned i = 0; i < p.map.uid_n; i++) {
		const struct userns_extent *e = &p.map.uid[i];

		CHECK_INT(e->inside, inside);
		CHECK(e->count > 0);
		inside += e->count;
		if (e->outside == 1000) {
			has_caller = true;
			CHECK_INT(e->inside, box_uid);
			CHECK_INT(e->count, 1);
		} else {
			CHECK(e->outside >= 100000 && e->outside + e->count <= 100000 + 65535);
		}
	}
	CHECK_INT(inside, 65536);
	CHECK(has_caller);
	CHECK(p.map.gid_n == p.map.uid_n);
	done();
}

static void subordinate_ids_surround_the_caller(void)
{
	check_subordinate(0);
	check_subordinate(1000);
	check_subordinate(65533);
}

static void without_the_user_wall_there_is_no_map(void)
{
	as_root();
	s.walls[WALL_USER] = s.walls[WALL_IDS] = WALL_LEVEL_OFF;
	CHECK_INT(build(), 0);
	CHECK_INT(p.map.uid_n, 0);
	CHECK(!(p.namespaces & CLONE_NEWUSER));
	for (size_t i = 0; i < p.n; i++)
		CHECK(!p.ops[i].idmap);
	done();
}

static void every_namespace_is_new(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK(p.namespaces == ALL_NAMESPACES);
	CHECK(!p.late_cgroupns);
	done();
}

static void on_v1_the_cgroup_namespace_waits_for_the_leaf(void)
{
	as_root();
	f.cgroup = CGROUP_V1;
	CHECK_INT(build(), 0);
	CHECK(p.late_cgroupns);
	CHECK(p.namespaces == (ALL_NAMESPACES & ~(uint64_t)CLONE_NEWCGROUP));
	CHECK(the(OP_CGROUPNS, NULL)->side == OP_SIDE_COMMAND);
	CHECK(before(find(OP_CGROUPNS, NULL), find(OP_CAPS, NULL)));
	done();
}

static void each_namespace_wall_can_be_left_out(void)
{
	static const struct {
		enum wall wall;
		uint64_t flag;
	} rows[] = {{WALL_PID, CLONE_NEWPID}, {WALL_NET, CLONE_NEWNET}, {WALL_IPC, CLONE_NEWIPC},
		{WALL_UTS, CLONE_NEWUTS}, {WALL_CGROUPNS, CLONE_NEWCGROUP}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		as_root();
		s.walls[rows[i].wall] = WALL_LEVEL_OFF;
		CHECK_INT(build(), 0);
		CHECK(p.namespaces == (ALL_NAMESPACES & ~rows[i].flag));
		done();
	}
}

/* These walls leave no trace in the plan when they are off. */
static void a_wall_that_is_off_has_no_operation(void)
{
	static const enum wall walls[] = {WALL_MASKS, WALL_CAPS, WALL_NNP, WALL_SECCOMP,
		WALL_LANDLOCK, WALL_RLIMITS, WALL_FDS, WALL_TTY, WALL_UTS, WALL_NET, WALL_MEMORY,
		WALL_PIDS};

	for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++) {
		as_user();
		list(&v.hidden_files, "/home/ann/.netrc");
		CHECK_INT(build(), 0);
		CHECK(count_wall(walls[i]) > 0);
		plan_done(&p);
		s.walls[walls[i]] = WALL_LEVEL_OFF;
		CHECK_INT(build(), 0);
		/* The blank file that masks are made of serves /proc too. */
		CHECK_INT(count_wall(walls[i]), walls[i] == WALL_MASKS ? 1 : 0);
		done();
	}
}

static void without_the_mount_wall_nothing_is_mounted(void)
{
	as_root();
	s.walls[WALL_MOUNT] = WALL_LEVEL_OFF;
	CHECK_INT(build(), 0);
	CHECK_INT(p.store_slot, -1);
	CHECK_INT(p.slots, 0);
	CHECK(!find(OP_PIVOT, NULL));
	done();
	as_root();
	s.walls[WALL_MOUNT] = WALL_LEVEL_OFF;
	s.cow = true;
	CHECK_INT(build(), -EINVAL);
	CHECK_STR(err.msg, "'--cow' needs wall 'mount'");
	done();
}

static void proc_dev_and_sys_that_are_off_are_the_host_s(void)
{
	static const struct {
		enum wall wall;
		const char *path;
	} rows[] = {{WALL_PROC, "/proc"}, {WALL_DEV, "/dev"}, {WALL_SYS, "/sys"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		as_root();
		s.walls[rows[i].wall] = WALL_LEVEL_OFF;
		CHECK_INT(build(), 0);
		CHECK(find(OP_TREE, rows[i].path) &&
			maker_of(rows[i].path) == find(OP_TREE, rows[i].path));
		done();
	}
}

static void a_host_name_of_its_own_is_in_the_boxs_hosts(void)
{
	const struct op *op;

	as_root();
	in_base(0);
	s.hostname = mem_strdup("e2b.local");
	CHECK_INT(build(), 0);
	op = find(OP_EMPTY, "root/u/etc/hosts");
	if (CHECK(op != NULL))
		CHECK(strstr(op->text, "127.0.1.1 e2b.local\n") != NULL);
	CHECK(before(find(OP_DIR, "root/u/etc"), op));
	done();
	as_root();
	in_base(0);
	CHECK_INT(build(), 0);
	CHECK(!find(OP_EMPTY, "root/u/etc/hosts")); /* the template's will do */
	done();
	as_root();
	in_base(0);
	f.is_resident = true;
	CHECK_INT(build(), 0);
	CHECK(find(OP_EMPTY, "root/u/etc/hosts")); /* it gets its name when it is given away */
	done();
}

static void a_plan_serves_another_range_of_ids(void)
{
	as_root();
	in_base(0);
	CHECK_INT(build(), 0);
	plan_set_range(&p, 0x70050000);
	CHECK_INT(p.id_base, 0x70050000);
	CHECK_INT(p.map.uid[0].outside, 0x70050000);
	CHECK_INT(p.map.gid[0].outside, 0x70050000);
	CHECK_INT(p.map.uid[0].inside, 0);
	done();
	as_user();
	CHECK_INT(build(), 0);
	plan_set_range(&p, 0x70050000);
	CHECK_INT(p.id_base, 0); /* a user has no range to choose */
	CHECK_INT(p.map.uid[0].outside, f.uid);
	done();
}

/* In a user's template everything is that user's, who is root in a box that starts as root. */
static void home_is_given_to_user_where_ids_are_subordinate(void)
{
	as_user();
	in_base(0);
	f.subuid = f.subgid = 100000;
	CHECK_INT(build(), 0);
	CHECK(find(OP_OWN, "/home/user") && find(OP_OWN, "/home/user")->uid == TEMPLATE_USER);
	CHECK(before(find(OP_PIVOT, NULL), find(OP_OWN, "/workspace")));
	done();
	as_user();
	in_base(1000);
	f.subuid = f.subgid = 100000;
	CHECK_INT(build(), 0);
	CHECK(!find(OP_OWN, NULL)); /* the caller is user */
	done();
	as_root();
	in_base(0);
	CHECK_INT(build(), 0);
	CHECK(!find(OP_OWN, NULL)); /* files have their numbers */
	done();
}

/* The one that must be there. */
static const struct op *source(const char *path)
{
	static const struct op none = {.kind = OP_COUNT};
	const struct op *op = maker_of(path);

	CHECK(op != NULL);
	return op ? op : &none;
}

static void certificates_are_mounted_over_the_host_s_and_linked_in_the_base(void)
{
	as_user();
	s.want_road = true;
	s.ca_dir = mem_strdup("/ca/public");
	f.trust = 1u << 0 | 1u << 3;
	CHECK_INT(build(), 0);
	CHECK_STR(source("/run/bawn-ca")->path, "/ca/public");
	CHECK(source("/run/bawn-ca")->attrs & MOUNT_RDONLY);
	CHECK_STR(source("/etc/ssl/certs/ca-certificates.crt")->path, "/ca/public/bundle.pem");
	CHECK_STR(source("/etc/ssl/certs/java/cacerts")->path, "/ca/public/cacerts.jks");
	CHECK(!find(OP_ATTACH, "/etc/ssl/cert.pem"));
	CHECK(before(find(OP_ATTACH, "/run"), find(OP_ATTACH, "/run/bawn-ca")));
	done();
	as_root();
	in_base(0);
	s.want_road = true;
	s.ca_dir = mem_strdup("/ca/public");
	s.hostname = mem_strdup("other"); /* makes etc too: once is enough */
	f.trust = 1u << 0;
	CHECK_INT(build(), 0);
	CHECK_STR(the(OP_SYMLINK, "root/u/etc/ssl/certs/ca-certificates.crt")->text,
		"/run/bawn-ca/bundle.pem");
	CHECK(find(OP_DIR, "root/u/etc") && !find_nth(OP_DIR, "root/u/etc", 1));
	CHECK(!find(OP_DIR, "root/u/etc/ssl/certs/java"));
	CHECK(!source("/run/bawn-ca")->idmap);
	done();
	as_root();
	s.ca_dir = mem_strdup("/ca/public");
	CHECK_INT(build(), 0);
	CHECK(!find(OP_ATTACH, "/run/bawn-ca"));
	done();
}

int main(void)
{
	RUN(sides_come_in_order);
	RUN(a_user_leaves_nothing_to_the_host_side);
	RUN(what_is_early_needs_no_mount);
	RUN(inotify_is_capped_in_the_box_s_own_namespace_only);
	RUN(every_slot_is_made_once_and_before_its_use);
	RUN(mounts_go_from_the_outside_in);
	RUN(the_host_tree_is_read_only_and_the_directory_is_not);
	RUN(a_user_clones_trees_whole_and_maps_no_ids);
	RUN(a_tree_may_do_without_a_map_if_ids_are_preferred);
	RUN(root_clones_the_mounts_of_the_host_but_not_the_kernel_s);
	RUN(what_is_writable_never_honours_set_id_or_devices);
	RUN(the_store_is_the_disk_cap);
	RUN(without_the_disk_wall_the_store_has_no_cap);
	RUN(a_disk_cap_that_was_asked_for_holds_files_on_the_host_too);
	RUN(the_base_root_is_an_overlay_of_the_template);
	RUN(root_in_the_base_may_install_packages);
	RUN(sudo_needs_set_id_files_in_the_box_s_own_layers);
	RUN(copy_on_write_puts_an_overlay_over_a_read_only_tree);
	RUN(copy_on_write_in_the_base_lands_in_workspace);
	RUN(hidden_things_are_masked_and_seen_again_where_asked);
	RUN(the_kernel_s_secrets_in_proc_are_masked);
	RUN(dev_is_made_by_root_and_borrowed_by_a_user);
	RUN(root_gets_a_range_of_its_own);
	RUN(a_user_is_mapped_to_itself_alone);
	RUN(subordinate_ids_surround_the_caller);
	RUN(without_the_user_wall_there_is_no_map);
	RUN(every_namespace_is_new);
	RUN(on_v1_the_cgroup_namespace_waits_for_the_leaf);
	RUN(each_namespace_wall_can_be_left_out);
	RUN(a_wall_that_is_off_has_no_operation);
	RUN(without_the_mount_wall_nothing_is_mounted);
	RUN(proc_dev_and_sys_that_are_off_are_the_host_s);
	RUN(a_host_name_of_its_own_is_in_the_boxs_hosts);
	RUN(a_plan_serves_another_range_of_ids);
	RUN(home_is_given_to_user_where_ids_are_subordinate);
	RUN(certificates_are_mounted_over_the_host_s_and_linked_in_the_base);
	return tap_done();
}
