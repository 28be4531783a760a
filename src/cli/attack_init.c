/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_init - group neighbours: pid 1 of the box, which is a process of the host.
 *
 * It was forked from bawn and never exec'd, so its program file is the host's bawn
 * and its memory bawn's. Root of the box must not get hold of it.
 */
#include "cli/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static int init_exe(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int rd = open("/proc/1/exe", O_RDONLY | O_CLOEXEC);

	(void)a;
	(void)c;
	if (rd < 0)
		return attack_refused(r, "open /proc/1/exe");
	return attack_broke(r, "opened the program of pid 1");
}

static int init_root(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int rd = open("/proc/1/root", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)a;
	if (rd < 0)
		return attack_refused(r, "open /proc/1/root");
	if (attack_read_secret(c, rd, c->canary + 1, r) == ATTACK_BROKE)
		return ATTACK_BROKE;
	return attack_broke(r, "opened the root of pid 1");
}

static int init_memory(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = open("/proc/1/mem", O_RDWR | O_CLOEXEC);
	char byte = 0;
	struct iovec local = {&byte, 1}, remote = {(void *)ATTACK_BAD_ADDRESS, 1};

	(void)a;
	(void)c;
	if (fd >= 0)
		return attack_broke(r, "opened the memory of pid 1");
	/* EFAULT would mean that only the address was wrong. */
	if (process_vm_readv(1, &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT)
		return attack_broke(r, "process_vm_readv() may read pid 1");
	return attack_refused(r, "process_vm_readv() of pid 1");
}

static int init_ptrace(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	(void)c;
	if (ptrace(PTRACE_SEIZE, 1, NULL, NULL) < 0)
		return attack_refused(r, "ptrace() of pid 1");
	return attack_broke(r, "traces pid 1");
}

static int init_fds(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);

	(void)a;
	(void)c;
	if (pidfd < 0)
		return attack_refused(r, "pidfd_open(1)");
	for (int fd = 0; fd < 64; fd++) {
		if (syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0 || errno == EBADF)
			return attack_broke(r, "pidfd_getfd() may take descriptors of pid 1");
	}
	return attack_refused(r, "pidfd_getfd() of pid 1");
}

static int init_namespace(
	const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	AUTO_FD int fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);

	(void)a;
	(void)c;
	if (fd < 0)
		return attack_refused(r, "open /proc/1/ns/mnt");
	return attack_broke(r, "opened a namespace of pid 1");
}

/* A process that is asked to signal another outside of its Landlock domain gets EPERM. */
static int init_signal(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	(void)a;
	(void)c;
	if (kill(1, 0) == 0)
		return attack_broke(r, "may signal pid 1");
	return attack_refused(r, "kill(1, 0)");
}

#define INIT .wall = WALL_USER, .flags = ATTACK_AS_ROOT

static const struct attack table[] = {
	{.name = "neighbours/init-program-CVE-2019-5736",
		INIT,
		.success = "the host's bawn can be opened through pid 1, and rewritten",
		.try = init_exe,
		.expect = {EACCES, EPERM}},
	{.name = "neighbours/init-root",
		INIT,
		.success = "pid 1's root leads out",
		.try = init_root,
		.expect = {EACCES, EPERM}},
	{.name = "neighbours/init-memory",
		INIT,
		.success = "the memory of a host process is read or changed",
		.try = init_memory,
		.expect = {EPERM}},
	{.name = "neighbours/init-ptrace",
		INIT,
		.success = "pid 1 does what the box wants",
		.try = init_ptrace,
		.expect = {EPERM}},
	{.name = "neighbours/init-descriptors",
		INIT,
		.success = "descriptors of bawn are taken over",
		.try = init_fds,
		.expect = {EPERM}},
	{.name = "neighbours/init-namespaces",
		INIT,
		.success = "the box enters pid 1's namespaces",
		.try = init_namespace,
		.expect = {EACCES, EPERM}},
	{.name = "neighbours/signal-init",
		.wall = WALL_LANDLOCK,
		.success = "signals reach a process outside of the box's domain",
		.try = init_signal,
		.flags = ATTACK_AS_ROOT | ATTACK_NEEDS_SCOPES,
		.expect = {EPERM}},
};

const struct attack_table attack_table_init = {table, sizeof(table) / sizeof(table[0])};
