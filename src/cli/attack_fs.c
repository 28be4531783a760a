/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_fs - group fs: reach or change the host's files by name, link or descriptor.
 *
 * Mount games are in attack_mounts, /proc, /sys and /dev in attack_proc. Runs in
 * the box, and in control runs outside it.
 */
#include "cli/attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define WAY_UP "../../../../../../../../../../../../../../../.."

static int host_file(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return attack_read_secret(c, AT_FDCWD, c->canary, r);
}

static int dot_dot(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[2 * ATTACK_PATH_SIZE];

	(void)a;
	if (root < 0)
		return attack_absent(r, "open /");
	(void)snprintf(path, sizeof(path), WAY_UP "%s", c->canary);
	return attack_read_secret(c, root, path, r);
}

static int link_and_read(
	const struct attack_ctx *c, const char *dir, const char *target, struct attack_report *r)
{
	char link[2 * ATTACK_PATH_SIZE];
	int verdict;

	(void)snprintf(link, sizeof(link), "%s/link-%d", dir, getpid());
	if (symlink(target, link) < 0)
		return attack_absent(r, "symlink in %s: %s", dir, strerror(errno));
	verdict = attack_read_secret(c, AT_FDCWD, link, r);
	(void)unlink(link);
	return verdict;
}

static int symlink_absolute(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return link_and_read(c, c->scratch, c->canary, r);
}

/* The shared directory's parent on the host holds the canary: ".." must not lead there. */
static int symlink_shared(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return link_and_read(c, c->shared, "../canary", r);
}

static int proc_root(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_DIR DIR *d = opendir("/proc");
	struct dirent *e;

	(void)a;
	if (!d)
		return attack_refused(r, "open /proc");
	while ((e = readdir(d)) != NULL) {
		char path[2 * ATTACK_PATH_SIZE];

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%.16s/root%s", e->d_name, c->canary);
		if (attack_read_secret(c, AT_FDCWD, path, r) == ATTACK_BROKE)
			return ATTACK_BROKE;
	}
	errno = r->err;
	return attack_refused(r, "/proc/*/root%s", c->canary);
}

/*
 * runc's CVE-2019-5736: open our own executable, and write to it when it no longer
 * runs. While it runs the kernel says ETXTBSY; only the seal outlives that.
 */
static int exe_overwrite(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int rd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	AUTO_FD int wr = open("/proc/self/exe", O_WRONLY | O_CLOEXEC);
	char first = 0;
	int seals;

	(void)a;
	(void)c;
	if (rd < 0)
		return attack_absent(r, "open /proc/self/exe");
	/* The first byte is written back as it is: a success changes nothing. */
	if (wr >= 0 && pread(rd, &first, 1, 0) == 1 && pwrite(wr, &first, 1, 0) == 1)
		return attack_broke(r, "wrote to the running program");
	if (wr >= 0)
		return attack_refused(r, "write to /proc/self/exe");
	if (errno != ETXTBSY)
		return attack_refused(r, "open /proc/self/exe for writing");
	seals = fcntl(rd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_WRITE))
		return attack_broke(r, "the program is a plain file, writable once it has ended");
	errno = EPERM;
	return attack_refused(r, "/proc/self/exe is sealed against writing");
}

static int leaked_fd(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	return attack_read_secret(c, ATTACK_LEAK_FD, "canary", r);
}

static int any_fd(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	for (int fd = 3; fd < 1024; fd++) {
		if (fd == c->report_fd || fd == c->ctx_fd || fd == c->hold_fd)
			continue;
		if (fcntl(fd, F_GETFD) >= 0)
			return attack_broke(r, "descriptor %d is open", fd);
	}
	errno = EBADF;
	return attack_refused(r, "descriptors 3 to 1023");
}

/* runc's CVE-2024-21626: a working directory outside of the new root. */
static int leaked_cwd(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char path[2 * ATTACK_PATH_SIZE], cwd[ATTACK_PATH_SIZE];

	(void)a;
	(void)snprintf(path, sizeof(path), "/proc/self/cwd/" WAY_UP "%s", c->canary);
	if (attack_read_secret(c, AT_FDCWD, path, r) == ATTACK_BROKE)
		return ATTACK_BROKE;
	errno = r->err;
	(void)attack_refused(r, "%s", path);
	if (getcwd(cwd, sizeof(cwd)) && cwd[0] != '/')
		return attack_broke(r, "the working directory is outside of the root: %s", cwd);
	return r->verdict;
}

/* A descriptor given for reading, opened again for writing by its magic link. */
static int reopen_stdin(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = open("/proc/self/fd/0", O_WRONLY | O_APPEND | O_CLOEXEC);

	(void)a;
	(void)c;
	if (fd < 0)
		return attack_refused(r, "open /proc/self/fd/0 for writing");
	return attack_broke(r, "a host file given read-only was opened for writing");
}

static int hard_link(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char link_name[2 * ATTACK_PATH_SIZE];
	int saved;

	(void)a;
	(void)snprintf(link_name, sizeof(link_name), "%s/hard-%d", c->shared, getpid());
	if (link(c->canary, link_name) == 0 || link("/usr/bin/env", link_name) == 0) {
		(void)unlink(link_name);
		return attack_broke(r, "linked a host file into the shared directory");
	}
	saved = errno;
	(void)unlink(link_name);
	errno = saved;
	return attack_refused(r, "link /usr/bin/env");
}

/* A setuid program in a shared directory is run by the host's users, not by the box. */
static int setuid_plant(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = -EBADF;
	char path[2 * ATTACK_PATH_SIZE];
	struct stat st;
	int n = 0, saved = 0;

	(void)a;
	(void)snprintf(path, sizeof(path), "%s/setuid-%d", c->shared, getpid());
	fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0755);
	if (fd < 0)
		return attack_absent(r, "create %s: %s", path, strerror(errno));
	if (fchmod(fd, 04755) == 0 || chmod(path, 04755) == 0 || chmod(path, 02755) == 0)
		n = 1;
	else
		saved = errno;
	if (n == 1 && fstat(fd, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)))
		n = 2;
	(void)unlink(path);
	if (n == 2)
		return attack_broke(r, "a setuid file in the shared directory");
	errno = n == 1 ? EPERM : saved;
	return attack_refused(r, "chmod u+s");
}

static bool gained_root(pid_t pid)
{
	char path[64], line[256];
	AUTO_FILE FILE *f = NULL;
	uint64_t ids[4] = {0};

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *at = line + 4;

		if (strncmp(line, "Uid:", 4) != 0)
			continue;
		for (int i = 0; i < 4; i++)
			if (text_scan_u64(&at, &ids[i]) < 0)
				return false;
		return ids[0] != 0 && ids[1] == 0;
	}
	return false;
}

/*
 * Execute su with a full pipe as its output: it blocks in its first write, and
 * shows in /proc/<pid>/status which ids the kernel gave it.
 */
static int setuid_exec(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char fill[4096] = "";
	bool is_root = false;
	int out[2];
	pid_t pid;

	(void)a;
	(void)c;
	if (access("/usr/bin/su", X_OK) < 0)
		return attack_absent(r, "no /usr/bin/su here");
	if (pipe2(out, O_NONBLOCK | O_CLOEXEC) < 0)
		return attack_absent(r, "pipe");
	while (write(out[1], fill, sizeof(fill)) > 0)
		continue;
	pid = fork();
	if (pid == 0) {
		(void)fcntl(out[1], F_SETFL, 0);
		(void)dup2(out[1], STDOUT_FILENO);
		(void)dup2(out[1], STDERR_FILENO);
		(void)execl("/usr/bin/su", "su", "--help", (char *)NULL);
		_exit(127);
	}
	if (pid < 0)
		return attack_absent(r, "fork");
	/* The program name changes at the exec; 200 looks of 5 ms are the bound, not the wait. */
	for (int i = 0; i < 200; i++) {
		char path[64], name[32] = "";
		AUTO_FILE FILE *f = NULL;

		(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		f = fopen(path, "re");
		if (f && fgets(name, sizeof(name), f) && strcmp(name, "su\n") == 0)
			break;
		(void)poll(NULL, 0, 5);
	}
	is_root = gained_root(pid);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	if (is_root)
		return attack_broke(r, "su runs with effective uid 0");
	errno = EPERM;
	return attack_refused(r, "su runs without effective uid 0");
}

static int no_new_privs(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	int value = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);

	(void)a;
	(void)c;
	if (value == 0)
		return attack_broke(r, "no_new_privs is not set");
	if (prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
		return attack_broke(r, "no_new_privs could be taken back");
	return attack_refused(r, "prctl(PR_SET_NO_NEW_PRIVS, 0)");
}

static void usr_path(const struct attack_ctx *c, char *path, size_t path_size)
{
	(void)snprintf(path, path_size, "/usr/bin/.bawn-attack-%.8s", c->secret);
}

/* Root of the box may have a layer of its own over /usr: whose file it is, the host tells. */
static int write_usr(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char path[ATTACK_PATH_SIZE];
	AUTO_FD int fd = -EBADF;

	(void)a;
	usr_path(c, path, sizeof(path));
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
	if (fd < 0)
		return attack_refused(r, "create a file in /usr/bin");
	errno = EXDEV;
	return attack_refused(r, "a file made in /usr/bin stayed in the box's own layer");
}

static void write_usr_judge(const struct attack *a, const struct attack_ctx *c,
	const struct box_result *result, struct attack_report *r)
{
	char path[ATTACK_PATH_SIZE];

	(void)a;
	(void)result;
	usr_path(c, path, sizeof(path));
	if (unlink(path) < 0)
		return;
	r->verdict = ATTACK_BROKE;
	(void)snprintf(r->text, sizeof(r->text), "a file appeared in the host's /usr/bin");
}

/* The same inode on the same file system: the box stands in the host's own tree. */
static int host_root(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	struct stat st;

	(void)a;
	if (stat("/", &st) < 0)
		return attack_refused(r, "stat /");
	if (st.st_dev == c->root_dev && st.st_ino == c->root_ino)
		return attack_broke(r, "/ is the host's root directory");
	errno = EXDEV;
	return attack_refused(r, "/ is another file system");
}

static int secret_in_home(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char path[2 * ATTACK_PATH_SIZE];

	(void)a;
	(void)snprintf(path, sizeof(path), "%s/.ssh/id_ed25519", c->home);
	return attack_read_secret(c, AT_FDCWD, path, r);
}

static int dotenv(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char path[2 * ATTACK_PATH_SIZE];

	(void)a;
	(void)snprintf(path, sizeof(path), "%s/.env", c->shared);
	return attack_read_secret(c, AT_FDCWD, path, r);
}

static int git_hook(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = -EBADF;
	char path[2 * ATTACK_PATH_SIZE];

	(void)a;
	(void)snprintf(path, sizeof(path), "%s/.git/hooks/pre-commit", c->shared);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	if (fd < 0)
		return attack_refused(r, "create .git/hooks/pre-commit");
	(void)unlink(path);
	return attack_broke(r, "planted .git/hooks/pre-commit");
}

static int git_rename(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	char from[2 * ATTACK_PATH_SIZE], to[2 * ATTACK_PATH_SIZE];

	(void)a;
	(void)snprintf(from, sizeof(from), "%s/.git", c->shared);
	(void)snprintf(to, sizeof(to), "%s/.git-away", c->shared);
	if (rename(from, to) < 0)
		return attack_refused(r, "rename .git");
	(void)rename(to, from);
	return attack_broke(r, "renamed .git away");
}

/* The host's tree is there to be read; nothing outside the given directories is writable. */
static int host_write(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const char *const dirs[] = {"/etc", "/usr/local/bin", "/var/lib"};

	(void)a;
	(void)c;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		AUTO_FD int dir = open(dirs[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		char name[64];
		AUTO_FD int fd = -EBADF;

		if (dir < 0)
			continue;
		(void)snprintf(name, sizeof(name), ".bawn-attack-%d", getpid());
		fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			continue;
		(void)unlinkat(dir, name, 0);
		return attack_broke(r, "created a file in %s", dirs[i]);
	}
	return attack_refused(r, "create a file in /etc, /usr/local/bin, /var/lib");
}

static const struct attack table[] = {
	{.name = "fs/host-file-by-path",
		.wall = WALL_ROOT,
		.success = "a host file outside of the box is read by its name",
		.try = host_file,
		.flags = ATTACK_CONTROL},
	{.name = "fs/host-root-directory",
		.wall = WALL_ROOT,
		.success = "the box stands in the host's tree",
		.try = host_root,
		.flags = ATTACK_CONTROL | ATTACK_BASE_ONLY},
	{.name = "fs/dot-dot-above-root",
		.wall = WALL_ROOT,
		.success = ".. leads above the root of the box",
		.try = dot_dot,
		.flags = ATTACK_CONTROL},
	{.name = "fs/symlink-to-host-file",
		.wall = WALL_ROOT,
		.success = "an absolute link is resolved in the host's tree",
		.try = symlink_absolute,
		.flags = ATTACK_CONTROL},
	{.name = "fs/symlink-out-of-shared-directory",
		.wall = WALL_ROOT,
		.success = "a relative link leaves the shared directory",
		.try = symlink_shared,
		.flags = ATTACK_CONTROL},
	{.name = "fs/proc-pid-root",
		.wall = WALL_PID,
		.success = "/proc/<pid>/root leads to the host's tree",
		.try = proc_root,
		.flags = ATTACK_CONTROL | ATTACK_AS_ROOT},
	{.name = "fs/proc-self-exe-overwrite-CVE-2019-5736",
		.wall = WALL_FDS,
		.success = "the program that started the box can be rewritten",
		.try = exe_overwrite,
		.flags = ATTACK_CONTROL | ATTACK_AS_ROOT,
		.expect = {EPERM}},
	{.name = "fs/leaked-directory-descriptor",
		.wall = WALL_FDS,
		.success = "openat() on an inherited host directory reads the canary",
		.try = leaked_fd,
		.flags = ATTACK_CONTROL},
	{.name = "fs/any-leaked-descriptor",
		.wall = WALL_FDS,
		.success = "a descriptor that was not given on purpose is open",
		.try = any_fd,
		.flags = ATTACK_CONTROL},
	{.name = "fs/leaked-working-directory-CVE-2024-21626",
		.wall = WALL_ROOT,
		.success = "the working directory is still on the host's tree",
		.try = leaked_cwd,
		.flags = ATTACK_CONTROL},
	{.name = "fs/reopen-stdin-for-writing",
		.wall = WALL_LANDLOCK,
		.success = "a host file given for reading becomes writable through /proc/self/fd",
		.try = reopen_stdin,
		.flags = ATTACK_CONTROL},
	{.name = "fs/hard-link-to-host-file",
		.wall = WALL_ROOT,
		.success = "a host file gets a second name in a directory the box may write",
		.try = hard_link,
		.flags = ATTACK_CONTROL},
	{.name = "fs/setuid-file-in-shared-directory",
		.wall = WALL_SECCOMP,
		.success = "the host's users find a setuid program of the box's making",
		.try = setuid_plant,
		.flags = ATTACK_CONTROL | ATTACK_AS_ROOT},
	{.name = "fs/setuid-program-gains-root",
		.wall = WALL_NNP,
		.success = "a setuid program gives root of the box to an ordinary user",
		.try = setuid_exec,
		.expect = {EPERM}},
	{.name = "fs/no-new-privs-taken-back",
		.wall = WALL_NNP,
		.success = "no_new_privs is off or can be switched off",
		.try = no_new_privs,
		.expect = {EINVAL}},
	{.name = "fs/write-to-usr",
		.wall = WALL_ROOT,
		.success = "a program can be added to the host's /usr",
		.try = write_usr,
		.judge = write_usr_judge,
		.flags = ATTACK_AS_ROOT,
		.expect = {EROFS, EXDEV, EACCES}},
	{.name = "fs/secret-key-in-home",
		.wall = WALL_MASKS,
		.success = "a private key in the caller's home is read",
		.try = secret_in_home,
		.flags = ATTACK_CONTROL | ATTACK_HOST_VIEW},
	{.name = "fs/dotenv-in-project",
		.wall = WALL_MASKS,
		.success = "the secrets in the project's .env are read",
		.try = dotenv,
		.flags = ATTACK_CONTROL | ATTACK_HOST_VIEW},
	{.name = "fs/plant-git-hook",
		.wall = WALL_MASKS,
		.success = "code waits in .git/hooks for the next commit on the host",
		.try = git_hook,
		.flags = ATTACK_CONTROL | ATTACK_HOST_VIEW},
	{.name = "fs/rename-protected-ancestor",
		.wall = WALL_MASKS,
		.success = ".git is moved away and replaced by one with hooks",
		.try = git_rename,
		.flags = ATTACK_CONTROL | ATTACK_HOST_VIEW},
	{.name = "fs/write-outside-given-directories",
		.wall = WALL_ROOT,
		.success = "a file appears on the host where nothing was given",
		.try = host_write,
		.flags = ATTACK_HOST_VIEW | ATTACK_AS_ROOT,
		.expect = {EROFS}},
};

const struct attack_table attack_table_fs = {table, sizeof(table) / sizeof(table[0])};
