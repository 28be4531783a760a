/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/guard - masks that the host takes away are put back.
 *
 * Since Linux 3.18 a rename over, or a removal of, a name that is a mount point only
 * in another mount namespace succeeds, and detaches the mount there. An editor or
 * `git config` on the host does just that to a file that is masked in the box. Pid 1 watches
 * the directories of its masks and covers again what was uncovered; each time is reported.
 * Runs in pid 1, in the box's namespaces, with the capabilities it built the box with.
 */
#include "base/own.h"
#include "run/process/box_impl.h"

#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define WATCHED (IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ONLYDIR)

static bool is_guarded(const struct op *op)
{
	return op->wall == WALL_MASKS && (op->kind == OP_MASK || op->kind == OP_RDONLY);
}

int guard_open(const struct plan *p)
{
	int fd = -EBADF;

	for (size_t i = 0; i < p->n; i++) {
		char dir[PATH_MAX];
		char *slash;
		size_t n;

		if (!is_guarded(&p->ops[i]))
			continue;
		if (fd < 0)
			fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		n = strlen(p->ops[i].path);
		if (fd < 0 || n >= sizeof(dir))
			break;
		memcpy(dir, p->ops[i].path, n + 1);
		slash = strrchr(dir, '/');
		slash[slash == dir] = 0;
		/*
		 * A directory that is gone has nothing in it to guard; guard_check() looks in any
		 * case.
		 */
		(void)inotify_add_watch(fd, dir, WATCHED);
	}
	return fd;
}

/* There, and not covered. */
static bool has_fallen(const char *path)
{
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &stx) < 0)
		return false;
	if (!(stx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
		return false; /* COMPAT(5.8): the kernel does not say */
	return !(stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) && !S_ISLNK(stx.stx_mode);
}

void guard_check(struct apply *a, void (*fell)(size_t op, void *arg), void *arg)
{
	for (size_t i = 0; i < a->plan->n; i++) {
		const struct op *op = &a->plan->ops[i];
		struct op again;
		struct stat st;
		struct err ignored;

		if (!is_guarded(op) || !has_fallen(op->path))
			continue;
		again = *op;
		/* What took its place may be of another kind. */
		if (op->kind == OP_MASK && stat(op->path, &st) == 0)
			again.is_file = !S_ISDIR(st.st_mode);
		(void)apply_again(a, &again, &ignored);
		fell(i, arg);
	}
}

void guard_read(int fd)
{
	char buf[4096];

	while (fd >= 0 && read(fd, buf, sizeof(buf)) > 0)
		; /* only that something happened matters: guard_check() looks at all */
}
