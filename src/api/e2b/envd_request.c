/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/envd_request - what a data-plane request says: JSON messages, headers, the user.
 *
 * JSON as protobuf reads it: null is absent, unknown fields are passed over, a number may be a
 * string.
 */
#include "api/e2b/base64.h"
#include "api/e2b/envd.h"
#include "base/text.h"

#include <string.h>
#include <strings.h>

json_t *envd_json(struct envd_call *c, const char *p, size_t n)
{
	json_error_t why;
	json_t *msg;

	if (c->dialect == ENVD_STREAM) {
		struct connect_frame f;
		ssize_t used = connect_frame_parse(p, n, ENVD_REQUEST_MAX, &f);

		if (used <= 0 || (size_t)used != n || f.flags != 0) {
			envd_fail(c, CONNECT_INVALID_ARGUMENT,
				"protocol error: the request must be one uncompressed message");
			return NULL;
		}
		p = f.p;
		n = f.n;
	}
	if (n == 0)
		return json_object();
	msg = json_loadb(p, n, JSON_REJECT_DUPLICATES, &why);
	if (!msg || !json_is_object(msg)) {
		json_decref(msg);
		envd_fail(c, CONNECT_INVALID_ARGUMENT, "unmarshal message: %s",
			msg ? "not an object" : why.text);
		return NULL;
	}
	return msg;
}

static json_t *member(json_t *o, const char *name)
{
	json_t *v = json_object_get(o, name);

	return json_is_null(v) ? NULL : v;
}

bool envd_get_string(json_t *o, const char *name, const char **ret)
{
	json_t *v = member(o, name);

	*ret = v ? json_string_value(v) : "";
	return *ret != NULL;
}

bool envd_get_bool(json_t *o, const char *name, bool def, bool *ret)
{
	json_t *v = member(o, name);

	*ret = v ? json_is_true(v) : def;
	return !v || json_is_boolean(v);
}

bool envd_get_u32(json_t *o, const char *name, uint32_t *ret)
{
	json_t *v = member(o, name);
	struct err err = {0};
	uint64_t n = 0;

	*ret = 0;
	if (!v)
		return true;
	if (json_is_string(v)) {
		if (text_parse_u64(json_string_value(v), name, 0, UINT32_MAX, &n, &err) < 0)
			return false;
	} else if (json_is_integer(v)) {
		if (json_integer_value(v) < 0 || json_integer_value(v) > UINT32_MAX)
			return false;
		n = (uint64_t)json_integer_value(v);
	} else {
		return false;
	}
	*ret = (uint32_t)n;
	return true;
}

bool envd_get_object(json_t *o, const char *name, json_t **ret)
{
	*ret = member(o, name);
	return !*ret || json_is_object(*ret);
}

bool envd_get_which(struct envd_call *c, json_t *msg, struct guest_which *ret)
{
	static char nothing[] = "";
	const char *tag = "";
	json_t *process;

	*ret = (struct guest_which){.key = nothing, .tag = nothing};
	if (!envd_get_object(msg, "process", &process) || !process ||
		!envd_get_u32(process, "pid", &ret->pid) ||
		!envd_get_string(process, "tag", &tag)) {
		envd_fail(
			c, CONNECT_INVALID_ARGUMENT, "process must be {\"pid\":…} or {\"tag\":…}");
		return false;
	}
	if (ret->pid == 0 && tag[0] == '\0') {
		envd_fail(c, CONNECT_NOT_FOUND, "process with pid 0 not found");
		return false;
	}
	/* Written to the guest and never changed; the codec's struct just has no const. */
	memcpy(&ret->tag, &tag, sizeof(tag));
	return true;
}

void envd_fail_which(struct envd_call *c, const struct guest_which *w)
{
	if (w->pid != 0)
		envd_fail(c, CONNECT_NOT_FOUND, "process with pid %u not found", w->pid);
	else
		envd_fail(c, CONNECT_NOT_FOUND, "process with tag %s not found", w->tag);
}

int envd_header_u64(const struct http_request *r, const char *name, uint64_t max, uint64_t *ret)
{
	const struct h1_field *f = h1_find(&r->head, name);
	struct err err = {0};
	char text[24];

	if (!f)
		return -ENOENT;
	if (f->value.n >= sizeof(text))
		return -EINVAL;
	memcpy(text, f->value.p, f->value.n);
	text[f->value.n] = '\0';
	return text_parse_u64(text, name, 0, max, ret, &err) < 0 ? -EINVAL : 0;
}

uint64_t envd_quiet_ms(const struct http_request *r)
{
	uint64_t seconds;

	if (envd_header_u64(r, "keepalive-ping-interval", 3600, &seconds) == 0 && seconds > 0)
		return seconds * 1000;
	return 90000;
}

bool envd_timeout_ms(struct envd_call *c, uint64_t *ret)
{
	/* Ten digits, says the protocol. */
	int r = envd_header_u64(c->r, "connect-timeout-ms", 9999999999, ret);

	if (r == -EINVAL) {
		envd_fail(c, CONNECT_INVALID_ARGUMENT, "invalid Connect-Timeout-Ms");
		return false;
	}
	if (r < 0)
		*ret = 0;
	return true;
}

bool envd_basic_user(const struct http_request *r, char out[ENVD_USER_MAX])
{
	const struct h1_field *f = h1_find(&r->head, "authorization");
	char text[BASE64_SIZE(2 * ENVD_USER_MAX) + 4];
	const char *colon;
	ssize_t n;

	out[0] = '\0';
	if (!f || f->value.n < 6 || strncasecmp(f->value.p, "basic ", 6) != 0)
		return true; /* upstream passes over other schemes too */
	if (f->value.n - 6 > BASE64_SIZE(2 * ENVD_USER_MAX))
		return false;
	n = base64_decode(text, f->value.p + 6, f->value.n - 6);
	if (n < 0)
		return true;
	colon = memchr(text, ':', (size_t)n);
	if (!colon)
		return true;
	if (colon - text >= ENVD_USER_MAX || memchr(text, '\0', (size_t)(colon - text)))
		return false;
	memcpy(out, text, (size_t)(colon - text));
	out[colon - text] = '\0';
	return true;
}
