/* SPDX-License-Identifier: Apache-2.0 */

/*
 * System calls and filters, tried. Each call is made so that a kernel that has it
 * succeeds: ENOSYS then means an old kernel or a filter, EPERM a filter.
 */
#include "sys/probe_impl.h"

#include "base/own.h"
#include "sys/kernel_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int set_nnp(const void *arg, struct err *err)
{
	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(err, "set no_new_privs");
	return 0;
}

static int install(struct sock_filter *filter, unsigned short n, unsigned flags, struct err *err)
{
	struct sock_fprog program = {.len = n, .filter = filter};
	int r = set_nnp(NULL, err);

	if (r < 0)
		return r;
	r = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	if (r < 0)
		return err_sys(err, "install a filter");
	return r;
}

static int try_seccomp(const void *arg, struct err *err)
{
	struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};

	(void)arg;
	return install(allow, 1, 0, err);
}

/* The grandchild's getppid() is shown to us; we let it go on; it must see its parent. */
static int hear_one_call(int listener, pid_t pid, struct err *err)
{
	struct seccomp_notif event = {0};
	struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
	int status = 0;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &event) < 0)
		return err_sys(err, "receive a notification");
	answer.id = event.id;
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0)
		return err_sys(err, "answer a notification");
	if (waitpid(pid, &status, 0) < 0)
		return err_sys(err, "wait for the watched call");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, EIO, "continue a watched call: no");
	return 0;
}

static int try_notify(const void *arg, struct err *err)
{
	struct sock_filter watch[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	AUTO_FD int listener = -EBADF;
	pid_t self = getpid();
	pid_t pid;
	int r;

	(void)arg;
	/* EBUSY if one of the filters around us has a listener already: one per task. */
	listener = install(
		watch, sizeof(watch) / sizeof(watch[0]), SECCOMP_FILTER_FLAG_NEW_LISTENER, err);
	if (listener < 0)
		return listener;
	pid = probe_clone(0);
	if (pid < 0)
		return err_sys(err, "clone");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(getppid() == self ? 0 : 1);
	}
	r = hear_one_call(listener, pid, err);
	(void)kill(pid, SIGKILL);
	return r;
}

static int try_clone3(const void *arg, struct err *err)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	(void)arg;
	if (pid < 0)
		return err_sys(err, "clone3");
	if (pid == 0)
		_exit(0);
	(void)waitpid((pid_t)pid, NULL, 0);
	return 0;
}

static int try_openat2(const void *arg, struct err *err)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
	AUTO_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

	(void)arg;
	return fd < 0 ? err_sys(err, "openat2") : 0;
}

static int try_pidfd(const void *arg, struct err *err)
{
	AUTO_FD int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	(void)arg;
	if (fd < 0)
		return err_sys(err, "pidfd_open");
	if (syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
		return err_sys(err, "pidfd_send_signal");
	return 0;
}

static int try_close_range(const void *arg, struct err *err)
{
	(void)arg;
	if (syscall(SYS_close_range, ~0u, ~0u, 0) < 0)
		return err_sys(err, "close_range");
	return 0;
}

static int try_mount_api(const void *arg, struct err *err)
{
	AUTO_FD int fd = open_tree(AT_FDCWD, "/", OPEN_TREE_CLOEXEC);

	(void)arg;
	return fd < 0 ? err_sys(err, "open_tree") : 0;
}

/* Without privilege it cannot succeed, but a size of 0 is refused before that is looked at. */
static int try_mount_setattr(const void *arg, struct err *err)
{
	(void)arg;
	if (mount_setattr(-1, "", AT_EMPTY_PATH, NULL, 0) < 0 && errno != EINVAL)
		return err_sys(err, "mount_setattr");
	return 0;
}

static int try_memfd(const void *arg, struct err *err)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	AUTO_FD int fd = memfd_create("probe", flags | MFD_EXEC);
	struct stat st;

	(void)arg;
	/* COMPAT(6.3): older kernels do not know MFD_EXEC, and always give the x bits. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("probe", flags);
	if (fd < 0)
		return err_sys(err, "memfd_create");
	if (fstat(fd, &st) < 0 || !(st.st_mode & 0100))
		return err_set(err, EACCES, "make a memfd executable: no");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_sys(err, "seal a memfd");
	return 0;
}

/* EOPNOTSUPP: built in, but not among the modules chosen at boot. */
static void ask_landlock(struct probe *p)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	p->landlock_code = abi < 0 ? errno : 0;
	p->landlock_abi = abi < 0 ? 0 : (int)abi;
}

void probe_calls(struct probe *p)
{
	static const struct {
		enum probe_item item;
		probe_fn fn;
	} tries[] = {
		{PROBE_NNP, set_nnp},
		{PROBE_SECCOMP, try_seccomp},
		{PROBE_SECCOMP_NOTIFY, try_notify},
		{PROBE_CLONE3, try_clone3},
		{PROBE_OPENAT2, try_openat2},
		{PROBE_PIDFD, try_pidfd},
		{PROBE_CLOSE_RANGE, try_close_range},
		{PROBE_MOUNT_API, try_mount_api},
		{PROBE_MOUNT_SETATTR, try_mount_setattr},
		{PROBE_MEMFD, try_memfd},
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		probe_try(&p->tries[tries[i].item], 0, tries[i].fn, NULL);
	ask_landlock(p);
}
