/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/template - the built-in `base` template: a made /etc, /home/user, /workspace; no
 * download.
 *
 * Everything but /usr, which is the host's and mounted read-only. Of the host's
 * /etc only what programs in /usr need and what holds no secret is copied, by an
 * allow-list; never /home, /root, /var, /opt, /srv, sockets or keys. The directory is
 * made once per state of those sources and found again by a digest of them.
 */
#include "base/mem.h"
#include "base/own.h"
#include "base/text.h"
#include "core/state_dir.h"
#include "run/process/box_impl.h"
#include "sys/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define REST_SECONDS 3600 /* what is left of a killed bawn is older than this */
#define FORMAT       7    /* raise when what is made below changes */

/* Copied from the host's /etc as they are. One reason each. */
static const char *const from_etc[] = {
	"alternatives",    /* half of /usr/bin are links through it */
	"ca-certificates", /* local trust anchors */
	"ca-certificates.conf",
	"debian_version",
	"debconf.conf", /* package configuration */
	"dpkg",         /* dpkg.cfg: no secrets in it */
	"fonts",        /* font lookup rules */
	"gai.conf",     /* address preference */
	"host.conf",
	"inputrc",
	"java-11-openjdk", /* the JDK's conf is a link into /etc */
	"java-17-openjdk",
	"java-21-openjdk",
	"ld.so.cache", /* the dynamic linker's view of /usr */
	"ld.so.conf",
	"ld.so.conf.d",
	"locale.alias",
	"locale.gen",
	"localtime",
	"login.defs",
	"magic",
	"mime.types",
	"pam.conf", /* sudo and su ask it */
	"pam.d",
	"perl",
	"profile.d",
	"protocols",
	"python3",
	"python3.11",
	"python3.12",
	"python3.13",
	"security", /* pam limits */
	"services",
	"shells",
	"skel",
	"ssl/certs",       /* trust store, public */
	"ssl/openssl.cnf", /* library defaults */
	"terminfo",
	"timezone",
};

struct made {
	const char *path;
	mode_t mode;
	const char *text; /* NULL: a directory */
	bool is_users;    /* owned by user (1000) where ids can be given */
};

static const struct made things[] = {
	{"dev", 0755, NULL, false},
	{"proc", 0555, NULL, false},
	{"sys", 0755, NULL, false},
	{"sys/devices", 0755, NULL, false},
	{"sys/devices/system", 0755, NULL, false},
	{"sys/devices/system/cpu", 0555, NULL, false},
	{"run", 0755, NULL, false},
	{"run/lock", 01777, NULL, false},
	{"run/bawn-ca", 0755, NULL, false}, /* ROAD_CA_DIR: a mount point */
	{"tmp", 01777, NULL, false},
	{"usr", 0755, NULL, false},
	{"mnt", 0755, NULL, false},
	{"media", 0755, NULL, false},
	{"opt", 0755, NULL, false},
	{"srv", 0755, NULL, false},
	{"root", 0700, NULL, false},
	{"home", 0755, NULL, false},
	{"home/user", 0755, NULL, true},
	{"workspace", 0755, NULL, true},
	{"var", 0755, NULL, false},
	{"var/cache", 0755, NULL, false},
	{"var/cache/apt", 0755, NULL, false},
	{"var/cache/apt/archives", 0755, NULL, false},
	{"var/cache/apt/archives/partial", 0755, NULL, false},
	{"var/cache/debconf", 0755, NULL, false},
	{"var/cache/ldconfig", 0700, NULL, false},
	{"var/cache/man", 0755, NULL, false},
	{"var/lib", 0755, NULL, false},
	{"var/lib/apt", 0755, NULL, false},
	{"var/lib/apt/lists", 0755, NULL, false},
	{"var/lib/apt/lists/partial", 0755, NULL, false},
	{"var/lib/dpkg", 0755, NULL, false},
	{"var/lib/pam", 0755, NULL, false},
	{"var/lib/systemd", 0755, NULL, false},
	{"var/log", 0755, NULL, false},
	{"var/log/apt", 0755, NULL, false},
	{"var/spool", 0755, NULL, false},
	{"var/tmp", 01777, NULL, false},
	{"etc", 0755, NULL, false},
	{"etc/ssl", 0755, NULL, false},
	{"etc/apt", 0755, NULL, false},
	{"etc/apt/apt.conf.d", 0755, NULL, false},
	{"etc/apt/preferences.d", 0755, NULL, false},
	{"etc/apt/sources.list.d", 0755, NULL, false},
	{"etc/apt/trusted.gpg.d", 0755, NULL, false},
	{"etc/sudoers.d", 0750, NULL, false},
	{"etc/apt/sources.list", 0644, "", false},
	/*
	 * Dropping to _apt needs ids a single-id box does not have; root here is only the box's
	 * root.
	 */
	{"etc/apt/apt.conf.d/00bawn", 0644, "APT::Sandbox::User \"root\";\n", false},
	{"etc/shadow", 0640, "root:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n", false},
	{"etc/gshadow", 0640, "root:*::\nsudo:*::user\nuser:!::\n", false},
	/*
	 * Only with --allow-sudo can it gain anything, and then only root over the box's own ids.
	 */
	{"etc/sudoers", 0440,
		"Defaults env_keep += \"PATH LANG\"\nroot ALL=(ALL:ALL) ALL\n"
		"user ALL=(ALL:ALL) NOPASSWD: ALL\n",
		false},
	{"etc/hostname", 0644, "bawn\n", false},
	{"etc/hosts", 0644, "127.0.0.1 localhost bawn\n::1 localhost ip6-localhost ip6-loopback\n",
		false},
	/* Nobody answers there unless the box has a road out. */
	{"etc/resolv.conf", 0644, "nameserver 127.0.0.1\n", false},
	{"etc/nsswitch.conf", 0644,
		"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"
		"protocols: files\n",
		false},
	{"etc/machine-id", 0444, "", false},
	{"etc/fstab", 0644, "", false},
	{"etc/environment", 0644, "", false},
	{"etc/bash.bashrc", 0644, "[ -z \"$PS1\" ] && return\nPS1='\\u@\\h:\\w\\$ '\n", false},
	{"etc/profile", 0644,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n"
		"[ -z \"$BASH\" ] || [ -z \"$PS1\" ] || . /etc/bash.bashrc\n",
		false},
	{"home/user/.bashrc", 0644, "PS1='\\u@\\h:\\w\\$ '\n", true},
	{"home/user/.profile", 0644,
		"[ -z \"$BASH_VERSION\" ] || [ ! -f ~/.bashrc ] || . ~/.bashrc\n"
		"[ ! -d ~/.local/bin ] || PATH=~/.local/bin:$PATH\n",
		true},
};

static const char *const links[][2] = {
	{"etc/mtab", "/proc/self/mounts"},
	{"etc/os-release", "../usr/lib/os-release"},
	{"var/run", "/run"},
	{"var/lock", "/run/lock"},
};

/* On a merged /usr these are links; elsewhere the host is not one we can build a root from. */
static const char *const top_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

const char *template_users_path(size_t n)
{
	for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++)
		if (things[i].is_users && n-- == 0)
			return things[i].path;
	return NULL;
}

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;

	/* FNV-1a: names a cache directory, guards nothing. */
	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

/*
 * What the template is made of changes by renaming new files into these
 * directories (dpkg, ldconfig and update-alternatives all do), which is seen in their times.
 */
static int digest(bool is_host_root, uint64_t *ret, struct err *err)
{
	static const char *const seen[] = {"/etc", "/etc/alternatives", "/etc/ssl/certs",
		"/etc/pam.d", "/etc/ld.so.conf.d", "/etc/profile.d", "/etc/ld.so.cache",
		"/etc/passwd", "/etc/group"};
	uint64_t h = 0xcbf29ce484222325ull, numbers[3] = {0};
	struct stat st;

	numbers[0] = FORMAT;
	numbers[1] = geteuid();
	numbers[2] = is_host_root; /* only then are files the box user's by number */
	h = mix(h, numbers, sizeof(numbers));
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
		if (stat(seen[i], &st) < 0) {
			if (errno != ENOENT && errno != ENOTDIR)
				return err_sys(err, "stat '%s'", seen[i]);
			continue;
		}
		numbers[0] = i;
		numbers[1] = (uint64_t)st.st_mtim.tv_sec;
		numbers[2] = (uint64_t)st.st_mtim.tv_nsec;
		h = mix(h, numbers, sizeof(numbers));
	}
	*ret = h;
	return 0;
}

static int make_thing(int dir, const struct made *m, bool is_host_root, struct err *err)
{
	if (!m->text) {
		if (mkdirat(dir, m->path, 0700) < 0)
			return err_sys(err, "make '%s'", m->path);
	} else {
		AUTO_FD int fd =
			openat(dir, m->path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		size_t n = strlen(m->text);

		if (fd < 0 || (n > 0 && write(fd, m->text, n) != (ssize_t)n))
			return err_sys(err, "write '%s'", m->path);
	}
	if (fchmodat(dir, m->path, m->mode, 0) < 0)
		return err_sys(err, "chmod '%s'", m->path);
	/* Ids are the box's own: an idmapped mount shows disk id 1000 as the box's 1000. */
	if (m->is_users && is_host_root &&
		fchownat(dir, m->path, TEMPLATE_USER, TEMPLATE_USER, 0) < 0)
		return err_sys(err, "give '%s' to user", m->path);
	return 0;
}

static int copy_etc(int dir, struct err *err)
{
	AUTO_FD int from = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int to = openat(dir, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tree_limits left = {.entries = 100000, .bytes = 256 << 20};

	if (from < 0 || to < 0)
		return err_sys(err, "open '/etc'");
	for (size_t i = 0; i < sizeof(from_etc) / sizeof(from_etc[0]); i++) {
		struct err why = {0};
		int r;

		if (faccessat(from, from_etc[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT && errno != ENOTDIR)
				return err_sys(err, "look for '/etc/%s'", from_etc[i]);
			continue;
		}
		r = tree_copy(from, from_etc[i], to, from_etc[i], &left, &why);
		/* What this user may not read is not for the box either. */
		if (r < 0 && r != -EACCES && r != -EPERM) {
			*err = why;
			return err_wrap(err, "copy '/etc/%s'", from_etc[i]);
		}
	}
	return 0;
}

/*
 * The box's own root and user, then the host's system accounts by name: packages
 * name them in ownership rules. Names and numbers only; no password is in these files.
 */
static int make_accounts(int dir, const char *file, const char *own, struct err *err)
{
	char from[32], to[32], line[1024];
	AUTO_FILE FILE *in = NULL, *out = NULL;
	int fd;

	(void)snprintf(from, sizeof(from), "/etc/%s", file);
	(void)snprintf(to, sizeof(to), "etc/%s", file);
	fd = openat(dir, to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_sys(err, "write '%s'", to);
	out = fdopen(fd, "we");
	in = fopen(from, "re");
	if (!out) {
		(void)close(fd);
		return err_sys(err, "write '%s'", to);
	}
	(void)fputs(own, out);
	while (in && fgets(line, sizeof(line), in)) {
		const char *name_end = strchr(line, ':');
		const char *id = name_end ? strchr(name_end + 1, ':') : NULL;
		const char *digits = id ? id + 1 : "";
		uint64_t n = 0;
		bool is_known = text_starts(line, "user:") || text_starts(line, "sudo:");

		(void)text_scan_u64(&digits, &n);
		/* Members of groups are people of the host: every list ends at its last colon. */
		if (!id || is_known || n == 0 || (n >= 1000 && n != 65534))
			continue;
		if (strcmp(file, "group") == 0)
			strrchr(line, ':')[1] = 0;
		line[strcspn(line, "\n")] = 0;
		(void)fprintf(out, "%s\n", line);
	}
	if (fflush(out) != 0 || fchmod(fd, 0644) < 0)
		return err_sys(err, "write '%s'", to);
	return 0;
}

static int fill(int dir, bool is_host_root, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < sizeof(things) / sizeof(things[0]); i++)
		r = make_thing(dir, &things[i], is_host_root, err);
	if (r >= 0)
		r = make_accounts(dir, "passwd",
			"root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/"
			"bash\n",
			err);
	if (r >= 0)
		r = make_accounts(dir, "group", "root:x:0:\nsudo:x:27:user\nuser:x:1000:\n", err);
	if (r >= 0)
		r = copy_etc(dir, err);
	for (size_t i = 0; r >= 0 && i < sizeof(links) / sizeof(links[0]); i++)
		if (symlinkat(links[i][1], dir, links[i][0]) < 0)
			r = err_sys(err, "link '%s'", links[i][0]);
	for (size_t i = 0; r >= 0 && i < sizeof(top_links) / sizeof(top_links[0]); i++) {
		char path[16], target[256];
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/%s", top_links[i]);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0) {
			if (n < 0 && errno != ENOENT && errno != EINVAL)
				r = err_sys(err, "read link '%s'", path);
			else if (access(path, F_OK) == 0)
				r = err_set(err, EOPNOTSUPP,
					"'%s' is not a link into /usr: the base template needs a "
					"merged "
					"/usr; use '--root host'",
					path);
			continue;
		}
		target[n] = 0;
		if (symlinkat(target, dir, top_links[i]) < 0)
			r = err_sys(err, "link '%s'", top_links[i]);
	}
	return r;
}

static int make(const char *parent, const char *name, bool is_host_root, struct err *err)
{
	AUTO_FD int parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC), dir = -EBADF;
	char fresh[64];
	uint32_t salt = 0;
	int r;

	if (parent_fd < 0)
		return err_sys(err, "open '%s'", parent);
	(void)fchmod(parent_fd, 0700); /* it was made open once */
	if (getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
		return err_sys(err, "getrandom");
	(void)snprintf(fresh, sizeof(fresh), ".new-%08x", salt);
	if (mkdirat(parent_fd, fresh, 0755) < 0)
		return err_sys(err, "make a directory in '%s'", parent);
	dir = openat(parent_fd, fresh, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || flock(dir, LOCK_SH) < 0)
		r = err_sys(err, "open '%s'", fresh);
	else
		r = fchmod(dir, 0755) < 0 ? err_sys(err, "chmod '%s'", fresh)
					  : fill(dir, is_host_root, err);
	/* Somebody else may have been faster: theirs is as good. */
	if (r >= 0 && renameat(parent_fd, fresh, parent_fd, name) == 0)
		return 0;
	if (r >= 0 && errno != ENOTEMPTY && errno != EEXIST)
		r = err_sys(err, "name the template '%s'", name);
	{
		struct err ignored;

		(void)tree_remove(parent_fd, fresh, &ignored);
	}
	return r;
}

/*
 * Templates nobody stands on: of an earlier state of /etc (theirs are locked by who uses
 * them), or of a bawn that was killed while it made or removed one. The name goes first,
 * so that what has the name of a template is always a whole one.
 */
static void prune(const char *parent, const char *current)
{
	AUTO_DIR DIR *d = opendir(parent);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		bool is_template = text_starts(e->d_name, "base-");
		bool is_rest = text_starts(e->d_name, ".new-") || text_starts(e->d_name, ".old-");
		AUTO_FD int fd = -EBADF;
		struct err ignored;
		struct stat st;
		char old[300];

		if ((!is_template && !is_rest) || strcmp(e->d_name, current) == 0)
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
			continue;
		/* One that is being made is not locked yet in its first moment. */
		if (is_rest && st.st_mtime + REST_SECONDS > time(NULL))
			continue;
		(void)snprintf(old, sizeof(old), ".old-%s", e->d_name);
		if (is_template && renameat(dirfd(d), e->d_name, dirfd(d), old) < 0)
			continue;
		(void)tree_remove(dirfd(d), is_template ? old : e->d_name, &ignored);
	}
}

/* Open and lock; -ENOENT if it is not there, or was pruned before we had the lock. */
static int open_locked(const char *path, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat held, named;

	if (fd < 0)
		return err_sys(err, "open '%s'", path);
	if (flock(fd, LOCK_SH) < 0)
		return err_sys(err, "lock '%s'", path);
	if (fstat(fd, &held) < 0 || stat(path, &named) < 0)
		return err_sys(err, "stat '%s'", path);
	if (held.st_ino != named.st_ino || held.st_nlink == 0)
		return err_set(err, ENOENT, "'%s' was removed", path);
	return TAKE_FD(fd);
}

int template_base(bool is_host_root, char **ret, struct err *err)
{
	AUTO_FREE char *state = NULL, *parent = NULL, *path = NULL;
	char name[64];
	uint64_t key = 0;
	int r = state_dir(&state, err), fd;

	if (r >= 0)
		r = digest(is_host_root, &key, err);
	if (r < 0)
		return err_wrap(err, "base template");
	(void)snprintf(name, sizeof(name), "base-%016llx", (unsigned long long)key);
	path = text_format("%s/templates/%s", state, name);
	fd = open_locked(path, err);
	for (int tries = 0; fd == -ENOENT && tries < 3; tries++) {
		if (!parent)
			parent = text_format("%s/templates", state);
		r = tree_make_dirs(state, 0755, err);
		/* Closed: a stranger who locks a template would stop every start. */
		if (r >= 0)
			r = tree_make_dirs(parent, 0700, err);
		if (r >= 0)
			r = make(parent, name, is_host_root, err);
		if (r < 0)
			return err_wrap(err, "base template");
		prune(parent, name);
		fd = open_locked(path, err);
	}
	if (fd >= 0)
		*ret = TAKE_PTR(path);
	return fd;
}
