/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cli/remote/call - whole questions and answers over cli/remote/client, and the sandbox of a name.
 */
#include "base/mem.h"
#include "cli/remote/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MAX (64u << 20)

struct call {
	int status;
	struct buf body;
	struct err err;
	bool is_done, is_too_long;
};

static void on_head(void *arg, int status, const struct h1_head *head)
{
	struct call *c = arg;

	(void)head;
	c->status = status;
}

static void on_data(void *arg, const char *p, size_t n)
{
	struct call *c = arg;

	if (buf_add(&c->body, p, n) < 0)
		c->is_too_long = true;
}

static void on_end(void *arg, const struct err *err)
{
	struct call *c = arg;

	c->err = *err;
	c->is_done = true;
}

/* Control bytes, C1 ones included, become '?': they could drive the terminal. */
const char *client_clean(const char *s, char *out, size_t size)
{
	size_t n = 0;

	for (; *s && n + 1 < size; s++) {
		unsigned char c = (unsigned char)*s;
		bool is_c1 = c == 0xc2 && (unsigned char)s[1] < 0xa0;

		out[n++] = c < 0x20 || c == 0x7f || is_c1 ? '?' : *s;
	}
	out[n] = '\0';
	return out;
}

/* Whatever error shape: Connect's, E2B's, ours. The server's words are quoted, not trusted. */
int client_refused(int status, const char *body, size_t n, struct err *err)
{
	json_t *j = json_loadb(body, n, 0, NULL);
	const json_t *inner = json_object_get(j, "error");
	const json_t *from = json_is_object(inner) ? inner : j;
	const char *text = json_string_value(json_object_get(from, "message"));
	const char *next = json_string_value(json_object_get(from, "next"));
	char said[300], todo[160];
	int code = status == 404   ? ENOENT
		   : status == 401 ? EACCES
		   : status == 403 ? EPERM
		   : status == 409 ? EEXIST
		   : status == 504 ? ETIMEDOUT
				   : EIO;

	if (text)
		(void)err_set(err, code, "%s", client_clean(text, said, sizeof(said)));
	else
		(void)err_set(err, code, "the server answered %d", status);
	/* For people at a shell the way to give a key is another than for programs. */
	if (status == 401)
		(void)err_hint(
			err, "give one with --key or $BAWN_API_KEY; 'bawn key create' makes one");
	else if (next)
		(void)err_hint(err, "%s", client_clean(next, todo, sizeof(todo)));
	json_decref(j);
	return -code;
}

int client_call(struct client *c, const struct client_request *r, int *ret_status, json_t **ret,
	struct err *err)
{
	static const struct client_events events = {on_head, on_data, NULL, on_end};
	struct call call = {.body = {.cap = ANSWER_MAX}};
	struct client_stream *s = NULL;
	int q = client_start(c, r, &events, &call, &s, err);

	while (q >= 0 && !call.is_done)
		q = loop_once(client_loop(c), -1, err);
	if (q >= 0 && call.err.code) {
		*err = call.err;
		q = -err->code;
	}
	if (q >= 0 && call.is_too_long)
		q = err_set(err, E2BIG, "the server's answer is too long");
	if (q >= 0 && ret_status)
		*ret_status = call.status;
	if (q >= 0 && (call.status < 200 || call.status > 299))
		q = client_refused(call.status, buf_data(&call.body), buf_len(&call.body), err);
	if (q >= 0 && ret) {
		*ret = buf_len(&call.body) == 0
			       ? NULL
			       : json_loadb(buf_data(&call.body), buf_len(&call.body), 0, NULL);
		if (!*ret && buf_len(&call.body) > 0)
			q = err_set(err, EPROTO, "the server's answer is not JSON");
	}
	buf_done(&call.body);
	return q < 0 ? q : 0;
}

int client_json(struct client *c, const char *method, const char *path, json_t *take_body,
	json_t **ret, struct err *err)
{
	AUTO_FREE char *text = take_body ? json_dumps(take_body, JSON_COMPACT) : NULL;
	struct client_request r = {.method = method,
		.path = path,
		.type = text ? "application/json" : NULL,
		.body = text,
		.body_n = text ? strlen(text) : 0};

	json_decref(take_body);
	return client_call(c, &r, NULL, ret, err);
}

char *client_escape(const char *s)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~";
	char *out = (char *)mem_must(malloc(strlen(s) * 3 + 1));
	size_t n = 0;

	for (; *s; s++) {
		if (strchr(plain, *s))
			out[n++] = *s;
		else
			n += (size_t)snprintf(out + n, 4, "%%%02X", (unsigned char)*s);
	}
	out[n] = '\0';
	return out;
}

static char *text_of(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return mem_strdup(s ? s : "");
}

/* It is printed as well, and part of paths. */
static bool is_id(const char *s)
{
	return *s &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")] ==
		       '\0';
}

int client_box_find(struct client *c, const char *which, struct client_box *ret, struct err *err)
{
	AUTO_FREE char *escaped = client_escape(which);
	AUTO_FREE char *path = text_format("/v1/sandboxes/%s", escaped);
	json_t *j = NULL;
	int r = *which ? client_json(c, "GET", path, NULL, &j, err)
		       : err_set(err, EINVAL, "a sandbox's name is empty");

	if (r < 0)
		return r;
	*ret = (struct client_box){.detail = j,
		.id = text_of(j, "id"),
		.name = text_of(j, "name"),
		.token = text_of(j, "access_token")};
	(void)snprintf(ret->fields_id, sizeof(ret->fields_id), "E2b-Sandbox-Id: %.40s", ret->id);
	(void)snprintf(ret->fields_port, sizeof(ret->fields_port), "E2b-Sandbox-Port: 49983");
	(void)snprintf(
		ret->fields_token, sizeof(ret->fields_token), "X-Access-Token: %.64s", ret->token);
	/* They go into a head: a server that lies here must not get to write our fields. */
	if (!is_id(ret->id) || !h1_is_value(ret->token, strlen(ret->token))) {
		client_box_done(ret);
		return err_set(err, EPROTO, "the server's answer about '%s' makes no sense", which);
	}
	return 0;
}

int client_box_live(struct client *c, const char *which, struct client_box *ret, struct err *err)
{
	int r = client_box_find(c, which, ret, err);
	const char *state;

	if (r < 0)
		return r;
	state = json_string_value(json_object_get(ret->detail, "state"));
	if (!state || strcmp(state, "running") == 0)
		return 0;
	r = err_set(err, ESRCH, "sandbox '%s' is %.20s", ret->id, state);
	client_box_done(ret);
	return r;
}

void client_box_done(struct client_box *b)
{
	free(b->id);
	free(b->name);
	free(b->token);
	json_decref(b->detail);
	*b = (struct client_box){0};
}

void client_box_fields(const struct client_box *b, const char *more, const char *out[6])
{
	size_t n = 0;

	out[n++] = b->fields_id;
	out[n++] = b->fields_port;
	out[n++] = "Connect-Protocol-Version: 1";
	if (*b->token)
		out[n++] = b->fields_token;
	if (more && *more)
		out[n++] = more;
	out[n] = NULL;
}

int client_box_rpc(struct client *c, const struct client_box *b, const char *method,
	json_t *take_body, json_t **ret, struct err *err)
{
	AUTO_FREE char *text = json_dumps(take_body, JSON_COMPACT);
	AUTO_FREE char *path = text_format("/%s", method);
	const char *fields[6];
	struct client_request r = {.method = "POST",
		.path = path,
		.fields = fields,
		.type = "application/json",
		.body = text,
		.body_n = text ? strlen(text) : 0};

	json_decref(take_body);
	if (!text)
		return err_set(err, EINVAL, "a name that is not UTF-8 cannot be sent");
	client_box_fields(b, NULL, fields);
	return client_call(c, &r, NULL, ret, err);
}
