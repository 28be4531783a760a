/* SPDX-License-Identifier: Apache-2.0 */

/* What the facts mean for each wall and each tier. */
#include "core/diagnosis.h"

#include "core/diagnosis_impl.h"
#include "core/spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *diagnosis_status_name(enum diagnosis_status s)
{
	static const char *const names[] = {
		[DIAGNOSIS_OK] = "ok",
		[DIAGNOSIS_WEAK] = "weak",
		[DIAGNOSIS_MISSING] = "missing",
		[DIAGNOSIS_INFO] = "info",
	};

	return names[s];
}

bool diagnosis_works(const struct probe *p, enum probe_item item)
{
	return p->tries[item].code == 0;
}

void diagnosis_say(const struct probe *p, enum probe_item item, char *out, size_t size)
{
	const struct probe_try *t = &p->tries[item];
	const char *name;

	if (t->code == 0) {
		(void)snprintf(out, size, "works");
	} else if (t->code == PROBE_UNTRIED) {
		(void)snprintf(out, size, "not tried");
	} else {
		name = strerrorname_np(t->code);
		(void)snprintf(out, size, "%s: %s", name ? name : "refused", t->step);
	}
}

__attribute__((format(printf, 4, 5))) static void judge(
	struct diagnosis *d, enum wall w, enum diagnosis_status status, const char *fmt, ...)
{
	va_list ap;

	d->walls[w].status = status;
	va_start(ap, fmt);
	(void)vsnprintf(d->walls[w].mechanism, sizeof(d->walls[w].mechanism), fmt, ap);
	va_end(ap);
}

/* Walls that stand on tries that must all work; the first that does not is the reason. */
static void judge_tries(const struct probe *p, struct diagnosis *d)
{
	static const struct {
		enum wall wall;
		const char *mechanism;
		enum probe_item needs[6]; /* PROBE_COUNT ends it */
	} walls[] = {
		{WALL_USER, "user namespace", {PROBE_USERNS, PROBE_COUNT}},
		{WALL_MOUNT, "mount namespace", {PROBE_NS_MOUNT, PROBE_COUNT}},
		{WALL_ROOT, "pivot_root into a read-only copy of the tree, or the template",
			{PROBE_NS_MOUNT, PROBE_TMPFS, PROBE_BIND, PROBE_PIVOT_ROOT, PROBE_COUNT}},
		{WALL_MASKS, "empty or read-only mounts over the names",
			{PROBE_NS_MOUNT, PROBE_TMPFS, PROBE_BIND, PROBE_COUNT}},
		{WALL_PROC, "fresh proc in a pid namespace", {PROBE_PROC, PROBE_COUNT}},
		{WALL_DEV, "tmpfs with few nodes, own devpts",
			{PROBE_TMPFS, PROBE_DEVPTS, PROBE_COUNT}},
		{WALL_SYS, "absent", {PROBE_NS_MOUNT, PROBE_PIVOT_ROOT, PROBE_COUNT}},
		{WALL_PID, "pid namespace", {PROBE_NS_PID, PROBE_COUNT}},
		{WALL_NET, "network namespace with lo", {PROBE_NS_NET, PROBE_COUNT}},
		{WALL_IPC, "ipc namespace", {PROBE_NS_IPC, PROBE_COUNT}},
		{WALL_UTS, "uts namespace", {PROBE_NS_UTS, PROBE_COUNT}},
		{WALL_CGROUPNS, "cgroup namespace", {PROBE_NS_CGROUP, PROBE_COUNT}},
		{WALL_CAPS, "bounding set", {PROBE_USERNS, PROBE_COUNT}},
		{WALL_NNP, "no_new_privs", {PROBE_NNP, PROBE_COUNT}},
		{WALL_SECCOMP, "filter with a listener", {PROBE_SECCOMP, PROBE_COUNT}},
		{WALL_DISK, "tmpfs with a size", {PROBE_TMPFS, PROBE_COUNT}},
		{WALL_TTY, "own terminal on an own devpts", {PROBE_DEVPTS, PROBE_COUNT}},
	};
	char reason[100];

	for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++) {
		struct diagnosis_wall *w = &d->walls[walls[i].wall];

		judge(d, walls[i].wall, DIAGNOSIS_OK, "%s", walls[i].mechanism);
		for (const enum probe_item *need = walls[i].needs; *need != PROBE_COUNT; need++) {
			if (diagnosis_works(p, *need))
				continue;
			diagnosis_say(p, *need, reason, sizeof(reason));
			judge(d, walls[i].wall, DIAGNOSIS_MISSING, "%s", reason);
			fix_try(p, *need, w->fix);
			break;
		}
	}
}

/* A wall that stands, but not as well as it could. */
static void weaken(const struct probe *p, struct diagnosis *d, enum wall w, enum probe_item item,
	const char *mechanism)
{
	if (d->walls[w].status != DIAGNOSIS_OK || diagnosis_works(p, item))
		return;
	judge(d, w, DIAGNOSIS_WEAK, "%s", mechanism);
	fix_try(p, item, d->walls[w].fix);
}

static void judge_ids(const struct probe *p, struct diagnosis *d)
{
	struct diagnosis_wall *w = &d->walls[WALL_IDS];
	char reason[100];

	if (!diagnosis_works(p, PROBE_USERNS)) {
		*w = d->walls[WALL_USER];
	} else if (p->is_root) {
		enum probe_item bad =
			diagnosis_works(p, PROBE_IDMAP_ROOT) ? PROBE_IDMAP_USR : PROBE_IDMAP_ROOT;

		judge(d, WALL_IDS, DIAGNOSIS_OK, "own range of %u ids, layers idmapped",
			PROBE_RANGE);
		if (diagnosis_works(p, bad))
			return;
		diagnosis_say(p, bad, reason, sizeof(reason));
		judge(d, WALL_IDS, DIAGNOSIS_MISSING, "%s", reason);
		fix_ids(p, w->fix);
	} else if (diagnosis_works(p, PROBE_NEWUIDMAP)) {
		judge(d, WALL_IDS, DIAGNOSIS_OK,
			"the caller's id; with --root base %u more, by newuidmap", PROBE_RANGE - 1);
	} else {
		judge(d, WALL_IDS, DIAGNOSIS_WEAK, "the caller's single id, as root inside");
		fix_ids(p, w->fix);
	}
}

static void judge_landlock(const struct probe *p, struct diagnosis *d)
{
	struct diagnosis_wall *w = &d->walls[WALL_LANDLOCK];

	if (p->landlock_abi >= 6) {
		judge(d, WALL_LANDLOCK, DIAGNOSIS_OK, "abi %d: files, TCP, scopes",
			p->landlock_abi);
		return;
	}
	if (p->landlock_abi > 0)
		judge(d, WALL_LANDLOCK, DIAGNOSIS_WEAK, "abi %d: files%s", p->landlock_abi,
			p->landlock_abi >= 4 ? ", TCP; no scopes" : "; no TCP, no scopes");
	else
		judge(d, WALL_LANDLOCK, DIAGNOSIS_MISSING, "%s",
			p->landlock_code == EOPNOTSUPP ? "switched off at boot"
						       : "not in this kernel");
	fix_landlock(p, w->fix);
}

static void judge_controllers(const struct probe *p, struct diagnosis *d)
{
	static const struct {
		enum wall wall;
		enum cgroup_controller bit;
		const char *otherwise;
	} walls[] = {
		{WALL_MEMORY, CGROUP_MEMORY,
			"no cgroup to write to: capped per process, sum polled"},
		{WALL_CPU, CGROUP_CPU, "no cgroup to write to: lower priority only"},
		{WALL_PIDS, CGROUP_PIDS, "no cgroup to write to: counted per id (RLIMIT_NPROC)"},
		{WALL_IO, CGROUP_IO, "no cgroup to write to"},
	};

	for (size_t i = 0; i < sizeof(walls) / sizeof(walls[0]); i++) {
		if (p->cgroup.controllers & walls[i].bit) {
			judge(d, walls[i].wall, DIAGNOSIS_OK, "cgroup %s leaf",
				p->cgroup.usable == CGROUP_V2 ? "v2" : "v1");
			continue;
		}
		judge(d, walls[i].wall, DIAGNOSIS_MISSING, "%s", walls[i].otherwise);
		fix_controller(p, walls[i].bit, d->walls[walls[i].wall].fix);
	}
	/* Tasks are counted per user namespace: with one id that is the box's own count. */
	if (d->walls[WALL_PIDS].status == DIAGNOSIS_MISSING && !p->is_root)
		d->walls[WALL_PIDS].status = DIAGNOSIS_WEAK;
	if (d->walls[WALL_MEMORY].status == DIAGNOSIS_OK &&
		p->cgroup.swap == PROBE_SWAP_UNACCOUNTED)
		judge(d, WALL_MEMORY, DIAGNOSIS_WEAK, "cgroup leaf; swap is not counted");
}

void diagnosis_walls(const struct probe *p, struct diagnosis *d)
{
	struct spec spec;

	spec_init(&spec);
	judge_tries(p, d);
	weaken(p, d, WALL_ROOT, PROBE_OVERLAY,
		"read-only view of the host; no --cow, no --root base");
	weaken(p, d, WALL_SECCOMP, PROBE_SECCOMP_NOTIFY, "filter; refused calls are not reported");
	judge_ids(p, d);
	judge_landlock(p, d);
	judge_controllers(p, d);
	judge(d, WALL_RLIMITS, DIAGNOSIS_OK, "setrlimit");
	judge(d, WALL_FDS, DIAGNOSIS_OK, "%s",
		diagnosis_works(p, PROBE_CLOSE_RANGE) ? "close_range" : "closed one by one");
	judge(d, WALL_TIME, DIAGNOSIS_OK, "a clock outside; the whole tree is killed");
	for (size_t i = 0; i < WALL_COUNT; i++) {
		d->walls[i].is_required = spec.walls[i] == WALL_LEVEL_REQUIRED;
		d->walls[i].is_available = d->walls[i].status != DIAGNOSIS_MISSING;
	}
	spec_done(&spec);
}

static void judge_process(struct diagnosis *d)
{
	struct diagnosis_tier *t = &d->tiers[0];
	size_t missing = 0, soft = 0, used = 0;
	char names[160] = "";

	for (size_t i = 0; i < WALL_COUNT; i++) {
		int n;

		if (d->walls[i].is_available)
			continue;
		if (!d->walls[i].is_required) {
			soft++;
			continue;
		}
		n = snprintf(names + used, sizeof(names) - used, "%s%s", missing ? ", " : "",
			wall_name((enum wall)i));
		if (n > 0 && (size_t)n < sizeof(names) - used)
			used += (size_t)n;
		if (!missing++)
			memcpy(t->fix, d->walls[i].fix, sizeof(t->fix));
	}
	t->name = "process";
	t->is_available = missing == 0;
	t->status = missing ? DIAGNOSIS_MISSING : soft ? DIAGNOSIS_WEAK : DIAGNOSIS_OK;
	if (missing)
		(void)snprintf(t->why, sizeof(t->why),
			"walls that cannot be built: %s (to do without one: --wall NAME=preferred)",
			names);
	else if (soft)
		(void)snprintf(t->why, sizeof(t->why),
			"every required wall can be built; some limits cannot be enforced");
	else
		(void)snprintf(t->why, sizeof(t->why), "every wall can be built");
	d->is_ok = t->is_available;
}

void diagnosis_tiers(const struct probe *p, struct diagnosis *d)
{
	struct diagnosis_tier *gvisor = &d->tiers[1], *microvm = &d->tiers[2];
	const char *sudo = p->uid == 0 ? "" : "sudo ";
	bool kvm = diagnosis_works(p, PROBE_KVM);

	judge_process(d);
	gvisor->name = "gvisor";
	gvisor->is_available = p->runsc[0] != '\0';
	(void)snprintf(gvisor->why, sizeof(gvisor->why), "%s; this release builds the process tier",
		p->runsc[0] ? "runsc is installed" : "runsc is not installed");
	if (!gvisor->is_available)
		(void)snprintf(gvisor->fix, sizeof(gvisor->fix),
			"%sapt-get install runsc (from gVisor's own apt repository: "
			"https://gvisor.dev/docs/user_guide/install/)",
			sudo);
	microvm->name = "microvm";
	microvm->is_available = kvm && p->vmm[0];
	(void)snprintf(microvm->why, sizeof(microvm->why),
		"%s, %s; this release builds the process tier",
		kvm          ? "/dev/kvm works"
		: p->has_kvm ? "/dev/kvm cannot be used"
			     : "no /dev/kvm",
		p->vmm[0] ? p->vmm : "no virtual machine monitor");
	if (!kvm)
		fix_try(p, PROBE_KVM, microvm->fix);
	else if (!p->vmm[0])
		(void)snprintf(microvm->fix, sizeof(microvm->fix), "%sapt-get install %s", sudo,
			strcmp(p->arch, "aarch64") == 0 ? "qemu-system-arm" : "qemu-system-x86");
	gvisor->status = gvisor->is_available ? DIAGNOSIS_OK : DIAGNOSIS_MISSING;
	microvm->status = microvm->is_available ? DIAGNOSIS_OK : DIAGNOSIS_MISSING;
}

void diagnosis_make(const struct probe *p, struct diagnosis *ret)
{
	memset(ret, 0, sizeof(*ret));
	diagnosis_facts(p, ret);
	diagnosis_walls(p, ret);
	diagnosis_tiers(p, ret);
}
