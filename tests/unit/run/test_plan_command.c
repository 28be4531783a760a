/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/process/plan: limits, Landlock, seccomp and capabilities that the command takes on, the
 * caps on a plan, and how one is printed. Pure; any user.
 */
#include "base/own.h"
#include "plan_fixture.h"
#include "sys/landlock.h"
#include "sys/seccomp.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void limits_go_to_the_cgroup_where_there_is_one(void)
{
	as_root();
	s.limits.cpu_milli = 500;
	s.walls[WALL_CPU] = WALL_LEVEL_REQUIRED;
	CHECK_INT(build(), 0);
	CHECK(p.want_cgroup && p.watch == 0);
	CHECK_INT(p.cgroup_limits.memory_max, s.limits.memory_max);
	CHECK_INT(p.cgroup_limits.pids_max, s.limits.pids_max);
	CHECK_INT(p.cgroup_limits.cpu_milli, 500);
	CHECK_INT(p.cgroup_limits.io_bps, 0);
	CHECK(!rlimit(RLIMIT_NPROC) && !rlimit(RLIMIT_DATA) && !find(OP_NICE, NULL));
	done();
}

static void without_a_cgroup_weaker_limits_stand_in(void)
{
	as_user();
	s.limits.cpu_milli = 500;
	s.walls[WALL_CPU] = WALL_LEVEL_PREFERRED;
	CHECK_INT(build(), 0);
	CHECK(!p.want_cgroup);
	CHECK_INT(p.watch, PLAN_WATCH_MEMORY | PLAN_WATCH_PIDS | PLAN_WATCH_CPU);
	CHECK_INT(p.cgroup_limits.memory_max, 0);
	CHECK(rlimit(RLIMIT_NPROC) && rlimit(RLIMIT_NPROC)->size == s.limits.pids_max);
	CHECK(rlimit(RLIMIT_DATA) != NULL);
	CHECK(find(OP_NICE, NULL) != NULL);
	done();
}

static void a_wall_that_is_off_has_no_limit(void)
{
	as_root();
	s.walls[WALL_MEMORY] = s.walls[WALL_PIDS] = WALL_LEVEL_OFF;
	CHECK_INT(build(), 0);
	CHECK(!p.want_cgroup && p.watch == 0);
	done();
}

static void a_required_io_limit_without_a_controller_is_refused(void)
{
	as_user();
	CHECK(spec_set_limit(&s, "io", "1M", &err) >= 0);
	CHECK_INT(build(), -EOPNOTSUPP);
	CHECK(text_starts(err.msg, "wall 'io' is required and there is no io controller; "));
	CHECK_INT(p.n, 0); /* written on success only */
	done();
	as_user();
	CHECK(spec_set_limit(&s, "io", "1M", &err) >= 0);
	s.walls[WALL_IO] = WALL_LEVEL_PREFERRED;
	CHECK_INT(build(), 0);
	done();
}

static unsigned landlock_on(const char *path)
{
	unsigned access = 0;

	for (size_t i = 0; i < p.n; i++)
		if (p.ops[i].kind == OP_LANDLOCK_ALLOW && strcmp(p.ops[i].path, path) == 0)
			access |= p.ops[i].number;
	return access;
}

static void landlock_lets_write_only_where_mounts_do(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK_INT(landlock_on("/"), LANDLOCK_READ);
	CHECK_INT(landlock_on("/home/ann/p"), LANDLOCK_READ | LANDLOCK_WRITE);
	CHECK_INT(landlock_on("/tmp"), LANDLOCK_READ | LANDLOCK_WRITE);
	CHECK_INT(landlock_on("/proc"), LANDLOCK_READ | LANDLOCK_WRITE_FILE);
	CHECK(!(landlock_on("/dev") & LANDLOCK_WRITE));
	CHECK_INT(landlock_on("/workspace"), 0);
	CHECK(before(find(OP_LANDLOCK_ALLOW, "/tmp"), find(OP_LANDLOCK, NULL)));
	done();
}

static void landlock_leaves_the_box_s_root_its_own_tree(void)
{
	as_root();
	in_base(0);
	CHECK_INT(build(), 0);
	CHECK_INT(landlock_on("/"), LANDLOCK_READ | LANDLOCK_WRITE);
	done();
	as_root();
	in_base(1000);
	CHECK_INT(build(), 0);
	CHECK_INT(landlock_on("/"), LANDLOCK_READ);
	CHECK_INT(landlock_on("/workspace"), LANDLOCK_READ | LANDLOCK_WRITE);
	done();
}

static void landlock_refuses_tcp_when_there_is_not_even_loopback(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK_INT(the(OP_LANDLOCK, NULL)->number, 0);
	CHECK(find(OP_LOOPBACK, NULL) != NULL);
	done();
	as_root();
	s.want_loopback = false;
	CHECK_INT(build(), 0);
	CHECK_INT(the(OP_LANDLOCK, NULL)->number, 1);
	CHECK(!find(OP_LOOPBACK, NULL));
	done();
}

static void seccomp_watches_writes_in_the_host_view_only(void)
{
	unsigned both = SECCOMP_WATCH_WRITES | SECCOMP_WATCH_CONNECT;

	as_root();
	CHECK_INT(build(), 0);
	CHECK_INT(p.seccomp_flags, SECCOMP_NOTIFY | both | SECCOMP_NO_SUID);
	CHECK_INT(the(OP_SECCOMP, NULL)->number, p.seccomp_flags);
	done();
	as_root();
	in_base(1000);
	CHECK_INT(build(), 0);
	CHECK_INT(p.seccomp_flags, SECCOMP_NOTIFY | SECCOMP_WATCH_CONNECT);
	done();
	as_root();
	CHECK_INT(plan_build(&s, &f, &v, false, &p, &err), 0);
	CHECK_INT(p.seccomp_flags & both, 0);
	CHECK(p.seccomp_flags & SECCOMP_NO_SUID);
	done();
}

/* A box that outlives its maker has nobody to ask, and nobody who looks after it. */
static void a_resident_box_has_no_listener_and_always_a_leaf(void)
{
	as_root();
	in_base(0);
	f.is_resident = true;
	s.walls[WALL_MEMORY] = s.walls[WALL_PIDS] = WALL_LEVEL_OFF;
	CHECK_INT(build(), 0);
	CHECK_INT(p.seccomp_flags, 0);
	CHECK(p.want_cgroup && p.cgroup_limits.memory_max == 0);
	done();
	as_user();
	in_base(0);
	f.is_resident = true;
	CHECK_INT(build(), 0);
	CHECK(!p.want_cgroup && p.watch == 0);
	CHECK(rlimit(RLIMIT_DATA) != NULL);
	done();
}

/* The filter comes last: what stands before it needs calls that it refuses. */
static void the_command_takes_its_walls_on_in_order(void)
{
	static const enum op_kind order[] = {OP_SESSION, OP_RLIMIT, OP_FDS, OP_BOUND, OP_IDS,
		OP_CAPS, OP_NNP, OP_LANDLOCK, OP_SECCOMP, OP_EXEC};

	as_root();
	CHECK_INT(build(), 0);
	for (size_t i = 1; i < sizeof(order) / sizeof(order[0]); i++)
		CHECK(before(find(order[i - 1], NULL), find(order[i], NULL)));
	done();
}

static void without_nnp_the_filters_come_before_the_capabilities_go(void)
{
	as_root();
	s.walls[WALL_NNP] = WALL_LEVEL_OFF;
	CHECK_INT(build(), 0);
	CHECK(!find(OP_NNP, NULL));
	CHECK(before(find(OP_LANDLOCK, NULL), find(OP_SECCOMP, NULL)));
	CHECK(before(find(OP_SECCOMP, NULL), find(OP_CAPS, NULL)));
	done();
}

static void nobody_but_root_keeps_a_capability(void)
{
	static const int dangerous[] = {CAP_SYS_ADMIN, CAP_SYS_MODULE, CAP_SYS_RAWIO,
		CAP_SYS_PTRACE, CAP_SYS_BOOT, CAP_NET_ADMIN, CAP_NET_RAW, CAP_MKNOD,
		CAP_DAC_READ_SEARCH, CAP_BPF, CAP_PERFMON, CAP_SYS_TIME, CAP_SYSLOG};

	as_root();
	f.box_uid = 1000;
	CHECK_INT(build(), 0);
	CHECK_INT(the(OP_BOUND, NULL)->size, 0);
	CHECK_INT(the(OP_CAPS, NULL)->size, 0);
	CHECK_INT(the(OP_IDS, NULL)->uid, 1000);
	done();
	as_root();
	CHECK_INT(build(), 0);
	for (size_t i = 0; i < sizeof(dangerous) / sizeof(dangerous[0]); i++)
		CHECK(!(the(OP_BOUND, NULL)->size & (1ull << dangerous[i])));
	CHECK(the(OP_CAPS, NULL)->size & (1ull << CAP_CHOWN));
	done();
}

static void the_working_directory_is_asked_for_or_shared_or_the_root(void)
{
	as_root();
	CHECK_INT(build(), 0);
	CHECK_STR(p.cwd, "/home/ann/p");
	CHECK_STR(the(OP_CHDIR, NULL)->path, "/home/ann/p");
	done();
	as_root();
	s.cwd = mem_strdup("/srv");
	CHECK_INT(build(), 0);
	CHECK_STR(p.cwd, "/srv");
	done();
	as_root();
	in_base(1000);
	s.walls[WALL_ROOT] = WALL_LEVEL_OFF;
	CHECK_INT(build(), 0);
	CHECK_STR(p.cwd, "/");
	done();
}

static void arguments_are_copied(void)
{
	as_root();
	list(&s.argv, "two words");
	CHECK_INT(build(), 0);
	CHECK_INT(p.argv.n, 2);
	CHECK_STR(p.argv.v[1], "two words");
	CHECK(p.argv.v[2] == NULL);
	CHECK(p.argv.v[0] != s.argv.v[0]);
	done();
}

static void too_many_mounts_are_refused(void)
{
	as_root();
	for (int i = 0; i < PLAN_SLOTS_MAX; i++) {
		AUTO_FREE char *path = text_format("/data/%d", i);

		list(&v.writable, path);
	}
	CHECK_INT(build(), -E2BIG);
	CHECK(text_starts(err.msg, "this sandbox needs "));
	CHECK(strstr(err.msg, "give fewer paths") != NULL);
	CHECK_INT(p.n, 0);
	done();
}

static bool are_too_many_refused(void)
{
	as_root();
	for (int i = 0; i < PLAN_OPS_MAX + 10; i++) {
		AUTO_FREE char *path = text_format("/data/%d", i);

		if (strv_add(&v.hidden_files, path, &err) < 0)
			return false;
	}
	return build() == -E2BIG && p.n == 0;
}

/* In a child of its own: a plan that is given up need not be tidy, only refused. */
static void too_many_operations_are_refused(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(are_too_many_refused() ? 0 : 1);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static char *printed(bool as_json)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	if (!CHECK(out != NULL))
		return mem_strdup("");
	CHECK_INT(plan_print(&p, as_json, out, &err), 0);
	(void)fclose(out);
	return text;
}

static void a_printed_plan_names_side_wall_and_operation(void)
{
	AUTO_FREE char *lines = NULL, *json = NULL;

	as_root();
	list(&v.hidden_files, "/home/ann/bad\033[31mname");
	CHECK_INT(build(), 0);
	lines = printed(false);
	json = printed(true);
	CHECK(text_starts(lines, "namespaces: user mount pid net ipc uts cgroup\n"));
	CHECK(strstr(lines, "ids: 0 is 1879113728 outside, 65536 of them\n") != NULL);
	CHECK(strstr(lines, "\nhost     root       tree            /  #") != NULL);
	CHECK(strstr(lines, "ro,nosuid,nodev  idmapped\n") != NULL);
	CHECK(strchr(lines, '\033') == NULL);
	CHECK(text_starts(json, "[{\"side\":\"host\""));
	CHECK(strchr(json, '\033') == NULL);
	CHECK(strstr(json, "\"op\":\"exec\"}]\n") != NULL);
	done();
}

static void the_road_comes_after_the_loopback_and_ends_the_watch_on_connects(void)
{
	as_user();
	in_base(1000);
	CHECK_INT(build(), 0);
	CHECK(find(OP_ROAD, NULL) == NULL);
	CHECK(p.seccomp_flags & SECCOMP_WATCH_CONNECT);
	done();
	as_user();
	in_base(1000);
	s.want_road = true;
	CHECK_INT(build(), 0);
	CHECK_INT(the(OP_ROAD, NULL)->side, OP_SIDE_EARLY);
	CHECK_INT(the(OP_ROAD, NULL)->wall, WALL_NET);
	CHECK(before(find(OP_LOOPBACK, NULL), find(OP_ROAD, NULL)));
	CHECK(!(p.seccomp_flags & SECCOMP_WATCH_CONNECT));
	done();
}

static void every_kind_and_side_has_a_name(void)
{
	for (int i = 0; i < OP_COUNT; i++)
		CHECK(op_kind_name((enum op_kind)i) && op_kind_name((enum op_kind)i)[0]);
	CHECK_STR(op_side_name(OP_SIDE_HOST), "host");
	CHECK_STR(op_side_name(OP_SIDE_EARLY), "early");
	CHECK_STR(op_side_name(OP_SIDE_INIT), "init");
	CHECK_STR(op_side_name(OP_SIDE_COMMAND), "command");
}

int main(void)
{
	RUN(limits_go_to_the_cgroup_where_there_is_one);
	RUN(without_a_cgroup_weaker_limits_stand_in);
	RUN(a_wall_that_is_off_has_no_limit);
	RUN(a_required_io_limit_without_a_controller_is_refused);
	RUN(landlock_lets_write_only_where_mounts_do);
	RUN(landlock_leaves_the_box_s_root_its_own_tree);
	RUN(landlock_refuses_tcp_when_there_is_not_even_loopback);
	RUN(seccomp_watches_writes_in_the_host_view_only);
	RUN(a_resident_box_has_no_listener_and_always_a_leaf);
	RUN(the_command_takes_its_walls_on_in_order);
	RUN(without_nnp_the_filters_come_before_the_capabilities_go);
	RUN(nobody_but_root_keeps_a_capability);
	RUN(the_working_directory_is_asked_for_or_shared_or_the_root);
	RUN(arguments_are_copied);
	RUN(too_many_mounts_are_refused);
	RUN(too_many_operations_are_refused);
	RUN(a_printed_plan_names_side_wall_and_operation);
	RUN(the_road_comes_after_the_loopback_and_ends_the_watch_on_connects);
	RUN(every_kind_and_side_has_a_name);
	return tap_done();
}
