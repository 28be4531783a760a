/* SPDX-License-Identifier: Apache-2.0 */

#include "daemon/state.h"

#include "base/own.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* "bawn:x:UID:GID:…", if there is such a line; read by hand, a static program has no NSS. */
static bool find_user(const char *name, struct state_ids *ret)
{
	AUTO_FILE FILE *f = fopen("/etc/passwd", "re");
	AUTO_FREE char *line = NULL;
	size_t size = 0, n = strlen(name);

	while (f && getline(&line, &size, f) > 0) {
		uint64_t uid = 0, gid = 0;
		const char *s = line + n;

		if (strncmp(line, name, n) != 0 || *s != ':')
			continue;
		s += 1 + strcspn(s + 1, ":\n");
		if (*s++ != ':' || text_scan_u64(&s, &uid) < 0 || *s++ != ':' ||
			text_scan_u64(&s, &gid) < 0 || uid == 0 || gid == 0)
			return false;
		*ret = (struct state_ids){(uid_t)uid, (gid_t)gid};
		return true;
	}
	return false;
}

/* The ids of user `name`, or `number` for both. */
static struct state_ids role_ids(const char *name, uid_t number)
{
	struct state_ids ids = {geteuid(), getegid()};
	AUTO_FD int map = -EBADF;
	char text[64] = "";
	const char *s = text;
	uint64_t inside = 1, outside = 1, count = 0;

	if (ids.uid != 0)
		return ids;
	/* Root of a user namespace that lacks our number: there is nobody else to be. */
	map = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	if (map < 0 || read(map, text, sizeof(text) - 1) <= 0 || text_scan_u64(&s, &inside) < 0 ||
		text_scan_u64(&s, &outside) < 0 || text_scan_u64(&s, &count) < 0 ||
		inside + count <= number)
		return ids;
	if (!find_user(name, &ids))
		ids = (struct state_ids){number, number};
	return ids;
}

struct state_ids state_api_ids(void)
{
	return role_ids("bawn", STATE_API_UID);
}

struct state_ids state_egress_ids(void)
{
	return role_ids("bawn-egress", STATE_EGRESS_UID);
}

static int make_parents(const char *path, struct err *err)
{
	AUTO_FREE char *part = text_format("%s", path);

	for (char *s = strchr(part + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return err_sys(err, "make the directory '%s'", part);
		*s = '/';
	}
	return 0;
}

static int make(const char *state, const char *name, mode_t mode, const struct state_ids *owner,
	struct err *err)
{
	AUTO_FREE char *path = text_format("%s%s%s", state, *name ? "/" : "", name);
	AUTO_FD int fd = -EBADF;
	struct stat st;

	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return err_sys(err, "make the directory '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "open the directory '%s'", path);
	if ((st.st_uid != owner->uid || st.st_gid != owner->gid) &&
		fchown(fd, owner->uid, owner->gid) < 0)
		return err_sys(err, "give '%s' to user %u", path, owner->uid);
	if ((st.st_mode & 07777) != mode && fchmod(fd, mode) < 0)
		return err_sys(err, "set the mode of '%s'", path);
	return 0;
}

/* As root it may be a link: state_place_boxes(). */
static int make_boxes(const char *state, const struct state_ids *self, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/boxes", state);
	struct stat st;

	if (self->uid == 0 && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		return 0;
	return make(state, "boxes", 0711, self, err);
}

/* Every directory above must let a role through; it is nobody's group. */
static int check_reach(
	const char *state, const char *role, const struct state_ids *ids, struct err *err)
{
	AUTO_FREE char *part = text_format("%s/", state);
	struct stat st;

	if (ids->uid == geteuid())
		return 0;
	for (char *s = strchr(part + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = '\0';
		if (stat(part, &st) < 0)
			return err_sys(err, "stat '%s'", part);
		if (!(st.st_mode & S_IXOTH) && st.st_uid != ids->uid) {
			(void)err_set(err, EACCES,
				"user %u, as whom the %s role runs, cannot pass through '%s'",
				ids->uid, role, part);
			return err_hint(err, "chmod o+x '%s', or choose another --state", part);
		}
		*s = '/';
	}
	return 0;
}

/* Who may rename things in it may forge records, by which root kills, and templates. */
static int check_owner(const char *state, struct err *err)
{
	struct stat st;

	if (geteuid() != 0)
		return 0;
	if (stat(state, &st) < 0)
		return err_sys(err, "stat '%s'", state);
	if (st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	(void)err_set(err, EPERM, "'%s' can be written to by others than root", state);
	return err_hint(err, "chown root '%s' and chmod go-w it, or choose another --state", state);
}

int state_prepare(const char *state, const struct state_ids *api, const struct state_ids *egress,
	struct err *err)
{
	const struct state_ids self = {geteuid(), getegid()};
	struct stat st;
	int r = make_parents(state, err);

	/* The directory itself is shared with `bawn run`: an existing one keeps its mode. */
	if (r >= 0 && stat(state, &st) < 0)
		r = make(state, "", 0755, &self, err);
	if (r >= 0)
		r = check_owner(state, err);
	if (r >= 0 && api->uid != self.uid && stat(state, &st) == 0 && st.st_uid == self.uid &&
		!(st.st_mode & S_IXOTH) && chmod(state, (st.st_mode & 07777) | S_IXOTH) < 0)
		r = err_sys(err, "let the roles into '%s'", state);
	if (r >= 0)
		r = make(state, "run", 0755, &self, err);
	if (r >= 0)
		r = make(state, "db", 0700, api, err);
	if (r >= 0)
		r = make_boxes(state, &self, err);
	if (r >= 0)
		r = make(state, "templates", 0700, &self, err);
	if (r >= 0)
		r = make(state, "ca", 0700, egress, err);
	if (r >= 0)
		r = make(state, "secrets", 0700, egress, err);
	if (r >= 0)
		r = check_reach(state, "api", api, err);
	return r < 0 ? r : check_reach(state, "egress", egress, err);
}

int state_enter_db(const char *state, char **ret_dir, struct err *err)
{
	struct state_ids ids = state_api_ids();
	AUTO_FREE char *dir = text_format("%s/db", state);
	struct stat st;

	/* What a server made is left as it is: it may run as another user than we would choose. */
	if (stat(dir, &st) < 0) {
		const struct state_ids egress = state_egress_ids();
		int r = state_prepare(state, &ids, &egress, err);

		if (r < 0)
			return r;
	} else {
		ids = (struct state_ids){st.st_uid, st.st_gid};
	}
	if (geteuid() == 0 && ids.uid != 0 &&
		(setgroups(0, NULL) < 0 || setresgid(ids.gid, ids.gid, ids.gid) < 0 ||
			setresuid(ids.uid, ids.uid, ids.uid) < 0))
		return err_sys(err, "become user %u, who owns '%s'", ids.uid, dir);
	*ret_dir = TAKE_PTR(dir);
	return 0;
}

int state_lock(const char *state, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/run/lock", state);
	/* Who may read it may lock it, and no server would start: nobody else may. */
	AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	char text[32] = "";
	int n;

	if (fd < 0 || fchmod(fd, 0600) < 0)
		return err_sys(err, "open '%s'", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		ssize_t k = read(fd, text, sizeof(text) - 1);

		if (errno != EWOULDBLOCK && k < 0)
			return err_sys(err, "lock '%s'", path);
		text[strcspn(text, "\n")] = '\0';
		return err_set(
			err, EBUSY, "process %s already serves '%s'", *text ? text : "?", state);
	}
	n = snprintf(text, sizeof(text), "%d\n", getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		return err_sys(err, "write '%s'", path);
	return TAKE_FD(fd);
}

int state_write(const char *state, const char *name, const char *text, struct err *err)
{
	AUTO_FREE char *path = text_format("%s/run/%s", state, name);
	AUTO_FREE char *fresh = text_format("%s/run/.%s.new", state, name);
	AUTO_FD int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	size_t n = strlen(text);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n || rename(fresh, path) < 0)
		return err_sys(err, "write '%s'", path);
	return 0;
}
