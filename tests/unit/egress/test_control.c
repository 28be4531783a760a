/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/control.h"

#include "base/mem.h"
#include "tap.h"

#include <errno.h>
#include <string.h>

static void a_question_arrives_whole_or_not_yet(void)
{
	AUTO_BUF struct buf out = {.cap = CONTROL_MAX};
	struct control_message m = {0};
	struct err err = {0};
	size_t used = 0;

	CHECK(control_ask(&out, CONTROL_GONE, 7, json_pack("{s:s}", "id", "box1"), &err) == 0);
	for (size_t n = 0; n < buf_len(&out); n++)
		CHECK(control_next(buf_data(&out), n, &used, &m, &err) == 0);
	CHECK(control_next(buf_data(&out), buf_len(&out), &used, &m, &err) == 1);
	CHECK(used == buf_len(&out));
	CHECK(m.op == CONTROL_GONE && m.number == 7 && !m.is_answer);
	CHECK(strcmp(json_string_value(json_object_get(m.body, "id")), "box1") == 0);
	control_message_done(&m);
}

static void an_answer_carries_its_error(void)
{
	AUTO_BUF struct buf out = {.cap = CONTROL_MAX};
	struct control_message m = {0};
	struct err why = {0}, err = {0};
	size_t used = 0;

	(void)err_set(&why, ENOENT, "no box 'x'");
	CHECK(control_reply(&out, CONTROL_POLICY, 9, &why, NULL, &err) == 0);
	CHECK(control_next(buf_data(&out), buf_len(&out), &used, &m, &err) == 1);
	CHECK(m.is_answer && m.number == 9 && m.err.code == ENOENT);
	CHECK(strcmp(m.err.msg, "no box 'x'") == 0);
	control_message_done(&m);
}

static void what_is_no_message_is_refused(void)
{
	static const struct {
		const char *text;
		size_t n;
		int code;
	} bad[] = {
		{"\xff\xff\xff\xff", 4, E2BIG},
		{"\x01\x00\x00\x00x", 5, EBADMSG},
		{"\x02\x00\x00\x00[]", 6, EBADMSG},
		{"\x02\x00\x00\x00{}", 6, EBADMSG},
		{"\x1a\x00\x00\x00{\"op\":\"no\",\"n\":1,\"body\":{}}", 30, EBADMSG},
		{"\x1c\x00\x00\x00{\"op\":\"gone\",\"n\":-1,\"body\":1}", 32, EBADMSG},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct control_message m = {0};
		struct err err = {0};
		size_t used = 0;

		CHECK(control_next(bad[i].text, bad[i].n, &used, &m, &err) == -bad[i].code);
		CHECK(used == 0 && m.body == NULL);
	}
}

static void a_message_past_the_cap_is_not_sent(void)
{
	AUTO_BUF struct buf out = {.cap = 4 * CONTROL_MAX};
	AUTO_FREE char *long_text = mem_must(malloc(CONTROL_MAX + 2));
	struct err err = {0};

	memset(long_text, 'a', CONTROL_MAX + 1);
	long_text[CONTROL_MAX + 1] = '\0';
	CHECK(control_ask(&out, CONTROL_BOX, 1, json_pack("{s:s}", "policy", long_text), &err) ==
		-E2BIG);
	CHECK(buf_len(&out) == 0);
}

static void a_box_is_read_as_it_was_written(void)
{
	struct control_box b = {.id = "i1",
		.owner = "acme",
		.policy = "{\"x\":1}",
		.limits = "{}",
		.expires_ms = 99,
		.want_allowed = true};
	struct control_box got;
	struct err err = {0};
	json_t *body = control_box_json(&b);

	CHECK(control_box_get(body, &got, &err) == 0);
	CHECK(strcmp(got.id, "i1") == 0 && strcmp(got.owner, "acme") == 0);
	CHECK(strcmp(got.policy, b.policy) == 0 && strcmp(got.limits, "{}") == 0);
	CHECK(got.expires_ms == 99 && got.want_allowed);
	json_decref(body);
	body = json_pack("{s:s}", "id", "this-id-is-longer-than-any-id-may-ever-be");
	CHECK(control_box_get(body, &got, &err) == -EBADMSG);
	json_decref(body);
}

static void an_ask_is_read_as_it_was_written(void)
{
	struct egress_ask a = {.id = "a-1", .box = "b1", .note = "please", .expires_ms = 5}, got;
	struct err err = {0};
	json_t *body;

	a.what = (struct denial){.kind = DENIAL_ASK,
		.name = "example.com",
		.port = 443,
		.protocol = "https",
		.method = "GET",
		.path = "/x",
		.rule = "p/1"};
	body = control_ask_json(&a);
	CHECK(control_ask_get(body, &got, &err) == 0);
	CHECK(strcmp(got.id, a.id) == 0 && strcmp(got.box, a.box) == 0);
	CHECK(strcmp(got.note, "please") == 0 && got.expires_ms == 5);
	CHECK(got.what.kind == DENIAL_ASK && strcmp(got.what.name, "example.com") == 0);
	CHECK(got.what.port == 443 && strcmp(got.what.path, "/x") == 0);
	CHECK(strcmp(got.what.rule, "p/1") == 0);
	json_decref(body);
}

static void usage_and_totals_come_back(void)
{
	struct egress_usage u = {.name = "a.example",
		.port = 443,
		.bytes_up = 1,
		.bytes_down = 2,
		.requests = 3,
		.connections = 4,
		.denied = 5,
		.latency_us = 6,
		.latency_n = 7};
	struct egress_usage got = {0};
	struct egress_totals t = {.boxes = 1, .flows = 2, .intercepted = 3}, back = {0};
	json_t *body = control_usage_json(&u, 1);

	CHECK(control_usage_get(json_array_get(json_object_get(body, "usage"), 0), &got));
	CHECK(memcmp(&u, &got, sizeof(u)) == 0);
	json_decref(body);
	body = control_totals_json(&t);
	control_totals_get(body, &back);
	CHECK(back.boxes == 1 && back.flows == 2 && back.intercepted == 3 && back.denied == 0);
	json_decref(body);
}

static void verdicts_have_names(void)
{
	CHECK(control_verdict_parse("deny") == EGRESS_ASK_DENY);
	CHECK(control_verdict_parse("once") == EGRESS_ASK_ONCE);
	CHECK(control_verdict_parse("box") == EGRESS_ASK_BOX);
	CHECK(control_verdict_parse("always") == -1 && control_verdict_parse(NULL) == -1);
}

int main(void)
{
	RUN(a_question_arrives_whole_or_not_yet);
	RUN(an_answer_carries_its_error);
	RUN(what_is_no_message_is_refused);
	RUN(a_message_past_the_cap_is_not_sent);
	RUN(a_box_is_read_as_it_was_written);
	RUN(an_ask_is_read_as_it_was_written);
	RUN(usage_and_totals_come_back);
	RUN(verdicts_have_names);
	return tap_done();
}
