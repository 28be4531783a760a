/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/profile: every field arrives, and nothing else is accepted.
 */
#include "core/profile.h"

#include "tap.h"

#include <errno.h>

static const struct profile_source source = {.file = "p.yaml",
	.cwd = "/work/dir",
	.home = "/home/u"};

static int parse(const char *yaml, struct spec *s, struct err *err)
{
	struct profile p = {0};
	int r;

	spec_init(s);
	r = profile_read(yaml, strlen(yaml), &source, s, &p, err);
	profile_done(&p);
	return r;
}

static void refused(const char *yaml, const char *why)
{
	struct err err = {0};
	struct spec s;

	CHECK_INT(parse(yaml, &s, &err), -EINVAL);
	if (!CHECK(strstr(err.msg, why) != NULL))
		tap_print("# message is: %s\n", err.msg);
	spec_done(&s);
}

static void every_field_arrives_in_the_spec(void)
{
	static const char yaml[] = "# all of it\n"
				   "name: ci\n"
				   "version: 3\n"
				   "root: base\n"
				   "user: builder\n"
				   "cwd: sub\n"
				   "hostname: ci-box\n"
				   "env:\n"
				   "  LANG: C.UTF-8\n"
				   "  EMPTY: ''\n"
				   "pass_env: [CI, 'CARGO_*']\n"
				   "filesystem:\n"
				   "  rw: [out, ~/.cache/pip]\n"
				   "  ro:\n"
				   "    - /opt/tool\n"
				   "  hide: ['**/*.pem']\n"
				   "  cow: true\n"
				   "  protect: false\n"
				   "limits:\n"
				   "  memory: 512M\n"
				   "  cpus: 1.5\n"
				   "  pids: 64\n"
				   "  disk: 256M\n"
				   "  io: 10M\n"
				   "  timeout: 5m\n"
				   "  kill_after: 1s\n"
				   "  open_files: 1024\n"
				   "walls:\n"
				   "  landlock: preferred\n"
				   "  memory: off\n"
				   "net: none\n"
				   "loopback: false\n"
				   "allow_sudo: true\n";
	struct err err = {0};
	struct spec s;

	if (!CHECK_INT(parse(yaml, &s, &err), 0))
		tap_print("# %s\n", err.msg);
	CHECK_STR(s.profile, "ci@3");
	CHECK_INT(s.root, SPEC_ROOT_BASE);
	CHECK_STR(s.user, "builder");
	CHECK_STR(s.cwd, "/work/dir/sub");
	CHECK_STR(s.hostname, "ci-box");
	CHECK_INT(s.env.n, 2);
	CHECK_STR(s.env.v[0], "LANG=C.UTF-8");
	CHECK_STR(s.env.v[1], "EMPTY=");
	CHECK_INT(s.pass_env.n, 2);
	CHECK_STR(s.pass_env.v[1], "CARGO_*");
	if (CHECK_INT(s.paths_n, 4)) {
		CHECK_STR(s.paths[0].path, "/work/dir/out");
		CHECK_INT(s.paths[0].mode, SPEC_PATH_RW);
		CHECK_STR(s.paths[1].path, "/home/u/.cache/pip");
		CHECK_INT(s.paths[2].mode, SPEC_PATH_RO);
		CHECK_STR(s.paths[3].path, "/work/dir/**/*.pem");
		CHECK_INT(s.paths[3].mode, SPEC_PATH_HIDE);
	}
	CHECK(s.cow && s.no_protect && s.allow_sudo && !s.want_loopback);
	CHECK_INT(s.limits.memory_max, 512 << 20);
	CHECK_INT(s.limits.cpu_milli, 1500);
	CHECK_INT(s.limits.pids_max, 64);
	CHECK_INT(s.limits.disk_max, 256 << 20);
	CHECK_INT(s.limits.io_bps, 10 << 20);
	CHECK_INT(s.limits.timeout_ms, 300000);
	CHECK_INT(s.limits.kill_after_ms, 1000);
	CHECK_INT(s.limits.open_files, 1024);
	CHECK_INT(s.walls[WALL_LANDLOCK], WALL_LEVEL_PREFERRED);
	CHECK_INT(s.walls[WALL_MEMORY], WALL_LEVEL_OFF);
	CHECK(s.walls_set[WALL_MEMORY]);
	spec_done(&s);
}

static void a_profile_without_a_name_goes_by_its_file(void)
{
	struct err err = {0};
	struct spec s;

	CHECK_INT(parse("root: host\n", &s, &err), 0);
	CHECK_STR(s.profile, "p.yaml");
	spec_done(&s);
}

static void unknown_fields_are_refused_with_line_and_suggestion(void)
{
	refused("name: x\nlimit:\n  memory: 1G\n", "p.yaml:2: unknown field 'limit' (did you mean "
						   "'limits'?)");
	refused("limits:\n  memry: 1G\n", "p.yaml:2: unknown field 'limits.memry' (did you mean "
					  "'memory'?); accepted: memory, cpus");
	refused("name: x\nwhatever-is-this: 1\n", "accepted: name, version, description");
	refused("filesystem: {rx: [a]}\n", "unknown field 'filesystem.rx'");
	refused("<<: {name: x}\n", "unknown field");
}

static void repeated_fields_are_refused(void)
{
	refused("root: host\nroot: base\n", "p.yaml:2: field 'root' is given twice");
	refused("env:\n  A: 1\n  A: 2\n", "p.yaml:3: field 'env.A' is given twice");
	refused("limits: {pids: 3, pids: 4}\n", "field 'limits.pids' is given twice");
}

static void yaml_tricks_are_refused(void)
{
	refused("name: &a x\nhostname: *a\n", "p.yaml:1: anchors and aliases");
	refused("hostname: *a\n", "anchors and aliases");
	refused("env: &e {A: b}\n", "anchors and aliases");
	refused("pass_env: &e [A]\n", "anchors and aliases");
	refused("name: !!str x\n", "tags are not accepted");
	refused("env: !x {A: b}\n", "tags are not accepted");
	refused("%YAML 1.1\n---\nname: x\n", "directives");
	refused("name: x\n---\nname: y\n", "p.yaml:2: a profile is one document");
	refused("name: \"x\\0y\"\n", "zero byte");
}

static void a_value_of_the_wrong_shape_is_refused(void)
{
	refused("", "the profile is empty");
	refused("just text\n", "a profile is a map");
	refused("- a\n- b\n", "a profile is a map");
	refused("name: [x]\n", "field 'name' takes one value");
	refused("env: [A]\n", "field 'env' takes 'name: value' lines");
	refused("env: {A: [b]}\n", "field 'env' takes 'name: value' lines");
	refused("pass_env: A\n", "field 'pass_env' takes a list");
	refused("pass_env: [[A]]\n", "field 'pass_env' takes a list");
	refused("limits: 3\n", "field 'limits' takes named fields");
	refused("? [a]\n: b\n", "must be a plain word");
	refused("name: 'x\n", "p.yaml:2: not YAML");
	refused("\tname: x\n", "p.yaml:1: not YAML");
	refused("name: \xff\n", "not YAML");
}

static void a_wrong_value_names_line_field_and_what_is_accepted(void)
{
	refused("limits:\n  memory: 1\n", "p.yaml:2: limits.memory: memory '1' is not accepted; "
					  "accepted: 4M to 64T, or none");
	refused("root: debian\n", "p.yaml:1: root: 'debian' is not a root; accepted: host, base");
	refused("net: full\n", "accepted: none");
	refused("loopback: yes\n", "accepted: true, false");
	refused("walls:\n  sandbox: off\n", "no wall is called 'sandbox'");
	refused("walls:\n  net: no\n", "accepted: required, preferred, off");
	refused("name: a/b\n", "1 to 64 letters");
	refused("name: ''\n", "must not be empty");
	refused("version: 0\n", "version");
	refused("env: {'A=B': c}\n", "not a variable's name");
	refused("env: {'': c}\n", "not a variable's name");
	refused("user: ''\n", "must not be empty");
	refused("filesystem: {rw: ['']}\n", "filesystem.rw");
}

static void an_oversized_profile_is_refused(void)
{
	AUTO_FREE char *big = malloc(PROFILE_SIZE_MAX + 2);
	struct profile p = {0};
	struct err err = {0};
	struct spec s;

	if (!CHECK(big != NULL))
		return;
	memset(big, '#', PROFILE_SIZE_MAX + 1);
	spec_init(&s);
	CHECK_INT(profile_read(big, PROFILE_SIZE_MAX + 1, &source, &s, &p, &err), -E2BIG);
	CHECK_INT(profile_read(big, PROFILE_SIZE_MAX, &source, &s, &p, &err), -EINVAL); /* empty */
	spec_done(&s);
}

/* libyaml is quadratic in nesting, so the first bracket that does not fit must end it. */
static void deep_nesting_is_refused_at_once(void)
{
	AUTO_FREE char *deep = malloc(PROFILE_SIZE_MAX + 1);

	if (!CHECK(deep != NULL))
		return;
	memset(deep, '[', PROFILE_SIZE_MAX);
	deep[PROFILE_SIZE_MAX] = '\0';
	refused(deep, "a profile is a map");
	memcpy(deep, "env: {", 6);
	refused(deep, "must be a plain word");
}

int main(void)
{
	RUN(every_field_arrives_in_the_spec);
	RUN(a_profile_without_a_name_goes_by_its_file);
	RUN(unknown_fields_are_refused_with_line_and_suggestion);
	RUN(repeated_fields_are_refused);
	RUN(yaml_tricks_are_refused);
	RUN(a_value_of_the_wrong_shape_is_refused);
	RUN(a_wrong_value_names_line_field_and_what_is_accepted);
	RUN(an_oversized_profile_is_refused);
	RUN(deep_nesting_is_refused_at_once);
	return tap_done();
}
