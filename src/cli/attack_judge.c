/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_judge - held or not, and by what it is proven that the attack was tried.
 *
 * A refusal counts only with a proof: the same function succeeded outside
 * (control), or the errno is one that only this wall gives, or the wall itself
 * recorded the refused call. Pure.
 */
#include "cli/attack.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

static const char *refusal_name(int err, char *out, size_t out_size)
{
	const char *name = err < 0 ? sigabbrev_np(-err) : strerrorname_np(err);

	(void)snprintf(out, out_size, "%s%s", err < 0 ? "SIG" : "", name ? name : "?");
	return out;
}

static bool is_expected(const struct attack *a, int err)
{
	for (size_t i = 0; i < sizeof(a->expect) / sizeof(a->expect[0]) && a->expect[i]; i++)
		if (a->expect[i] == err)
			return true;
	return false;
}

static bool is_recorded(const struct attack *a, const struct violation_list *violations)
{
	char want[64];

	if (!a->call || !violations)
		return false;
	/* All odd families come through one call: the record must name this one. */
	if (a->nr == SYS_socket)
		(void)snprintf(want, sizeof(want), "socket(family %d,", (int)a->arg[0]);
	else
		(void)snprintf(want, sizeof(want), "%s(", a->call);
	for (size_t i = 0; i < violations->n && i < VIOLATION_MAX; i++)
		if (violations->v[i].wall == WALL_SECCOMP && strstr(violations->v[i].tried, want))
			return true;
	return false;
}

/* Why we believe that it was tried; NULL if nothing shows it. */
static const char *proof(const struct attack *a, const struct attack_report *inside,
	const struct attack_report *control, const struct violation_list *violations)
{
	if (control && control->verdict == ATTACK_BROKE)
		return "succeeds outside";
	if (is_expected(a, inside->err))
		return "exact refusal";
	if (inside->err == EPERM && is_recorded(a, violations))
		return "recorded by the wall";
	/* A call that this kernel does not have cannot be attacked; the filter said no anyway. */
	if (control && control->verdict == ATTACK_REFUSED && control->err == ENOSYS)
		return "this kernel has no such call";
	return NULL;
}

void attack_judge(const struct attack *a, const struct attack_report *inside,
	const struct attack_report *control, const struct violation_list *violations,
	struct attack_outcome *ret)
{
	const char *why;
	char name[32], outside[32] = "";

	ret->is_held = false;
	if (inside->verdict == ATTACK_BROKE) {
		(void)snprintf(ret->detail, sizeof(ret->detail), "%s", inside->text);
		return;
	}
	if (inside->verdict == ATTACK_ABSENT) {
		(void)snprintf(ret->detail, sizeof(ret->detail), "not attempted: %s",
			inside->text[0] ? inside->text : "no report came from the sandbox");
		return;
	}
	(void)refusal_name(inside->err, name, sizeof(name));
	why = proof(a, inside, control, violations);
	if (why) {
		ret->is_held = true;
		(void)snprintf(
			ret->detail, sizeof(ret->detail), "%s: %s; %s", inside->text, name, why);
		return;
	}
	if (control && control->verdict == ATTACK_REFUSED)
		(void)refusal_name(control->err, outside, sizeof(outside));
	(void)snprintf(ret->detail, sizeof(ret->detail),
		"not attempted: %s: %s is no proof%s%s%s%s", inside->text, name,
		control ? "; outside: " : "", control ? control->text : "", outside[0] ? ": " : "",
		outside);
}
