/* SPDX-License-Identifier: Apache-2.0 */

/* One line per fact: what was measured, whether that is good, what to do if not. */
#include "base/text.h"
#include "core/diagnosis_impl.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char kernel[] = "kernel", spaces[] = "namespaces", files[] = "file systems",
		  ids[] = "ids", limits[] = "limits", around[] = "surroundings", other[] = "other";

/* A new fact with its value; the caller adds detail and fix. */
__attribute__((format(printf, 5, 6))) static struct diagnosis_fact *add(struct diagnosis *d,
	const char *group, const char *name, enum diagnosis_status status, const char *fmt, ...)
{
	struct diagnosis_fact *f;
	va_list ap;

	assert(d->facts_n < DIAGNOSIS_FACTS_MAX);
	f = &d->facts[d->facts_n++];
	f->group = group;
	f->name = name;
	f->status = status;
	va_start(ap, fmt);
	(void)vsnprintf(f->value, sizeof(f->value), fmt, ap);
	va_end(ap);
	return f;
}

__attribute__((format(printf, 2, 3))) static void detail(
	struct diagnosis_fact *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
}

struct try_fact {
	enum probe_item item;
	const char *name;
	enum diagnosis_status otherwise; /* status when it does not work */
	const char *meaning;             /* detail when it does not work */
};

static void add_tries(const struct probe *p, struct diagnosis *d, const char *group,
	const struct try_fact *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool works = diagnosis_works(p, t[i].item);
		struct diagnosis_fact *f;

		if (p->tries[t[i].item].code == PROBE_UNTRIED)
			continue; /* only root's, or only users' */
		f = add(d, group, t[i].name, works ? DIAGNOSIS_OK : t[i].otherwise, "works");
		if (works)
			continue;
		diagnosis_say(p, t[i].item, f->value, sizeof(f->value));
		detail(f, "%s", t[i].meaning);
		if (f->status != DIAGNOSIS_INFO)
			fix_try(p, t[i].item, f->fix);
	}
}
#define ADD_TRIES(p, d, group, table)                                                              \
	add_tries(p, d, group, table, sizeof(table) / sizeof((table)[0]))

static void add_landlock(const struct probe *p, struct diagnosis *d)
{
	static const char *const lacks[] = {"",
		"moves between directories, truncation, TCP, device ioctls, scopes",
		"truncation, TCP, device ioctls, scopes", "TCP, device ioctls, scopes",
		"device ioctls, scopes", "scopes of signals and abstract sockets"};
	struct diagnosis_fact *f;

	if (p->landlock_abi >= 6) {
		(void)add(d, kernel, "landlock", DIAGNOSIS_OK, "abi %d", p->landlock_abi);
		return;
	}
	if (p->landlock_abi > 0) {
		f = add(d, kernel, "landlock", DIAGNOSIS_WEAK, "abi %d", p->landlock_abi);
		detail(f, "does not cover %s", lacks[p->landlock_abi]);
	} else if (p->landlock_code == EOPNOTSUPP) {
		f = add(d, kernel, "landlock", DIAGNOSIS_MISSING, "switched off");
		detail(f, "the kernel has it, but it is not in the boot parameter lsm=");
	} else {
		f = add(d, kernel, "landlock", DIAGNOSIS_MISSING, "absent (%s)",
			strerrorname_np(p->landlock_code));
		detail(f, "the kernel lacks it (Linux 5.13), or a filter around us hides it");
	}
	fix_landlock(p, f->fix);
}

static void add_kernel(const struct probe *p, struct diagnosis *d)
{
	static const struct try_fact tries[] = {
		{PROBE_SECCOMP, "seccomp", DIAGNOSIS_MISSING, "no system call can be refused"},
		{PROBE_SECCOMP_NOTIFY, "seccomp-notify", DIAGNOSIS_WEAK,
			"refused calls are not reported as violations"},
		{PROBE_NNP, "no-new-privs", DIAGNOSIS_MISSING, "setuid programs keep their power"},
		{PROBE_CLONE3, "clone3", DIAGNOSIS_WEAK,
			"the older clone() is used; on cgroup v2 a child joins after it started"},
		{PROBE_OPENAT2, "openat2", DIAGNOSIS_WEAK,
			"paths in a new root are walked part by part"},
		{PROBE_PIDFD, "pidfd", DIAGNOSIS_WEAK, "processes are held by number"},
		{PROBE_CLOSE_RANGE, "close_range", DIAGNOSIS_WEAK,
			"descriptors are closed one by one"},
		{PROBE_MOUNT_API, "mount-api", DIAGNOSIS_MISSING, "no root can be built"},
		{PROBE_MOUNT_SETATTR, "mount_setattr", DIAGNOSIS_MISSING,
			"mounts cannot be made read-only as a tree"},
		{PROBE_MEMFD, "memfd-exec", DIAGNOSIS_WEAK,
			"programs cannot be started from sealed memory; 'bawn attack' needs it"},
	};

	(void)add(d, kernel, "version", DIAGNOSIS_INFO, "Linux %s %s", p->kernel, p->arch);
	if (p->lsms[0])
		(void)add(d, kernel, "security-modules", DIAGNOSIS_INFO, "%s", p->lsms);
	add_landlock(p, d);
	ADD_TRIES(p, d, kernel, tries);
}

/* Restrictions of users' namespaces: they bind the caller, or only others if we are root. */
static void add_userns_rule(const struct probe *p, struct diagnosis *d, enum probe_sysctl s,
	const char *name, const char *good, const char *meaning)
{
	const char *value = p->sysctls[s];
	bool is_good =
		s == PROBE_SYSCTL_MAX_USERNS ? strcmp(value, "0") != 0 : strcmp(value, good) == 0;
	struct diagnosis_fact *f;

	if (!value[0])
		return;
	f = add(d, spaces, name, is_good ? DIAGNOSIS_OK : DIAGNOSIS_MISSING, "%s = %s",
		probe_sysctl_name(s), value);
	if (is_good)
		return;
	/* root is bound by the count alone; and a profile of its own may free a program. */
	if (diagnosis_works(p, PROBE_USERNS))
		f->status = DIAGNOSIS_WEAK;
	detail(f, "%s%s", meaning, p->is_root ? " (not for root)" : "");
	fix_sysctl(p, s, good, f->fix);
}

static void add_namespaces(const struct probe *p, struct diagnosis *d)
{
	static const struct try_fact tries[] = {
		{PROBE_USERNS, "ns-user", DIAGNOSIS_MISSING, "no sandbox of the process tier"},
		{PROBE_USERNS_ORDINARY, "ns-user-as-nobody", DIAGNOSIS_WEAK,
			"bawn works for root here, and not for other users"},
		{PROBE_NS_MOUNT, "ns-mount", DIAGNOSIS_MISSING, "no file system of its own"},
		{PROBE_NS_PID, "ns-pid", DIAGNOSIS_MISSING, "processes outside are visible"},
		{PROBE_NS_NET, "ns-net", DIAGNOSIS_MISSING, "the network is open"},
		{PROBE_NS_IPC, "ns-ipc", DIAGNOSIS_MISSING, "shared memory outside is in reach"},
		{PROBE_NS_UTS, "ns-uts", DIAGNOSIS_MISSING, "no host name of its own"},
		{PROBE_NS_CGROUP, "ns-cgroup", DIAGNOSIS_MISSING, "the cgroup tree is visible"},
		{PROBE_NS_TIME, "ns-time", DIAGNOSIS_INFO, "not used yet"},
	};

	ADD_TRIES(p, d, spaces, tries);
	add_userns_rule(p, d, PROBE_SYSCTL_MAX_USERNS, "max-user-namespaces", "15000",
		"nobody here may create user namespaces");
	add_userns_rule(p, d, PROBE_SYSCTL_USERNS_CLONE, "unprivileged-userns-clone", "1",
		"Debian's switch: users may not create user namespaces");
	add_userns_rule(p, d, PROBE_SYSCTL_APPARMOR_USERNS, "apparmor-restrict-userns", "0",
		"Ubuntu's switch: users' namespaces get no capabilities");
}

static void add_volume(const struct probe *p, struct diagnosis *d)
{
	bool is_btrfs = strcmp(p->state_fs, "btrfs") == 0;
	bool reflinks = diagnosis_works(p, PROBE_REFLINK);
	struct diagnosis_fact *f = add(d, files, "volume",
		is_btrfs || reflinks ? DIAGNOSIS_OK : DIAGNOSIS_INFO, "%s (%s) at %s", p->state_fs,
		is_btrfs   ? "snapshots"
		: reflinks ? "reflinks"
			   : "plain copies",
		p->state_dir);

	if (!is_btrfs && !reflinks)
		detail(f, "copies of layers cost time and space; btrfs or xfs would share them");
}

static void add_files(const struct probe *p, struct diagnosis *d)
{
	static const struct try_fact tries[] = {
		{PROBE_TMPFS, "tmpfs", DIAGNOSIS_MISSING, "a sandbox has nowhere to write"},
		{PROBE_PROC, "proc", DIAGNOSIS_MISSING,
			"the kernel gives a fresh one only where nothing covers parts of the "
			"present one"},
		{PROBE_DEVPTS, "devpts", DIAGNOSIS_MISSING, "no terminals of its own"},
		{PROBE_BIND, "bind", DIAGNOSIS_MISSING,
			"the host's tree cannot be shown read-only"},
		{PROBE_PIVOT_ROOT, "pivot_root", DIAGNOSIS_MISSING, "no root of its own"},
		{PROBE_OVERLAY, "overlay", DIAGNOSIS_WEAK, "no --cow and no --root base"},
		{PROBE_OVERLAY_DETACHED, "overlay-detached", DIAGNOSIS_INFO,
			"layers are attached before they are joined (before Linux 6.15)"},
		{PROBE_IDMAP_ROOT, "idmap-root", DIAGNOSIS_WEAK,
			"files of '/' cannot be shown with the sandbox's ids"},
		{PROBE_IDMAP_USR, "idmap-usr", DIAGNOSIS_WEAK,
			"files of '/usr' cannot be shown with the sandbox's ids"},
	};

	(void)add(d, files, "root-type", DIAGNOSIS_INFO, "%s on '/', %s on '/usr'", p->root_fs,
		p->usr_fs);
	ADD_TRIES(p, d, files, tries);
	add_volume(p, d);
}

static void add_ids(const struct probe *p, struct diagnosis *d)
{
	struct diagnosis_fact *f;

	(void)add(d, ids, "caller", DIAGNOSIS_INFO, "%s (uid %u)%s", p->user[0] ? p->user : "?",
		p->uid,
		p->is_root            ? ", root of this machine"
		: p->is_nested_userns ? ", in a user namespace"
				      : "");
	if (p->is_root)
		return;
	f = add(d, ids, "newuidmap", p->newuidmap[0] ? DIAGNOSIS_OK : DIAGNOSIS_WEAK, "%s",
		p->newuidmap[0] ? p->newuidmap : "not installed");
	if (!p->newuidmap[0]) {
		detail(f, "a sandbox has one id, the caller's own");
		fix_ids(p, f->fix);
	}
	if (p->subuid && p->subgid) {
		(void)add(d, ids, "subid-range", DIAGNOSIS_OK, "from uid %u, gid %u", p->subuid,
			p->subgid);
	} else {
		f = add(d, ids, "subid-range", DIAGNOSIS_WEAK, "none in %s",
			p->subuid ? "/etc/subgid" : "/etc/subuid");
		detail(f, "a sandbox has one id, the caller's own");
		if (p->newuidmap[0])
			fix_ids(p, f->fix);
	}
	if (p->tries[PROBE_NEWUIDMAP].code == PROBE_UNTRIED)
		return;
	f = add(d, ids, "range-mapped", DIAGNOSIS_OK, "works");
	if (diagnosis_works(p, PROBE_NEWUIDMAP))
		return;
	f->status = DIAGNOSIS_WEAK;
	diagnosis_say(p, PROBE_NEWUIDMAP, f->value, sizeof(f->value));
	detail(f, "a sandbox has one id, the caller's own");
	fix_ids(p, f->fix);
}

static void add_controllers(const struct probe *p, struct diagnosis *d)
{
	static const struct {
		enum cgroup_controller bit;
		const char *name;
		const char *meaning;
	} controllers[] = {
		{CGROUP_MEMORY, "cgroup-memory", "memory use cannot be capped"},
		{CGROUP_CPU, "cgroup-cpu", "processor time cannot be capped"},
		{CGROUP_PIDS, "cgroup-pids", "the number of processes cannot be capped"},
		{CGROUP_IO, "cgroup-io", "block device traffic cannot be capped"},
	};

	for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]); i++) {
		enum cgroup_controller c = controllers[i].bit;
		bool usable = (p->cgroup.controllers & c) != 0;
		bool exists = p->cgroup.v1_mount[i][0] || (p->cgroup.v2_controllers & c);
		struct diagnosis_fact *f = add(d, limits, controllers[i].name,
			usable ? DIAGNOSIS_OK : DIAGNOSIS_WEAK, "%s",
			usable   ? "usable"
			: exists ? "not delegated to this user"
				 : "not on this machine");

		if (usable)
			continue;
		detail(f, "%s", controllers[i].meaning);
		fix_controller(p, c, f->fix);
	}
}

static void add_limits(const struct probe *p, struct diagnosis *d)
{
	static const struct {
		const char *text;
		enum diagnosis_status status;
	} swaps[] = {
		[PROBE_SWAP_NONE] = {"no swap", DIAGNOSIS_OK},
		[PROBE_SWAP_ACCOUNTED] = {"counted per cgroup", DIAGNOSIS_OK},
		[PROBE_SWAP_UNACCOUNTED] = {"not counted", DIAGNOSIS_WEAK},
		[PROBE_SWAP_UNKNOWN] = {"unknown", DIAGNOSIS_INFO},
	};
	bool has_v1 = false;
	struct diagnosis_fact *f;

	for (size_t i = 0; i < 4; i++)
		has_v1 = has_v1 || p->cgroup.v1_mount[i][0];
	(void)add(d, limits, "cgroup-version", DIAGNOSIS_INFO, "%s",
		has_v1 && p->cgroup.v2_mount[0] ? "hybrid (controllers on v1)"
		: has_v1                        ? "v1"
		: p->cgroup.v2_mount[0]         ? "v2"
						: "not mounted");
	add_controllers(p, d);
	f = add(d, limits, "swap", swaps[p->cgroup.swap].status, "%s", swaps[p->cgroup.swap].text);
	if (f->status == DIAGNOSIS_WEAK)
		detail(f, "a sandbox over its memory limit is paged out, not refused");
}

static void add_setting(const struct probe *p, struct diagnosis *d, enum probe_sysctl s,
	const char *name, enum diagnosis_status status, const char *meaning)
{
	struct diagnosis_fact *f;

	if (!p->sysctls[s][0])
		return;
	f = add(d, around, name, status, "%s", p->sysctls[s]);
	if (status != DIAGNOSIS_OK)
		detail(f, "%s", meaning);
}

static bool is_below(const struct probe *p, enum probe_sysctl s, uint64_t least)
{
	struct err ignored = {0};
	uint64_t n;

	return text_parse_u64(p->sysctls[s], "setting", 0, UINT64_MAX, &n, &ignored) < 0 ||
	       n < least;
}

static void add_around(const struct probe *p, struct diagnosis *d)
{
	const char *core = p->sysctls[PROBE_SYSCTL_CORE_PATTERN];
	struct diagnosis_fact *f;

	f = add(d, around, "container", DIAGNOSIS_INFO, "%s",
		p->container[0] ? p->container : "none");
	if (p->container[0])
		detail(f, "bawn is nested: what the outer container refuses, bawn cannot give");
	if (p->is_filtered)
		(void)add(d, around, "outer-seccomp", DIAGNOSIS_INFO, "a filter is around bawn");
	if (p->is_nnp)
		(void)add(d, around, "outer-no-new-privs", DIAGNOSIS_INFO,
			"set: newuidmap cannot work");
	if (p->apparmor[0])
		(void)add(d, around, "apparmor-profile", DIAGNOSIS_INFO, "%s", p->apparmor);
	if (p->proc_cover[0])
		(void)add(d, around, "proc-cover", DIAGNOSIS_INFO, "'%s' is mounted over",
			p->proc_cover);
	add_setting(p, d, PROBE_SYSCTL_TIOCSTI, "legacy-tiocsti",
		p->sysctls[PROBE_SYSCTL_TIOCSTI][0] == '0' ? DIAGNOSIS_OK : DIAGNOSIS_INFO,
		"programs may type into a terminal they hold; a sandbox gets one of its own");
	if (p->sysctls[PROBE_SYSCTL_TIOCSTI][0] == '1')
		fix_sysctl(p, PROBE_SYSCTL_TIOCSTI, "0", d->facts[d->facts_n - 1].fix);
	add_setting(p, d, PROBE_SYSCTL_CORE_PATTERN, "core-pattern",
		core[0] == '|' ? DIAGNOSIS_INFO : DIAGNOSIS_OK,
		"a program of the host reads core dumps, as root; a sandbox makes none by default, "
		"but can ask for one");
	add_setting(p, d, PROBE_SYSCTL_PTRACE_SCOPE, "ptrace-scope", DIAGNOSIS_OK, "");
	add_setting(p, d, PROBE_SYSCTL_BPF_DISABLED, "unprivileged-bpf-disabled",
		p->sysctls[PROBE_SYSCTL_BPF_DISABLED][0] == '0' ? DIAGNOSIS_INFO : DIAGNOSIS_OK,
		"users may load BPF programs; a sandbox may not");
	add_setting(p, d, PROBE_SYSCTL_HARDLINKS, "protected-hardlinks",
		p->sysctls[PROBE_SYSCTL_HARDLINKS][0] == '0' ? DIAGNOSIS_WEAK : DIAGNOSIS_OK,
		"users may hard-link files they do not own into a writable directory");
	if (p->sysctls[PROBE_SYSCTL_HARDLINKS][0] == '0')
		fix_sysctl(p, PROBE_SYSCTL_HARDLINKS, "1", d->facts[d->facts_n - 1].fix);
	add_setting(p, d, PROBE_SYSCTL_INOTIFY_INSTANCES, "inotify-instances",
		is_below(p, PROBE_SYSCTL_INOTIFY_INSTANCES, 128) ? DIAGNOSIS_WEAK : DIAGNOSIS_OK,
		"watchers inside many sandboxes of one user run out");
	add_setting(p, d, PROBE_SYSCTL_INOTIFY_WATCHES, "inotify-watches",
		is_below(p, PROBE_SYSCTL_INOTIFY_WATCHES, 8192) ? DIAGNOSIS_WEAK : DIAGNOSIS_OK,
		"watchers inside many sandboxes of one user run out");
	add_setting(p, d, PROBE_SYSCTL_PID_MAX, "pid-max", DIAGNOSIS_OK, "");
}

static void add_other(const struct probe *p, struct diagnosis *d)
{
	static const struct try_fact nft[] = {
		{PROBE_NFT, "nf_tables", DIAGNOSIS_WEAK, "needed for roads out of a sandbox"},
	};
	struct diagnosis_fact *f;

	ADD_TRIES(p, d, other, nft);
	f = add(d, other, "nft", p->nft[0] ? DIAGNOSIS_OK : DIAGNOSIS_INFO, "%s",
		p->nft[0] ? p->nft : "not installed");
	if (!p->nft[0])
		(void)snprintf(f->fix, sizeof(f->fix), "%sapt-get install nftables",
			p->uid == 0 ? "" : "sudo ");
	f = add(d, other, "kvm", diagnosis_works(p, PROBE_KVM) ? DIAGNOSIS_OK : DIAGNOSIS_INFO,
		"%s", "works");
	if (!diagnosis_works(p, PROBE_KVM)) {
		if (p->has_kvm)
			diagnosis_say(p, PROBE_KVM, f->value, sizeof(f->value));
		else
			(void)snprintf(f->value, sizeof(f->value), "no /dev/kvm");
		detail(f, "needed by the microvm tier");
		fix_try(p, PROBE_KVM, f->fix);
	}
	(void)add(d, other, "runsc", p->runsc[0] ? DIAGNOSIS_OK : DIAGNOSIS_INFO, "%s",
		p->runsc[0] ? p->runsc : "not installed");
	(void)add(d, other, "vmm", p->vmm[0] ? DIAGNOSIS_OK : DIAGNOSIS_INFO, "%s",
		p->vmm[0] ? p->vmm : "not installed");
}

void diagnosis_facts(const struct probe *p, struct diagnosis *d)
{
	add_kernel(p, d);
	add_namespaces(p, d);
	add_files(p, d);
	add_ids(p, d);
	add_limits(p, d);
	add_around(p, d);
	add_other(p, d);
}
