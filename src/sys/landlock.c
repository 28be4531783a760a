/* SPDX-License-Identifier: Apache-2.0 */

#include "sys/landlock.h"

#include "sys/kernel_abi.h"

#include <errno.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RIGHTS_READ                                                                                \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_WRITE_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
#define RIGHTS_WRITE                                                                               \
	(RIGHTS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |      \
		LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                        \
		LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |                      \
		LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
/* No caller may allow these, so a ruleset always refuses them. */
#define RIGHTS_DEVICE_NODES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
/* What a rule on something that is not a directory may hold; more is EINVAL. */
#define RIGHTS_OF_A_FILE                                                                           \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | RIGHTS_WRITE_FILE |           \
		LANDLOCK_ACCESS_FS_IOCTL_DEV)

#define ABI_REFER     2
#define ABI_TRUNCATE  3
#define ABI_NET       4
#define ABI_IOCTL_DEV 5
#define ABI_SCOPES    6

static int sys_landlock_create_ruleset(
	const struct abi_landlock_ruleset_attr *attr, size_t size, uint32_t flags)
{
	return (int)syscall(SYS_landlock_create_ruleset, attr, size, flags);
}

int landlock_abi(void)
{
	int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	/* ENOSYS: not built in; EOPNOTSUPP: not in the kernel's lsm= list. */
	return abi < 0 ? 0 : abi;
}

/* Every right this ABI knows; an unknown one would make the kernel refuse the ruleset. */
static uint64_t rights_of(int abi)
{
	uint64_t rights =
		RIGHTS_READ | RIGHTS_WRITE | RIGHTS_DEVICE_NODES | LANDLOCK_ACCESS_FS_IOCTL_DEV;

	if (abi < ABI_REFER)
		rights &= ~LANDLOCK_ACCESS_FS_REFER;
	if (abi < ABI_TRUNCATE)
		rights &= ~LANDLOCK_ACCESS_FS_TRUNCATE;
	if (abi < ABI_IOCTL_DEV)
		rights &= ~LANDLOCK_ACCESS_FS_IOCTL_DEV;
	return rights;
}

int landlock_open(bool deny_tcp, struct err *err)
{
	struct abi_landlock_ruleset_attr attr = {0};
	int abi = landlock_abi();
	int fd;

	if (abi < 1)
		return err_set(err, EOPNOTSUPP, "landlock: the kernel does not have it");
	attr.handled_access_fs = rights_of(abi);
	if (deny_tcp && abi >= ABI_NET)
		attr.handled_access_net =
			LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP;
	if (abi >= ABI_SCOPES)
		attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
	fd = sys_landlock_create_ruleset(&attr, sizeof(attr), 0);
	if (fd < 0)
		return err_sys(err, "landlock: create a ruleset for abi %d", abi);
	return fd; /* close-on-exec by the kernel's rule */
}

int landlock_allow(int ruleset_fd, int parent_fd, unsigned access, struct err *err)
{
	struct landlock_path_beneath_attr rule = {.parent_fd = parent_fd};
	uint64_t rights = 0;
	struct stat st;

	if (access & LANDLOCK_READ)
		rights |= RIGHTS_READ;
	if (access & LANDLOCK_WRITE)
		rights |= RIGHTS_WRITE;
	if (access & LANDLOCK_WRITE_FILE)
		rights |= RIGHTS_WRITE_FILE;
	if (access & LANDLOCK_DEVICES)
		rights |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	rights &= rights_of(landlock_abi());

	if (fstat(parent_fd, &st) < 0)
		return err_sys(err, "landlock: stat the parent of a rule");
	if (!S_ISDIR(st.st_mode))
		rights &= RIGHTS_OF_A_FILE;
	if (rights == 0)
		return 0; /* the kernel refuses an empty rule, and it would allow nothing */
	rule.allowed_access = rights;
	if (syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_sys(err, "landlock: add a rule");
	return 0;
}

int landlock_enter(int ruleset_fd, struct err *err)
{
	if (syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0)
		return err_sys(err, "landlock: enter the ruleset");
	return 0;
}

const char *landlock_describe(int abi, bool deny_tcp)
{
	bool has_net = deny_tcp && abi >= ABI_NET;

	if (abi < 1)
		return "none";
	if (abi >= ABI_SCOPES)
		return has_net ? "fs, net, scopes" : "fs, scopes";
	return has_net ? "fs, net" : "fs";
}
