/* SPDX-License-Identifier: Apache-2.0 */

#include "core/placeholder.h"

#include "tap.h"

static char host_a[] = "git.example.com", host_b[] = "*.example.net", host_c[] = "api.example.com";

static void names_are_words(void)
{
	CHECK(placeholder_is_name("OPENAI_API_KEY"));
	CHECK(placeholder_is_name("a"));
	CHECK(placeholder_is_name("git.example-1"));
	CHECK(!placeholder_is_name(""));
	CHECK(!placeholder_is_name("_x"));
	CHECK(!placeholder_is_name("x."));
	CHECK(!placeholder_is_name("../etc"));
	CHECK(!placeholder_is_name("a/b"));
	CHECK(!placeholder_is_name("a b"));
	CHECK(!placeholder_is_name(
		"0123456789012345678901234567890123456789012345678901234567890123"));
}

/* Files and programs in boxes hold it: it may never change. */
static void it_is_the_same_for_ever(void)
{
	char a[PLACEHOLDER_LEN + 1], b[PLACEHOLDER_LEN + 1];

	placeholder_make("", "OPENAI_API_KEY", a);
	CHECK_STR(a, "bawn-ph-dfa90090bde58b69e707bbac84845f0958e487b8");
	CHECK_INT(strlen(a), PLACEHOLDER_LEN);
	placeholder_make("tenant", "OPENAI_API_KEY", b);
	CHECK(strcmp(a, b) != 0);
	placeholder_make("a", "bc", a);
	placeholder_make("ab", "c", b);
	CHECK(strcmp(a, b) != 0);
}

static bool all_but_gone(const char *secret, void *arg)
{
	(void)arg;
	return strcmp(secret, "gone") != 0;
}

static void a_box_finds_variables_and_files(void)
{
	static char key[] = "KEY", gone[] = "gone", pair[] = "pair", git[] = "git",
		    token[] = "token";
	static char env[] = "OPENAI_API_KEY", aws[] = "AWS", bot[] = "bot", none[] = "";
	static char netrc[] = "~/.netrc", store[] = "~/.git-credentials", file[] = "/run/token";
	static char *hosts[] = {host_a, host_b, NULL}, *other[] = {host_c, NULL};
	struct policy_binding all[] = {
		{.secret = key, .place = POLICY_HEADER, .field = none, .env = env},
		{.secret = gone, .place = POLICY_HEADER, .field = none, .env = gone, .file = file},
		{.secret = pair, .place = POLICY_SIGV4, .field = none, .env = aws},
		{.secret = git,
			.place = POLICY_BASIC,
			.field = bot,
			.file = netrc,
			.hosts = {hosts, 2}},
		{.secret = token,
			.place = POLICY_BASIC,
			.field = none,
			.file = netrc,
			.hosts = {other, 1}},
		{.secret = git,
			.place = POLICY_BASIC,
			.field = bot,
			.file = store,
			.hosts = {hosts, 2}},
		{.secret = token, .place = POLICY_HEADER, .field = none, .file = file, .env = env},
	};
	struct policy p = {.bindings = all, .bindings_n = sizeof(all) / sizeof(all[0])};
	struct placeholder_files files = {0};
	struct strv vars = {0};
	struct err err = {0};
	char k[PLACEHOLDER_LEN + 1], g[PLACEHOLDER_LEN + 1], t[PLACEHOLDER_LEN + 1];
	AUTO_FREE char *want = NULL;

	placeholder_make("me", "KEY", k);
	placeholder_make("me", "git", g);
	placeholder_make("me", "token", t);
	CHECK_INT(placeholder_for_box(&p, "me", all_but_gone, NULL, &vars, &files, &err), 0);
	CHECK_INT(vars.n, 6);
	want = text_format("OPENAI_API_KEY=%s", k);
	CHECK(strv_has(&vars, want)); /* the first that names it */
	CHECK(text_starts(vars.v[1], "AWS_ACCESS_KEY_ID=bawn-ph-"));
	CHECK(text_starts(vars.v[2], "AWS_SECRET_ACCESS_KEY=bawn-ph-"));
	CHECK_STR(vars.v[3], "GIT_CONFIG_KEY_0=credential.https://git.example.com.helper");
	free(want);
	want = text_format("GIT_CONFIG_VALUE_0=!printf 'username=bot\\npassword=%s\\n' #", g);
	CHECK_STR(vars.v[4], want);
	CHECK_STR(vars.v[5], "GIT_CONFIG_COUNT=1");
	CHECK_INT(files.n, 3);
	free(want);
	want = text_format("machine git.example.com login bot password %s\n"
			   "machine api.example.com login bawn password %s\n",
		g, t);
	CHECK_STR(files.v[0].path, "~/.netrc");
	CHECK_STR(files.v[0].text, want);
	free(want);
	want = text_format("https://bot:%s@git.example.com\n", g);
	CHECK_STR(files.v[1].text, want);
	free(want);
	want = text_format("%s\n", t);
	CHECK_STR(files.v[2].path, "/run/token");
	CHECK_STR(files.v[2].text, want);
	strv_done(&vars);
	placeholder_files_done(&files);
}

int main(void)
{
	RUN(names_are_words);
	RUN(it_is_the_same_for_ever);
	RUN(a_box_finds_variables_and_files);
	return tap_done();
}
