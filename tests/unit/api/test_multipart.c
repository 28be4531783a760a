/* SPDX-License-Identifier: Apache-2.0 */

/*
 * api/e2b/multipart: what the SDKs send, what nobody should, and every way to cut it in pieces.
 */
#include "api/e2b/multipart.h"

#include "tap.h"

#include <errno.h>
#include <stdlib.h>

/* All events as text: "P<name>|<filename or ->;" data "E;" and "F" at the end, or "!" and errno. */
static void run(const char *type, const char *body, size_t n, size_t piece, struct buf *out)
{
	struct multipart m;

	*out = (struct buf){0};
	if (!multipart_init(&m, (struct h1_text){type, strlen(type)})) {
		(void)buf_add(out, "init", 5);
		return;
	}
	for (size_t at = 0; at < n;) {
		size_t left = n - at < piece ? n - at : piece;

		for (size_t end = at + left; at < end;) {
			struct multipart_event e;
			ssize_t used = multipart_next(&m, body + at, end - at, &e);

			if (used < 0) {
				(void)buf_addf(out, "!%d", (int)-used);
				at = n;
				break;
			}
			at += (size_t)used;
			if (e.kind == MULTIPART_PART)
				(void)buf_addf(
					out, "P%s|%s;", m.name, m.has_filename ? m.filename : "-");
			else if (e.kind == MULTIPART_DATA)
				(void)buf_add(out, e.p, e.n);
			else if (e.kind == MULTIPART_PART_END)
				(void)buf_add(out, "E;", 2);
			else if (e.kind == MULTIPART_END)
				(void)buf_add(out, "F", 1);
		}
	}
	(void)buf_addf(out, "%s", m.is_done ? "" : "...");
	(void)buf_add(out, "", 1);
	multipart_done(&m);
}

#define TYPE "multipart/form-data; boundary=b"

static void check_all(const char *type, const char *body, size_t n, const char *want)
{
	for (size_t piece = 1; piece <= n + 1; piece++) {
		struct buf got;

		run(type, body, n, piece, &got);
		if (!CHECK_STR(buf_data(&got), want)) {
			tap_print("# in pieces of %zu\n", piece);
			buf_done(&got);
			return;
		}
		buf_done(&got);
	}
}
#define ALL(type, body, want) check_all(type, body, sizeof(body) - 1, want)

#define FILE1 "Content-Disposition: form-data; name=\"file\"; filename=\"/home/user/a.txt\"\r\n"

static void one_file_in_any_pieces(void)
{
	ALL(TYPE, "--b\r\n" FILE1 "Content-Type: text/plain\r\n\r\nhello\r\n--b--\r\n",
		"Pfile|/home/user/a.txt;helloE;F");
}

static void several_files_and_other_fields(void)
{
	ALL(TYPE,
		"--b\r\n" FILE1 "\r\nA\r\n--b\r\nContent-Disposition: form-data; name=x\r\n\r\n1"
		"\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\r\n\r\n"
		"\r\n--b--",
		"Pfile|/home/user/a.txt;AE;Px|-;1E;Pfile|b;E;F");
}

static void what_looks_like_a_delimiter_is_data(void)
{
	ALL(TYPE, "--b\r\n" FILE1 "\r\n\r\n-\r\n--\r\n--c\r\r\n--B\r\n -- b--b\r\n--b--",
		"Pfile|/home/user/a.txt;\r\n-\r\n--\r\n--c\r\r\n--B\r\n -- b--bE;F");
}

static void a_preamble_and_an_epilogue_mean_nothing(void)
{
	ALL(TYPE, "hello\r\n--\r\n--b \t\r\n" FILE1 "\r\nA\r\n--b--\r\nbye --b",
		"Pfile|/home/user/a.txt;AE;F");
}

static void a_body_that_breaks_off_is_not_done(void)
{
	ALL(TYPE, "--b\r\n" FILE1 "\r\nA\r\n--", "Pfile|/home/user/a.txt;A...");
	ALL(TYPE, "--b\r\n" FILE1, "...");
	ALL(TYPE, "", "...");
}

static void malformed_bodies_are_refused(void)
{
	ALL(TYPE, "--bX", "!22...");
	ALL(TYPE, "--b-X", "!22...");
	ALL(TYPE, "--b\rX", "!22...");
	ALL(TYPE, "--b\r\nContent-Disposition: form-data; name=\"fi\r\n\r\n", "!22...");
	ALL(TYPE, "--b\r\nContent-Disposition: form-data; name\r\n\r\n", "!22...");
	ALL(TYPE, "--b\r\nContent-Disposition: form-data; name=\"a\0b\"\r\n\r\n", "!22...");
	ALL(TYPE, "--b\r\nContent-Disposition: form-data; name=a; filename*=latin1''x\r\n\r\n",
		"!22...");
}

static void file_names_keep_what_was_sent(void)
{
	ALL(TYPE,
		"--b\r\ncontent-disposition: form-data; NAME=\"file\"; filename=\"a \\\"b\\\" "
		"c;d\\e"
		"\xc3\xa9%22\"\r\n\r\n\r\n--b--",
		"Pfile|a \"b\" c;d\\e\xc3\xa9%22;E;F");
	ALL(TYPE,
		"--b\r\nContent-Disposition: form-data; name=file; filename=x; "
		"filename*=UTF-8''%C3%A9%20a\r\n\r\n\r\n--b--",
		"Pfile|\xc3\xa9 a;E;F");
	ALL(TYPE, "--b\r\nX: y\r\n\r\n\r\n--b--", "P|-;E;F");
	ALL(TYPE, "--b\r\n\r\nno fields at all\r\n--b--", "P|-;no fields at allE;F");
}

static void boundaries_come_quoted_or_not(void)
{
	ALL("multipart/form-data; charset=utf-8; boundary=\"a b\"; x=y",
		"--a b\r\n\r\nA\r\n--a b--", "P|-;AE;F");
	ALL("Multipart/Mixed;boundary=----formdata-undici-012",
		"------formdata-undici-012\r\n\r\nA\r\n------formdata-undici-012--", "P|-;AE;F");
	ALL("multipart/form-data", "--b\r\n", "init");
	ALL("multipart/form-data; boundary=", "--b\r\n", "init");
	ALL("multipart/form-data; boundary=\"b", "--b\r\n", "init");
	ALL("multipart/form-data; boundary=\"b \"", "--b\r\n", "init");
	ALL("text/plain; boundary=b", "--b\r\n", "init");
	ALL("multipart/form-data; "
	    "boundary=00000000000000000000000000000000000000000000000000000000000000000000000",
		"--b\r\n", "init");
}

static void caps_hold(void)
{
	struct buf body = {.cap = 4u << 20}, got;

	(void)buf_addf(&body, "--b\r\nX: ");
	for (int i = 0; i < MULTIPART_HEAD_MAX; i++)
		(void)buf_add(&body, "a", 1);
	run(TYPE, buf_data(&body), buf_len(&body), 1000, &got);
	CHECK_STR(buf_data(&got), "!7...");
	buf_done(&got);
	buf_done(&body);

	body = (struct buf){.cap = 4u << 20};
	for (int i = 0; i <= MULTIPART_PARTS_MAX; i++)
		(void)buf_addf(&body, "%s--b\r\n\r\n", i ? "\r\n" : "");
	run(TYPE, buf_data(&body), buf_len(&body), 4096, &got);
	CHECK(strstr(buf_data(&got), "!7") != NULL);
	buf_done(&got);
	buf_done(&body);
}

int main(void)
{
	RUN(one_file_in_any_pieces);
	RUN(several_files_and_other_fields);
	RUN(what_looks_like_a_delimiter_is_data);
	RUN(a_preamble_and_an_epilogue_mean_nothing);
	RUN(a_body_that_breaks_off_is_not_done);
	RUN(malformed_bodies_are_refused);
	RUN(file_names_keep_what_was_sent);
	RUN(boundaries_come_quoted_or_not);
	RUN(caps_hold);
	return tap_done();
}
