/* SPDX-License-Identifier: Apache-2.0 */

/*
 * core/denial: the same facts in every form, and nothing of a box that could do harm there.
 */
#include "core/denial.h"

#include "tap.h"

#include <jansson.h>

static struct denial sample(void)
{
	return (struct denial){.kind = DENIAL_RULE,
		.name = "pypi.org",
		.port = 443,
		.protocol = "https",
		.method = "POST",
		.path = "/legacy/",
		.rule = "packages/3",
		.reason = "read-only",
		.at_ms = 1700000000123,
		.count = 2};
}

static void a_line_says_what_by_which_rule_and_what_now(void)
{
	struct denial d = sample();
	char text[DENIAL_TEXT_MAX];

	(void)snprintf(d.instead, sizeof(d.instead), "use GET");
	denial_text(&d, text);
	CHECK_STR(text, "POST https://pypi.org/legacy/ refused by rule packages/3: read-only; use "
			"GET");
	d = (struct denial){.kind = DENIAL_NO_RULE, .name = "2606:4700::1", .port = 22};
	denial_text(&d, text);
	CHECK(text_starts(text, "[2606:4700::1]:22 refused: no rule allows it; see http://bawn."
				"internal/"));
	d = (struct denial){.kind = DENIAL_NO_RULE, .name = "x.test", .protocol = "dns"};
	denial_text(&d, text);
	CHECK(text_starts(text, "x.test (name) refused: "));
	d = (struct denial){
		.kind = DENIAL_UPSTREAM, .name = "x.test", .port = 8443, .protocol = "https"};
	denial_text(&d, text);
	CHECK(text_starts(text, "https://x.test:8443 failed: the host could not be reached"));
}

/* An agent that may GET learns so when it POSTs. */
static void a_rule_that_nearly_fits_is_the_reason(void)
{
	static const char json[] =
		"{\"name\":\"p\",\"rules\":[{\"action\":\"allow\",\"hosts\":[\"a.test\"],"
		"\"methods\":[\"GET\",\"HEAD\"],\"paths\":[\"/pub/**\"],\"reason\":"
		"\"read-only\"}]}";
	AUTO(policy_unref) struct policy *p = NULL;
	struct policy_question q = {.name = "a.test",
		.port = 443,
		.protocol = POLICY_HTTPS,
		.method = "POST",
		.path = "/pub/x"};
	struct denial d = {.kind = DENIAL_NO_RULE};
	struct err err = {0};

	CHECK_INT(policy_from_json(json, strlen(json), &p, &err), 0);
	denial_near(&d, p, &q);
	CHECK_STR(d.reason, "rule p/1 allows only GET, HEAD only at /pub/**; read-only");
	q.name = "b.test";
	d = (struct denial){.kind = DENIAL_NO_RULE};
	denial_near(&d, p, &q);
	CHECK_STR(d.reason, "");
}

static void every_kind_has_words_and_a_status(void)
{
	for (int k = 0; k < DENIAL_KIND_COUNT; k++) {
		struct denial d = {.kind = (enum denial_kind)k};

		CHECK(strlen(denial_kind_name(d.kind)) > 2);
		CHECK(denial_status(d.kind) >= 400 && denial_status(d.kind) < 600);
		denial_explain(&d);
		CHECK(d.reason[0] && d.instead[0]);
	}
	CHECK_INT(denial_status(DENIAL_NO_RULE), 403);
	CHECK_INT(denial_status(DENIAL_MISMATCH), 421);
	CHECK_INT(denial_status(DENIAL_BUDGET), 429);
	CHECK_INT(denial_status(DENIAL_UPSTREAM), 502);
}

static void json_comes_back_as_it_went(void)
{
	struct denial d = sample(), back = {0};
	AUTO_FREE char *record = NULL, *envelope = NULL;
	struct err err = {0};

	denial_explain(&d);
	record = denial_record_json(&d);
	CHECK_INT(denial_from_json(record, strlen(record), &back, &err), 0);
	CHECK_INT(back.kind, d.kind);
	CHECK_STR(back.name, d.name);
	CHECK_INT(back.port, 443);
	CHECK_STR(back.protocol, "https");
	CHECK_STR(back.method, "POST");
	CHECK_STR(back.path, d.path);
	CHECK_STR(back.rule, d.rule);
	CHECK_STR(back.reason, d.reason);
	CHECK_STR(back.instead, d.instead);
	CHECK(back.at_ms == d.at_ms && back.count == 2);
	envelope = denial_json(&d);
	CHECK(text_starts(envelope, "{\"error\":{\"code\":\"egress_denied\",\"kind\":\"rule\","));
	CHECK_INT(denial_from_json(envelope, strlen(envelope), &back, &err), 0);
	CHECK_STR(back.path, "/legacy/");
	CHECK_INT(back.at_ms, 0);
}

static void hostile_texts_become_harmless(void)
{
	struct denial d = sample(), back;
	AUTO_FREE char *json = NULL;
	char text[DENIAL_TEXT_MAX];
	struct err err = {0};

	(void)snprintf(d.path, sizeof(d.path), "/\x1b[2J\xff\xfe\"\\");
	memset(d.reason, 'r', sizeof(d.reason) - 1);
	memset(d.instead, 'i', sizeof(d.instead) - 1);
	memset(d.name, 'n', sizeof(d.name) - 1);
	denial_text(&d, text);
	CHECK(strchr(text, '\x1b') == NULL && text_is_line(text));
	CHECK(strlen(text) < DENIAL_TEXT_MAX);
	json = denial_json(&d);
	CHECK_INT(denial_from_json(json, strlen(json), &back, &err), 0);
	CHECK_STR(back.path, "/?[2J\?\?\"\\");
}

static void what_is_no_denial_is_refused(void)
{
	static const char *const bad[] = {"", "[]", "{}", "{\"kind\":\"maybe\"}",
		"{\"kind\":\"rule\",\"port\":65536}", "{\"kind\":3}"};
	struct denial d = {.count = 7};
	struct err err = {0};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_INT(denial_from_json(bad[i], strlen(bad[i]), &d, &err), -EINVAL);
	CHECK_INT(d.count, 7);
}

int main(void)
{
	RUN(a_line_says_what_by_which_rule_and_what_now);
	RUN(a_rule_that_nearly_fits_is_the_reason);
	RUN(every_kind_has_words_and_a_status);
	RUN(json_comes_back_as_it_went);
	RUN(hostile_texts_become_harmless);
	RUN(what_is_no_denial_is_refused);
	return tap_done();
}
