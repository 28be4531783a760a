/* SPDX-License-Identifier: Apache-2.0 */

#include "base/err.h"

#include "tap.h"

#include <errno.h>
#include <limits.h>

static void set_records_code_and_message(void)
{
	struct err err = {0};

	CHECK_INT(err_set(&err, EINVAL, "limit '%s'", "pids"), -EINVAL);
	CHECK_INT(err.code, EINVAL);
	CHECK_STR(err.msg, "limit 'pids'");
}

static void sys_takes_errno_and_names_it(void)
{
	struct err err = {0};

	errno = ENOENT;
	CHECK_INT(err_sys(&err, "open '%s'", "/x"), -ENOENT);
	CHECK_STR(err.msg, "open '/x': No such file or directory");
}

/* A caller that forgot to look at errno must still get a failure, never success. */
static void sys_without_errno_is_still_a_failure(void)
{
	struct err err = {0};

	errno = 0;
	CHECK_INT(err_sys(&err, "read"), -EIO);
	CHECK_INT(err.code, EIO);
}

static void wrap_reads_outermost_first(void)
{
	struct err err = {0};

	(void)err_set(&err, EPERM, "mkdir 'leaf'");
	CHECK_INT(err_wrap(&err, "cgroup"), -EPERM);
	CHECK_INT(err_wrap(&err, "sandbox %s", "k3f9"), -EPERM);
	CHECK_STR(err.msg, "sandbox k3f9: cgroup: mkdir 'leaf'");
}

static void hint_comes_last(void)
{
	struct err err = {0};

	(void)err_set(&err, ENOSYS, "landlock is missing");
	CHECK_INT(err_hint(&err, "boot with lsm=%s", "landlock"), -ENOSYS);
	CHECK_STR(err.msg, "landlock is missing; boot with lsm=landlock");
}

static void long_messages_end_in_dots(void)
{
	struct err err = {0};
	char big[2000];
	size_t n;

	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	(void)err_set(&err, EINVAL, "%s", big);
	n = strlen(err.msg);
	CHECK_INT(n, sizeof(err.msg) - 1);
	CHECK_STR(err.msg + n - 4, "a...");
	(void)err_wrap(&err, "outer");
	CHECK(strncmp(err.msg, "outer: aaa", 10) == 0);
	n = strlen(err.msg);
	CHECK_INT(n, sizeof(err.msg) - 1);
	CHECK_STR(err.msg + n - 3, "...");
	errno = EACCES;
	(void)err_sys(&err, "%s", big);
	CHECK_INT(strlen(err.msg), sizeof(err.msg) - 1);
	CHECK_STR(err.msg + sizeof(err.msg) - 4, "...");
	(void)err_hint(&err, "%s", big);
	CHECK_INT(strlen(err.msg), sizeof(err.msg) - 1);
}

/* One write() to a pipe is atomic only up to PIPE_BUF. */
static void fits_in_one_pipe_write(void)
{
	CHECK(sizeof(struct err) <= PIPE_BUF);
}

int main(void)
{
	RUN(set_records_code_and_message);
	RUN(sys_takes_errno_and_names_it);
	RUN(sys_without_errno_is_still_a_failure);
	RUN(wrap_reads_outermost_first);
	RUN(hint_comes_last);
	RUN(long_messages_end_in_dots);
	RUN(fits_in_one_pipe_write);
	return tap_done();
}
