/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/explain - turn what a wall refused into a violation a person or an agent understands.
 *
 * Sources: seccomp notifications (refused calls; and, only to explain, connects
 * and writes, which then go on and meet the wall itself), the cgroup's counters, the
 * store's free space, and names of hidden paths in the command. What is read of
 * the caller's memory can change under us: it decides nothing but a message.
 */
#include "base/own.h"
#include "run/process/box_impl.h"
#include "sys/seccomp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

static bool read_memory(pid_t pid, uint64_t address, void *to, size_t n)
{
	struct iovec local = {.iov_base = to, .iov_len = n};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = n};

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* A string of unknown length: page by page, so that the end of a mapping is no obstacle. */
static bool read_string(pid_t pid, uint64_t address, char *to, size_t size)
{
	size_t used = 0;

	while (used < size) {
		size_t n = 4096 - (size_t)((address + used) & 4095);

		if (n > size - used)
			n = size - used;
		if (!read_memory(pid, address + used, to + used, n))
			return false;
		if (memchr(to + used, 0, n))
			return true;
		used += n;
	}
	return false;
}

static void explain_connect(struct box *b, const struct seccomp_event *ev)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a;
	size_t n = ev->args[2] > sizeof(a) ? sizeof(a) : ev->args[2];
	char host[INET6_ADDRSTRLEN] = "", tried[128];
	unsigned port = 0;

	if (b->spec->want_road)
		return; /* who serves the road explains what it refuses */
	memset(&a, 0, sizeof(a));
	if (n < sizeof(a.sa.sa_family) || !read_memory(ev->pid, ev->args[1], &a, n))
		return;
	if (a.sa.sa_family == AF_INET) {
		if ((ntohl(a.in.sin_addr.s_addr) >> 24) == 127 || a.in.sin_addr.s_addr == 0)
			return;
		(void)inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof(host));
		port = ntohs(a.in.sin_port);
	} else if (a.sa.sa_family == AF_INET6) {
		if (IN6_IS_ADDR_LOOPBACK(&a.in6.sin6_addr) ||
			IN6_IS_ADDR_UNSPECIFIED(&a.in6.sin6_addr))
			return;
		(void)inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof(host));
		port = ntohs(a.in6.sin6_port);
	} else {
		return;
	}
	(void)snprintf(tried, sizeof(tried), "connect to %s port %u", host, port);
	violation_add(&b->result->violations, WALL_NET, "connect", tried,
		"this sandbox has no network (--net none); fetch what it needs before the run, or "
		"serve it "
		"on its own localhost");
}

/*
 * Which argument of a watched call is the path, and which its directory (-1: the working
 * directory).
 */
static bool path_arguments(int nr, int *ret_dir, int *ret_path)
{
	*ret_dir = -1;
	*ret_path = 0;
	switch (nr) {
	case SYS_openat:
	case SYS_openat2:
	case SYS_mkdirat:
	case SYS_unlinkat:
	case SYS_fchmodat:
	case SYS_fchownat:
	case SYS_mknodat:
	case SYS_utimensat:
		*ret_dir = 0;
		*ret_path = 1;
		return true;
	case SYS_renameat2:
	case SYS_renameat:
	case SYS_linkat:
		*ret_dir = 2;
		*ret_path = 3;
		return true;
	case SYS_symlinkat:
		*ret_dir = 1;
		*ret_path = 2;
		return true;
#ifdef SYS_rename
	case SYS_rename:
	case SYS_link:
	case SYS_symlink: *ret_path = 1; return true;
	case SYS_open:
	case SYS_creat:
	case SYS_mkdir:
	case SYS_rmdir:
	case SYS_unlink:
	case SYS_chmod:
	case SYS_chown:
	case SYS_lchown:
	case SYS_mknod:
#endif
	case SYS_truncate: return true;
	default: return false;
	}
}

/* The path as the caller means it, absolute, textually clean. */
static bool absolute_path(const struct seccomp_event *ev, char *out, size_t size)
{
	char path[PATH_MAX], link[64], base[PATH_MAX] = "/";
	AUTO_FREE char *clean = NULL;
	struct err ignored;
	int dir, arg;
	ssize_t n;

	if (!path_arguments(ev->nr, &dir, &arg) ||
		!read_string(ev->pid, ev->args[arg], path, sizeof(path)))
		return false;
	if (path[0] != '/') {
		if (dir >= 0 && (int)ev->args[dir] != AT_FDCWD)
			(void)snprintf(
				link, sizeof(link), "/proc/%d/fd/%d", ev->pid, (int)ev->args[dir]);
		else
			(void)snprintf(link, sizeof(link), "/proc/%d/cwd", ev->pid);
		n = readlink(link, base, sizeof(base) - 1);
		if (n <= 0)
			return false;
		base[n] = 0;
		if (base[0] != '/')
			return false;
	}
	if (text_path_clean(path, base, &clean, &ignored) < 0 || strlen(clean) >= size)
		return false;
	memcpy(out, clean, strlen(clean) + 1);
	return true;
}

/* True if the deepest existing part of path, in the caller's root, is on a read-only mount. */
static bool is_readonly_there(pid_t pid, char *path)
{
	char link[64];
	AUTO_FD int root = -EBADF;

	(void)snprintf(link, sizeof(link), "/proc/%d/root", pid);
	root = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return false;
	for (;;) {
		struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
		AUTO_FD int fd =
			(int)syscall(SYS_openat2, root, *path ? path : "/", &how, sizeof(how));
		struct statvfs v;
		char *slash;

		if (fd >= 0)
			return fstatvfs(fd, &v) == 0 && (v.f_flag & ST_RDONLY);
		slash = strrchr(path, '/');
		if ((errno != ENOENT && errno != ENOTDIR) || !slash || slash == path + strlen(path))
			return false;
		*slash = 0;
	}
}

static bool is_protected(const struct host_view *v, const char *path)
{
	for (size_t i = 0; i < v->protect.n; i++)
		if (text_path_below(path, v->protect.v[i]))
			return true;
	return false;
}

static void explain_write(struct box *b, const struct seccomp_event *ev)
{
	char path[PATH_MAX], existing[PATH_MAX], quoted[200], tried[256], instead[200];

	if (!absolute_path(ev, path, sizeof(path)))
		return;
	/* Opening a device or one's own /proc file for writing changes no file. */
	if (text_path_below(path, "/dev") || text_path_below(path, "/proc"))
		return;
	memcpy(existing, path, sizeof(path));
	if (!is_readonly_there(ev->pid, existing))
		return;
	(void)text_quote(path, quoted, sizeof(quoted));
	(void)snprintf(tried, sizeof(tried), "write to '%s'", quoted);
	if (is_protected(&b->view, path)) {
		violation_add(&b->result->violations, WALL_MASKS, "protected", tried,
			"hooks, rc files and settings stay read-only; --no-protect allows it");
		return;
	}
	/* --rw takes what exists: the path itself, or the deepest directory above it. */
	(void)text_quote(*existing ? existing : "/", quoted, sizeof(quoted));
	(void)snprintf(instead, sizeof(instead),
		"only the working directory and /tmp are writable; --rw %.130s allows it", quoted);
	violation_add(&b->result->violations, WALL_ROOT, "write", tried, instead);
}

static void explain_refusal(struct box *b, const struct seccomp_event *ev)
{
	const char *name = seccomp_syscall_name(ev->nr);
	char tried[128];

	if (ev->nr == SYS_socket)
		(void)snprintf(tried, sizeof(tried), "socket(family %d, type %d, protocol %d)",
			(int)ev->args[0], (int)ev->args[1], (int)ev->args[2]);
	else if (ev->nr == SYS_clone || ev->nr == SYS_unshare)
		(void)snprintf(tried, sizeof(tried), "%s(flags 0x%llx)", name ? name : "?",
			(unsigned long long)ev->args[0]);
	else if (ev->nr == SYS_ioctl)
		(void)snprintf(tried, sizeof(tried), "ioctl(0x%x)", (unsigned)ev->args[1]);
	else
		(void)snprintf(tried, sizeof(tried), "%s()", name ? name : "system call");
	violation_add(&b->result->violations, WALL_SECCOMP, "syscall", tried,
		"this call reaches the kernel or other boxes and is refused; --wall seccomp=off "
		"allows it "
		"if you trust the command");
}

bool explain_notification(struct box *b)
{
	/* A bounded number per turn: a flood must not starve signals and the terminal. */
	for (int i = 0; i < 32; i++) {
		struct seccomp_event ev;
		struct err err = {0};

		if (seccomp_receive(b->listener_fd, &ev, &err) < 0)
			return false;
		if (!ev.is_watch)
			explain_refusal(b, &ev);
		else if (ev.nr == SYS_connect)
			explain_connect(b, &ev);
		else
			explain_write(b, &ev);
		/* The caller may have been killed meanwhile: then there is nobody to answer. */
		(void)seccomp_answer(b->listener_fd, &ev, &err);
	}
	return true;
}

static void explain_limits(struct box *b)
{
	struct box_result *r = b->result;
	struct cgroup_usage u = {0};
	struct err ignored;
	char tried[96];

	if (b->cgroup && cgroup_read_usage(b->cgroup, &u, &ignored) >= 0) {
		if (u.memory_peak)
			r->memory_peak = u.memory_peak;
		if (u.cpu_us)
			r->cpu_us = u.cpu_us;
		r->oom_killed |= u.oom_kills > 0;
	}
	/* Without a cgroup a process meets RLIMIT_DATA, which counts nothing: judge by the peak. */
	if ((b->plan.watch & PLAN_WATCH_MEMORY) && r->exit_status != 0 &&
		r->memory_peak > b->spec->limits.memory_max / 10 * 8)
		r->oom_killed = true;
	if (r->oom_killed) {
		(void)snprintf(tried, sizeof(tried), "use more than %llu MiB of memory",
			(unsigned long long)(b->spec->limits.memory_max >> 20));
		violation_add(
			&r->violations, WALL_MEMORY, "memory", tried, "give it more with --memory");
	}
	if (u.pids_refused || b->was_crowded) {
		(void)snprintf(tried, sizeof(tried), "have more than %llu processes at once",
			(unsigned long long)b->spec->limits.pids_max);
		violation_add(&r->violations, WALL_PIDS, "pids", tried, "allow more with --pids");
	}
}

static void explain_store(struct box *b)
{
	struct statfs st;
	char tried[96];

	if (b->store_fd < 0 || b->spec->limits.disk_max == 0 || fstatfs(b->store_fd, &st) < 0)
		return;
	/* Nearly full counts: the write that failed was larger than what is left. */
	if (st.f_bavail > st.f_blocks / 64 && (st.f_files == 0 || st.f_ffree > st.f_files / 64))
		return;
	(void)snprintf(tried, sizeof(tried), "keep more than %llu MiB or %llu files",
		(unsigned long long)(b->spec->limits.disk_max >> 20),
		(unsigned long long)st.f_files);
	violation_add(&b->result->violations, WALL_DISK, "disk", tried, "give it more with --disk");
}

/* A command that failed and names a hidden path most likely failed on it. */
static void explain_hidden(struct box *b)
{
	const struct strv *lists[] = {&b->view.hidden_dirs, &b->view.hidden_files};
	char quoted[120], tried[200], instead[200];

	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			for (size_t j = 0; j < b->plan.argv.n; j++) {
				const char *path = lists[k]->v[i];

				if (!strstr(b->plan.argv.v[j], path))
					continue;
				(void)text_quote(path, quoted, sizeof(quoted));
				(void)snprintf(tried, sizeof(tried), "read '%s'", quoted);
				(void)snprintf(instead, sizeof(instead),
					"it is hidden because it may hold secrets; --ro %s shows "
					"it",
					quoted);
				violation_add(&b->result->violations, WALL_MASKS, "hidden", tried,
					instead);
				break;
			}
}

void explain_end(struct box *b)
{
	explain_limits(b);
	if (b->result->exit_status != 0) {
		explain_store(b);
		explain_hidden(b);
	}
}
