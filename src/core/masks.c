/* SPDX-License-Identifier: Apache-2.0 */

#include "core/masks.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

bool masks_is_env_file(const char *name)
{
	/* Committed on purpose, without values; tools and agents read them to learn the keys. */
	static const char *const templates[] = {
		"example",
		"sample",
		"template",
		"tmpl",
		"tpl",
		"dist",
		"defaults",
		"schema",
		"vault.example",
	};
	const char *dot;

	name += name[0] == '#'; /* "#.env#": what emacs has not saved yet */
	if (strncmp(name, ".env", 4) != 0)
		return false;
	/*
	 * ".environment" and ".envoy" are other words; ".env", ".env.x", ".env-x", ".envrc" count.
	 */
	if (isalnum((unsigned char)name[4]) && strncmp(name + 4, "rc", 2) != 0)
		return false;
	dot = strrchr(name + 1, '.');
	for (size_t i = 0; dot && i < sizeof(templates) / sizeof(templates[0]); i++) {
		if (strcmp(dot + 1, templates[i]) == 0)
			return false;
	}
	return true;
}

bool masks_scan_skips(const char *name)
{
	static const char *const skipped[] = {
		".git",
		".hg",
		".svn",
		".jj",
		"node_modules",
		"venv",
		".venv",
		"virtualenv",
		"__pycache__",
		".tox",
		".nox",
		".mypy_cache",
		".pytest_cache",
		".ruff_cache",
		".cargo",
		".rustup",
		".npm",
		".cache",
		".gradle",
		".m2",
	};

	for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++) {
		if (strcmp(name, skipped[i]) == 0)
			return true;
	}
	return false;
}

/* True if `rel` equals `rule` or lies below it. */
static bool is_at_or_below(const char *rel, const char *rule)
{
	size_t n = strlen(rule);

	return strncmp(rel, rule, n) == 0 && (rel[n] == '\0' || rel[n] == '/');
}

/* The next component's start, or NULL. */
static const char *next_component(const char *rel)
{
	const char *slash = strchr(rel, '/');

	return slash ? slash + 1 : NULL;
}

const char *masks_why_protected_in_git(const char *rel)
{
	if (is_at_or_below(rel, "rebase-merge"))
		return "git rebase --continue runs commands named here";
	/* Submodules and worktrees keep whole git directories below this one, at any depth. */
	for (const char *p = rel; p; p = next_component(p)) {
		for (size_t i = 0; i < masks_git_names_n; i++) {
			if (is_at_or_below(p, masks_git_names[i]))
				return "git runs programs named here";
		}
		if (p == rel && !is_at_or_below(p, "modules") && !is_at_or_below(p, "worktrees"))
			return NULL;
	}
	return NULL;
}

const char *masks_why_protected(const char *rel)
{
	for (const char *p = rel; p; p = next_component(p)) {
		if (strcmp(p, ".git") == 0)
			return "names the directory git takes its config from";
		if (is_at_or_below(p, ".git"))
			return masks_why_protected_in_git(p + strlen(".git/"));
		for (size_t i = 0; i < masks_protected_n; i++) {
			const struct mask_protected *m = &masks_protected[i];

			if ((m->where == MASK_AT_REPO || p == rel) && is_at_or_below(p, m->path))
				return m->why;
		}
	}
	return NULL;
}

bool masks_is_sample_hook(const char *rel)
{
	const char *hooks = strstr(rel, "hooks/");
	size_t n = strlen(rel);

	return hooks && (hooks == rel || hooks[-1] == '/') && !strchr(hooks + 6, '/') && n > 7 &&
	       strcmp(rel + n - 7, ".sample") == 0;
}

/*
 * Git config, as much of it as git itself writes: comments, [section],
 * [section "sub"], key = value. No continuation lines, no key on a header's line.
 */
struct git_key {
	char section[64]; /* lower case */
	char key[64];     /* lower case */
	const char *value;
	size_t value_n;
};

static bool is_in(const char *word, const char *const *list)
{
	for (; *list; list++) {
		if (strcmp(word, *list) == 0)
			return true;
	}
	return false;
}

static bool value_starts(const struct git_key *k, const char *prefix)
{
	size_t n = strlen(prefix);

	return k->value_n >= n && strncasecmp(k->value, prefix, n) == 0;
}

/*
 * A url git fetches from without starting a program of the config's choice:
 * "name::rest" runs git-remote-name, and quotes can stand anywhere in a value.
 */
static bool is_plain_url(const struct git_key *k)
{
	size_t i = 0;

	while (i < k->value_n && (isalnum((unsigned char)k->value[i]) || k->value[i] == '-'))
		i++;
	return k->value_n > 0 && k->value[0] != '-' && !memchr(k->value, '"', k->value_n) &&
	       !(i + 1 < k->value_n && k->value[i] == ':' && k->value[i + 1] == ':');
}

static bool is_safe_key(const struct git_key *k, unsigned flags)
{
	static const char *const core[] = {"repositoryformatversion", "filemode", "bare",
		"logallrefupdates", "ignorecase", "precomposeunicode", "symlinks", "autocrlf",
		"eol", "safecrlf", "quotepath", NULL};
	static const char *const user[] = {"name", "email", NULL};
	/* Not uploadpack, receivepack, vcs, proxy: those are commands or reach elsewhere. */
	static const char *const remote[] = {"fetch", "push", "tagopt", "mirror", "prune",
		"prunetags", "promisor", "partialclonefilter", NULL};
	/* Not mergeoptions: "-s NAME" runs git-merge-NAME. */
	static const char *const branch[] = {"remote", "merge", "rebase", "pushremote",
		"description", "vscode-merge-base", NULL};
	static const char *const extensions[] = {
		"objectformat", "refstorage", "partialclone", "preciousobjects", NULL};

	if (strcmp(k->section, "core") == 0) {
		/*
		 * A submodule's checkout lies above its git directory; elsewhere it could be $HOME.
		 */
		if (strcmp(k->key, "worktree") == 0)
			return (flags & MASKS_GIT_MODULE) && value_starts(k, "../");
		return is_in(k->key, core);
	}
	if (strcmp(k->section, "remote") == 0) {
		if (strcmp(k->key, "url") == 0 || strcmp(k->key, "pushurl") == 0)
			return is_plain_url(k);
		return is_in(k->key, remote);
	}
	if (strcmp(k->section, "submodule") == 0) {
		/* Not update: "!command". */
		if (strcmp(k->key, "url") == 0)
			return is_plain_url(k);
		return strcmp(k->key, "active") == 0 || strcmp(k->key, "branch") == 0;
	}
	if (strcmp(k->section, "user") == 0)
		return is_in(k->key, user);
	if (strcmp(k->section, "branch") == 0)
		return is_in(k->key, branch);
	if (strcmp(k->section, "extensions") == 0)
		return is_in(k->key, extensions);
	/* Not init.templatedir: it brings hooks. */
	return strcmp(k->section, "init") == 0 && strcmp(k->key, "defaultbranch") == 0;
}

/* Copy a word of [a-z0-9-] in lower case; returns its length, 0 if there is none or it is long. */
static size_t take_word(const char *s, size_t n, char *out, size_t out_size)
{
	size_t i = 0;

	while (i < n && (isalnum((unsigned char)s[i]) || s[i] == '-')) {
		if (i + 1 >= out_size)
			return 0;
		out[i] = (char)tolower((unsigned char)s[i]);
		i++;
	}
	out[i] = '\0';
	return i;
}

static size_t skip_blank(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r'))
		i++;
	return i;
}

static bool take_header(const char *s, size_t n, struct git_key *k)
{
	size_t i = 1 + take_word(s + 1, n - 1, k->section, sizeof(k->section));

	if (i == 1)
		return false;
	i += skip_blank(s + i, n - i);
	if (i < n && s[i] == '"') {
		i++;
		while (i < n && s[i] != '"' && s[i] != '\\')
			i++;
		if (i >= n || s[i] != '"')
			return false;
		i++;
	}
	if (i >= n || s[i] != ']')
		return false;
	i++;
	return i + skip_blank(s + i, n - i) == n;
}

static bool take_key(const char *s, size_t n, struct git_key *k)
{
	size_t i = take_word(s, n, k->key, sizeof(k->key));

	if (i == 0 || !isalpha((unsigned char)s[0]))
		return false;
	i += skip_blank(s + i, n - i);
	if (i < n && s[i] != '=')
		return false;
	if (i < n)
		i++;
	i += skip_blank(s + i, n - i);
	k->value = s + i;
	k->value_n = n - i;
	/* A backslash escapes or continues the line: git would read on where we stop. */
	return !memchr(k->value, '\\', k->value_n);
}

bool masks_git_config_is_safe(const char *text, size_t n, unsigned flags)
{
	struct git_key k = {.section = ""};
	const char *end = text + n;

	if (memchr(text, '\0', n))
		return false;
	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		size_t line_n = (size_t)((eol ? eol : end) - text);
		size_t i = skip_blank(text, line_n);
		const char *line = text + i;

		line_n -= i;
		text = eol ? eol + 1 : end;
		if (line_n == 0 || *line == '#' || *line == ';')
			continue;
		if (*line == '[') {
			if (!take_header(line, line_n, &k))
				return false;
			continue;
		}
		if (!take_key(line, line_n, &k) || !is_safe_key(&k, flags))
			return false;
	}
	return true;
}
