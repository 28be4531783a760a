/* SPDX-License-Identifier: Apache-2.0 */

#include "io/frame.h"

#include "tap.h"

#define T(text) ((char[]){text}) /* a string that is not const */

static void a_header_is_read_as_it_was_written(void)
{
	char bytes[FRAME_HEADER + 3];
	struct frame f;

	frame_header(bytes, 3, FRAME_DATA, 2, 0xfedcba98);
	memcpy(bytes + FRAME_HEADER, "abc", 3);
	CHECK_INT(frame_parse(bytes, sizeof(bytes), &f), FRAME_HEADER + 3);
	CHECK_INT(f.length, 3);
	CHECK_INT(f.type, FRAME_DATA);
	CHECK_INT(f.flags, 2);
	CHECK_INT(f.channel, 0xfedcba98);
	CHECK(f.payload == bytes + FRAME_HEADER);
}

static void part_of_a_frame_wants_more(void)
{
	char bytes[FRAME_HEADER + 3] = {0};
	struct frame f;

	frame_header(bytes, 3, FRAME_END, 0, 1);
	for (size_t n = 0; n < sizeof(bytes); n++)
		CHECK_INT(frame_parse(bytes, n, &f), 0);
}

static void malformed_headers_are_refused_at_once(void)
{
	char bytes[FRAME_HEADER];
	struct frame f;

	frame_header(bytes, FRAME_PAYLOAD_MAX + 1, FRAME_DATA, 0, 1);
	CHECK(frame_parse(bytes, sizeof(bytes), &f) < 0);
	frame_header(bytes, 0xffffffff, FRAME_DATA, 0, 1);
	CHECK(frame_parse(bytes, sizeof(bytes), &f) < 0);
	frame_header(bytes, 0, 0, 0, 1);
	CHECK(frame_parse(bytes, sizeof(bytes), &f) < 0);
	frame_header(bytes, 0, FRAME_END + 1, 0, 1);
	CHECK(frame_parse(bytes, sizeof(bytes), &f) < 0);
	frame_header(bytes, 0, FRAME_DATA, 0, 1);
	bytes[7] = 1;
	CHECK(frame_parse(bytes, sizeof(bytes), &f) < 0);
}

static void fields_come_back_in_order(void)
{
	char *const list[] = {T("one"), T(""), T("three"), NULL};
	struct frame_writer w = {0};
	struct frame_reader r;
	char *s, **v;

	frame_put_u8(&w, 0xfe);
	frame_put_u16(&w, 0xfedc);
	frame_put_u32(&w, 0xfedcba98);
	frame_put_u64(&w, 0xfedcba9876543210);
	frame_put_string(&w, "text");
	frame_put_string(&w, NULL);
	frame_put_strings(&w, list);
	frame_put_strings(&w, NULL);
	CHECK(!w.failed);
	r = (struct frame_reader){.p = buf_data(&w.buf), .n = buf_len(&w.buf)};
	CHECK_INT(frame_get_u8(&r), 0xfe);
	CHECK_INT(frame_get_u16(&r), 0xfedc);
	CHECK_INT(frame_get_u32(&r), 0xfedcba98);
	CHECK(frame_get_u64(&r) == 0xfedcba9876543210);
	s = frame_get_string(&r, 4);
	CHECK_STR(s, "text");
	free(s);
	s = frame_get_string(&r, 0);
	CHECK_STR(s, "");
	free(s);
	v = frame_get_strings(&r, 3, 5);
	CHECK_STR(v[0], "one");
	CHECK_STR(v[1], "");
	CHECK_STR(v[2], "three");
	CHECK(v[3] == NULL);
	frame_free_strings(v);
	v = frame_get_strings(&r, 0, 0);
	CHECK(v[0] == NULL);
	frame_free_strings(v);
	CHECK(frame_ok(&r));
	buf_done(&w.buf);
}

static void a_missing_field_fails_for_good(void)
{
	struct frame_reader r = {.p = "\x01\x02\x03", .n = 3};
	char *s;

	CHECK_INT(frame_get_u32(&r), 0);
	CHECK(r.failed);
	CHECK_INT(frame_get_u8(&r), 0); /* though a byte is there */
	s = frame_get_string(&r, 10);
	CHECK_STR(s, "");
	free(s);
	CHECK(!frame_ok(&r));
}

static void bytes_left_over_are_not_ok(void)
{
	struct frame_reader r = {.p = "\x01\x02", .n = 2};

	CHECK_INT(frame_get_u8(&r), 1);
	CHECK(!frame_ok(&r));
	CHECK_INT(frame_get_u8(&r), 2);
	CHECK(frame_ok(&r));
}

static void strings_past_a_cap_or_with_nul_fail(void)
{
	struct frame_reader cap = {.p = "\x03\0\0\0abc", .n = 7};
	struct frame_reader nul = {.p = "\x03\0\0\0a\0c", .n = 7};
	struct frame_reader lie = {.p = "\xff\xff\xff\xff"
					"abc",
		.n = 7};

	free(frame_get_string(&cap, 2));
	CHECK(cap.failed);
	free(frame_get_string(&nul, 3));
	CHECK(nul.failed);
	free(frame_get_string(&lie, (size_t)-1));
	CHECK(lie.failed);
}

static void a_count_that_cannot_be_true_fails(void)
{
	struct frame_reader many = {.p = "\x02\0\0\0\0\0\0\0\0\0\0\0", .n = 12};
	struct frame_reader lie = {.p = "\xff\xff\xff\x0f\0\0\0\0", .n = 8};

	frame_free_strings(frame_get_strings(&many, 1, 10));
	CHECK(many.failed);
	frame_free_strings(frame_get_strings(&lie, (size_t)-1, 10));
	CHECK(lie.failed);
}

static void a_writer_past_its_cap_stays_failed(void)
{
	struct frame_writer w = {.buf.cap = 8};

	frame_put_u64(&w, 1);
	CHECK(!w.failed);
	frame_put_u8(&w, 1);
	CHECK(w.failed);
	buf_done(&w.buf);
}

int main(void)
{
	RUN(a_header_is_read_as_it_was_written);
	RUN(part_of_a_frame_wants_more);
	RUN(malformed_headers_are_refused_at_once);
	RUN(fields_come_back_in_order);
	RUN(a_missing_field_fails_for_good);
	RUN(bytes_left_over_are_not_ok);
	RUN(strings_past_a_cap_or_with_nul_fail);
	RUN(a_count_that_cannot_be_true_fails);
	RUN(a_writer_past_its_cap_stays_failed);
	return tap_done();
}
