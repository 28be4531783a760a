/* SPDX-License-Identifier: Apache-2.0 */

#include "base/text.h"
#include "core/masks.h"
#include "core/state_dir.h"
#include "tap.h"

#include <errno.h>

static bool safe(const char *text)
{
	return masks_git_config_is_safe(text, strlen(text), 0);
}

static void env_files_are_known_and_their_templates_are_not_secret(void)
{
	CHECK(masks_is_env_file(".env"));
	CHECK(masks_is_env_file(".env.local"));
	CHECK(masks_is_env_file(".env.production.local"));
	CHECK(masks_is_env_file(".env-prod"));
	CHECK(masks_is_env_file(".env_prod"));
	CHECK(masks_is_env_file(".envrc"));
	CHECK(!masks_is_env_file(".env.example"));
	CHECK(!masks_is_env_file(".env.local.example"));
	CHECK(!masks_is_env_file(".env.sample"));
	CHECK(!masks_is_env_file(".env.template"));
	CHECK(!masks_is_env_file(".env.dist"));
	CHECK(!masks_is_env_file(".environment"));
	CHECK(!masks_is_env_file("env"));
	CHECK(!masks_is_env_file("my.env"));
}

static void every_entry_of_the_tables_is_well_formed(void)
{
	for (size_t i = 0; i < masks_hidden_n; i++) {
		const struct mask_hidden *m = &masks_hidden[i];

		CHECK((m->base == MASK_SYSTEM) == (m->pattern[0] == '/'));
		CHECK(m->pattern[strlen(m->pattern) - 1] != '/');
		CHECK(!strstr(m->pattern, "..") && !strstr(m->pattern, "//"));
		CHECK(m->why[0] != '\0');
		for (size_t k = 0; k < i; k++)
			if (!CHECK(strcmp(masks_hidden[k].pattern, m->pattern) != 0))
				tap_print("# twice: %s\n", m->pattern);
	}
	for (size_t i = 0; i < masks_protected_n; i++) {
		const struct mask_protected *m = &masks_protected[i];

		CHECK(m->path[0] != '/' && !strpbrk(m->path, "*?["));
		CHECK(m->why[0] != '\0');
		for (size_t k = 0; k < i; k++)
			if (!CHECK(strcmp(masks_protected[k].path, m->path) != 0))
				tap_print("# twice: %s\n", m->path);
	}
}

/* The names the project promises in the first place; a table edit must not lose one. */
static void promised_secrets_are_in_the_table(void)
{
	static const char *const promised[] = {".ssh", ".aws", ".config/gcloud", ".azure", ".gnupg",
		".kube", ".docker", ".mozilla", ".config/google-chrome*", ".password-store",
		".*_history", ".netrc", ".npmrc", ".pypirc", ".local/share/keyrings",
		".claude/.credentials.json", ".codex/auth.json", "/run", "/etc/shadow*"};

	for (size_t i = 0; i < sizeof(promised) / sizeof(promised[0]); i++) {
		bool is_there = false;

		for (size_t k = 0; k < masks_hidden_n; k++)
			is_there |= strcmp(masks_hidden[k].pattern, promised[i]) == 0;
		if (!CHECK(is_there))
			tap_print("# missing: %s\n", promised[i]);
	}
}

static void protected_names_are_protected_where_they_count(void)
{
	CHECK(masks_why_protected(".git/hooks/pre-commit") != NULL);
	CHECK(masks_why_protected(".git/hooks") != NULL);
	CHECK(masks_why_protected(".git/config") != NULL);
	CHECK(masks_why_protected(".git/commondir") != NULL);
	CHECK(masks_why_protected("a/b/.git/config") != NULL);
	CHECK(masks_why_protected(".git/modules/x/config") != NULL);
	CHECK(masks_why_protected(".git/modules/x/y/hooks/post-checkout") != NULL);
	CHECK(masks_why_protected(".git/worktrees/w/config.worktree") != NULL);
	CHECK(masks_why_protected(".git") != NULL); /* as a file it names another directory */
	CHECK(masks_why_protected(".git/refs/heads/config") == NULL);
	CHECK(masks_why_protected(".git/objects/ab/cd") == NULL);
	CHECK(masks_why_protected(".git/HEAD") == NULL);
	CHECK(masks_why_protected(".bashrc") != NULL);
	CHECK(masks_why_protected("skel/.bashrc") == NULL); /* only a home's is run */
	CHECK(masks_why_protected(".vscode/tasks.json") != NULL);
	CHECK(masks_why_protected("packages/a/.vscode/tasks.json") != NULL);
	CHECK(masks_why_protected(".vscodeium") == NULL);
	CHECK(masks_why_protected("src/main.c") == NULL);
	CHECK(masks_why_protected("CLAUDE.md") == NULL);
	CHECK(masks_why_protected("config") == NULL);
	CHECK(masks_why_protected("hooks/x") == NULL);
}

static void only_sample_hooks_are_harmless(void)
{
	CHECK(masks_is_sample_hook(".git/hooks/pre-commit.sample"));
	CHECK(masks_is_sample_hook("/x/.git/hooks/a.sample"));
	CHECK(!masks_is_sample_hook(".git/hooks/pre-commit"));
	CHECK(!masks_is_sample_hook(".git/hooks/d/x.sample"));
	CHECK(!masks_is_sample_hook("a.sample"));
}

static void configs_that_git_itself_writes_are_safe(void)
{
	CHECK(safe(""));
	CHECK(safe("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
		   "\tlogallrefupdates = true\n"));
	CHECK(safe("[remote \"origin\"]\n\turl = https://example.org/a.git\n"
		   "\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n"
		   "\tremote = origin\n\tmerge = refs/heads/main\n"));
	CHECK(safe("[remote \"o\"]\n\turl = https://[2001:db8::1]/a.git\n"));
	CHECK(safe("[remote \"o\"]\n\turl = git@example.org:a/b.git\n"));
	CHECK(safe("# comment\n; another\n[user]\n\tname = A B\n\temail = a@b\n"));
	CHECK(safe("[extensions]\n\tobjectformat = sha256\n"));
	CHECK(safe("[core]\r\n\tbare = false\r\n"));
}

static void configs_that_run_programs_are_not_safe(void)
{
	CHECK(!safe("[core]\n\tfsmonitor = ./evil\n"));
	CHECK(!safe("[CORE]\n\tFsMonitor = ./evil\n"));
	CHECK(!safe("[core]\n\thooksPath = .h\n"));
	CHECK(!safe("[core]\n\tpager = sh\n"));
	CHECK(!safe("[core]\n\tsshCommand = sh\n"));
	CHECK(!safe("[core]\n\tworktree = ../..\n"));
	CHECK(!safe("[alias]\n\tst = !sh\n"));
	CHECK(!safe("[include]\n\tpath = ../evil\n"));
	CHECK(!safe("[includeIf \"gitdir:/\"]\n\tpath = ../evil\n"));
	CHECK(!safe("[filter \"x\"]\n\tsmudge = sh\n"));
	CHECK(!safe("[init]\n\ttemplatedir = x\n"));
	CHECK(!safe("[remote \"o\"]\n\tuploadpack = sh\n"));
	CHECK(!safe("[remote \"o\"]\n\tvcs = evil\n"));
	CHECK(!safe("[remote \"o\"]\n\turl = ext::sh -c x\n"));
	CHECK(!safe("[remote \"o\"]\n\turl = EXT::sh -c x\n"));
	CHECK(!safe("[remote \"o\"]\n\turl = \"ext::sh -c x\"\n"));
	CHECK(!safe("[remote \"o\"]\n\turl = e\"xt\"::sh -c x\n"));
	CHECK(!safe("[remote \"o\"]\n\turl = --upload-pack=sh\n"));
	CHECK(!safe("[branch \"m\"]\n\tmergeoptions = -s evil\n"));
	CHECK(!safe("[submodule \"s\"]\n\tupdate = !sh\n"));
	CHECK(!safe("[user]\n\tsigningkey = x\n"));
	CHECK(!safe("[credential]\n\thelper = !sh\n"));
	CHECK(!safe("[protocol \"ext\"]\n\tallow = always\n"));
}

/* Each of these is read by git as fsmonitor and by a sloppy parser as something harmless. */
static void tricks_of_syntax_are_not_safe(void)
{
	CHECK(!safe("[core] fsmonitor = x\n"));
	CHECK(!safe("[core]fsmonitor=x\n"));
	CHECK(!safe("[user]\n\tname = a\\\n[core]\n"));
	CHECK(!safe("[user \"a\\\"]\n[core]\n\tfsmonitor = x"));
	CHECK(!safe("[core \"\"]\n\tfsmonitor = x\n"));
	CHECK(!safe("[core.x]\n\tbare = true\n"));
	CHECK(!safe("bare = true\n"));
	CHECK(!safe("\xef\xbb\xbf[core]\n\tfsmonitor = x\n"));
	CHECK(!masks_git_config_is_safe("[core]\n\0fsmonitor = x\n", 22, 0));
	CHECK(!safe("[core\n\tfsmonitor = x\n"));
}

static void a_submodule_may_name_its_worktree(void)
{
	const char *up = "[core]\n\tworktree = ../../../sub\n";
	const char *away = "[core]\n\tworktree = /home/user\n";

	CHECK(!safe(up));
	CHECK(masks_git_config_is_safe(up, strlen(up), MASKS_GIT_MODULE));
	CHECK(!masks_git_config_is_safe(away, strlen(away), MASKS_GIT_MODULE));
}

static void state_goes_where_the_caller_may_write(void)
{
	struct state_dir_env root = {.is_root = true, .home = "/root"};
	struct state_dir_env user = {.home = "/home/u"};
	struct state_dir_env xdg = {.home = "/home/u", .xdg = "/x/state"};
	struct state_dir_env odd = {.home = "/home/u", .xdg = "relative"};
	struct state_dir_env given = {.is_root = true, .override = "/t//state/"};
	struct state_dir_env wrong = {.override = "state"};
	struct state_dir_env none = {0};
	const struct {
		const struct state_dir_env *env;
		const char *want;
	} cases[] = {{&root, "/var/lib/bawn"}, {&user, "/home/u/.local/state/bawn"},
		{&xdg, "/x/state/bawn"}, {&odd, "/home/u/.local/state/bawn"}, {&given, "/t/state"}};
	struct err err = {0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		AUTO_FREE char *dir = NULL;

		CHECK(state_dir_choose(cases[i].env, &dir, &err) == 0);
		CHECK_STR(dir, cases[i].want);
	}
	CHECK_INT(state_dir_choose(&wrong, &(char *){NULL}, &err), -EINVAL);
	CHECK_INT(state_dir_choose(&none, &(char *){NULL}, &err), -ENOENT);
}

int main(void)
{
	RUN(env_files_are_known_and_their_templates_are_not_secret);
	RUN(every_entry_of_the_tables_is_well_formed);
	RUN(promised_secrets_are_in_the_table);
	RUN(protected_names_are_protected_where_they_count);
	RUN(only_sample_hooks_are_harmless);
	RUN(configs_that_git_itself_writes_are_safe);
	RUN(configs_that_run_programs_are_not_safe);
	RUN(tricks_of_syntax_are_not_safe);
	RUN(a_submodule_may_name_its_worktree);
	RUN(state_goes_where_the_caller_may_write);
	return tap_done();
}
