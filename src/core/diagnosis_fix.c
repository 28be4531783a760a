/* SPDX-License-Identifier: Apache-2.0 */

/* The commands that repair what is missing, each for the cause that was measured. */
#include "core/diagnosis_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void put(char *out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(out, DIAGNOSIS_FIX_SIZE, fmt, ap);
	va_end(ap);
}

static const char *sudo(const struct probe *p)
{
	return p->uid == 0 ? "" : "sudo ";
}

static const char *sysctl_value(const struct probe *p, enum probe_sysctl s)
{
	return p->sysctls[s];
}

void fix_sysctl(const struct probe *p, enum probe_sysctl s, const char *value, char *out)
{
	put(out, "%ssysctl -w %s=%s", sudo(p), probe_sysctl_name(s), value);
}

/* A kernel parameter, by way of the boot loader that Debian and Ubuntu install. */
static void fix_boot(const struct probe *p, const char *parameter, char *out)
{
	put(out,
		"%ssed -i 's/^GRUB_CMDLINE_LINUX=\"/&%s /' /etc/default/grub && %supdate-grub && "
		"%sreboot",
		sudo(p), parameter, sudo(p), sudo(p));
}

static void fix_kernel(const struct probe *p, char *out)
{
	const char *arch = strcmp(p->arch, "aarch64") == 0 ? "arm64" : "amd64";

	put(out, "%sapt-get install -t bookworm-backports linux-image-%s && %sreboot", sudo(p),
		arch, sudo(p));
}

/* What the engine around us must be told; true if there is one. */
static bool fix_container(const struct probe *p, char *out)
{
	if (!p->container[0])
		return false;
	if (strcmp(p->container, "bawn") == 0)
		put(out, "start this bawn outside the sandbox: a sandbox does not hold another");
	else if (strcmp(p->container, "kubernetes") == 0)
		put(out, "kubectl patch deployment NAME -p '{\"spec\":{\"template\":{\"spec\":"
			 "{\"hostUsers\":false,\"containers\":[{\"name\":\"NAME\","
			 "\"securityContext\":"
			 "{\"procMount\":\"Unmasked\",\"seccompProfile\":{\"type\":\"Unconfined\"},"
			 "\"appArmorProfile\":{\"type\":\"Unconfined\"}}}]}}}}'");
	else if (strcmp(p->container, "podman") == 0)
		put(out, "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL "
			 "--security-opt label=disable IMAGE");
	else if (strcmp(p->container, "lxc") == 0)
		put(out, "lxc config set NAME security.nesting=true && lxc restart NAME");
	else
		put(out, "docker run --security-opt seccomp=unconfined --security-opt "
			 "apparmor=unconfined --security-opt systempaths=unconfined IMAGE");
	return true;
}

/* A call that a current kernel has: something around us refuses it, or the kernel is old. */
static void fix_refused(const struct probe *p, char *out)
{
	if (fix_container(p, out))
		return;
	if (p->is_filtered)
		put(out, "start bawn outside the seccomp filter that it runs under "
			 "('grep Seccomp /proc/self/status' shows it)");
	else
		fix_kernel(p, out);
}

static bool is_limit(int code)
{
	return code == ENOSPC || code == EUSERS;
}

static void fix_userns(const struct probe *p, char *out)
{
	int code = p->tries[PROBE_USERNS].code;

	if (strcmp(sysctl_value(p, PROBE_SYSCTL_MAX_USERNS), "0") == 0)
		fix_sysctl(p, PROBE_SYSCTL_MAX_USERNS, "15000", out);
	else if (!p->is_root && strcmp(sysctl_value(p, PROBE_SYSCTL_USERNS_CLONE), "0") == 0)
		fix_sysctl(p, PROBE_SYSCTL_USERNS_CLONE, "1", out);
	else if (!p->is_root && strcmp(sysctl_value(p, PROBE_SYSCTL_APPARMOR_USERNS), "0") > 0)
		fix_sysctl(p, PROBE_SYSCTL_APPARMOR_USERNS, "0", out);
	else if (is_limit(code))
		fix_sysctl(p, PROBE_SYSCTL_MAX_USERNS, "65536", out);
	else if (code == EPERM && !p->is_filtered && !p->container[0])
		/* clone(2): EPERM if the caller's root is not that of its mount namespace. */
		put(out, "start bawn outside the chroot that it runs in");
	else
		fix_refused(p, out);
}

static bool fix_ns_limit(const struct probe *p, enum probe_item item, char *out)
{
	enum probe_sysctl s;

	switch (item) {
	case PROBE_NS_MOUNT: s = PROBE_SYSCTL_MAX_MNTNS; break;
	case PROBE_NS_PID: s = PROBE_SYSCTL_MAX_PIDNS; break;
	case PROBE_NS_NET: s = PROBE_SYSCTL_MAX_NETNS; break;
	default: return false;
	}
	if (!is_limit(p->tries[item].code))
		return false;
	fix_sysctl(p, s, "15000", out);
	return true;
}

static void fix_proc(const struct probe *p, char *out)
{
	/* The kernel gives no fresh /proc to a namespace whose own is partly covered. */
	if (p->proc_cover[0] && (p->is_root || !p->container[0]))
		put(out, "%sumount '%s'", sudo(p), p->proc_cover);
	else
		fix_refused(p, out);
}

static void fix_kvm(const struct probe *p, char *out)
{
	if (!p->has_kvm)
		put(out, "%smodprobe kvm_intel || %smodprobe kvm_amd", sudo(p), sudo(p));
	else if (p->tries[PROBE_KVM].code == EACCES)
		put(out, "%ssetfacl -m u:%u:rw /dev/kvm", sudo(p), p->uid);
}

void fix_try(const struct probe *p, enum probe_item item, char *out)
{
	bool in_userns = item < PROBE_IDMAP_ROOT || item == PROBE_NFT;

	out[0] = '\0';
	if (diagnosis_works(p, item))
		return;
	if (in_userns && !diagnosis_works(p, PROBE_USERNS))
		fix_userns(p, out);
	else if (item == PROBE_PROC)
		fix_proc(p, out);
	else if (item == PROBE_IDMAP_ROOT || item == PROBE_IDMAP_USR)
		fix_ids(p, out);
	else if (item == PROBE_KVM)
		fix_kvm(p, out);
	else if (item == PROBE_MEMFD &&
		 strcmp(sysctl_value(p, PROBE_SYSCTL_MEMFD_NOEXEC), "2") == 0)
		fix_sysctl(p, PROBE_SYSCTL_MEMFD_NOEXEC, "1", out);
	else if (item == PROBE_OVERLAY && p->tries[item].code == ENODEV)
		put(out, "%smodprobe overlay", sudo(p));
	else if (item == PROBE_NFT)
		put(out, "%smodprobe nf_tables", sudo(p));
	else if (!fix_ns_limit(p, item, out))
		fix_refused(p, out);
}

void fix_landlock(const struct probe *p, char *out)
{
	out[0] = '\0';
	if (p->landlock_code == EOPNOTSUPP)
		fix_boot(p, "lsm=landlock,lockdown,yama,integrity,apparmor,bpf", out);
	else if (p->landlock_abi == 0)
		fix_refused(p, out);
	else
		fix_kernel(p, out);
}

/* mount_setattr(2): EINVAL is the file system's word, which newer kernels give less often. */
static void fix_idmap(const struct probe *p, char *out)
{
	enum probe_item bad =
		diagnosis_works(p, PROBE_IDMAP_ROOT) ? PROBE_IDMAP_USR : PROBE_IDMAP_ROOT;

	if (p->tries[bad].code == EINVAL)
		fix_kernel(p, out);
	else
		fix_refused(p, out);
}

static void fix_subid(const struct probe *p, char *out)
{
	unsigned start = p->subid_free, end = start + PROBE_RANGE - 1;

	if (p->user[0])
		put(out, "%susermod --add-subuids %u-%u --add-subgids %u-%u %s", sudo(p), start,
			end, start, end, p->user);
	else
		put(out, "echo %u:%u:%u | %stee -a /etc/subuid /etc/subgid", p->uid, start,
			PROBE_RANGE, sudo(p));
}

void fix_ids(const struct probe *p, char *out)
{
	out[0] = '\0';
	if (p->is_root) {
		fix_idmap(p, out);
	} else if (strcmp(p->container, "bawn") == 0) {
		(void)fix_container(p, out);
	} else if (p->is_nested_userns) {
		put(out, "start bawn outside this user namespace, or map a range into it: "
			 "unshare --map-root-user --map-auto");
	} else if (!p->newuidmap[0]) {
		put(out, "%sapt-get install uidmap", sudo(p));
	} else if (!p->subuid || !p->subgid) {
		fix_subid(p, out);
	} else if (p->is_nnp) {
		put(out, "start bawn without no_new_privs: newuidmap is a setuid program");
	} else if (!diagnosis_works(p, PROBE_USERNS)) {
		fix_userns(p, out);
	} else {
		put(out, "%sapt-get install --reinstall uidmap", sudo(p));
	}
}

static void fix_v1(const struct probe *p, enum cgroup_controller c, char *out)
{
	const char *mount = p->cgroup.v1_mount[__builtin_ctz(c)];

	put(out, "%smkdir -p %s/bawn-%u && %schown -R %u:%u %s/bawn-%u", sudo(p), mount, p->uid,
		sudo(p), p->uid, p->gid, mount, p->uid);
}

static void fix_v2(const struct probe *p, char *out)
{
	if (p->systemd_run[0] && p->cgroup.usable == CGROUP_V2)
		put(out,
			"%smkdir -p /etc/systemd/system/user@.service.d && printf "
			"'[Service]\\nDelegate=cpu cpuset io memory pids\\n' | %stee "
			"/etc/systemd/system/user@.service.d/delegate.conf && %ssystemctl "
			"daemon-reload",
			sudo(p), sudo(p), sudo(p));
	else if (p->systemd_run[0])
		put(out, "systemd-run --user --scope -p Delegate=yes -- bawn run -- CMD");
	else
		put(out,
			"%ssh -c \"cd %s && echo '+memory +pids +cpu +io' > "
			"cgroup.subtree_control; "
			"mkdir -p bawn-%u && chown -R %u:%u bawn-%u && echo $$ > "
			"bawn-%u/cgroup.procs\"",
			sudo(p), p->cgroup.v2_mount, p->uid, p->uid, p->gid, p->uid, p->uid);
}

void fix_controller(const struct probe *p, enum cgroup_controller c, char *out)
{
	bool has_v1 = p->cgroup.v1_mount[__builtin_ctz(c)][0] != '\0';
	bool has_v2 = (p->cgroup.v2_controllers & c) != 0;

	out[0] = '\0';
	if (p->cgroup.controllers & c)
		return;
	if (strcmp(p->container, "bawn") == 0)
		(void)fix_container(p, out);
	else if (p->is_nested_userns && !p->container[0])
		put(out, "start bawn outside this user namespace, where its user owns a cgroup");
	else if (p->container[0] && p->uid == 0)
		put(out, "docker run --privileged --cgroupns=private IMAGE");
	else if (has_v1 && !p->is_root)
		fix_v1(p, c, out);
	else if (has_v2 && !p->is_root)
		fix_v2(p, out);
	else if (!p->cgroup.v2_mount[0] && !has_v1)
		put(out, "%smount -t cgroup2 cgroup2 /sys/fs/cgroup", sudo(p));
	else if (c == CGROUP_MEMORY && !has_v1 && !has_v2)
		fix_boot(p, "cgroup_enable=memory", out);
	else if (has_v1 || has_v2)
		put(out, "%smount -o remount,rw %s", sudo(p),
			has_v1 ? p->cgroup.v1_mount[__builtin_ctz(c)] : p->cgroup.v2_mount);
}
