/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/command - the process that becomes the command: puts its own walls on, reads all
 * of them back from the kernel, refuses if one is missing, execs. No allocation.
 */
#include "base/own.h"
#include "base/text.h"
#include "run/process/box_impl.h"
#include "sys/caps.h"
#include "sys/process.h"
#include "sys/sock.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>

const char *const wire_namespace_names[WIRE_NS_COUNT] = {
	[WIRE_NS_USER] = "user",
	[WIRE_NS_MNT] = "mnt",
	[WIRE_NS_PID] = "pid",
	[WIRE_NS_NET] = "net",
	[WIRE_NS_IPC] = "ipc",
	[WIRE_NS_UTS] = "uts",
	[WIRE_NS_CGROUP] = "cgroup",
};

static _Noreturn void fail(int sock, int status, int wall, const struct err *e)
{
	struct wire w = {.type = WIRE_ERR, .number = status, .wall = wall, .err = *e};
	struct err ignored;

	(void)sock_send(sock, &w, sizeof(w), NULL, 0, &ignored);
	_exit(status);
}

/* Job control as a shell would set it up: own group, in front of the terminal. */
static int take_session(const struct box *b, int slave, struct err *err)
{
	if (b->spec->walls[WALL_TTY] == WALL_LEVEL_OFF)
		return 0;
	if (slave < 0)
		return setsid() < 0 ? err_sys(err, "wall 'tty': new session") : 0;
	if (setpgid(0, 0) < 0)
		return err_sys(err, "wall 'tty': new process group");
	(void)signal(SIGTTOU, SIG_IGN);
	if (tcsetpgrp(slave, getpid()) < 0)
		return err_sys(err, "wall 'tty': come to the front");
	(void)signal(SIGTTOU, SIG_DFL);
	return 0;
}

static int place_stdio(const struct box *b, int slave, struct err *err)
{
	int fds[3];

	/* Out of the way first: a caller's stderr may be its descriptor 0. */
	for (int i = 0; i < 3; i++) {
		int from = b->o->stdio[i];

		if (slave >= 0 && from >= 0 && isatty(from))
			from = slave;
		fds[i] = from < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC)
				  : fcntl(from, F_DUPFD_CLOEXEC, 1000);
		if (fds[i] < 0 && from >= 0)
			fds[i] = fcntl(from, F_DUPFD_CLOEXEC, 3); /* a small RLIMIT_NOFILE */
		if (fds[i] < 0)
			return err_sys(err, "set up descriptor %d", i);
	}
	for (int i = 0; i < 3; i++) {
		if (dup2(fds[i], i) < 0)
			return err_sys(err, "set up descriptor %d", i);
		closep(&fds[i]);
	}
	return 0;
}

/* Descriptors that have other numbers inside; nothing of ours may stand in their place. */
static int place_passed(const struct box *b, int *sock, struct err *err)
{
	for (size_t i = 0; b->o->pass_as && i < b->o->pass_fds_n; i++) {
		int to = b->o->pass_as[i];

		if (*sock == to)
			*sock = fcntl(*sock, F_DUPFD_CLOEXEC, to + 1);
		if (*sock < 0 || dup2(b->o->pass_fds[i], to) < 0)
			return err_sys(err, "set up descriptor %d", to);
	}
	return 0;
}

static uint64_t fs_type(const char *path)
{
	struct statfs st;

	return statfs(path, &st) == 0 ? (uint64_t)st.f_type : 0;
}

static uint64_t hard_limit(int resource)
{
	struct rlimit l;

	return getrlimit((__rlimit_resource_t)resource, &l) == 0 ? l.rlim_max : RLIM_INFINITY;
}

/* By system call: /proc/self/status says the same, and costs ten times as much. */
static void read_privileges(struct wire_readback *rb)
{
	rb->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	rb->seccomp = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
	rb->cap_effective = caps_effective();
	for (int c = 0; c < 64; c++) {
		int has = prctl(PR_CAPBSET_READ, c, 0, 0, 0);

		if (has < 0)
			break; /* past the last one this kernel knows */
		if (has)
			rb->cap_bounding |= 1ull << c;
	}
}

static bool is_hidden_file(const char *path)
{
	struct stat st;

	/* Masked by our blank file: empty, on the store. Absent is as good. */
	if (stat(path, &st) < 0)
		return true;
	return S_ISREG(st.st_mode) && st.st_size == 0 && fs_type(path) != 0x9fa0;
}

static void read_back(const struct box *b, const struct apply *a, struct wire_readback *rb)
{
	struct statvfs v;

	memset(rb, 0, sizeof(*rb));
	/* As root bawn has read them from outside; but this one may have been made since. */
	for (int i = 0; i < WIRE_NS_COUNT; i++)
		if (!b->facts.is_host_root || (i == WIRE_NS_CGROUP && b->plan.late_cgroupns))
			rb->namespaces[i] = process_namespace(0, wire_namespace_names[i]);
	read_privileges(rb);
	rb->root_type = fs_type("/");
	rb->proc_type = fs_type("/proc");
	rb->dev_type = fs_type("/dev");
	rb->sys_type = fs_type("/sys");
	rb->are_kernel_files_masked = is_hidden_file("/proc/kcore") && is_hidden_file("/proc/keys");
	rb->is_root_readonly = statvfs("/", &v) == 0 && (v.f_flag & ST_RDONLY);
	if (statvfs("/tmp", &v) == 0)
		rb->tmp_size = (uint64_t)v.f_blocks * v.f_frsize;
	rb->nofile = hard_limit(RLIMIT_NOFILE);
	rb->core = hard_limit(RLIMIT_CORE);
	rb->nproc = hard_limit(RLIMIT_NPROC);
	rb->data = hard_limit(RLIMIT_DATA);
	rb->fsize = hard_limit(RLIMIT_FSIZE);
	rb->uid = getuid();
	rb->gid = getgid();
	rb->nice = getpriority(PRIO_PROCESS, 0);
	rb->has_landlock = a->is_landlocked;
	rb->links = b->links;
}

/* Along PATH, as a shell does; EACCES is remembered while looking on. */
static int exec_in_path(const char *name, char *const argv[], char *const envp[])
{
	const char *path = NULL;
	char full[PATH_MAX];
	int best = ENOENT;

	for (char *const *e = envp; *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	if (strchr(name, '/') || !path) {
		(void)execve(name, argv, envp);
		return errno;
	}
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, ":");
		int len = snprintf(full, sizeof(full), "%.*s%s%s", (int)n, p, n ? "/" : "", name);

		if (len > 0 && (size_t)len < sizeof(full)) {
			(void)execve(full, argv, envp);
			if (errno != ENOENT && errno != ENOTDIR)
				best = errno;
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
				return best;
		}
		p += n;
		if (!*p)
			return best;
	}
}

static _Noreturn void start(struct box *b, int sock)
{
	char **argv = b->plan.argv.v, **envp = b->plan.env.v;
	struct err err = {0};
	char quoted[128];

	if (b->o->exec_fd >= 0) {
		(void)syscall(SYS_execveat, b->o->exec_fd, "", argv, envp, AT_EMPTY_PATH);
	} else {
		errno = exec_in_path(argv[0], argv, envp);
	}
	(void)err_sys(&err, "'%s'", text_quote(argv[0], quoted, sizeof(quoted)));
	fail(sock, err.code == ENOENT ? 127 : 126, -1, &err);
}

static struct apply command_apply;

_Noreturn void command_main(struct box *b, int slave)
{
	struct wire w = {.type = WIRE_READY};
	struct apply *a = &command_apply;
	int sock = b->command_peer;
	struct err err = {0};
	int r;

	closep(&b->init_peer);
	(void)umask(b->umask);
	apply_init(a, &b->plan);
	a->keep_fds = b->o->pass_as ? b->o->pass_as : b->o->pass_fds;
	a->keep_n = b->o->pass_fds_n;
	r = take_session(b, slave, &err);
	if (r >= 0)
		r = place_stdio(b, slave, &err);
	if (r >= 0)
		r = place_passed(b, &sock, &err);
	if (r >= 0)
		r = apply_side(a, OP_SIDE_COMMAND, &err);
	if (r < 0)
		fail(sock, 125, a->failed, &err);
	read_back(b, a, &w.readback);
	b->readback = w.readback;
	b->listener_fd = a->listener_fd;
	r = verify_walls(b, &err);
	if (r < 0)
		fail(sock, 125, -1, &err);
	r = sock_send(sock, &w, sizeof(w), &a->listener_fd, a->listener_fd >= 0 ? 1 : 0, &err);
	if (r < 0)
		fail(sock, 125, a->failed, &err);
	(void)sigprocmask(SIG_SETMASK, &b->old_mask, NULL);
	start(b, sock);
}
