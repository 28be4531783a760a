/* SPDX-License-Identifier: Apache-2.0 */

/* sys/userns: id maps against the kernel, and files that name ranges. As any user. */
#include "sys/userns.h"

#include "in_userns.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

static bool is_host_root(void)
{
	struct err err = {0};
	int r = userns_is_host_root(&err);

	CHECK(r >= 0);
	return r > 0;
}

static struct err err;

/*
 * A child that waits to be mapped, then answers by its exit status whether it is who it should be.
 */
static pid_t start(uid_t expected, int *ret_go)
{
	AUTO_FD int pidfd = -EBADF;
	int fds[2] = {-EBADF, -EBADF};
	pid_t pid;
	char byte;

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	pid = process_clone(CLONE_NEWUSER, -EBADF, &pidfd, &err);
	if (pid == 0) {
		closep(&fds[1]);
		_exit(read(fds[0], &byte, 1) == 1 && getuid() == expected && getgid() == expected
				? 0
				: 1);
	}
	closep(&fds[0]);
	*ret_go = fds[1];
	return pid;
}

static int finish(pid_t pid, int *go)
{
	int status = -1;

	CHECK(write(*go, "", 1) == 1);
	closep(go);
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_single_id_may_have_any_number_inside(void)
{
	static const uint32_t inside[] = {0, 1000, 65533};

	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
		struct userns_map map = single_id(inside[i]);
		int go = -EBADF;
		pid_t pid = start(inside[i], &go);

		if (!CHECK(pid > 0))
			return;
		CHECK_INT(userns_write(pid, &map, &err), 0);
		CHECK_INT(finish(pid, &go), 0);
	}
}

static void a_map_is_written_once(void)
{
	struct userns_map map = single_id(0);
	int go = -EBADF;
	pid_t pid = start(0, &go);

	if (!CHECK(pid > 0))
		return;
	CHECK_INT(userns_write(pid, &map, &err), 0);
	CHECK(userns_write(pid, &map, &err) < 0);
	CHECK_INT(finish(pid, &go), 0);
}

static void with_a_single_id_groups_can_no_longer_be_changed(void)
{
	struct userns_map map = single_id(0);
	char path[64], word[8] = "";
	AUTO_FD int fd = -EBADF;
	int go = -EBADF;
	pid_t pid = start(0, &go);

	if (!CHECK(pid > 0))
		return;
	CHECK_INT(userns_write(pid, &map, &err), 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/setgroups", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && read(fd, word, sizeof(word) - 1) > 0);
	CHECK_STR(word, "deny\n");
	CHECK_INT(finish(pid, &go), 0);
}

static int not_root_in_child(void)
{
	NEED(geteuid() == 0);
	NEED(!is_host_root());
	return 0;
}

static void root_of_a_user_namespace_is_not_root_of_the_machine(void)
{
	CHECK_INT(in_userns(not_root_in_child), 0);
	if (geteuid() != 0)
		CHECK(!is_host_root());
}

static char subid_file[] = "/tmp/test_userns.XXXXXX";

static int subid(const char *text, const char *user, uint32_t n, uint32_t *ret)
{
	AUTO_FD int fd = open(subid_file, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (!CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text)))
		return -EIO;
	return userns_subid(subid_file, 1234, user, n, ret, &err);
}

static void a_range_is_found_by_name_or_number(void)
{
	uint32_t start_id = 7;

	CHECK_INT(subid("root:1:65536\nann:100000:65536\n", "ann", 65535, &start_id), 0);
	CHECK_INT(start_id, 100000);
	CHECK_INT(subid("1234:200000:65536\n", "ann", 65535, &start_id), 0);
	CHECK_INT(start_id, 200000);
	CHECK_INT(subid("1234:300000:65536", NULL, 65535, &start_id), 0);
	CHECK_INT(start_id, 300000);
}

static void a_range_that_is_too_small_is_passed_over(void)
{
	uint32_t start_id = 7;

	CHECK_INT(subid("ann:100000:1000\nann:500000:65536\n", "ann", 65535, &start_id), 0);
	CHECK_INT(start_id, 500000);
}

static void lines_that_make_no_sense_give_no_range(void)
{
	static const char *const bad[] = {"", "\n", "ann", "ann:", "ann:1", "ann::65536",
		"ann:x:65536", "ann:100000:x", "ann:-5:65536", "ann:4294967290:65536",
		"ann:0:65536", "bob:100000:65536", "anna:100000:65536", "ann:100000:65536:1"};
	uint32_t start_id = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!CHECK_INT(subid(bad[i], "ann", 65535, &start_id), -ENOENT))
			tap_print("# '%s'\n", bad[i]);
	CHECK_INT(start_id, 7); /* written on success only */
	CHECK(strstr(err.msg, "no range of 65535 ids for this user in '") != NULL);
}

static void a_file_that_is_not_there_is_named(void)
{
	uint32_t start_id = 7;

	CHECK_INT(userns_subid("/nowhere/subuid", 1, "ann", 1, &start_id, &err), -ENOENT);
	CHECK_STR(err.msg, "open '/nowhere/subuid': No such file or directory");
}

static void reserved_ranges_never_overlap(void)
{
	uint32_t first[8] = {0};
	int fds[8];

	if (!is_host_root()) {
		CHECK(userns_reserve_range(&first[0], &err) < 0);
		CHECK_INT(first[0], 0);
		return;
	}
	for (int i = 0; i < 8; i++) {
		fds[i] = userns_reserve_range(&first[i], &err);
		CHECK(fds[i] >= 0 && fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
		CHECK(first[i] >= USERNS_RANGE_FIRST && first[i] < 0x80000000u - USERNS_RANGE_SIZE);
		CHECK_INT(first[i] % USERNS_RANGE_SIZE, 0);
		for (int j = 0; j < i; j++)
			CHECK(first[i] != first[j]);
	}
	for (int i = 0; i < 8; i++)
		closep(&fds[i]);
}

int main(void)
{
	AUTO_FD int fd = mkstemp(subid_file);

	if (fd < 0)
		return 1;
	RUN(a_single_id_may_have_any_number_inside);
	RUN(a_map_is_written_once);
	RUN(with_a_single_id_groups_can_no_longer_be_changed);
	RUN(root_of_a_user_namespace_is_not_root_of_the_machine);
	RUN(a_range_is_found_by_name_or_number);
	RUN(a_range_that_is_too_small_is_passed_over);
	RUN(lines_that_make_no_sense_give_no_range);
	RUN(a_file_that_is_not_there_is_named);
	RUN(reserved_ranges_never_overlap);
	(void)unlink(subid_file);
	return tap_done();
}
