/* SPDX-License-Identifier: Apache-2.0 */

/*
 * docs/profile.schema.json and the reader know the same fields: compared both ways.
 */
#include "core/profile.h"

#include "tap.h"

#include <jansson.h>

static void add(const char *path, void *arg)
{
	struct err err = {0};

	CHECK_INT(strv_add((struct strv *)arg, path, &err), 0);
}

/* The paths of the schema, written as profile_each_field() writes them. */
static void walk(const json_t *node, const char *path, struct strv *ret)
{
	json_t *properties = json_object_get(node, "properties");
	json_t *items = json_object_get(node, "items"), *child;
	json_t *more = json_object_get(node, "additionalProperties");
	const char *name;
	AUTO_FREE char *inner = NULL;

	if (properties) {
		CHECK(json_is_false(more)); /* strict, as the reader is */
		json_object_foreach(properties, name, child)
		{
			AUTO_FREE char *below =
				text_format("%s%s%s", path, path[0] ? "." : "", name);

			walk(child, below, ret);
		}
	} else if (items) {
		inner = text_format("%s[]", path);
		walk(items, inner, ret);
	} else if (json_is_object(more)) {
		inner = text_format("%s.*", path);
		add(inner, ret);
	} else {
		add(path, ret);
	}
}

static void the_schema_has_every_field_and_no_other(void)
{
	json_t *schema = json_load_file(SCHEMA_FILE, JSON_REJECT_DUPLICATES, NULL);
	struct strv reader = {0}, described = {0};

	if (!CHECK(schema != NULL))
		return;
	profile_each_field(add, &reader);
	walk(schema, "", &described);
	CHECK(reader.n > 50);
	for (size_t i = 0; i < reader.n; i++) {
		if (!CHECK(strv_has(&described, reader.v[i])))
			tap_print("# the schema lacks %s\n", reader.v[i]);
	}
	for (size_t i = 0; i < described.n; i++) {
		if (!CHECK(strv_has(&reader, described.v[i])))
			tap_print("# the reader does not know %s\n", described.v[i]);
	}
	strv_done(&reader);
	strv_done(&described);
	json_decref(schema);
}

int main(void)
{
	RUN(the_schema_has_every_field_and_no_other);
	return tap_done();
}
