/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/caps against the kernel: each case runs in a forked child that first takes a
 * user namespace of its own, so that any user has capabilities to give up.
 */
#include "sys/caps.h"

#include "tap.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIT(cap) (1ULL << (cap))
#define TWO      (BIT(CAP_CHOWN) | BIT(CAP_SETUID))

/* Run fn in a child with a full set; 0 if it returned 0; prints the line it returned else. */
static int in_namespace(int (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int line = unshare(CLONE_NEWUSER) < 0 ? __LINE__ : fn();

		if (line)
			tap_print("# line %d: errno %d\n", line, errno);
		_exit(line != 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* A child cannot CHECK: it tells the line instead. */
#define NEED(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			return __LINE__;                                                           \
	} while (0)

/* A line of /proc/self/status, "CapBnd:\t…", as a number. */
static uint64_t status_of(const char *field)
{
	uint64_t value = UINT64_MAX;
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, field, strlen(field)) == 0)
			value = strtoull(line + strlen(field) + 1, NULL, 16);
	if (f)
		(void)fclose(f);
	return value;
}

static int bound_two(void)
{
	struct err err = {0};

	NEED(status_of("CapBnd") != TWO);
	NEED(caps_bound(TWO, &err) == 0);
	NEED(status_of("CapBnd") == TWO);
	NEED(status_of("CapAmb") == 0);
	NEED(err.code == 0);
	/* What is gone stays gone, and what is kept is not dropped by a second call. */
	NEED(caps_bound(UINT64_MAX, &err) == 0);
	NEED(status_of("CapBnd") == TWO);
	return 0;
}

static void bounding_set_is_what_was_kept(void)
{
	CHECK_INT(in_namespace(bound_two), 0);
}

static int bound_after_ambient(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	struct err err = {0};

	NEED(syscall(SYS_capget, &head, data) == 0);
	data[0].inheritable = (uint32_t)TWO;
	NEED(syscall(SYS_capset, &head, data) == 0);
	NEED(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0) == 0);
	NEED(status_of("CapAmb") == BIT(CAP_CHOWN));
	NEED(caps_bound(UINT64_MAX, &err) == 0);
	NEED(status_of("CapAmb") == 0);
	return 0;
}

static void ambient_set_is_cleared(void)
{
	CHECK_INT(in_namespace(bound_after_ambient), 0);
}

static int set_two(void)
{
	struct err err = {0};

	NEED(caps_effective() == status_of("CapEff"));
	NEED(caps_set(TWO, &err) == 0);
	NEED(status_of("CapEff") == TWO);
	NEED(status_of("CapPrm") == TWO);
	NEED(status_of("CapInh") == 0);
	NEED(caps_effective() == TWO);
	return 0;
}

static void effective_and_permitted_are_what_was_set(void)
{
	CHECK_INT(in_namespace(set_two), 0);
}

static int set_high(void)
{
	uint64_t high = BIT(CAP_CHECKPOINT_RESTORE); /* in the second word */
	struct err err = {0};

	NEED(caps_set(high, &err) == 0);
	NEED(status_of("CapEff") == high);
	NEED(caps_effective() == high);
	return 0;
}

static void capabilities_past_32_are_kept(void)
{
	CHECK_INT(in_namespace(set_high), 0);
}

static int set_nothing_then_more(void)
{
	struct err err = {0};

	NEED(caps_set(0, &err) == 0);
	NEED(caps_effective() == 0);
	NEED(caps_set(TWO, &err) == -EPERM);
	NEED(err.code == EPERM);
	NEED(strcmp(err.msg, "caps: set to 0x81: Operation not permitted") == 0);
	NEED(status_of("CapPrm") == 0);
	return 0;
}

static void a_dropped_capability_does_not_come_back(void)
{
	CHECK_INT(in_namespace(set_nothing_then_more), 0);
}

static int bound_without_right(void)
{
	struct err err = {0};

	NEED(caps_set(BIT(CAP_CHOWN), &err) == 0);
	NEED(caps_bound(0, &err) == -EPERM);
	NEED(strcmp(err.msg, "caps: drop 0 from the bounding set: Operation not permitted") == 0);
	return 0;
}

static void bounding_without_setpcap_is_refused(void)
{
	CHECK_INT(in_namespace(bound_without_right), 0);
}

static void last_capability_is_what_the_kernel_says(void)
{
	char text[16] = "";
	FILE *f = fopen("/proc/sys/kernel/cap_last_cap", "re");

	if (!CHECK(f != NULL))
		return;
	CHECK(fgets(text, sizeof(text), f) != NULL);
	(void)fclose(f);
	CHECK_INT(caps_last(), strtoull(text, NULL, 10));
}

int main(void)
{
	RUN(bounding_set_is_what_was_kept);
	RUN(ambient_set_is_cleared);
	RUN(effective_and_permitted_are_what_was_set);
	RUN(capabilities_past_32_are_kept);
	RUN(a_dropped_capability_does_not_come_back);
	RUN(bounding_without_setpcap_is_refused);
	RUN(last_capability_is_what_the_kernel_says);
	return tap_done();
}
