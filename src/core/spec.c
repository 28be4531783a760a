/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/spec - defaults of a sandbox and the setters that fill it.
 *
 * Each setter checks its own value; what concerns several fields is
 * spec_validate()'s. Pure; runs in any program, never blocks.
 */
#include "core/spec.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

#define STRING_MAX 4095 /* PATH_MAX - 1: the longest string field is a path */

void spec_init(struct spec *s)
{
	*s = (struct spec){
		.root = SPEC_ROOT_HOST,
		.want_loopback = true,
		.limits =
			{
				.memory_max = 4 * GIB,
				.pids_max = 4096,
				.disk_max = 1 * GIB,
				.kill_after_ms = 5000,
				.open_files = 65536,
			},
	};
	for (size_t w = 0; w < WALL_COUNT; w++)
		s->walls[w] = WALL_LEVEL_REQUIRED;
	/* Nobody asked for these limits: a machine that cannot give them still runs commands. */
	s->walls[WALL_MEMORY] = WALL_LEVEL_PREFERRED;
	s->walls[WALL_PIDS] = WALL_LEVEL_PREFERRED;
	s->walls[WALL_DISK] = WALL_LEVEL_PREFERRED;
	s->walls[WALL_CPU] = WALL_LEVEL_OFF;
	s->walls[WALL_IO] = WALL_LEVEL_OFF;
	s->walls[WALL_TIME] = WALL_LEVEL_OFF;
}

void spec_done(struct spec *s)
{
	free(s->cwd);
	free(s->work_dir);
	free(s->user);
	free(s->hostname);
	free(s->ca_dir);
	free(s->profile);
	strv_done(&s->policy);
	strv_done(&s->argv);
	strv_done(&s->env);
	strv_done(&s->pass_env);
	for (size_t i = 0; i < s->paths_n; i++)
		free(s->paths[i].path);
	free(s->paths);
	*s = (struct spec){0};
}

int spec_add_path(struct spec *s, enum spec_path_mode mode, const char *path, const char *cwd,
	struct err *err)
{
	AUTO_FREE char *clean = NULL;
	int r;

	if (s->paths_n >= SPEC_PATHS_MAX)
		return err_set(err, E2BIG, "more than %d path rules (rw, ro and hide together)",
			SPEC_PATHS_MAX);
	r = text_path_clean(path, cwd, &clean, err);
	if (r < 0)
		return r;
	if (!s->paths)
		s->paths = (struct spec_path *)mem_must(
			calloc(SPEC_PATHS_MAX, sizeof(struct spec_path)));
	s->paths[s->paths_n++] = (struct spec_path){.path = TAKE_PTR(clean), .mode = mode};
	return 0;
}

int spec_add_user_path(struct spec *s, enum spec_path_mode mode, const char *path, const char *cwd,
	const char *home, struct err *err)
{
	bool is_home = strcmp(path, "~") == 0 || text_starts(path, "~/");

	if (!is_home)
		return spec_add_path(s, mode, path, cwd, err);
	if (!home || home[0] != '/')
		return err_set(err, EINVAL, "'~' has no meaning here: HOME is not set");
	/* "~//etc" is below home too: what follows must not look absolute. */
	while (*++path == '/')
		;
	return spec_add_path(s, mode, *path ? path : ".", home, err);
}

void spec_override_paths(struct spec *s, size_t first)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->paths_n; i++) {
		bool is_replaced = false;

		for (size_t j = first; i < first && j < s->paths_n; j++)
			is_replaced =
				is_replaced || strcmp(s->paths[i].path, s->paths[j].path) == 0;
		if (is_replaced)
			free(s->paths[i].path);
		else
			s->paths[kept++] = s->paths[i];
		/* `first` counts entries not yet moved, so it stays valid: kept <= i. */
	}
	s->paths_n = kept;
}

int spec_set_wall(struct spec *s, const char *assignment, struct err *err)
{
	AUTO_FREE char *name = NULL;
	const char *eq = strchr(assignment, '=');
	enum wall_level level;
	enum wall wall;
	char quoted[64];
	int r;

	if (!eq)
		return err_set(err, EINVAL,
			"'%s' is not NAME=LEVEL; accepted levels: required, preferred, off",
			text_quote(assignment, quoted, sizeof(quoted)));
	name = (char *)mem_must(strndup(assignment, (size_t)(eq - assignment)));
	r = wall_parse(name, &wall, err);
	if (r < 0)
		return r;
	r = wall_level_parse(eq + 1, &level, err);
	if (r < 0)
		return r;
	s->walls[wall] = level;
	s->walls_set[wall] = true;
	return 0;
}

int spec_set_root(struct spec *s, const char *value, struct err *err)
{
	char quoted[64];

	if (strcmp(value, "host") == 0)
		s->root = SPEC_ROOT_HOST;
	else if (strcmp(value, "base") == 0)
		s->root = SPEC_ROOT_BASE;
	else
		return err_set(err, EINVAL, "'%s' is not a root; accepted: host, base",
			text_quote(value, quoted, sizeof(quoted)));
	return 0;
}

int spec_check_net(const char *value, struct err *err)
{
	char quoted[64];

	if (strcmp(value, "none") != 0)
		return err_set(err, EINVAL,
			"'%s' is not a network yet: roads out come with a later release; accepted: "
			"none",
			text_quote(value, quoted, sizeof(quoted)));
	return 0;
}

int spec_set_string(char **field, const char *what, const char *value, struct err *err)
{
	if (value[0] == '\0')
		return err_set(err, EINVAL, "%s must not be empty", what);
	if (strlen(value) > STRING_MAX)
		return err_set(err, ENAMETOOLONG, "%s is %zu bytes; at most %d are accepted", what,
			strlen(value), STRING_MAX);
	free(*field);
	*field = mem_strdup(value);
	return 0;
}

int spec_add_env(struct spec *s, const char *assignment, struct err *err)
{
	const char *eq = strchr(assignment, '=');
	char quoted[64];
	size_t key_size;

	if (!eq || eq == assignment)
		return err_set(err, EINVAL,
			"'%s' is not NAME=VALUE; to copy a variable of yours "
			"use --pass-env NAME",
			text_quote(assignment, quoted, sizeof(quoted)));
	if (strlen(assignment) > SPEC_ARG_MAX)
		return err_set(err, E2BIG, "'%s' is %zu bytes; one variable may have at most %d",
			text_quote(assignment, quoted, sizeof(quoted)), strlen(assignment),
			SPEC_ARG_MAX);
	key_size = (size_t)(eq - assignment) + 1;
	for (size_t i = 0; i < s->env.n; i++) {
		if (strncmp(s->env.v[i], assignment, key_size) == 0) {
			free(s->env.v[i]);
			s->env.v[i] = mem_strdup(assignment);
			return 0;
		}
	}
	return strv_add(&s->env, assignment, err);
}
