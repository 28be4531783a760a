/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Everything happens below one directory T of /tmp, which the spec shows with
 * --ro (a box has its own /tmp): home is T/home, the working directory T/home/proj.
 */
#include "base/text.h"
#include "core/spec.h"
#include "run/process/host_view.h"
#include "sys/tree.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

static char top[64];
static char hold[96];

/* T/<rel>; a small ring, so that several can stand in one expression. */
static const char *at(const char *rel)
{
	static char ring[8][PATH_MAX];
	static unsigned next;
	char *out = ring[next++ % 8];

	(void)snprintf(out, PATH_MAX, "%s/%s", top, rel);
	return out;
}

static void make_dir(const char *rel)
{
	struct err err = {0};

	CHECK(tree_make_dirs(at(rel), 0755, &err) == 0);
}

static void put(const char *rel, const char *text)
{
	AUTO_FREE char *dir = text_format("%s", rel);
	char *slash = strrchr(dir, '/');
	AUTO_FD int fd = -EBADF;

	if (slash) {
		*slash = '\0';
		make_dir(dir);
	}
	fd = open(at(rel), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static bool is_there(const char *rel)
{
	struct stat st;

	return lstat(at(rel), &st) == 0;
}

static void set_up(void)
{
	(void)snprintf(top, sizeof(top), "/tmp/test_host_view.XXXXXX");
	CHECK(mkdtemp(top) != NULL);
	(void)snprintf(hold, sizeof(hold), "%s/state/held/run", top);
	make_dir("home/proj");
}

static void tear_down(void)
{
	AUTO_FD int fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};

	CHECK(tree_remove(fd, top + strlen("/tmp/"), &err) == 0);
}

static int build_at(struct spec *s, const char *work, struct host_view *v, struct err *err)
{
	struct host_view_who who = {.home = at("home"), .work_dir = at(work)};

	CHECK(spec_add_path(s, SPEC_PATH_RO, top, "/", err) == 0);
	return host_view_build(s, &who, v, err);
}

static int build(struct spec *s, struct host_view *v, struct err *err)
{
	return build_at(s, "home/proj", v, err);
}

static void build_default(struct host_view *v)
{
	struct err err = {0};
	struct spec s;

	spec_init(&s);
	if (!CHECK(build(&s, v, &err) == 0))
		tap_print("# %s\n", err.msg);
	spec_done(&s);
}

static unsigned held_n;
static unsigned cut_n;
static char held_path[PATH_MAX];

static void note_held(const char *path, const char *moved_to, void *arg)
{
	(void)arg;
	if (!moved_to) {
		cut_n++;
		return;
	}
	held_n++;
	(void)snprintf(held_path, sizeof(held_path), "%s", path);
	CHECK(faccessat(AT_FDCWD, moved_to, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

static void hold_back(const struct host_view *v)
{
	struct err err = {0};

	held_n = cut_n = 0;
	if (!CHECK(host_view_hold_back(v, hold, note_held, NULL, &err) == 0))
		tap_print("# %s\n", err.msg);
}

static void secrets_of_the_home_are_hidden_and_tools_are_not(void)
{
	struct host_view v = {0};

	set_up();
	put("home/.ssh/id_ed25519", "key");
	put("home/.aws/credentials", "key");
	put("home/.netrc", "key");
	put("home/.bash_history", "key");
	put("home/.python_history", "key");
	put("home/.env", "key");
	put("home/.cargo/credentials.toml", "key");
	put("home/.cargo/bin/tool", "tool");
	put("home/.config/google-chrome-beta/Cookies", "key");
	put("home/.nvm/nvm.sh", "tool");
	build_default(&v);
	CHECK(strv_has(&v.hidden_dirs, at("home/.ssh")));
	CHECK(strv_has(&v.hidden_dirs, at("home/.aws")));
	CHECK(strv_has(&v.hidden_dirs, at("home/.config/google-chrome-beta")));
	CHECK(strv_has(&v.hidden_files, at("home/.netrc")));
	CHECK(strv_has(&v.hidden_files, at("home/.bash_history")));
	CHECK(strv_has(&v.hidden_files, at("home/.python_history")));
	CHECK(strv_has(&v.hidden_files, at("home/.env")));
	CHECK(strv_has(&v.hidden_files, at("home/.cargo/credentials.toml")));
	CHECK(!strv_has(&v.hidden_dirs, at("home/.cargo")));
	CHECK(!strv_has(&v.hidden_dirs, at("home/.nvm")));
	CHECK(v.writable.n == 1 && strcmp(v.writable.v[0], at("home/proj")) == 0);
	host_view_done(&v);
	tear_down();
}

/* A directory of mode 0711 cannot be listed, and its files be opened all the same. */
static void secrets_behind_a_directory_that_cannot_be_listed_are_hidden(void)
{
	struct host_view v = {0};

	set_up();
	put("home/.config/gh/hosts.yml", "key");
	put("home/.ssh/id", "key");
	CHECK(chmod(at("home/.config"), 0111) == 0 && chmod(at("home"), 0111) == 0);
	build_default(&v);
	CHECK(strv_has(&v.hidden_dirs, at("home/.ssh")));
	CHECK(strv_has(&v.hidden_dirs, at("home/.config/gh")) ||
		strv_has(&v.hidden_files, at("home/.config/gh/hosts.yml")));
	CHECK(chmod(at("home"), 0755) == 0 && chmod(at("home/.config"), 0755) == 0);
	host_view_done(&v);
	tear_down();
}

static void a_history_that_is_a_link_to_a_device_hides_no_device(void)
{
	struct host_view v = {0};

	set_up();
	CHECK(symlink("/dev/null", at("home/.bash_history")) == 0);
	build_default(&v);
	CHECK(!strv_has(&v.hidden_files, "/dev/null"));
	host_view_done(&v);
	tear_down();
}

static void env_files_in_the_project_are_hidden_to_a_bounded_depth(void)
{
	struct host_view v = {0};

	set_up();
	put("home/proj/.env", "key");
	put("home/proj/.env.example", "none");
	put("home/proj/a/b/c/.env.local", "key");
	put("home/proj/1/2/3/4/5/6/7/8/.env", "key");
	put("home/proj/node_modules/x/.env", "not ours");
	put("home/proj/venv/.env", "not ours");
	make_dir("home/proj/d/.env"); /* a python environment by that name */
	CHECK(symlink("/usr", at("home/proj/.env.usr")) == 0);
	CHECK(symlink(".", at("home/proj/.env.here")) == 0);
	build_default(&v);
	CHECK(strv_has(&v.hidden_files, at("home/proj/.env")));
	CHECK(strv_has(&v.hidden_files, at("home/proj/a/b/c/.env.local")));
	CHECK(!strv_has(&v.hidden_files, at("home/proj/.env.example")));
	CHECK(strv_has(&v.hidden_files, at("home/proj/1/2/3/4/5/6/7/8/.env")));
	CHECK(!strv_has(&v.hidden_files, at("home/proj/node_modules/x/.env")));
	CHECK(!strv_has(&v.hidden_dirs, at("home/proj/d/.env")));
	CHECK(!strv_has(&v.hidden_dirs, "/usr"));
	CHECK(!strv_has(&v.hidden_dirs, at("home/proj")));
	host_view_done(&v);
	tear_down();
}

static void what_the_user_names_is_shown_and_no_more(void)
{
	struct host_view v = {0};
	struct err err = {0};
	struct spec s;

	set_up();
	put("home/.ssh/id_ed25519", "key");
	put("home/.ssh/config", "text");
	put("home/.netrc", "key");
	spec_init(&s);
	CHECK(spec_add_path(&s, SPEC_PATH_RO, at("home/.ssh/config"), "/", &err) == 0);
	CHECK(spec_add_path(&s, SPEC_PATH_RO, at("home/.netrc"), "/", &err) == 0);
	CHECK(build(&s, &v, &err) == 0);
	CHECK(strv_has(&v.hidden_dirs, at("home/.ssh")));
	CHECK(strv_has(&v.readonly, at("home/.ssh/config")));
	CHECK(!strv_has(&v.hidden_files, at("home/.netrc")));
	host_view_done(&v);
	spec_done(&s);
	tear_down();
}

static void hide_takes_globs_and_absent_names(void)
{
	struct host_view v = {0};
	struct err err = {0};
	struct spec s;

	set_up();
	put("home/proj/a/x.key", "key");
	put("home/proj/x.key", "key");
	put("home/proj/a/b/.deep/y.key", "key");
	put("home/proj/a/y.pub", "text");
	put("home/proj/literal[1]", "text");
	spec_init(&s);
	CHECK(spec_add_path(&s, SPEC_PATH_HIDE, at("home/proj/**/*.key"), "/", &err) == 0);
	CHECK(spec_add_path(&s, SPEC_PATH_HIDE, at("home/proj/literal[1]"), "/", &err) == 0);
	CHECK(spec_add_path(&s, SPEC_PATH_HIDE, at("home/nothing"), "/", &err) == 0);
	CHECK(build(&s, &v, &err) == 0);
	CHECK(strv_has(&v.hidden_files, at("home/proj/x.key")));
	CHECK(strv_has(&v.hidden_files, at("home/proj/a/x.key")));
	CHECK(strv_has(&v.hidden_files, at("home/proj/a/b/.deep/y.key")));
	CHECK(strv_has(&v.hidden_files, at("home/proj/literal[1]")));
	CHECK(!strv_has(&v.hidden_files, at("home/proj/a/y.pub")));
	host_view_done(&v);
	spec_done(&s);
	tear_down();
}

static int build_with(enum spec_path_mode m, const char *path, enum spec_path_mode m2,
	const char *path2, struct err *err)
{
	struct host_view v = {0};
	struct spec s;
	int r;

	spec_init(&s);
	CHECK(spec_add_path(&s, m, path, "/", err) == 0);
	if (path2)
		CHECK(spec_add_path(&s, m2, path2, "/", err) == 0);
	r = build(&s, &v, err);
	host_view_done(&v);
	spec_done(&s);
	return r;
}

static void bad_rules_are_named(void)
{
	struct err err = {0};

	set_up();
	make_dir("home/x");
	CHECK_INT(build_with(SPEC_PATH_RW, at("nope"), 0, NULL, &err), -ENOENT);
	CHECK(strstr(err.msg, "--rw '/tmp/") && strstr(err.msg, "/nope'"));
	CHECK_INT(build_with(SPEC_PATH_RO, at("nope*"), 0, NULL, &err), -ENOENT);
	CHECK(strstr(err.msg, "--ro ") != NULL);
	CHECK_INT(build_with(SPEC_PATH_RW, at("home/x"), SPEC_PATH_HIDE, at("home/x"), &err),
		-EINVAL);
	CHECK(strstr(err.msg, "both --rw and --hide") != NULL);
	CHECK_INT(
		build_with(SPEC_PATH_RO, at("home/x"), SPEC_PATH_RW, at("home/x"), &err), -EINVAL);
	CHECK_INT(build_with(SPEC_PATH_RW, "/", 0, NULL, &err), -EINVAL);
	CHECK_INT(build_with(SPEC_PATH_RW, "/proc/sys", 0, NULL, &err), -EINVAL);
	tear_down();
}

static void a_hidden_working_directory_is_refused_unless_named(void)
{
	struct host_view v = {0};
	struct err err = {0};
	struct spec s;

	set_up();
	put("home/.ssh/id", "key");
	spec_init(&s);
	CHECK_INT(build_at(&s, "home/.ssh", &v, &err), -EINVAL);
	CHECK(strstr(err.msg, "hidden by default") && strstr(err.msg, "--rw"));
	spec_done(&s);
	spec_init(&s);
	CHECK(spec_add_path(&s, SPEC_PATH_RW, at("home/.ssh"), "/", &err) == 0);
	CHECK_INT(build_at(&s, "home/.ssh", &v, &err), 0);
	CHECK(strv_has(&v.writable, at("home/.ssh")));
	CHECK(!strv_has(&v.hidden_dirs, at("home/.ssh")));
	host_view_done(&v);
	spec_done(&s);
	tear_down();
}

static void nested_rules_go_to_the_most_specific(void)
{
	struct host_view v = {0};
	struct err err = {0};
	struct spec s;

	set_up();
	make_dir("home/proj/a/b/c");
	make_dir("home/proj/d");
	spec_init(&s);
	CHECK(spec_add_path(&s, SPEC_PATH_RO, at("home/proj/a"), "/", &err) == 0);
	CHECK(spec_add_path(&s, SPEC_PATH_RW, at("home/proj/a/b"), "/", &err) == 0);
	CHECK(spec_add_path(&s, SPEC_PATH_RW, at("home/proj/d"), "/", &err) == 0);
	CHECK(build(&s, &v, &err) == 0);
	CHECK_INT(v.writable.n, 2);
	CHECK_STR(v.writable.v[0], at("home/proj"));
	CHECK_STR(v.writable.v[1], at("home/proj/a/b"));
	CHECK(strv_has(&v.readonly, at("home/proj/a")));
	host_view_done(&v);
	spec_done(&s);
	tear_down();
}

static void protected_names_are_split_into_present_and_absent(void)
{
	struct host_view v = {0};

	set_up();
	put("home/proj/.git/HEAD", "ref: refs/heads/main\n");
	put("home/proj/.git/config", "[core]\n");
	make_dir("home/proj/.git/hooks");
	put("home/proj/.git/modules/a/b/HEAD", "x");
	put("home/proj/.git/modules/a/b/config", "[core]\n");
	put("home/proj/.claude/settings.json", "{}");
	put("home/proj/sub/repo/.git/config", "[core]\n");
	build_default(&v);
	CHECK(strv_has(&v.protect, at("home/proj/.git/config")));
	CHECK(strv_has(&v.protect, at("home/proj/.git/hooks")));
	CHECK(strv_has(&v.protect, at("home/proj/.git/modules/a/b/config")));
	CHECK(strv_has(&v.absent, at("home/proj/.git/modules/a/b/hooks")));
	CHECK(strv_has(&v.protect, at("home/proj/.claude/settings.json")));
	CHECK(strv_has(&v.protect, at("home/proj/sub/repo/.git/config")));
	CHECK(strv_has(&v.absent, at("home/proj/.git/commondir")));
	CHECK(strv_has(&v.absent, at("home/proj/.vscode")));
	CHECK(strv_has(&v.absent, at("home/proj/.bashrc")));
	CHECK(strv_has(&v.absent, at("home/proj/sub/repo/.vscode")));
	CHECK(strv_has(&v.pins, at("home/proj/.git")));
	CHECK(strv_has(&v.pins, at("home/proj/.claude")));
	CHECK(strv_has(&v.pins, at("home/proj/sub")));
	CHECK(strv_has(&v.pins, at("home/proj/sub/repo")));
	CHECK(!strv_has(&v.pins, at("home/proj")));
	host_view_done(&v);
	tear_down();
}

static void rules_of_the_home_reach_into_a_writable_part_of_it(void)
{
	struct host_view v = {0};
	struct err err = {0};
	struct spec s;

	set_up();
	put("home/.config/fish/config.fish", "text");
	spec_init(&s);
	CHECK(spec_add_path(&s, SPEC_PATH_RW, at("home/.config"), "/", &err) == 0);
	CHECK(build(&s, &v, &err) == 0);
	CHECK(strv_has(&v.protect, at("home/.config/fish")));
	CHECK(strv_has(&v.absent, at("home/.config/autostart")));
	host_view_done(&v);
	spec_done(&s);
	tear_down();
}

static void copy_on_write_and_no_protect_guard_nothing(void)
{
	struct host_view v = {0};
	struct err err = {0};
	struct spec s;

	set_up();
	put("home/proj/.git/config", "[core]\n");
	put("home/proj/.env", "key");
	spec_init(&s);
	s.cow = true;
	CHECK(build(&s, &v, &err) == 0);
	CHECK(v.protect.n == 0 && v.absent.n == 0 && v.guarded.n == 0);
	CHECK(strv_has(&v.hidden_files, at("home/proj/.env")));
	host_view_done(&v);
	spec_done(&s);
	spec_init(&s);
	s.no_protect = true;
	CHECK(build(&s, &v, &err) == 0);
	CHECK(v.protect.n == 0 && v.absent.n == 0);
	host_view_done(&v);
	spec_done(&s);
	tear_down();
}

static void new_protected_names_are_moved_away(void)
{
	struct host_view v = {0};

	set_up();
	build_default(&v);
	put("home/proj/.vscode/tasks.json", "evil");
	put("home/proj/.claude/settings.json", "evil");
	put("home/proj/src/main.c", "work");
	hold_back(&v);
	CHECK_INT(held_n, 2);
	CHECK(!is_there("home/proj/.vscode"));
	CHECK(!is_there("home/proj/.claude/settings.json"));
	CHECK(is_there("home/proj/src/main.c"));
	host_view_done(&v);
	tear_down();
}

static void a_link_planted_on_the_way_is_moved_and_not_followed(void)
{
	struct host_view v = {0};

	set_up();
	put("home/elsewhere/settings.json", "the user's");
	build_default(&v);
	CHECK(symlink(at("home/elsewhere"), at("home/proj/.claude")) == 0);
	hold_back(&v);
	CHECK_INT(held_n, 1);
	CHECK_STR(held_path, at("home/proj/.claude"));
	CHECK(is_there("home/elsewhere/settings.json"));
	host_view_done(&v);
	tear_down();
}

static void a_replaced_link_is_put_back(void)
{
	struct host_view v = {0};
	char now[PATH_MAX] = "";

	set_up();
	put("home/dotfiles/bashrc", "text");
	CHECK(symlink("../dotfiles/bashrc", at("home/proj/.bashrc")) == 0);
	build_default(&v);
	CHECK(strv_has(&v.links, at("home/proj/.bashrc")));
	CHECK(unlink(at("home/proj/.bashrc")) == 0);
	put("home/proj/.bashrc", "evil");
	hold_back(&v);
	CHECK_INT(held_n, 1);
	CHECK(readlink(at("home/proj/.bashrc"), now, sizeof(now) - 1) > 0);
	CHECK_STR(now, "../dotfiles/bashrc");
	hold_back(&v);
	CHECK_INT(held_n, 0);
	host_view_done(&v);
	tear_down();
}

static void a_new_repository_stays_without_what_git_would_run(void)
{
	struct host_view v = {0};

	set_up();
	build_default(&v);
	put("home/proj/.git/HEAD", "ref: refs/heads/main\n");
	put("home/proj/.git/config", "[core]\n\tbare = false\n");
	put("home/proj/.git/hooks/pre-commit.sample", "text");
	put("home/proj/.git/hooks/pre-commit", "evil");
	put("home/proj/dep/.git/HEAD", "ref: refs/heads/main\n");
	put("home/proj/dep/.git/config", "[core]\n\tfsmonitor = evil\n");
	put("home/proj/dep/.git/commondir", "../evil\n");
	put("home/proj/dep/.git/modules/m/HEAD", "x");
	put("home/proj/dep/.git/modules/m/config", "[alias]\n\tx = !evil\n");
	hold_back(&v);
	CHECK_INT(held_n, 4);
	CHECK(is_there("home/proj/.git/config"));
	CHECK(is_there("home/proj/.git/hooks/pre-commit.sample"));
	CHECK(!is_there("home/proj/.git/hooks/pre-commit"));
	CHECK(is_there("home/proj/dep/.git/HEAD"));
	CHECK(!is_there("home/proj/dep/.git/config"));
	CHECK(!is_there("home/proj/dep/.git/commondir"));
	CHECK(!is_there("home/proj/dep/.git/modules/m/config"));
	host_view_done(&v);
	tear_down();
}

static void a_planted_bare_repository_loses_its_config(void)
{
	struct host_view v = {0};

	set_up();
	build_default(&v);
	put("home/proj/HEAD", "ref: refs/heads/main\n");
	make_dir("home/proj/objects");
	make_dir("home/proj/refs");
	put("home/proj/config", "[core]\n\tfsmonitor = evil\n");
	put("home/proj/sub/HEAD", "not a repository");
	put("home/proj/sub/config", "[core]\n\tfsmonitor = text\n");
	hold_back(&v);
	CHECK_INT(held_n, 1);
	CHECK(!is_there("home/proj/config"));
	CHECK(is_there("home/proj/sub/config"));
	host_view_done(&v);
	tear_down();
}

static void a_new_module_of_an_old_repository_is_cleaned(void)
{
	struct host_view v = {0};

	set_up();
	put("home/proj/.git/HEAD", "ref: refs/heads/main\n");
	put("home/proj/.git/config", "[core]\n\tpager = the user's own\n");
	make_dir("home/proj/.git/hooks");
	build_default(&v);
	put("home/proj/.git/modules/sub/HEAD", "x");
	put("home/proj/.git/modules/sub/config", "[core]\n\tworktree = ../../../sub\n");
	put("home/proj/.git/modules/sub/hooks/post-checkout", "evil");
	put("home/proj/sub/.git", "gitdir: ../.git/modules/sub\n");
	put("home/proj/bad/.git", "gitdir: ../evil\n");
	hold_back(&v);
	CHECK_INT(held_n, 2);
	CHECK(is_there("home/proj/.git/config"));
	CHECK(is_there("home/proj/.git/modules/sub/config"));
	CHECK(!is_there("home/proj/.git/modules/sub/hooks/post-checkout"));
	CHECK(is_there("home/proj/sub/.git"));
	CHECK(!is_there("home/proj/bad/.git"));
	host_view_done(&v);
	tear_down();
}

static void hostile_kinds_under_protected_names_do_not_hang_or_escape(void)
{
	struct host_view v = {0};

	set_up();
	put("home/outside", "the user's");
	build_default(&v);
	CHECK(mkfifo(at("home/proj/.bashrc"), 0644) == 0);
	CHECK(symlink(at("home/outside"), at("home/proj/.zshrc")) == 0);
	make_dir("home/proj/.git");
	put("home/proj/.git/HEAD", "x");
	CHECK(mkfifo(at("home/proj/.git/config"), 0644) == 0);
	CHECK(symlink("/etc", at("home/proj/.git/hooks")) == 0);
	CHECK(symlink(at("home"), at("home/proj/.git/modules")) == 0);
	hold_back(&v);
	CHECK_INT(held_n, 5);
	CHECK(is_there("home/outside"));
	CHECK(!is_there("home/proj/.bashrc") && !is_there("home/proj/.zshrc"));
	CHECK(!is_there("home/proj/.git/config") && !is_there("home/proj/.git/hooks"));
	host_view_done(&v);
	tear_down();
}

static void our_own_records_are_hidden_from_a_run_in_the_home(void)
{
	struct host_view v = {0};
	struct err err = {0};
	struct spec s;

	set_up();
	CHECK(setenv("BAWN_STATE_DIR", at("home/.local/state/bawn"), 1) == 0);
	spec_init(&s);
	CHECK(build_at(&s, "home", &v, &err) == 0);
	CHECK(strv_has(&v.hidden_dirs, at("home/.local/state/bawn")));
	CHECK(strv_has(&v.pins, at("home/.local")));
	CHECK(strv_has(&v.pins, at("home/.local/state")));
	host_view_done(&v);
	CHECK_INT(build_at(&s, "home/.local/state/bawn", &v, &err), -EINVAL);
	spec_done(&s);
	CHECK(unsetenv("BAWN_STATE_DIR") == 0);
	tear_down();
}

/* The state often lies on another file system than the work. */
static void held_things_cross_file_systems(void)
{
	struct host_view v = {0};
	char shm[] = "/dev/shm/test_host_view.XXXXXX";
	AUTO_FD int dev = open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};

	set_up();
	CHECK(mkdtemp(shm) != NULL);
	(void)snprintf(hold, sizeof(hold), "%s/held", shm);
	build_default(&v);
	put("home/proj/.vscode/tasks.json", "evil");
	put("home/proj/.vscode/sub/x", "evil");
	put("home/proj/.bashrc", "evil");
	hold_back(&v);
	CHECK_INT(held_n, 2);
	CHECK(!is_there("home/proj/.vscode") && !is_there("home/proj/.bashrc"));
	host_view_done(&v);
	CHECK(tree_remove(dev, shm + strlen("/dev/shm/"), &err) == 0);
	tear_down();
}

/* Too deep to copy: it stays, under a name that nothing obeys. */
static void what_cannot_be_moved_is_renamed_where_it_is(void)
{
	struct host_view v = {0};
	char shm[] = "/dev/shm/test_host_view.XXXXXX";
	AUTO_FD int dev = open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int deep = -EBADF;
	struct err err = {0};
	struct stat here, there;

	set_up();
	CHECK(mkdtemp(shm) != NULL);
	(void)snprintf(hold, sizeof(hold), "%s/held", shm);
	CHECK(stat(top, &here) == 0 && stat(shm, &there) == 0);
	build_default(&v);
	make_dir("home/proj/.vscode");
	deep = open(at("home/proj/.vscode"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < TREE_DEPTH_MAX + 10; i++) {
		int next;

		CHECK(mkdirat(deep, "d", 0755) == 0);
		next = openat(deep, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
		closep(&deep);
		deep = next;
	}
	hold_back(&v);
	CHECK_INT(held_n, 1);
	/* What stays is deeper than anybody looks, and that is told. */
	CHECK_INT(cut_n, here.st_dev != there.st_dev);
	CHECK(!is_there("home/proj/.vscode"));
	/* On one file system a rename moves anything. */
	CHECK(is_there("home/proj/.vscode.bawn-held-1") == (here.st_dev != there.st_dev));
	host_view_done(&v);
	CHECK(tree_remove(dev, shm + strlen("/dev/shm/"), &err) == 0);
	tear_down();
}

#define EVIL "[core]\n\tfsmonitor = touch /tmp/owned\n"

static void put_git_dir(const char *rel, const char *config)
{
	AUTO_FREE char *head = text_format("%s/HEAD", rel);
	AUTO_FREE char *objects = text_format("%s/objects", rel);
	AUTO_FREE char *refs = text_format("%s/refs", rel);
	AUTO_FREE char *conf = text_format("%s/config", rel);

	put(head, "ref: refs/heads/main\n");
	make_dir(objects);
	make_dir(refs);
	put(conf, config);
}

/* The text of the path stays inside; the kernel, through the link, goes elsewhere. */
static void a_git_file_whose_way_is_a_link_is_taken(void)
{
	struct host_view v = {0};

	set_up();
	build_default(&v);
	put_git_dir("home/proj/deps/.git/modules/evil", EVIL);
	CHECK(symlink("deps", at("home/proj/lnk")) == 0);
	put("home/proj/b/.git", "gitdir: ../lnk/.git/modules/evil\n");
	put("home/proj/c/.git", "gitdir: ../lnk/../deps/.git/modules/evil\n");
	put("home/proj/d/.git", "gitdir: ../.git/modules/none\n");
	hold_back(&v);
	CHECK(!is_there("home/proj/b/.git"));
	CHECK(!is_there("home/proj/c/.git"));
	CHECK(!is_there("home/proj/d/.git"));
	CHECK(!is_there("home/proj/deps/.git/modules/evil/config"));
	host_view_done(&v);
	tear_down();
}

/* Git looks for objects, refs and config where commondir says. */
static void a_repository_by_commondir_is_taken_apart(void)
{
	struct host_view v = {0};

	set_up();
	build_default(&v);
	put("home/proj/a/HEAD", "ref: refs/heads/main\n");
	put("home/proj/a/commondir", "../x\n");
	make_dir("home/proj/x/objects");
	make_dir("home/proj/x/refs");
	put("home/proj/x/config", EVIL);
	/* An executable file is as good as a directory to git's access(2). */
	put("home/proj/y/HEAD", "ref: refs/heads/main\n");
	put("home/proj/y/objects", "");
	put("home/proj/y/refs", "");
	put("home/proj/y/config", EVIL);
	hold_back(&v);
	CHECK(!is_there("home/proj/a/commondir"));
	CHECK(!is_there("home/proj/y/config"));
	host_view_done(&v);
	tear_down();
}

static void a_new_worktree_of_a_bare_repository_stays(void)
{
	struct host_view v = {0};

	set_up();
	build_default(&v);
	put_git_dir("home/proj/bare", "[core]\n\tbare = true\n");
	put("home/proj/bare/worktrees/w/HEAD", "ref: refs/heads/w\n");
	put("home/proj/bare/worktrees/w/commondir", "../..\n");
	/* Not of a repository: leads to a config that nobody looked at. */
	put("home/proj/x/worktrees/w/HEAD", "ref: refs/heads/w\n");
	put("home/proj/x/worktrees/w/commondir", "../..\n");
	hold_back(&v);
	CHECK(is_there("home/proj/bare/worktrees/w/commondir"));
	CHECK(is_there("home/proj/bare/config"));
	CHECK(!is_there("home/proj/x/worktrees/w/commondir"));
	CHECK_INT(held_n, 1);
	host_view_done(&v);
	tear_down();
}

static void repositories_far_down_and_among_dependencies_are_protected(void)
{
	static const char *const places[] = {"home/proj/1/2/3/4/5/6/7/8/9/.git",
		"home/proj/node_modules/.git", "home/proj/node_modules/dep/.git",
		"home/proj/a/.venv/src/.git"};
	struct host_view v = {0};

	set_up();
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		AUTO_FREE char *hook = text_format("%s/hooks/pre-commit", places[i]);

		put_git_dir(places[i], EVIL);
		put(hook, "the user's own");
	}
	build_default(&v);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		AUTO_FREE char *config = text_format("%s/config", places[i]);

		if (!CHECK(strv_has(&v.protect, at(config))))
			tap_print("# %s\n", config);
	}
	hold_back(&v);
	CHECK_INT(held_n, 0);
	CHECK_INT(cut_n, 0);
	host_view_done(&v);
	tear_down();
}

static void what_is_planted_among_dependencies_is_taken(void)
{
	struct host_view v = {0};

	set_up();
	build_default(&v);
	put_git_dir("home/proj/node_modules/.git", EVIL);
	put_git_dir("home/proj/node_modules/dep/.git", EVIL);
	put_git_dir("home/proj/node_modules/bare", EVIL);
	hold_back(&v);
	CHECK_INT(held_n, 3);
	host_view_done(&v);
	tear_down();
}

/* More names than one looks at before the run; the search after it finds an old repository. */
static void a_cut_search_is_told_and_moves_nothing_old(void)
{
	struct host_view v = {0};
	struct timespec then;

	set_up();
	put_git_dir("home/proj/a/old/.git", EVIL);
	put("home/proj/a/old/.git/hooks/pre-commit", "the user's own");
	put("home/proj/f", "");
	for (unsigned i = 0; i < 50001; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "home/proj/f%u", i);
		if (link(at("home/proj/f"), at(name)) < 0)
			(void)symlink("f", at(name)); /* the file system's limit of links */
	}
	/* A tick of the coarse clock, so that "before" is before. */
	CHECK(clock_getres(CLOCK_REALTIME_COARSE, &then) == 0);
	then.tv_nsec *= 2;
	CHECK(nanosleep(&then, NULL) == 0);
	build_default(&v);
	CHECK(v.is_scan_cut);
	put_git_dir("home/proj/a/new/.git", EVIL);
	hold_back(&v);
	CHECK_INT(cut_n, 1);
	CHECK_INT(held_n, 1);
	CHECK(is_there("home/proj/a/old/.git/hooks/pre-commit"));
	CHECK(is_there("home/proj/a/old/.git/config"));
	CHECK(!is_there("home/proj/a/new/.git/config"));
	host_view_done(&v);
	tear_down();
}

static void a_rebase_that_runs_a_command_is_taken_and_others_stay(void)
{
	struct host_view v = {0};

	set_up();
	put_git_dir("home/proj/.git", "");
	put_git_dir("home/proj/plain/.git", "");
	put_git_dir("home/proj/users/.git", "");
	put("home/proj/users/.git/rebase-merge/git-rebase-todo", "exec make check\n");
	build_default(&v);
	put("home/proj/.git/rebase-merge/git-rebase-todo", "pick 1 a\n  x touch /tmp/owned\n");
	put("home/proj/plain/.git/rebase-merge/git-rebase-todo", "pick 1 exec it\nfixup 2 b\n");
	hold_back(&v);
	CHECK_INT(held_n, 1);
	CHECK(!is_there("home/proj/.git/rebase-merge"));
	CHECK(is_there("home/proj/plain/.git/rebase-merge"));
	CHECK(is_there("home/proj/users/.git/rebase-merge"));
	host_view_done(&v);
	tear_down();
}

/* A link where our own directory should be must not lead us out: it stays, disarmed. */
static void a_link_in_the_place_of_the_hold_directory_is_not_followed(void)
{
	struct host_view v = {0};

	set_up();
	make_dir("outside");
	make_dir("state");
	build_default(&v);
	CHECK(symlink(at("outside"), at("state/held")) == 0);
	put("home/proj/.bashrc", "evil");
	hold_back(&v);
	CHECK_INT(held_n, 1);
	CHECK(!is_there("outside/run"));
	CHECK(is_there("home/proj/.bashrc.bawn-held-1"));
	host_view_done(&v);
	tear_down();
}

static void the_profile_of_a_run_is_read_only(void)
{
	struct host_view v = {0};
	struct err err = {0};
	struct spec s;

	set_up();
	put("home/proj/bawn.yaml", "hostname: a\n");
	put("home/proj/etc/real.yaml", "hostname: a\n");
	CHECK(symlink("proj/etc/real.yaml", at("home/link.yaml")) == 0);
	CHECK(symlink("proj", at("home/way")) == 0);
	spec_init(&s);
	s.no_protect = true; /* is about other names */
	CHECK(strv_add(&s.policy, at("home/way/bawn.yaml"), &err) == 0);
	CHECK(strv_add(&s.policy, at("home/link.yaml"), &err) == 0);
	CHECK(build(&s, &v, &err) == 0);
	CHECK(strv_has(&v.protect, at("home/proj/bawn.yaml")));
	CHECK(strv_has(&v.protect, at("home/proj/etc/real.yaml")));
	CHECK(strv_has(&v.pins, at("home/proj/etc")));
	spec_done(&s);
	host_view_done(&v);
	tear_down();
}

static void secrets_named_in_the_environment_are_hidden(void)
{
	struct host_view v = {0};
	char list[2 * PATH_MAX];

	set_up();
	put("home/k/one", "key");
	put("home/k/two", "key");
	put("home/k/gcp.json", "key");
	put("home/k/gnupg/key", "key");
	put("home/k/conf/gh/hosts.yml", "key");
	put("home/.netrc", "key");
	put("home/.netrc~", "key");
	put("home/.netrc.swp", "key");
	put("home/notes~", "none");
	put("home/proj/#.env#", "key");
	(void)snprintf(list, sizeof(list), "%s:%s", at("home/k/one"), at("home/k/two"));
	CHECK(setenv("KUBECONFIG", list, 1) == 0);
	CHECK(setenv("GOOGLE_APPLICATION_CREDENTIALS", at("home/k/gcp.json"), 1) == 0);
	CHECK(setenv("GNUPGHOME", at("home/k/gnupg"), 1) == 0);
	CHECK(setenv("XDG_CONFIG_HOME", at("home/k/conf"), 1) == 0);
	/* Nonsense must not take programs, or the ground we stand on. */
	CHECK(setenv("DOCKER_CONFIG", "/usr", 1) == 0);
	CHECK(setenv("GH_CONFIG_DIR", at("home"), 1) == 0);
	build_default(&v);
	CHECK(unsetenv("KUBECONFIG") == 0 && unsetenv("GOOGLE_APPLICATION_CREDENTIALS") == 0);
	CHECK(unsetenv("GNUPGHOME") == 0 && unsetenv("XDG_CONFIG_HOME") == 0);
	CHECK(unsetenv("DOCKER_CONFIG") == 0 && unsetenv("GH_CONFIG_DIR") == 0);
	CHECK(strv_has(&v.hidden_files, at("home/k/one")));
	CHECK(strv_has(&v.hidden_files, at("home/k/two")));
	CHECK(strv_has(&v.hidden_files, at("home/k/gcp.json")));
	CHECK(strv_has(&v.hidden_dirs, at("home/k/gnupg")));
	CHECK(strv_has(&v.hidden_dirs, at("home/k/conf/gh")) ||
		strv_has(&v.hidden_files, at("home/k/conf/gh/hosts.yml")));
	CHECK(strv_has(&v.hidden_files, at("home/.netrc~")));
	CHECK(strv_has(&v.hidden_files, at("home/.netrc.swp")));
	CHECK(!strv_has(&v.hidden_files, at("home/notes~")));
	CHECK(strv_has(&v.hidden_files, at("home/proj/#.env#")));
	CHECK(!strv_has(&v.hidden_dirs, "/usr") && !strv_has(&v.hidden_dirs, at("home")));
	host_view_done(&v);
	tear_down();
}

static void our_own_records_are_hidden_wherever_they_are(void)
{
	struct host_view v = {0};

	set_up();
	put("elsewhere/runs/x/files/1", "of another run");
	CHECK(setenv("BAWN_STATE_DIR", at("elsewhere"), 1) == 0);
	build_default(&v);
	CHECK(unsetenv("BAWN_STATE_DIR") == 0);
	CHECK(strv_has(&v.hidden_dirs, at("elsewhere")));
	host_view_done(&v);
	tear_down();
}

static void nothing_is_made_when_nothing_appeared(void)
{
	struct host_view v = {0};

	set_up();
	build_default(&v);
	hold_back(&v);
	CHECK_INT(held_n, 0);
	CHECK(!is_there("state"));
	CHECK(!is_there("home/proj/.vscode"));
	host_view_done(&v);
	tear_down();
}

int main(void)
{
	RUN(secrets_of_the_home_are_hidden_and_tools_are_not);
	RUN(secrets_behind_a_directory_that_cannot_be_listed_are_hidden);
	RUN(a_history_that_is_a_link_to_a_device_hides_no_device);
	RUN(env_files_in_the_project_are_hidden_to_a_bounded_depth);
	RUN(what_the_user_names_is_shown_and_no_more);
	RUN(hide_takes_globs_and_absent_names);
	RUN(bad_rules_are_named);
	RUN(a_hidden_working_directory_is_refused_unless_named);
	RUN(nested_rules_go_to_the_most_specific);
	RUN(protected_names_are_split_into_present_and_absent);
	RUN(rules_of_the_home_reach_into_a_writable_part_of_it);
	RUN(copy_on_write_and_no_protect_guard_nothing);
	RUN(new_protected_names_are_moved_away);
	RUN(a_link_planted_on_the_way_is_moved_and_not_followed);
	RUN(a_replaced_link_is_put_back);
	RUN(a_new_repository_stays_without_what_git_would_run);
	RUN(a_planted_bare_repository_loses_its_config);
	RUN(a_new_module_of_an_old_repository_is_cleaned);
	RUN(hostile_kinds_under_protected_names_do_not_hang_or_escape);
	RUN(our_own_records_are_hidden_from_a_run_in_the_home);
	RUN(held_things_cross_file_systems);
	RUN(what_cannot_be_moved_is_renamed_where_it_is);
	RUN(a_git_file_whose_way_is_a_link_is_taken);
	RUN(a_repository_by_commondir_is_taken_apart);
	RUN(a_new_worktree_of_a_bare_repository_stays);
	RUN(repositories_far_down_and_among_dependencies_are_protected);
	RUN(what_is_planted_among_dependencies_is_taken);
	RUN(a_cut_search_is_told_and_moves_nothing_old);
	RUN(a_rebase_that_runs_a_command_is_taken_and_others_stay);
	RUN(a_link_in_the_place_of_the_hold_directory_is_not_followed);
	RUN(the_profile_of_a_run_is_read_only);
	RUN(secrets_named_in_the_environment_are_hidden);
	RUN(our_own_records_are_hidden_wherever_they_are);
	RUN(nothing_is_made_when_nothing_appeared);
	return tap_done();
}
