/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The body of POST …/exec: what to run. Pure.
 *
 * What is kept of it in the store shows who ran what; the environment, where secrets live, is
 * there as part of a digest only.
 */
#include "api/v1/exec.h"
#include "base/mem.h"
#include "base/text.h"

#include <openssl/sha.h>
#include <string.h>

static int check_argv(json_t *v, struct err *err)
{
	json_t *one;
	size_t i;

	if (!json_is_array(v) || json_array_size(v) == 0)
		return err_set(err, EINVAL, "'argv' must be an array of strings, not empty");
	if (json_array_size(v) > GUEST_ARGS_MAX)
		return err_set(err, EINVAL, "'argv' has more than %d entries", GUEST_ARGS_MAX);
	json_array_foreach(v, i, one)
	{
		if (!json_is_string(one))
			return err_set(err, EINVAL, "'argv' must be an array of strings");
	}
	return 0;
}

static char **copy_argv(json_t *v)
{
	size_t n = json_array_size(v);
	char **argv = mem_must(calloc(n + 1, sizeof(*argv)));

	for (size_t i = 0; i < n; i++)
		argv[i] = mem_strdup(json_string_value(json_array_get(v, i)));
	return argv;
}

static char **shell_argv(const char *command)
{
	char **argv = mem_must(calloc(5, sizeof(*argv)));

	argv[0] = mem_strdup("/bin/bash");
	argv[1] = mem_strdup("-l");
	argv[2] = mem_strdup("-c");
	argv[3] = mem_strdup(command);
	return argv;
}

static int parse_argv(json_t *body, struct guest_start *s, struct err *err)
{
	json_t *argv = json_object_get(body, "argv");
	const char *command = NULL;
	int r = v1_get_string(body, "command", GUEST_STRING_MAX, &command, err);

	if (r < 0)
		return r;
	if (!argv == !command)
		return err_set(err, EINVAL, "either 'argv' or 'command' says what to run");
	if (command) {
		s->argv = shell_argv(command);
		return 0;
	}
	r = check_argv(argv, err);
	if (r == 0)
		s->argv = copy_argv(argv);
	return r;
}

static int parse_env(json_t *body, struct guest_start *s, struct err *err)
{
	json_t *env = NULL, *v;
	const char *key;
	size_t i = 0;
	int r = v1_get_strings(body, "env", &env, err);

	if (r < 0)
		return r;
	if (json_object_size(env) > GUEST_ARGS_MAX)
		return err_set(err, EINVAL, "'env' has more than %d entries", GUEST_ARGS_MAX);
	s->env = mem_must(calloc(json_object_size(env) + 1, sizeof(*s->env)));
	json_object_foreach(env, key, v)
	{
		if (!*key || strchr(key, '='))
			return err_set(err, EINVAL, "'env': a name is empty or holds '='");
		s->env[i++] = text_format("%s=%s", key, json_string_value(v));
	}
	return 0;
}

static int parse_pty(json_t *body, struct guest_start *s, struct err *err)
{
	static const char *const names[] = {"cols", "rows", NULL};
	json_t *pty = NULL;
	uint64_t cols = 80, rows = 24;
	int r = v1_get_object(body, "pty", &pty, err);

	if (r < 0 || !pty)
		return r;
	r = v1_fields(pty, names, err);
	if (r == 0)
		r = v1_get_u64(pty, "cols", 4096, &cols, err);
	if (r == 0)
		r = v1_get_u64(pty, "rows", 4096, &rows, err);
	s->flags |= GUEST_START_PTY;
	s->cols = (uint16_t)cols;
	s->rows = (uint16_t)rows;
	return r;
}

static int parse_limits(json_t *body, struct guest_start *s, struct err *err)
{
	static const char *const names[] = {"memory_bytes", "open_files", "processes", NULL};
	json_t *limits = NULL;
	uint64_t files = 0, processes = 0;
	int r = v1_get_object(body, "limits", &limits, err);

	if (r < 0 || !limits)
		return r;
	r = v1_fields(limits, names, err);
	if (r == 0)
		r = v1_get_u64(limits, "memory_bytes", 1ull << 44, &s->memory_max, err);
	if (r == 0)
		r = v1_get_u64(limits, "open_files", 1u << 20, &files, err);
	if (r == 0)
		r = v1_get_u64(limits, "processes", 1u << 20, &processes, err);
	s->open_files = (uint32_t)files;
	s->processes = (uint32_t)processes;
	return r;
}

static int parse_rest(json_t *body, struct guest_start *s, struct err *err)
{
	static const char *const names[] = {"argv", "command", "env", "cwd", "user", "tag", "pty",
		"stdin", "timeout_ms", "limits", "background", NULL};
	const char *cwd = "", *user = "", *tag = "";
	bool want_stdin = false;
	int r = v1_fields(body, names, err);

	if (r == 0)
		r = v1_get_string(body, "cwd", GUEST_PATH_MAX - 1, &cwd, err);
	if (r == 0)
		r = v1_get_string(body, "user", 255, &user, err);
	if (r == 0)
		r = v1_get_string(body, "tag", 255, &tag, err);
	if (r == 0)
		r = v1_get_bool(body, "stdin", &want_stdin, err);
	if (r == 0)
		r = v1_get_u64(body, "timeout_ms", 1ull << 40, &s->timeout_ms, err);
	s->cwd = mem_strdup(cwd);
	s->user = mem_strdup(user);
	s->tag = mem_strdup(tag);
	s->flags |= want_stdin ? GUEST_START_STDIN : 0;
	return r;
}

/* The same key with another request is a conflict: all of it counts but who waits how. */
static char *keep(json_t *body, const struct guest_start *s)
{
	json_t *copy = json_copy(body), *argv = json_array(), *kept;
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char digest[2 * sizeof(hash) + 1];
	AUTO_FREE char *canonical = NULL;
	char *text;

	(void)json_object_del(copy, "background");
	canonical = mem_must(json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS));
	json_decref(copy);
	(void)SHA256((const unsigned char *)canonical, strlen(canonical), hash);
	for (size_t i = 0; i < sizeof(hash); i++)
		(void)snprintf(digest + 2 * i, 3, "%02x", hash[i]);
	for (char **p = s->argv; *p; p++)
		(void)json_array_append_new(argv, v1_text(*p));
	kept = json_pack("{s:o, s:o, s:o, s:o, s:b, s:s}", "argv", argv, "cwd", v1_text(s->cwd),
		"user", v1_text(s->user), "tag", v1_text(s->tag), "pty",
		(s->flags & GUEST_START_PTY) != 0, "digest", digest);
	text = mem_must(json_dumps(kept, JSON_COMPACT));
	json_decref(kept);
	return text;
}

int exec_parse(json_t *body, struct guest_start *ret, char **ret_text, struct err *err)
{
	int r = parse_rest(body, ret, err);

	if (r == 0)
		r = parse_argv(body, ret, err);
	if (r == 0)
		r = parse_env(body, ret, err);
	if (r == 0)
		r = parse_pty(body, ret, err);
	if (r == 0)
		r = parse_limits(body, ret, err);
	if (r == 0)
		*ret_text = keep(body, ret);
	return r;
}
