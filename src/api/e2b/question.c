/* SPDX-License-Identifier: Apache-2.0 */

#include "api/e2b/question.h"

#include "base/mem.h"

#include <string.h>
#include <strings.h>

static struct question *of(struct envd_call *c)
{
	return (struct question *)c;
}

bool envd_is_type(struct http_request *r, const char *type)
{
	const struct h1_field *f = h1_find(&r->head, "content-type");
	size_t n = strlen(type);

	if (f && f->value.n >= n && strncasecmp(f->value.p, type, n) == 0 &&
		(f->value.n == n || f->value.p[n] == ';' || f->value.p[n] == ' '))
		return true;
	http_field(r, "Accept-Post", type);
	http_reply(r, 415, NULL, NULL, 0);
	return false;
}

const struct envd_question *envd_question_find(struct h1_text path)
{
	static const struct envd_question *const tables[] = {
		process_questions, filesystem_questions};

	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (const struct envd_question *q = tables[t]; q->path; q++)
			if (h1_is(path, q->path))
				return q;
	return NULL;
}

bool envd_question_bad(struct question *q, const char *field)
{
	envd_fail(&q->call, CONNECT_INVALID_ARGUMENT, "unmarshal message: invalid value for '%s'",
		field);
	return false;
}

static void ask(struct question *q, json_t *msg)
{
	struct frame_writer w = {0};

	(void)buf_add(&q->out, q->what->before, strlen(q->what->before));
	if (!q->what->ask || q->what->ask(q, msg, &w))
		(void)envd_ask(&q->call, q->what->kind, &w, ENVD_ASK_ONLY);
	buf_done(&w.buf);
}

static void linked(struct envd_call *c)
{
	json_t *msg;

	if (c->dialect == ENVD_PLAIN) {
		ask(of(c), NULL);
		return;
	}
	msg = envd_json(c, buf_data(&c->body), buf_len(&c->body));
	if (msg)
		ask(of(c), msg);
	json_decref(msg);
}

static void body(struct envd_call *c, const char *p, size_t n)
{
	(void)p;
	(void)n;
	envd_call_link(c);
}

static void message(struct envd_call *c, uint16_t kind, struct frame_reader *reader)
{
	struct question *q = of(c);
	size_t before = buf_len(&q->out);

	if (!q->what->answer)
		return;
	if ((q->what->is_single && q->answers > 0) || !q->what->answer(q, kind, reader)) {
		envd_fail(c, CONNECT_INTERNAL, "the guest's answer makes no sense");
		return;
	}
	q->answers++;
	if (buf_len(&q->out) > ENVD_ANSWER_MAX || !envd_charge(c, buf_len(&q->out) - before))
		envd_fail(c, CONNECT_RESOURCE_EXHAUSTED, "the answer is too large");
}

static void refused(struct question *q, int code, const char *why)
{
	const struct question_text *t = q->what->texts;

	if (code == ESRCH) {
		envd_fail_which(&q->call, &q->which);
		return;
	}
	while (t && t->code != 0 && t->code != code)
		t++;
	if (t && t->code != 0)
		envd_fail(&q->call, t->is, "%s%s%s", t->before, q->subject ? q->subject : "",
			t->after);
	else
		envd_fail_errno(&q->call, code, why);
}

static void ended(struct envd_call *c, int code, const char *why)
{
	struct question *q = of(c);
	struct buf out;

	if (code != 0) {
		refused(q, code, why);
		return;
	}
	if (q->what->is_single && q->answers == 0) {
		envd_fail(c, CONNECT_INTERNAL, "the guest gave no answer");
		return;
	}
	if (buf_add(&q->out, q->what->after, strlen(q->what->after)) < 0) {
		envd_fail(c, CONNECT_RESOURCE_EXHAUSTED, "the answer is too large");
		return;
	}
	out = q->out;
	q->out = (struct buf){0};
	envd_reply(c, buf_data(&out), buf_len(&out));
	buf_done(&out);
}

static void release(struct envd_call *c)
{
	struct question *q = of(c);

	buf_done(&q->out);
	free(q->subject);
	free(q->which.tag);
}

static struct question *start(struct api *a, struct http_request *r, struct sandbox *sb,
	enum envd_dialect dialect, const struct envd_question *what)
{
	static const struct envd_ops ops = {
		.size = sizeof(struct question),
		.body = body,
		.linked = linked,
		.message = message,
		.ended = ended,
		.release = release,
	};
	struct question *q = (struct question *)envd_call_start(a, r, sb, dialect, &ops);

	q->what = what;
	/* Room for the frame that passes the cap, so that `answer` need not look at it. */
	q->out.cap = ENVD_ANSWER_MAX + 4 * FRAME_PAYLOAD_MAX;
	return q;
}

void envd_question_ask(
	struct api *a, struct http_request *r, struct sandbox *sb, const struct envd_question *what)
{
	struct question *q;
	uint64_t ms;

	if (!envd_is_type(r, "application/json"))
		return;
	q = start(a, r, sb, ENVD_UNARY, what);
	if (!envd_timeout_ms(&q->call, &ms))
		return;
	envd_call_deadline(&q->call, ms > 0 ? ms : ENVD_PATIENCE_MS);
	if (!envd_basic_user(r, q->call.user))
		envd_fail(&q->call, CONNECT_UNAUTHENTICATED, "invalid username");
	else
		envd_call_collect(&q->call, ENVD_REQUEST_MAX);
}

void envd_question_get(
	struct api *a, struct http_request *r, struct sandbox *sb, const struct envd_question *what)
{
	envd_call_link(&start(a, r, sb, ENVD_PLAIN, what)->call);
}
