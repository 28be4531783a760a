/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/profile_reader - YAML by a table of fields, and nothing else. Pure; never blocks.
 */
#include "core/profile_impl.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>

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

/* At the start of a map: all of it, between begin and end, whose errors stand at its line. */
static int read_turn(struct reader *r, const char *where, const struct field *f, struct err *err)
{
	size_t line = line_of(r);
	int q = f->begin ? f->begin(r, err) : 0;

	if (q >= 0) {
		q = read_map(r, where, f->fields, err);
		if (q < 0)
			return q;
		q = f->end ? f->end(r, err) : 0;
	}
	if (q < 0) {
		(void)err_wrap(err, "%s", where);
		(void)at(r, line, err);
	}
	return q;
}

static int read_maps(struct reader *r, const char *where, const struct field *f, struct err *err)
{
	AUTO_FREE char *what =
		text_format("field '%s' takes a list of '- name: value' maps", where);
	int q = expect(r, YAML_SEQUENCE_START_EVENT, what, err);

	for (size_t i = 0; q >= 0; i++) {
		AUTO_FREE char *one = NULL;

		q = next(r, err);
		if (q < 0 || r->event.type == YAML_SEQUENCE_END_EVENT)
			break;
		if (r->event.type != YAML_MAPPING_START_EVENT) {
			(void)err_set(err, EINVAL, "%s", what);
			return at(r, line_of(r), err);
		}
		one = text_format("%s[%zu]", where, i);
		q = read_turn(r, one, f, err);
	}
	return q;
}

static int read_field(struct reader *r, const char *where, const struct field *f, struct err *err)
{
	AUTO_FREE char *what = text_format("field '%s' takes named fields", where);
	int q;

	switch (f->kind) {
	case FIELD_SCALAR: return read_scalar(r, where, f, err);
	case FIELD_LIST: return read_list(r, where, f, err);
	case FIELD_FREE_MAP: return read_free_map(r, where, f, err);
	case FIELD_MAPS: return read_maps(r, where, f, err);
	case FIELD_MAP: break;
	}
	q = expect(r, YAML_MAPPING_START_EVENT, what, err);
	return q < 0 ? q : read_turn(r, where, f, err);
}

/* Behind the start of a map. */
static int read_map(
	struct reader *r, const char *where, const struct field *fields, struct err *err)
{
	uint32_t seen = 0;
	int q = 0;

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

static int read_all(struct reader *r, const struct field *top, struct err *err)
{
	int q = expect(r, YAML_STREAM_START_EVENT, "not a YAML stream", err);

	if (q >= 0)
		q = expect(r, YAML_DOCUMENT_START_EVENT, "the profile is empty", err);
	if (q >= 0)
		q = expect(r, YAML_MAPPING_START_EVENT, "a profile is a map of named fields", err);
	if (q >= 0)
		q = read_map(r, "", top, err);
	if (q >= 0)
		q = expect(r, YAML_DOCUMENT_END_EVENT, "the profile does not end here", err);
	if (q >= 0)
		q = expect(r, YAML_STREAM_END_EVENT,
			"a profile is one document; '---' begins a "
			"second",
			err);
	return q;
}

int profile_reader_run(
	struct reader *r, const char *yaml, size_t size, const struct field *top, struct err *err)
{
	int q;

	if (size > PROFILE_SIZE_MAX)
		return err_set(err, E2BIG, "%s: %zu bytes; a profile may have at most %d",
			r->source->file, size, PROFILE_SIZE_MAX);
	if (!yaml_parser_initialize(&r->parser))
		return err_set(err, ENOMEM, "%s: out of memory", r->source->file);
	/* Fixed, or a byte order mark would switch the reader to UTF-16. */
	yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r->parser, (const unsigned char *)yaml, size);
	q = read_all(r, top, err);
	yaml_event_delete(&r->event);
	yaml_parser_delete(&r->parser);
	return q < 0 ? q : 0;
}
