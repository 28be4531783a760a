/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/profile - the fields of a profile that describe the box. Those of the network are in
 * profile_network.c, the reader in profile_reader.c, parents in profile_load.c. Pure; never blocks.
 */
#include "core/profile_impl.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int profile_take_bool(const char *value, bool *ret, struct err *err)
{
	char quoted[64];

	if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		return err_set(err, EINVAL, "'%s' is not accepted; accepted: true, false",
			text_quote(value, quoted, sizeof(quoted)));
	*ret = value[0] == 't';
	return 0;
}

int profile_take_word(char **field, const char *key, const char *value, struct err *err)
{
	char quoted[64];

	if (strlen(value) > PROFILE_NAME_MAX || value[strspn(value, "abcdefghijklmnopqrstuvwxyz"
								    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
								    "0123456789._-")] != '\0')
		return err_set(err, EINVAL,
			"%s '%s' is not accepted; accepted: 1 to 64 letters, digits, '.', '_' and "
			"'-'",
			key, text_quote(value, quoted, sizeof(quoted)));
	return spec_set_string(field, key, value, err);
}

static int take_name(struct reader *r, const char *key, const char *value, struct err *err)
{
	return profile_take_word(&r->profile->name, key, value, err);
}

static int take_description(struct reader *r, const char *key, const char *value, struct err *err)
{
	if (strlen(value) > PROFILE_TEXT_MAX || !text_is_line(value))
		return err_set(err, EINVAL, "a description is one line of at most %d bytes",
			PROFILE_TEXT_MAX);
	return spec_set_string(&r->profile->description, key, value, err);
}

static int take_parent(struct reader *r, const char *key, const char *value, struct err *err)
{
	char quoted[64];

	if (value[0] == '\0' || strlen(value) > PROFILE_TEXT_MAX || !text_is_line(value))
		return err_set(err, EINVAL,
			"'%s' is not a profile; accepted: a name, name@version, or a file",
			text_quote(value, quoted, sizeof(quoted)));
	if (r->profile->parents.n >= PROFILE_PARENTS_MAX)
		return err_set(err, E2BIG, "more than %d %s", PROFILE_PARENTS_MAX, key);
	return strv_add(&r->profile->parents, value, err);
}

static int take_version(struct reader *r, const char *key, const char *value, struct err *err)
{
	return text_parse_u64(value, key, 1, 1000000000, &r->profile->version, err);
}

static int take_root(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return spec_set_root(r->spec, value, err);
}

static int take_user(struct reader *r, const char *key, const char *value, struct err *err)
{
	return spec_set_string(&r->spec->user, key, value, err);
}

static int take_cwd(struct reader *r, const char *key, const char *value, struct err *err)
{
	AUTO_FREE char *clean = NULL;
	int q;

	(void)key;
	q = text_path_clean(value, r->source->cwd, &clean, err);
	return q < 0 ? q : spec_set_string(&r->spec->cwd, key, clean, err);
}

static int take_hostname(struct reader *r, const char *key, const char *value, struct err *err)
{
	return spec_set_string(&r->spec->hostname, key, value, err);
}

static int take_env(struct reader *r, const char *key, const char *value, struct err *err)
{
	AUTO_FREE char *pair = NULL;
	char quoted[64];

	if (key[0] == '\0' || strchr(key, '='))
		return err_set(err, EINVAL, "'%s' is not a variable's name",
			text_quote(key, quoted, sizeof(quoted)));
	pair = text_format("%s=%s", key, value); /* bounded by PROFILE_SIZE_MAX */
	return spec_add_env(r->spec, pair, err);
}

static int take_pass_env(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return strv_add(&r->spec->pass_env, value, err);
}

static int take_path(struct reader *r, const char *key, const char *value, struct err *err)
{
	enum spec_path_mode mode = key[0] == 'h'       ? SPEC_PATH_HIDE
				   : strcmp(key, "rw") ? SPEC_PATH_RO
						       : SPEC_PATH_RW;

	return spec_add_user_path(r->spec, mode, value, r->source->cwd, r->source->home, err);
}

static int take_cow(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return profile_take_bool(value, &r->spec->cow, err);
}

static int take_protect(struct reader *r, const char *key, const char *value, struct err *err)
{
	bool want_protect = true;
	int q = profile_take_bool(value, &want_protect, err);

	(void)key;
	if (q >= 0)
		r->spec->no_protect = !want_protect;
	return q;
}

static int take_limit(struct reader *r, const char *key, const char *value, struct err *err)
{
	return spec_set_limit(r->spec, key, value, err);
}

static int take_wall(struct reader *r, const char *key, const char *value, struct err *err)
{
	AUTO_FREE char *pair = NULL;

	if (strchr(key, '='))
		return err_set(err, EINVAL, "a wall's name has no '='");
	pair = text_format("%s=%s", key, value); /* bounded by PROFILE_SIZE_MAX */
	return spec_set_wall(r->spec, pair, err);
}

static int take_net(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)r;
	(void)key;
	return spec_check_net(value, err);
}

static int take_loopback(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return profile_take_bool(value, &r->spec->want_loopback, err);
}

static int take_allow_sudo(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return profile_take_bool(value, &r->spec->allow_sudo, err);
}

static const struct field filesystem_fields[] = {
	LIST("rw", take_path),
	LIST("ro", take_path),
	LIST("hide", take_path),
	SCALAR("cow", take_cow),
	SCALAR("protect", take_protect),
	{0},
};

static const struct field limit_fields[] = {
	SCALAR("memory", take_limit),
	SCALAR("cpus", take_limit),
	SCALAR("pids", take_limit),
	SCALAR("disk", take_limit),
	SCALAR("io", take_limit),
	SCALAR("timeout", take_limit),
	SCALAR("kill_after", take_limit),
	SCALAR("open_files", take_limit),
	{0},
};

const struct field profile_top_fields[] = {
	SCALAR("name", take_name),
	SCALAR("version", take_version),
	SCALAR("description", take_description),
	LIST("parents", take_parent),
	SCALAR("root", take_root),
	SCALAR("user", take_user),
	SCALAR("cwd", take_cwd),
	SCALAR("hostname", take_hostname),
	FREE_MAP("env", take_env),
	LIST("pass_env", take_pass_env),
	MAP("filesystem", filesystem_fields, NULL, NULL),
	MAP("limits", limit_fields, NULL, NULL),
	FREE_MAP("walls", take_wall),
	SCALAR("net", take_net),
	MAP("network", profile_network_fields, profile_network_begin, NULL),
	SCALAR("loopback", take_loopback),
	SCALAR("allow_sudo", take_allow_sudo),
	{0},
};

void profile_done(struct profile *p)
{
	free(p->name);
	free(p->description);
	strv_done(&p->parents);
	strv_done(&p->files);
	p->policy = policy_unref(p->policy);
	*p = (struct profile){0};
}

/* "dir/agent.yaml" is called "agent" if that can be a name. */
static char *name_of_file(const char *file)
{
	const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
	AUTO_FREE char *name = mem_strdup(base);
	char *dot = strrchr(name, '.'), *word = NULL;
	struct err ignored = {0};

	if (dot && dot > name)
		*dot = '\0';
	if (profile_take_word(&word, "name", name, &ignored) < 0)
		return mem_strdup("profile");
	return word;
}

/* Rules are told apart by the profile they came from. */
static int name_rules(struct policy *p, const char *profile, struct err *err)
{
	for (size_t i = 0; i < p->rules_n; i++) {
		char *id = text_format("%s/%s", profile, p->rules[i].id);

		free(p->rules[i].id);
		p->rules[i].id = id;
		if (strlen(id) > POLICY_ID_MAX)
			return err_set(err, EINVAL, "the rule '%s' needs a shorter name", id);
	}
	return 0;
}

int profile_read(const char *yaml, size_t size, const struct profile_source *source, struct spec *s,
	struct profile *ret, struct err *err)
{
	struct profile p = {0};
	struct reader r = {.source = source, .spec = s, .profile = &p};
	int q = profile_reader_run(&r, yaml, size, profile_top_fields, err);

	policy_draft_done(&r.draft);
	free(r.rule_name);
	p.policy = r.network;
	p.has_network = r.network != NULL;
	if (q >= 0) {
		free(s->profile);
		s->profile = p.version ? text_format("%s@%" PRIu64, p.name ? p.name : source->file,
						 p.version)
				       : mem_strdup(p.name ? p.name : source->file);
		if (!p.name)
			p.name = name_of_file(source->file);
		if (!p.policy)
			p.policy = policy_create(p.name);
		free(p.policy->name);
		p.policy->name = mem_strdup(p.name);
		q = name_rules(p.policy, p.name, err);
		if (q < 0)
			(void)err_wrap(err, "%s:1", source->file);
	}
	if (q < 0) {
		profile_done(&p);
		return q;
	}
	*ret = p;
	return 0;
}

static void each(const struct field *f, const char *prefix, profile_field_fn fn, void *arg)
{
	static const char *const marks[] = {
		[FIELD_SCALAR] = "",
		[FIELD_LIST] = "[]",
		[FIELD_MAP] = "",
		[FIELD_FREE_MAP] = ".*",
		[FIELD_MAPS] = "[]",
	};

	for (; f->name; f++) {
		AUTO_FREE char *path = text_format(
			"%s%s%s%s", prefix, prefix[0] ? "." : "", f->name, marks[f->kind]);

		if (f->fields)
			each(f->fields, path, fn, arg);
		else
			fn(path, arg);
	}
}

void profile_each_field(profile_field_fn fn, void *arg)
{
	each(profile_top_fields, "", fn, arg);
}
