/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/call.h"

#include "base/mem.h"
#include "base/text.h"

#include <string.h>

static void gone(struct http_request *r)
{
	struct e2b_call *c = r->state;

	if (c->is_busy)
		c->r = NULL;
	else
		(void)call_free(c);
}

struct e2b_call *call_create(
	struct api *a, struct http_request *r, const struct route_match *m, bool is_v2)
{
	struct e2b_call *c = MEM_NEW(struct e2b_call);

	c->api = a;
	c->r = r;
	c->who = m->caller;
	c->is_v2 = is_v2;
	/* One that does not fit is nobody's: "" is not found either. */
	if (m->params_n > 0 && strlen(m->params[0]) < sizeof(c->id))
		(void)snprintf(c->id, sizeof(c->id), "%.*s", (int)sizeof(c->id) - 1, m->params[0]);
	r->state = c;
	r->gone = gone;
	return c;
}

struct e2b_call *call_free(struct e2b_call *c)
{
	free(c);
	return NULL;
}

void call_busy(struct e2b_call *c)
{
	c->is_busy = true;
}

/* The request, for the last word; the call is gone. */
static struct http_request *last_word(struct e2b_call *c)
{
	struct http_request *r = c->r;

	(void)call_free(c);
	if (r) {
		r->state = NULL;
		r->gone = NULL;
	}
	return r;
}

void call_reply(struct e2b_call *c, int status, json_t *take_body)
{
	struct http_request *r = last_word(c);

	if (!r)
		json_decref(take_body);
	else if (take_body)
		api_reply_json(r, status, take_body);
	else
		http_reply(r, status, NULL, NULL, 0);
}

void call_reply_err(struct e2b_call *c, const struct err *err)
{
	struct http_request *r = last_word(c);

	if (r)
		api_reply_err(r, err);
}

struct sandbox *e2b_find(struct api *a, const char *tenant, const char *id)
{
	struct sandbox *sb = sandbox_by_id(a, id);

	return sb && strcmp(sb->row.tenant, tenant) == 0 ? sb : NULL;
}

void e2b_not_found(struct http_request *r, const char *id)
{
	char quoted[80];

	api_reply_error(r, 404, "not_found", NULL, "sandbox \"%s\" not found",
		text_quote(id, quoted, sizeof(quoted)));
}

static json_t *field(json_t *body, const char *name)
{
	json_t *v = json_object_get(body, name);

	return json_is_null(v) ? NULL : v;
}

int field_string(json_t *body, const char *name, const char **ret, struct err *err)
{
	json_t *v = field(body, name);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return err_set(err, EINVAL, "%s must be a string", name);
	*ret = json_string_value(v);
	return 1;
}

int field_bool(json_t *body, const char *name, bool *ret, struct err *err)
{
	json_t *v = field(body, name);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return err_set(err, EINVAL, "%s must be true or false", name);
	*ret = json_is_true(v);
	return 1;
}

int field_integer(json_t *body, const char *name, int64_t *ret, struct err *err)
{
	json_t *v = field(body, name);

	if (!v)
		return 0;
	if (!json_is_integer(v))
		return err_set(err, EINVAL, "%s must be an integer", name);
	*ret = json_integer_value(v);
	return 1;
}

int field_object(json_t *body, const char *name, json_t **ret, struct err *err)
{
	json_t *v = field(body, name);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return err_set(err, EINVAL, "%s must be an object", name);
	*ret = v;
	return 1;
}

int field_strings(json_t *body, const char *name, json_t **ret, struct err *err)
{
	json_t *v = field(body, name), *entry;
	size_t i;

	if (!v)
		return 0;
	if (!json_is_array(v))
		return err_set(err, EINVAL, "%s must be an array of strings", name);
	json_array_foreach(v, i, entry) if (!json_is_string(entry)) return err_set(
		err, EINVAL, "%s must be an array of strings", name);
	*ret = v;
	return 1;
}

int field_timeout(struct api *a, json_t *body, const char *name, uint64_t *ret_ms, struct err *err)
{
	int64_t max_s = (int64_t)(a->config.ttl_max_ms / 1000), s = 0;
	int r = field_integer(body, name, &s, err);

	if (r <= 0)
		return r;
	if (s <= 0)
		return err_set(err, EINVAL, "%s must be greater than 0", name);
	if (s > max_s)
		return err_set(err, EINVAL, "%s cannot be greater than %lld seconds", name,
			(long long)max_s);
	*ret_ms = (uint64_t)s * 1000;
	return 1;
}
