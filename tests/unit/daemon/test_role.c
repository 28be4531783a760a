/* SPDX-License-Identifier: Apache-2.0 */

/* The back-off of restarts, and lines of the log that nobody can forge. */
#include "daemon/log.h"
#include "daemon/role.h"
#include "tap.h"

#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

static void restarts_slow_down_to_a_limit(void)
{
	struct role_backoff b = {0};
	uint64_t last = 0;

	CHECK_INT(role_backoff_next(&b, 0, false), 50);
	CHECK_INT(role_backoff_next(&b, 0, false), 100);
	CHECK_INT(role_backoff_next(&b, 0, false), 200);
	for (int i = 0; i < 20; i++)
		last = role_backoff_next(&b, 0, false);
	CHECK_INT(last, 5000);
}

static void a_role_that_was_up_starts_from_the_beginning(void)
{
	struct role_backoff b = {.delay_ms = 3200};

	CHECK_INT(role_backoff_next(&b, 1000, false), 50);
	b.delay_ms = 3200;
	CHECK_INT(role_backoff_next(&b, 3, true), 50);
	CHECK_INT(role_backoff_next(&b, 3, false), 100);
}

/* What role_log() writes to standard error. */
static size_t logged(bool is_json, const char *value, char *out, size_t size)
{
	int ends[2], saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return 0;
	(void)dup2(ends[1], STDERR_FILENO);
	role_log_init("test", is_json);
	role_log(ROLE_LOG_WARN, "event", "left-out", (const char *)NULL, "key", value);
	(void)dup2(saved, STDERR_FILENO);
	(void)close(saved);
	(void)close(ends[1]);
	n = read(ends[0], out, size - 1);
	(void)close(ends[0]);
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static void a_value_stays_one_value(void)
{
	char text[8192];

	(void)logged(false, "plain", text, sizeof(text));
	CHECK(strstr(text, " level=warn role=test event=event key=plain\n") != NULL);
	(void)logged(false, "a b\n2026 level=error \"x\\", text, sizeof(text));
	CHECK(strstr(text, "key=\"a b\\u000a2026 level=error \\\"x\\\\\"\n") != NULL);
	CHECK(strchr(text, '\n') == text + strlen(text) - 1);
	(void)logged(false, "", text, sizeof(text));
	CHECK(strstr(text, "key=\"\"\n") != NULL);
}

static void a_json_line_is_json_however_long(void)
{
	char text[8192], value[6000];
	size_t n;
	json_t *j;

	memset(value, '"', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	n = logged(true, value, text, sizeof(text));
	CHECK(n <= 4096);
	j = json_loadb(text, n, 0, NULL);
	CHECK(json_is_object(j));
	CHECK_STR(json_string_value(json_object_get(j, "role")), "test");
	CHECK(json_object_get(j, "left-out") == NULL);
	json_decref(j);
	n = logged(true, "\xff\x1b[2J", text, sizeof(text));
	j = json_loadb(text, n, 0, NULL);
	CHECK(json_is_object(j));
	json_decref(j);
}

int main(void)
{
	RUN(restarts_slow_down_to_a_limit);
	RUN(a_role_that_was_up_starts_from_the_beginning);
	RUN(a_value_stays_one_value);
	RUN(a_json_line_is_json_however_long);
	return tap_done();
}
