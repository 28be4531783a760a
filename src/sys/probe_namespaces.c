/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Namespaces, tried. A sandbox makes all its namespaces inside a user namespace of
 * its own, as root too, so that is how they are tried here.
 */
#include "sys/probe_impl.h"

#include "base/own.h"
#include "sys/kernel_abi.h"
#include "sys/mount.h"
#include "sys/net.h"

#include <errno.h>
#include <grp.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ORDINARY_UID 65534

/*
 * Under Ubuntu's AppArmor restriction the namespace comes into being and capget()
 * shows all capabilities, but each use of one is refused. So use one.
 */
static int use_capability(const void *arg, struct err *err)
{
	(void)arg;
	if (sethostname("probe", 5) < 0)
		return err_sys(err, "use a capability inside");
	return 0;
}

static int as_ordinary_user(const void *arg, struct err *err)
{
	int r;

	if (setgroups(0, NULL) < 0 || setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) < 0 ||
		setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) < 0)
		return err_sys(err, "become uid %d", ORDINARY_UID);
	/* The change of ids made /proc/self root's; a process that logs in afresh owns its own. */
	(void)prctl(PR_SET_DUMPABLE, 1);
	if (unshare(CLONE_NEWUSER | CLONE_NEWUTS) < 0)
		return err_sys(err, "unshare");
	r = probe_map_self(ORDINARY_UID, ORDINARY_UID, err);
	return r < 0 ? r : use_capability(arg, err);
}

static int nothing_more(const void *arg, struct err *err)
{
	(void)arg;
	(void)err;
	return 0;
}

static int is_pid_one(const void *arg, struct err *err)
{
	(void)arg;
	if (getpid() != 1)
		return err_set(err, ENOTSUP, "be pid 1: not so");
	return 0;
}

static int make_private(const void *arg, struct err *err)
{
	(void)arg;
	return mount_make_private(err);
}

static int loopback_up(const void *arg, struct err *err)
{
	(void)arg;
	return net_loopback_up(err);
}

/* clone() has no room for this flag among its signal bits. */
static int new_time(const void *arg, struct err *err)
{
	(void)arg;
	if (unshare(CLONE_NEWTIME) < 0)
		return err_sys(err, "unshare");
	return 0;
}

static int nft_answers(const void *arg, struct err *err)
{
	AUTO_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct timeval limit = {.tv_sec = 1};
	struct {
		struct nlmsghdr head;
		struct nfgenmsg body;
	} ask = {
		.head =
			{
				.nlmsg_len = sizeof(ask),
				.nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
				.nlmsg_flags = NLM_F_REQUEST,
			},
		.body = {.version = NFNETLINK_V0},
	};
	union {
		struct nlmsghdr head;
		char bytes[1024];
	} answer;
	ssize_t n;

	(void)arg;
	if (fd < 0)
		return err_sys(err, "netlink socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (send(fd, &ask, sizeof(ask), 0) < 0)
		return err_sys(err, "ask nf_tables");
	n = recv(fd, &answer, sizeof(answer), 0);
	if (n < 0)
		return err_sys(err, "hear nf_tables");
	if ((size_t)n >= NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
		answer.head.nlmsg_type == NLMSG_ERROR) {
		struct nlmsgerr refusal;

		memcpy(&refusal, NLMSG_DATA(&answer.head), sizeof(refusal));
		errno = -refusal.error;
		return err_sys(err, "ask nf_tables");
	}
	return 0;
}

void probe_namespaces(struct probe *p)
{
	static const struct {
		enum probe_item item;
		unsigned long flags;
		probe_fn fn;
	} tries[] = {
		{PROBE_USERNS, CLONE_NEWUTS, use_capability},
		{PROBE_NS_MOUNT, CLONE_NEWNS, make_private},
		{PROBE_NS_PID, CLONE_NEWPID, is_pid_one},
		{PROBE_NS_NET, CLONE_NEWNET, loopback_up},
		{PROBE_NS_IPC, CLONE_NEWIPC, nothing_more},
		{PROBE_NS_UTS, CLONE_NEWUTS, use_capability},
		{PROBE_NS_CGROUP, CLONE_NEWCGROUP, nothing_more},
		{PROBE_NS_TIME, 0, new_time},
		{PROBE_NFT, CLONE_NEWNET, nft_answers},
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		probe_try(&p->tries[tries[i].item], CLONE_NEWUSER | tries[i].flags, tries[i].fn,
			NULL);
	if (p->is_root)
		probe_try(&p->tries[PROBE_USERNS_ORDINARY], 0, as_ordinary_user, NULL);
}
