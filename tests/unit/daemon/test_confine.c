/* SPDX-License-Identifier: Apache-2.0 */

/* What the api role can no longer do behind confine_api(), tried by a child of ours. */
#include "daemon/confine.h"

#include "base/own.h"
#include "base/text.h"
#include "sys/landlock.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char state[] = "/tmp/test_confine.XXXXXX";

/* Runs fn() confined, in a child; its verdict, 0 is good. */
static int confined(int (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct err err = {0};
		bool has_landlock = false;

		if (confine_api(state, NULL, 0, &has_landlock, &err) < 0) {
			tap_print("# %s\n", err.msg);
			_exit(100);
		}
		_exit(has_landlock ? fn() : 101);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void check(int (*fn)(void))
{
	if (landlock_abi() < 1)
		tap_cannot("this kernel has no Landlock");
	else
		CHECK_INT(confined(fn), 0);
}

static int read_files_of_others(void)
{
	static const char *const paths[] = {
		"/etc/shadow", "/etc/passwd", "/root", "/home", "/proc/1/environ", "/usr/bin/env"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC);

		if (fd >= 0 || (errno != EACCES && errno != ENOENT))
			return (int)i + 1;
	}
	return 0;
}

static void files_of_others_cannot_be_opened(void)
{
	check(read_files_of_others);
}

static int write_elsewhere(void)
{
	AUTO_FREE char *run = text_format("%s/run/x", state);
	AUTO_FREE char *box = text_format("%s/boxes/x", state);
	const char *const paths[] = {"/tmp/test_confine.x", "/var/tmp/x", run, box, "/dev/shm/x"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (open(paths[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0)
			return (int)i + 1;
	}
	return mkdir("/tmp/test_confine.d", 0700) == 0 ? 50 : 0;
}

static void nothing_outside_the_store_can_be_written(void)
{
	check(write_elsewhere);
}

static int use_the_store(void)
{
	AUTO_FREE char *path = text_format("%s/db/bawn.db", state);
	AUTO_FREE char *other = text_format("%s/db/bawn.db-wal", state);
	AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, "x", 1) != 1 || ftruncate(fd, 0) < 0)
		return 1;
	if (rename(path, other) < 0 || unlink(other) < 0)
		return 2;
	return open("/proc/self/status", O_RDONLY | O_CLOEXEC) < 0 ? 3 : 0;
}

static void the_store_can_be_written(void)
{
	check(use_the_store);
}

static int start_something(void)
{
	struct rlimit r;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	/* Root of the machine is above the limit on processes; the role is never root. */
	if (pid > 0 && geteuid() != 0)
		return 1;
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return 2;
	return getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_max == 0 ? 0 : 3;
}

static void no_process_no_core_no_new_rights(void)
{
	check(start_something);
}

int main(void)
{
	AUTO_FREE char *db = NULL, *run = NULL, *boxes = NULL;

	if (!mkdtemp(state))
		return 1;
	db = text_format("%s/db", state);
	run = text_format("%s/run", state);
	boxes = text_format("%s/boxes", state);
	if (mkdir(db, 0700) < 0 || mkdir(run, 0755) < 0 || mkdir(boxes, 0711) < 0)
		return 1;
	RUN(files_of_others_cannot_be_opened);
	RUN(nothing_outside_the_store_can_be_written);
	RUN(the_store_can_be_written);
	RUN(no_process_no_core_no_new_rights);
	(void)rmdir(db);
	(void)rmdir(run);
	(void)rmdir(boxes);
	(void)rmdir(state);
	return tap_done();
}
