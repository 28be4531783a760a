/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_judge: a refusal without a proof that it was tried is not a wall that held.
 */
#include "cli/attack.h"

#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

static const struct attack by_errno = {.name = "fs/x",
	.wall = WALL_ROOT,
	.expect = {EROFS, -SIGSYS}};
static const struct attack by_control = {.name = "fs/y", .flags = ATTACK_CONTROL};
static const struct attack by_record = {.name = "kernel/z", .call = "acct"};
static const struct attack by_family = {.name = "kernel/s",
	.call = "socket",
	.nr = SYS_socket,
	.arg = {38}};

static struct attack_report refused(int err)
{
	return (struct attack_report){.verdict = ATTACK_REFUSED, .err = err, .text = "tried"};
}

static struct attack_outcome judge(const struct attack *a, struct attack_report inside,
	const struct attack_report *control, const struct violation_list *v)
{
	struct attack_outcome out = {0};

	attack_judge(a, &inside, control, v, &out);
	return out;
}

static void a_success_is_not_held(void)
{
	struct attack_report r = {.verdict = ATTACK_BROKE, .text = "read the secret"};
	struct attack_outcome out = judge(&by_errno, r, NULL, NULL);

	CHECK(!out.is_held);
	CHECK_STR(out.detail, "read the secret");
}

static void no_report_is_not_attempted(void)
{
	struct attack_report r = {0};
	struct attack_outcome out = judge(&by_errno, r, NULL, NULL);

	CHECK(!out.is_held);
	CHECK_STR(out.detail, "not attempted: no report came from the sandbox");
}

static void the_exact_errno_is_a_proof(void)
{
	struct attack_outcome out = judge(&by_errno, refused(EROFS), NULL, NULL);

	CHECK(out.is_held);
	CHECK_STR(out.detail, "tried: EROFS; exact refusal");
}

static void the_exact_signal_is_a_proof(void)
{
	struct attack_outcome out = judge(&by_errno, refused(-SIGSYS), NULL, NULL);

	CHECK(out.is_held);
	CHECK_STR(out.detail, "tried: SIGSYS; exact refusal");
}

static void another_errno_proves_nothing(void)
{
	struct attack_outcome out = judge(&by_errno, refused(ENOENT), NULL, NULL);

	CHECK(!out.is_held);
	CHECK_STR(out.detail, "not attempted: tried: ENOENT is no proof");
}

static void errno_zero_proves_nothing(void)
{
	CHECK(!judge(&by_errno, refused(0), NULL, NULL).is_held);
	CHECK(!judge(&by_control, refused(0), NULL, NULL).is_held);
}

static void a_control_that_succeeds_is_a_proof(void)
{
	struct attack_report control = {.verdict = ATTACK_BROKE};

	CHECK(judge(&by_control, refused(ENOENT), &control, NULL).is_held);
}

static void a_control_that_fails_too_proves_nothing(void)
{
	struct attack_report control = {
		.verdict = ATTACK_REFUSED, .err = ENOENT, .text = "outside"};
	struct attack_outcome out = judge(&by_control, refused(ENOENT), &control, NULL);

	CHECK(!out.is_held);
	CHECK_STR(out.detail, "not attempted: tried: ENOENT is no proof; outside: outside: ENOENT");
}

static void a_call_the_kernel_lacks_cannot_be_attacked(void)
{
	struct attack_report control = {.verdict = ATTACK_REFUSED, .err = ENOSYS};

	CHECK(judge(&by_control, refused(EPERM), &control, NULL).is_held);
}

static void the_walls_own_record_is_a_proof(void)
{
	struct violation_list v = {0};

	CHECK(!judge(&by_record, refused(EPERM), NULL, &v).is_held);
	violation_add(&v, WALL_SECCOMP, "syscall", "acct()", "");
	CHECK(judge(&by_record, refused(EPERM), NULL, &v).is_held);
	/* EACCES is not what the filter answers: somebody else refused. */
	CHECK(!judge(&by_record, refused(EACCES), NULL, &v).is_held);
}

static void the_record_must_name_the_family(void)
{
	struct violation_list v = {0};

	violation_add(&v, WALL_SECCOMP, "syscall", "socket(family 3, type 2, protocol 0)", "");
	CHECK(!judge(&by_family, refused(EPERM), NULL, &v).is_held);
	violation_add(&v, WALL_SECCOMP, "syscall", "socket(family 38, type 5, protocol 0)", "");
	CHECK(judge(&by_family, refused(EPERM), NULL, &v).is_held);
}

int main(void)
{
	RUN(a_success_is_not_held);
	RUN(no_report_is_not_attempted);
	RUN(the_exact_errno_is_a_proof);
	RUN(the_exact_signal_is_a_proof);
	RUN(another_errno_proves_nothing);
	RUN(errno_zero_proves_nothing);
	RUN(a_control_that_succeeds_is_a_proof);
	RUN(a_control_that_fails_too_proves_nothing);
	RUN(a_call_the_kernel_lacks_cannot_be_attacked);
	RUN(the_walls_own_record_is_a_proof);
	RUN(the_record_must_name_the_family);
	return tap_done();
}
