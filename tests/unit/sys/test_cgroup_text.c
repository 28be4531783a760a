/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The texts that sys/cgroup reads: mount table, /proc/<pid>/cgroup, control files, leaf names.
 * Pure but for names, which ask /proc. Runs as any user.
 */
#include "base/mem.h"
#include "sys/cgroup_impl.h"
#include "tap.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <sys/wait.h>

/* From an exact-size heap copy, so that a sanitizer sees one byte read too far. */
static bool parse(const char *line, size_t n, struct cgroup_mount *ret)
{
	AUTO_FREE char *copy = mem_must(malloc(n + 1));

	memcpy(copy, line, n);
	copy[n] = 'x';
	return cgroup_parse_mount(copy, n, ret);
}

static bool parse_text(const char *line, struct cgroup_mount *ret)
{
	return parse(line, strlen(line), ret);
}

static void v1_mount_tells_its_controllers(void)
{
	struct cgroup_mount m;

	CHECK(parse_text(
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory", &m));
	CHECK_STR(m.path, "/sys/fs/cgroup/memory");
	CHECK_STR(m.root, "/");
	CHECK_INT(m.controllers, CGROUP_MEMORY);
	CHECK(!m.is_v2 && !m.has_cpuacct);

	CHECK(parse_text("32 31 0:29 /docker/x /a/cpu,cpuacct rw shared:9 master:1 - cgroup c "
			 "rw,cpu,cpuacct",
		&m));
	CHECK_STR(m.path, "/a/cpu,cpuacct");
	CHECK_STR(m.root, "/docker/x");
	CHECK_INT(m.controllers, CGROUP_CPU);
	CHECK(m.has_cpuacct);

	CHECK(parse_text("1 2 0:3 / /b rw - cgroup none rw,blkio,pids", &m));
	CHECK_INT(m.controllers, CGROUP_IO | CGROUP_PIDS);
}

static void v2_mount_is_known_by_its_type(void)
{
	struct cgroup_mount m;

	CHECK(parse_text(
		"41 31 0:38 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate", &m));
	CHECK(m.is_v2);
	CHECK_INT(m.controllers, 0);
}

static void octal_escapes_become_bytes(void)
{
	struct cgroup_mount m;

	CHECK(parse_text("1 2 0:3 / /a\\040b\\134c\\011 rw - cgroup none rw,pids", &m));
	CHECK_STR(m.path, "/a b\\c\t");
}

static void useless_or_hostile_mounts_are_refused(void)
{
	static const char *const lines[] = {
		"",
		" ",
		"1",
		"1 2 0:3 / /x rw",
		"1 2 0:3 / /x rw -",
		"1 2 0:3 / /x rw - cgroup",
		"1 2 0:3 / /x rw - cgroup none",
		"1 2 0:3 / /x rw shared:1 cgroup none rw,pids",
		"1 2 0:3 / /x rw - fuse.cgroup none rw,pids",
		"1 2 0:3 / /x rw - cgroup3 none rw,pids",
		"1 2 0:3 / /x rw - tmpfs cgroup rw,pids",
		"1 2 0:3 / /x rw - cgroup none rw,name=systemd",
		"1 2 0:3 / /x rw - cgroup none rw,pids2,xmemory,name=pids",
		"1 2 0:3 / x rw - cgroup none rw,pids",
		"1 2 0:3 x /x rw - cgroup none rw,pids",
		"1 2 0:3 / /x\\04 rw - cgroup none rw,pids",
		"1 2 0:3 / /x\\0 rw - cgroup none rw,pids",
		"1 2 0:3 / /x\\ rw - cgroup none rw,pids",
		"1 2 0:3 / /x\\049 rw - cgroup none rw,pids",
		"1 2 0:3 / /x\\000 rw - cgroup none rw,pids",
		"1 2 0:3 / /x\\777 rw - cgroup none rw,pids",
	};
	struct cgroup_mount m;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!CHECK(!parse_text(lines[i], &m)))
			tap_print("# line %zu: %s\n", i, lines[i]);
}

static void every_cut_of_a_line_is_safe(void)
{
	static const char line[] =
		"32 31 0:29 /docker/x /a\\040b rw shared:9 - cgroup c rw,cpu,cpuacct";
	struct cgroup_mount m;

	for (size_t n = 0; n < sizeof(line) - 1; n++)
		if (parse(line, n, &m))
			CHECK(m.path[0] == '/' && m.root[0] == '/');
	CHECK(parse(line, sizeof(line) - 1, &m));
}

static void overlong_paths_are_refused(void)
{
	char line[CGROUP_PATH_MAX + 100];
	char path[CGROUP_PATH_MAX + 1];
	struct cgroup_mount m;

	memset(path, 'p', sizeof(path));
	path[0] = '/';
	path[CGROUP_PATH_MAX] = '\0';
	(void)snprintf(line, sizeof(line), "1 2 0:3 / %s rw - cgroup none rw,pids", path);
	CHECK(!parse_text(line, &m));
	path[CGROUP_PATH_MAX - 1] = '\0';
	(void)snprintf(line, sizeof(line), "1 2 0:3 / %s rw - cgroup none rw,pids", path);
	CHECK(parse_text(line, &m));
}

static void a_place_is_found_by_controller(void)
{
	static const char text[] = "9:name=systemd:/s\n4:memory:/a:b/c\n1:cpu,cpuacct:/\n0::/u\n";
	char place[64];

	CHECK(cgroup_parse_place(text, "memory", place, sizeof(place)));
	CHECK_STR(place, "/a:b/c");
	CHECK(cgroup_parse_place(text, "cpuacct", place, sizeof(place)));
	CHECK_STR(place, "/");
	CHECK(cgroup_parse_place(text, NULL, place, sizeof(place)));
	CHECK_STR(place, "/u");
	CHECK(!cgroup_parse_place(text, "pids", place, sizeof(place)));
	CHECK(!cgroup_parse_place(text, "mem", place, sizeof(place)));
	CHECK(!cgroup_parse_place(text, "memory", place, 6)); /* no room */
}

static void a_place_outside_the_namespace_is_refused(void)
{
	char place[64];

	CHECK(!cgroup_parse_place("0::/../../up\n", NULL, place, sizeof(place)));
	CHECK(!cgroup_parse_place("0::\n", NULL, place, sizeof(place)));
	CHECK(!cgroup_parse_place("0::relative\n", NULL, place, sizeof(place)));
	CHECK(!cgroup_parse_place("0:\n", NULL, place, sizeof(place)));
	CHECK(!cgroup_parse_place("", NULL, place, sizeof(place)));
	CHECK(!cgroup_parse_place("\n\n:::\n", NULL, place, sizeof(place)));
}

static void keyed_numbers_are_found_whole(void)
{
	static const char text[] = "low 0\noom 2\noom_kill 7\nbig 99999999999999999999\nlast 5";
	uint64_t n = 1;

	CHECK(cgroup_find_key(text, "oom_kill", &n) && n == 7);
	CHECK(cgroup_find_key(text, "oom", &n) && n == 2);
	CHECK(cgroup_find_key(text, "last", &n) && n == 5);
	CHECK(!cgroup_find_key(text, "kill", &n));
	CHECK(!cgroup_find_key(text, "big", &n)); /* past 64 bits */
	CHECK(!cgroup_find_key("", "oom", &n));
	CHECK(n == 5);
}

static void controllers_are_matched_by_whole_words(void)
{
	CHECK_INT(cgroup_parse_controllers("cpuset cpu io memory hugetlb pids rdma\n"),
		CGROUP_CPU | CGROUP_IO | CGROUP_MEMORY | CGROUP_PIDS);
	CHECK_INT(cgroup_parse_controllers("cpuset cpuacct pid memorys\n"), 0);
	CHECK_INT(cgroup_parse_controllers(""), 0);
	CHECK_INT(cgroup_parse_controllers(" ,\n"), 0);
}

static void small_cpu_shares_get_a_long_period(void)
{
	uint64_t quota;
	uint64_t period;

	cgroup_cpu_quota(1500, &quota, &period);
	CHECK(quota == 150000 && period == 100000);
	cgroup_cpu_quota(10, &quota, &period);
	CHECK(quota == 1000 && period == 100000); /* the kernel's smallest quota */
	cgroup_cpu_quota(1, &quota, &period);
	CHECK(quota == 1000 && period == 1000000);
}

static void a_name_dies_with_its_owner(void)
{
	char name[CGROUP_NAME_MAX] = "";
	struct err err = {0};
	siginfo_t info;
	int pipe_fd[2];
	pid_t pid;

	CHECK(cgroup_make_name(name, &err) == 0);
	CHECK(!cgroup_name_is_dead(name));

	if (!CHECK(pipe2(pipe_fd, O_CLOEXEC) == 0))
		return;
	pid = fork();
	if (pid == 0) {
		if (cgroup_make_name(name, &err) < 0 || write(pipe_fd[1], name, sizeof(name)) < 0)
			_exit(1);
		_exit(0);
	}
	(void)close(pipe_fd[1]);
	CHECK_INT(read(pipe_fd[0], name, sizeof(name)), sizeof(name));
	(void)close(pipe_fd[0]);
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK(cgroup_name_is_dead(name)); /* as a zombie */
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(cgroup_name_is_dead(name)); /* as a number */
}

static void a_reused_pid_does_not_keep_a_name_alive(void)
{
	char name[CGROUP_NAME_MAX];
	char other[CGROUP_NAME_MAX];
	struct err err = {0};
	const char *p;
	uint64_t pid = 0;
	uint64_t start = 0;

	CHECK(cgroup_make_name(name, &err) == 0);
	p = name + 5;
	CHECK(cgroup_scan_number(&p, &pid) && *p++ == '-' && cgroup_scan_number(&p, &start));
	(void)snprintf(other, sizeof(other), "bawn-%" PRIu64 "-%" PRIu64 "%s", pid, start + 1, p);
	CHECK(cgroup_name_is_dead(other));
}

static void foreign_names_are_never_dead(void)
{
	static const char *const names[] = {"", "bawn-", "bawn-1", "bawn-1000", "bawn-1-1-1",
		"bawn--1-1-1-00000000", "bawn-0-1-1-00000000", "bawn-99999999-1-1-0000000",
		"bawn-99999999-1-1-00000000x",
		"bawn-99999999-1-1-00000000", /* another pid namespace: not for us to judge */
		"bawn-99999999999999999999-1-1-00000000", "xbawn-1-1-1-00000000", "user.slice"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!CHECK(!cgroup_name_is_dead(names[i])))
			tap_print("# name '%s'\n", names[i]);
}

int main(void)
{
	RUN(v1_mount_tells_its_controllers);
	RUN(v2_mount_is_known_by_its_type);
	RUN(octal_escapes_become_bytes);
	RUN(useless_or_hostile_mounts_are_refused);
	RUN(every_cut_of_a_line_is_safe);
	RUN(overlong_paths_are_refused);
	RUN(a_place_is_found_by_controller);
	RUN(a_place_outside_the_namespace_is_refused);
	RUN(keyed_numbers_are_found_whole);
	RUN(controllers_are_matched_by_whole_words);
	RUN(small_cpu_shares_get_a_long_period);
	RUN(a_name_dies_with_its_owner);
	RUN(a_reused_pid_does_not_keep_a_name_alive);
	RUN(foreign_names_are_never_dead);
	return tap_done();
}
