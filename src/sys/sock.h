/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sys/sock - packets with descriptors between two of our own processes.
 *
 * SOCK_SEQPACKET pairs: a message is whole or not at all. No allocation.
 */
#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

#define SOCK_FDS_MAX 240 /* the kernel's SCM_MAX_FD is 253 */

int sock_pair(int ret[2], struct err *err);
int sock_send(int fd, const void *data, size_t n, const int *fds, size_t fds_n, struct err *err);

/*
 * Receive one packet of at most n bytes and at most *fds_n descriptors (CLOEXEC);
 * *fds_n becomes the number received. Returns the length, 0 at end of file. A cut packet is
 * -EBADMSG.
 */
ssize_t sock_receive(int fd, void *data, size_t n, int *fds, size_t *fds_n, struct err *err);
