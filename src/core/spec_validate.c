/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/spec_validate - the one gate: what no single setter can see.
 *
 * Sizes of the whole command, names, rules that contradict each other, walls
 * that lean on other walls. Pure; runs in any program, never blocks.
 */
#include "core/spec.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static const char *const mode_options[] = {
	[SPEC_PATH_RW] = "--rw",
	[SPEC_PATH_RO] = "--ro",
	[SPEC_PATH_HIDE] = "--hide",
};

static int check_command(const struct spec *s, struct err *err)
{
	size_t total = 0;

	if (s->argv.n == 0)
		return err_set(err, EINVAL,
			"no command given; write it after '--': "
			"bawn run [options] -- CMD [ARG...]");
	if (s->argv.v[0][0] == '\0')
		return err_set(err, EINVAL, "the command is an empty string");
	for (size_t i = 0; i < s->argv.n; i++) {
		size_t n = strlen(s->argv.v[i]);

		if (n > SPEC_ARG_MAX)
			return err_set(err, E2BIG,
				"argument %zu of the command is %zu bytes; one argument may have "
				"at most %d",
				i, n, SPEC_ARG_MAX);
		total += n + 1;
		if (total > SPEC_ARGS_MAX)
			return err_set(err, E2BIG,
				"argument %zu takes the command past %d bytes; all arguments and "
				"variables together may have at most that",
				i, SPEC_ARGS_MAX);
	}
	for (size_t i = 0; i < s->env.n; i++) {
		char quoted[64];

		total += strlen(s->env.v[i]) + 1;
		if (total > SPEC_ARGS_MAX)
			return err_set(err, E2BIG,
				"env '%s' takes arguments and variables past %d bytes, the most "
				"that is accepted",
				text_quote(s->env.v[i], quoted, sizeof(quoted)), SPEC_ARGS_MAX);
	}
	return 0;
}

static int check_pass_env(const struct spec *s, struct err *err)
{
	for (size_t i = 0; i < s->pass_env.n; i++) {
		const char *name = s->pass_env.v[i];
		const char *star = strchr(name, '*');
		char quoted[64];

		if (name[0] == '\0' || strchr(name, '=') || (star && star[1] != '\0'))
			return err_set(err, EINVAL,
				"pass-env '%s' is not a variable's name; accepted: NAME, or "
				"PREFIX*",
				text_quote(name, quoted, sizeof(quoted)));
	}
	return 0;
}

static int check_hostname(const char *name, struct err *err)
{
	size_t n = strlen(name);
	bool is_good = n <= 63 && name[0] != '-' && name[0] != '.' && name[n - 1] != '-';
	char quoted[64];

	for (size_t i = 0; i < n; i++)
		is_good = is_good &&
			  (isalnum((unsigned char)name[i]) || name[i] == '-' || name[i] == '.');
	if (!is_good)
		return err_set(err, EINVAL,
			"hostname '%s' is not accepted; accepted: 1 to 63 letters, digits, '-' "
			"and '.'",
			text_quote(name, quoted, sizeof(quoted)));
	return 0;
}

/* A box has ids 0 to 65535; 65534 is the kernel's overflow id and nobody's. */
static int check_user(const char *user, struct err *err)
{
	size_t n = strlen(user);
	bool is_good = n <= 32 && user[0] != '-';
	char quoted[64];
	uint64_t id;

	if (isdigit((unsigned char)user[0])) {
		struct err why = {0};

		is_good = text_parse_u64(user, "user", 0, 65533, &id, &why) >= 0;
	}
	for (size_t i = 0; i < n; i++)
		is_good = is_good && (isalnum((unsigned char)user[i]) || strchr("._-$", user[i]));
	if (!is_good)
		return err_set(err, EINVAL,
			"user '%s' is not accepted; accepted: a name, or a number from 0 to 65533",
			text_quote(user, quoted, sizeof(quoted)));
	return 0;
}

static int check_absolute(const char *what, const char *path, struct err *err)
{
	char quoted[64];

	if (path && path[0] != '/')
		return err_set(err, EINVAL, "%s '%s' is not an absolute path", what,
			text_quote(path, quoted, sizeof(quoted)));
	return 0;
}

static int check_path(const struct spec *s, size_t i, struct err *err)
{
	static const char *const own[] = {"/proc", "/sys", "/dev"};
	const struct spec_path *p = &s->paths[i];
	const char *option = mode_options[p->mode];
	char quoted[128];

	(void)text_quote(p->path, quoted, sizeof(quoted));
	if (strcmp(p->path, "/") == 0)
		return err_set(
			err, EINVAL, "%s '/' is not accepted; name the directories meant", option);
	for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++) {
		if (text_path_below(p->path, own[k]))
			return err_set(err, EINVAL,
				"%s '%s' is not accepted: every box has its own %s", option, quoted,
				own[k]);
	}
	for (size_t j = 0; j < i; j++) {
		const struct spec_path *q = &s->paths[j];

		if (q->mode != p->mode && strcmp(q->path, p->path) == 0)
			return err_set(err, EINVAL,
				"%s and %s both name '%s'; keep one of --rw, --ro, --hide",
				mode_options[q->mode], option, quoted);
	}
	return 0;
}

/* `wall` cannot stand without `base`: off by default, refused if somebody asked for it. */
static int lean(struct spec *s, enum wall wall, enum wall base, struct err *err)
{
	if (s->walls[base] != WALL_LEVEL_OFF || s->walls[wall] == WALL_LEVEL_OFF)
		return 0;
	if (s->walls_set[wall])
		return err_set(err, EINVAL, "wall '%s' cannot be %s while wall '%s' is off",
			wall_name(wall), wall_level_name(s->walls[wall]), wall_name(base));
	s->walls[wall] = WALL_LEVEL_OFF;
	return 0;
}

static int check_leaning(struct spec *s, struct err *err)
{
	static const enum wall pairs[][2] = {
		{WALL_IDS, WALL_USER},   /* an id range is a map of a user namespace */
		{WALL_ROOT, WALL_MOUNT}, /* pivot_root moves mounts of one mount namespace */
		{WALL_PROC, WALL_MOUNT}, {WALL_DEV, WALL_MOUNT}, {WALL_SYS, WALL_MOUNT},
		{WALL_PROC,
			WALL_PID}, /* a user namespace gets a fresh /proc for its own pids only */
		{WALL_DISK, WALL_MOUNT}, /* the cap is the size of tmpfs mounts */
		{WALL_MASKS, WALL_ROOT}, /* masks are mounts in the new root; after root itself */
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		int r = lean(s, pairs[i][0], pairs[i][1], err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* A limit's wall without a limit has nothing to enforce. */
static int check_limits(struct spec *s, struct err *err)
{
	const struct {
		enum wall wall;
		uint64_t limit;
		const char *option;
	} pairs[] = {
		{WALL_MEMORY, s->limits.memory_max, "--memory"},
		{WALL_CPU, s->limits.cpu_milli, "--cpus"},
		{WALL_PIDS, s->limits.pids_max, "--pids"},
		{WALL_IO, s->limits.io_bps, "--io"},
		{WALL_DISK, s->limits.disk_max, "--disk"},
		{WALL_TIME, s->limits.timeout_ms, "--timeout"},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		enum wall w = pairs[i].wall;

		if (pairs[i].limit != 0)
			continue;
		if (s->walls_set[w] && s->walls[w] == WALL_LEVEL_REQUIRED)
			return err_set(err, EINVAL,
				"wall '%s' is required but has no limit; give %s", wall_name(w),
				pairs[i].option);
		s->walls[w] = WALL_LEVEL_OFF;
	}
	return 0;
}

static int check_walls(struct spec *s, struct err *err)
{
	int r = check_leaning(s, err);

	if (r < 0)
		return r;
	/* With no_new_privs execve() ignores setuid bits, so sudo could only fail. */
	if (s->allow_sudo && s->walls_set[WALL_NNP] && s->walls[WALL_NNP] != WALL_LEVEL_OFF)
		return err_set(
			err, EINVAL, "--allow-sudo and wall 'nnp' exclude each other; keep one");
	if (s->allow_sudo)
		s->walls[WALL_NNP] = WALL_LEVEL_OFF;
	if (s->want_road && s->walls[WALL_NET] == WALL_LEVEL_OFF)
		return err_set(err, EINVAL,
			"a road out needs wall 'net': without it there is nothing to be led "
			"around");
	if (s->want_road && !s->want_loopback)
		return err_set(
			err, EINVAL, "a road out needs the loopback: leave out --no-loopback");
	if (s->cow && s->walls[WALL_ROOT] == WALL_LEVEL_OFF)
		return err_set(err, EINVAL, "--cow needs the walls 'mount' and 'root'");
	return check_limits(s, err);
}

int spec_validate(struct spec *s, struct err *err)
{
	int r = check_command(s, err);

	if (r >= 0)
		r = check_pass_env(s, err);
	if (r >= 0 && s->hostname)
		r = check_hostname(s->hostname, err);
	if (r >= 0 && s->user)
		r = check_user(s->user, err);
	if (r >= 0)
		r = check_absolute("cwd", s->cwd, err);
	if (r >= 0)
		r = check_absolute("work_dir", s->work_dir, err);
	if (r >= 0)
		r = check_absolute("ca_dir", s->ca_dir, err);
	for (size_t i = 0; r >= 0 && i < s->paths_n; i++)
		r = check_path(s, i, err);
	if (r >= 0 && s->cow && !s->work_dir)
		r = err_set(err, EINVAL,
			"--cow needs a working directory to share; start it in "
			"the project's directory");
	return r < 0 ? r : check_walls(s, err);
}
