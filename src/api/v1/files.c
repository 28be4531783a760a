/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Files of a sandbox, the questions with one answer: stat, list, move, mkdir, remove; and ports.
 *
 * Paths are as the guest takes them: absolute, ~ or relative to the user's home; resolved inside.
 */
#include "api/v1/files.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

#define LIST_MAX  (4u << 20) /* bytes of names a guest may send */
#define DEPTH_MAX 64

int v1_file_target(const struct http_request *r, struct v1_file_target *ret, struct err *err)
{
	if (!v1_query(r, "path", "", ret->path, sizeof(ret->path)))
		return err_set(err, EINVAL, "'path' is malformed or longer than 4095 bytes");
	if (!*ret->path)
		return err_set(err, EINVAL, "'path' is missing");
	if (!v1_query(r, "user", "", ret->user, sizeof(ret->user)))
		return err_set(err, EINVAL, "'user' is malformed");
	return 0;
}

/* The sandbox, and user and path at the head of the question; NULL: it was answered. */
static struct sandbox *by_query(
	struct api *a, struct http_request *r, const struct route_match *m, struct ask **ret)
{
	struct sandbox *sb = v1_sandbox(a, r, &m->caller, m->params[0]);
	struct v1_file_target t;
	struct err err = {0};

	if (!sb)
		return NULL;
	if (v1_file_target(r, &t, &err) < 0) {
		api_reply_err(r, &err);
		return NULL;
	}
	*ret = ask_new(a, r, m);
	frame_put_string(&(*ret)->body, t.user);
	frame_put_string(&(*ret)->body, t.path);
	return sb;
}

static bool one_entry(struct ask *k, uint16_t kind, struct frame_reader *b)
{
	struct guest_entry e = {0};
	bool is_good = kind == MSG_ENTRY && !k->answer && guest_entry_get(b, &e) && frame_ok(b);

	if (is_good)
		k->answer = v1_entry_json(&e);
	guest_entry_done(&e);
	return is_good;
}

static bool add_entry(struct ask *k, uint16_t kind, struct frame_reader *b)
{
	struct guest_entry e = {0};
	bool is_good = kind == MSG_ENTRY && guest_entry_get(b, &e) && frame_ok(b);

	if (is_good) {
		k->size += strlen(e.name) + strlen(e.path) + 300;
		(void)json_array_append_new(
			json_object_get(k->answer, "entries"), v1_entry_json(&e));
	}
	guest_entry_done(&e);
	k->is_too_large = k->size > LIST_MAX;
	return is_good && !k->is_too_large;
}

void v1_file_stat(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct ask *k = NULL;
	struct sandbox *sb = by_query(a, r, m, &k);

	if (sb)
		ask_guest(k, sb, GUEST_STAT, one_entry, ask_answer);
}

void v1_file_list(struct api *a, struct http_request *r, const struct route_match *m)
{
	uint64_t depth = 1;
	struct err err = {0};
	struct ask *k = NULL;
	struct sandbox *sb;

	if (v1_query_u64(r, "depth", DEPTH_MAX, &depth, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	sb = by_query(a, r, m, &k);
	if (!sb)
		return;
	frame_put_u32(&k->body, depth ? (uint32_t)depth : 1);
	k->answer = json_pack("{s:[]}", "entries");
	ask_guest(k, sb, GUEST_LIST, add_entry, ask_answer);
}

static void record(struct ask *k, const char *action, const struct err *err)
{
	struct sandbox *sb = sandbox_find(k->api, k->who.tenant, k->params[0]);

	if (sb)
		sandbox_event(sb, k->who.actor, action, err ? api_code(err->code) : "ok", NULL);
}

static void removed(struct ask *k, const struct err *err)
{
	record(k, "file.remove", err);
	ask_answer(k, err);
}

void v1_file_remove(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct ask *k = NULL;
	struct sandbox *sb = by_query(a, r, m, &k);

	if (sb)
		ask_guest(k, sb, GUEST_REMOVE, NULL, removed);
}

static void made(struct ask *k, const struct err *err)
{
	if (err)
		ask_fail(k, err);
	else
		ask_reply(k, 201, TAKE_PTR(k->answer));
}

static void mkdir_or_move(struct ask *k, json_t *body, bool is_move)
{
	static const char *const move_names[] = {"from", "to", "user", NULL};
	static const char *const mkdir_names[] = {"path", "user", NULL};
	struct sandbox *sb = ask_sandbox(k);
	const char *from = "", *to = "", *user = "";
	struct err err = {0};
	int r;

	if (!sb)
		return;
	r = v1_fields(body, is_move ? move_names : mkdir_names, &err);
	if (r == 0)
		r = v1_get_string(body, "user", 255, &user, &err);
	if (r == 0)
		r = v1_get_string(body, is_move ? "from" : "path", GUEST_PATH_MAX - 1, &from, &err);
	if (r == 0)
		r = v1_get_string(body, "to", GUEST_PATH_MAX - 1, &to, &err);
	if (r == 0 && (!*from || (is_move && !*to)))
		r = err_set(
			&err, EINVAL, is_move ? "'from' and 'to' are needed" : "'path' is needed");
	if (r < 0) {
		ask_fail(k, &err);
		return;
	}
	frame_put_string(&k->body, user);
	frame_put_string(&k->body, from);
	if (is_move)
		frame_put_string(&k->body, to);
	ask_guest(
		k, sb, is_move ? GUEST_MOVE : GUEST_MKDIR, one_entry, is_move ? ask_answer : made);
}

static void make_dir(struct ask *k, json_t *body)
{
	mkdir_or_move(k, body, false);
}

static void move(struct ask *k, json_t *body)
{
	mkdir_or_move(k, body, true);
}

void v1_file_mkdir(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), make_dir);
}

void v1_file_move(struct api *a, struct http_request *r, const struct route_match *m)
{
	ask_json(ask_new(a, r, m), move);
}

/* ---- a port inside: is it open, and how is it reached ---- */

static bool port_open(struct ask *k, uint16_t kind, struct frame_reader *b)
{
	if (kind != MSG_OK || !frame_ok(b))
		return false;
	(void)json_object_set_new(k->answer, "open", json_true());
	/* That was all we wanted to know. */
	ask_reply(k, 200, TAKE_PTR(k->answer));
	return true;
}

static void port_closed(struct ask *k, const struct err *err)
{
	if (err && err->code != ECONNREFUSED)
		ask_fail(k, err);
	else
		ask_reply(k, 200, TAKE_PTR(k->answer));
}

void v1_port_get(struct api *a, struct http_request *r, const struct route_match *m)
{
	struct sandbox *sb = v1_sandbox(a, r, &m->caller, m->params[0]);
	AUTO_FREE char *host = NULL;
	uint64_t port = 0;
	struct err err = {0};
	struct ask *k;

	if (!sb)
		return;
	if (text_parse_u64(m->params[1], "port", 1, 65535, &port, &err) < 0) {
		api_reply_err(r, &err);
		return;
	}
	if (a->config.domain)
		host = text_format("%u-%s.%s", (unsigned)port, sb->row.id, a->config.domain);
	k = ask_new(a, r, m);
	k->answer = json_pack("{s:i, s:b, s:s?, s:{s:s, s:s}, s:b}", "port", (int)port, "open",
		false, "host", host, "headers", "E2b-Sandbox-Id", sb->row.id, "E2b-Sandbox-Port",
		m->params[1], "needs_token", sb->row.traffic_token[0] != '\0');
	frame_put_u16(&k->body, (uint16_t)port);
	ask_guest(k, sb, GUEST_PORT, port_open, port_closed);
}
