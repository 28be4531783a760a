/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/net.h"

#include "base/own.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int net_loopback_up(struct err *err)
{
	AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr;

	if (fd < 0)
		return err_sys(err, "network: socket");
	memset(&ifr, 0, sizeof(ifr));
	memcpy(ifr.ifr_name, "lo", 3);
	ifr.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
	if (ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_sys(err, "network: bring 'lo' up");
	return 0;
}

/* Counts those of one answer; true at the end of the last one. */
static bool count_up(struct nlmsghdr *h, size_t n, uint32_t *count)
{
	for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
		const struct ifinfomsg *link = NLMSG_DATA(h);

		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
			return true;
		*count += h->nlmsg_type == RTM_NEWLINK && (link->ifi_flags & IFF_UP);
	}
	return false;
}

int net_links_up(uint32_t *ret, struct err *err)
{
	AUTO_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr h;
		struct ifinfomsg link;
	} ask = {
		.h = {.nlmsg_len = sizeof(ask),
			.nlmsg_type = RTM_GETLINK,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
	};
	union {
		char bytes[16384];
		struct nlmsghdr align;
	} answer;
	uint32_t count = 0;

	if (fd < 0 || send(fd, &ask, sizeof(ask), 0) < 0)
		return err_sys(err, "network: ask for interfaces");
	for (;;) {
		ssize_t n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);

		if (n < 0)
			return err_sys(err, "network: list interfaces");
		if (count_up(&answer.align, (size_t)n, &count))
			break;
	}
	*ret = count;
	return 0;
}
