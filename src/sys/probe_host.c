/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is read rather than tried: names, settings, programs, file systems, cgroup
 * mounts, and signs of a container around us.
 */
#include "sys/probe_impl.h"

#include "base/own.h"
#include "base/text.h"
#include "sys/kernel_abi.h"
#include "sys/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/kvm.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *const sysctl_names[PROBE_SYSCTL_COUNT] = {
	[PROBE_SYSCTL_APPARMOR_USERNS] = "kernel.apparmor_restrict_unprivileged_userns",
	[PROBE_SYSCTL_USERNS_CLONE] = "kernel.unprivileged_userns_clone",
	[PROBE_SYSCTL_MAX_USERNS] = "user.max_user_namespaces",
	[PROBE_SYSCTL_MAX_MNTNS] = "user.max_mnt_namespaces",
	[PROBE_SYSCTL_MAX_PIDNS] = "user.max_pid_namespaces",
	[PROBE_SYSCTL_MAX_NETNS] = "user.max_net_namespaces",
	[PROBE_SYSCTL_TIOCSTI] = "dev.tty.legacy_tiocsti",
	[PROBE_SYSCTL_CORE_PATTERN] = "kernel.core_pattern",
	[PROBE_SYSCTL_PTRACE_SCOPE] = "kernel.yama.ptrace_scope",
	[PROBE_SYSCTL_INOTIFY_INSTANCES] = "fs.inotify.max_user_instances",
	[PROBE_SYSCTL_INOTIFY_WATCHES] = "fs.inotify.max_user_watches",
	[PROBE_SYSCTL_MEMFD_NOEXEC] = "vm.memfd_noexec",
	[PROBE_SYSCTL_PID_MAX] = "kernel.pid_max",
	[PROBE_SYSCTL_BPF_DISABLED] = "kernel.unprivileged_bpf_disabled",
	[PROBE_SYSCTL_HARDLINKS] = "fs.protected_hardlinks",
};

const char *probe_sysctl_name(enum probe_sysctl s)
{
	return sysctl_names[s];
}

static void read_sysctls(struct probe *p)
{
	char path[96];

	for (size_t i = 0; i < PROBE_SYSCTL_COUNT; i++) {
		(void)snprintf(path, sizeof(path), "/proc/sys/%s", sysctl_names[i]);
		for (char *dot = strchr(path, '.'); dot; dot = strchr(dot, '.'))
			*dot = '/';
		probe_read_line(path, p->sysctls[i], sizeof(p->sysctls[i]));
	}
}

/* Our name by /etc/passwd: the program is static and does not load name services. */
static void find_user(struct probe *p)
{
	AUTO_FILE FILE *f = fopen("/etc/passwd", "re");
	char line[512];
	char want[32];

	(void)snprintf(want, sizeof(want), ":%u:", p->uid);
	while (f && fgets(line, sizeof(line), f)) {
		char *pass = strchr(line, ':');
		char *id = pass ? strchr(pass + 1, ':') : NULL;

		if (!id || strncmp(id, want, strlen(want)) != 0)
			continue;
		*pass = '\0';
		(void)snprintf(p->user, sizeof(p->user), "%.32s", line);
		return;
	}
}

uint32_t probe_parse_subid_end(const char *text, uint32_t floor)
{
	struct err ignored = {0};
	uint64_t end = floor;

	while (*text) {
		size_t n = strcspn(text, "\n");
		char line[128] = "";
		char *next = line, *start;
		uint64_t first, size;

		if (n < sizeof(line))
			memcpy(line, text, n);
		text += n + (text[n] == '\n');
		(void)strsep(&next, ":");
		start = strsep(&next, ":");
		/* The tools hand out nothing above 2^31: whatever ends there is a mistake. */
		if (!start || !next ||
			text_parse_u64(start, "start", 1, INT32_MAX, &first, &ignored) < 0 ||
			text_parse_u64(next, "count", 1, INT32_MAX, &size, &ignored) < 0)
			continue;
		if (first + size > end)
			end = first + size;
	}
	return (uint32_t)end;
}

static void find_ranges(struct probe *p)
{
	static const char *const names[] = {"/etc/subuid", "/etc/subgid"};
	struct err ignored = {0};
	char text[8192];

	(void)userns_subid(names[0], p->uid, p->user, PROBE_RANGE - 1, &p->subuid, &ignored);
	(void)userns_subid(names[1], p->uid, p->user, PROBE_RANGE - 1, &p->subgid, &ignored);
	p->subid_free = 100000; /* where useradd begins */
	for (size_t i = 0; i < 2; i++)
		if (probe_read(names[i], text, sizeof(text)) > 0)
			p->subid_free = probe_parse_subid_end(text, p->subid_free);
}

static void find_self(struct probe *p)
{
	struct utsname u;
	struct err ignored;
	char map[64];

	if (uname(&u) == 0) {
		(void)snprintf(p->kernel, sizeof(p->kernel), "%s", u.release);
		(void)snprintf(p->arch, sizeof(p->arch), "%s", u.machine);
	}
	p->uid = geteuid();
	p->gid = getegid();
	p->is_root = userns_is_host_root(&ignored) > 0;
	probe_read_line("/proc/self/uid_map", map, sizeof(map));
	p->is_nested_userns = map[0] != '\0' && !strstr(map, " 4294967295");
	p->is_nnp = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
	p->is_filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
	probe_read_line("/proc/self/attr/apparmor/current", p->apparmor, sizeof(p->apparmor));
	probe_read_line("/sys/kernel/security/lsm", p->lsms, sizeof(p->lsms));
	find_user(p);
	find_ranges(p);
}

/* The marks that container engines leave; none of them is a promise, all are common. */
static void find_container(struct probe *p)
{
	static const struct {
		const char *word;
		const char *name;
	} words[] = {
		{"kubepods", "kubernetes"},
		{"docker", "docker"},
		{"libpod", "podman"},
		{"lxc", "lxc"},
		{"containerd", "containerd"},
		{"machine.slice", "systemd-nspawn"},
	};
	const char *said = getenv("container"); /* systemd's convention, kept by podman and lxc */
	char text[4096];
	const char *found = "";
	/* An image written to a disk and booted keeps the marks, but nobody restricts it. */
	bool own_disk = strcmp(p->root_fs, "ext4") == 0 || strcmp(p->root_fs, "xfs") == 0;

	if (getenv("BAWN") && p->is_filtered)
		found = "bawn";
	else if (getenv("KUBERNETES_SERVICE_HOST"))
		found = "kubernetes";
	else if (!own_disk && access("/.dockerenv", F_OK) == 0)
		found = "docker";
	else if (!own_disk && access("/run/.containerenv", F_OK) == 0)
		found = "podman";
	else if (said && *said)
		found = said;
	if (!*found && probe_read("/run/systemd/container", text, 24) > 0) {
		text[strcspn(text, "\n")] = '\0';
		(void)snprintf(p->container, sizeof(p->container), "%.31s", text);
		return;
	}
	if (!*found && probe_read("/proc/1/cgroup", text, sizeof(text)) > 0)
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !*found; i++)
			if (strstr(text, words[i].word))
				found = words[i].name;
	(void)snprintf(p->container, sizeof(p->container), "%.31s", found);
}

/* The first executable of that name in PATH; sbin as well, since users' PATHs often lack it. */
static void find_program(const char *name, char *ret, size_t size)
{
	const char *path = getenv("PATH");
	char all[2048];
	char *next = all;

	if (snprintf(all, sizeof(all), "%s:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		    path ? path : "") >= (int)sizeof(all))
		(void)snprintf(all, sizeof(all), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
	while (next) {
		const char *dir = strsep(&next, ":");

		if (dir[0] != '/')
			continue;
		if (snprintf(ret, size, "%s/%s", dir, name) < (int)size && access(ret, X_OK) == 0)
			return;
	}
	ret[0] = '\0';
}

static void find_programs(struct probe *p)
{
	static const char *const vmms[] = {
		"firecracker", "cloud-hypervisor", "qemu-system-x86_64", "qemu-system-aarch64"};

	find_program("newuidmap", p->newuidmap, sizeof(p->newuidmap));
	find_program("nft", p->nft, sizeof(p->nft));
	find_program("runsc", p->runsc, sizeof(p->runsc));
	find_program("systemd-run", p->systemd_run, sizeof(p->systemd_run));
	for (size_t i = 0; i < sizeof(vmms) / sizeof(vmms[0]) && !p->vmm[0]; i++)
		find_program(vmms[i], p->vmm, sizeof(p->vmm));
}

static int try_kvm(const void *arg, struct err *err)
{
	AUTO_FD int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	(void)arg;
	if (fd < 0)
		return err_sys(err, "open '/dev/kvm'");
	/* The interface has been stable under this number since 2.6.22. */
	if (ioctl(fd, KVM_GET_API_VERSION, 0) != 12)
		return err_set(err, ENOTTY, "ask kvm its version: odd answer");
	return 0;
}

/* Unnamed files: they are gone when they are closed. */
static int try_reflink(const void *arg, struct err *err)
{
	static const char block[4096] = "bawn";
	AUTO_FD int from = open(arg, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	AUTO_FD int to = open(arg, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (from < 0 || to < 0)
		return err_sys(err, "make unnamed files");
	if (write(from, block, sizeof(block)) < 0)
		return err_sys(err, "write");
	if (ioctl(to, FICLONE, from) < 0)
		return err_sys(err, "clone a file");
	return 0;
}

static void fs_type(const char *path, char *ret, size_t size)
{
	static const struct {
		uint32_t magic;
		const char *name;
	} known[] = {
		{EXT4_SUPER_MAGIC, "ext4"},
		{BTRFS_SUPER_MAGIC, "btrfs"},
		{XFS_SUPER_MAGIC, "xfs"},
		{TMPFS_MAGIC, "tmpfs"},
		{OVERLAYFS_SUPER_MAGIC, "overlay"},
		{F2FS_SUPER_MAGIC, "f2fs"},
		{NFS_SUPER_MAGIC, "nfs"},
		{SQUASHFS_MAGIC, "squashfs"},
		{EROFS_SUPER_MAGIC_V1, "erofs"},
		{FUSE_SUPER_MAGIC, "fuse"},
		{V9FS_MAGIC, "9p"},
		{RAMFS_MAGIC, "ramfs"},
		{0x2fc12fc1, "zfs"},
		{0xca451a4e, "bcachefs"},
	};
	struct statfs fs;

	if (statfs(path, &fs) < 0) {
		(void)snprintf(ret, size, "unknown");
		return;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((uint32_t)fs.f_type == known[i].magic) {
			(void)snprintf(ret, size, "%s", known[i].name);
			return;
		}
	(void)snprintf(ret, size, "0x%x", (uint32_t)fs.f_type);
}

/* The state directory may not exist yet; its nearest ancestor is where it would be made. */
static void look_at_volume(struct probe *p, const char *state_dir)
{
	size_t n = strlen(state_dir);

	if (n == 0 || n >= sizeof(p->state_dir) || state_dir[0] != '/')
		state_dir = "/";
	(void)snprintf(p->state_dir, sizeof(p->state_dir), "%s", state_dir);
	while (p->state_dir[1] && access(p->state_dir, F_OK) < 0) {
		char *slash = strrchr(p->state_dir, '/');

		slash[slash == p->state_dir ? 1 : 0] = '\0';
	}
	fs_type("/", p->root_fs, sizeof(p->root_fs));
	fs_type("/usr", p->usr_fs, sizeof(p->usr_fs));
	fs_type(p->state_dir, p->state_fs, sizeof(p->state_fs));
	probe_try(&p->tries[PROBE_REFLINK], 0, try_reflink, p->state_dir);
}

void probe_host(struct probe *p, const char *state_dir)
{
	find_self(p);
	read_sysctls(p);
	look_at_volume(p, state_dir);
	find_container(p);
	find_programs(p);
	p->has_kvm = access("/dev/kvm", F_OK) == 0;
	if (p->has_kvm)
		probe_try(&p->tries[PROBE_KVM], 0, try_kvm, NULL);
	probe_cgroups(p);
}
