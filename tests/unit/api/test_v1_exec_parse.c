/* SPDX-License-Identifier: Apache-2.0 */

#include "api/v1/exec.h"
#include "tap.h"

static int parse(const char *text, struct guest_start *s, char **kept, struct err *err)
{
	json_t *body = json_loads(text, 0, NULL);
	int r;

	CHECK(body != NULL);
	r = exec_parse(body, s, kept, err);
	json_decref(body);
	return r;
}

static void a_request_becomes_a_start(void)
{
	struct guest_start s = {0};
	struct err err = {0};
	AUTO_FREE char *kept = NULL;

	CHECK_INT(parse("{\"argv\":[\"ls\",\"-l\"],\"env\":{\"A\":\"b\"},\"cwd\":\"/tmp\","
			"\"user\":\"root\",\"stdin\":true,\"timeout_ms\":5,"
			"\"pty\":{\"cols\":100},\"limits\":{\"open_files\":7}}",
			  &s, &kept, &err),
		0);
	CHECK_STR(s.argv[1], "-l");
	CHECK(s.argv[2] == NULL);
	CHECK_STR(s.env[0], "A=b");
	CHECK_STR(s.cwd, "/tmp");
	CHECK_STR(s.user, "root");
	CHECK_INT(s.flags, GUEST_START_PTY | GUEST_START_STDIN);
	CHECK(s.cols == 100 && s.rows == 24 && s.timeout_ms == 5 && s.open_files == 7);
	guest_start_done(&s);
}

static void a_command_is_for_the_shell(void)
{
	struct guest_start s = {0};
	struct err err = {0};
	AUTO_FREE char *kept = NULL;

	CHECK_INT(parse("{\"command\":\"echo $X\"}", &s, &kept, &err), 0);
	CHECK_STR(s.argv[0], "/bin/bash");
	CHECK_STR(s.argv[3], "echo $X");
	guest_start_done(&s);
}

/* Who waits how is no part of what is run; everything else is. */
static void the_digest_tells_requests_apart(void)
{
	static const struct {
		const char *a, *b;
		bool is_same;
	} cases[] = {
		{"{\"command\":\"x\"}", "{\"command\":\"x\",\"background\":true}", true},
		{"{\"command\":\"x\",\"cwd\":\"/\"}", "{\"cwd\":\"/\",\"command\":\"x\"}", true},
		{"{\"command\":\"x\"}", "{\"command\":\"y\"}", false},
		{"{\"command\":\"x\",\"env\":{\"A\":\"1\"}}",
			"{\"command\":\"x\",\"env\":{\"A\":\"2\"}}", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct guest_start a = {0}, b = {0};
		struct err err = {0};
		AUTO_FREE char *x = NULL;
		AUTO_FREE char *y = NULL;

		CHECK_INT(parse(cases[i].a, &a, &x, &err), 0);
		CHECK_INT(parse(cases[i].b, &b, &y, &err), 0);
		CHECK((strcmp(x, y) == 0) == cases[i].is_same);
		guest_start_done(&a);
		guest_start_done(&b);
	}
}

static void secrets_of_the_environment_are_not_kept(void)
{
	struct guest_start s = {0};
	struct err err = {0};
	AUTO_FREE char *kept = NULL;

	CHECK_INT(parse("{\"command\":\"x\",\"env\":{\"TOKEN\":\"hunter2\"}}", &s, &kept, &err), 0);
	CHECK(strstr(kept, "hunter2") == NULL);
	CHECK(strstr(kept, "digest") != NULL);
	guest_start_done(&s);
}

static void bad_requests_name_their_field(void)
{
	static const struct {
		const char *body, *word;
	} cases[] = {
		{"{}", "argv"},
		{"{\"argv\":[]}", "argv"},
		{"{\"argv\":[\"a\"],\"command\":\"b\"}", "either"},
		{"{\"argv\":[\"a\"],\"env\":{\"\":\"x\"}}", "env"},
		{"{\"argv\":[\"a\"],\"env\":{\"A=\":\"x\"}}", "env"},
		{"{\"argv\":[\"a\"],\"pty\":true}", "pty"},
		{"{\"argv\":[\"a\"],\"pty\":{\"rows\":99999}}", "rows"},
		{"{\"argv\":[\"a\"],\"commnd\":\"b\"}", "commnd"},
		{"{\"argv\":[\"a\"],\"timeout_ms\":1.5}", "timeout_ms"},
		{"{\"argv\":[\"a\"],\"limits\":{\"x\":1}}", "x"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct guest_start s = {0};
		struct err err = {0};
		char *kept = NULL;

		CHECK_INT(parse(cases[i].body, &s, &kept, &err), -EINVAL);
		if (!CHECK(strstr(err.msg, cases[i].word) != NULL))
			tap_print("# %s: %s\n", cases[i].body, err.msg);
		CHECK(kept == NULL);
		guest_start_done(&s);
	}
}

int main(void)
{
	RUN(a_request_becomes_a_start);
	RUN(a_command_is_for_the_shell);
	RUN(the_digest_tells_requests_apart);
	RUN(secrets_of_the_environment_are_not_kept);
	RUN(bad_requests_name_their_field);
	return tap_done();
}
