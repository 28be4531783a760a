/* SPDX-License-Identifier: Apache-2.0 */

/*
 * run/warden_check: every field of a question that no honest asker would send is named. Pure.
 */
#include "run/warden.h"
#include "tap.h"

#include <errno.h>
#include <stddef.h>

static struct warden_message q, got;
static struct err err;

static void fresh(uint32_t op)
{
	memset(&q, 0, sizeof(q));
	memset(&got, 0x55, sizeof(got));
	err = (struct err){0};
	q.op = op;
	q.number = 7;
	if (op != WARDEN_LIST)
		memcpy(q.id, "iabc123", 8);
	if (op != WARDEN_START)
		return;
	memcpy(q.spec.tier, "process", 8);
	memcpy(q.spec.template, "base", 5);
	memcpy(q.spec.hostname, "e2b.local", 10);
	q.spec.memory_max = 512 << 20;
	q.spec.cpu_milli = 2000;
	q.spec.pids_max = 512;
	q.spec.disk_max = 1ull << 30;
	q.spec.open_files = 65536;
	q.spec.allow_sudo = q.spec.want_loopback = 1;
}

static int check(void)
{
	return warden_check(&q, sizeof(q), &got, &err);
}

static void refused(const char *why)
{
	unsigned char first = 0x55;

	CHECK_INT(check(), -EINVAL);
	CHECK_STR(err.msg, why);
	CHECK(memcmp(&got, &first, 1) == 0); /* written on success only */
}

static void honest_questions_pass_unchanged(void)
{
	for (uint32_t op = WARDEN_START; op <= WARDEN_ROAD; op++) {
		fresh(op);
		CHECK_INT(check(), 0);
		/* Byte for byte, padding included: it is a packet. */
		CHECK(memcmp((const char *)&q, (const char *)&got, sizeof(q)) == 0);
	}
}

static void a_packet_has_exactly_one_size(void)
{
	static char big[sizeof(q) + 1];

	fresh(WARDEN_STOP);
	memcpy(big, &q, sizeof(q));
	for (size_t n = 0; n < sizeof(q); n++)
		CHECK_INT(warden_check(big, n, &got, &err), -EINVAL);
	CHECK_INT(warden_check(big, sizeof(q) + 1, &got, &err), -EINVAL);
	CHECK_INT(warden_check(big, sizeof(q), &got, &err), 0);
}

static void the_head_is_checked(void)
{
	static const uint32_t bad[] = {0, WARDEN_BOX, WARDEN_ENDED, 8, UINT32_MAX};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fresh(WARDEN_STOP);
		q.op = bad[i];
		refused("bad field 'op'");
	}
	fresh(WARDEN_STOP);
	q.code = -1;
	refused("bad field 'code'");
	fresh(WARDEN_STOP);
	q.number = 0;
	refused("bad field 'number'");
}

static void an_id_cannot_lead_anywhere(void)
{
	static const char *const bad[] = {
		"", "..", "a/b", "A", "a b", "a.", "-a", "a\n", "\xc3\xa4"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fresh(WARDEN_STOP);
		memset(q.id, 0, sizeof(q.id));
		memcpy(q.id, bad[i], strlen(bad[i]));
		refused("bad field 'id'");
	}
	fresh(WARDEN_STOP);
	memset(q.id, 'a', sizeof(q.id)); /* no end */
	refused("bad field 'id'");
	fresh(WARDEN_STOP);
	q.id[20] = 'x'; /* behind the end */
	refused("bad field 'id'");
	fresh(WARDEN_LIST);
	q.id[0] = 'a';
	refused("bad field 'id'");
}

static void texts_of_a_spec_are_checked(void)
{
	fresh(WARDEN_START);
	memset(q.spec.tier, 0, sizeof(q.spec.tier));
	refused("bad field 'tier'");
	fresh(WARDEN_START);
	memset(q.spec.template, 'a', sizeof(q.spec.template));
	refused("bad field 'template'");
	fresh(WARDEN_START);
	memcpy(q.spec.template, "../x", 5);
	refused("bad field 'template'");
	fresh(WARDEN_START);
	memcpy(q.spec.hostname, "-a", 3);
	refused("bad field 'hostname'");
	fresh(WARDEN_START);
	memcpy(q.spec.hostname, "a\nb", 4);
	refused("bad field 'hostname'");
	fresh(WARDEN_START);
	memset(q.spec.hostname, 0, sizeof(q.spec.hostname));
	CHECK_INT(check(), 0);
}

static void numbers_of_a_spec_are_checked(void)
{
	static const struct {
		size_t at;
		const char *why;
	} fields[] = {
		{offsetof(struct warden_message, spec.memory_max), "bad field 'memory_max'"},
		{offsetof(struct warden_message, spec.cpu_milli), "bad field 'cpu_milli'"},
		{offsetof(struct warden_message, spec.pids_max), "bad field 'pids_max'"},
		{offsetof(struct warden_message, spec.disk_max), "bad field 'disk_max'"},
		{offsetof(struct warden_message, spec.open_files), "bad field 'open_files'"},
	};
	const uint64_t most = UINT64_MAX;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		fresh(WARDEN_START);
		memcpy((char *)&q + fields[i].at, &most, sizeof(most));
		refused(fields[i].why);
	}
	fresh(WARDEN_START);
	q.spec.allow_sudo = 2;
	refused("bad field 'allow_sudo'");
	fresh(WARDEN_START);
	q.spec.want_loopback = 255;
	refused("bad field 'want_loopback'");
	fresh(WARDEN_START);
	q.spec.want_loopback = 1;
	q.spec.want_road = 2;
	refused("bad field 'want_road'");
	fresh(WARDEN_START);
	q.spec.want_loopback = 0;
	q.spec.want_road = 1; /* of addresses that are not there */
	refused("bad field 'want_road'");
	fresh(WARDEN_START);
	q.spec.zero[4] = 1;
	refused("bad field 'zero'");
}

/* Whatever lies there would be somebody's memory. */
static void nothing_may_follow_the_last_field(void)
{
	for (uint32_t op = WARDEN_START; op <= WARDEN_ROAD; op++) {
		size_t used = offsetof(struct warden_message, spec) +
			      (op == WARDEN_START ? sizeof(q.spec) : 0);

		for (size_t at = used; at < sizeof(q); at++) {
			fresh(op);
			((char *)&q)[at] = 1;
			CHECK_INT(check(), -EINVAL);
		}
		CHECK_STR(err.msg, "bytes after the last field");
	}
}

int main(void)
{
	RUN(honest_questions_pass_unchanged);
	RUN(a_packet_has_exactly_one_size);
	RUN(the_head_is_checked);
	RUN(an_id_cannot_lead_anywhere);
	RUN(texts_of_a_spec_are_checked);
	RUN(numbers_of_a_spec_are_checked);
	RUN(nothing_may_follow_the_last_field);
	return tap_done();
}
