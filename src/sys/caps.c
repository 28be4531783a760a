/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 64 bits are two words of the version 3 layout. */
struct caps_words {
	struct __user_cap_header_struct head;
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
};

int caps_last(void)
{
	int cap = CAP_LAST_CAP;

	/* The kernel may know more than our header, or less; /proc need not be mounted. */
	while (cap > 0 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) < 0)
		cap--;
	while (cap < 63 && prctl(PR_CAPBSET_READ, cap + 1, 0, 0, 0) >= 0)
		cap++;
	return cap;
}

int caps_bound(uint64_t keep, struct err *err)
{
	for (int cap = 0; cap < 64; cap++) {
		int r;

		if (keep >> cap & 1)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		/* Past the last one; or we may not, which is no harm if it is not there. */
		r = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
		if (r < 0)
			break;
		if (r > 0) {
			errno = EPERM;
			return err_sys(err, "caps: drop %d from the bounding set", cap);
		}
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(err, "caps: clear the ambient set");
	return 0;
}

int caps_set(uint64_t mask, struct err *err)
{
	struct caps_words w = {.head = {.version = _LINUX_CAPABILITY_VERSION_3}};

	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		w.data[i].effective = (uint32_t)(mask >> 32 * i);
		w.data[i].permitted = w.data[i].effective;
	}
	if (syscall(SYS_capset, &w.head, w.data) < 0)
		return err_sys(err, "caps: set to 0x%llx", (unsigned long long)mask);
	return 0;
}

uint64_t caps_effective(void)
{
	struct caps_words w = {.head = {.version = _LINUX_CAPABILITY_VERSION_3}};
	uint64_t mask = 0;

	if (syscall(SYS_capget, &w.head, w.data) < 0)
		return 0;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		mask |= (uint64_t)w.data[i].effective << 32 * i;
	return mask;
}
