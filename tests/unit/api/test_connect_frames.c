/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b: connect_frames, base64, json_text, and entries as JSON: the bytes of the wire.
 */
#include "api/e2b/base64.h"
#include "api/e2b/connect_frames.h"
#include "api/e2b/envd.h"
#include "api/e2b/json_text.h"

#include "tap.h"

static void a_frame_is_flags_length_and_text(void)
{
	/* The reference's own example. */
	static const char bytes[] = "\0\0\0\0\x20{\"event\":{\"start\":{\"pid\":1234}}}";
	struct connect_frame f = {0};
	char header[CONNECT_HEADER];

	CHECK_INT(connect_frame_parse(bytes, sizeof(bytes) - 1, 1000, &f), 37);
	CHECK_INT(f.n, 32);
	CHECK(f.p == bytes + 5 && f.flags == 0);
	for (size_t n = 0; n < sizeof(bytes) - 1; n++)
		CHECK_INT(connect_frame_parse(bytes, n, 1000, &f), 0);
	connect_frame_header(header, CONNECT_END, 0x01020304);
	CHECK(memcmp(header, "\2\1\2\3\4", 5) == 0);
}

static void bad_frames_are_refused_at_once(void)
{
	struct connect_frame f;

	CHECK_INT(connect_frame_parse("\1", 1, 10, &f), -EPROTO); /* compressed */
	CHECK_INT(connect_frame_parse("\4\0\0\0\0", 5, 10, &f), -EPROTO);
	CHECK_INT(connect_frame_parse("\0\xff\xff\xff\xff", 5, 10, &f), -E2BIG);
	CHECK_INT(connect_frame_parse("\0\0\0\0\x0b", 5, 10, &f), -E2BIG);
	CHECK_INT(connect_frame_parse("\2\0\0\0\0", 5, 10, &f), 5);
	CHECK_INT(f.flags, CONNECT_END);
}

static void codes_have_their_words_and_statuses(void)
{
	AUTO_BUF struct buf b = {0};

	CHECK_STR(connect_code_name(CONNECT_RESOURCE_EXHAUSTED), "resource_exhausted");
	CHECK_INT(connect_status(CONNECT_UNAUTHENTICATED), 401);
	CHECK_INT(connect_status(CONNECT_CANCELED), 499);
	CHECK_INT(connect_code_of(ENOENT), CONNECT_NOT_FOUND);
	CHECK_INT(connect_code_of(EKEYREJECTED), CONNECT_UNAUTHENTICATED);
	CHECK_INT(connect_code_of(ENOSPC), CONNECT_RESOURCE_EXHAUSTED);
	CHECK_INT(connect_code_of(99999), CONNECT_INTERNAL);
	CHECK(connect_error_add(&b, CONNECT_NOT_FOUND, "no \"x\"") >= 0);
	(void)buf_add(&b, "", 1);
	CHECK_STR(buf_data(&b), "{\"code\":\"not_found\",\"message\":\"no \\\"x\\\"\"}");
}

static const char *encoded(const char *s, size_t n)
{
	static char out[64];

	out[base64_encode(out, s, n)] = '\0';
	return out;
}

static void base64_is_rfc_4648(void)
{
	char out[16];

	CHECK_STR(encoded("", 0), "");
	CHECK_STR(encoded("f", 1), "Zg==");
	CHECK_STR(encoded("fo", 2), "Zm8=");
	CHECK_STR(encoded("foo", 3), "Zm9v");
	CHECK_STR(encoded("foobar", 6), "Zm9vYmFy");
	CHECK_STR(encoded("\xff\xfe\xfd", 3), "//79");
	CHECK_INT(base64_decode(out, "Zm8=", 4), 2);
	CHECK_INT(base64_decode(out, "Zm8", 3), 2);
	CHECK_INT(base64_decode(out, "_-8", 3), 2);
	CHECK_INT(base64_decode(out, "Zg==", 4), 1);
	CHECK(out[0] == 'f');
	CHECK_INT(base64_decode(out, "", 0), 0);
	CHECK_INT(base64_decode(out, "Z", 1), -EINVAL);
	CHECK_INT(base64_decode(out, "Z===", 4), -EINVAL);
	CHECK_INT(base64_decode(out, "Zm=8", 4), -EINVAL);
	CHECK_INT(base64_decode(out, "Zm8=\n", 5), -EINVAL);
	CHECK_INT(base64_decode(out, "====", 4), -EINVAL);
}

static void check_text(const char *s, size_t n, const char *want)
{
	AUTO_BUF struct buf b = {0};

	CHECK(json_text_addn(&b, s, n) >= 0);
	(void)buf_add(&b, "", 1);
	CHECK_STR(buf_data(&b), want);
}

static void any_bytes_become_json(void)
{
	check_text("plain", 5, "\"plain\"");
	check_text("a\"b\\c\n\t\r\x01\x7f", 10, "\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u007f\"");
	check_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
	check_text("\xff", 1, "\"\xef\xbf\xbd\"");
	check_text("a\xc3", 2, "\"a\xef\xbf\xbd\"");
	check_text("\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");                 /* overlong */
	check_text("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* surrogate */
	check_text("a\0b", 3, "\"a\\u0000b\"");
}

static void check_entry(const struct guest_entry *e, const char *want)
{
	AUTO_BUF struct buf b = {0};

	CHECK(envd_entry_add(&b, e) >= 0);
	(void)buf_add(&b, "", 1);
	CHECK_STR(buf_data(&b), want);
}

static void entries_read_as_upstream_writes_them(void)
{
	char name[] = "tmp", path[] = "/tmp", root[] = "root", none[] = "", to[] = "/usr/bin";
	char key[] = "k", value[] = "v";
	char *metadata[] = {key, value, NULL};
	struct guest_entry e = {.name = name,
		.path = path,
		.type = GUEST_DIR,
		.mode = 01777,
		.owner = root,
		.group = root,
		.size = 4096,
		.mtime_ns = 1767225600123456789,
		.link_target = none};

	check_entry(&e,
		"{\"name\":\"tmp\",\"type\":\"FILE_TYPE_DIRECTORY\",\"size\":\"4096\",\"mode\":511,"
		"\"path\":\"/tmp\",\"permissions\":\"dtrwxrwxrwx\",\"owner\":\"root\",\"group\":"
		"\"root\",\"modifiedTime\":\"2026-01-01T00:00:00.123456789Z\"}");
	e.type = GUEST_FILE;
	e.mode = 04640;
	e.metadata = metadata;
	e.mtime_ns = UINT64_MAX; /* a guest may say anything */
	check_entry(&e,
		"{\"name\":\"tmp\",\"type\":\"FILE_TYPE_FILE\",\"size\":\"4096\",\"mode\":416,"
		"\"path\":\"/tmp\",\"permissions\":\"urw-r-----\",\"owner\":\"root\",\"group\":"
		"\"root\",\"modifiedTime\":\"2554-07-21T23:34:33.709551615Z\","
		"\"metadata\":{\"k\":\"v\"}}");
	e.is_link = 1;
	e.link_target = to;
	e.mode = 0755;
	e.metadata = NULL;
	e.mtime_ns = 0;
	check_entry(&e,
		"{\"name\":\"tmp\",\"type\":\"FILE_TYPE_FILE\",\"size\":\"4096\",\"mode\":493,"
		"\"path\":\"/tmp\",\"permissions\":\"Lrwxrwxrwx\",\"owner\":\"root\",\"group\":"
		"\"root\",\"modifiedTime\":\"1970-01-01T00:00:00.000000000Z\","
		"\"symlinkTarget\":\"/usr/bin\"}");
}

int main(void)
{
	RUN(a_frame_is_flags_length_and_text);
	RUN(bad_frames_are_refused_at_once);
	RUN(codes_have_their_words_and_statuses);
	RUN(base64_is_rfc_4648);
	RUN(any_bytes_become_json);
	RUN(entries_read_as_upstream_writes_them);
	return tap_done();
}
