/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/attack_sockets - group kernel: old and odd socket families.
 *
 * A socket() call may load a module and reach code that nobody looks at. The
 * kernel answers EAFNOSUPPORT for a family it lacks and EPERM only for some that
 * want a capability, so EPERM is the filter's word.
 */
#include "cli/attack.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static bool is_wanted(int family)
{
	return family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
}

static int every_family(const struct attack *a, const struct attack_ctx *c, struct attack_report *r)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_RDM};

	(void)a;
	(void)c;
	for (int family = 1; family < 64; family++) {
		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
			AUTO_FD int fd = -EBADF;

			if (is_wanted(family))
				continue;
			fd = socket(family, types[i] | SOCK_CLOEXEC, 0);
			if (fd >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS))
				return attack_broke(r, "socket family %d type %d: %s", family,
					types[i], fd >= 0 ? "opened" : strerror(errno));
		}
	}
	return attack_refused(r, "59 socket families of five types");
}

#define SOCKET(family, type, protocol)                                                             \
	.wall = WALL_SECCOMP, .expect = {EPERM}, .try = attack_try_call, .call = "socket",         \
	.nr = SYS_socket, .arg = {(family), (type) | SOCK_CLOEXEC, (protocol)}

static const struct attack table[] = {
	{.name = "kernel/socket-alg",
		SOCKET(AF_ALG, SOCK_SEQPACKET, 0),
		.success = "the kernel's crypto code is driven from inside"},
	{.name = "kernel/socket-vsock",
		SOCKET(AF_VSOCK, SOCK_STREAM, 0),
		.success = "the hypervisor is reached past every network wall"},
	{.name = "kernel/socket-tipc-CVE-2021-43267",
		SOCKET(AF_TIPC, SOCK_SEQPACKET, 0),
		.success = "the TIPC module is loaded and reached"},
	{.name = "kernel/socket-rds-CVE-2010-3904",
		SOCKET(AF_RDS, SOCK_SEQPACKET, 0),
		.success = "the RDS module is loaded and reached"},
	{.name = "kernel/socket-can",
		SOCKET(AF_CAN, SOCK_DGRAM, 2),
		.success = "the CAN broadcast manager is reached"},
	{.name = "kernel/socket-bluetooth",
		SOCKET(AF_BLUETOOTH, SOCK_STREAM, 3),
		.success = "the Bluetooth stack is reached"},
	{.name = "kernel/socket-ax25",
		SOCKET(AF_AX25, SOCK_DGRAM, 0),
		.success = "the amateur radio stack is loaded and reached"},
	{.name = "kernel/socket-key",
		SOCKET(AF_KEY, SOCK_RAW, 2),
		.success = "the IPsec key manager is reached"},
	{.name = "kernel/socket-netfilter-CVE-2024-1086",
		SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER),
		.success = "nf_tables is reached"},
	{.name = "kernel/socket-xfrm-CVE-2017-7184",
		SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_XFRM),
		.success = "the IPsec state code is reached"},
	{.name = "kernel/socket-every-odd-family",
		.wall = WALL_SECCOMP,
		.success = "a family besides unix, inet, inet6 and netlink reaches the kernel",
		.try = every_family,
		.expect = {EPERM}},
};

const struct attack_table attack_table_sockets = {table, sizeof(table) / sizeof(table[0])};
