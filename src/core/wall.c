/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/wall - the table of walls: name, what it stops, how to get it.
 *
 * Pure data; runs in any program, never blocks.
 */
#include "core/wall.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

struct wall_text {
	const char *name;
	const char *about;
	const char *remedy;
};

#define USERNS_REMEDY                                                                              \
	"run as root, or allow unprivileged user namespaces: 'sysctl kernel.unprivileged_userns_"  \
	"clone=1 user.max_user_namespaces=15000', on Ubuntu also 'sysctl kernel.apparmor_"         \
	"restrict_unprivileged_userns=0'"
#define CGROUP_REMEDY                                                                              \
	"run as root, or in a delegated cgroup: 'systemd-run --user --scope -p Delegate=yes "      \
	"bawn run ...'"

static const struct wall_text texts[WALL_COUNT] = {
	[WALL_USER] = {"user", "root in the box is nobody outside", USERNS_REMEDY},
	[WALL_IDS] = {"ids",
		"files and processes of the box belong to ids that own nothing outside",
		"install 'uidmap' and give the user a range in /etc/subuid and /etc/subgid; as "
		"root it needs idmapped mounts (Linux 5.12, ext4, xfs, btrfs or tmpfs)"},
	[WALL_MOUNT] = {"mount", "mounts made for the box are seen by the box alone",
		USERNS_REMEDY},
	[WALL_ROOT] = {"root", "the host's tree is read-only or absent; writes only where allowed",
		"needs pivot_root and overlayfs or bind mounts; inside Docker run with "
		"'--security-opt seccomp=unconfined --security-opt apparmor=unconfined'"},
	[WALL_MASKS] = {"masks", "keys, tokens and histories hidden; hooks and settings read-only",
		"needs the mount wall: see 'bawn doctor'"},
	[WALL_PROC] = {"proc",
		"only the box's own processes are visible; kernel settings read-only",
		"needs a /proc with nothing mounted over it: inside Docker run with "
		"'--security-opt systempaths=unconfined'"},
	[WALL_DEV] = {"dev", "no device but null, zero, full, random, tty and own terminals",
		"needs the mount wall and devpts in the kernel (CONFIG_UNIX98_PTYS)"},
	[WALL_SYS] = {"sys", "the kernel's device and tuning tree is absent",
		"needs the mount wall: see 'bawn doctor'"},
	[WALL_PID] = {"pid", "processes outside can be neither seen nor signalled", USERNS_REMEDY},
	[WALL_NET] = {"net", "no network but the box's own loopback",
		USERNS_REMEDY "; the kernel needs CONFIG_NET_NS"},
	[WALL_IPC] = {"ipc", "shared memory, semaphores and queues outside are out of reach",
		USERNS_REMEDY "; the kernel needs CONFIG_IPC_NS"},
	[WALL_UTS] = {"uts", "own host name; the machine's cannot be changed",
		USERNS_REMEDY "; the kernel needs CONFIG_UTS_NS"},
	[WALL_CGROUPNS] = {"cgroupns", "the machine's cgroup tree is not visible",
		USERNS_REMEDY "; the kernel needs CONFIG_CGROUPS (Linux 4.6)"},
	[WALL_CAPS] = {"caps", "root in the box lacks the capabilities that reach the kernel",
		"needs capset and prctl: a seccomp filter around us forbids them"},
	[WALL_NNP] = {"nnp", "setuid programs gain nothing (no_new_privs)",
		"every Linux since 3.5 has it: a seccomp filter around us forbids prctl"},
	[WALL_SECCOMP] = {"seccomp", "dangerous system calls are refused",
		"needs a kernel with CONFIG_SECCOMP_FILTER"},
	[WALL_LANDLOCK] = {"landlock", "a second, independent wall for files, TCP and signals",
		"needs Linux 5.13 with CONFIG_SECURITY_LANDLOCK and 'landlock' in the kernel "
		"parameter lsm="},
	[WALL_MEMORY] = {"memory", "memory use is capped and never spills to swap", CGROUP_REMEDY},
	[WALL_CPU] = {"cpu", "processor time is capped", CGROUP_REMEDY},
	[WALL_PIDS] = {"pids", "the number of processes and threads is capped", CGROUP_REMEDY},
	[WALL_IO] = {"io", "block device traffic is capped", CGROUP_REMEDY},
	[WALL_DISK] = {"disk", "everything the box writes for itself is capped",
		"needs tmpfs in a user namespace (Linux 3.9)"},
	[WALL_RLIMITS] = {"rlimits", "open files, core dumps, locked memory and queues are capped",
		"the caller's own hard limits are lower: raise them with 'ulimit -H'"},
	[WALL_FDS] = {"fds", "no open file of the caller but stdin, stdout and stderr gets in",
		"needs /proc or close_range (Linux 5.9)"},
	[WALL_TTY] = {"tty", "own terminal: nothing can be typed into the caller's",
		"needs devpts: mount it on /dev/pts"},
	[WALL_TIME] = {"time", "the whole tree is killed when its time is up",
		"needs timerfd and pidfd (Linux 5.3)"},
};

static const char *const level_names[] = {
	[WALL_LEVEL_OFF] = "off",
	[WALL_LEVEL_PREFERRED] = "preferred",
	[WALL_LEVEL_REQUIRED] = "required",
};
#define LEVEL_COUNT (sizeof(level_names) / sizeof(level_names[0]))
_Static_assert(LEVEL_COUNT == WALL_LEVEL_REQUIRED + 1, "a level without a name");

static const char *const verdict_names[] = {
	[WALL_VERDICT_OFF] = "off",
	[WALL_VERDICT_ENFORCED] = "enforced",
	[WALL_VERDICT_FALLBACK] = "fallback",
	[WALL_VERDICT_MISSING] = "missing",
};
_Static_assert(sizeof(verdict_names) / sizeof(verdict_names[0]) == WALL_VERDICT_MISSING + 1,
	"a verdict without a name");

const char *wall_name(enum wall w)
{
	return texts[w].name;
}

const char *wall_about(enum wall w)
{
	return texts[w].about;
}

const char *wall_remedy(enum wall w)
{
	return texts[w].remedy;
}

const char *wall_level_name(enum wall_level l)
{
	return level_names[l];
}

const char *wall_verdict_name(enum wall_verdict v)
{
	return verdict_names[v];
}

int wall_parse(const char *name, enum wall *ret, struct err *err)
{
	const char *names[WALL_COUNT];
	const char *near;
	char all[300] = "";
	char quoted[64];
	size_t used = 0;

	for (size_t i = 0; i < WALL_COUNT; i++) {
		int n;

		names[i] = texts[i].name;
		if (strcmp(name, names[i]) == 0) {
			*ret = (enum wall)i;
			return 0;
		}
		n = snprintf(all + used, sizeof(all) - used, "%s%s", i ? " " : "", names[i]);
		if (n > 0 && (size_t)n < sizeof(all) - used)
			used += (size_t)n;
	}
	(void)text_quote(name, quoted, sizeof(quoted));
	near = text_closest(name, names, WALL_COUNT);
	if (near)
		return err_set(err, EINVAL,
			"no wall is called '%s'; did you mean '%s'? (walls: %s)", quoted, near,
			all);
	return err_set(err, EINVAL, "no wall is called '%s'; accepted: %s", quoted, all);
}

int wall_level_parse(const char *name, enum wall_level *ret, struct err *err)
{
	char quoted[64];

	for (size_t i = 0; i < LEVEL_COUNT; i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*ret = (enum wall_level)i;
			return 0;
		}
	}
	return err_set(err, EINVAL, "'%s' is not a level; accepted: required, preferred, off",
		text_quote(name, quoted, sizeof(quoted)));
}
