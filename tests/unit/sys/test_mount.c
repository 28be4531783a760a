/* SPDX-License-Identifier: Apache-2.0 */

/*
 * sys/mount against the kernel, in user and mount namespaces of each case's own. As any user.
 */
#include "sys/mount.h"

#include "in_userns.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

static struct err err;

/* A fresh tmpfs on /tmp; its descriptor. */
static int tmp(unsigned attrs)
{
	AUTO_FD int fd = mount_tmpfs(1 << 20, 64, 0755, attrs, &err);
	AUTO_FD int target = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || mount_attach(fd, target, &err) < 0)
		return -EBADF;
	return TAKE_FD(fd);
}

static int put(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -EIO;
}

static bool holds(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[64] = "";

	return fd >= 0 && read(fd, buf, sizeof(buf) - 1) >= 0 && strcmp(buf, text) == 0;
}

static int tmpfs_in_child(void)
{
	AUTO_FD int fd = mount_tmpfs(1 << 20, 64, 0751, MOUNT_NOSUID | MOUNT_NODEV, &err);
	struct statvfs v;
	struct stat st;

	NEED(fd >= 0);
	NEED(fstatvfs(fd, &v) == 0 && fstat(fd, &st) == 0);
	NEED(v.f_blocks * v.f_frsize == 1 << 20);
	NEED(v.f_files == 64);
	NEED((st.st_mode & 07777) == 0751);
	NEED((v.f_flag & (ST_NOSUID | ST_NODEV)) == (ST_NOSUID | ST_NODEV));
	NEED(!(v.f_flag & ST_NOEXEC) && !(v.f_flag & ST_RDONLY));
	NEED(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	return 0;
}

static void a_tmpfs_has_the_size_and_attributes_asked_for(void)
{
	CHECK_INT(in_userns(tmpfs_in_child), 0);
}

static int full_in_child(void)
{
	AUTO_FD int root = tmp(0), fd = -EBADF;
	char block[4096] = "x";
	int written = 0;

	NEED(root >= 0);
	fd = open("/tmp/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	NEED(fd >= 0);
	while (written < 1000 && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		written++;
	NEED(errno == ENOSPC && written <= 256);
	return 0;
}

static void a_full_tmpfs_says_so(void)
{
	CHECK_INT(in_userns(full_in_child), 0);
}

static int readonly_in_child(void)
{
	AUTO_FD int root = tmp(0), ro = -EBADF, target = -EBADF;

	NEED(root >= 0 && mkdir("/tmp/a", 0755) == 0 && mkdir("/tmp/b", 0755) == 0);
	NEED(put("/tmp/a/f", "one") == 0);
	ro = mount_clone(AT_FDCWD, "/tmp/a", 0, &err);
	NEED(ro >= 0);
	NEED(mount_change(ro, MOUNT_RDONLY | MOUNT_NOEXEC, -EBADF, &err) == 0);
	target = mount_resolve(root, "/b", &err);
	NEED(target >= 0 && mount_attach(ro, target, &err) == 0);
	NEED(holds("/tmp/b/f", "one"));
	NEED(put("/tmp/b/g", "two") == -EROFS);
	/* The same files by the other way in. */
	NEED(put("/tmp/a/f", "two") == 0 && holds("/tmp/b/f", "two"));
	return 0;
}

static void a_read_only_clone_leaves_the_original_writable(void)
{
	CHECK_INT(in_userns(readonly_in_child), 0);
}

static int recursive_in_child(void)
{
	AUTO_FD int root = tmp(0), inner = -EBADF, flat = -EBADF, deep = -EBADF, target = -EBADF;

	NEED(root >= 0 && mkdir("/tmp/m", 0755) == 0);
	inner = mount_tmpfs(0, 0, 0755, 0, &err);
	target = mount_resolve(root, "/m", &err);
	NEED(inner >= 0 && target >= 0 && mount_attach(inner, target, &err) == 0);
	NEED(put("/tmp/m/f", "x") == 0);
	flat = mount_clone(AT_FDCWD, "/tmp", 0, &err);
	deep = mount_clone(AT_FDCWD, "/tmp", MOUNT_RECURSIVE, &err);
	NEED(flat >= 0 && deep >= 0);
	NEED(faccessat(flat, "m/f", F_OK, 0) < 0 && errno == ENOENT);
	NEED(faccessat(deep, "m/f", F_OK, 0) == 0);
	/* Attributes go as deep as they were asked to. */
	NEED(mount_change(deep, MOUNT_RDONLY | MOUNT_RECURSIVE, -EBADF, &err) == 0);
	NEED(openat(deep, "m/g", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0 && errno == EROFS);
	return 0;
}

static void a_clone_takes_the_mounts_below_only_if_asked(void)
{
	CHECK_INT(in_userns(recursive_in_child), 0);
}

static int change_nothing_in_child(void)
{
	AUTO_FD int fd = open("/", O_PATH | O_CLOEXEC);

	/* Not even a call: the descriptor is no mount of ours to change. */
	NEED(mount_change(fd, 0, -EBADF, &err) == 0);
	return 0;
}

static void changing_nothing_always_works(void)
{
	CHECK_INT(in_userns(change_nothing_in_child), 0);
}

static int resolve_in_child(void)
{
	AUTO_FD int root = tmp(0), fd = -EBADF;
	struct stat here, there;

	NEED(root >= 0 && mkdir("/tmp/etc", 0755) == 0 && symlink("/etc", "/tmp/abs") == 0);
	NEED(symlink("../../../../etc", "/tmp/up") == 0 && symlink("loop", "/tmp/loop") == 0);
	NEED(stat("/tmp/etc", &here) == 0);
	for (const char *const *p = (const char *const[]){"/etc", "/abs", "/up", "/../../etc",
		     "/etc/../../etc", NULL};
		*p; p++) {
		fd = mount_resolve(root, *p, &err);
		NEED(fd >= 0 && fstat(fd, &there) == 0);
		NEED(here.st_ino == there.st_ino && here.st_dev == there.st_dev);
		closep(&fd);
	}
	NEED(mount_resolve(root, "/abs/passwd", &err) == -ENOENT);
	NEED(strcmp(err.msg, "resolve '/abs/passwd' in the new root: No such file or directory") ==
		0);
	NEED(mount_resolve(root, "/loop", &err) == -ELOOP);
	return 0;
}

static void a_symlink_in_the_new_root_never_leads_out_of_it(void)
{
	CHECK_INT(in_userns(resolve_in_child), 0);
}

static int magic_in_child(void)
{
	AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	NEED(mount_resolve(root, "/proc/self/root/etc", &err) == -ELOOP);
	return 0;
}

static void magic_links_are_refused(void)
{
	CHECK_INT(in_userns(magic_in_child), 0);
}

static int target_in_child(void)
{
	AUTO_FD int root = tmp(0);
	struct stat st;

	NEED(root >= 0);
	NEED(mount_make_target(root, "/a/b/dir", false, &err) == 0);
	NEED(mount_make_target(root, "/a/b/file", true, &err) == 0);
	NEED(stat("/tmp/a/b/dir", &st) == 0 && S_ISDIR(st.st_mode));
	NEED(stat("/tmp/a/b/file", &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0);
	/* What is there already stays as it is. */
	NEED(put("/tmp/a/b/file", "kept") == 0);
	NEED(mount_make_target(root, "/a/b/file", true, &err) == 0 &&
		holds("/tmp/a/b/file", "kept"));
	NEED(mount_make_target(root, "/a/b/file/c", false, &err) == -ENOTDIR);
	/* Through a link it is made where the link leads inside the root. */
	NEED(mkdir("/tmp/usr", 0755) == 0 && symlink("/usr", "/tmp/link") == 0);
	NEED(mount_make_target(root, "/link/made", false, &err) == 0);
	NEED(stat("/tmp/usr/made", &st) == 0 && stat("/usr/made", &st) < 0);
	return 0;
}

static void mount_points_are_made_inside_the_root(void)
{
	CHECK_INT(in_userns(target_in_child), 0);
}

static int overlay_in_child(void)
{
	AUTO_FD int root = tmp(0), lower = -EBADF, upper = -EBADF, fd = -EBADF, target = -EBADF;

	NEED(root >= 0 && mkdir("/tmp/low", 0755) == 0 && mkdir("/tmp/up", 0755) == 0);
	NEED(mkdir("/tmp/up/u", 0755) == 0 && mkdir("/tmp/up/w", 0755) == 0);
	NEED(mkdir("/tmp/at", 0755) == 0);
	NEED(put("/tmp/low/old", "old") == 0 && put("/tmp/low/gone", "x") == 0);
	lower = open("/tmp/low", O_PATH | O_CLOEXEC);
	upper = open("/tmp/up", O_PATH | O_CLOEXEC);
	fd = mount_overlay(&lower, 1, upper, true, MOUNT_NODEV, &err);
	NEED(fd >= 0);
	target = mount_resolve(root, "/at", &err);
	NEED(mount_attach(fd, target, &err) == 0);
	NEED(holds("/tmp/at/old", "old"));
	NEED(put("/tmp/at/old", "new") == 0 && unlink("/tmp/at/gone") == 0);
	NEED(holds("/tmp/low/old", "old") && holds("/tmp/up/u/old", "new"));
	NEED(access("/tmp/low/gone", F_OK) == 0 && access("/tmp/at/gone", F_OK) < 0);
	return 0;
}

static void an_overlay_writes_to_its_upper_layer_alone(void)
{
	CHECK_INT(in_userns(overlay_in_child), 0);
}

static int pivot_in_child(void)
{
	AUTO_FD int root = tmp(0);
	struct statfs fs;

	NEED(root >= 0 && put("/tmp/mark", "here") == 0);
	NEED(mount_pivot(root, &err) == 0);
	NEED(holds("/mark", "here"));
	NEED(access("/etc", F_OK) < 0 && errno == ENOENT);
	NEED(statfs("/", &fs) == 0 && fs.f_type == 0x01021994);
	/* Nothing is stacked below: going up from the root stays in it. */
	NEED(chdir("/..") == 0 && access("mark", F_OK) == 0);
	return 0;
}

static void after_the_pivot_the_old_root_is_gone(void)
{
	CHECK_INT(in_userns(pivot_in_child), 0);
}

static int errors_in_child(void)
{
	static const char *const odd[] = {"nosuchoption", "1", NULL};

	NEED(mount_kernel_fs("nosuchfs", NULL, 0, &err) == -ENODEV);
	NEED(strcmp(err.msg, "open file system type 'nosuchfs': No such device") == 0);
	NEED(mount_kernel_fs("tmpfs", odd, 0, &err) == -EINVAL);
	NEED(strcmp(err.msg, "mount option 'nosuchoption=1': Invalid argument") == 0);
	NEED(mount_clone(AT_FDCWD, "/nowhere", 0, &err) == -ENOENT);
	NEED(strcmp(err.msg, "clone the mount tree at '/nowhere': No such file or directory") == 0);
	return 0;
}

static void errors_name_the_file_system_the_option_and_the_path(void)
{
	CHECK_INT(in_userns(errors_in_child), 0);
}

static int leftover_in_child(void)
{
	AUTO_FD int root = tmp(0);

	return root >= 0 && put("/tmp/bawn-test-mount-mark", "x") == 0 ? 0 : __LINE__;
}

static void nothing_propagates_out(void)
{
	CHECK_INT(in_userns(leftover_in_child), 0);
	CHECK(access("/tmp/bawn-test-mount-mark", F_OK) < 0 && errno == ENOENT);
}

int main(void)
{
	RUN(a_tmpfs_has_the_size_and_attributes_asked_for);
	RUN(a_full_tmpfs_says_so);
	RUN(a_read_only_clone_leaves_the_original_writable);
	RUN(a_clone_takes_the_mounts_below_only_if_asked);
	RUN(changing_nothing_always_works);
	RUN(a_symlink_in_the_new_root_never_leads_out_of_it);
	RUN(magic_links_are_refused);
	RUN(mount_points_are_made_inside_the_root);
	RUN(an_overlay_writes_to_its_upper_layer_alone);
	RUN(after_the_pivot_the_old_root_is_gone);
	RUN(errors_name_the_file_system_the_option_and_the_path);
	RUN(nothing_propagates_out);
	return tap_done();
}
