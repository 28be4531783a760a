/* SPDX-License-Identifier: Apache-2.0 */

/*
 * daemon/state_boxes - <state>/boxes in memory, where this machine has a place for it.
 *
 * What is in there means nothing after a restart of the machine: no sandbox runs then, and every
 * record says of which boot it is. On a disk it is costly: ext4 looks at every inode that
 * was removed in the last seconds before it gives out a new one, and each sandbox takes three.
 * So <state>/boxes is a link to a directory below /run, and a directory where that cannot be had:
 * without root (a user's runtime directory goes when he logs out, his sandboxes do not), or
 * while sandboxes of an earlier start are in it. docs/decisions/boxes-in-memory.md
 */
#include "base/own.h"
#include "base/text.h"
#include "daemon/state.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define BOXES_MODE 0711

/* Some containers have /run on their disk. */
static const char *const places[][2] = {{"/run", "/run/bawn"}, {"/dev/shm", "/dev/shm/bawn"}};

/* Who may write to it may forge records, by which root kills. */
static bool is_roots(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == 0 &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static char *find_place(const char *state)
{
	struct statfs fs;
	struct stat st;

	if (stat(state, &st) < 0)
		return NULL;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *dir = places[i][1];

		if (statfs(places[i][0], &fs) < 0 || fs.f_type != TMPFS_MAGIC)
			continue;
		if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || !is_roots(dir))
			continue;
		return text_format("%s/boxes-%x-%llx", dir, (unsigned)st.st_dev,
			(unsigned long long)st.st_ino);
	}
	return NULL;
}

static bool is_link(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static int link_boxes(const char *path, const char *place, struct err *err)
{
	if (mkdir(place, BOXES_MODE) < 0 && errno != EEXIST)
		return err_sys(err, "make the directory '%s'", place);
	if (!is_roots(place))
		return err_set(err, EPERM, "'%s' can be written to by others than root", place);
	if (chmod(place, BOXES_MODE) < 0)
		return err_sys(err, "set the mode of '%s'", place);
	if (symlink(place, path) < 0)
		return err_sys(err, "link '%s' to '%s'", path, place);
	return 0;
}

int state_place_boxes(const char *state, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/boxes", state), *place = NULL;
	struct stat st;

	if (geteuid() != 0)
		return 0;
	/* There already, also if it is where we would not put it today: there may be records. */
	if (is_link(path) && stat(path, &st) == 0)
		return st.st_uid == 0 && S_ISDIR(st.st_mode)
			       ? 0
			       : err_set(err, EPERM, "'%s' is not root's", path);
	place = find_place(state);
	if (is_link(path) ? unlink(path) < 0 : place && rmdir(path) < 0)
		return errno == ENOTEMPTY ? 0 : err_sys(err, "replace '%s'", path);
	if (place)
		return link_boxes(path, place, err);
	if (mkdir(path, BOXES_MODE) < 0 && errno != EEXIST)
		return err_sys(err, "make the directory '%s'", path);
	return 0;
}

void state_unplace_boxes(const char *state)
{
	AUTO_FREE char *path = text_format("%s/boxes", state);
	char place[256];
	ssize_t n = geteuid() == 0 ? readlink(path, place, sizeof(place) - 1) : -1;

	if (n <= 0)
		return;
	place[n] = 0;
	/* Sandboxes that stay are in it, and so it stays. */
	if (rmdir(place) == 0 && unlink(path) == 0)
		(void)mkdir(path, BOXES_MODE);
}
