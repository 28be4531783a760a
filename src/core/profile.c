/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/profile - the fields of a profile, and a reader that accepts nothing else.
 *
 * libyaml gives events; a table of fields says what may follow. Our recursion is
 * as deep as that table (two maps), however deep the input nests, because the first
 * event that does not fit ends the reading. Pure; never blocks.
 */
#include "core/profile.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <yaml.h>

struct reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the current one; owned */
	const struct profile_source *source;
	struct spec *spec;
	char *name;       /* owned */
	uint64_t version; /* 0 = not given */
};

/* Take one scalar: of a list or a field, then `key` is the field; of a free map, its key. */
typedef int (*take_fn)(struct reader *r, const char *key, const char *value, struct err *err);

enum field_kind {
	FIELD_SCALAR,
	FIELD_LIST,     /* of scalars */
	FIELD_MAP,      /* with the fields of `fields` */
	FIELD_FREE_MAP, /* scalar to scalar, any key */
};

struct field {
	const char *name;
	enum field_kind kind;
	take_fn take;
	const struct field *fields; /* FIELD_MAP: ended by an entry without a name */
};

#define FIELDS_MAX 32 /* of one map: a bit each, to notice repeats */

static int take_bool(const char *value, bool *ret, struct err *err)
{
	char quoted[64];

	if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		return err_set(err, EINVAL, "'%s' is not accepted; accepted: true, false",
			text_quote(value, quoted, sizeof(quoted)));
	*ret = value[0] == 't';
	return 0;
}

static int take_name(struct reader *r, const char *key, const char *value, struct err *err)
{
	char quoted[64];

	if (strlen(value) > 64 || value[strspn(value, "abcdefghijklmnopqrstuvwxyz"
						      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
						      "0123456789._-")] != '\0')
		return err_set(err, EINVAL,
			"%s '%s' is not accepted; accepted: 1 to 64 letters, digits, '.', '_' and "
			"'-'",
			key, text_quote(value, quoted, sizeof(quoted)));
	return spec_set_string(&r->name, key, value, err);
}

static int take_version(struct reader *r, const char *key, const char *value, struct err *err)
{
	return text_parse_u64(value, key, 1, 1000000000, &r->version, err);
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
	return take_bool(value, &r->spec->cow, err);
}

static int take_protect(struct reader *r, const char *key, const char *value, struct err *err)
{
	bool want_protect = true;
	int q = take_bool(value, &want_protect, err);

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
	return take_bool(value, &r->spec->want_loopback, err);
}

static int take_allow_sudo(struct reader *r, const char *key, const char *value, struct err *err)
{
	(void)key;
	return take_bool(value, &r->spec->allow_sudo, err);
}

static const struct field filesystem_fields[] = {
	{"rw", FIELD_LIST, take_path, NULL},
	{"ro", FIELD_LIST, take_path, NULL},
	{"hide", FIELD_LIST, take_path, NULL},
	{"cow", FIELD_SCALAR, take_cow, NULL},
	{"protect", FIELD_SCALAR, take_protect, NULL},
	{NULL, FIELD_SCALAR, NULL, NULL},
};

static const struct field limit_fields[] = {
	{"memory", FIELD_SCALAR, take_limit, NULL},
	{"cpus", FIELD_SCALAR, take_limit, NULL},
	{"pids", FIELD_SCALAR, take_limit, NULL},
	{"disk", FIELD_SCALAR, take_limit, NULL},
	{"io", FIELD_SCALAR, take_limit, NULL},
	{"timeout", FIELD_SCALAR, take_limit, NULL},
	{"kill_after", FIELD_SCALAR, take_limit, NULL},
	{"open_files", FIELD_SCALAR, take_limit, NULL},
	{NULL, FIELD_SCALAR, NULL, NULL},
};

static const struct field top_fields[] = {
	{"name", FIELD_SCALAR, take_name, NULL},
	{"version", FIELD_SCALAR, take_version, NULL},
	{"root", FIELD_SCALAR, take_root, NULL},
	{"user", FIELD_SCALAR, take_user, NULL},
	{"cwd", FIELD_SCALAR, take_cwd, NULL},
	{"hostname", FIELD_SCALAR, take_hostname, NULL},
	{"env", FIELD_FREE_MAP, take_env, NULL},
	{"pass_env", FIELD_LIST, take_pass_env, NULL},
	{"filesystem", FIELD_MAP, NULL, filesystem_fields},
	{"limits", FIELD_MAP, NULL, limit_fields},
	{"walls", FIELD_FREE_MAP, take_wall, NULL},
	{"net", FIELD_SCALAR, take_net, NULL},
	{"loopback", FIELD_SCALAR, take_loopback, NULL},
	{"allow_sudo", FIELD_SCALAR, take_allow_sudo, NULL},
	{NULL, FIELD_SCALAR, NULL, NULL},
};

static size_t line_of(const struct reader *r)
{
	return r->event.start_mark.line + 1;
}

/* Put "FILE:LINE: " before a message. */
static int at(const struct reader *r, size_t line, struct err *err)
{
	return err_wrap(err, "%s:%zu", r->source->file, line);
}

/* The features that make one YAML text mean another. */
static int refuse_tricks(const struct reader *r, struct err *err)
{
	const yaml_event_t *e = &r->event;
	const yaml_char_t *anchor = NULL, *tag = NULL;

	if (e->type == YAML_SCALAR_EVENT) {
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
	} else if (e->type == YAML_SEQUENCE_START_EVENT) {
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
	}
	if (anchor || e->type == YAML_ALIAS_EVENT)
		return err_set(err, EINVAL, "anchors and aliases are not accepted; write it out");
	if (tag)
		return err_set(err, EINVAL, "tags are not accepted; quote the value instead");
	if (e->type == YAML_DOCUMENT_START_EVENT &&
		(e->data.document_start.version_directive ||
			e->data.document_start.tag_directives.start !=
				e->data.document_start.tag_directives.end))
		return err_set(err, EINVAL, "directives (%%) are not accepted");
	/* A NUL would end the string for us and not for whoever reads the file. */
	if (e->type == YAML_SCALAR_EVENT &&
		memchr(e->data.scalar.value, '\0', e->data.scalar.length))
		return err_set(err, EINVAL, "a value holds a zero byte");
	return 0;
}

static int next(struct reader *r, struct err *err)
{
	int q;

	yaml_event_delete(&r->event);
	if (!yaml_parser_parse(&r->parser, &r->event)) {
		const char *problem = r->parser.problem ? r->parser.problem : "out of memory";

		q = err_set(err, EINVAL, "not YAML: %s", problem);
		(void)at(r, r->parser.problem_mark.line + 1, err);
		return q;
	}
	q = refuse_tricks(r, err);
	return q < 0 ? at(r, line_of(r), err) : 0;
}

static int expect(struct reader *r, yaml_event_type_t type, const char *what, struct err *err)
{
	int q = next(r, err);

	if (q < 0)
		return q;
	if (r->event.type != type) {
		(void)err_set(err, EINVAL, "%s", what);
		return at(r, line_of(r), err);
	}
	return 0;
}

static const char *value_of(const struct reader *r)
{
	return (const char *)r->event.data.scalar.value;
}

static int take(struct reader *r, const char *where, const char *key, take_fn fn, struct err *err)
{
	int q = fn(r, key, value_of(r), err);

	if (q < 0) {
		(void)err_wrap(err, "%s", where);
		(void)at(r, line_of(r), err);
	}
	return q;
}

static int read_scalar(struct reader *r, const char *where, const struct field *f, struct err *err)
{
	AUTO_FREE char *what = text_format("field '%s' takes one value", where);
	int q = expect(r, YAML_SCALAR_EVENT, what, err);

	return q < 0 ? q : take(r, where, f->name, f->take, err);
}

static int read_list(struct reader *r, const char *where, const struct field *f, struct err *err)
{
	AUTO_FREE char *what = text_format("field '%s' takes a list of values", where);
	int q = expect(r, YAML_SEQUENCE_START_EVENT, what, err);

	while (q >= 0) {
		q = next(r, err);
		if (q < 0 || r->event.type == YAML_SEQUENCE_END_EVENT)
			break;
		if (r->event.type != YAML_SCALAR_EVENT) {
			(void)err_set(err, EINVAL, "%s", what);
			return at(r, line_of(r), err);
		}
		q = take(r, where, f->name, f->take, err);
	}
	return q;
}

static int repeated(struct reader *r, const char *where, const char *key, struct err *err)
{
	char quoted[64];

	(void)err_set(err, EINVAL, "field '%s%s%s' is given twice", where, where[0] ? "." : "",
		text_quote(key, quoted, sizeof(quoted)));
	return at(r, line_of(r), err);
}

/* At a key: move to the next one. 1: there is one, 0: the map ended. */
static int next_key(struct reader *r, const char *where, struct err *err)
{
	int q = next(r, err);

	if (q < 0 || r->event.type == YAML_MAPPING_END_EVENT)
		return q;
	if (r->event.type != YAML_SCALAR_EVENT) {
		(void)err_set(err, EINVAL, "the name of a field in '%s' must be a plain word",
			where[0] ? where : "profile");
		return at(r, line_of(r), err);
	}
	return 1;
}

static int read_free_map(
	struct reader *r, const char *where, const struct field *f, struct err *err)
{
	AUTO_FREE char *what = text_format("field '%s' takes 'name: value' lines", where);
	struct strv seen = {0};
	int q = expect(r, YAML_MAPPING_START_EVENT, what, err);

	while (q >= 0) {
		AUTO_FREE char *key = NULL;

		q = next_key(r, where, err);
		if (q <= 0)
			break;
		key = mem_strdup(value_of(r));
		q = strv_has(&seen, key) ? repeated(r, where, key, err) : strv_add(&seen, key, err);
		if (q >= 0)
			q = expect(r, YAML_SCALAR_EVENT, what, err);
		if (q >= 0)
			q = take(r, where, key, f->take, err);
	}
	strv_done(&seen);
	return q;
}

static int unknown_field(
	struct reader *r, const char *where, const struct field *fields, struct err *err)
{
	const char *names[FIELDS_MAX];
	const char *near;
	char all[200] = "";
	char quoted[64];
	size_t n = 0, used = 0;

	for (; fields[n].name; n++) {
		int k = snprintf(
			all + used, sizeof(all) - used, "%s%s", n ? ", " : "", fields[n].name);

		names[n] = fields[n].name;
		used += k > 0 && (size_t)k < sizeof(all) - used ? (size_t)k : 0;
	}
	near = text_closest(value_of(r), names, n);
	(void)err_set(err, EINVAL, "unknown field '%s%s%s'%s%s%s; accepted: %s", where,
		where[0] ? "." : "", text_quote(value_of(r), quoted, sizeof(quoted)),
		near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", all);
	return at(r, line_of(r), err);
}

static int read_map(
	struct reader *r, const char *where, const struct field *fields, struct err *err);

static int read_field(struct reader *r, const char *where, const struct field *f, struct err *err)
{
	switch (f->kind) {
	case FIELD_SCALAR: return read_scalar(r, where, f, err);
	case FIELD_LIST: return read_list(r, where, f, err);
	case FIELD_FREE_MAP: return read_free_map(r, where, f, err);
	case FIELD_MAP: break;
	}
	return read_map(r, where, f->fields, err);
}

static int read_map(
	struct reader *r, const char *where, const struct field *fields, struct err *err)
{
	AUTO_FREE char *what = where[0] ? text_format("field '%s' takes named fields", where)
					: mem_strdup("a profile is a map of named fields");
	uint32_t seen = 0;
	int q = expect(r, YAML_MAPPING_START_EVENT, what, err);

	while (q >= 0) {
		AUTO_FREE char *path = NULL;
		size_t i = 0;

		q = next_key(r, where, err);
		if (q <= 0)
			break;
		while (fields[i].name && strcmp(fields[i].name, value_of(r)) != 0)
			i++;
		if (!fields[i].name)
			return unknown_field(r, where, fields, err);
		if (seen & (UINT32_C(1) << i))
			return repeated(r, where, fields[i].name, err);
		seen |= UINT32_C(1) << i;
		path = text_format("%s%s%s", where, where[0] ? "." : "", fields[i].name);
		q = read_field(r, path, &fields[i], err);
	}
	return q;
}

static int read_all(struct reader *r, struct err *err)
{
	int q = expect(r, YAML_STREAM_START_EVENT, "not a YAML stream", err);

	if (q >= 0)
		q = expect(r, YAML_DOCUMENT_START_EVENT, "the profile is empty", err);
	if (q >= 0)
		q = read_map(r, "", top_fields, err);
	if (q >= 0)
		q = expect(r, YAML_DOCUMENT_END_EVENT, "the profile does not end here", err);
	if (q >= 0)
		q = expect(r, YAML_STREAM_END_EVENT,
			"a profile is one document; '---' begins a "
			"second",
			err);
	return q;
}

int profile_parse(const char *yaml, size_t size, const struct profile_source *source,
	struct spec *s, struct err *err)
{
	struct reader r = {.source = source, .spec = s};
	int q;

	if (size > PROFILE_SIZE_MAX)
		return err_set(err, E2BIG, "%s: %zu bytes; a profile may have at most %d",
			source->file, size, PROFILE_SIZE_MAX);
	if (!yaml_parser_initialize(&r.parser))
		return err_set(err, ENOMEM, "%s: out of memory", source->file);
	/* Fixed, or a byte order mark would switch the reader to UTF-16. */
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)yaml, size);
	q = read_all(&r, err);
	if (q >= 0) {
		free(s->profile);
		s->profile = r.version ? text_format("%s@%" PRIu64, r.name ? r.name : source->file,
						 r.version)
				       : mem_strdup(r.name ? r.name : source->file);
	}
	free(r.name);
	yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	return q < 0 ? q : 0;
}
