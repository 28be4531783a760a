/* SPDX-License-Identifier: Apache-2.0 */

/* Machines we do not have, as structs: what is said about each, and the exact fix. */
#include "core/diagnosis.h"

#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "tap.h"

#include <errno.h>

/* A machine where everything works, for an ordinary user with a range. */
static struct probe *good_machine(void)
{
	struct probe *p = MEM_NEW(struct probe);

	for (size_t i = 0; i < PROBE_COUNT; i++)
		p->tries[i].code = 0;
	p->tries[PROBE_USERNS_ORDINARY].code = PROBE_UNTRIED;
	p->tries[PROBE_IDMAP_ROOT].code = PROBE_UNTRIED;
	p->tries[PROBE_IDMAP_USR].code = PROBE_UNTRIED;
	p->uid = p->gid = 1000;
	p->landlock_abi = 7;
	p->subuid = p->subgid = 100000;
	p->subid_free = 165536;
	p->cgroup.usable = CGROUP_V2;
	p->cgroup.controllers = p->cgroup.v2_controllers =
		CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS | CGROUP_IO;
	(void)snprintf(p->cgroup.v2_mount, sizeof(p->cgroup.v2_mount), "/sys/fs/cgroup");
	(void)snprintf(p->user, sizeof(p->user), "ann");
	(void)snprintf(p->arch, sizeof(p->arch), "x86_64");
	(void)snprintf(p->newuidmap, sizeof(p->newuidmap), "/usr/bin/newuidmap");
	(void)snprintf(p->systemd_run, sizeof(p->systemd_run), "/usr/bin/systemd-run");
	(void)snprintf(p->sysctls[PROBE_SYSCTL_MAX_USERNS], 8, "15000");
	p->has_kvm = true;
	return p;
}

static void set_sysctl(struct probe *p, enum probe_sysctl s, const char *value)
{
	(void)snprintf(p->sysctls[s], sizeof(p->sysctls[s]), "%s", value);
}

static void refuse(struct probe *p, enum probe_item item, int code, const char *step)
{
	p->tries[item].code = code;
	(void)snprintf(p->tries[item].step, sizeof(p->tries[item].step), "%s", step);
}

/* Everything that needs a user namespace fails as the namespace itself. */
static void refuse_userns(struct probe *p, int code, const char *step)
{
	for (int i = PROBE_USERNS; i <= PROBE_OVERLAY_DETACHED; i++)
		if (i != PROBE_USERNS_ORDINARY)
			refuse(p, (enum probe_item)i, code, step);
	refuse(p, PROBE_NEWUIDMAP, code, step);
	refuse(p, PROBE_NFT, code, step);
}

static const struct diagnosis_fact *fact(const struct diagnosis *d, const char *name)
{
	static const struct diagnosis_fact none = {.name = "", .value = "no such fact"};

	for (size_t i = 0; i < d->facts_n; i++)
		if (strcmp(d->facts[i].name, name) == 0)
			return &d->facts[i];
	return &none;
}

#define MACHINE                                                                                    \
	AUTO_FREE struct probe *p = good_machine();                                                \
	AUTO_FREE struct diagnosis *d = MEM_NEW(struct diagnosis)

static void a_good_machine_has_every_wall(void)
{
	MACHINE;

	diagnosis_make(p, d);
	CHECK(d->is_ok);
	for (size_t i = 0; i < WALL_COUNT; i++) {
		CHECK_INT(d->walls[i].status, DIAGNOSIS_OK);
		CHECK(d->walls[i].is_available);
		CHECK_STR(d->walls[i].fix, "");
		CHECK(d->walls[i].mechanism[0] != '\0');
	}
	for (size_t i = 0; i < d->facts_n; i++)
		CHECK(d->facts[i].status == DIAGNOSIS_OK || d->facts[i].status == DIAGNOSIS_INFO);
	CHECK_STR(d->tiers[0].name, "process");
	CHECK_INT(d->tiers[0].status, DIAGNOSIS_OK);
	CHECK(!d->tiers[1].is_available);
	CHECK(!d->tiers[2].is_available);
	CHECK_STR(d->tiers[2].fix, "sudo apt-get install qemu-system-x86");
}

static void ubuntu_restriction_names_its_switch(void)
{
	MACHINE;

	set_sysctl(p, PROBE_SYSCTL_APPARMOR_USERNS, "1");
	set_sysctl(p, PROBE_SYSCTL_USERNS_CLONE, "1");
	refuse_userns(p, EPERM, "use a capability inside");
	diagnosis_make(p, d);
	CHECK(!d->is_ok);
	CHECK_STR(d->walls[WALL_USER].fix,
		"sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
	CHECK_STR(d->walls[WALL_PROC].fix, d->walls[WALL_USER].fix);
	CHECK_STR(d->walls[WALL_IDS].fix, d->walls[WALL_USER].fix);
	CHECK_STR(d->tiers[0].fix, d->walls[WALL_USER].fix);
	CHECK(strstr(d->tiers[0].why, "user, ids, mount") != NULL);
	CHECK_INT(fact(d, "apparmor-restrict-userns")->status, DIAGNOSIS_MISSING);
	CHECK_INT(fact(d, "unprivileged-userns-clone")->status, DIAGNOSIS_OK);
}

static void ubuntu_restriction_does_not_bind_a_freed_program(void)
{
	MACHINE;

	set_sysctl(p, PROBE_SYSCTL_APPARMOR_USERNS, "1");
	diagnosis_make(p, d);
	CHECK(d->is_ok);
	CHECK_INT(fact(d, "apparmor-restrict-userns")->status, DIAGNOSIS_WEAK);
}

static void debian_switch_is_named(void)
{
	MACHINE;

	set_sysctl(p, PROBE_SYSCTL_USERNS_CLONE, "0");
	refuse_userns(p, EPERM, "clone");
	diagnosis_make(p, d);
	CHECK(!d->is_ok);
	CHECK_STR(d->walls[WALL_USER].fix, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
}

static void zero_namespaces_are_named_and_root_needs_no_sudo(void)
{
	MACHINE;

	p->uid = 0;
	p->is_root = true;
	p->tries[PROBE_IDMAP_ROOT].code = p->tries[PROBE_IDMAP_USR].code = 0;
	set_sysctl(p, PROBE_SYSCTL_MAX_USERNS, "0");
	refuse_userns(p, ENOSPC, "clone");
	diagnosis_make(p, d);
	CHECK(!d->is_ok);
	CHECK_STR(d->walls[WALL_USER].fix, "sysctl -w user.max_user_namespaces=15000");
	CHECK_STR(d->walls[WALL_USER].mechanism, "ENOSPC: clone");
}

static void docker_is_told_its_options(void)
{
	MACHINE;

	(void)snprintf(p->container, sizeof(p->container), "docker");
	(void)snprintf(p->proc_cover, sizeof(p->proc_cover), "/proc/kcore");
	refuse(p, PROBE_PROC, EPERM, "mount 'proc'");
	diagnosis_make(p, d);
	CHECK(!d->is_ok);
	CHECK(d->walls[WALL_USER].is_available);
	CHECK(!d->walls[WALL_PROC].is_available);
	CHECK(strstr(d->walls[WALL_PROC].fix, "--security-opt systempaths=unconfined") != NULL);
	CHECK_STR(d->tiers[0].why,
		"walls that cannot be built: proc (to do without one: --wall NAME=preferred)");
}

static void kubernetes_is_told_its_pod_fields(void)
{
	MACHINE;

	(void)snprintf(p->container, sizeof(p->container), "kubernetes");
	refuse(p, PROBE_PROC, EPERM, "mount 'proc'");
	diagnosis_make(p, d);
	CHECK(strstr(d->walls[WALL_PROC].fix, "\"procMount\":\"Unmasked\"") != NULL);
	/* Whole, or it cannot be pasted. */
	CHECK(strcmp(strrchr(d->walls[WALL_PROC].fix, '}'), "}'") == 0);
}

static void a_covered_proc_names_the_cover(void)
{
	MACHINE;

	(void)snprintf(p->proc_cover, sizeof(p->proc_cover), "/proc/acpi");
	refuse(p, PROBE_PROC, EPERM, "mount 'proc'");
	diagnosis_make(p, d);
	CHECK_STR(d->walls[WALL_PROC].fix, "sudo umount '/proc/acpi'");
}

static void landlock_off_at_boot_gets_a_boot_parameter(void)
{
	MACHINE;

	p->landlock_abi = 0;
	p->landlock_code = EOPNOTSUPP;
	diagnosis_make(p, d);
	CHECK(!d->is_ok);
	CHECK(strstr(d->walls[WALL_LANDLOCK].fix, "lsm=landlock,") != NULL);
	CHECK(strstr(d->walls[WALL_LANDLOCK].fix, "sudo update-grub") != NULL);
}

static void an_old_landlock_is_weak_but_a_wall(void)
{
	MACHINE;

	for (int abi = 1; abi <= 5; abi++) {
		p->landlock_abi = abi;
		diagnosis_make(p, d);
		CHECK(d->is_ok);
		CHECK_INT(d->walls[WALL_LANDLOCK].status, DIAGNOSIS_WEAK);
		CHECK(strstr(fact(d, "landlock")->detail, "does not cover ") != NULL);
		CHECK(strstr(d->walls[WALL_LANDLOCK].fix, "linux-image-amd64") != NULL);
	}
}

static void without_a_range_the_single_id_stands_in(void)
{
	MACHINE;

	p->subuid = p->subgid = 0;
	refuse(p, PROBE_NEWUIDMAP, PROBE_UNTRIED, "");
	diagnosis_make(p, d);
	CHECK(d->is_ok);
	CHECK_INT(d->walls[WALL_IDS].status, DIAGNOSIS_WEAK);
	CHECK_STR(d->walls[WALL_IDS].fix,
		"sudo usermod --add-subuids 165536-231071 --add-subgids 165536-231071 ann");
	p->user[0] = '\0';
	diagnosis_make(p, d);
	CHECK_STR(d->walls[WALL_IDS].fix,
		"echo 1000:165536:65536 | sudo tee -a /etc/subuid /etc/subgid");
	p->newuidmap[0] = '\0';
	diagnosis_make(p, d);
	CHECK_STR(d->walls[WALL_IDS].fix, "sudo apt-get install uidmap");
}

static void v1_is_delegated_by_directories(void)
{
	MACHINE;

	p->cgroup.usable = CGROUP_NONE;
	p->cgroup.controllers = p->cgroup.v2_controllers = 0;
	(void)snprintf(p->cgroup.v1_mount[0], 32, "/cg/memory");
	(void)snprintf(p->cgroup.v1_mount[3], 32, "/cg/blkio");
	diagnosis_make(p, d);
	CHECK(d->is_ok); /* nobody asked for a limit */
	CHECK_STR(d->walls[WALL_MEMORY].fix, "sudo mkdir -p /cg/memory/bawn-1000 && sudo chown -R "
					     "1000:1000 /cg/memory/bawn-1000");
	CHECK_STR(d->walls[WALL_IO].fix, "sudo mkdir -p /cg/blkio/bawn-1000 && sudo chown -R "
					 "1000:1000 /cg/blkio/bawn-1000");
	CHECK_INT(d->tiers[0].status, DIAGNOSIS_WEAK);
	CHECK_STR(fact(d, "cgroup-version")->value, "hybrid (controllers on v1)");
}

static void v2_is_delegated_by_systemd_where_there_is_one(void)
{
	MACHINE;

	p->cgroup.usable = CGROUP_NONE;
	p->cgroup.controllers = 0;
	diagnosis_make(p, d);
	CHECK(text_starts(d->walls[WALL_MEMORY].fix, "systemd-run --user --scope -p Delegate=yes"));
	p->cgroup.usable = CGROUP_V2;
	p->cgroup.controllers = CGROUP_MEMORY | CGROUP_PIDS;
	diagnosis_make(p, d);
	CHECK_STR(d->walls[WALL_MEMORY].fix, "");
	CHECK(strstr(d->walls[WALL_CPU].fix, "Delegate=cpu cpuset io memory pids") != NULL);
	p->systemd_run[0] = '\0';
	diagnosis_make(p, d);
	CHECK(strstr(d->walls[WALL_CPU].fix, "chown -R 1000:1000 bawn-1000") != NULL);
	p->cgroup.v2_mount[0] = '\0';
	p->cgroup.controllers = p->cgroup.v2_controllers = 0;
	diagnosis_make(p, d);
	CHECK_STR(d->walls[WALL_CPU].fix, "sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup");
}

static void lost_extras_weaken_walls_but_keep_them(void)
{
	MACHINE;

	refuse(p, PROBE_OVERLAY, ENODEV, "open file system type 'overlay'");
	refuse(p, PROBE_SECCOMP_NOTIFY, EBUSY, "install a filter");
	p->cgroup.swap = PROBE_SWAP_UNACCOUNTED;
	diagnosis_make(p, d);
	CHECK(d->is_ok);
	CHECK_INT(d->walls[WALL_ROOT].status, DIAGNOSIS_WEAK);
	CHECK_STR(d->walls[WALL_ROOT].fix, "sudo modprobe overlay");
	CHECK_INT(d->walls[WALL_SECCOMP].status, DIAGNOSIS_WEAK);
	CHECK_INT(d->walls[WALL_MEMORY].status, DIAGNOSIS_WEAK);
}

static void kvm_and_a_monitor_make_a_microvm(void)
{
	MACHINE;

	(void)snprintf(p->vmm, sizeof(p->vmm), "/usr/bin/firecracker");
	diagnosis_make(p, d);
	CHECK(d->tiers[2].is_available);
	refuse(p, PROBE_KVM, EACCES, "open '/dev/kvm'");
	diagnosis_make(p, d);
	CHECK(!d->tiers[2].is_available);
	CHECK_STR(d->tiers[2].fix, "sudo setfacl -m u:1000:rw /dev/kvm");
	p->has_kvm = false;
	refuse(p, PROBE_KVM, PROBE_UNTRIED, "");
	diagnosis_make(p, d);
	CHECK(strstr(d->tiers[2].fix, "modprobe kvm") != NULL);
}

/* Each try lost alone, with each common errno: texts fit, and what is missing has a reason. */
static void every_single_loss_is_explained(void)
{
	static const int codes[] = {EPERM, ENOSYS, EINVAL, ENOSPC, ENODEV, ETIMEDOUT, EIO, 4095};
	MACHINE;

	for (int i = 0; i < PROBE_COUNT; i++)
		for (size_t c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
			int before = p->tries[i].code;
			bool ok = true;

			refuse(p, (enum probe_item)i, codes[c], "try");
			diagnosis_make(p, d);
			for (size_t w = 0; w < WALL_COUNT; w++) {
				ok = ok && (d->walls[w].is_available || !d->walls[w].is_required);
				CHECK(d->walls[w].status == DIAGNOSIS_OK ||
					d->walls[w].mechanism[0] != '\0');
				CHECK(d->walls[w].is_available || d->walls[w].fix[0] != '\0');
			}
			CHECK_INT(d->is_ok, ok);
			refuse(p, (enum probe_item)i, before, "");
		}
}

int main(void)
{
	RUN(a_good_machine_has_every_wall);
	RUN(ubuntu_restriction_names_its_switch);
	RUN(ubuntu_restriction_does_not_bind_a_freed_program);
	RUN(debian_switch_is_named);
	RUN(zero_namespaces_are_named_and_root_needs_no_sudo);
	RUN(docker_is_told_its_options);
	RUN(kubernetes_is_told_its_pod_fields);
	RUN(a_covered_proc_names_the_cover);
	RUN(landlock_off_at_boot_gets_a_boot_parameter);
	RUN(an_old_landlock_is_weak_but_a_wall);
	RUN(without_a_range_the_single_id_stands_in);
	RUN(v1_is_delegated_by_directories);
	RUN(v2_is_delegated_by_systemd_where_there_is_one);
	RUN(lost_extras_weaken_walls_but_keep_them);
	RUN(kvm_and_a_monitor_make_a_microvm);
	RUN(every_single_loss_is_explained);
	return tap_done();
}
