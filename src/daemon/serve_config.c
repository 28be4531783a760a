/* SPDX-License-Identifier: Apache-2.0 */

/*
 * daemon/serve_config - the config file of the server: a flat YAML map, read strictly.
 *
 * As core/profile: events of libyaml, no anchors, tags or second documents; an error names
 * the line. A value is a scalar; for `listen` it may be a list of them. Pure.
 */
#include "base/mem.h"
#include "daemon/serve_options.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

struct reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the current one; owned */
	const char *file;
	struct serve_options *o;
};

static int at(const struct reader *r, size_t line, struct err *err)
{
	return err_wrap(err, "%s:%zu", r->file, line + 1);
}

static int refuse(const struct reader *r, const char *what, struct err *err)
{
	(void)err_set(err, EINVAL, "%s", what);
	return at(r, r->event.start_mark.line, err);
}

static bool has_tricks(const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SCALAR_EVENT:
		return e->data.scalar.anchor || e->data.scalar.tag ||
		       memchr(e->data.scalar.value, '\0', e->data.scalar.length);
	case YAML_SEQUENCE_START_EVENT:
		return e->data.sequence_start.anchor || e->data.sequence_start.tag;
	case YAML_MAPPING_START_EVENT:
		return e->data.mapping_start.anchor || e->data.mapping_start.tag;
	default: return e->type == YAML_ALIAS_EVENT;
	}
}

static int next(struct reader *r, struct err *err)
{
	yaml_event_delete(&r->event);
	if (!yaml_parser_parse(&r->parser, &r->event)) {
		(void)err_set(err, EINVAL, "not YAML: %s",
			r->parser.problem ? r->parser.problem : "out of memory");
		return at(r, r->parser.problem_mark.line, err);
	}
	if (has_tricks(&r->event))
		return refuse(r, "anchors, aliases, tags and zero bytes are not accepted", err);
	return 0;
}

static int expect(struct reader *r, yaml_event_type_t type, const char *what, struct err *err)
{
	int q = next(r, err);

	return q < 0 ? q : r->event.type == type ? 0 : refuse(r, what, err);
}

static int take(struct reader *r, const char *key, struct err *err)
{
	if (serve_option_set(r->o, key, (const char *)r->event.data.scalar.value, err) < 0)
		return at(r, r->event.start_mark.line, err);
	return 0;
}

static int read_value(struct reader *r, const char *key, struct err *err)
{
	int q = next(r, err);

	if (q < 0)
		return q;
	if (r->event.type == YAML_SCALAR_EVENT)
		return take(r, key, err);
	if (r->event.type != YAML_SEQUENCE_START_EVENT || strcmp(key, "listen") != 0)
		return refuse(r, "a field takes one value (only 'listen' takes a list)", err);
	while ((q = next(r, err)) >= 0 && r->event.type != YAML_SEQUENCE_END_EVENT) {
		if (r->event.type != YAML_SCALAR_EVENT)
			return refuse(r, "'listen' takes a list of addresses", err);
		q = take(r, key, err);
		if (q < 0)
			return q;
	}
	return q;
}

static int read_map(struct reader *r, struct strv *seen, struct err *err)
{
	int q = expect(r, YAML_MAPPING_START_EVENT, "a config is a map of named fields", err);

	while (q >= 0 && (q = next(r, err)) >= 0 && r->event.type != YAML_MAPPING_END_EVENT) {
		AUTO_FREE char *key = NULL;

		if (r->event.type != YAML_SCALAR_EVENT)
			return refuse(r, "the name of a field must be a plain word", err);
		key = mem_strdup((const char *)r->event.data.scalar.value);
		if (strv_has(seen, key))
			return refuse(r, "this field is given twice", err);
		q = strv_add(seen, key, err);
		if (q >= 0)
			q = read_value(r, key, err);
	}
	return q;
}

static int read_all(struct reader *r, struct strv *seen, struct err *err)
{
	int q = expect(r, YAML_STREAM_START_EVENT, "not a YAML stream", err);

	if (q >= 0)
		q = next(r, err);
	if (q >= 0 && r->event.type == YAML_STREAM_END_EVENT)
		return 0; /* an empty file says nothing */
	if (q >= 0 && r->event.type != YAML_DOCUMENT_START_EVENT)
		return refuse(r, "not a YAML document", err);
	if (q >= 0)
		q = read_map(r, seen, err);
	if (q >= 0)
		q = expect(r, YAML_DOCUMENT_END_EVENT, "the config does not end here", err);
	if (q >= 0)
		q = expect(r, YAML_STREAM_END_EVENT, "a config is one document", err);
	return q;
}

int serve_config_parse(
	const char *yaml, size_t size, const char *file, struct serve_options *o, struct err *err)
{
	struct reader r = {.file = file, .o = o};
	struct strv seen = {0};
	int q;

	if (size > SERVE_CONFIG_MAX)
		return err_set(err, E2BIG, "%s: a config may have at most %d bytes", file,
			SERVE_CONFIG_MAX);
	if (!yaml_parser_initialize(&r.parser))
		return err_set(err, ENOMEM, "%s: out of memory", file);
	/* Fixed, or a byte order mark would switch the reader to UTF-16. */
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)yaml, size);
	q = read_all(&r, &seen, err);
	yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	strv_done(&seen);
	return q;
}
