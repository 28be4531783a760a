/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/spec: defaults, setters, and the gate every sandbox passes.
 */
#include "core/spec.h"

#include "tap.h"

#include <errno.h>

#define GIB (UINT64_C(1) << 30)

/* A spec that passes the gate; the caller changes one thing. */
static void good(struct spec *s)
{
	struct err err = {0};

	spec_init(s);
	CHECK_INT(strv_add(&s->argv, "true", &err), 0);
}

/* The gate refuses, and says `why`. */
static void refused(struct spec *s, const char *why)
{
	struct err err = {0};

	if (CHECK_INT(spec_validate(s, &err), -EINVAL) && !CHECK(strstr(err.msg, why) != NULL))
		tap_print("# message is: %s\n", err.msg);
	spec_done(s);
}

static void defaults_require_isolation_and_prefer_limits(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_validate(&s, &err), 0);
	for (int w = 0; w <= WALL_LANDLOCK; w++)
		CHECK_INT(s.walls[w], WALL_LEVEL_REQUIRED);
	CHECK_INT(s.walls[WALL_MEMORY], WALL_LEVEL_PREFERRED);
	CHECK_INT(s.walls[WALL_PIDS], WALL_LEVEL_PREFERRED);
	CHECK_INT(s.walls[WALL_DISK], WALL_LEVEL_PREFERRED);
	CHECK_INT(s.walls[WALL_CPU], WALL_LEVEL_OFF);
	CHECK_INT(s.walls[WALL_IO], WALL_LEVEL_OFF);
	CHECK_INT(s.walls[WALL_TIME], WALL_LEVEL_OFF);
	CHECK_INT(s.walls[WALL_FDS], WALL_LEVEL_REQUIRED);
	CHECK_INT(s.limits.memory_max, 4 * GIB);
	CHECK_INT(s.limits.pids_max, 4096);
	CHECK_INT(s.limits.disk_max, GIB);
	CHECK_INT(s.limits.open_files, 65536);
	CHECK_INT(s.limits.kill_after_ms, 5000);
	CHECK(s.want_loopback);
	spec_done(&s);
}

static void a_limit_asked_for_is_required(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_set_limit(&s, "--memory", "512M", &err), 0);
	CHECK_INT(spec_set_limit(&s, "cpus", "1.5", &err), 0);
	CHECK_INT(spec_set_limit(&s, "--io", "10M/s", &err), 0);
	CHECK_INT(spec_set_limit(&s, "timeout", "90", &err), 0);
	CHECK_INT(spec_set_limit(&s, "--kill-after", "300ms", &err), 0);
	CHECK_INT(spec_set_limit(&s, "open_files", "256", &err), 0);
	CHECK_INT(s.limits.memory_max, GIB / 2);
	CHECK_INT(s.limits.cpu_milli, 1500);
	CHECK_INT(s.limits.io_bps, 10 << 20);
	CHECK_INT(s.limits.timeout_ms, 90000);
	CHECK_INT(s.limits.kill_after_ms, 300);
	CHECK_INT(s.limits.open_files, 256);
	CHECK_INT(s.walls[WALL_MEMORY], WALL_LEVEL_REQUIRED);
	CHECK_INT(s.walls[WALL_CPU], WALL_LEVEL_REQUIRED);
	CHECK_INT(s.walls[WALL_IO], WALL_LEVEL_REQUIRED);
	CHECK_INT(s.walls[WALL_TIME], WALL_LEVEL_REQUIRED);
	CHECK_INT(spec_validate(&s, &err), 0);
	spec_done(&s);
}

static void a_level_from_the_user_beats_the_limits_own(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_set_wall(&s, "memory=preferred", &err), 0);
	CHECK_INT(spec_set_limit(&s, "memory", "512M", &err), 0);
	CHECK_INT(s.walls[WALL_MEMORY], WALL_LEVEL_PREFERRED);
	spec_done(&s);
}

static void none_lifts_a_limit(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_set_limit(&s, "memory", "none", &err), 0);
	CHECK_INT(s.limits.memory_max, 0);
	CHECK_INT(spec_validate(&s, &err), 0);
	CHECK_INT(s.walls[WALL_MEMORY], WALL_LEVEL_OFF);
	spec_done(&s);
}

static void absurd_limits_are_refused_with_the_range(void)
{
	static const struct {
		const char *name, *value, *range;
	} bad[] = {
		{"--memory", "1M", "4M to 64T"},
		{"--memory", "-1", "4M to 64T"},
		{"--memory", "65T", "4M to 64T"},
		{"--memory", "99999999999999999999999G", "4M to 64T"},
		{"--memory", "", "4M to 64T"},
		{"--memory", "lots", "4M to 64T"},
		{"--memory", "0", "or none"},
		{"--pids", "1", "2 to 4194304"},
		{"--pids", "5000000", "2 to 4194304"},
		{"--cpus", "0", "0.01 to 1024"},
		{"--cpus", "1025", "0.01 to 1024"},
		{"--cpus", "1.", "0.01 to 1024"},
		{"--cpus", ".5", "0.01 to 1024"},
		{"--cpus", "1e3", "0.01 to 1024"},
		{"--cpus", "99999999999999999999", "0.01 to 1024"},
		{"--disk", "1K", "1M to 64T"},
		{"--io", "1", "4K to 1T"},
		{"--timeout", "0", "1ms to 365d"},
		{"--timeout", "366d", "1ms to 365d"},
		{"--kill-after", "2h", "0 to 1h"},
		{"--kill-after", "none", "0 to 1h"},
		{"--open-files", "3", "16 to 1048576"},
		{"--open-files", "none", "16 to 1048576"},
	};
	struct spec s;

	good(&s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = {0};

		if (!CHECK_INT(spec_set_limit(&s, bad[i].name, bad[i].value, &err), -EINVAL))
			tap_print("# %s %s\n", bad[i].name, bad[i].value);
		CHECK(strstr(err.msg, bad[i].name) == err.msg);
		CHECK(strstr(err.msg, bad[i].range) != NULL);
	}
	CHECK_INT(s.limits.memory_max, 4 * GIB); /* untouched by a refusal */
	CHECK_INT(s.walls[WALL_MEMORY], WALL_LEVEL_PREFERRED);
	spec_done(&s);
}

static void there_is_no_limit_of_another_name(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_set_limit(&s, "mem", "1G", &err), -EINVAL);
	CHECK_INT(spec_limit_wall("--open-files"), WALL_RLIMITS);
	CHECK_INT(spec_limit_wall("mem"), WALL_COUNT);
	CHECK_INT(spec_limit_wall("memory2"), WALL_COUNT);
	spec_done(&s);
}

static void a_command_is_needed(void)
{
	struct err err = {0};
	struct spec s;

	spec_init(&s);
	refused(&s, "no command");
	spec_init(&s);
	CHECK_INT(strv_add(&s.argv, "", &err), 0);
	refused(&s, "empty");
}

static char *filled(size_t n)
{
	char *p = malloc(n + 1);

	if (!p)
		abort();
	memset(p, 'a', n);
	p[n] = '\0';
	return p;
}

static void an_oversized_argument_is_named_by_number(void)
{
	AUTO_FREE char *most = filled(SPEC_ARG_MAX);
	AUTO_FREE char *more = filled(1 << 20);
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(strv_add(&s.argv, most, &err), 0);
	CHECK_INT(spec_validate(&s, &err), 0);
	CHECK_INT(strv_add(&s.argv, more, &err), 0);
	CHECK_INT(spec_validate(&s, &err), -E2BIG);
	CHECK(strstr(err.msg, "argument 2 of the command is 1048576 bytes") != NULL);
	spec_done(&s);
}

static void all_arguments_together_have_a_cap(void)
{
	AUTO_FREE char *part = filled(100000);
	struct err err = {0};
	struct spec s;

	good(&s);
	for (int i = 0; i < 11; i++)
		CHECK_INT(strv_add(&s.argv, part, &err), 0);
	CHECK_INT(spec_validate(&s, &err), -E2BIG);
	CHECK(strstr(err.msg, "argument 11") != NULL);
	spec_done(&s);
}

static void a_variable_is_name_and_value(void)
{
	AUTO_FREE char *more = filled(SPEC_ARG_MAX);
	AUTO_FREE char *big = text_format("A=%s", more);
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_add_env(&s, "A=1", &err), 0);
	CHECK_INT(spec_add_env(&s, "AB=2", &err), 0);
	CHECK_INT(spec_add_env(&s, "A=", &err), 0);
	CHECK_INT(s.env.n, 2);
	CHECK_STR(s.env.v[0], "A="); /* the later one wins */
	CHECK_INT(spec_add_env(&s, "A", &err), -EINVAL);
	CHECK(strstr(err.msg, "NAME=VALUE") != NULL);
	CHECK_INT(spec_add_env(&s, "=1", &err), -EINVAL);
	CHECK_INT(spec_add_env(&s, big, &err), -E2BIG);
	spec_done(&s);
}

static void passed_names_are_names(void)
{
	static const char *const bad[] = {"", "A=1", "A*B", "**"};
	struct err err = {0};
	struct spec s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		good(&s);
		CHECK_INT(strv_add(&s.pass_env, bad[i], &err), 0);
		refused(&s, "PREFIX*");
	}
	good(&s);
	CHECK_INT(strv_add(&s.pass_env, "CARGO_*", &err), 0);
	CHECK_INT(spec_validate(&s, &err), 0);
	spec_done(&s);
}

static void names_of_host_and_user_are_checked(void)
{
	static const char *const hosts[] = {"-a", "a-", ".a", "a_b", "a b", "a\n",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	static const char *const users[] = {
		"-x", "a b", "a:b", "65534", "1x", "a/b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	struct err err = {0};
	struct spec s;

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		good(&s);
		CHECK_INT(spec_set_string(&s.hostname, "hostname", hosts[i], &err), 0);
		refused(&s, "1 to 63 letters");
	}
	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		good(&s);
		CHECK_INT(spec_set_string(&s.user, "user", users[i], &err), 0);
		refused(&s, "a name, or a number");
	}
	good(&s);
	CHECK_INT(spec_set_string(&s.hostname, "hostname", "agent-7.box", &err), 0);
	CHECK_INT(spec_set_string(&s.user, "user", "1000", &err), 0);
	CHECK_INT(spec_validate(&s, &err), 0);
	CHECK_INT(spec_set_string(&s.user, "user", "", &err), -EINVAL);
	CHECK_STR(s.user, "1000");
	spec_done(&s);
}

static void paths_are_cleaned_against_the_working_directory(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_RW, "../x//y/.", "/a/b", &err), 0);
	CHECK_STR(s.paths[0].path, "/a/x/y");
	CHECK_INT(spec_add_path(&s, SPEC_PATH_HIDE, "", "/a", &err), -EINVAL);
	CHECK_INT(spec_add_user_path(&s, SPEC_PATH_RO, "~/k", "/a", "/home/u", &err), 0);
	CHECK_STR(s.paths[1].path, "/home/u/k");
	CHECK_INT(spec_add_user_path(&s, SPEC_PATH_RO, "~//etc", "/a", "/home/u", &err), 0);
	CHECK_STR(s.paths[2].path, "/home/u/etc");
	CHECK_INT(spec_add_user_path(&s, SPEC_PATH_RO, "~", "/a", "/home/u", &err), 0);
	CHECK_STR(s.paths[3].path, "/home/u");
	CHECK_INT(spec_add_user_path(&s, SPEC_PATH_RO, "~x", "/a", "/home/u", &err), 0);
	CHECK_STR(s.paths[4].path, "/a/~x");
	CHECK_INT(spec_add_user_path(&s, SPEC_PATH_RO, "~/k", "/a", NULL, &err), -EINVAL);
	CHECK_INT(s.paths_n, 5);
	spec_done(&s);
}

static void path_rules_have_a_cap(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	for (int i = 0; i < SPEC_PATHS_MAX; i++)
		CHECK_INT(spec_add_path(&s, SPEC_PATH_RW, "/a", "/", &err), 0);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_RW, "/a", "/", &err), -E2BIG);
	spec_done(&s);
}

static void contradicting_path_rules_are_refused(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_RW, "/a", "/", &err), 0);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_RW, "/a", "/", &err),
		0); /* twice is no contradiction */
	CHECK_INT(spec_validate(&s, &err), 0);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_HIDE, "/b/../a", "/", &err), 0);
	refused(&s, "--rw and --hide both name '/a'");
}

static void the_whole_tree_and_kernel_trees_are_refused(void)
{
	static const char *const bad[] = {"/", "/proc", "/proc/1", "/sys/kernel", "/dev/sda"};
	struct err err = {0};
	struct spec s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		good(&s);
		CHECK_INT(spec_add_path(&s, SPEC_PATH_RW, bad[i], "/", &err), 0);
		refused(&s, "not accepted");
	}
}

static void later_rules_override_earlier_ones(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_RW, "/a", "/", &err), 0);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_RW, "/b", "/", &err), 0);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_HIDE, "/a", "/", &err), 0);
	CHECK_INT(spec_add_path(&s, SPEC_PATH_RO, "/c", "/", &err), 0);
	spec_override_paths(&s, 2);
	CHECK_INT(s.paths_n, 3);
	CHECK_STR(s.paths[0].path, "/b");
	CHECK_STR(s.paths[1].path, "/a");
	CHECK_INT(s.paths[1].mode, SPEC_PATH_HIDE);
	CHECK_STR(s.paths[2].path, "/c");
	CHECK_INT(spec_validate(&s, &err), 0);
	spec_done(&s);
}

static void walls_that_lean_on_an_absent_one_fall_with_it(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_set_wall(&s, "mount=off", &err), 0);
	CHECK_INT(spec_validate(&s, &err), 0);
	CHECK_INT(s.walls[WALL_ROOT], WALL_LEVEL_OFF);
	CHECK_INT(s.walls[WALL_MASKS], WALL_LEVEL_OFF);
	CHECK_INT(s.walls[WALL_PROC], WALL_LEVEL_OFF);
	CHECK_INT(s.walls[WALL_DEV], WALL_LEVEL_OFF);
	CHECK_INT(s.walls[WALL_SYS], WALL_LEVEL_OFF);
	CHECK_INT(s.walls[WALL_PID], WALL_LEVEL_REQUIRED);
	spec_done(&s);

	good(&s);
	CHECK_INT(spec_set_wall(&s, "mount=off", &err), 0);
	CHECK_INT(spec_set_wall(&s, "masks=required", &err), 0);
	refused(&s, "wall 'masks' cannot be required while wall 'root' is off");

	good(&s);
	CHECK_INT(spec_set_wall(&s, "user=off", &err), 0);
	CHECK_INT(spec_set_wall(&s, "ids=preferred", &err), 0);
	refused(&s, "wall 'ids' cannot be preferred while wall 'user' is off");
}

static void a_required_limit_needs_a_value(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_set_wall(&s, "cpu=required", &err), 0);
	refused(&s, "give --cpus");
	good(&s);
	CHECK_INT(spec_set_wall(&s, "cpu=preferred", &err), 0);
	CHECK_INT(spec_validate(&s, &err), 0);
	CHECK_INT(s.walls[WALL_CPU], WALL_LEVEL_OFF);
	spec_done(&s);
}

static void sudo_and_no_new_privs_exclude_each_other(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	s.allow_sudo = true;
	CHECK_INT(spec_validate(&s, &err), 0);
	CHECK_INT(s.walls[WALL_NNP], WALL_LEVEL_OFF);
	spec_done(&s);
	good(&s);
	s.allow_sudo = true;
	CHECK_INT(spec_set_wall(&s, "nnp=required", &err), 0);
	refused(&s, "exclude each other");
}

static void copy_on_write_needs_a_directory_and_a_root(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	s.cow = true;
	refused(&s, "--cow needs a working directory");
	good(&s);
	s.cow = true;
	CHECK_INT(spec_set_string(&s.work_dir, "work_dir", "/a", &err), 0);
	CHECK_INT(spec_set_wall(&s, "root=off", &err), 0);
	refused(&s, "--cow needs the walls");
}

static void malformed_settings_name_what_is_accepted(void)
{
	struct err err = {0};
	struct spec s;

	good(&s);
	CHECK_INT(spec_set_wall(&s, "root", &err), -EINVAL);
	CHECK(strstr(err.msg, "NAME=LEVEL") != NULL);
	CHECK_INT(spec_set_wall(&s, "root=", &err), -EINVAL);
	CHECK_INT(spec_set_wall(&s, "=off", &err), -EINVAL);
	CHECK_INT(spec_set_root(&s, "debian", &err), -EINVAL);
	CHECK(strstr(err.msg, "accepted: host, base") != NULL);
	CHECK_INT(spec_check_net("full", &err), -EINVAL);
	CHECK(strstr(err.msg, "accepted: none") != NULL);
	CHECK_INT(spec_check_net("none", &err), 0);
	CHECK_INT(spec_set_root(&s, "base", &err), 0);
	CHECK_INT(s.root, SPEC_ROOT_BASE);
	spec_done(&s);
	good(&s);
	CHECK_INT(spec_set_string(&s.cwd, "cwd", "relative", &err), 0);
	refused(&s, "absolute");
}

static void a_road_needs_a_network_of_its_own(void)
{
	struct spec s;
	struct err err = {0};

	good(&s);
	s.want_road = true;
	CHECK_INT(spec_validate(&s, &err), 0);
	s.walls[WALL_NET] = WALL_LEVEL_OFF;
	refused(&s, "needs wall 'net'");
	good(&s);
	s.want_road = true;
	s.want_loopback = false;
	refused(&s, "needs the loopback");
}

int main(void)
{
	RUN(defaults_require_isolation_and_prefer_limits);
	RUN(a_limit_asked_for_is_required);
	RUN(a_level_from_the_user_beats_the_limits_own);
	RUN(none_lifts_a_limit);
	RUN(absurd_limits_are_refused_with_the_range);
	RUN(there_is_no_limit_of_another_name);
	RUN(a_command_is_needed);
	RUN(an_oversized_argument_is_named_by_number);
	RUN(all_arguments_together_have_a_cap);
	RUN(a_variable_is_name_and_value);
	RUN(passed_names_are_names);
	RUN(names_of_host_and_user_are_checked);
	RUN(paths_are_cleaned_against_the_working_directory);
	RUN(path_rules_have_a_cap);
	RUN(contradicting_path_rules_are_refused);
	RUN(the_whole_tree_and_kernel_trees_are_refused);
	RUN(later_rules_override_earlier_ones);
	RUN(walls_that_lean_on_an_absent_one_fall_with_it);
	RUN(a_required_limit_needs_a_value);
	RUN(sudo_and_no_new_privs_exclude_each_other);
	RUN(copy_on_write_needs_a_directory_and_a_root);
	RUN(a_road_needs_a_network_of_its_own);
	RUN(malformed_settings_name_what_is_accepted);
	return tap_done();
}
