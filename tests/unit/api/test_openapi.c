/* SPDX-License-Identifier: Apache-2.0 */

/* docs/openapi.json and the tables of routes say the same, both ways. */
#include "api/api.h"
#include "tap.h"

#include <ctype.h>

static const struct route *const tables[] = {own_routes, e2b_routes, v1_routes};

static json_t *load(void)
{
	return json_loadb(openapi_blob, openapi_blob_size, JSON_REJECT_DUPLICATES, NULL);
}

static void every_route_is_in_the_document(void)
{
	json_t *doc = load(), *paths = json_object_get(doc, "paths");
	size_t n = 0;

	CHECK(json_is_object(paths));
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (const struct route *t = tables[i]; t->method; t++, n++) {
			json_t *path = json_object_get(paths, t->pattern), *op;
			char method[16];
			size_t k = 0;

			for (; t->method[k] && k + 1 < sizeof(method); k++)
				method[k] = (char)tolower((unsigned char)t->method[k]);
			method[k] = '\0';
			op = json_object_get(path, method);
			if (!CHECK(json_is_object(op)))
				tap_print("# %s %s\n", t->method, t->pattern);
			CHECK(json_is_string(json_object_get(op, "summary")));
			CHECK(json_is_object(json_object_get(op, "responses")));
			/* Public is said by an empty list of security. */
			CHECK(!!(t->flags & ROUTE_PUBLIC) ==
				json_is_array(json_object_get(op, "security")));
		}
	}
	CHECK(n > 30);
	json_decref(doc);
}

static bool is_routed(const char *path, const char *method)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct route *t = tables[i]; t->method; t++)
			if (strcmp(t->pattern, path) == 0 && strcasecmp(t->method, method) == 0)
				return true;
	return false;
}

static void everything_in_the_document_is_routed(void)
{
	json_t *doc = load(), *ops, *op;
	const char *path, *method;

	json_object_foreach(json_object_get(doc, "paths"), path, ops)
	{
		json_object_foreach(ops, method, op)
		{
			if (!CHECK(is_routed(path, method)))
				tap_print("# %s %s\n", method, path);
		}
	}
	CHECK_STR(json_string_value(json_object_get(doc, "openapi")), "3.1.0");
	json_decref(doc);
}

/* Every $ref of the document leads somewhere. */
static void check_refs(json_t *doc, json_t *v)
{
	const char *key;
	json_t *one;
	size_t i;

	for (i = 0; i < json_array_size(v); i++)
		check_refs(doc, json_array_get(v, i));
	if (!json_is_object(v))
		return;
	json_object_foreach(v, key, one)
	{
		if (strcmp(key, "$ref") == 0) {
			char text[200];
			char *rest = text + 2, *word;
			json_t *at = doc;

			(void)snprintf(text, sizeof(text), "%s", json_string_value(one));
			CHECK(strncmp(text, "#/", 2) == 0);
			while ((word = strsep(&rest, "/")))
				at = json_object_get(at, word);
			if (!CHECK(at != NULL))
				tap_print("# %s\n", json_string_value(one));
		} else {
			check_refs(doc, one);
		}
	}
}

static void references_lead_somewhere(void)
{
	json_t *doc = load();

	check_refs(doc, doc);
	json_decref(doc);
}

int main(void)
{
	RUN(every_route_is_in_the_document);
	RUN(everything_in_the_document_is_routed);
	RUN(references_lead_somewhere);
	return tap_done();
}
