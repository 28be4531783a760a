/* SPDX-License-Identifier: Apache-2.0 */

#include "core/placeholder.h"

#include "base/mem.h"
#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

#define FILES_MAX     POLICY_BINDINGS_MAX
#define GIT_FILE      "git-credentials"
#define FILE_TEXT_MAX (256u << 10)

bool placeholder_is_name(const char *s)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t n = strnlen(s, PLACEHOLDER_NAME_MAX + 1);

	if (n == 0 || n > PLACEHOLDER_NAME_MAX || !strchr(ends, s[0]) || !strchr(ends, s[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!strchr(ends, s[i]) && !strchr("-_.", s[i]))
			return false;
	return true;
}

void placeholder_make(const char *owner, const char *name, char out[PLACEHOLDER_LEN + 1])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char hash[SHA256_SIZE];
	struct sha256 s;
	size_t n;

	/* With their NULs: "a" and "bc" are not "ab" and "c". */
	sha256_init(&s);
	sha256_add(&s, "bawn placeholder 1", sizeof("bawn placeholder 1"));
	sha256_add(&s, owner, strlen(owner) + 1);
	sha256_add(&s, name, strlen(name) + 1);
	sha256_end(&s, hash);
	n = (size_t)snprintf(out, PLACEHOLDER_LEN + 1, "%s", PLACEHOLDER_PREFIX);
	for (size_t i = 0; n < PLACEHOLDER_LEN; i++) {
		out[n++] = digits[hash[i] >> 4];
		out[n++] = digits[hash[i] & 15];
	}
	out[n] = '\0';
}

void placeholder_files_done(struct placeholder_files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].path);
		free(f->v[i].text);
	}
	free(f->v);
	*f = (struct placeholder_files){0};
}

static struct placeholder_file *file_of(struct placeholder_files *f, const char *path)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->v[i].path, path) == 0)
			return &f->v[i];
	if (!f->v)
		f->v = mem_must(calloc(FILES_MAX, sizeof(*f->v)));
	f->v[f->n] = (struct placeholder_file){mem_strdup(path), mem_strdup("")};
	return &f->v[f->n++];
}

static int append(struct placeholder_file *file, char *take_line, struct err *err)
{
	AUTO_FREE char *line = take_line;
	char *all;

	if (strlen(file->text) + strlen(line) > FILE_TEXT_MAX)
		return err_set(err, E2BIG, "file '%s' of credentials is too long", file->path);
	all = text_format("%s%s", file->text, line);
	free(file->text);
	file->text = all;
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && strcmp(s + n - k, end) == 0;
}

/* Programs that read such a file look for one host; a pattern or a network is none. */
static bool is_plain_host(const char *s)
{
	return *s && !strpbrk(s, "*/: \t\r\n@#'\"\\%$`");
}

/* Whom the line names; NULL: one that such a line cannot carry. */
static const char *user_of(const struct policy_binding *b)
{
	const char *user = b->place == POLICY_BASIC && b->field[0] ? b->field : "bawn";

	return strpbrk(user, " \t\r\n@:/#\"'\\%$`") ? NULL : user;
}

static int add_file(struct placeholder_files *files, const struct policy_binding *b,
	const char *placeholder, struct err *err)
{
	struct placeholder_file *file = file_of(files, b->file);
	bool is_netrc = ends_with(b->file, "netrc");
	bool is_git = ends_with(b->file, GIT_FILE);
	const char *user = user_of(b);
	int r = 0;

	if (!is_netrc && !is_git)
		return append(file, text_format("%s\n", placeholder), err);
	for (size_t i = 0; r == 0 && i < b->hosts.n; i++) {
		const char *host = b->hosts.v[i];

		if (!is_plain_host(host) || !user)
			continue;
		r = append(file,
			is_git ? text_format("https://%s:%s@%s\n", user, placeholder, host)
			       : text_format("machine %s login %s password %s\n", host, user,
					 placeholder),
			err);
	}
	return r;
}

static int add_env(
	struct strv *env, const char *name, const char *end, const char *value, struct err *err)
{
	AUTO_FREE char *line = text_format("%s%s=%s", name, end, value);
	size_t n = strlen(name) + strlen(end) + 1;

	/* Several bindings may share a variable, one per host; the first says what is in it. */
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], line, n) == 0)
			return 0;
	return strv_add(env, line, err);
}

/*
 * git asks helpers that its configuration names, and takes that from the environment too: no file
 * is needed. It appends a word to the command, which the comment swallows.
 */
static int add_git(struct strv *env, size_t *count, const struct policy_binding *b,
	const char *placeholder, struct err *err)
{
	const char *user = user_of(b);
	int r = 0;

	for (size_t i = 0; r == 0 && user && i < b->hosts.n; i++) {
		AUTO_FREE char *key = NULL, *value = NULL;

		if (!is_plain_host(b->hosts.v[i]))
			continue;
		key = text_format(
			"GIT_CONFIG_KEY_%zu=credential.https://%s.helper", *count, b->hosts.v[i]);
		value = text_format("GIT_CONFIG_VALUE_%zu=!printf "
				    "'username=%s\\npassword=%s\\n' #",
			*count, user, placeholder);
		r = strv_add(env, key, err);
		if (r == 0)
			r = strv_add(env, value, err);
		(*count)++;
	}
	return r;
}

int placeholder_for_box(const struct policy *p, const char *owner,
	bool (*has)(const char *secret, void *arg), void *arg, struct strv *env,
	struct placeholder_files *files, struct err *err)
{
	char text[PLACEHOLDER_LEN + 1];
	size_t git = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->bindings_n && i < FILES_MAX; i++) {
		const struct policy_binding *b = &p->bindings[i];
		bool is_pair = b->place == POLICY_SIGV4;

		if (has && !has(b->secret, arg))
			continue;
		placeholder_make(owner, b->secret, text);
		if (b->env)
			r = add_env(env, b->env, is_pair ? "_ACCESS_KEY_ID" : "", text, err);
		if (r == 0 && b->env && is_pair)
			r = add_env(env, b->env, "_SECRET_ACCESS_KEY", text, err);
		if (r == 0 && b->file && ends_with(b->file, GIT_FILE))
			r = add_git(env, &git, b, text, err);
		if (r == 0 && b->file)
			r = add_file(files, b, text, err);
	}
	if (r == 0 && git > 0) {
		AUTO_FREE char *count = text_format("GIT_CONFIG_COUNT=%zu", git);

		r = strv_add(env, count, err);
	}
	return r;
}
