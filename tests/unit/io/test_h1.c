/* SPDX-License-Identifier: Apache-2.0 */

#include "h1_oracle.h"
#include "io/h1.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

#define GET  "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define TE   POST "Transfer-Encoding: chunked\r\n\r\n"

struct message {
	const char *bytes;
	size_t n;
	int verdict;
};
#define M(text, verdict)                                                                           \
	{                                                                                          \
		text, sizeof(text) - 1, verdict                                                    \
	}

/* Two parsers could read each of these in two ways, or no honest client sends it. */
static const struct message refused[] = {
	M("\r\n" GET "Host: a\r\n\r\n", 400),
	M("GET / HTTP/1.1\nHost: a\n\n", 400),
	M("GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
	M("GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
	M("GET / HTTP/1.1\rHost: a\r\n\r\n", 400),
	M("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
	M(" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET / HTTP/1.1\r\n\r\n", 400),
	M("GET /\r\nHost: a\r\n\r\n", 400),
	M("GET\r\nHost: a\r\n\r\n", 400),
	M("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET / HTTP/1\r\nHost: a\r\n\r\n", 400),
	M("GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
	M("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
	M("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
	M("GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
	M("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
	M(GET "Host : a\r\n\r\n", 400),
	M(GET "Host: a\r\nX Y: b\r\n\r\n", 400),
	M(GET "Host: a\r\n: b\r\n\r\n", 400),
	M(GET "Host: a\r\nX\r\n\r\n", 400),
	M(GET "Host: a\r\nX: b\r\n c\r\n\r\n", 400),
	M(GET " Host: a\r\n\r\n", 400),
	M(GET "Host: a\r\nX: b\0c\r\n\r\n", 400),
	M(GET "Host: a\r\nX: b\rc\r\n\r\n", 400),
	M(GET "Host: a\r\nX: b\x7f\r\n\r\n", 400),
	M(GET "Host: a\r\nX: \x1b[0m\r\n\r\n", 400),
	M(GET "Host: a\r\nX\xa0: b\r\n\r\n", 400),
	M(GET "Host: a\r\nHost: a\r\n\r\n", 400),
	M(GET "Host: a\r\nhOST: b\r\n\r\n", 400),
	M(GET "Host: a,b\r\n\r\n", 400),
	M(GET "Host: a b\r\n\r\n", 400),
	M(GET "Host: user@a\r\n\r\n", 400),
	M(GET "Host: a/b\r\n\r\n", 400),
	M("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
	M(POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
	M(POST "Content-Length: 1\r\nContent-Length: 2\r\n\r\na", 400),
	M(POST "Content-Length: 1, 1\r\n\r\na", 400),
	M(POST "Content-Length: +1\r\n\r\na", 400),
	M(POST "Content-Length: -1\r\n\r\na", 400),
	M(POST "Content-Length: 0x1\r\n\r\na", 400),
	M(POST "Content-Length: 1 1\r\n\r\na", 400),
	M(POST "Content-Length:\r\n\r\n", 400),
	M(POST "Content-Length: 9999999999999999999\r\n\r\n", 400),
	M(POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
	M(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
	M(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
	M(POST "Transfer-Encoding: chunked, chunked\r\n\r\n", 501),
	M(POST "Transfer-Encoding: identity\r\n\r\n", 501),
	M(POST "Transfer-Encoding: xchunked\r\n\r\n", 501),
	M(POST "Transfer-Encoding: \"chunked\"\r\n\r\n", 501),
	M(POST "Transfer-Encoding:\r\n\r\n", 501),
	M(POST "Transfer-Encoding: chunked\x0b\r\n\r\n", 400),
	M(POST "Transfer-Encoding : chunked\r\n\r\n", 400),
	M("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
	M(POST "Expect: 200-ok\r\n\r\n", 417),
	M(TE "\r\n", ORACLE_BAD_BODY),
	M(TE "g\r\n", ORACLE_BAD_BODY),
	M(TE "0x1\r\na\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE " 1\r\na\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "1 \r\na\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "+1\r\na\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "1\na\n0\n\n", ORACLE_BAD_BODY),
	M(TE "1\r\na\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "1\r\nab\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "1\r\r\na\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "1;\x01\r\na\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "1;a\nb\r\na\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "0000000000000001\r\na\r\n0\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "ffffffffffffffff\r\na", ORACLE_BAD_BODY),
	M(TE "0\r\nbad name: x\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "0\r\n: x\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "0\r\n folded\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "0\r\nX: y\n\r\n", ORACLE_BAD_BODY),
	M(TE "0\r\nX: \x01\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "0\r\nX\r\n\r\n", ORACLE_BAD_BODY),
	M(TE "0\r\n\rX", ORACLE_BAD_BODY),
};

static const struct message accepted[] = {
	M(GET "Host: a\r\n\r\n", 0),
	M("GET / HTTP/1.0\r\n\r\n", 0),
	M(GET "Host:\r\n\r\n", 0),
	M(GET "host:\t [::1]:80 \t\r\nX:\r\nY: \xc3\xa4 b\tc\r\n\r\n", 0),
	M("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0),
	M(POST "Content-Length: 5\r\n\r\nhello", 5),
	M(POST "Content-Length: 000000000000000005\r\n\r\nhello", 5),
	M(POST "Content-Length: 0\r\n\r\n", 0),
	M(TE "5\r\nhello\r\n0\r\n\r\n", 5),
	M(TE "3;x=\"y\";z\r\nhel\r\n2\r\nlo\r\n000\r\nX-Sum: 1\r\nY:\r\n\r\n", 5),
	M(POST "Transfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", 10),
};

static bool is_same(struct oracle a, struct oracle b)
{
	return a.verdict == b.verdict && a.used == b.used && a.payload_n == b.payload_n &&
	       a.sum == b.sum;
}

static void ambiguous_messages_are_refused(void)
{
	CHECK(sizeof(refused) / sizeof(refused[0]) >= 53);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct oracle o = oracle_read(refused[i].bytes, refused[i].n, SIZE_MAX / 2, false);

		if (!CHECK_INT(o.verdict, refused[i].verdict))
			tap_print("# message %zu: %s\n", i, refused[i].bytes);
	}
}

static void plain_messages_are_accepted(void)
{
	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		struct oracle o =
			oracle_read(accepted[i].bytes, accepted[i].n, SIZE_MAX / 2, false);

		if (!CHECK_INT(o.verdict, ORACLE_DONE) || !CHECK_INT(o.used, accepted[i].n) ||
			!CHECK_INT(o.payload_n, accepted[i].verdict))
			tap_print("# message %zu: %s\n", i, accepted[i].bytes);
	}
}

static void pieces_change_nothing(void)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct oracle whole =
			oracle_read(refused[i].bytes, refused[i].n, SIZE_MAX / 2, false);

		for (size_t step = 1; step < refused[i].n; step++)
			CHECK(is_same(
				whole, oracle_read(refused[i].bytes, refused[i].n, step, false)));
	}
	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
		const struct message *m = &accepted[i];
		struct oracle whole = oracle_read(m->bytes, m->n, SIZE_MAX / 2, false);

		for (size_t step = 1; step < m->n; step++)
			CHECK(is_same(whole, oracle_read(m->bytes, m->n, step, false)));
		/* Cut short, it is not whole, and not malformed either. */
		for (size_t n = 1; n < m->n; n++)
			CHECK_INT(oracle_read(m->bytes, n, 7, false).verdict, ORACLE_MORE);
	}
}

static int parse(const char *text, struct h1_head *h)
{
	return h1_parse_request(text, strlen(text), h);
}

static void head_tells_what_matters(void)
{
	static struct h1_head h;

	CHECK_INT(parse("PUT /a?b=c HTTP/1.1\r\nHost: x:1\r\nExpect: 100-Continue\r\n"
			"Content-Length: 3\r\nConnection: foo, Close\r\n\r\n",
			  &h),
		0);
	CHECK(h1_is(h.method, "PUT") && h1_is(h.target, "/a?b=c"));
	CHECK(h.minor == 1 && h.framing == H1_LENGTH && h.length == 3);
	CHECK(!h.keep_alive && h.expects_continue && !h.wants_upgrade);
	CHECK(h1_find(&h, "HOST") && h1_is(h1_find(&h, "HOST")->value, "x:1"));
	CHECK(!h1_find(&h, "hos"));

	CHECK_INT(parse(GET "Host: x\r\nConnection: keep-alive\r\nConnection: Upgrade\r\n"
			    "Upgrade: websocket\r\n\r\n",
			  &h),
		0);
	CHECK(h.keep_alive && h.wants_upgrade && h.framing == H1_NO_BODY);
	CHECK_INT(parse(GET "Host: x\r\nUpgrade: websocket\r\n\r\n", &h), 0);
	CHECK(!h.wants_upgrade);
	CHECK_INT(parse("GET / HTTP/1.0\r\n\r\n", &h), 0);
	CHECK(!h.keep_alive);
	CHECK_INT(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &h), 0);
	CHECK(h.keep_alive);
	/* Nothing to wait for: no 100 to be sent. */
	CHECK_INT(parse(GET "Host: x\r\nExpect: 100-continue\r\n\r\n", &h), 0);
	CHECK(!h.expects_continue);
}

static void heads_have_caps(void)
{
	static struct h1_head h;
	static char text[H1_HEAD_MAX + 100];
	int n = snprintf(text, sizeof(text), GET "Host: x\r\n");

	for (int i = 0; i < H1_FIELDS_MAX - 1; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "X: y\r\n");
	(void)snprintf(text + n, sizeof(text) - (size_t)n, "\r\n");
	CHECK_INT(parse(text, &h), 0);
	CHECK_INT(h.fields_n, H1_FIELDS_MAX);
	(void)snprintf(text + n, sizeof(text) - (size_t)n, "X: y\r\n\r\n");
	CHECK_INT(parse(text, &h), 431);

	memset(text, 'a', sizeof(text));
	memcpy(text, "GET /", 5);
	(void)snprintf(text + 40000, 100, " HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_INT(parse(text, &h), 414);
	memset(text, 'a', sizeof(text));
	memcpy(text, GET "Host: ", strlen(GET "Host: "));
	memcpy(text + H1_HEAD_MAX - 2, "\r\n\r\n", 5);
	CHECK_INT(parse(text, &h), 431);
}

static int answer(const char *method, const char *text, struct h1_head *h)
{
	struct h1_text m = {method, strlen(method)};

	return h1_parse_response(text, strlen(text), m, h);
}

static void responses_are_framed_by_status_and_method(void)
{
	static struct h1_head h;

	CHECK_INT(answer("GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", &h), 0);
	CHECK(h.status == 200 && h.framing == H1_LENGTH && h.length == 5 && h.keep_alive);
	CHECK_INT(answer("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", &h), 0);
	CHECK(h.framing == H1_NO_BODY && h.length == 5);
	CHECK_INT(answer("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", &h), 0);
	CHECK(h.framing == H1_NO_BODY);
	CHECK_INT(answer("GET", "HTTP/1.1 204\r\n\r\n", &h), 0);
	CHECK(h.framing == H1_NO_BODY);
	CHECK_INT(answer("GET", "HTTP/1.0 200 \r\n\r\n", &h), 0);
	CHECK(h.framing == H1_UNTIL_CLOSE && !h.keep_alive);
	CHECK_INT(answer("GET", "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", &h),
		0);
	CHECK(h.framing == H1_NO_BODY && h.wants_upgrade);
	CHECK_INT(answer("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &h), 0);
	CHECK(h.framing == H1_CHUNKED);
}

static void malformed_responses_are_502(void)
{
	static const char *const bad[] = {
		"HTTP/1.1 200OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/2 200 OK\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n",
		"ICY 200 OK\r\n\r\n",
		"HTTP/1.1 200 O\x01K\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA B: c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n",
		"HTTP/1.1 200 OK\r\n",
		"",
	};
	static struct h1_head h;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!CHECK_INT(answer("GET", bad[i], &h), 502))
			tap_print("# response %zu: %s\n", i, bad[i]);
}

static void long_extensions_and_trailers_are_refused(void)
{
	char text[6000];
	int n = snprintf(text, sizeof(text), TE "1;");

	memset(text + n, 'x', 300);
	memcpy(text + n + 300, "\r\na\r\n0\r\n\r\n", 11);
	CHECK_INT(oracle_read(text, (size_t)n + 310, 100, false).verdict, ORACLE_BAD_BODY);
	n = snprintf(text, sizeof(text), TE "0\r\nX: ");
	memset(text + n, 'x', 5000);
	memcpy(text + n + 5000, "\r\n\r\n", 5);
	CHECK_INT(oracle_read(text, (size_t)n + 5004, 100, false).verdict, ORACLE_BAD_BODY);
}

static void trailers_are_there_for_who_wants_them(void)
{
	static const char body[] = "3\r\nabc\r\n0\r\nA: 1\r\nDigest: x=y\r\n\r\nGET";
	AUTO_BUF struct buf lines = {0};
	struct h1_head h = {.framing = H1_CHUNKED};
	struct h1_body b;
	size_t at = 0;

	h1_body_init(&b, &h);
	b.trailers = &lines;
	while (at < sizeof(body) - 1 && !b.is_done) {
		const char *out;
		size_t out_n;
		ssize_t used = h1_body_feed(&b, body + at, 1, &out, &out_n);

		if (!CHECK(used >= 0))
			return;
		at += (size_t)used;
	}
	CHECK(b.is_done && at == sizeof(body) - 1 - 3);
	CHECK(buf_len(&lines) == 19 &&
		memcmp(buf_data(&lines), "A: 1\r\nDigest: x=y\r\n", 19) == 0);
}

static void lists_are_searched_by_token(void)
{
	struct h1_text t = {"a, Bc ,\td,,", 11};

	CHECK(h1_has_token(t, "a") && h1_has_token(t, "bC") && h1_has_token(t, "d"));
	CHECK(!h1_has_token(t, "c") && !h1_has_token(t, "b"));
}

static void escapes_are_undone_or_refused(void)
{
	char out[8];

	CHECK_INT(h1_unescape("a%2Fb+c", 7, false, out, sizeof(out)), 5);
	CHECK_STR(out, "a/b+c");
	CHECK_INT(h1_unescape("a+b", 3, true, out, sizeof(out)), 3);
	CHECK_STR(out, "a b");
	CHECK_INT(h1_unescape("%", 1, false, out, sizeof(out)), -EINVAL);
	CHECK_INT(h1_unescape("%2", 2, false, out, sizeof(out)), -EINVAL);
	CHECK_INT(h1_unescape("%2g", 3, false, out, sizeof(out)), -EINVAL);
	CHECK_INT(h1_unescape("%00", 3, false, out, sizeof(out)), -EINVAL);
	CHECK_INT(h1_unescape("12345678", 8, false, out, sizeof(out)), -ENAMETOOLONG);
	CHECK_INT(h1_unescape("1234567", 7, false, out, sizeof(out)), 7);
}

static void query_is_searched_by_whole_names(void)
{
	struct h1_text q = {"ab=1&a=2&a=3&flag&x=", 20}, t;

	CHECK(h1_query(q, "a", &t) && h1_is(t, "2"));
	CHECK(h1_query(q, "flag", &t) && t.n == 0);
	CHECK(h1_query(q, "x", &t) && t.n == 0);
	CHECK(!h1_query(q, "b", &t) && !h1_query(q, "1", &t));
}

int main(void)
{
	RUN(ambiguous_messages_are_refused);
	RUN(plain_messages_are_accepted);
	RUN(pieces_change_nothing);
	RUN(head_tells_what_matters);
	RUN(heads_have_caps);
	RUN(responses_are_framed_by_status_and_method);
	RUN(malformed_responses_are_502);
	RUN(long_extensions_and_trailers_are_refused);
	RUN(trailers_are_there_for_who_wants_them);
	RUN(lists_are_searched_by_token);
	RUN(escapes_are_undone_or_refused);
	RUN(query_is_searched_by_whole_names);
	return tap_done();
}
