/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fields of bodies and queries: typed, bounded, and named in the error. A field nobody knows is
 * an error too: a misspelt limit must not become no limit.
 */
#include "api/v1/v1.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

int v1_fields(json_t *body, const char *const *names, struct err *err)
{
	const char *key, *near;
	char quoted[80];
	size_t n = 0;
	json_t *v;

	while (names[n])
		n++;
	json_object_foreach(body, key, v)
	{
		size_t i = 0;

		while (i < n && strcmp(names[i], key) != 0)
			i++;
		if (i < n)
			continue;
		(void)err_set(
			err, EINVAL, "unknown field '%s'", text_quote(key, quoted, sizeof(quoted)));
		near = text_closest(key, names, n);
		return near ? err_hint(err, "did you mean '%s'?", near) : -EINVAL;
	}
	return 0;
}

/* The value, or NULL if it is absent or null. */
static json_t *value(json_t *o, const char *name)
{
	json_t *v = json_object_get(o, name);

	return json_is_null(v) ? NULL : v;
}

int v1_get_u64(json_t *o, const char *name, uint64_t max, uint64_t *ret, struct err *err)
{
	json_t *v = value(o, name);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return err_set(err, EINVAL, "'%s' must be a whole number", name);
	if ((uint64_t)json_integer_value(v) > max)
		return err_set(
			err, EINVAL, "'%s' must be at most %llu", name, (unsigned long long)max);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

int v1_get_bool(json_t *o, const char *name, bool *ret, struct err *err)
{
	json_t *v = value(o, name);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return err_set(err, EINVAL, "'%s' must be true or false", name);
	*ret = json_is_true(v);
	return 0;
}

int v1_get_string(json_t *o, const char *name, size_t max, const char **ret, struct err *err)
{
	json_t *v = value(o, name);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return err_set(err, EINVAL, "'%s' must be a string", name);
	if (json_string_length(v) > max)
		return err_set(err, EINVAL, "'%s' must be at most %zu bytes", name, max);
	*ret = json_string_value(v);
	return 0;
}

int v1_get_object(json_t *o, const char *name, json_t **ret, struct err *err)
{
	json_t *v = value(o, name);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return err_set(err, EINVAL, "'%s' must be an object", name);
	*ret = v;
	return 0;
}

int v1_get_strings(json_t *o, const char *name, json_t **ret, struct err *err)
{
	json_t *all = NULL, *v;
	const char *key;
	int r = v1_get_object(o, name, &all, err);

	if (r < 0 || !all)
		return r;
	json_object_foreach(all, key, v)
	{
		if (!json_is_string(v))
			return err_set(err, EINVAL, "'%s': every value must be a string", name);
	}
	*ret = all;
	return 0;
}

bool v1_query(const struct http_request *r, const char *name, const char *fallback, char *out,
	size_t size)
{
	struct h1_text raw;

	if (h1_query(r->query, name, &raw))
		return h1_unescape(raw.p, raw.n, true, out, size) >= 0;
	(void)snprintf(out, size, "%s", fallback);
	return true;
}

int v1_query_u64(const struct http_request *r, const char *name, uint64_t max, uint64_t *ret,
	struct err *err)
{
	char text[32];
	struct h1_text raw;

	if (!h1_query(r->query, name, &raw))
		return 0;
	if (h1_unescape(raw.p, raw.n, true, text, sizeof(text)) < 0)
		return err_set(err, EINVAL, "'%s' is not a number", name);
	return text_parse_u64(text, name, 0, max, ret, err);
}

size_t v1_accepts(const struct http_request *r, const char *const *types)
{
	const struct h1_field *f = h1_find(&r->head, "Accept");
	struct h1_text rest = f ? f->value : (struct h1_text){"", 0};

	while (rest.n > 0) {
		const char *comma = memchr(rest.p, ',', rest.n);
		size_t n = comma ? (size_t)(comma - rest.p) : rest.n;
		struct h1_text one = {rest.p, n};
		const char *semicolon = memchr(one.p, ';', n);

		if (semicolon)
			one.n = (size_t)(semicolon - one.p);
		while (one.n > 0 && *one.p == ' ')
			one.p++, one.n--;
		while (one.n > 0 && one.p[one.n - 1] == ' ')
			one.n--;
		for (size_t i = 0; types[i]; i++)
			if (h1_is_nocase(one, types[i]))
				return i;
		rest.p += comma ? n + 1 : n;
		rest.n -= comma ? n + 1 : n;
	}
	return 0;
}
