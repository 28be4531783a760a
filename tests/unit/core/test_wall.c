/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/wall: every wall has its texts, and a wrong name is answered with the right one.
 */
#include "core/wall.h"

#include "tap.h"

#include <errno.h>

static void every_wall_has_name_purpose_and_remedy(void)
{
	for (int i = 0; i < WALL_COUNT; i++) {
		enum wall w = (enum wall)i;

		CHECK(wall_name(w) && wall_name(w)[0]);
		CHECK(wall_about(w) && wall_about(w)[0]);
		CHECK(wall_remedy(w) && wall_remedy(w)[0]);
	}
}

static void every_name_parses_to_its_own_wall(void)
{
	struct err err = {0};

	for (int i = 0; i < WALL_COUNT; i++) {
		enum wall w = WALL_COUNT;

		CHECK_INT(wall_parse(wall_name((enum wall)i), &w, &err), 0);
		CHECK_INT(w, i);
	}
}

static void a_misspelt_wall_is_answered_with_the_closest(void)
{
	enum wall w = WALL_COUNT;
	struct err err = {0};

	CHECK_INT(wall_parse("secomp", &w, &err), -EINVAL);
	CHECK(strstr(err.msg, "did you mean 'seccomp'?") != NULL);
	CHECK_INT(w, WALL_COUNT);
}

static void an_unknown_wall_is_answered_with_the_whole_list(void)
{
	enum wall w = WALL_COUNT;
	struct err err = {0};

	CHECK_INT(wall_parse("quite-something-else", &w, &err), -EINVAL);
	CHECK(strstr(err.msg, "accepted: user ids mount") != NULL);
	CHECK(strstr(err.msg, " tty time") != NULL); /* not cut */
}

static void a_hostile_name_is_quoted(void)
{
	enum wall w = WALL_COUNT;
	struct err err = {0};

	CHECK_INT(wall_parse("\033[2J", &w, &err), -EINVAL);
	CHECK(strchr(err.msg, '\033') == NULL);
}

static void levels_parse_and_print(void)
{
	enum wall_level l = WALL_LEVEL_OFF;
	struct err err = {0};

	CHECK_INT(wall_level_parse("required", &l, &err), 0);
	CHECK_INT(l, WALL_LEVEL_REQUIRED);
	CHECK_INT(wall_level_parse("on", &l, &err), -EINVAL);
	CHECK(strstr(err.msg, "accepted: required, preferred, off") != NULL);
	CHECK_INT(l, WALL_LEVEL_REQUIRED);
	CHECK_STR(wall_level_name(WALL_LEVEL_PREFERRED), "preferred");
	CHECK_STR(wall_verdict_name(WALL_VERDICT_FALLBACK), "fallback");
}

int main(void)
{
	RUN(every_wall_has_name_purpose_and_remedy);
	RUN(every_name_parses_to_its_own_wall);
	RUN(a_misspelt_wall_is_answered_with_the_closest);
	RUN(an_unknown_wall_is_answered_with_the_whole_list);
	RUN(a_hostile_name_is_quoted);
	RUN(levels_parse_and_print);
	return tap_done();
}
