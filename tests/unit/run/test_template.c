/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/template: the base template, made in a state directory of the test's own.
 * As any user; what can be given to other ids differs, what is in it does not.
 */
#include "base/own.h"
#include "base/text.h"
#include "run/process/box_impl.h"
#include "sys/tree.h"
#include "sys/userns.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

static bool is_host_root(void)
{
	struct err err = {0};
	int r = userns_is_host_root(&err);

	CHECK(r >= 0);
	return r > 0;
}

static char state[] = "/tmp/test_template.XXXXXX";
static char *base;        /* the template, absolute */
static int held = -EBADF; /* keeps it from being pruned */
static struct err err;

static const char *at(const char *rel)
{
	static char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", base, rel);
	return path;
}

static mode_t mode_of(const char *rel)
{
	struct stat st;

	return lstat(at(rel), &st) == 0 ? st.st_mode : 0;
}

static bool is_there(const char *rel)
{
	return mode_of(rel) != 0;
}

static void read_file(const char *path, char *buf, size_t size)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[n > 0 ? n : 0] = '\0';
}

static size_t entries(const char *path)
{
	AUTO_DIR DIR *d = opendir(path);
	size_t n = 0;

	for (const struct dirent *e; d && (e = readdir(d));)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	return n;
}

static void it_is_made_on_first_use(void)
{
	AUTO_FREE char *parent = text_format("%s/templates", state);

	CHECK(access(parent, F_OK) < 0);
	held = template_base(is_host_root(), &base, &err);
	if (!CHECK(held >= 0))
		return;
	CHECK_INT(fcntl(held, F_GETFD), FD_CLOEXEC);
	CHECK(text_path_below(base, parent));
	CHECK_INT(mode_of("."), S_IFDIR | 0755);
	CHECK_INT(entries(parent), 1); /* no half-made one beside it */
}

static void it_is_found_again(void)
{
	AUTO_FREE char *again = NULL;
	AUTO_FD int fd = -EBADF;
	struct stat before, after;

	CHECK_INT(stat(at("etc/passwd"), &before), 0);
	fd = template_base(is_host_root(), &again, &err);
	CHECK(fd >= 0);
	CHECK_STR(again, base);
	CHECK_INT(stat(at("etc/passwd"), &after), 0);
	CHECK_INT(before.st_ino, after.st_ino);
}

static void it_has_the_directories_a_system_has(void)
{
	static const char *const dirs[] = {"dev", "proc", "sys", "run", "usr", "home/user", "root",
		"workspace", "var/tmp", "var/lib/dpkg", "etc/ssl", "opt", "srv", "mnt"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (!CHECK(S_ISDIR(mode_of(dirs[i]))))
			tap_print("# %s\n", dirs[i]);
	CHECK_INT(mode_of("tmp"), S_IFDIR | 01777);
	CHECK_INT(mode_of("root"), S_IFDIR | 0700);
	/* A mount point: the host's programs are never copied. */
	CHECK_INT(entries(at("usr")), 0);
}

static void it_has_users_of_its_own_and_no_password(void)
{
	char text[4096];

	read_file(at("etc/passwd"), text, sizeof(text));
	CHECK(text_starts(text, "root:x:0:0:"));
	CHECK(strstr(text, "\nuser:x:1000:1000:") != NULL);
	read_file(at("etc/shadow"), text, sizeof(text));
	CHECK(text_starts(text, "root:*:"));
	CHECK_INT(mode_of("etc/shadow"), S_IFREG | 0640);
	CHECK_INT(mode_of("etc/sudoers"), S_IFREG | 0440);
	read_file(at("etc/hostname"), text, sizeof(text));
	CHECK_STR(text, "bawn\n");
}

static void nothing_of_the_host_that_could_be_a_secret_is_in_it(void)
{
	static const char *const never[] = {"etc/ssh", "etc/ssl/private", "etc/krb5.keytab",
		"etc/NetworkManager", "etc/wireguard", "etc/cron.d", "etc/systemd", "etc/docker",
		"etc/letsencrypt", "etc/subuid", "var/lib/dpkg/status", "root/.bashrc",
		"home/user/.ssh", "boot"};
	char text[64];

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (!CHECK(!is_there(never[i])))
			tap_print("# %s\n", never[i]);
	CHECK_INT(entries(at("home")), 1);
	CHECK_INT(entries(at("root")), 0);
	/* The machine's own identity stays outside. */
	read_file(at("etc/machine-id"), text, sizeof(text));
	CHECK_STR(text, "");
}

static void what_programs_in_usr_need_of_etc_is_copied(void)
{
	static const char *const wanted[] = {"etc/ld.so.cache", "etc/alternatives", "etc/services"};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		AUTO_FREE char *host = text_format("/%s", wanted[i]);

		CHECK_INT(is_there(wanted[i]), access(host, F_OK) == 0);
	}
}

/* Where ids can be given, home is user's; elsewhere everything in a box is the caller's. */
static void home_belongs_to_user(void)
{
	uid_t want = is_host_root() ? 1000 : geteuid();
	struct stat st;

	CHECK(stat(at("home/user"), &st) == 0 && st.st_uid == want);
	CHECK(stat(at("workspace"), &st) == 0 && st.st_uid == want);
	CHECK(stat(at("etc"), &st) == 0 && st.st_uid == geteuid());
}

static void its_top_links_are_the_host_s(void)
{
	static const char *const names[] = {"bin", "sbin", "lib", "lib64"};
	char here[256], there[256], path[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ssize_t a, b;

		(void)snprintf(path, sizeof(path), "/%s", names[i]);
		a = readlink(path, there, sizeof(there));
		b = readlink(at(names[i]), here, sizeof(here));
		CHECK_INT(b, a);
		CHECK(a <= 0 || memcmp(here, there, (size_t)a) == 0);
	}
}

/* Each makes its own and the first to name it wins; nobody sees half of one. */
static void two_at_once_agree(void)
{
	AUTO_FREE char *parent = text_format("%s/templates", state);
	AUTO_FD int fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pids[4];
	int status;

	CHECK_INT(tree_remove(fd, "templates", &err), 0);
	for (size_t i = 0; i < 4; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char *mine = NULL;

			_exit(template_base(is_host_root(), &mine, &err) >= 0 &&
						strcmp(mine, base) == 0 &&
						access(at("home/user/.bashrc"), R_OK) == 0
					? 0
					: 1);
		}
	}
	for (size_t i = 0; i < 4; i++)
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	CHECK_INT(entries(parent), 1);
}

/* A host that is upgraded would otherwise leave one behind each time. */
static void old_ones_go_when_a_new_one_is_made_unless_they_are_in_use(void)
{
	AUTO_FREE char *parent = text_format("%s/templates", state), *mine = NULL;
	AUTO_FREE char *idle = text_format("%s/base-0000000000000001", parent);
	AUTO_FREE char *used = text_format("%s/base-0000000000000002", parent);
	AUTO_FD int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock = -EBADF,
		    fd = -EBADF;

	CHECK(mkdir(idle, 0755) == 0 && mkdir(used, 0755) == 0);
	lock = open(used, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(lock >= 0 && flock(lock, LOCK_SH) == 0);
	CHECK_INT(tree_remove(dir, strrchr(base, '/') + 1, &err), 0);
	fd = template_base(is_host_root(), &mine, &err);
	CHECK(fd >= 0);
	CHECK(access(idle, F_OK) < 0 && errno == ENOENT);
	CHECK_INT(access(used, F_OK), 0);
	CHECK_INT(access(base, F_OK), 0);
}

static void a_state_directory_that_cannot_be_made_is_named(void)
{
	char *ret = NULL;

	CHECK_INT(setenv("BAWN_STATE_DIR", "/proc/nowhere", 1), 0);
	CHECK(template_base(is_host_root(), &ret, &err) < 0);
	CHECK(text_starts(err.msg, "base template: "));
	CHECK(strstr(err.msg, "/proc/nowhere") != NULL);
	CHECK(ret == NULL); /* written on success only */
	CHECK_INT(setenv("BAWN_STATE_DIR", state, 1), 0);
}

int main(void)
{
	AUTO_FD int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (!mkdtemp(state) || setenv("BAWN_STATE_DIR", state, 1) < 0)
		return 1;
	RUN(it_is_made_on_first_use);
	if (base) {
		RUN(it_is_found_again);
		RUN(it_has_the_directories_a_system_has);
		RUN(it_has_users_of_its_own_and_no_password);
		RUN(nothing_of_the_host_that_could_be_a_secret_is_in_it);
		RUN(what_programs_in_usr_need_of_etc_is_copied);
		RUN(home_belongs_to_user);
		RUN(its_top_links_are_the_host_s);
		RUN(two_at_once_agree);
		RUN(old_ones_go_when_a_new_one_is_made_unless_they_are_in_use);
		RUN(a_state_directory_that_cannot_be_made_is_named);
	}
	free(base);
	closep(&held);
	if (tree_remove(tmp, state + strlen("/tmp/"), &err) < 0)
		tap_print("# %s\n", err.msg);
	return tap_done();
}
