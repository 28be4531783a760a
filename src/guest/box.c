/* SPDX-License-Identifier: Apache-2.0 */

/* Requests about the box as a whole: late binding, what it uses, whether it lives. */
#include "guest/account.h"
#include "guest/guest.h"

#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#define HOME_DEPTH 4 /* a skeleton is not deeper */

void ping_request(struct request *q, struct frame_reader *body)
{
	if (frame_ok(body))
		request_ok(q);
	else
		request_malformed(q);
}

/*
 * What the template made belongs to root where ids are not shifted by the mount (a rootless box
 * with a range): the user gets his home, once. Only below /home, only what is root's.
 */
static void give_tree(int dir_fd, const char *name, const struct account *user, int depth)
{
	AUTO_DIR DIR *dir = NULL;
	struct stat st;
	struct dirent *e;
	int fd;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != 0)
		return;
	if (fchownat(dir_fd, name, user->uid, user->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
		!S_ISDIR(st.st_mode) || depth >= HOME_DEPTH)
		return;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		closep(&fd);
	while (dir && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			give_tree(dirfd(dir), e->d_name, user, depth + 1);
}

static void give_home(const struct guest_bind *bind)
{
	struct accounts a = {0};
	struct account user = {0};
	struct err err;

	if (geteuid() == 0 && bind->user[0] && account_find(&a, bind->user, &user, &err) >= 0 &&
		user.uid != 0 && text_starts(user.home, "/home/") && account_is_mapped(user.uid)) {
		give_tree(AT_FDCWD, user.home, &user, 0);
		give_tree(AT_FDCWD, "/workspace", &user, HOME_DEPTH);
	}
	account_done(&user);
	accounts_done(&a);
}

void bind_request(struct request *q, struct frame_reader *body)
{
	struct guest_bind bind;
	struct utsname now;

	if (!guest_bind_get(body, &bind) || !frame_ok(body)) {
		request_malformed(q);
		guest_bind_done(&bind);
		return;
	}
	/* Without the right to it (a box of one id) the name stays: nothing depends on it. */
	if (bind.hostname[0] && uname(&now) == 0 && strcmp(now.nodename, bind.hostname) != 0)
		(void)sethostname(bind.hostname, strlen(bind.hostname));
	guest_bind_done(&q->g->bind);
	q->g->bind = bind;
	give_home(&q->g->bind);
	request_ok(q);
}

void envs_request(struct request *q, struct frame_reader *body)
{
	struct frame_writer w = {0};

	if (!frame_ok(body)) {
		request_malformed(q);
		return;
	}
	frame_put_strings(&w, q->g->bind.env);
	mux_reply(q->mux, q->id, MSG_ENVS, &w);
	buf_done(&w.buf);
}

/* --- usage --- */

static bool slurp(int dir_fd, const char *pid, const char *file, char *out, size_t size)
{
	AUTO_FD int fd = -EBADF;
	char path[300];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", pid, file);
	fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, out, size - 1);
	if (n < 0)
		return false;
	out[n] = '\0';
	return true;
}

/* The nth number of /proc/<pid>/stat behind the name, which may hold anything; 3 is the first. */
static uint64_t stat_field(const char *text, int nth)
{
	const char *p = strrchr(text, ')');
	uint64_t v = 0;

	if (!p || p[1] == '\0')
		return 0;
	p += 2; /* the state */
	for (int i = 3; i < nth; i++) {
		p += strcspn(p, " ");
		p += *p == ' ';
	}
	return text_scan_u64(&p, &v) == 0 ? v : 0;
}

static void add_process(int proc_fd, const char *pid, struct guest_usage *u)
{
	uint64_t tick_us = 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t pages = (uint64_t)sysconf(_SC_PAGESIZE), size, resident;
	char text[1024];
	const char *p = text;

	if (!slurp(proc_fd, pid, "stat", text, sizeof(text)))
		return;
	u->processes++;
	u->cpu_us += (stat_field(text, 14) + stat_field(text, 15)) * tick_us;
	if (slurp(proc_fd, pid, "statm", text, sizeof(text)) && text_scan_u64(&p, &size) == 0 &&
		text_scan_u64(&p, &resident) == 0)
		u->mem_used += resident * pages;
}

void usage_request(struct request *q, struct frame_reader *body)
{
	AUTO_DIR DIR *dir = NULL;
	struct guest_usage u = {.cpu_us = q->g->reaped_cpu_us};
	struct frame_writer w = {0};
	struct statvfs fs;
	struct sysinfo info;
	cpu_set_t cpus;
	struct dirent *e;

	if (!frame_ok(body)) {
		request_malformed(q);
		return;
	}
	dir = opendir("/proc");
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			add_process(dirfd(dir), e->d_name, &u);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		u.cpu_count = (uint32_t)CPU_COUNT(&cpus);
	if (sysinfo(&info) == 0)
		u.mem_total = (uint64_t)info.totalram * info.mem_unit;
	if (statvfs("/", &fs) == 0) {
		u.disk_total = (uint64_t)fs.f_blocks * fs.f_frsize;
		u.disk_used = u.disk_total - (uint64_t)fs.f_bfree * fs.f_frsize;
	}
	u.idle_ms = loop_now_ms(q->g->loop) - q->g->active_ms;
	guest_usage_put(&w, &u);
	mux_reply(q->mux, q->id, MSG_USAGE, &w);
	buf_done(&w.buf);
}
