/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/control.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
	[CONTROL_BOX] = "box",
	[CONTROL_SYNC] = "sync",
	[CONTROL_GONE] = "gone",
	[CONTROL_POLICY] = "policy",
	[CONTROL_INFO] = "info",
	[CONTROL_ANSWER] = "answer",
	[CONTROL_USAGE] = "usage",
	[CONTROL_TOTALS] = "totals",
	[CONTROL_SEAL] = "seal",
	[CONTROL_SECRET] = "secret",
	[CONTROL_FORGET] = "forget",
	[CONTROL_DENIED] = "denied",
	[CONTROL_ASKED] = "asked",
	[CONTROL_ASK_OVER] = "ask_over",
	[CONTROL_ALLOWED] = "allowed",
	[CONTROL_LOST] = "lost",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == CONTROL_OP_COUNT, "every op has its name");

static const char *const verdicts[] = {
	[EGRESS_ASK_DENY] = "deny",
	[EGRESS_ASK_ONCE] = "once",
	[EGRESS_ASK_BOX] = "box",
};

const char *control_op_name(enum control_op op)
{
	return names[op];
}

const char *control_verdict_name(enum egress_ask_verdict v)
{
	return verdicts[v];
}

int control_verdict_parse(const char *s)
{
	for (int i = 0; i < (int)(sizeof(verdicts) / sizeof(verdicts[0])); i++)
		if (s && strcmp(s, verdicts[i]) == 0)
			return i;
	return -1;
}

void control_message_done(struct control_message *m)
{
	json_decref(m->body);
	m->body = NULL;
}

/* ---- frames ---- */

static int add(struct buf *out, json_t *take, struct err *err)
{
	AUTO_FREE char *text = take ? json_dumps(take, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0;
	unsigned char header[CONTROL_HEADER];
	char *room;

	json_decref(take);
	if (!text)
		return err_set(err, EINVAL, "control: a message that is no JSON");
	if (n > CONTROL_MAX)
		return err_set(err, E2BIG, "control: a message of %zu bytes", n);
	for (size_t i = 0; i < CONTROL_HEADER; i++)
		header[i] = (unsigned char)(n >> (8 * i));
	/* Both or none: a header without its text would be the end of the connection. */
	room = buf_reserve(out, CONTROL_HEADER + n);
	if (!room)
		return err_set(err, E2BIG, "control: too much waits to be sent");
	memcpy(room, header, CONTROL_HEADER);
	memcpy(room + CONTROL_HEADER, text, n);
	buf_commit(out, CONTROL_HEADER + n);
	return 0;
}

static json_t *envelope(enum control_op op, uint64_t number, json_t *take_body)
{
	return json_pack("{s:s, s:I, s:o}", "op", names[op], "n", (json_int_t)number, "body",
		take_body ? take_body : json_object());
}

int control_ask(
	struct buf *out, enum control_op op, uint64_t number, json_t *take_body, struct err *err)
{
	return add(out, envelope(op, number, take_body), err);
}

int control_event(struct buf *out, enum control_op op, json_t *take_body, struct err *err)
{
	return add(out, envelope(op, 0, take_body), err);
}

int control_reply(struct buf *out, enum control_op op, uint64_t number, const struct err *why,
	json_t *take_body, struct err *err)
{
	json_t *m = envelope(op, number, take_body);

	if (m)
		(void)json_object_set_new(m, "code", json_integer(why ? why->code : 0));
	if (m && why && why->code) {
		json_t *text = json_string(why->msg); /* NULL: not UTF-8, cut in the middle */

		(void)json_object_set_new(m, "error", text ? text : json_string("failed"));
	}
	return add(out, m, err);
}

static int bad(struct err *err, const char *what)
{
	return err_set(err, EBADMSG, "control: %s", what);
}

static int read_answer(const json_t *m, struct control_message *ret, struct err *err)
{
	const json_t *code = json_object_get(m, "code");
	const char *text = json_string_value(json_object_get(m, "error"));

	if (!code)
		return 0;
	if (!json_is_integer(code) || json_integer_value(code) < 0 ||
		json_integer_value(code) > 4095)
		return bad(err, "'code' is not an errno");
	ret->is_answer = true;
	ret->err.code = (int)json_integer_value(code);
	(void)snprintf(ret->err.msg, sizeof(ret->err.msg), "%.*s", (int)sizeof(ret->err.msg) - 1,
		text ? text : "");
	return 0;
}

static int read_message(const json_t *m, struct control_message *ret, struct err *err)
{
	const char *op = json_string_value(json_object_get(m, "op"));
	const json_t *n = json_object_get(m, "n");
	json_t *body = json_object_get(m, "body");
	int i = 0;

	while (op && i < CONTROL_OP_COUNT && strcmp(op, names[i]) != 0)
		i++;
	if (!op || i == CONTROL_OP_COUNT)
		return bad(err, "'op' is none of ours");
	if (!json_is_integer(n) || json_integer_value(n) < 0)
		return bad(err, "'n' is no number");
	if (!json_is_object(body))
		return bad(err, "'body' is no object");
	*ret = (struct control_message){
		.op = (enum control_op)i, .number = (uint64_t)json_integer_value(n)};
	if (read_answer(m, ret, err) < 0)
		return -err->code;
	ret->body = json_incref(body);
	return 1;
}

int control_next(
	const char *p, size_t n, size_t *ret_used, struct control_message *ret, struct err *err)
{
	size_t size = 0;
	json_t *m;
	int r;

	if (n < CONTROL_HEADER)
		return 0;
	for (size_t i = 0; i < CONTROL_HEADER; i++)
		size |= (size_t)(unsigned char)p[i] << (8 * i);
	if (size > CONTROL_MAX)
		return err_set(err, E2BIG, "control: a message of %zu bytes", size);
	if (n - CONTROL_HEADER < size)
		return 0;
	m = json_loadb(p + CONTROL_HEADER, size, JSON_REJECT_DUPLICATES, NULL);
	r = json_is_object(m) ? read_message(m, ret, err) : bad(err, "no JSON object");
	json_decref(m);
	if (r > 0)
		*ret_used = CONTROL_HEADER + size;
	return r;
}

/* ---- bodies ---- */

int control_string(const json_t *body, const char *name, const char **ret, struct err *err)
{
	const json_t *v = json_object_get(body, name);

	if (!json_is_string(v))
		return err_set(err, EBADMSG, "control: '%s' is no string", name);
	*ret = json_string_value(v);
	return 0;
}

static uint64_t number(const json_t *o, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(o, name));

	return n < 0 ? 0 : (uint64_t)n;
}

/* Copy a string field that may be missing; false: it does not fit. */
static bool copy(const json_t *o, const char *name, char *out, size_t size)
{
	const char *s = json_string_value(json_object_get(o, name));
	int n = snprintf(out, size, "%s", s ? s : "");

	return n >= 0 && (size_t)n < size;
}

json_t *control_box_json(const struct control_box *b)
{
	return json_pack("{s:s, s:s, s:s*, s:s*, s:I, s:b}", "id", b->id, "owner",
		b->owner ? b->owner : "", "policy", b->policy, "limits", b->limits, "expires_ms",
		(json_int_t)b->expires_ms, "want_allowed", b->want_allowed);
}

int control_box_get(const json_t *body, struct control_box *ret, struct err *err)
{
	const char *owner = json_string_value(json_object_get(body, "owner"));
	const char *id = "";
	int r = control_string(body, "id", &id, err);

	if (r < 0)
		return r;
	if (!*id || strlen(id) >= EGRESS_ID_MAX)
		return bad(err, "'id' is no id");
	*ret = (struct control_box){
		.id = id,
		.owner = owner ? owner : "",
		.policy = json_string_value(json_object_get(body, "policy")),
		.limits = json_string_value(json_object_get(body, "limits")),
		.expires_ms = number(body, "expires_ms"),
		.want_allowed = json_is_true(json_object_get(body, "want_allowed")),
	};
	return 0;
}

static json_t *record_of(const struct denial *d)
{
	AUTO_FREE char *text = denial_record_json(d);
	json_t *o = text ? json_loads(text, 0, NULL) : NULL;

	return o ? o : json_object();
}

static int record_get(const json_t *o, struct denial *ret, struct err *err)
{
	AUTO_FREE char *text = json_is_object(o) ? json_dumps(o, JSON_COMPACT) : NULL;

	if (!text)
		return bad(err, "'denial' is no object");
	return denial_from_json(text, strlen(text), ret, err) < 0 ? bad(err, "'denial' is none")
								  : 0;
}

json_t *control_denial_json(const char *id, const struct denial *d)
{
	return json_pack("{s:s, s:o}", "id", id, "denial", record_of(d));
}

int control_denial_get(const json_t *body, const char **ret_id, struct denial *ret, struct err *err)
{
	int r = control_string(body, "id", ret_id, err);

	return r < 0 ? r : record_get(json_object_get(body, "denial"), ret, err);
}

json_t *control_allowed_json(const char *id, const struct denial *d, uint64_t up, uint64_t down)
{
	json_t *o = control_denial_json(id, d);

	if (o) {
		(void)json_object_set_new(o, "up", json_integer((json_int_t)up));
		(void)json_object_set_new(o, "down", json_integer((json_int_t)down));
	}
	return o;
}

int control_allowed_get(const json_t *body, const char **ret_id, struct denial *ret,
	uint64_t *ret_up, uint64_t *ret_down, struct err *err)
{
	int r = control_denial_get(body, ret_id, ret, err);

	if (r < 0)
		return r;
	*ret_up = number(body, "up");
	*ret_down = number(body, "down");
	return 0;
}

json_t *control_ask_json(const struct egress_ask *a)
{
	json_t *note = json_string(a->note);

	return json_pack("{s:s, s:s, s:o, s:o, s:I}", "ask", a->id, "id", a->box, "denial",
		record_of(&a->what), "note", note ? note : json_string(""), "expires_ms",
		(json_int_t)a->expires_ms);
}

int control_ask_get(const json_t *body, struct egress_ask *ret, struct err *err)
{
	struct egress_ask a = {.expires_ms = number(body, "expires_ms")};

	if (!copy(body, "ask", a.id, sizeof(a.id)) || !a.id[0])
		return bad(err, "'ask' is no id");
	if (!copy(body, "id", a.box, sizeof(a.box)) || !a.box[0])
		return bad(err, "'id' is no id");
	if (!copy(body, "note", a.note, sizeof(a.note)))
		return bad(err, "'note' is too long");
	if (record_get(json_object_get(body, "denial"), &a.what, err) < 0)
		return -err->code;
	*ret = a;
	return 0;
}

json_t *control_usage_json(const struct egress_usage *u, size_t n)
{
	json_t *all = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(all,
			json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "host",
				u[i].name, "port", (int)u[i].port, "up", (json_int_t)u[i].bytes_up,
				"down", (json_int_t)u[i].bytes_down, "requests",
				(json_int_t)u[i].requests, "connections",
				(json_int_t)u[i].connections, "denied", (json_int_t)u[i].denied,
				"latency_us", (json_int_t)u[i].latency_us, "latency_n",
				(json_int_t)u[i].latency_n));
	return json_pack("{s:o}", "usage", all);
}

bool control_usage_get(const json_t *e, struct egress_usage *ret)
{
	struct egress_usage u = {
		.bytes_up = number(e, "up"),
		.bytes_down = number(e, "down"),
		.requests = number(e, "requests"),
		.connections = number(e, "connections"),
		.denied = number(e, "denied"),
		.latency_us = number(e, "latency_us"),
		.latency_n = number(e, "latency_n"),
	};

	if (!json_is_object(e) || !copy(e, "host", u.name, sizeof(u.name)) ||
		number(e, "port") > UINT16_MAX)
		return false;
	u.port = (uint16_t)number(e, "port");
	*ret = u;
	return true;
}

/* The fields of struct egress_totals, once for both directions. */
#define TOTALS(X)                                                                                  \
	X(boxes)                                                                                   \
	X(flows)                                                                                   \
	X(bytes_up)                                                                                \
	X(bytes_down)                                                                              \
	X(requests) X(connections) X(denied) X(asks) X(minted) X(lookups) X(intercepted)

json_t *control_totals_json(const struct egress_totals *t)
{
	json_t *o = json_object();

#define PUT(name) (void)json_object_set_new(o, #name, json_integer((json_int_t)t->name));
	TOTALS(PUT)
#undef PUT
	return json_pack("{s:o}", "totals", o);
}

void control_totals_get(const json_t *body, struct egress_totals *ret)
{
	const json_t *o = json_object_get(body, "totals");

#define GET(name) ret->name = number(o, #name);
	TOTALS(GET)
#undef GET
}
