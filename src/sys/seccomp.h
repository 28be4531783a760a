/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/seccomp - install one of the built-in filters, and speak with its listener.
 *
 * The filters are made at build time from core/seccomp_table.h by
 * tools/gen-seccomp; here they are bytes. Installing allocates nothing: it runs in
 * the child between clone3() and execve().
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum seccomp_flags {
	SECCOMP_NOTIFY = 1u << 0, /* dangerous calls go to a listener instead of plain EPERM */
	SECCOMP_WATCH_CONNECT = 1u << 1, /* connect() is shown to the listener and continues */
	SECCOMP_WATCH_WRITES = 1u << 2,  /* so are opens for writing and calls that change names */
	SECCOMP_NO_SUID = 1u << 3, /* creating or changing to setuid/setgid modes is refused */
};

/*
 * Install, for the calling thread and what it starts; there is no way back. Needs
 * no_new_privs, or CAP_SYS_ADMIN in the user namespace (else -EACCES). *ret_listener is the
 * notification fd (CLOEXEC, the caller closes it) with SECCOMP_NOTIFY, else -EBADF;
 * also -EBADF where the kernel gives no listener, because it is old or a filter around us has the
 * one there can be: the same calls are refused then, only nobody is told.
 * -EINVAL for a WATCH flag without SECCOMP_NOTIFY.
 */
int seccomp_install(unsigned flags, int *ret_listener, struct err *err);

struct seccomp_event {
	uint64_t id;
	pid_t pid; /* in the reader's pid namespace */
	int nr;    /* system call, native ABI */
	uint64_t args[6];
	bool is_watch; /* shown only: will continue. false: refused */
};

/*
 * Receive one event, without blocking: -EAGAIN if there is none, -ENOENT if the
 * caller died meanwhile, -EPIPE once no process under the filter is left.
 */
int seccomp_receive(int listener, struct seccomp_event *ret, struct err *err);
/* True while the caller still waits: check after reading its memory. */
bool seccomp_still_waiting(int listener, uint64_t id);
/* Answer: watched calls continue, refused calls get EPERM. -ENOENT if the caller died meanwhile. */
int seccomp_answer(int listener, const struct seccomp_event *ev, struct err *err);

/* "mount", "bpf", … or NULL. */
const char *seccomp_syscall_name(int nr);
